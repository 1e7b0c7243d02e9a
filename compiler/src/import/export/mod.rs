//! The other way: the file of a client that starts this executor, or that names the plan's servers themselves.
//!
//! References stay references, in the client's own syntax. What a client can't say is left out and named; never is a
//! value put in a reference's place, since none is known here.

mod client;
mod server;
mod toml;

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

pub use client::Client;

use crate::interpolate::Reference;
use crate::plan::{Plan, Policy, Server};
use server::{Said, Written};

/// A client's file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exported {
    /// The file.
    pub text: String,
    /// What could not be said in it, and what has to be done besides. Sentences without a final stop.
    pub notes: Vec<String>,
}

/// What the entry that starts this executor is called.
pub const OURS: &str = "mcplan";

/// The client's file with one server: `command`, which runs this executor.
pub fn executor(client: Client, command: &[String], plan: &Plan) -> Exported {
    let variables = variables(plan);
    let mut written = Written { command: command.first().cloned(), ..Written::default() };
    written.args = command.iter().skip(1).cloned().collect();
    let mut notes = Vec::new();
    match client {
        Client::Codex => written.handed_on = variables,
        Client::ClaudeDesktop if !variables.is_empty() => {
            let names = variables.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            notes.push(format!("{} has to have {names} in its environment: it hands no other on", client.title()));
        }
        _ => {}
    }
    Exported { text: file(client, &[(OURS.to_owned(), written)], &BTreeSet::new()), notes }
}

/// The client's file with the plan's servers.
pub fn servers(client: Client, plan: &Plan) -> Exported {
    let mut notes = Vec::new();
    let mut inputs = BTreeSet::new();
    let mut all = Vec::new();
    for server in &plan.servers {
        let mut said = Said::default();
        match server::write(client, server, &mut said) {
            Ok(written) => {
                notes.extend(said.notes.into_iter().map(|note| format!("`{}`: {note}", server.name)));
                inputs.extend(said.inputs);
                all.push((server.name.to_string(), written));
            }
            Err(why) => notes.push(format!("`{}` is left out: {why}", server.name)),
        }
    }
    // What keeps an agent from a tool is not lost in silence.
    let guards = [
        ("mcp.denylist", !plan.denylist.is_empty()),
        ("policy", plan.policy != Policy::default()),
        ("agents", plan.agents.values().any(|agent| !agent.is_unlimited())),
    ];
    for (guard, _) in guards.into_iter().filter(|(_, is_set)| *is_set) {
        notes.push(format!("`{guard}` is left out: only mcplan holds to it"));
    }
    Exported { text: file(client, &all, &inputs), notes }
}

/// Every variable that a plan refers to.
pub fn variables(plan: &Plan) -> BTreeSet<String> {
    let of = |server: &Server| {
        let templates = server.launch.templates();
        let references = templates.iter().flat_map(|(_, template)| template.references());
        let names = references.filter_map(Reference::variable).map(str::to_owned);
        names.chain(server.when_env.iter().cloned()).collect::<Vec<_>>()
    };
    plan.servers.iter().flat_map(of).collect()
}

fn file(client: Client, servers: &[(String, Written)], inputs: &BTreeSet<String>) -> String {
    if client == Client::Codex {
        return toml::file(servers);
    }
    let entries: Map<_, _> = servers.iter().map(|(name, written)| (name.clone(), written.json(client))).collect();
    let file = if client == Client::Vscode {
        let inputs: Vec<_> = inputs.iter().map(|name| input(name)).collect();
        if inputs.is_empty() { json!({ "servers": entries }) } else { json!({ "inputs": inputs, "servers": entries }) }
    } else {
        json!({ "mcpServers": entries })
    };
    crate::json::pretty(&file.to_string())
}

/// VS Code asks for it once and keeps it.
fn input(name: &str) -> Value {
    json!({ "type": "promptString", "id": name, "description": name, "password": true })
}

#[cfg(test)]
mod tests;
