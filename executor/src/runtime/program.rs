//! What is run, and what becomes of a server's words in it.

use std::sync::Arc;

use mcplan_compiler::lock::{Item, Verdict};
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Plan, Server};
use mcplan_compiler::prompt_template::Template;

use super::connection::Terms;
use super::places::Places;
use crate::core::baseline::Baseline;
use crate::core::catalog::Listing;
use crate::core::written::Written;
use crate::event::Event;

/// What is run: a plan, and the lock that fits it, if there is one.
#[derive(Clone, Debug)]
pub struct Program {
    /// The decisions.
    pub plan: Arc<Plan>,
    /// What servers looked like when they were locked.
    pub baseline: Option<Arc<Baseline>>,
    /// The plan's template, parsed.
    pub template: Arc<Template>,
    /// What stands in the lock for paths of this machine.
    pub places: Arc<Places>,
    /// Where the plan is written; nowhere when it is a lock's.
    pub written: Arc<Written>,
}

/// What a server said, as far as the lock trusts it.
#[derive(Debug)]
pub struct Heard {
    /// What it lists.
    pub listing: Listing,
    /// What a person should know of how its words differ from the lock's.
    pub told: Vec<Event>,
}

impl Program {
    /// How one of its servers is connected.
    pub fn terms(&self, name: &ServerName) -> Terms {
        let locked = self.baseline.as_ref().and_then(|baseline| baseline.server(&self.plan, name));
        Terms::of(&self.plan, locked)
    }

    /// The words of a server with places named as the lock does.
    pub fn as_locked(&self, said: &Observed) -> Observed {
        let mut as_locked = said.clone();
        if self.baseline.is_some() {
            self.places.replace_in(&mut as_locked);
        }
        as_locked
    }

    /// Holds a server's words against the lock, if there is one. `before` is what it listed until now.
    pub fn hear(&self, server: &Server, said: &Observed, as_locked: &Observed, before: Option<&Listing>) -> Heard {
        let Some(baseline) = &self.baseline else {
            return Heard { listing: Listing::observed(said, before), told: Vec::new() };
        };
        let judgement = baseline.judge(&self.plan, server, as_locked);
        let locked = baseline.server(&self.plan, &server.name);
        Heard {
            told: told(&server.name, &judgement.verdict),
            listing: Listing::held(said, as_locked, locked, judgement.hidden, before),
        }
    }
}

/// What is told of a verdict.
fn told(name: &ServerName, verdict: &Verdict) -> Vec<Event> {
    let refused = verdict.refused.iter().map(|why| Event::ServerRefused { server: name.clone(), reason: why.clone() });
    let quarantined = verdict.quarantined.iter().map(|(item, reason)| match item {
        Item::Tool(tool) => Event::ToolQuarantined { server: name.clone(), tool: tool.clone(), reason: reason.clone() },
        _ => Event::ServerDrifted { server: name.clone(), change: format!("{reason}; it isn't shown") },
    });
    let warned = verdict.warnings.iter();
    let warned = warned.map(|change| Event::ServerDrifted { server: name.clone(), change: change.to_string() });
    refused.chain(quarantined).chain(warned).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::core::catalog::tests::plan;

    /// The program of a config, without a lock.
    pub(crate) fn program(config: &str) -> Program {
        let plan = plan(config);
        let template = Template::parse(plan.prompt.template.content.text()).unwrap();
        let places = Places::of_machine(std::path::Path::new("/"));
        Program {
            plan: Arc::new(plan),
            baseline: None,
            template: Arc::new(template),
            places: Arc::new(places),
            written: Arc::default(),
        }
    }
}
