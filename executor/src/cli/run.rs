//! `mcplan run`: the executor.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use clap::{Args, ValueEnum};
use mcplan_compiler::Compilation;
use mcplan_compiler::prompt_template::Template;
use tokio_util::sync::CancellationToken;

use super::caller;
use super::project::{Project, Which};
use super::report::{self, CouldNot, Outcome};
use crate::core::caller::Caller;
use crate::core::session::{Disclosure, DisclosureSetting};
use crate::core::tokens;
use crate::runtime::connection::Context;
use crate::runtime::executor::{Executor, SHUTDOWN};
use crate::runtime::places::Places;
use crate::runtime::process;
use crate::runtime::reload::{Loaded, follow};
use crate::runtime::signals::Signals;
use crate::runtime::supervisor::Program;
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
        let project = Project::find(which)?;
        let program = match program(&project, compile(&project)?)? {
            Ok(program) => program,
            Err(outcome) => return Ok(outcome),
        };
        let here = std::env::current_dir().ok();
        let caller = caller(&program.plan, self.agent.as_deref(), self.workspace.as_deref().or(here.as_deref()))?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
        let outcome = runtime.block_on(self.serve(project, program, caller));
        // A read of stdin that waits in a thread must not keep us.
        runtime.shutdown_background();
        process::sweep(std::time::Duration::from_secs(2));
        outcome
    }

    async fn serve(&self, project: Project, program: Program, caller: Caller) -> anyhow::Result<Outcome> {
        let mut signals = Signals::new()?;
        let disclosure = self.disclosure.map_or_else(|| program.plan.serve.disclosure.into(), DisclosureSetting::from);
        let (executor, task) = Executor::start(program, Context::of_process(&project.directory));
        let stop = CancellationToken::new();
        let following = self.follow(&project, &executor)?;
        let streams = rmcp::transport::stdio_pipes();
        let mut serving = std::pin::pin!(mcp::serve(executor.clone(), disclosure, caller, streams, stop.clone()));
        let (served, within) = tokio::select! {
            served = &mut serving => (served, SHUTDOWN),
            _ = signals.stop() => {
                let asked = Instant::now();
                stop.cancel();
                // Calls had their time while they were drained; half of what is left here is for calls too.
                (serving.await, mcp::DRAIN.saturating_sub(asked.elapsed()) * 2)
            }
        };
        following.abort();
        executor.shutdown(within).await;
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
        let watcher = if self.no_watch {
            None
        } else {
            let files = [project.config.clone(), project.lock.clone()];
            Some(Watcher::new(&files).map_err(|error| {
                CouldNot::new(format!("the config's directory can't be watched: {error}; --no-watch does without"))
            })?)
        };
        let signals = Signals::new()?;
        Ok(tokio::spawn(follow(executor.clone(), watcher, Arc::new(move || load(&project)), signals)))
    }
}

/// What the files of a project say now.
fn load(project: &Project) -> Loaded {
    let mut files = vec![project.config.clone(), project.lock.clone()];
    let compilation = match compile(project) {
        Ok(compilation) => compilation,
        Err(problem) => return Loaded { program: Err(problem.to_string()), files, warnings: Vec::new() },
    };
    files.extend(project.files(&compilation));
    let mut warnings = Vec::new();
    let program = match judge(project, &compilation) {
        Ok((program, stale)) => {
            warnings.extend(stale);
            Ok(program)
        }
        Err(Refused::Config) => {
            // Where a template is wrong, it is watched too: mending it must be noticed.
            Err(report::no_plan(&compilation, false).trim_end().to_owned())
        }
        Err(Refused::Other(problem)) => Err(problem.to_string()),
    };
    Loaded { program, files, warnings }
}

/// Compiles what is to be run: its plugins are asked, and one that fails costs only its own servers.
fn compile(project: &Project) -> Result<Compilation, CouldNot> {
    let (compilation, failed) = project.compile_and_run_plugins()?;
    failed.iter().for_each(|failure| tracing::warn!("{failure}"));
    Ok(compilation)
}

enum Refused {
    Config,
    Other(CouldNot),
}

/// The program of a compilation, with the lock, as far as it still speaks of the plan's servers; and what to say when it
/// no longer fits.
fn judge(project: &Project, compilation: &Compilation) -> Result<(Program, Option<String>), Refused> {
    let Some(plan) = &compilation.plan else { return Err(Refused::Config) };
    let other = |message: String| Refused::Other(CouldNot::new(message));
    let template = Template::parse(&plan.prompt.template.text).map_err(|error| other(error.to_string()))?;
    if matches!(plan.prompt.budget, mcplan_compiler::plan::Budget::Tokens(_)) {
        tokens::counter().map_err(|error| other(error.to_string()))?;
    }
    let lock = match project.read_lock() {
        Ok(lock) => lock,
        Err(problem) => return Err(other(problem.to_string())),
    };
    let is_stale = lock.as_ref().is_some_and(|lock| !lock.check(plan, &project.sources(compilation)).is_empty());
    let stale = is_stale
        .then(|| format!("lock-stale: {} doesn't fit the config any more; run 'mcplan lock'", project.lock.display()));
    let program = Program {
        plan: Arc::new(plan.clone()),
        lock: lock.map(Arc::new),
        template: Arc::new(template),
        places: Arc::new(Places::of_machine(&project.directory)),
    };
    Ok((program, stale))
}

/// The program of a project at start; what is wrong with the config is printed.
pub(super) fn program(project: &Project, compilation: Compilation) -> anyhow::Result<Result<Program, Outcome>> {
    let compilation = match report::plan(compilation) {
        Ok(compilation) => compilation,
        Err(outcome) => return Ok(Err(outcome)),
    };
    match judge(project, &compilation) {
        Ok((program, stale)) => {
            stale.iter().for_each(|stale| tracing::warn!("{stale}"));
            Ok(Ok(program))
        }
        Err(Refused::Config) => Ok(Err(Outcome::DoesNotHold)),
        Err(Refused::Other(problem)) => Err(problem.into()),
    }
}
