//! The command line: one subcommand a file. Reads arguments, prints results, picks exit codes; decides nothing.

mod add;
mod ask;
mod asked;
mod builtins;
mod call;
mod cores;
mod diff;
mod disk;
mod doctor;
mod edited;
mod explain;
mod export;
mod import;
mod init;
mod listen;
mod lock;
mod logging;
mod project;
mod reconnect;
mod reload;
mod remove;
mod render;
mod report;
mod run;
mod schema;
mod search;
mod status;
mod table;
mod test;
mod validate;
mod why;
mod words;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::core::caller::Caller;
use crate::core::catalog::{Catalog, Listing};
use crate::core::snapshot::Snapshot;
use crate::runtime::process;
use crate::runtime::signals::{self, Signals};
use crate::serve::control;
use mcplan_compiler::lock::Lock;
use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::{LEAD, Plan};
use mcplan_compiler::prompt_template::Template;
use report::{CouldNot, Interrupted, Outcome};

/// Compiles an agent's MCP configuration into a locked plan, and runs it.
#[derive(Debug, Parser)]
#[command(name = "mcplan", version, about, max_term_width = 100)]
struct Arguments {
    #[command(flatten)]
    which: project::Which,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN", help_heading = COMMON)]
    color: Colour,
    #[command(flatten)]
    logging: logging::Logging,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command come after its own.
const COMMON: &str = "Common options";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Subcommand)]
enum Command {
    Validate(validate::Validate),
    Lock(lock::LockCommand),
    Diff(diff::DiffCommand),
    Render(render::Render),
    Search(search::SearchCommand),
    Test(test::TestCommand),
    Run(run::Run),
    Call(call::CallCommand),
    Doctor(doctor::Doctor),
    Status(status::StatusCommand),
    Reconnect(reconnect::Reconnect),
    Reload(reload::ReloadCommand),
    Init(init::Init),
    Add(add::Add),
    Remove(remove::Remove),
    Import(import::Import),
    Export(export::Export),
    Explain(explain::ExplainCommand),
    Builtins(builtins::Builtins),
    Schema(schema::SchemaCommand),
    /// Print a completion script
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// A small MCP server over stdio to try things with
    #[command(hide = true)]
    DemoServer {
        /// Only the tools of these groups
        #[arg(long, value_delimiter = ',', value_name = "GROUP")]
        group: Vec<crate::demo::Group>,
        /// Leave this tool out; may be given more than once
        #[arg(long, value_name = "TOOL")]
        hide: Vec<String>,
    },
}

/// Runs the command line and gives the exit code. Must be called before any thread is started.
pub fn main(arguments: impl IntoIterator<Item = OsString> + Clone) -> ExitCode {
    // Until it is clear who takes them.
    signals::hold();
    let parsed = match Arguments::try_parse_from(arguments.clone()) {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version go to stdout with 0, wrong usage to stderr with 2, as everywhere.
            let code = u8::try_from(error.exit_code()).unwrap_or(2);
            let _closed = error.print();
            return ExitCode::from(code);
        }
    };
    match parsed.color {
        Colour::Auto => {}
        Colour::Always => anstream::ColorChoice::Always.write_global(),
        Colour::Never => anstream::ColorChoice::Never.write_global(),
    }
    let guards = matches!(&parsed.command, Command::Run(run) if run.wants_guard());
    let _ending = parsed.logging.start(matches!(parsed.command, Command::Run(_)) && !guards);
    if guards {
        // Nothing has been started yet: the guard is this process, the executor its child.
        return process::guard::run(arguments.into_iter().skip(1), control::forget);
    }
    if !matches!(parsed.command, Command::Run(_)) {
        signals::let_in();
    }
    let which = &parsed.which;
    report::finish(match &parsed.command {
        Command::Validate(command) => command.run(which),
        Command::Lock(command) => command.run(which),
        Command::Diff(command) => command.run(which),
        Command::Render(command) => command.run(which),
        Command::Search(command) => command.run(which),
        Command::Test(command) => command.run(which),
        Command::Run(command) => command.run(which),
        Command::Call(command) => command.run(which),
        Command::Doctor(command) => command.run(which),
        Command::Status(command) => command.run(which, parsed.logging.is_verbose()),
        Command::Reconnect(command) => command.run(which),
        Command::Reload(command) => command.run(which),
        Command::Explain(command) => command.run(which),
        Command::Init(command) => command.run(which),
        Command::Add(command) => command.run(which),
        Command::Remove(command) => command.run(which),
        Command::Import(command) => command.run(which),
        Command::Export(command) => command.run(which),
        Command::Builtins(command) => command.run(),
        Command::Schema(command) => command.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "mcplan", &mut script);
            report::result(String::from_utf8_lossy(&script));
            Ok(Outcome::Fine)
        }
        Command::DemoServer { group, hide } => demo_server(group, hide),
    })
}

fn demo_server(groups: &[crate::demo::Group], hidden: &[String]) -> anyhow::Result<Outcome> {
    let mut options = crate::demo::Options { hidden: hidden.to_vec(), ..Default::default() };
    if !groups.is_empty() {
        options.groups = groups.to_vec();
    }
    crate::demo::serve(std::io::stdin().lock(), std::io::stdout(), &options)?;
    Ok(Outcome::Fine)
}

/// What a lock shows by itself, without any connection, to one agent.
fn snapshot_of(lock: &Lock, agent: Option<&str>) -> Result<Snapshot, CouldNot> {
    let plan = everywhere(&lock.plan);
    let snapshot = snapshot(&plan, &listings(lock))?;
    let caller = caller(&plan, agent, None)?;
    let narrowed = snapshot.catalog.narrowed(&plan, &caller);
    Ok(snapshot.with_catalog(narrowed.into()))
}

/// What each server is locked to offer.
fn listings(lock: &Lock) -> BTreeMap<ServerName, Listing> {
    lock.catalog.iter().map(|(name, server)| (name.clone(), Listing::from(server))).collect()
}

/// A plan for sessions that work anywhere. What is shown or tested without a session must not depend on the directory
/// that somebody happens to be in, so the servers of every workspace are there.
fn everywhere(plan: &Plan) -> Plan {
    let mut plan = plan.clone();
    plan.servers.iter_mut().for_each(|server| server.workspaces.clear());
    plan
}

/// Who asks: an agent of the plan, in a workspace.
fn caller(plan: &Plan, agent: Option<&str>, workspace: Option<&Path>) -> Result<Caller, CouldNot> {
    let caller = anyone(agent, workspace);
    caller.check(plan).map_err(|unknown| CouldNot::new(unknown.to_string()))?;
    Ok(caller)
}

/// Who asks, whether the agent is one of the plan or not.
fn anyone(agent: Option<&str>, workspace: Option<&Path>) -> Caller {
    let real = |path: &Path| path.canonicalize().ok().map(|path| path.display().to_string());
    let home = std::env::home_dir().and_then(|home| real(&home));
    Caller { agent: agent.unwrap_or(LEAD).to_owned(), workspace: workspace.and_then(real), home }
}

/// A `--workspace` that is there. Taken for none, every server that is bound to one would be missing without a word.
fn workspace() -> impl TypedValueParser<Value = PathBuf> {
    PathBufValueParser::new().try_map(|path| match std::fs::metadata(&path) {
        Ok(found) if found.is_dir() => Ok(path),
        Ok(_) => Err("it is no directory".to_owned()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err("there is no such directory".to_owned()),
        Err(error) => Err(error.to_string()),
    })
}

/// A plan and what its servers list.
fn snapshot(plan: &Plan, listings: &BTreeMap<ServerName, Listing>) -> Result<Snapshot, CouldNot> {
    let catalog = Catalog::build(plan, listings);
    let template = Template::parse(plan.prompt.template.content.text())
        .map_err(|error| CouldNot::new(format!("the prompt template: {error}")))?;
    let plan = std::sync::Arc::new(plan.clone());
    let snapshot = Snapshot::new(0, plan, catalog.into(), BTreeMap::new(), template.into());
    snapshot.block_settings().map_err(|error| CouldNot::new(error.to_string()))?;
    Ok(snapshot)
}

/// Runs a command that starts servers to its end, or to a signal; nothing of them is left then.
fn with_servers<T>(work: impl Future<Output = T>) -> anyhow::Result<T> {
    // Orphans of servers have to come back to us; that a guard is gone is nothing to a command that has none.
    let _no_guard = process::guard::adopt();
    let result = until_signal(work);
    process::sweep(std::time::Duration::from_secs(2));
    result
}

/// Runs something that waits to its end, or to a signal.
fn until_signal<T>(work: impl Future<Output = T>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let result = runtime.block_on(async {
        let mut signals = Signals::new()?;
        tokio::select! {
            result = work => Ok(result),
            code = signals.stop() => Err(Interrupted(code).into()),
        }
    });
    // A read that waits in a thread must not keep us.
    runtime.shutdown_background();
    result
}
