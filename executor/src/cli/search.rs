//! `mcplan search`: the tools that a query finds, from the lock, offline.

use std::fmt::Write as _;

use clap::Args;
use serde_json::json;

use super::project::{Project, Which};
use super::report::{self, CouldNot, Outcome};
use super::snapshot_of;
use crate::core::prompt::clean;

/// Search the tools, from the lock: what an agent's search would find
#[derive(Debug, Args)]
pub(super) struct SearchCommand {
    /// What the tool should do, or its name
    #[arg(required = true)]
    query: Vec<String>,
    /// Most tools to show, 1 to 50; exact names come on top of it [default: `search.limit`]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=50))]
    limit: Option<u64>,
    /// What this agent sees [default: lead]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Only tools of this server
    #[arg(long)]
    server: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl SearchCommand {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let project = Project::find(which)?;
        let lock = project.need_lock()?;
        project.warn_if_stale(&lock);
        let snapshot = snapshot_of(&lock, self.agent.as_deref())?;
        let known: Vec<_> = lock.plan.servers.iter().map(|server| server.name.as_str()).collect();
        if let Some(server) = self.server.as_deref().filter(|server| !known.contains(server)) {
            let known = known.join(", ");
            return Err(CouldNot::new(format!("there is no server `{server}`; the servers are {known}")).into());
        }
        let query = self.query.join(" ");
        let limit = self.limit.map_or(lock.plan.search.limit, |limit| limit as usize);
        let hits = snapshot.catalog.search(std::slice::from_ref(&query), self.server.as_deref(), limit);
        if self.json {
            let hits: Vec<_> = hits
                .iter()
                .map(|(tool, hit)| {
                    json!({
                        "name": tool.exposed,
                        "server": tool.server,
                        "description": tool.entry.known.description,
                        "inputSchema": tool.entry.input_schema(),
                        "exact": hit.exact,
                        "deferred": tool.deferred,
                    })
                })
                .collect();
            report::result(mcplan_compiler::json::pretty(&json!({ "query": query, "tools": hits }).to_string()));
            return Ok(Outcome::Fine);
        }
        if hits.is_empty() {
            report::note(format_args!("no tool found; servers: {}", known.join(", ")));
        }
        let mut out = String::new();
        for (tool, _) in hits {
            let description = clean(tool.entry.known.description.as_deref().unwrap_or_default());
            let short: String = description.chars().take(100).collect();
            let more = if short.len() < description.len() { "…" } else { "" };
            let _ = writeln!(out, "{}", tool.exposed);
            if !short.is_empty() {
                let _ = writeln!(out, "    {short}{more}");
            }
        }
        report::result(out);
        Ok(Outcome::Fine)
    }
}
