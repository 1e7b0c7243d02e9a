//! `mcplan render`: the prompt block, from the lock, offline.

use std::path::{Path, PathBuf};

use clap::Args;
use mcplan_compiler::plan::Budget;
use serde_json::json;
use similar::TextDiff;

use super::project::{Project, Which};
use super::report::{self, CouldNot, Outcome};
use super::snapshot_of;
use crate::core::prompt::{Mode, Rendered};
use crate::core::tokens;

/// Print the <AVAILABLE_MCP_TOOLS> block, from the lock: nothing is started
#[derive(Debug, Args)]
pub(super) struct Render {
    /// Compare with a committed snapshot: exit 1 and show the difference when it isn't the same [default FILE:
    /// prompt.txt beside the config]
    #[arg(long, value_name = "FILE")]
    check: Option<Option<PathBuf>>,
    /// Print JSON: the text, the level of detail, what is in it and what isn't, characters and tokens
    #[arg(long, conflicts_with = "check")]
    json: bool,
    /// What this agent sees [default: lead]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
}

impl Render {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let project = Project::find(which)?;
        let lock = project.need_lock()?;
        project.warn_if_stale(&lock);
        let block = snapshot_of(&lock, self.agent.as_deref())?.block();
        if block.mode == Mode::OverBudget {
            let why = block.failure.as_ref().map_or("not even counts fit the budget".to_owned(), ToString::to_string);
            report::warning(format_args!("block-over-budget: the block is empty: {why}"));
        }
        if let Some(snapshot) = &self.check {
            let beside = || project.config.with_file_name("prompt.txt");
            return check(&snapshot.clone().unwrap_or_else(beside), &block.text);
        }
        if self.json {
            report::result(mcplan_compiler::json::pretty(&telemetry(&block, lock.plan.prompt.budget)?.to_string()));
        } else if !block.text.is_empty() {
            report::result(format_args!("{}\n", block.text.trim_end_matches('\n')));
        }
        Ok(Outcome::Fine)
    }
}

fn telemetry(block: &Rendered, budget: Budget) -> anyhow::Result<serde_json::Value> {
    let counter = tokens::counter().ok();
    Ok(json!({
        "text": block.text,
        "mode": block.mode,
        "budget": budget,
        "included": block.included,
        "truncated": block.truncated,
        "omitted": block.omitted,
        "chars": block.chars,
        "tokens": counter.map(|counter| counter.count(&block.text)),
        "tokens_encoding": tokens::ENCODING,
    }))
}

/// A snapshot is the block and a final newline; Windows line ends don't count.
fn check(path: &Path, text: &str) -> anyhow::Result<Outcome> {
    let shown = path.display();
    let committed = std::fs::read_to_string(path)
        .map_err(|error| {
            CouldNot::new(format!(
                "the snapshot {shown} can't be read: {error}; make it with 'mcplan render > {shown}'"
            ))
        })?
        .replace("\r\n", "\n");
    let now = if text.is_empty() { String::new() } else { format!("{}\n", text.trim_end_matches('\n')) };
    if committed == now {
        report::result(format_args!("{shown} is what the agent sees\n"));
        return Ok(Outcome::Fine);
    }
    let difference = TextDiff::from_lines(&committed, &now);
    report::result(difference.unified_diff().header(&format!("{shown} (committed)"), "what the agent would see now"));
    report::error(format_args!("the block is not what {shown} says; if it should be, run 'mcplan render > {shown}'"));
    Ok(Outcome::DoesNotHold)
}
