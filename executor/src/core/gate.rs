//! The one place that allows an operation. A connection takes only [`Allowed`], and only [`gate`] makes one, so that
//! list, search, direct call and `call_mcp_tool` can't disagree.

use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::ExposedName;
use serde_json::{Map, Value};

use super::catalog::{Catalog, Hidden};

/// One tool call as an agent asked for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// The tool's exposed name.
    pub name: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// The request's `_meta`, without the keys that belong to the connection to the agent.
    pub meta: Map<String, Value>,
    /// Further parameters: answers to what the server asked in place of a result (2026-07-28).
    pub input: Map<String, Value>,
}

/// One tool call, under the names that both sides use.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The server that owns the tool.
    pub server: ServerName,
    /// The tool as the server calls it.
    pub tool: String,
    /// Whether it is known to change nothing.
    pub read_only: bool,
    /// The tool as the agent calls it.
    pub exposed: ExposedName,
    /// The arguments as the agent sent them.
    pub arguments: Map<String, Value>,
    /// The request's `_meta` without the keys that belong to the connection to the agent.
    pub meta: Map<String, Value>,
    /// Further parameters: answers to what the server asked in place of a result (2026-07-28).
    pub input: Map<String, Value>,
}

/// An operation that passed the gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowed<T>(T);

impl<T> Allowed<T> {
    /// What was allowed.
    pub fn get(&self) -> &T {
        &self.0
    }
}

/// A call that may not be made. What the agent is told is the same for both reasons; the log knows which it was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown tool: {name}")]
pub struct Denied {
    /// The name that was asked for, fit to be shown: bounded, and on one line.
    pub name: String,
    /// Why.
    pub reason: Reason,
}

impl Denied {
    /// What the owner of the config is told, who may know the reason.
    pub fn in_full(&self) -> String {
        match &self.reason {
            Reason::Unknown => format!("{self}; 'mcplan search' finds tools by name and by what they do"),
            Reason::Hidden(server, why) => format!("{self}: {server} has it, but {why}"),
        }
    }
}

/// Why a call may not be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No server has such a tool.
    Unknown,
    /// A server has it, and it isn't offered.
    Hidden(ServerName, Hidden),
}

/// Decides one call.
///
/// # Errors
/// When no tool of that name is offered.
pub fn gate(catalog: &Catalog, asked: Asked) -> Result<Allowed<Call>, Denied> {
    let Some(tool) = catalog.tool(&asked.name) else { return Err(denied(catalog, &asked.name)) };
    Ok(Allowed(Call {
        server: tool.server.clone(),
        tool: tool.entry.known.name.clone(),
        read_only: tool.read_only,
        exposed: tool.exposed.clone(),
        arguments: asked.arguments,
        meta: asked.meta,
        input: asked.input,
    }))
}

/// Decides again about a call that was allowed by an earlier catalog: a server that has been connected meanwhile may not
/// say any more what was known of it.
///
/// # Errors
/// When the same tool of the same server is no longer offered under that name.
pub fn still_allowed(catalog: &Catalog, call: &Call) -> Result<(), Denied> {
    let name = call.exposed.as_str();
    if catalog.tool(name).is_some_and(|tool| tool.server == call.server && tool.entry.known.name == call.tool) {
        return Ok(());
    }
    Err(denied(catalog, name))
}

fn denied(catalog: &Catalog, name: &str) -> Denied {
    let reason = match catalog.hidden(name) {
        Some((server, why)) => Reason::Hidden(server.clone(), why.clone()),
        None => Reason::Unknown,
    };
    Denied { name: shown(name), reason }
}

/// A name from outside as messages and logs show it.
fn shown(name: &str) -> String {
    let mut shown = String::new();
    for c in name.chars().take(NAME_SHOWN) {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    if name.chars().nth(NAME_SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// Longest name that is repeated to whoever asked for it, in characters; no tool has a longer one.
const NAME_SHOWN: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::catalog::tests::{listings, plan};

    fn asked(name: &str) -> Asked {
        Asked { name: name.to_owned(), ..Asked::default() }
    }

    #[test]
    fn every_listed_tool_passes_and_nothing_else_does() {
        let plan = plan("mcp_servers: [{ name: a, command: x, tools: { exclude: [delete_entity] } }]");
        let catalog = Catalog::build(&plan, &listings(&[("a", &["delete_entity", "read", "read.x", "read_x"])]));
        for tool in catalog.tools() {
            let allowed = gate(&catalog, asked(tool.exposed.as_str())).unwrap();
            assert_eq!(allowed.get().tool, tool.entry.known.name);
        }
        for name in
            ["mcp__a__delete_entity", "mcp__a__DELETE_ENTITY", "delete_entity", "a__delete_entity", "mcp__a__nope", ""]
        {
            let denied = gate(&catalog, asked(name)).unwrap_err();
            assert_eq!(denied.to_string(), format!("unknown tool: {name}"), "one text, hidden or not");
        }
        let denied = gate(&catalog, asked("mcp__a__delete_entity")).unwrap_err();
        assert!(matches!(denied.reason, Reason::Hidden(_, Hidden::Excluded(_))), "{denied:?}");
    }
}
