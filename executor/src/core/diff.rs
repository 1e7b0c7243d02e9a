//! Two locks as what an agent sees of them: names that come and go, the block's size, words, and what else moved.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcplan_compiler::lock::words::{parts, render};
use mcplan_compiler::lock::{Change, Context, Drift, Found, Lock, changes};
use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::NameTable;
use serde::Serialize;
use serde_json::Value;

use super::caller::Caller;
use super::catalog::Catalog;
use super::snapshot::Snapshot;
use super::tokens::CountTokens;

/// One of the two: a lock, and what it shows by itself.
#[derive(Clone, Copy, Debug)]
pub struct Side<'a> {
    /// The lock.
    pub lock: &'a Lock,
    /// Its plan and catalog, in no workspace.
    pub snapshot: &'a Snapshot,
}

/// Everything that differs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diff {
    /// By agent, only those that see a difference.
    pub agents: BTreeMap<String, AgentDiff>,
    /// What servers say otherwise, by server.
    pub servers: BTreeMap<ServerName, Vec<Words>>,
    /// What was decided otherwise.
    pub plan: Vec<Drift>,
}

impl Diff {
    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.agents.is_empty() && self.servers.is_empty() && self.plan.is_empty()
    }
}

/// What differs for one agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentDiff {
    /// Tools that it sees otherwise than before.
    pub tools: Vec<ToolDiff>,
    /// The prompt block before and after; `null` where its text is the same.
    pub block: Option<BlockDiff>,
}

/// How one tool stood and stands.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ToolDiff {
    /// Its server.
    pub server: ServerName,
    /// Its own name.
    pub tool: String,
    /// Before.
    pub before: Standing,
    /// After.
    pub after: Standing,
    /// What it says it does, for one that appears.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// How an agent sees a tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "standing", rename_all = "snake_case")]
pub enum Standing {
    /// In its list from the start.
    Listed {
        /// Under this name.
        name: String,
    },
    /// In the block, and found by search.
    Deferred {
        /// Under this name.
        name: String,
    },
    /// There, and not for this agent.
    Hidden {
        /// Why.
        why: String,
        /// Whether that is a decision of the policy.
        by_policy: bool,
    },
    /// Not there.
    Absent {
        /// Why.
        why: &'static str,
    },
}

impl Standing {
    /// The name that the agent calls it by, if it may.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Listed { name } | Self::Deferred { name } => Some(name),
            Self::Hidden { .. } | Self::Absent { .. } => None,
        }
    }
}

/// The prompt block's size before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BlockDiff {
    /// Before.
    pub before: Size,
    /// After.
    pub after: Size,
}

/// How large a prompt block is, and how much of what there is it shows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Unicode scalar values.
    pub chars: usize,
    /// Bytes of UTF-8.
    pub bytes: usize,
    /// Tokens of o200k_base; `null` in a build that can't count them.
    pub tokens: Option<usize>,
    /// Tools that are only counted in it.
    pub omitted: usize,
}

/// Something that a server says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Words {
    /// What, by which rule.
    #[serde(flatten)]
    pub change: Change,
    /// The text word by word, `[-old-]{+new+}`, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub words: Option<String>,
}

/// How much of an unchanged stretch stays beside a change, in characters.
const AROUND: usize = 40;

/// What differs from `before` to `after`. Tokens are counted where there is a counter.
pub fn diff(before: Side<'_>, after: Side<'_>, counter: Option<&dyn CountTokens>) -> Diff {
    let names = (before.lock.names(), after.lock.names());
    let agents: BTreeSet<_> = before.lock.plan.agents.keys().chain(after.lock.plan.agents.keys()).collect();
    let of_agent = |agent: &String| {
        let (was, is) = (View::of(before, agent), View::of(after, agent));
        let tools = tools(&was, &is, (before.lock, after.lock), (&names.0, &names.1));
        let block =
            (was.block != is.block).then(|| BlockDiff { before: size(&was, counter), after: size(&is, counter) });
        (!tools.is_empty() || block.is_some()).then(|| (agent.clone(), AgentDiff { tools, block }))
    };
    Diff {
        agents: agents.into_iter().filter_map(of_agent).collect(),
        servers: servers(before.lock, after.lock, &names.0),
        plan: before.lock.check(&after.lock.plan, &after.lock.sources),
    }
}

/// What one agent sees.
struct View {
    catalog: Arc<Catalog>,
    block: String,
    omitted: usize,
}

impl View {
    /// An agent that isn't declared sees nothing.
    fn of(side: Side<'_>, agent: &str) -> Self {
        // A workspace is of one session; what differs in any of them matters.
        let mut plan = (*side.snapshot.plan).clone();
        plan.servers.iter_mut().for_each(|server| server.workspaces.clear());
        let caller = Caller { agent: agent.to_owned(), workspace: None, home: None };
        let catalog = Arc::new(side.snapshot.catalog.narrowed(&plan, &caller));
        let rendered = side.snapshot.with_catalog(catalog.clone()).block();
        Self { catalog, omitted: rendered.omitted.len(), block: rendered.text }
    }
}

fn size(view: &View, counter: Option<&dyn CountTokens>) -> Size {
    Size {
        chars: view.block.chars().count(),
        bytes: view.block.len(),
        tokens: counter.map(|counter| counter.count(&view.block)),
        omitted: view.omitted,
    }
}

fn tools(was: &View, is: &View, locks: (&Lock, &Lock), names: (&NameTable, &NameTable)) -> Vec<ToolDiff> {
    let every = |names: &NameTable| -> Vec<(ServerName, String)> {
        names.iter().map(|(_, server, tool)| (server.clone(), tool.to_owned())).collect()
    };
    let all: BTreeSet<_> = every(names.0).into_iter().chain(every(names.1)).collect();
    let mut differ = Vec::new();
    for (server, tool) in all {
        let before = standing(was, locks.0, names.0, &server, &tool);
        let after = standing(is, locks.1, names.1, &server, &tool);
        let is_seen = before.name().is_some() || after.name().is_some();
        if before == after || !is_seen {
            continue;
        }
        let appears = after.name().filter(|_| before.name().is_none());
        let description = appears.and_then(|name| is.catalog.tool(name)?.entry.known.description.clone());
        differ.push(ToolDiff { server, tool, before, after, description });
    }
    // As a reader looks for them: by the name that the agent knows.
    differ.sort_by(|a, b| (a.after.name().or(a.before.name())).cmp(&b.after.name().or(b.before.name())));
    differ
}

fn standing(view: &View, lock: &Lock, names: &NameTable, server: &ServerName, tool: &str) -> Standing {
    let exposed = names.exposed(server, tool).map(|name| name.as_str());
    if let Some(seen) = exposed.and_then(|name| view.catalog.tool(name)) {
        let name = seen.exposed.to_string();
        return if seen.deferred { Standing::Deferred { name } } else { Standing::Listed { name } };
    }
    if let Some((_, why)) = exposed.and_then(|name| view.catalog.hidden(name)) {
        return Standing::Hidden { why: why.to_string(), by_policy: why.is_denial() };
    }
    let why = match lock.plan.server(server.as_str()) {
        None => "its server is not in the config",
        Some(found) if !found.enabled || !lock.plan.enabled => "its server is not enabled",
        Some(_) if !lock.catalog.contains_key(server) => "its server isn't locked; its tools are unknown",
        Some(_) if names.unbound().any(|(of, name, _)| of == server && name == tool) => {
            "its name is one of mcplan's own tools or of `mcp.reserved`"
        }
        Some(_) => "the server doesn't list it",
    };
    Standing::Absent { why }
}

fn servers(before: &Lock, after: &Lock, names: &NameTable) -> BTreeMap<ServerName, Vec<Words>> {
    let both = before.catalog.iter().filter_map(|(name, was)| Some((name, was, after.catalog.get(name)?)));
    let differ = both.map(|(name, was, is)| {
        let found = changes(was, &Found::from(is), &Context { server: name, names });
        (name.clone(), found.into_iter().map(words).collect::<Vec<_>>())
    });
    differ.filter(|(_, words)| !words.is_empty()).collect()
}

fn words(change: Change) -> Words {
    let words = match (&change.locked, &change.found) {
        (Some(Value::String(locked)), Some(Value::String(found))) => Some(render(&parts(locked, found), AROUND)),
        _ => None,
    };
    Words { change, words }
}
