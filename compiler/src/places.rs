//! Where what a plan says is written: profile, fragments, builtins and plugins too. What nobody wrote has no place.
//!
//! Filled while a config is resolved, and found again by the text of a pattern or rule, so that a plan that was locked
//! earlier can be held against the files of now: what isn't found is no longer written.

use std::collections::BTreeMap;

use crate::config::policy::AgentPolicy;
use crate::config::{self, Config, Mcp, ServerEntry};
use crate::name::ServerName;
use crate::source::{Span, Spanned};

/// Where the parts of a plan are written.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// By name.
    pub servers: BTreeMap<String, ServerPlaces>,
    /// `mcp.enabled`.
    pub enabled: Option<Spanned<bool>>,
    /// `mcp.denylist`, the main file's and the fragments'.
    pub denylist: Texts,
    /// `mcp.reserved`.
    pub reserved: Texts,
    /// `mcp.naming`.
    pub naming: Option<Span>,
    /// `mcp.name_limit`.
    pub name_limit: Option<Span>,
    /// `serve.disclosure`.
    pub disclosure: Option<Span>,
    /// `policy`, with the denials of fragments.
    pub policy: PolicyPlaces,
    /// By name; `lead` is there only when it is declared.
    pub agents: BTreeMap<String, AgentPlaces>,
}

/// Where the parts of one server are written.
#[derive(Clone, Debug, Default)]
pub struct ServerPlaces {
    /// Its name, or the entry where the name is derived.
    pub at: Span,
    /// `enabled`.
    pub enabled: Option<Spanned<bool>>,
    /// `when.env`.
    pub when: Texts,
    /// `workspaces`.
    pub workspaces: Texts,
    /// `tools.include` as a whole.
    pub include_list: Option<Span>,
    /// `tools.include`.
    pub include: Texts,
    /// `tools.exclude`.
    pub exclude: Texts,
    /// `tools.always`.
    pub always: Texts,
    /// `defer`, or `mcp.defer` where the entry doesn't say.
    pub defer: Option<Span>,
}

/// Where the parts of a policy are written.
#[derive(Clone, Debug, Default)]
pub struct PolicyPlaces {
    /// `default`.
    pub default: Option<Span>,
    /// `deny`.
    pub deny: Texts,
    /// `allow`.
    pub allow: Texts,
    /// `read_only`.
    pub read_only: Option<Span>,
}

/// Where the parts of an agent are written.
#[derive(Clone, Debug, Default)]
pub struct AgentPlaces {
    /// Its name.
    pub at: Span,
    /// `tools`.
    pub tools: Texts,
    /// `policy`.
    pub policy: PolicyPlaces,
}

/// A list of patterns, rules or names, each with its place.
#[derive(Clone, Debug, Default)]
pub struct Texts(Vec<Spanned<String>>);

impl Texts {
    /// Where `text` is written; the first place of several.
    pub fn find(&self, text: &str) -> Option<Span> {
        self.0.iter().find(|written| written.value == text).map(|written| written.at)
    }

    fn of<'a>(written: impl IntoIterator<Item = &'a Spanned<String>>) -> Self {
        Self(written.into_iter().cloned().collect())
    }
}

impl Places {
    /// Where a server is declared.
    pub fn server(&self, name: &ServerName) -> Option<Span> {
        self.servers.get(name.as_str()).map(|server| server.at)
    }

    /// Everything but the servers, which are resolved one by one.
    pub(crate) fn add_sections<'a>(&mut self, main: &'a Config, fragments: impl Iterator<Item = &'a Config> + Clone) {
        let mcp = main.mcp.as_ref();
        let with_fragments = std::iter::once(main).chain(fragments);
        let denials = with_fragments.clone().filter_map(|config| config.policy.as_ref());
        self.enabled = mcp.and_then(|mcp| mcp.enabled.clone());
        self.denylist = Texts::of(
            with_fragments.filter_map(|config| config.mcp.as_ref()).flat_map(|mcp| mcp.denylist.iter().flatten()),
        );
        self.reserved = Texts::of(mcp.iter().flat_map(|mcp| mcp.reserved.iter().flatten()));
        self.naming = mcp.and_then(|mcp| mcp.naming.as_ref()).map(|naming| naming.at);
        self.disclosure =
            main.serve.as_ref().and_then(|serve| serve.disclosure.as_ref()).map(|disclosure| disclosure.at);
        self.name_limit = mcp.and_then(|mcp| mcp.name_limit.as_ref()).map(|limit| limit.at);
        self.policy = main.policy.as_ref().map(PolicyPlaces::of).unwrap_or_default();
        self.policy.deny = Texts::of(denials.flat_map(|policy| policy.deny.iter().flatten()));
        let agents = main.agents.iter().flatten();
        self.agents =
            agents.map(|(name, agent)| (name.value.clone(), AgentPlaces::of(name.at, &agent.value))).collect();
    }
}

impl ServerPlaces {
    /// Of an entry in the shape of a written one; what a builtin brings along is at the builtin's own place.
    pub(crate) fn of(at: Span, entry: &ServerEntry, mcp: &Mcp) -> Self {
        let tools = entry.tools.as_ref();
        let include = tools.and_then(|tools| tools.include.as_ref());
        Self {
            at,
            enabled: entry.enabled.clone(),
            when: Texts::of(entry.when.iter().flat_map(|when| when.env.iter().flatten())),
            workspaces: Texts::of(entry.workspaces.iter().flat_map(|globs| &globs.value)),
            include_list: include.map(|include| include.at),
            include: Texts::of(include.iter().flat_map(|include| &include.value)),
            exclude: Texts::of(tools.iter().flat_map(|tools| tools.exclude.iter().flatten())),
            always: Texts::of(tools.iter().flat_map(|tools| tools.always.iter().flatten())),
            defer: entry.defer.as_ref().or(mcp.defer.as_ref()).map(|defer| defer.at),
        }
    }
}

impl PolicyPlaces {
    fn of(policy: &config::Policy) -> Self {
        Self {
            default: policy.default.as_ref().map(|default| default.at),
            deny: Texts::of(policy.deny.iter().flatten()),
            allow: Texts::of(policy.allow.iter().flatten()),
            read_only: policy.read_only.as_ref().map(|read_only| read_only.at),
        }
    }

    fn of_agent(policy: &AgentPolicy) -> Self {
        Self {
            default: policy.default.as_ref().map(|default| default.at),
            deny: Texts::of(policy.deny.iter().flatten()),
            allow: Texts::of(policy.allow.iter().flatten()),
            read_only: policy.read_only.as_ref().map(|read_only| read_only.at),
        }
    }
}

impl AgentPlaces {
    fn of(at: Span, agent: &config::Agent) -> Self {
        Self {
            at,
            tools: Texts::of(agent.tools.iter().flatten()),
            policy: agent.policy.as_ref().map(PolicyPlaces::of_agent).unwrap_or_default(),
        }
    }
}
