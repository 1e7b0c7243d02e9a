//! The lock as what servers' words are held against: at every connect and every changed list, not only at start.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use mcplan_compiler::lock::{Change, Context, Found, Lock, LockedServer, Verdict, changes, verdict};
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{NameTable, Plan, Server};

use super::catalog::Hidden;

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
        let is_locked =
            |name: &str| locked.is_some_and(|locked| locked.tools.iter().any(|tool| tool.known.name == name));
        let mut hidden: BTreeMap<_, _> = said
            .tools
            .iter()
            .filter(|tool| self.only_locked && !is_locked(&tool.known.name))
            .map(|tool| (tool.known.name.clone(), Hidden::NotLocked))
            .collect();
        hidden.extend(verdict.tools().map(|(tool, why)| (tool.to_owned(), Hidden::Drifted(why.to_owned()))));
        if let Some(why) = &verdict.refused {
            hidden.extend(said.tools.iter().map(|tool| (tool.known.name.clone(), Hidden::Refused(why.clone()))));
        }
        Judgement { hidden, verdict, changes }
    }
}

/// What a lock makes of a server's words.
#[derive(Clone, Debug, Default)]
pub struct Judgement {
    /// The tools that aren't offered because of it, by the server's own names.
    pub hidden: BTreeMap<String, Hidden>,
    /// What the changes lead to.
    pub verdict: Verdict,
    /// What changed.
    pub changes: Vec<Change>,
}
