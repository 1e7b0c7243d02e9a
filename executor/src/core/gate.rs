//! The one place that allows an operation. A connection takes only [`Allowed`], and only [`gate`], [`gate_prompt`] and
//! [`gate_read`] make one, so that list, search, direct call and `call_mcp_tool` can't disagree.

use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::{ExposedName, Operation, Plan};
use serde_json::{Map, Value};

use super::caller::Caller;
use super::catalog::{Catalog, Hidden, judged};
use super::offers::{Found, readable};

/// What an agent asks for, as it asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Asked {
    /// The exposed name of a tool or prompt, or the address of a resource.
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

/// The fetching of one prompt, under the names that both sides use.
#[derive(Clone, Debug, PartialEq)]
pub struct Invoke {
    /// The server that owns the prompt.
    pub server: ServerName,
    /// The prompt as the server calls it.
    pub prompt: String,
    /// The prompt as the agent calls it.
    pub exposed: ExposedName,
    /// What goes with it besides.
    pub more: More,
}

/// The reading of one resource.
#[derive(Clone, Debug, PartialEq)]
pub struct Read {
    /// The server that is asked.
    pub server: ServerName,
    /// The address that it is asked for.
    pub uri: String,
    /// The address that the agent asked for.
    pub asked: String,
    /// What goes with it besides.
    pub more: More,
}

/// What an agent sends along, passed on as it is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct More {
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// The request's `_meta` without the keys that belong to the connection to the agent.
    pub meta: Map<String, Value>,
    /// Answers to what the server asked in place of a result (2026-07-28).
    pub input: Map<String, Value>,
}

/// Something that was allowed, to be looked at again when time has passed.
pub trait Gated: Sync {
    /// Whose it is.
    fn server(&self) -> &ServerName;

    /// Decides again by what is known now: a server that has been connected meanwhile may not say any more what was known
    /// of it. `catalog` is everyone's.
    ///
    /// # Errors
    /// When it is no longer offered.
    fn still_allowed(&self, plan: &Plan, catalog: &Catalog) -> Result<(), Denied>;

    /// Whether a later plan lets it go on. What isn't in it any more may.
    fn may_go_on(&self, plan: &Plan) -> bool;
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

/// What kind of thing was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A tool.
    Tool,
    /// A prompt.
    Prompt,
    /// A resource.
    Resource,
}

/// What may not be done. What the agent is told is the same for both reasons; the log knows which it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// Of what kind it is.
    pub kind: Kind,
    /// The name that was asked for, fit to be shown: bounded, and on one line.
    pub name: String,
    /// Why.
    pub reason: Reason,
}

impl std::fmt::Display for Denied {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            Kind::Tool => write!(f, "unknown tool: {}", self.name),
            Kind::Prompt => write!(f, "unknown prompt: {}", self.name),
            Kind::Resource => write!(f, "resource not found: {}", self.name),
        }
    }
}

impl std::error::Error for Denied {}

impl Denied {
    /// The operation as a rule of the policy names it, with the name that was asked for.
    pub fn operation(&self) -> String {
        let verb = match self.kind {
            Kind::Tool => "call",
            Kind::Prompt => "invoke",
            Kind::Resource => "read",
        };
        format!("mcp:{verb}:{}", self.name)
    }

    /// Which rule it is that denies it.
    pub fn rule(&self) -> String {
        match (&self.reason, self.kind) {
            (Reason::Hidden(server, why), _) => format!("of server {server}: {why}"),
            (Reason::Unknown, Kind::Tool) => "no server has a tool of that name".to_owned(),
            (Reason::Unknown, Kind::Prompt) => "no server has a prompt of that name".to_owned(),
            (Reason::Unknown, Kind::Resource) => "no server has such a resource".to_owned(),
        }
    }

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

/// Decides about a prompt.
///
/// # Errors
/// When no prompt of that name is offered.
pub fn gate_prompt(catalog: &Catalog, asked: Asked) -> Result<Allowed<Invoke>, Denied> {
    let Some(prompt) = catalog.offers().prompt(&asked.name) else {
        return Err(no_prompt(catalog, &asked.name));
    };
    Ok(Allowed(Invoke {
        server: prompt.server.clone(),
        prompt: prompt.entry.known.name.clone(),
        exposed: prompt.exposed.clone(),
        more: More { arguments: asked.arguments, meta: asked.meta, input: asked.input },
    }))
}

/// Decides about the reading of a resource; `catalog` is what `caller` sees.
///
/// # Errors
/// When nothing at that address may be read.
pub fn gate_read(plan: &Plan, catalog: &Catalog, caller: &Caller, asked: Asked) -> Result<Allowed<Read>, Denied> {
    match catalog.offers().find(plan, Some(caller), &asked.name) {
        Ok(Found { server, uri }) => Ok(Allowed(Read {
            server,
            uri,
            asked: asked.name,
            more: More { arguments: Map::new(), meta: asked.meta, input: asked.input },
        })),
        Err(why) => {
            let reason = why.map_or(Reason::Unknown, |(server, why)| Reason::Hidden(server, why));
            Err(Denied { kind: Kind::Resource, name: shown(&asked.name, NAME_SHOWN), reason })
        }
    }
}

impl Gated for Call {
    fn server(&self) -> &ServerName {
        &self.server
    }

    fn still_allowed(&self, _: &Plan, catalog: &Catalog) -> Result<(), Denied> {
        let name = self.exposed.as_str();
        if catalog.tool(name).is_some_and(|tool| tool.server == self.server && tool.entry.known.name == self.tool) {
            return Ok(());
        }
        Err(denied(catalog, name))
    }

    fn may_go_on(&self, plan: &Plan) -> bool {
        let operation = Operation::Call { server: &self.server, tool: &self.tool, read_only: self.read_only };
        let is_kept = |server| plan.keeps(server, &self.tool).is_ok() && judged(plan, None, &operation).is_ok();
        plan.server(self.server.as_str()).is_none_or(is_kept)
    }
}

impl Gated for Invoke {
    fn server(&self) -> &ServerName {
        &self.server
    }

    fn still_allowed(&self, _: &Plan, catalog: &Catalog) -> Result<(), Denied> {
        let name = self.exposed.as_str();
        let prompt = catalog.offers().prompt(name);
        if prompt.is_some_and(|prompt| prompt.server == self.server && prompt.entry.known.name == self.prompt) {
            return Ok(());
        }
        Err(no_prompt(catalog, name))
    }

    fn may_go_on(&self, plan: &Plan) -> bool {
        let operation = Operation::Invoke { server: &self.server, prompt: &self.prompt };
        plan.server(self.server.as_str()).is_none() || judged(plan, None, &operation).is_ok()
    }
}

impl Gated for Read {
    fn server(&self) -> &ServerName {
        &self.server
    }

    fn still_allowed(&self, plan: &Plan, catalog: &Catalog) -> Result<(), Denied> {
        let denied = |why| {
            let reason = Reason::Hidden(self.server.clone(), why);
            Denied { kind: Kind::Resource, name: shown(&self.asked, NAME_SHOWN), reason }
        };
        catalog.offers().trusts(&self.server, &self.uri).map_err(|why| denied(why.clone()))?;
        match readable(plan, None, &self.server, &self.uri) {
            Ok(uri) if uri == self.uri => Ok(()),
            // It was asked for before there were rules that look at another form of it.
            Ok(_) => Err(denied(Hidden::OddUri)),
            Err(why) => Err(denied(why)),
        }
    }

    fn may_go_on(&self, plan: &Plan) -> bool {
        plan.server(self.server.as_str()).is_none() || readable(plan, None, &self.server, &self.uri).is_ok()
    }
}

fn denied(catalog: &Catalog, name: &str) -> Denied {
    hidden(Kind::Tool, name, catalog.hidden(name))
}

fn no_prompt(catalog: &Catalog, name: &str) -> Denied {
    hidden(Kind::Prompt, name, catalog.offers().hidden(name))
}

fn hidden(kind: Kind, name: &str, hidden: Option<(&ServerName, &Hidden)>) -> Denied {
    let reason = hidden.map_or(Reason::Unknown, |(server, why)| Reason::Hidden(server.clone(), why.clone()));
    Denied { kind, name: shown(name, NAME_SHOWN), reason }
}

/// A name from outside as messages and logs show it, so many characters of it.
pub fn shown(name: &str, most: usize) -> String {
    let mut shown = String::new();
    for c in name.chars().take(most) {
        if c.is_control() { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    if name.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

/// Most of a name that is repeated to whoever asked for it, in characters; no tool has a longer one.
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
