//! The command line: one subcommand a file. Reads arguments, prints results, picks exit codes; decides nothing.

mod add;
mod builtins;
mod call;
mod edited;
mod export;
mod import;
mod init;
mod lock;
mod logging;
mod project;
mod remove;
mod render;
mod report;
mod run;
mod schema;
mod search;
mod validate;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::core::catalog::{Catalog, Listing};
use crate::core::snapshot::Snapshot;
use crate::runtime::process;
use crate::runtime::signals::Signals;
use mcplan_compiler::lock::Lock;
use mcplan_compiler::prompt_template::Template;
use report::{CouldNot, Interrupted, Outcome};

/// Compiles an agent's MCP configuration into a locked plan, and runs it.
#[derive(Debug, Parser)]
#[command(name = "mcplan", version, about, max_term_width = 100)]
struct Arguments {
    /// The config [default: ./config.yml, then ./mcplan.yml]
    #[arg(short, long, global = true, value_name = "FILE", help_heading = COMMON)]
    config: Option<PathBuf>,
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
    Render(render::Render),
    Search(search::SearchCommand),
    Run(run::Run),
    Call(call::CallCommand),
    Init(init::Init),
    Add(add::Add),
    Remove(remove::Remove),
    Import(import::Import),
    Export(export::Export),
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
    parsed.logging.start();
    if let Command::Run(run) = &parsed.command
        && run.wants_guard()
    {
        // Nothing has been started yet: the guard is this process, the executor its child.
        return process::guard::run(arguments.into_iter().skip(1));
    }
    let config = parsed.config;
    report::finish(match &parsed.command {
        Command::Validate(command) => command.run(config),
        Command::Lock(command) => command.run(config),
        Command::Render(command) => command.run(config),
        Command::Search(command) => command.run(config),
        Command::Run(command) => command.run(config),
        Command::Call(command) => command.run(config),
        Command::Init(command) => command.run(config),
        Command::Add(command) => command.run(config),
        Command::Remove(command) => command.run(config),
        Command::Import(command) => command.run(config),
        Command::Export(command) => command.run(config),
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

/// What a lock shows by itself, without any connection.
fn snapshot_of(lock: &Lock) -> Result<Snapshot, CouldNot> {
    let listings = lock.catalog.iter().map(|(name, server)| (name.clone(), Listing::from(server))).collect();
    let catalog = Catalog::build(&lock.plan, &listings);
    let template = Template::parse(&lock.plan.prompt.template.text)
        .map_err(|error| CouldNot::new(format!("the prompt template in the lock: {error}")))?;
    let plan = std::sync::Arc::new(lock.plan.clone());
    let snapshot = Snapshot::new(0, plan, catalog.into(), std::collections::BTreeMap::new(), template.into());
    snapshot.block_settings().map_err(|error| CouldNot::new(error.to_string()))?;
    Ok(snapshot)
}

/// Runs a command that starts servers to its end, or to a signal; nothing of them is left then.
fn with_servers<T>(work: impl Future<Output = T>) -> anyhow::Result<T> {
    // Orphans of servers have to come back to us; that a guard is gone is nothing to a command that has none.
    let _no_guard = process::guard::adopt();
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
    process::sweep(std::time::Duration::from_secs(2));
    result
}
