//! One moment of the executor: plan, catalog and health together, immutable. A request takes it once and uses only it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Quarantined;
use mcplan_compiler::plan::{OWN_TOOLS, Plan, Server};
use mcplan_compiler::prompt_template::Template;

use super::catalog::{Catalog, CatalogTool, Hidden};
use super::gate::{Asked, Denied, Reason, gate};
use super::lifecycle::{Rest, State};
use super::prompt::{Block, Limit, Mode, Rendered, ServerLine, Shown};
use super::session::DisclosureSetting;
use super::written::Written;

/// The tool that searches, as agents call it.
pub const SEARCH_TOOL: &str = OWN_TOOLS[0];
/// The tool that calls another one by name.
pub const CALL_TOOL: &str = OWN_TOOLS[1];

/// How one server is.
#[derive(Clone, Debug)]
pub struct Health {
    /// Where it is in its life.
    pub state: State,
    /// Since when.
    pub since: Instant,
    /// Attempts since the last success.
    pub attempts: u32,
    /// Whether its tools are known, or it was tried once and failed.
    pub settled: bool,
    /// Whether it was ready or failed once.
    pub tried: bool,
    /// Whether it announces changes of its lists too often to follow each.
    pub unstable: bool,
    /// Whether another instance of it is being connected, to take this one's place.
    pub replacing: bool,
    /// Tools of its list that can't be used, or aren't what was locked.
    pub quarantined: Vec<Quarantined>,
    /// Why none of its tools is offered, when what it says isn't what was locked.
    pub refused: Option<String>,
    /// What else isn't what was locked; it is used all the same.
    pub drift: Vec<String>,
    /// What a person should know.
    pub warnings: Vec<String>,
}

/// How a tool stands to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is in the list from the start.
    Listed,
    /// It is found by search.
    Deferred,
    /// That server has it, and it isn't offered: policy denies it, or something else hides it.
    Hidden(ServerName, Hidden),
    /// No server has it.
    Unknown,
}

/// One moment.
pub struct Snapshot {
    /// Grows with every plan.
    pub generation: u64,
    /// What was decided.
    pub plan: Arc<Plan>,
    /// What there is.
    pub catalog: Arc<Catalog>,
    /// How each server of the plan is.
    pub health: BTreeMap<ServerName, Health>,
    template: Arc<Template>,
    written: Arc<Written>,
}

impl std::fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot")
            .field("generation", &self.generation)
            .field("health", &self.health)
            .finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Puts a moment together. `template` is the plan's.
    pub fn new(
        generation: u64,
        plan: Arc<Plan>,
        catalog: Arc<Catalog>,
        health: BTreeMap<ServerName, Health>,
        template: Arc<Template>,
    ) -> Self {
        Self { generation, plan, catalog, health, template, written: Arc::default() }
    }

    /// The same moment, with the places where its plan is written.
    #[must_use]
    pub fn with_written(self, written: Arc<Written>) -> Self {
        Self { written, ..self }
    }

    /// File and line of the rule that denied a call, as in `config.yml:12`, where somebody wrote it.
    pub fn place(&self, denied: &Denied) -> Option<String> {
        match &denied.reason {
            Reason::Unknown => None,
            Reason::Hidden(server, why) => self.written.place(&self.plan, server, &denied.name, why),
        }
    }

    /// Whether every server that is to be connected is known, or was tried once and failed.
    pub fn settled(&self) -> bool {
        self.unsettled().next().is_none()
    }

    /// The servers that are to be connected, of which nothing is known yet.
    pub fn unsettled(&self) -> impl Iterator<Item = &Server> {
        let waits = |server: &&Server| self.health.get(&server.name).is_some_and(|health| !health.settled);
        self.plan.servers.iter().filter(waits)
    }

    /// The servers that have resources and were never connected, so that nobody can know which.
    pub fn unheard(&self) -> impl Iterator<Item = &Server> {
        let unheard = self.catalog.offers().unheard().iter();
        unheard.filter_map(|name| {
            self.health.get(name).filter(|health| !health.tried)?;
            self.plan.server(name.as_str())
        })
    }

    /// Why agents should not be sent here yet: a server that is required isn't ready, or none of those that are to be
    /// connected is left. Without any it is ready.
    pub fn unready(&self) -> Option<&'static str> {
        let state = |server: &Server| self.health.get(&server.name).map(|health| &health.state);
        let wanted = || self.plan.servers.iter().filter(|server| self.plan.enabled && server.enabled);
        let is_up = |server: &&Server| matches!(state(server), Some(State::Ready { .. } | State::Unmet { .. }));
        let rests = |server: &&Server| matches!(state(server), Some(State::Configured(Rest::Uncalled | Rest::Idle(_))));
        if wanted().any(|server| server.required && !is_up(&server) && !rests(&server)) {
            return Some("a required server is not ready");
        }
        let has_failed = |server: &Server| matches!(state(server), Some(State::Failed { .. }));
        (wanted().next().is_some() && wanted().all(has_failed)).then_some("every server has failed")
    }

    /// Whether the plan can have a deferred tool, whatever is connected: decides whether our own tools are listed.
    pub fn can_defer(&self) -> bool {
        self.plan.enabled && self.plan.servers.iter().any(|server| server.enabled && server.defer)
    }

    /// How a tool of that name stands to the agent that this moment is narrowed to, before it has searched for anything.
    pub fn standing(&self, name: &str) -> Standing {
        // What a tool's place in the list depends on, the setting decides alone: neither era lists a deferred one.
        let mode = DisclosureSetting::from(self.plan.serve.disclosure).for_client(false);
        if [SEARCH_TOOL, CALL_TOOL].contains(&name) && mode.lists_ours(self) {
            return Standing::Listed;
        }
        match gate(&self.catalog, Asked { name: name.to_owned(), ..Asked::default() }) {
            Ok(_) if self.catalog.tool(name).is_some_and(|tool| mode.lists(tool)) => Standing::Listed,
            Ok(_) => Standing::Deferred,
            Err(Denied { reason: Reason::Hidden(server, why), .. }) => Standing::Hidden(server, why),
            Err(Denied { reason: Reason::Unknown, .. }) => Standing::Unknown,
        }
    }

    /// The whole block of the deferred tools.
    pub fn block(&self) -> Rendered {
        let tools: Vec<_> = self.catalog.tools().iter().filter(|tool| tool.deferred).map(shown).collect();
        let servers: Vec<_> = self
            .plan
            .servers
            .iter()
            .map(|server| ServerLine { name: server.name.as_str(), description: server.description.as_deref() })
            .collect();
        match self.block_settings() {
            Ok(block) => block.render(&tools, &servers),
            // A budget in tokens without a counter was refused at start; a reload can't bring it in either.
            Err(_) => Rendered {
                text: String::new(),
                mode: Mode::OverBudget,
                included: Vec::new(),
                truncated: Vec::new(),
                omitted: tools.iter().map(|tool| tool.name.to_owned()).collect(),
                chars: 0,
                failure: None,
            },
        }
    }

    /// How the block is made.
    ///
    /// # Errors
    /// When the budget is in tokens and this build can't count them.
    pub fn block_settings(&self) -> Result<Block<'_>, super::tokens::NoTokens> {
        let prompt = &self.plan.prompt;
        Ok(Block {
            template: &self.template,
            limit: Limit::of(prompt.budget)?,
            max_description_chars: prompt.max_description_chars,
            min_description_chars: prompt.min_description_chars,
            search_tool: SEARCH_TOOL,
            call_tool: CALL_TOOL,
        })
    }

    /// The same moment with what one caller sees; `catalog` is this one's, narrowed.
    #[must_use]
    pub fn with_catalog(&self, catalog: Arc<Catalog>) -> Self {
        Self {
            generation: self.generation,
            plan: self.plan.clone(),
            catalog,
            health: self.health.clone(),
            template: self.template.clone(),
            written: self.written.clone(),
        }
    }
}

fn shown(tool: &CatalogTool) -> Shown<'_> {
    Shown {
        name: tool.exposed.as_str(),
        server: tool.server.as_str(),
        title: tool.entry.known.display_title(),
        description: tool.entry.known.description.as_deref().unwrap_or_default(),
    }
}
