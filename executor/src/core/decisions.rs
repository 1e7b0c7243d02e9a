//! Every decision about one tool, in order, and what comes of them: what `mcplan explain` tells.
//!
//! Each decision is asked of the plan by itself, so that those behind the one that hides a tool are told too. What comes
//! of them is never added up here: list and gate are asked ([`Snapshot::standing`]).

use mcplan_compiler::config::Verdict;
use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::{NameChange, NameTable, OWN_TOOLS, Operation, Policy, Refusal, Server};

use super::caller::Caller;
use super::catalog::{Hidden, Listing, Whose, refused};
use super::snapshot::{Snapshot, Standing};

/// A tool of some server, and what is asked about it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The server.
    pub server: &'a Server,
    /// What it lists.
    pub listing: &'a Listing,
    /// The tool as the server names it.
    pub tool: &'a str,
    /// A variable that the server's `when` needs and that isn't set here.
    pub unmet: Option<&'a str>,
}

/// What comes of all decisions about a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// It is in the list from the start.
    Listed,
    /// It is found by search.
    Deferred,
    /// Something hides it.
    Hidden,
    /// Policy denies it.
    Denied,
}

impl Conclusion {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Listed => "listed",
            Self::Deferred => "deferred",
            Self::Hidden => "hidden",
            Self::Denied => "denied",
        }
    }
}

/// One decision about a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What was decided.
    pub about: About,
    /// Whether it takes the tool away.
    pub drops: bool,
    /// The reason that the catalog has for that, where it has one.
    pub why: Option<Hidden>,
}

/// What was decided, with what decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// Whether the server is connected at all.
    Enabled,
    /// Whether the variables that `when` needs are set here.
    When {
        /// All that it needs.
        needs: Vec<String>,
        /// The first that isn't.
        unmet: Option<String>,
    },
    /// `tools.include`.
    Include {
        /// Whether there is such a list.
        listed: bool,
        /// The pattern that names the tool.
        by: Option<String>,
    },
    /// `tools.exclude`.
    Exclude {
        /// The pattern that names the tool.
        by: Option<String>,
        /// The entry of `include` that is the tool's very name.
        literal: Option<String>,
    },
    /// `mcp.denylist`.
    Denylist {
        /// The pattern that names the tool.
        by: Option<String>,
    },
    /// The lock has the tool's name only.
    Text,
    /// `policy`.
    Policy(Ruling),
    /// Whether what the server says of the tool now lets it be used, after a change since it was locked too. Known only
    /// where the server was asked.
    Quarantine,
    /// `agents.NAME.tools`.
    Agent {
        /// Whether there is such a list.
        listed: bool,
        /// The pattern that names the tool.
        by: Option<String>,
    },
    /// `agents.NAME.policy`.
    AgentPolicy(Ruling),
    /// `workspaces`.
    Workspace {
        /// What the server is for; empty is everywhere.
        needs: Vec<String>,
    },
    /// Whether the tool is found by search instead of being listed.
    Deferral {
        /// The pattern of `tools.always` that names the tool.
        always: Option<String>,
        /// Whether the server's tools are deferred.
        defer: bool,
        /// Whether everything is listed all the same (`serve.disclosure`).
        all: bool,
    },
    /// How the tool came to its name.
    Naming(Naming),
    /// Whether that name is free.
    Reserved {
        /// Whether it is one of our own tools'.
        ours: bool,
    },
}

/// What a policy says of a tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Nothing speaks of it.
    Default,
    /// This rule of `allow` is the exception that it needs.
    Allow(String),
    /// `read_only`, and it is known to change nothing.
    ReadOnly,
    /// `read_only`, and only the tool's name is known.
    ReadOnlyUnknown,
    /// It is refused, for the reason beside.
    Refused,
}

/// What was done to the pattern's own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Nothing.
    AsWritten,
    /// Characters were replaced.
    Characters,
    /// It had so many characters and was cut.
    Length(usize),
    /// It could be the name of another server's tool.
    Shared,
    /// It is another tool's name too: that of this server's tool, unless it is nobody's.
    Taken(Option<(ServerName, String)>),
}

/// All decisions about one tool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Whose tool it is.
    pub server: ServerName,
    /// As the server names it.
    pub tool: String,
    /// As agents call it, or would.
    pub exposed: String,
    /// In order.
    pub decisions: Vec<Decision>,
    /// What comes of them.
    pub conclusion: Conclusion,
    /// The one of `decisions` that it comes from; where nothing drops the tool the one that defers or lists it.
    pub decisive: usize,
}

impl Decided {
    /// The decision that the conclusion comes from.
    pub fn decisive(&self) -> &Decision {
        &self.decisions[self.decisive]
    }

    /// The decisions in order, as `seen`, the moment narrowed to `caller`, was put together. `names` are those of the
    /// whole catalog.
    pub fn about(subject: Subject<'_>, caller: &Caller, seen: &Snapshot, names: &NameTable) -> Self {
        let Subject { server, listing, tool, .. } = subject;
        // A server that isn't connected takes no name; its tools would have these.
        let alone;
        let names = match names.change(&seen.plan.naming, &server.name, tool) {
            Some(_) => names,
            None => {
                let own = listing.names().map(|tool| (&server.name, tool));
                alone = NameTable::build(&seen.plan.naming, &seen.plan.reserved, own);
                &alone
            }
        };
        let exposed = name(names, server, tool);
        let mut decisions = decisions(&subject, caller, seen, names, &exposed);
        let off = decisions.iter().position(|decision| decision.drops && decision.why.is_none());
        // A name that isn't this tool's says nothing of it.
        let standing = match names.exposed(&server.name, tool) {
            Some(name) => seen.standing(name.as_str()),
            None => Standing::Hidden(server.name.clone(), Hidden::Reserved),
        };
        // What the plan doesn't decide the executor does, by what the server says.
        if let Standing::Hidden(_, why) = &standing
            && decisions.iter().all(|decision| decision.why.as_ref() != Some(why))
            && let Some(live) = decisions.iter_mut().find(|decision| decision.about == About::Quarantine)
        {
            *live = Decision::new(About::Quarantine, Some(why.clone()));
        }
        let deferral = decisions.iter().position(|decision| matches!(decision.about, About::Deferral { .. }));
        let (conclusion, decisive) = match (off, &standing) {
            (Some(off), _) => (Conclusion::Hidden, Some(off)),
            (None, Standing::Listed) => (Conclusion::Listed, deferral),
            (None, Standing::Deferred) => (Conclusion::Deferred, deferral),
            (None, Standing::Hidden(_, why)) => {
                let conclusion = if why.is_denial() { Conclusion::Denied } else { Conclusion::Hidden };
                (conclusion, decisions.iter().position(|decision| decision.why.as_ref() == Some(why)))
            }
            (None, Standing::Unknown) => (Conclusion::Hidden, None),
        };
        debug_assert!(decisive.is_some(), "{standing:?} of {exposed} has no reason among {decisions:?}");
        let decisive = decisive.unwrap_or_default();
        Self { server: server.name.clone(), tool: tool.to_owned(), exposed, decisions, conclusion, decisive }
    }
}

/// The tool's name, or the one that it would have if that were free.
fn name(names: &NameTable, server: &Server, tool: &str) -> String {
    let bound = names.exposed(&server.name, tool).map(ToString::to_string);
    let unbound = || names.unbound().find(|(owner, raw, _)| **owner == server.name && *raw == tool);
    bound.or_else(|| unbound().map(|(.., name)| name.to_owned())).unwrap_or_default()
}

fn decisions(
    subject: &Subject<'_>,
    caller: &Caller,
    seen: &Snapshot,
    names: &NameTable,
    exposed: &str,
) -> Vec<Decision> {
    let Subject { server, listing, tool, unmet } = *subject;
    let plan = &seen.plan;
    let mut all = Vec::new();
    let named_only = listing.names_only.iter().any(|name| name == tool);
    let text = |pattern: Option<&mcplan_compiler::pattern::Pattern>| pattern.map(ToString::to_string);
    all.push(Decision { about: About::Enabled, drops: !(plan.enabled && server.enabled), why: None });
    if !server.when_env.is_empty() {
        let about = About::When { needs: server.when_env.clone(), unmet: unmet.map(str::to_owned) };
        all.push(Decision { about, drops: unmet.is_some(), why: None });
    }
    let lists = server.tools.read(&server.name, tool);
    let listed = server.tools.include.is_some();
    let not_included = (listed && lists.included.is_none()).then_some(Hidden::NotIncluded);
    all.push(Decision::new(About::Include { listed, by: text(lists.included) }, not_included));
    let excluded = lists.excluded.filter(|_| lists.literal.is_none());
    let excluded = excluded.map(|pattern| Hidden::Excluded(pattern.to_string()));
    all.push(Decision::new(About::Exclude { by: text(lists.excluded), literal: text(lists.literal) }, excluded));
    let denied = text(plan.denied(&server.name, tool));
    all.push(Decision::new(About::Denylist { by: denied.clone() }, denied.map(Hidden::Denylist)));
    if plan.keeps(server, tool).is_ok() && named_only {
        all.push(Decision::new(About::Text, Some(Hidden::NoText)));
    }
    let read_only = listing.read_only.get(tool).copied().unwrap_or(false);
    let operation = Operation::Call { server: &server.name, tool, read_only };
    let (ruling, why) = ruling(&plan.policy, Whose::Everyones, &operation, named_only);
    all.push(Decision::new(About::Policy(ruling), why));
    all.push(Decision::new(About::Quarantine, None));
    let agent = plan.agents.get(&caller.agent);
    let by = text(agent.and_then(|agent| agent.lists(&server.name, tool)));
    let sees = agent.is_some_and(|agent| agent.sees(&operation));
    let listed = agent.is_none_or(|agent| agent.tools.is_some());
    let others = (!sees).then(|| Hidden::NotTheAgents(caller.agent.clone(), "tools"));
    all.push(Decision::new(About::Agent { listed, by }, others));
    if let Some(agent) = agent.filter(|agent| agent.policy != Policy::default()) {
        let (ruling, why) = self::ruling(&agent.policy, Whose::Agents(caller.agent.clone()), &operation, named_only);
        all.push(Decision::new(About::AgentPolicy(ruling), why));
    }
    let elsewhere = (!caller.is_in_workspace_of(server)).then_some(Hidden::OtherWorkspace);
    all.push(Decision::new(About::Workspace { needs: server.workspaces.clone() }, elsewhere));
    let all_listed = plan.serve.disclosure == mcplan_compiler::config::Disclosure::All;
    let deferral = About::Deferral { always: text(lists.always), defer: server.defer, all: all_listed };
    all.push(Decision::new(deferral, None));
    let naming = match names.change(&plan.naming, &server.name, tool) {
        Some(NameChange::Characters) => Naming::Characters,
        Some(NameChange::Length(length)) => Naming::Length(length),
        Some(NameChange::Shared) => Naming::Shared,
        Some(NameChange::Taken(owner)) => Naming::Taken(owner.map(|(owner, tool)| (owner.clone(), tool.to_owned()))),
        Some(NameChange::None) | None => Naming::AsWritten,
    };
    all.push(Decision::new(About::Naming(naming), None));
    let reserved = names.exposed(&server.name, tool).is_none().then_some(Hidden::Reserved);
    all.push(Decision::new(About::Reserved { ours: OWN_TOOLS.contains(&exposed) }, reserved));
    all
}

impl Decision {
    fn new(about: About, why: Option<Hidden>) -> Self {
        Self { about, drops: why.is_some(), why }
    }
}

/// `named_only`: the tool is dropped already, and its hints aren't known.
fn ruling(policy: &Policy, whose: Whose, operation: &Operation<'_>, named_only: bool) -> (Ruling, Option<Hidden>) {
    match policy.decide(operation) {
        Err(Refusal::ReadOnly) if named_only => return (Ruling::ReadOnlyUnknown, None),
        Err(refusal) => return (Ruling::Refused, Some(refused(refusal, whose))),
        Ok(()) => {}
    }
    let known = matches!(operation, Operation::Call { read_only: true, .. });
    let needed = policy.default == Verdict::Deny || policy.read_only && !known;
    match policy.allows(operation).filter(|_| needed) {
        Some(rule) => (Ruling::Allow(rule.to_string()), None),
        None if policy.read_only => (Ruling::ReadOnly, None),
        None => (Ruling::Default, None),
    }
}

#[cfg(test)]
mod tests;
