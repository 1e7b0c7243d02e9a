//! `mcplan status`: how a running executor stands.

use std::fmt::Write as _;

use clap::Args;

use super::ask::{self, OneOf};
use super::project::Which;
use super::report::{self, Outcome, counted};
use super::table::{columns, duration, wrapped};
use super::until_signal;
use crate::core::status::ServerStatus;
use crate::event::short;
use crate::serve::control::{Answer, Request, Status};

/// Show how the executor that runs for this config stands: each server, and what is wrong
#[derive(Debug, Args)]
pub(super) struct StatusCommand {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    of: OneOf,
}

impl StatusCommand {
    pub(super) fn run(&self, which: &Which, verbose: bool) -> anyhow::Result<Outcome> {
        let project = ask::project(which)?;
        let Answer::Status(status) = until_signal(self.of.ask(&project, &Request::Status))?? else {
            return Err(ask::other_answer().into());
        };
        if self.json {
            report::result(mcplan_compiler::json::pretty(&serde_json::to_string(&status)?));
        } else {
            report::result(text(&status, verbose));
        }
        Ok(if status.mcp.has_failed() { Outcome::DoesNotHold } else { Outcome::Fine })
    }
}

fn text(status: &Status, verbose: bool) -> String {
    let mut out = String::new();
    let Status { process, plan, mcp, .. } = status;
    let profile = status.profile.as_ref().map(|profile| format!(" with profile {profile}")).unwrap_or_default();
    let trust = match (plan.frozen, plan.locked) {
        (true, _) => ", frozen",
        (false, true) => ", locked",
        (false, false) => "",
    };
    let _ = writeln!(out, "{}{profile}", status.config);
    let _ = writeln!(out, "process {}, {}", process.pid, ask::who(status));
    let (generation, digest) = (plan.generation, short(&plan.digest));
    let tools = counted(mcp.tool_count, "tool");
    let _ = writeln!(out, "generation {generation}, plan {digest}{trust}, {tools}\n");
    if mcp.servers.is_empty() {
        out.push_str("no servers\n");
    } else {
        out.push_str(&servers(&mcp.servers, verbose));
    }
    if let Some(rejected) = &status.rejected {
        let since = duration(rejected.since);
        let _ = writeln!(out, "\nthe files were refused {since} ago, and generation {generation} serves on:");
        let _ = writeln!(out, "{}", rejected.report.trim_end());
    }
    out
}

/// A row for each server, and below it whatever else there is to say of it.
pub(super) fn servers(servers: &[ServerStatus], verbose: bool) -> String {
    let rows: Vec<_> = servers.iter().map(row).collect();
    let mut lines = columns(&["SERVER", "STATE", "FOR", "TOOLS", "TRANSPORT"], &rows, &[2, 3]).into_iter();
    let mut out = String::new();
    out.extend(lines.next().map(|head| head + "\n"));
    for (line, server) in lines.zip(servers) {
        out.push_str(&line);
        out.push('\n');
        for told in notes(server, verbose) {
            out.push_str(&wrapped(&told, "    "));
            out.push('\n');
        }
    }
    out
}

fn row(server: &ServerStatus) -> Vec<String> {
    vec![
        server.name.clone(),
        server.state.clone(),
        duration(server.since),
        server.tool_count.to_string(),
        server.transport.clone(),
    ]
}

fn notes(server: &ServerStatus, verbose: bool) -> Vec<String> {
    let mut notes: Vec<String> = server.cause.iter().cloned().collect();
    if server.attempts > 1 {
        notes.push(format!("{} since it was last ready", counted(server.attempts as usize, "attempt")));
    }
    if server.replacing {
        notes.push("another instance of it is being connected and will take its place".to_owned());
    }
    notes.extend(server.refused.iter().map(|why| format!("refused, nothing of it is offered: {why}")));
    notes.extend(server.quarantined.iter().map(|bad| format!("quarantined: {}: {}", bad.tool, bad.reason)));
    notes.extend(server.reserved.iter().map(|name| format!("hidden: the name {name} is reserved")));
    notes.extend(server.drift.iter().map(|change| format!("drifted: {change}")));
    notes.extend(server.warnings.iter().map(|warning| format!("warning: {warning}")));
    if verbose {
        notes.extend(server.stderr.iter().map(|line| format!("stderr: {line}")));
    }
    notes
}
