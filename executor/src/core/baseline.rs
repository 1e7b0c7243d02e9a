//! The lock as what servers' words are held against: at every connect and every changed list, not only at start.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use mcplan_compiler::lock::{Change, Context, Found, Lock, LockedServer, Verdict, changes, verdict};
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{NameTable, Plan, Server};

use super::catalog::{Distrusted, Hidden};

/// A lock, and how strictly it is held to.
#[derive(Debug)]
pub struct Baseline {
    lock: Lock,
    /// Under which names all locked tools are exposed.
    names: OnceLock<NameTable>,
    /// Whether tools that aren't in the lock stay hidden.
    only_locked: bool,
}

impl Baseline {
    /// Of a lock. With `only_locked` nothing is offered that isn't in it.
    pub fn new(lock: Lock, only_locked: bool) -> Self {
        Self { lock, names: OnceLock::new(), only_locked }
    }

    /// The lock.
    pub fn lock(&self) -> &Lock {
        &self.lock
    }

    /// What is locked of a server of `plan`, as long as it is still started and reached in the same way.
    pub fn server(&self, plan: &Plan, name: &ServerName) -> Option<&LockedServer> {
        self.lock.baseline_of(plan, name)
    }

    /// What the lock makes of a server's words. `said` must name places as the lock does.
    pub fn judge(&self, plan: &Plan, server: &Server, said: &Observed) -> Judgement {
        let locked = self.server(plan, &server.name);
        let changes = locked.map_or_else(Vec::new, |locked| {
            // Nobody is kept waiting for them before the first server has spoken.
            let names = self.names.get_or_init(|| self.lock.names());
            let context = Context { server: &server.name, names };
            changes(locked, &Found::observed(plan, server, said), &context)
        });
        let verdict = verdict(&changes, &plan.policy.on_drift);
        let why = |why: &str| Hidden::Drifted(why.to_owned());
        let mut hidden = Distrusted {
            tools: verdict.tools().map(|(tool, reason)| (tool.to_owned(), why(reason))).collect(),
            prompts: verdict.prompts().map(|(prompt, reason)| (prompt.to_owned(), why(reason))).collect(),
            templates: verdict.resource_templates().map(|(uri, reason)| (uri.to_owned(), why(reason))).collect(),
            resources: None,
            all: None,
        };
        if self.only_locked {
            let (mut tools, mut prompts, mut templates) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
            if let Some(locked) = locked {
                tools.extend(locked.tools.iter().map(|tool| &*tool.known.name));
                prompts.extend(locked.prompts.iter().map(|prompt| &*prompt.known.name));
                templates.extend(locked.resource_templates.iter().map(|template| &*template.known.uri_template));
            }
            let unknown = |hidden: &mut BTreeMap<String, Hidden>, name: &str| {
                hidden.entry(name.to_owned()).or_insert(Hidden::NotLocked);
            };
            for tool in said.tools.iter().filter(|tool| !tools.contains(&*tool.known.name)) {
                unknown(&mut hidden.tools, &tool.known.name);
            }
            for prompt in said.prompts.iter().filter(|prompt| !prompts.contains(&*prompt.known.name)) {
                unknown(&mut hidden.prompts, &prompt.known.name);
            }
            for template in &said.resource_templates {
                if !templates.contains(&*template.known.uri_template) {
                    unknown(&mut hidden.templates, &template.known.uri_template);
                }
            }
            if !locked.is_some_and(|locked| locked.resources) {
                hidden.resources = Some(Hidden::NotLocked);
            }
        }
        if let Some(why) = &verdict.refused {
            let all = |names: Vec<&String>| {
                names.into_iter().map(|name| (name.clone(), Hidden::Refused(why.clone()))).collect()
            };
            hidden = Distrusted {
                tools: all(said.tools.iter().map(|tool| &tool.known.name).collect()),
                prompts: all(said.prompts.iter().map(|prompt| &prompt.known.name).collect()),
                templates: all(said.resource_templates.iter().map(|template| &template.known.uri_template).collect()),
                resources: None,
                all: Some(Hidden::Refused(why.clone())),
            };
        }
        Judgement { hidden, verdict, changes }
    }
}

/// What a lock makes of a server's words.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// What isn't offered because of it.
    pub hidden: Distrusted,
    /// What the changes lead to.
    pub verdict: Verdict,
    /// What changed.
    pub changes: Vec<Change>,
}
