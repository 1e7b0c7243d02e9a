//! `mcplan run`: the executor.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use mcplan_compiler::Compilation;
use mcplan_compiler::lock::{Lock, Notice};
use mcplan_compiler::plan::{Budget, Plan};
use mcplan_compiler::prompt_template::Template;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::project::{LockProblem, Project, Which};
use super::report::{self, CouldNot, Outcome};
use super::{caller, listen};
use crate::core::baseline::Baseline;
use crate::core::caller::Caller;
use crate::core::session::{Disclosure, DisclosureSetting};
use crate::core::tokens;
use crate::core::written::Written;
use crate::runtime::connection::Context;
use crate::runtime::executor::{Executor, SWEEP};
use crate::runtime::places::Places;
use crate::runtime::process;
use crate::runtime::program::Program;
use crate::runtime::reload::{Began, Files, Followed, Loaded, follow};
use crate::runtime::signals::{self, Signals};
use crate::runtime::watcher::{Watcher, Way};
use crate::serve::control::{self, Control, Identity};
use crate::serve::http::{self, Access};
use crate::serve::mcp;

/// How long those who still wait for an answer on the control socket are heard after everything has ended; the time is
/// taken from the sweep, so that a shutdown takes no longer than it may.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// Run the plan: connect the servers and serve agents
#[derive(Debug, Args)]
pub(super) struct Run {
    /// Be an MCP server on stdin and stdout; then nothing listens unless --listen is given too
    #[arg(long)]
    stdio: bool,
    /// Listen for MCP over HTTP on this address and port [default without --stdio: `serve.http.listen`]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// Serve this agent [default: lead]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// The directory that the session works in [default: the current one]
    #[arg(long, value_name = "DIR", value_parser = super::workspace())]
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
    /// How changes of the files are noticed
    #[arg(long, value_enum, value_name = "WAY", default_value_t = WayArgument::Events, conflicts_with = "no_watch")]
    watch: WayArgument,
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

#[derive(Clone, Copy, Debug, ValueEnum)]
enum WayArgument {
    /// The system tells
    Events,
    /// By looking every two seconds, for file systems that tell of nothing
    Poll,
}

impl From<WayArgument> for Way {
    fn from(argument: WayArgument) -> Self {
        match argument {
            WayArgument::Events => Self::Events,
            WayArgument::Poll => Self::Poll,
        }
    }
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
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let entered = runtime.enter();
        let listening = Listening { stop: Signals::new()?, reload: Signals::new()? };
        drop(entered);
        signals::let_in();
        let outcome = self.begin(which, &runtime, listening);
        // A read of stdin that waits in a thread must not keep us.
        runtime.shutdown_background();
        process::sweep(SWEEP.saturating_sub(LAST_ANSWERS));
        outcome
    }

    fn begin(&self, which: &Which, runtime: &Runtime, mut listening: Listening) -> anyhow::Result<Outcome> {
        let trust = self.trust();
        let project = if trust == Trust::Frozen { Project::find_locked(which)? } else { Project::find(which)? };
        // Watched before they are read, so that they need not be read again for what changed between.
        let watcher = self.watcher(&project, runtime);
        let reading = runtime.spawn_blocking({
            let project = project.clone();
            move || read(&project, trust)
        });
        // A plugin, or a pipe, may take its time.
        let read = runtime.block_on(async {
            tokio::select! {
                read = reading => read.map(Some),
                _ = listening.stop.stop() => Ok(None),
            }
        });
        let Some(read) = read? else { return Ok(Outcome::Fine) };
        let program = match or_outcome(read.judged.map(warned))? {
            Ok(program) => program,
            Err(outcome) => return Ok(outcome),
        };
        let cant = |error| {
            CouldNot::new(format!("the config's directory can't be watched: {error}; --watch poll does without"))
        };
        let mut watcher = watcher.transpose().map_err(cant)?;
        let may_be_old = watcher.as_mut().map(|watcher| watcher.watch(&read.files)).transpose().map_err(cant)?;
        let began = Began { serving: program, watcher, may_be_old: may_be_old.unwrap_or_default() };
        let here = std::env::current_dir().ok();
        let workspace = self.workspace.as_deref().or(here.as_deref());
        let caller = caller(&began.serving.plan, self.agent.as_deref(), workspace)?;
        runtime.block_on(self.serve(project, began, caller, listening))
    }

    fn trust(&self) -> Trust {
        match (self.locked, self.frozen) {
            (_, true) => Trust::Frozen,
            (true, false) => Trust::Locked,
            (false, false) => Trust::Config,
        }
    }

    /// What watches the files that are read and looked for in any case, unless nobody wants it.
    fn watcher(&self, project: &Project, runtime: &Runtime) -> Option<notify::Result<Watcher>> {
        let _entered = runtime.enter();
        (!self.no_watch).then(|| Watcher::new(&watched(project, self.trust()), self.watch.into()))
    }

    async fn serve(
        &self,
        project: Project,
        began: Began,
        caller: Caller,
        mut listening: Listening,
    ) -> anyhow::Result<Outcome> {
        let program = began.serving.clone();
        let identity = self.identity(&project, caller.clone()).into();
        let address = listen::address(self.listen.as_deref(), self.stdio, &program.plan)?;
        let opened = match &address {
            Some(address) => Some(listen::open(address, &program.plan, &project.directory).await?),
            None => None,
        };
        let disclosure = self.disclosure.map_or_else(|| program.plan.serve.disclosure.into(), DisclosureSetting::from);
        let (executor, task) = Executor::start(program, Context::of_process(&project.directory));
        let stop = CancellationToken::new();
        let (files, followed) = Files::new();
        let following = self.follow(&project, &executor, began, listening.reload, followed);
        let running = Control { executor: executor.clone(), files, identity };
        let http =
            opened.map(|(listener, access)| self.http(listener, access, running.clone(), disclosure)).transpose()?;
        let control = self.control(&project, running);
        let mut serving = std::pin::pin!(self.on_stdio(executor.clone(), disclosure, caller, stop.clone()));
        let mut served = None;
        tokio::select! {
            result = &mut serving => served = Some(result),
            _ = listening.stop.stop() => {}
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
        control.iter().for_each(control::Serving::close);
        http.iter().for_each(http::Serving::close);
        executor.shutdown(asked).await;
        if let Some(control) = control {
            control.finish(LAST_ANSWERS).await;
        }
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

    /// Serves the client on stdin and stdout; without one, waits for the end.
    async fn on_stdio(
        &self,
        executor: Executor,
        disclosure: DisclosureSetting,
        caller: Caller,
        stop: CancellationToken,
    ) -> Result<(), String> {
        if self.stdio {
            return mcp::serve(executor, disclosure, caller, rmcp::transport::stdio_pipes(), stop).await;
        }
        stop.cancelled().await;
        Ok(())
    }

    /// Serves those who come over HTTP.
    fn http(
        &self,
        listener: TcpListener,
        access: Access,
        control: Control,
        disclosure: DisclosureSetting,
    ) -> anyhow::Result<http::Serving> {
        let workspace = self.workspace.as_ref().and(control.identity.caller.workspace.clone());
        let serving = http::start(listener, access, control, disclosure, workspace)?;
        tracing::info!("listening on http://{}/mcp", serving.address);
        Ok(serving)
    }

    /// What the control socket tells of this process.
    fn identity(&self, project: &Project, caller: Caller) -> Identity {
        Identity {
            config: control::absolute(&project.config).display().to_string(),
            profile: project.profile().map(str::to_owned),
            locked: self.locked || self.frozen,
            frozen: self.frozen,
            caller,
            began: std::time::Instant::now(),
        }
    }

    /// Opens the control socket. Without one the executor is as good as ever, only nobody can ask it anything.
    fn control(&self, project: &Project, control: Control) -> Option<control::Serving> {
        match control::start(&project.key(), control) {
            Ok(serving) => Some(serving),
            Err(error) => {
                tracing::warn!("control-socket: {error}; status, reconnect, reload and call can't reach this executor");
                None
            }
        }
    }

    fn follow(
        &self,
        project: &Project,
        executor: &Executor,
        began: Began,
        signals: Signals,
        followed: Followed,
    ) -> tokio::task::JoinHandle<()> {
        let (project, trust) = (project.clone(), self.trust());
        let load = Arc::new(move || load(&project, trust));
        tokio::spawn(follow(executor.clone(), began, load, signals, followed))
    }
}

/// Those who hear of signals, from before the files are first read.
struct Listening {
    stop: Signals,
    reload: Signals,
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

/// What the files of a project say now, for those who follow them.
fn load(project: &Project, trust: Trust) -> Loaded {
    let Read { judged, files } = read(project, trust);
    let (program, warnings) = match judged {
        Ok((program, warnings)) => (Ok(program), warnings),
        Err(refused) => (Err(refused.to_string()), Vec::new()),
    };
    Loaded { program, files, warnings }
}

/// What the files of a project say.
struct Read {
    judged: Judged,
    /// Every file that was read or looked for.
    files: Vec<PathBuf>,
}

/// A program and what a person should know of it, or why there is none.
type Judged = Result<(Program, Vec<String>), Refused>;

fn read(project: &Project, trust: Trust) -> Read {
    let mut files = watched(project, trust);
    // A lock is large: it is read while the config is compiled.
    let (compiled, lock) = std::thread::scope(|scope| {
        let lock = scope.spawn(|| project.read_lock());
        let compiled = compile(project, trust);
        (compiled, lock.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let judged = compiled.and_then(|compilation| {
        files.extend(compilation.iter().flat_map(|compilation| project.files(compilation)));
        judge(project, trust, compilation, lock)
    });
    Read { judged, files }
}

/// Compiles what is to be run: its plugins are asked, and one that fails costs only its own servers. Where the lock
/// decides, what the plugins printed is in it; and where it alone does, there is nothing to compile.
fn compile(project: &Project, trust: Trust) -> Result<Option<Compilation>, Refused> {
    match trust {
        Trust::Config => Ok(Some(project.compile_and_run_plugins()?)),
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

/// The program of a compilation, with the lock, as far as it still speaks of the plan's servers; and what a person should
/// know of it: that the lock no longer fits, that a plugin gave nothing.
fn judge(
    project: &Project,
    trust: Trust,
    compilation: Option<Compilation>,
    lock: Result<Option<Lock>, LockProblem>,
) -> Judged {
    let lock = lock.map_err(|problem| CouldNot::new(problem.to_string()))?;
    let (plan, lock, written, mut warnings) = match (compilation, lock) {
        (_, None) if trust != Trust::Config => {
            return Err(Refused::Lock(project.no_lock()));
        }
        (None, lock) => {
            let plan = lock.as_ref().map(|lock| lock.plan.clone());
            let plan = plan.ok_or_else(|| CouldNot::new("there is neither a config nor a lock"))?;
            (plan, lock, Written::default(), Vec::new())
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
                    "{path} doesn't fit {config}: run '{}'\n{}",
                    project.command("lock"),
                    reasons.join("\n")
                )));
            }
            let failed = compilation.plugins_failed.iter();
            let mut warnings: Vec<_> = failed.map(|failed| report::line(failed, &compilation)).collect();
            if !drifts.is_empty() {
                let command = project.command("lock");
                warnings.push(format!("{}: {path} doesn't fit the config any more; run '{command}'", Notice::Stale));
            }
            let written = Written { places: compilation.places, lines: compilation.texts.lines() };
            (plan, lock, written, warnings)
        }
    };
    let template =
        Template::parse(plan.prompt.template.content.text()).map_err(|error| CouldNot::new(error.to_string()))?;
    if matches!(plan.prompt.budget, Budget::Tokens(_)) {
        tokens::counter().map_err(|error| CouldNot::new(error.to_string()))?;
    }
    warnings.extend(lock.as_ref().and_then(|lock| nothing_locked(&plan, lock, trust)));
    let program = Program {
        plan: Arc::new(plan),
        baseline: lock.map(|lock| Arc::new(Baseline::new(lock, trust != Trust::Config))),
        template: Arc::new(template),
        places: Arc::new(Places::of_machine(&project.directory)),
        written: Arc::new(written),
    };
    Ok((program, warnings))
}

/// What to say of servers that a lock says nothing of.
fn nothing_locked(plan: &Plan, lock: &Lock, trust: Trust) -> Option<String> {
    let enabled = plan.servers.iter().filter(|server| plan.enabled && server.enabled);
    let unknown: Vec<_> = enabled
        .filter(|server| lock.baseline_of(plan, &server.name).is_none())
        .map(|server| server.name.as_str())
        .collect();
    let so =
        if trust == Trust::Config { "nothing that they say counts as drift" } else { "none of their tools is served" };
    (!unknown.is_empty())
        .then(|| format!("{}: the lock knows nothing of {}; {so}", Notice::NotLocked, unknown.join(", ")))
}

/// The program of a project, for a command that runs a part of it.
pub(super) fn program(project: &Project, compilation: Compilation) -> Result<Program, Refused> {
    judge(project, Trust::Config, Some(compilation), project.read_lock()).map(warned)
}

/// The program, once a person was told of it.
fn warned((program, warnings): (Program, Vec<String>)) -> Program {
    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
    program
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
