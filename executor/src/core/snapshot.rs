//! One moment of the executor: plan, catalog and health together, immutable. A request takes it once and uses only it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Quarantined;
use mcplan_compiler::plan::{OWN_TOOLS, Plan, Server};
use mcplan_compiler::prompt_template::Template;

use super::catalog::{Catalog, CatalogTool};
use super::lifecycle::State;
use super::prompt::{Block, Limit, Mode, Rendered, ServerLine, Shown};
use super::search::{Document, Hit, Index, parameters};

/// The tool that searches, as agents call it.
pub const SEARCH_TOOL: &str = OWN_TOOLS[0];
/// The tool that calls another one by name.
pub const CALL_TOOL: &str = OWN_TOOLS[1];
/// How many hits a search gives when it doesn't say.
pub const SEARCH_LIMIT: usize = 5;
/// How many tools a session may have promoted.
pub const PROMOTE_LIMIT: usize = 50;

/// How one server is.
#[derive(Clone, Debug)]
pub struct Health {
    /// Where it is in its life.
    pub state: State,
    /// Attempts since the last success.
    pub attempts: u32,
    /// Whether its tools are known, or it was tried once and failed.
    pub settled: bool,
    /// Tools of its list that can't be used.
    pub quarantined: Vec<Quarantined>,
    /// What a person should know.
    pub warnings: Vec<String>,
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
    index: Arc<OnceLock<Index>>,
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
        Self { generation, plan, catalog, health, template, index: Arc::default() }
    }

    /// This moment, with what an earlier one has worked out of the same catalog.
    #[must_use]
    pub fn after(mut self, earlier: &Self) -> Self {
        if Arc::ptr_eq(&self.catalog, &earlier.catalog) {
            self.index = earlier.index.clone();
        }
        self
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

    /// Whether the plan can have a deferred tool, whatever is connected: decides whether our own tools are listed.
    pub fn can_defer(&self) -> bool {
        self.plan.enabled && self.plan.servers.iter().any(|server| server.enabled && server.defer)
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

    /// The tools that fit each query best, best first, each tool once; only of `server` when it is given.
    pub fn search(&self, queries: &[String], server: Option<&str>, limit: usize) -> Vec<(&CatalogTool, Hit)> {
        let tools = self.catalog.tools();
        let keep = |index: usize| server.is_none_or(|server| tools[index].server.as_str() == server);
        let queries: Vec<_> = queries.iter().map(String::as_str).collect();
        let mut seen = BTreeSet::new();
        let hits = self.index().search_all(&queries, limit, keep).into_iter().flatten();
        hits.filter(|hit| seen.insert(hit.index)).map(|hit| (&tools[hit.index], hit)).collect()
    }

    /// Built by the first search of this moment.
    fn index(&self) -> &Index {
        self.index.get_or_init(|| Index::new(self.catalog.tools().iter().map(document)))
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

fn document(tool: &CatalogTool) -> Document {
    let known = &tool.entry.known;
    Document {
        name: tool.exposed.to_string(),
        bare: known.name.clone(),
        server: tool.server.to_string(),
        title: known.display_title().unwrap_or_default().to_owned(),
        description: known.description.clone().unwrap_or_default(),
        parameters: parameters(&known.input_schema),
    }
}
