//! `mcplan explain TOOL|WORD`: why a tool is listed, deferred, hidden or denied, or what a word of a report means.

mod tool;
mod word;

use std::path::PathBuf;

use clap::Args;
use serde_json::Value;

use super::project::{Project, Which};
use super::report::{self, CouldNot, Outcome};

/// Say why a tool is visible or not, from the lock, or what a word in a report means
#[derive(Debug, Args)]
pub(super) struct ExplainCommand {
    /// A tool, as agents or its server call it, or the word in brackets of a report, such as `unknown-key` or `description-words`
    #[arg(required_unless_present = "list", value_name = "TOOL|WORD")]
    name: Option<String>,
    /// List every word with a line about it
    #[arg(long, conflicts_with = "name")]
    list: bool,
    /// What this agent sees of the tool [default: lead]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// In a session that works there [default: the working directory]
    #[arg(long, value_name = "DIR", value_parser = super::workspace())]
    workspace: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ExplainCommand {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let Some(name) = &self.name else {
            word::list(self.json);
            return Ok(Outcome::Fine);
        };
        let words = word::find(name);
        if !words.is_empty() {
            word::explain(&words, self.json);
            return Ok(Outcome::Fine);
        }
        // `error[…]` is how reports show a word; no tool is called that.
        if name.contains('[') {
            return Err(CouldNot::new(format!("there is no word '{name}'; {}", meant(name))).into());
        }
        let lock = Project::find(which).and_then(|project| project.need_lock().map(|lock| (project, lock)));
        match lock {
            Ok((project, lock)) => self.tool(name, &project, &lock),
            // It may as well be a word that was misspelt.
            Err(problem) if word::close(name).is_some() => {
                Err(CouldNot::new(format!("there is no word '{name}'; {}; as for a tool: {problem}", meant(name)))
                    .into())
            }
            Err(problem) => Err(problem.into()),
        }
    }
}

/// What to do about a word that there isn't.
fn meant(written: &str) -> String {
    let guess = word::close(written).map(|close| format!("did you mean '{close}'? ")).unwrap_or_default();
    format!("{guess}'mcplan explain --list' shows all")
}

fn print(json: &Value) {
    report::result(mcplan_compiler::json::pretty(&json.to_string()));
}
