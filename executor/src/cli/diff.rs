//! `mcplan diff`: what changes for the agent.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use mcplan_compiler::diagnostic::one_line;
use mcplan_compiler::lock::{Lock, make};

use super::asked::Asked;
use super::lock::tell_without_text;
use super::project::{Project, Which, read_lock_file};
use super::report::{self, CouldNot, Outcome};
use super::snapshot_of;
use crate::core::diff::{AgentDiff, Diff, Side, Size, Standing, ToolDiff, diff};
use crate::core::tokens;

/// Show what changes for the agent: names, words, the block's size, decisions
#[derive(Debug, Args)]
pub(super) struct DiffCommand {
    /// Two locks to compare [default: what is locked, and what the config says now]
    #[arg(num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with = "live")]
    locks: Vec<PathBuf>,
    /// Ask the servers too
    #[arg(long)]
    live: bool,
    /// How to print it
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    /// For people
    Human,
    /// For machines
    Json,
}

impl DiffCommand {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let (before, after, reached_all) = match self.locks.as_slice() {
            [before, after] => (lock_of(before)?, lock_of(after)?, true),
            _ => match self.of_project(&Project::find(which)?)? {
                Ok(sides) => sides,
                Err(outcome) => return Ok(outcome),
            },
        };
        let (was, is) = (snapshot_of(&before, None)?, snapshot_of(&after, None)?);
        let counter = tokens::counter().ok();
        let differs = diff(Side { lock: &before, snapshot: &was }, Side { lock: &after, snapshot: &is }, counter);
        match self.format {
            Format::Human if differs.is_empty() && !reached_all => {
                report::result("nothing changes in what could be found out\n");
            }
            Format::Human => report::result(human(&differs)),
            Format::Json => {
                let json = serde_json::to_string(&differs)?;
                report::result(mcplan_compiler::json::pretty(&json));
            }
        }
        Ok(match (differs.is_empty(), reached_all) {
            (false, _) => Outcome::DoesNotHold,
            (true, false) => Outcome::CouldNotFindOut,
            (true, true) => Outcome::Fine,
        })
    }

    /// What is locked, what a new lock would hold, and whether every server that was to be asked has answered.
    fn of_project(&self, project: &Project) -> anyhow::Result<Result<(Lock, Lock, bool), Outcome>> {
        let before = project.need_lock()?;
        let compiled = if self.live { project.compile_and_run_plugins()? } else { project.compile()? };
        report::plugins_failed(&compiled);
        let compilation = match report::plan(compiled) {
            Ok(compilation) => compilation,
            // A config with errors can't be compared with anything.
            Err(_) => return Ok(Err(Outcome::CouldNotFindOut)),
        };
        let sources = project.sources(&compilation);
        let Some(plan) = compilation.plan else { return Ok(Err(Outcome::CouldNotFindOut)) };
        let asked = if self.live { Asked::of(project, &plan, Some(&before), None)? } else { Asked::default() };
        asked.tell_failed();
        let reached_all = asked.failed.is_empty() && compilation.plugins_failed.is_empty();
        let made = make(plan, sources, asked.reached, Some(&before));
        tell_without_text(project, &made);
        Ok(Ok((before, made.lock, reached_all)))
    }
}

fn lock_of(path: &Path) -> Result<Lock, CouldNot> {
    match read_lock_file(path) {
        Ok(Some(lock)) => Ok(lock),
        Ok(None) => Err(CouldNot::new(format!(
            "there is no {}: two lock files are compared, before and after, as 'mcplan lock' writes them; with none named, \
             it is the lock against the config. That of another commit is had with 'git show COMMIT:config.lock.json > before.json'",
            path.display()
        ))),
        Err(problem) => Err(CouldNot::new(problem.to_string())),
    }
}

fn human(differs: &Diff) -> String {
    let mut out = String::new();
    if differs.is_empty() {
        return "nothing changes\n".to_owned();
    }
    for (agent, changes) in &differs.agents {
        of_agent(&mut out, agent, changes);
    }
    if differs.agents.is_empty() {
        out.push_str("no agent sees another tool or another block\n");
    }
    for (server, words) in &differs.servers {
        let _ = writeln!(out, "\n{server} says");
        for words in words {
            let _ = writeln!(out, "  {}", words.change);
        }
    }
    if !differs.plan.is_empty() {
        out.push_str("\nplan\n");
        for drift in &differs.plan {
            let _ = writeln!(out, "  {drift}");
        }
    }
    out.trim_start_matches('\n').to_owned()
}

fn of_agent(out: &mut String, agent: &str, changes: &AgentDiff) {
    let _ = writeln!(out, "\nagent {agent}");
    for tool in &changes.tools {
        let _ = writeln!(out, "  {}", of_tool(tool));
    }
    if let Some(block) = &changes.block {
        let _ = writeln!(out, "  block: {}", sizes(&block.before, &block.after));
    }
}

/// Longest description of a tool that appears, in characters.
const DESCRIPTION_SHOWN: usize = 80;

fn of_tool(tool: &ToolDiff) -> String {
    let (before, after) = (&tool.before, &tool.after);
    match (before.name(), after.name()) {
        (None, Some(name)) => {
            let was = match before {
                Standing::Hidden { why, by_policy: true } => format!("; until now {why}"),
                _ => String::new(),
            };
            let description = tool.description.as_deref().map(|text| one_line(text, DESCRIPTION_SHOWN));
            let description = description.map(|text| format!(": {text}")).unwrap_or_default();
            format!("+ {name} ({}{was}){description}", word(after))
        }
        (Some(name), _) if after.name().is_none() => format!("- {name}: {}", why(after)),
        (Some(was), Some(is)) if was == is => format!("~ {is}: {} before, {} now", word(before), word(after)),
        (Some(was), Some(is)) if word(before) == word(after) => format!("~ {was}: is called {is} now"),
        (Some(was), Some(is)) => format!("~ {was}: is called {is} now; {} before, {} now", word(before), word(after)),
        // One that isn't seen on either side is no difference.
        (_, None) => String::new(),
    }
}

fn word(standing: &Standing) -> &'static str {
    match standing {
        Standing::Listed { .. } => "listed",
        Standing::Deferred { .. } => "deferred",
        Standing::Hidden { by_policy: true, .. } => "denied",
        Standing::Hidden { .. } => "hidden",
        Standing::Absent { .. } => "not there",
    }
}

fn why(standing: &Standing) -> &str {
    match standing {
        Standing::Hidden { why, .. } => why,
        Standing::Absent { why } => why,
        Standing::Listed { .. } | Standing::Deferred { .. } => "",
    }
}

fn sizes(before: &Size, after: &Size) -> String {
    let pair = |before: usize, after: usize, what: &str| {
        if before == after { format!("{after} {what}") } else { format!("{before} → {after} {what}") }
    };
    let mut parts = vec![pair(before.chars, after.chars, "characters"), pair(before.bytes, after.bytes, "bytes")];
    if let (Some(before), Some(after)) = (before.tokens, after.tokens) {
        parts.push(pair(before, after, "tokens"));
    }
    if before.omitted + after.omitted > 0 {
        parts.push(pair(before.omitted, after.omitted, "tools only counted"));
    }
    parts.join(", ")
}
