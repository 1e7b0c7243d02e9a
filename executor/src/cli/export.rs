//! `mcplan export`: a client's file that starts this executor, or that names the servers themselves.

use std::path::Path;

use clap::{Args, ValueEnum};
use mcplan_compiler::import::export::{self, Client, OURS};
use mcplan_compiler::plan::Plan;

use super::project::{Project, Which};
use super::report::{self, CouldNot, Outcome};

/// Print a client's configuration that starts this executor
#[derive(Debug, Args)]
pub(super) struct Export {
    /// The client
    #[arg(long, value_enum, value_name = "CLIENT")]
    to: To,
    /// Name the servers themselves instead of mcplan
    #[arg(long)]
    direct: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    Vscode,
    Codex,
}

impl From<To> for Client {
    fn from(to: To) -> Self {
        match to {
            To::ClaudeCode => Self::ClaudeCode,
            To::ClaudeDesktop => Self::ClaudeDesktop,
            To::Cursor => Self::Cursor,
            To::Vscode => Self::Vscode,
            To::Codex => Self::Codex,
        }
    }
}

impl Export {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let client = Client::from(self.to);
        let project = Project::find(which)?;
        let compilation = match report::plan(project.compile()?) {
            Ok(compilation) => compilation,
            Err(outcome) => return Ok(outcome),
        };
        let Some(plan) = compilation.plan else { return Ok(Outcome::DoesNotHold) };
        let exported = if self.direct {
            export::servers(client, &plan)
        } else {
            export::executor(client, &command(&project.config, which)?, &plan)
        };
        report::result(&exported.text);
        report::note(format_args!("this is for {} of {}", client.file(), client.title()));
        exported.notes.iter().for_each(report::note);
        if !self.direct {
            names(client, &project, &plan);
        }
        Ok(Outcome::Fine)
    }
}

/// What starts this executor, wherever the client starts it from.
fn command(config: &Path, which: &Which) -> Result<Vec<String>, CouldNot> {
    let config = std::path::absolute(config).unwrap_or_else(|_| config.to_owned());
    let Some(config) = config.to_str() else {
        let shown = config.display();
        return Err(CouldNot::new(format!("a client's file can't name {shown}, whose path is not UTF-8; rename it")));
    };
    // The plain name where it is found; a client on the desktop often has another PATH, but then this is its path.
    let program = match (which::which("mcplan"), std::env::current_exe()) {
        (Err(_), Ok(here)) => here.display().to_string(),
        _ => "mcplan".to_owned(),
    };
    let mut command: Vec<_> = [&program, "run", "--stdio", "-c"].map(str::to_owned).into();
    command.push(config.to_owned());
    command.extend(which.profile.iter().flat_map(|profile| ["--profile".to_owned(), profile.clone()]));
    command.extend(which.host_keys.then(|| "--host-keys".to_owned()));
    Ok(command)
}

/// What the client makes of our names, and a shorter naming where they get long.
fn names(client: Client, project: &Project, plan: &Plan) {
    let prefix = client.prefix(OURS);
    report::note(format_args!("{} puts `{prefix}` before the name of each tool", client.title()));
    let width = prefix.chars().count();
    let pattern = &plan.naming.pattern;
    let locked = project.read_lock().ok().flatten().and_then(|lock| super::snapshot_of(&lock, None).ok());
    let tools = locked.iter().flat_map(|snapshot| snapshot.catalog.tools());
    let longest = tools.map(|tool| tool.exposed.as_str()).max_by_key(|name| name.chars().count());
    let too_long = longest.filter(|name| name.chars().count() + width > client.name_limit());
    if let Some(name) = too_long {
        report::note(format_args!(
            "with it `{name}` has {} characters; {} takes {}",
            name.chars().count() + width,
            client.title(),
            client.name_limit()
        ));
    }
    let shorter = if pattern.starts_with("mcp__{server}__") { "{server}__{tool}" } else { "{tool}" };
    if (too_long.is_some() || pattern.starts_with("mcp__")) && pattern != shorter {
        report::note(format_args!(
            "shorter names: `naming: \"{shorter}\"` under `mcp:` in {}",
            project.config.display()
        ));
    }
}
