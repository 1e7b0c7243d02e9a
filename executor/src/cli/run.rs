//! `mcplan run`: the executor.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use mcplan_compiler::Compilation;
use mcplan_compiler::plan::Budget;
use mcplan_compiler::prompt_template::Template;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::caller;
use super::project::{Project, Which};
use super::report::{self, CouldNot, Outcome};
use crate::core::baseline::Baseline;
use crate::core::caller::Caller;
use crate::core::session::{Disclosure, DisclosureSetting};
use crate::core::tokens;
use crate::runtime::connection::Context;
use crate::runtime::executor::{Executor, SWEEP};
use crate::runtime::places::Places;
use crate::runtime::process;
use crate::runtime::program::Program;
use crate::runtime::reload::{Loaded, follow};
use crate::runtime::signals::Signals;
use crate::runtime::watcher::Watcher;
use crate::serve::mcp;

/// Run the plan: connect the servers and serve agents
#[derive(Debug, Args)]
pub(super) struct Run {
    /// Be an MCP server on stdin and stdout
    #[arg(long, required = true)]
    stdio: bool,
    /// Serve this agent [default: lead]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The directory that the session works in [default: the current one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// How a session learns of deferred tools [default: `serve.disclosure`]
    #[arg(long, value_enum, value_name = "MODE")]
    disclosure: Option<DisclosureArgument>,
    /// Serve only what is locked: refuse a config that its lock doesn't fit, hide tools that aren't in the lock
    #[arg(long)]
    locked: bool,
    /// Serve the lock alone; the config is not even read
    #[arg(long, conflicts_with = "locked")]
    frozen: bool,
    /// Don't follow changes of the files
    #[arg(long)]
    no_watch: bool,
    /// Don't put a guard above the executor that ends all processes when it is killed
    #[arg(long)]
    no_guard: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum DisclosureArgument {
    /// bridge for clients without initialize (2026-07-28), promote for all others
    Auto,
    /// Search puts tools into the list
    Promote,
    /// The list stays the same; call_mcp_tool calls what search found
    Bridge,
    /// Every tool is listed
    All,
}

impl From<DisclosureArgument> for DisclosureSetting {
    fn from(argument: DisclosureArgument) -> Self {
        match argument {
            DisclosureArgument::Auto => Self::Auto,
            DisclosureArgument::Promote => Self::Always(Disclosure::Promote),
            DisclosureArgument::Bridge => Self::Always(Disclosure::Bridge),
            DisclosureArgument::All => Self::Always(Disclosure::All),
        }
    }
}

impl Run {
    /// Whether this process should become the guard. It shouldn't where it is the guard's child, nor as process 1, whose
    /// end takes everything with it.
    pub(super) fn wants_guard(&self) -> bool {
        !self.no_guard && !process::guard::is_present() && std::process::id() != 1
    }

    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        process::guard::adopt()?;
        let trust = self.trust();
        let project = if trust == Trust::Frozen { Project::find_locked(which)? } else { Project::find(which)? };
        let judged = compile(&project, trust).and_then(|compilation| program(&project, trust, compilation));
        let program = match or_outcome(judged)? {
            Ok(program) => program,
            Err(outcome) => return Ok(outcome),
        };
        let here = std::env::current_dir().ok();
        let caller = caller(&program.plan, self.agent.as_deref(), self.workspace.as_deref().or(here.as_deref()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let outcome = runtime.block_on(self.serve(project, program, caller));
        // A read of stdin that waits in a thread must not keep us.
        runtime.shutdown_background();
        process::sweep(SWEEP);
        outcome
    }

    fn trust(&self) -> Trust {
        match (self.locked, self.frozen) {
            (_, true) => Trust::Frozen,
            (true, false) => Trust::Locked,
            (false, false) => Trust::Config,
        }
    }

    async fn serve(&self, project: Project, program: Program, caller: Caller) -> anyhow::Result<Outcome> {
        let mut signals = Signals::new()?;
        let disclosure = self.disclosure.map_or_else(|| program.plan.serve.disclosure.into(), DisclosureSetting::from);
        let (executor, task) = Executor::start(program, Context::of_process(&project.directory));
        let stop = CancellationToken::new();
        let following = self.follow(&project, &executor)?;
        let streams = rmcp::transport::stdio_pipes();
        let mut serving = std::pin::pin!(mcp::serve(executor.clone(), disclosure, caller, streams, stop.clone()));
        let mut served = None;
        tokio::select! {
            result = &mut serving => served = Some(result),
            _ = signals.stop() => {}
            // The client has hung up.
            () = stop.cancelled() => {}
        }
        let asked = Instant::now();
        stop.cancel();
        let served = match served {
            Some(served) => served,
            // Requests in flight are answered first; the time that it takes is theirs, and nobody gets it twice.
            None => serving.await,
        };
        following.abort();
        executor.shutdown(asked).await;
        // It has nothing left to do; a panic in it has been printed.
        let _ended = task.await;
        match served {
            Ok(()) => Ok(Outcome::Fine),
            Err(problem) => {
                report::error(problem);
                Ok(Outcome::DoesNotHold)
            }
        }
    }

    fn follow(&self, project: &Project, executor: &Executor) -> anyhow::Result<tokio::task::JoinHandle<()>> {
        let project = project.clone();
        let trust = self.trust();
        let watcher = if self.no_watch {
            None
        } else {
            Some(Watcher::new(&watched(&project, trust)).map_err(|error| {
                CouldNot::new(format!("the config's directory can't be watched: {error}; --no-watch does without"))
            })?)
        };
        let signals = Signals::new()?;
        Ok(tokio::spawn(follow(executor.clone(), watcher, Arc::new(move || load(&project, trust)), signals)))
    }
}

/// What decides: the config, or the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// The config; the lock is a baseline, as far as it still speaks of the same servers.
    Config,
    /// The config, which must be the one that was locked; nothing is served that isn't in the lock.
    Locked,
    /// The lock; no config is read.
    Frozen,
}

/// The files that are read and looked for in any case.
fn watched(project: &Project, trust: Trust) -> Vec<PathBuf> {
    match trust {
        Trust::Config | Trust::Locked => vec![project.config.clone(), project.lock.clone()],
        Trust::Frozen => vec![project.lock.clone()],
    }
}

/// What the files of a project say now.
fn load(project: &Project, trust: Trust) -> Loaded {
    let mut files = watched(project, trust);
    let judged = compile(project, trust).and_then(|compilation| {
        files.extend(compilation.iter().flat_map(|compilation| project.files(compilation)));
        judge(project, trust, compilation)
    });
    let (program, warnings) = match judged {
        Ok((program, stale)) => (Ok(program), stale.into_iter().collect()),
        Err(refused) => (Err(refused.to_string()), Vec::new()),
    };
    Loaded { program, files, warnings }
}

/// Compiles what is to be run: its plugins are asked, and one that fails costs only its own servers. Where the lock
/// decides, what the plugins printed is in it; and where it alone does, there is nothing to compile.
fn compile(project: &Project, trust: Trust) -> Result<Option<Compilation>, Refused> {
    match trust {
        Trust::Config => {
            let (compilation, failed) = project.compile_and_run_plugins()?;
            failed.iter().for_each(|failure| tracing::warn!("{failure}"));
            Ok(Some(compilation))
        }
        Trust::Locked => Ok(Some(project.compile()?)),
        Trust::Frozen => Ok(None),
    }
}

/// Why there is nothing to run.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refused {
    /// The config has errors; this is the report.
    // Where a template is wrong, it is watched too: mending it must be noticed.
    #[error("{}", report::no_plan(.0, false).trim_end())]
    Config(Box<Compilation>),
    /// The lock isn't there, or isn't the config's.
    #[error("{0}")]
    Lock(String),
    #[error(transparent)]
    Other(#[from] CouldNot),
}

/// The program of a compilation, with the lock, as far as it still speaks of the plan's servers; and what to say when it
/// no longer fits.
fn judge(
    project: &Project,
    trust: Trust,
    compilation: Option<Compilation>,
) -> Result<(Program, Option<String>), Refused> {
    let lock = project.read_lock().map_err(|problem| CouldNot::new(problem.to_string()))?;
    let (plan, lock, stale) = match (compilation, lock) {
        (_, None) if trust != Trust::Config => {
            return Err(Refused::Lock(format!("no lock here ({}): run 'mcplan lock'", project.lock.display())));
        }
        (None, lock) => {
            let plan = lock.as_ref().map(|lock| lock.plan.clone());
            (plan.ok_or_else(|| CouldNot::new("there is neither a config nor a lock"))?, lock, None)
        }
        (Some(compilation), lock) => {
            let Some(plan) = compilation.plan.clone() else { return Err(Refused::Config(Box::new(compilation))) };
            let sources = project.sources(&compilation);
            let drifts = lock.as_ref().map(|lock| lock.check(&plan, &sources)).unwrap_or_default();
            let path = project.lock.display();
            if trust == Trust::Locked && !drifts.is_empty() {
                let reasons: Vec<_> = drifts.iter().map(|drift| format!("  {drift}")).collect();
                let config = project.config.display();
                return Err(Refused::Lock(format!(
                    "{path} doesn't fit {config}: run 'mcplan lock'\n{}",
                    reasons.join("\n")
                )));
            }
            let stale = (!drifts.is_empty())
                .then(|| format!("lock-stale: {path} doesn't fit the config any more; run 'mcplan lock'"));
            (plan, lock, stale)
        }
    };
    let template =
        Template::parse(plan.prompt.template.content.text()).map_err(|error| CouldNot::new(error.to_string()))?;
    if matches!(plan.prompt.budget, Budget::Tokens(_)) {
        tokens::counter().map_err(|error| CouldNot::new(error.to_string()))?;
    }
    let program = Program {
        plan: Arc::new(plan),
        baseline: lock.map(|lock| Arc::new(Baseline::new(lock, trust != Trust::Config))),
        template: Arc::new(template),
        places: Arc::new(Places::of_machine(&project.directory)),
    };
    Ok((program, stale))
}

/// The program of a project at start.
pub(super) fn program(project: &Project, trust: Trust, compilation: Option<Compilation>) -> Result<Program, Refused> {
    let (program, stale) = judge(project, trust, compilation)?;
    stale.iter().for_each(|stale| tracing::warn!("{stale}"));
    Ok(program)
}

/// A program, or how the command ends without one; why is printed.
pub(super) fn or_outcome(judged: Result<Program, Refused>) -> anyhow::Result<Result<Program, Outcome>> {
    match judged {
        Ok(program) => Ok(Ok(program)),
        Err(Refused::Config(compilation)) => Ok(Err(report::refused(&compilation))),
        Err(Refused::Lock(message)) => {
            report::error(message);
            Ok(Err(Outcome::DoesNotHold))
        }
        Err(Refused::Other(problem)) => Err(problem.into()),
    }
}
