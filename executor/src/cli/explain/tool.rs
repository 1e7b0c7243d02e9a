//! The decisions about a tool, each with the place where it is written.

use std::fmt::Write as _;

use mcplan_compiler::lock::Lock;
use mcplan_compiler::plan::{OWN_TOOLS, Server};
use serde_json::{Value, json};

use super::{ExplainCommand, meant, print, word};
use crate::cli::caller;
use crate::cli::project::Project;
use crate::cli::report::{self, Outcome};
use crate::cli::why::{Owned, Why};
use crate::cli::words::{Teller, Told};
use crate::core::caller::Caller;
use crate::core::decisions::Decided;
use crate::core::snapshot::Snapshot;
use crate::runtime::connection::Context;

/// Most tools that are named in place of one that there isn't.
const CLOSE: usize = 5;

impl ExplainCommand {
    pub(super) fn tool(&self, name: &str, project: &Project, lock: &Lock) -> anyhow::Result<Outcome> {
        let compilation = project.compile()?;
        let stale = !project.fits(&compilation, lock);
        let here = std::env::current_dir().ok();
        let caller = caller(&lock.plan, self.agent.as_deref(), self.workspace.as_deref().or(here.as_deref()))?;
        if stale {
            project.warn_that_stale();
        }
        let why = Why::new(project, lock, &lock.plan, &compilation)?;
        let context = Context::of_process(&project.directory);
        let seen = why.seen_by(&caller);
        let asked = Asked { why: &why, caller: &caller, seen: &seen, context: &context };
        let found = asked.decided(why.find(name));
        let ours = found.is_empty() && OWN_TOOLS.contains(&name);
        let close = if found.is_empty() && !ours { asked.decided(why.close(name, CLOSE)) } else { Vec::new() };
        if self.json {
            print(&json!({
                "name": name,
                "agent": caller.agent,
                "lock_stale": stale,
                "ours": ours,
                "tools": found.iter().map(|decided| asked.as_json(decided, true)).collect::<Vec<_>>(),
                "close": close.iter().map(|decided| asked.as_json(decided, false)).collect::<Vec<_>>(),
            }));
        } else if ours {
            report::result(format_args!("{name} is one of mcplan's own tools: no filter and no policy is about it\n"));
        } else if !found.is_empty() {
            let told: Vec<_> = found.iter().map(|decided| asked.whole(decided)).collect();
            report::result(told.join("\n"));
        } else {
            report::result(close.iter().fold(String::new(), |out, decided| out + &asked.line(decided)));
        }
        if !found.is_empty() || ours {
            return Ok(Outcome::Fine);
        }
        report::error(unknown(name, &why, !close.is_empty()));
        Ok(Outcome::DoesNotHold)
    }
}

/// What is said of a name that no tool has.
fn unknown(name: &str, why: &Why<'_>, close: bool) -> String {
    let mut text = format!("the lock knows no tool '{name}'");
    if close {
        text += "; what is close to it is above";
    }
    if word::close(name).is_some() {
        let _ = write!(text, "; as a word of reports: {}", meant(name));
    }
    let off = |server: &Server| if server.enabled { "" } else { ", which is off" };
    let unlocked: Vec<_> = why.unlocked().map(|server| format!("`{}`{}", server.name, off(server))).collect();
    if !unlocked.is_empty() {
        let _ = write!(text, "; nothing is locked of {}", unlocked.join(", "));
    }
    text
}

/// What is asked about tools, and as whom.
struct Asked<'a> {
    why: &'a Why<'a>,
    caller: &'a Caller,
    seen: &'a Snapshot,
    context: &'a Context,
}

impl Asked<'_> {
    fn decided(&self, tools: Vec<Owned>) -> Vec<Decided> {
        let decided = |tool| self.why.decided(tool, self.caller, self.seen, |server| self.context.unmet(server));
        tools.iter().filter_map(decided).collect()
    }

    fn teller<'b>(&'b self, decided: &'b Decided) -> Teller<'b> {
        Teller { why: self.why, caller: self.caller, decided }
    }

    /// One line: what becomes of the tool, and why.
    fn line(&self, decided: &Decided) -> String {
        let reason = self.teller(decided).reason();
        format!("{} is {}: {reason}\n", decided.exposed, decided.conclusion.word())
    }

    /// The line, and every decision on a line of its own; `!` marks those that take the tool away.
    fn whole(&self, decided: &Decided) -> String {
        let mut out = self.line(decided);
        let _ = writeln!(
            out,
            "  `{}` of the server `{}`, for the agent `{}`",
            decided.tool, decided.server, self.caller.agent
        );
        let teller = self.teller(decided);
        for decision in &decided.decisions {
            let told = teller.tell(decision);
            let mark = if decision.drops { '!' } else { ' ' };
            let _ = writeln!(out, "  {mark} {:12} {}{}", told.about, told.text, told.bracket());
        }
        out
    }

    fn as_json(&self, decided: &Decided, whole: bool) -> Value {
        let teller = self.teller(decided);
        let place = |told: &Told| told.place.as_ref().map(super::super::why::Place::as_json);
        let mut out = json!({
            "name": decided.exposed,
            "server": decided.server,
            "tool": decided.tool,
            "conclusion": decided.conclusion.word(),
            "reason": teller.reason(),
            "place": place(&teller.tell(decided.decisive())),
        });
        if whole {
            let told = |decision| {
                let told = teller.tell(decision);
                json!({ "about": told.about, "drops": decision.drops, "text": told.text, "place": place(&told) })
            };
            out["decisions"] = decided.decisions.iter().map(told).collect();
        }
        out
    }
}
