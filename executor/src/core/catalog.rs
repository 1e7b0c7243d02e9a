//! Listings × plan → which tools exist, under which names, which of them are deferred, and why the others are hidden.
//!
//! Built anew whenever a list or the plan changes; the same listings and plan give the same catalog, whatever
//! connected first. Holds no handle and no session.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use mcplan_compiler::json;
use mcplan_compiler::lock::{LockedList, LockedServer};
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::{Entry, Observed, Prompt, Quarantined, Resource, ResourceTemplate, Tool};
use mcplan_compiler::plan::{Dropped, ExposedName, NameTable, Operation, Plan, Refusal, Server};
use serde_json::value::RawValue;

use super::caller::Caller;
use super::offers::Offers;
use super::search::{Document, Hit, Index, parameters};

/// What one server offers: from its lock entry, or as it said itself.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// The tools that are known whole.
    pub tools: Vec<Arc<Entry<Tool>>>,
    /// Tools of which the lock has only the name.
    pub names_only: Vec<String>,
    /// Tools that can't be used, with the reason.
    pub quarantined: Vec<Quarantined>,
    /// Its prompts.
    pub prompts: Vec<Arc<Entry<Prompt>>>,
    /// Its resource templates.
    pub templates: Vec<Arc<Entry<ResourceTemplate>>>,
    /// Its resources. They are live data: `None` when it is known from the lock that it has some, and not which.
    pub resources: Option<Vec<Arc<Entry<Resource>>>>,
    /// What the lock speaks against.
    pub distrusted: Distrusted,
    /// Whether each tool said that it changes nothing, as it was locked or, without a lock, first seen. A later word of
    /// the server's doesn't count.
    pub read_only: BTreeMap<String, bool>,
}

/// What isn't offered because of the lock, with the reason, by the server's own names.
#[derive(Clone, Debug, Default)]
pub struct Distrusted {
    /// Tools.
    pub tools: BTreeMap<String, Hidden>,
    /// Prompts.
    pub prompts: BTreeMap<String, Hidden>,
    /// Resource templates, by their URI templates.
    pub templates: BTreeMap<String, Hidden>,
    /// Its resources, but for those of templates.
    pub resources: Option<Hidden>,
    /// Everything of it, whatever it is.
    pub all: Option<Hidden>,
}

impl From<&LockedServer> for Listing {
    fn from(locked: &LockedServer) -> Self {
        Self {
            tools: locked.tools.0.clone(),
            names_only: locked.filtered.iter().map(|tool| tool.name.clone()).collect(),
            quarantined: Vec::new(),
            prompts: locked.prompts.0.clone(),
            templates: locked.resource_templates.0.clone(),
            resources: (!locked.resources).then(Vec::new),
            distrusted: Distrusted::default(),
            read_only: hints(locked.tools.iter()),
        }
    }
}

/// What each tool says of itself.
fn hints<'a>(tools: impl Iterator<Item = &'a Entry<Tool>>) -> BTreeMap<String, bool> {
    let hint =
        |tool: &Entry<Tool>| tool.known.annotations.as_ref().and_then(|hints| hints.read_only_hint) == Some(true);
    tools.map(|tool| (tool.known.name.clone(), hint(tool))).collect()
}

impl Listing {
    /// The names of all tools, kept or not, as the server calls them.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| tool.known.name.as_str()).chain(self.names_only.iter().map(String::as_str))
    }

    /// The same with the tools of another one, as what it says of its own isn't known.
    #[must_use]
    pub fn with_tools_of(self, known: Self) -> Self {
        let mut distrusted = self.distrusted;
        distrusted.tools = match &distrusted.all {
            Some(why) => known.tools.iter().map(|tool| (tool.known.name.clone(), why.clone())).collect(),
            None => known.distrusted.tools,
        };
        let Self { tools, names_only, .. } = known;
        Self { tools, names_only, distrusted, ..self }
    }

    /// What a server said, with nothing to hold it against but what was known of it `before`.
    pub fn observed(observed: &Observed, before: Option<&Self>) -> Self {
        Self::said(observed, observed, None, before)
    }

    /// What a server said, held against its lock entry: in the lock's text wherever only the spelling differs.
    /// `as_locked` is the same with places named as the lock does.
    pub fn held(
        observed: &Observed,
        as_locked: &Observed,
        locked: Option<&LockedServer>,
        distrusted: Distrusted,
        before: Option<&Self>,
    ) -> Self {
        Self { distrusted, ..Self::said(observed, as_locked, locked, before) }
    }

    fn said(observed: &Observed, as_locked: &Observed, locked: Option<&LockedServer>, before: Option<&Self>) -> Self {
        // With a lock only its word counts, for a tool that it doesn't know none; without one the first word does.
        let mut read_only = if locked.is_some() { BTreeMap::new() } else { hints(observed.tools.iter()) };
        read_only.extend(before.map(|before| before.read_only.clone()).unwrap_or_default());
        if let Some(locked) = locked {
            read_only.extend(hints(locked.tools.iter()));
        }
        Self {
            tools: texts(&observed.tools, &as_locked.tools, locked.map(|locked| &locked.tools)),
            names_only: Vec::new(),
            quarantined: observed.quarantined.clone(),
            prompts: texts(&observed.prompts, &as_locked.prompts, locked.map(|locked| &locked.prompts)),
            templates: texts(
                &observed.resource_templates,
                &as_locked.resource_templates,
                locked.map(|locked| &locked.resource_templates),
            ),
            resources: Some(observed.resources.clone()),
            distrusted: Distrusted::default(),
            read_only,
        }
    }
}

/// What was said, in the lock's text wherever only the spelling differs.
fn texts<T: Clone>(said: &[Entry<T>], as_locked: &[Entry<T>], locked: Option<&LockedList<T>>) -> Vec<Arc<Entry<T>>> {
    let known: BTreeMap<_, _> =
        locked.iter().flat_map(|locked| &locked.0).map(|entry| (entry.digest.as_str(), entry)).collect();
    let text = |(said, as_locked): (&Entry<T>, &Entry<T>)| {
        known.get(as_locked.digest.as_str()).map_or_else(|| Arc::new(said.clone()), |locked| Arc::clone(locked))
    };
    said.iter().zip(as_locked).map(text).collect()
}

/// A tool that an agent may see.
#[derive(Clone, Debug)]
pub struct CatalogTool {
    /// The server that owns it.
    pub server: ServerName,
    /// Its name downstream.
    pub exposed: ExposedName,
    /// Whether it is found by search instead of being listed outright.
    pub deferred: bool,
    /// Whether it is known to change nothing.
    pub read_only: bool,
    /// What the server said of it.
    pub entry: Arc<Entry<Tool>>,
    /// The server's own text with the exposed name in it: what is sent.
    pub text: Arc<str>,
}

/// Whose policy it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whose {
    /// `policy`.
    Everyones,
    /// `agents.NAME.policy`.
    Agents(String),
}

/// Why a tool of some server isn't offered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hidden {
    /// `tools.include` doesn't name it.
    NotIncluded,
    /// This pattern of `tools.exclude` names it.
    Excluded(String),
    /// This pattern of `mcp.denylist` names it.
    Denylist(String),
    /// Its name belongs to one of our own tools.
    Reserved,
    /// It can't be used.
    Quarantined(String),
    /// The lock knows its name only; lock again to have its text.
    NoText,
    /// It isn't in the lock, and nothing else is offered.
    NotLocked,
    /// What the server says of it isn't what was locked.
    Drifted(String),
    /// What the server says isn't what was locked, and none of its tools is offered.
    Refused(String),
    /// This rule of the policy denies it.
    Rule(Whose, String),
    /// `default: deny`, and no rule allows it.
    DeniedByDefault(Whose),
    /// `read_only`, and it isn't known to change nothing.
    NotReadOnly(Whose),
    /// The agent's `tools`, `prompts` or `resources`, the second, doesn't name it.
    NotTheAgents(String, &'static str),
    /// The server is for other workspaces.
    OtherWorkspace,
    /// The address of a resource can mean more than one thing, and there are rules on what may be read.
    OddUri,
}

impl Hidden {
    /// Whether it is policy that denies the tool. All other reasons hide it.
    pub fn is_denial(&self) -> bool {
        matches!(self, Self::Rule(..) | Self::DeniedByDefault(_) | Self::NotReadOnly(_))
    }
}

impl std::fmt::Display for Hidden {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotIncluded => f.write_str("`tools.include` doesn't name it"),
            Self::Excluded(pattern) => write!(f, "`tools.exclude` drops it with `{pattern}`"),
            Self::Denylist(pattern) => write!(f, "`mcp.denylist` drops it with `{pattern}`"),
            Self::Reserved => f.write_str("its name is one of mcplan's own tools or of `mcp.reserved`"),
            Self::Quarantined(reason) => write!(f, "it can't be used: {reason}"),
            Self::NoText => f.write_str("its text isn't locked; lock the server again"),
            Self::NotLocked => f.write_str("it isn't in the lock, and only what is locked is served"),
            Self::Drifted(why) => write!(f, "it isn't what was locked: {why}; lock again if that is wanted"),
            Self::Refused(why) => write!(f, "its server isn't what was locked: {why}; lock again if that is wanted"),
            Self::Rule(_, rule) => write!(f, "policy denies it with `{rule}`"),
            Self::DeniedByDefault(_) => f.write_str("policy denies by default, and no `allow` rule names it"),
            Self::NotReadOnly(_) => f.write_str("policy is `read_only`, and it isn't known to change nothing"),
            Self::NotTheAgents(agent, list) => write!(f, "`agents.{agent}.{list}` doesn't name it"),
            Self::OtherWorkspace => f.write_str("its server is for other workspaces"),
            Self::OddUri => {
                f.write_str("its address can mean more than one thing, and there are rules on what may be read")
            }
        }
    }
}

/// Every tool of every server, sorted and named.
#[derive(Default)]
pub struct Catalog {
    tools: Vec<CatalogTool>,
    /// Places in `tools`, sorted by the exposed names there.
    by_name: Vec<usize>,
    hidden: BTreeMap<String, (ServerName, Hidden)>,
    offers: Offers,
    index: OnceLock<Index>,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").field("tools", &self.tools).field("hidden", &self.hidden).finish_non_exhaustive()
    }
}

impl Catalog {
    /// Puts the listings of the plan's servers together: config order of servers, then name.
    pub fn build<L: Borrow<Listing>>(plan: &Plan, listings: &BTreeMap<ServerName, L>) -> Self {
        Self::default().rebuilt(plan, listings)
    }

    /// The same, with texts taken from this one where nothing about a tool has changed. While many servers start, there
    /// is a catalog after each.
    pub fn rebuilt<L: Borrow<Listing>>(&self, plan: &Plan, listings: &BTreeMap<ServerName, L>) -> Self {
        let active = plan.servers.iter().filter(|server| plan.enabled && server.enabled);
        let listed: Vec<_> = active.filter_map(|server| Some((server, listings.get(&server.name)?))).collect();
        let names = names(plan, listings);
        let mut catalog = Self { offers: Offers::build(plan, listings), ..Self::default() };
        for (server, name, exposed) in names.unbound() {
            debug_assert!(!name.is_empty());
            catalog.hidden.insert(exposed.to_owned(), (server.clone(), Hidden::Reserved));
        }
        for (server, listing) in &listed {
            catalog.add(plan, server, (*listing).borrow(), &names, self);
        }
        catalog.index_names();
        catalog
    }

    /// What one caller sees of it: the agent's share, its policy, its workspace. Names stay what they are.
    pub fn narrowed(&self, plan: &Plan, caller: &Caller) -> Self {
        let offers = self.offers.narrowed(plan, caller);
        let mut narrowed = Self { hidden: self.hidden.clone(), offers, ..Self::default() };
        for tool in &self.tools {
            match judged(plan, Some(caller), &tool.operation()) {
                Ok(()) => narrowed.tools.push(tool.clone()),
                Err(why) => {
                    narrowed.hidden.insert(tool.exposed.to_string(), (tool.server.clone(), why));
                }
            }
        }
        narrowed.index_names();
        narrowed
    }

    fn index_names(&mut self) {
        self.by_name = (0..self.tools.len()).collect();
        self.by_name.sort_by_key(|index| &self.tools[*index].exposed);
    }

    /// The tools that fit each query best, best first, each tool once; only of `server` when it is given.
    pub fn search(&self, queries: &[String], server: Option<&str>, limit: usize) -> Vec<(&CatalogTool, Hit)> {
        let keep = |index: usize| server.is_none_or(|server| self.tools[index].server.as_str() == server);
        let queries: Vec<_> = queries.iter().map(String::as_str).collect();
        let mut seen = BTreeSet::new();
        // Built by the first search; the catalog stays the same until a list or the plan changes.
        let index = self.index.get_or_init(|| Index::new(self.tools.iter().map(document)));
        let hits = index.search_all(&queries, limit, keep).into_iter().flatten();
        hits.filter(|hit| seen.insert(hit.index)).map(|hit| (&self.tools[hit.index], hit)).collect()
    }

    fn add(&mut self, plan: &Plan, server: &Server, listing: &Listing, names: &NameTable, before: &Self) {
        let mut tools = Vec::new();
        for entry in &listing.tools {
            let Some(exposed) = names.exposed(&server.name, &entry.known.name) else { continue };
            let read_only = listing.read_only.get(&entry.known.name).copied().unwrap_or(false);
            let operation = Operation::Call { server: &server.name, tool: &entry.known.name, read_only };
            let kept = plan.keeps(server, &entry.known.name).map_err(hidden);
            let trusted = || listing.distrusted.tools.get(&entry.known.name).cloned().map_or(Ok(()), Err);
            match kept.and_then(|()| judged(plan, None, &operation)).and_then(|()| trusted()) {
                Err(why) => self.hide(exposed.as_str(), server, why),
                Ok(()) => match before.text_of(exposed, entry).or_else(|| renamed(&entry.raw, exposed.as_str())) {
                    Some(text) => tools.push(CatalogTool {
                        server: server.name.clone(),
                        exposed: exposed.clone(),
                        deferred: server.defer && !server.tools.always(&server.name, &entry.known.name),
                        read_only,
                        entry: entry.clone(),
                        text,
                    }),
                    None => self.hide(exposed.as_str(), server, Hidden::Quarantined("its name can't be read".into())),
                },
            }
        }
        for name in &listing.names_only {
            if let Some(exposed) = names.exposed(&server.name, name) {
                let why = plan.keeps(server, name).map_or_else(hidden, |()| Hidden::NoText);
                self.hide(exposed.as_str(), server, why);
            }
        }
        for bad in &listing.quarantined {
            let why = Hidden::Quarantined(bad.reason.clone());
            // As it would be called; it takes part in no collision, since a lock doesn't know of it.
            let alone = NameTable::build(&plan.naming, &plan.reserved, [(&server.name, bad.name.as_str())]);
            if let Some((exposed, ..)) = alone.iter().next() {
                self.hide(exposed.as_str(), server, why);
            }
        }
        tools.sort_by(|a, b| a.exposed.cmp(&b.exposed));
        self.tools.append(&mut tools);
    }

    /// The text of a tool with that name and entry.
    fn text_of(&self, exposed: &ExposedName, entry: &Arc<Entry<Tool>>) -> Option<Arc<str>> {
        let tool = self.tool(exposed.as_str())?;
        Arc::ptr_eq(&tool.entry, entry).then(|| tool.text.clone())
    }

    fn hide(&mut self, exposed: &str, server: &Server, why: Hidden) {
        self.hidden.insert(exposed.to_owned(), (server.name.clone(), why));
    }

    /// All tools that are offered: config order of servers, then name.
    pub fn tools(&self) -> &[CatalogTool] {
        &self.tools
    }

    /// The tool of that exposed name.
    pub fn tool(&self, exposed: &str) -> Option<&CatalogTool> {
        let at = self.by_name.binary_search_by(|index| self.tools[*index].exposed.as_str().cmp(exposed)).ok()?;
        Some(&self.tools[self.by_name[at]])
    }

    /// Why the tool of that exposed name isn't offered, when a server has it.
    pub fn hidden(&self, exposed: &str) -> Option<(&ServerName, &Hidden)> {
        self.hidden.get(exposed).map(|(server, why)| (server, why))
    }

    /// Every tool that isn't offered: its exposed name, its server and why.
    pub fn all_hidden(&self) -> impl Iterator<Item = (&str, &ServerName, &Hidden)> {
        self.hidden.iter().map(|(name, (server, why))| (name.as_str(), server, why))
    }

    /// Prompts and resources.
    pub fn offers(&self) -> &Offers {
        &self.offers
    }

    /// Whether the other one holds the same: tools, texts, order, deferral and reasons.
    pub fn same(&self, other: &Self) -> bool {
        let equal =
            |(a, b): (&CatalogTool, &CatalogTool)| a.text == b.text && a.deferred == b.deferred && a.server == b.server;
        self.tools.len() == other.tools.len()
            && self.tools.iter().zip(&other.tools).all(equal)
            && self.hidden == other.hidden
            && self.offers.same(&other.offers)
    }
}

impl CatalogTool {
    /// A call of it.
    fn operation(&self) -> Operation<'_> {
        Operation::Call { server: &self.server, tool: &self.entry.known.name, read_only: self.read_only }
    }
}

/// The names of all tools of the servers that are connected, kept or not, so that a filter never renames one.
pub fn names<L: Borrow<Listing>>(plan: &Plan, listings: &BTreeMap<ServerName, L>) -> NameTable {
    let active = plan.servers.iter().filter(|server| plan.enabled && server.enabled);
    let listed = active.filter_map(|server| Some((&server.name, listings.get(&server.name)?)));
    let tools = listed.flat_map(|(server, listing)| listing.borrow().names().map(move |tool| (server, tool)));
    NameTable::build(&plan.naming, &plan.reserved, tools)
}

/// What the policy says of an operation: everyone's, and where it is a certain caller's, what the agent has and its own.
///
/// # Errors
/// Why it may not be done.
pub fn judged(plan: &Plan, caller: Option<&Caller>, operation: &Operation<'_>) -> Result<(), Hidden> {
    plan.policy.decide(operation).map_err(|why| refused(why, Whose::Everyones))?;
    let Some(caller) = caller else { return Ok(()) };
    let list = match operation {
        Operation::Call { .. } => "tools",
        Operation::Invoke { .. } => "prompts",
        Operation::Read { .. } | Operation::List { .. } => "resources",
    };
    let not_listed = || Hidden::NotTheAgents(caller.agent.clone(), list);
    let server = plan.server(operation.server().as_str()).ok_or_else(not_listed)?;
    if !caller.is_in_workspace_of(server) {
        return Err(Hidden::OtherWorkspace);
    }
    let agent = plan.agents.get(&caller.agent).filter(|agent| agent.sees(operation)).ok_or_else(not_listed)?;
    agent.policy.decide(operation).map_err(|why| refused(why, Whose::Agents(caller.agent.clone())))
}

pub(super) fn refused(refusal: Refusal<'_>, whose: Whose) -> Hidden {
    match refusal {
        Refusal::Rule(rule) => Hidden::Rule(whose, rule.to_string()),
        Refusal::Default => Hidden::DeniedByDefault(whose),
        Refusal::ReadOnly => Hidden::NotReadOnly(whose),
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
        parameters: parameters(&tool.entry.input_schema()),
    }
}

fn hidden(dropped: Dropped<'_>) -> Hidden {
    match dropped {
        Dropped::NotIncluded => Hidden::NotIncluded,
        Dropped::Excluded(pattern) => Hidden::Excluded(pattern.to_string()),
        Dropped::Denylist(pattern) => Hidden::Denylist(pattern.to_string()),
    }
}

/// A tool's text under another name, every other byte as the server sent it.
fn renamed(tool: &RawValue, name: &str) -> Option<Arc<str>> {
    json::string_member(tool.get(), "name").map(|_| json::with_string_member(tool.get(), "name", name).into())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use mcplan_compiler::observed::parse_tool;
    use mcplan_compiler::source::MemorySources;

    /// A plan from the text of a config.
    pub(crate) fn plan(config: &str) -> Plan {
        let files = MemorySources([("config.yml".to_owned(), config.as_bytes().to_vec())].into());
        let compiled = mcplan_compiler::compile("config.yml", &files).expect("it is there");
        compiled.plan.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics))
    }

    /// A listing of tools by name, all with an empty schema.
    pub(crate) fn listing(names: &[&str]) -> Listing {
        let tool = |name: &&str| {
            let text = format!(r#"{{"name":"{name}","description":"does {name}","inputSchema":{{"type":"object"}}}}"#);
            Arc::new(parse_tool(&text).unwrap())
        };
        Listing { tools: names.iter().map(tool).collect(), ..Listing::default() }
    }

    /// Listings by server.
    pub(crate) fn listings(all: &[(&str, &[&str])]) -> BTreeMap<ServerName, Listing> {
        all.iter().map(|(server, names)| (ServerName::new(*server).unwrap(), listing(names))).collect()
    }

    #[test]
    fn only_the_name_is_replaced() {
        let text = r#"{"execution":{"name":"x"},"name":"read","n":1.50,"inputSchema":{"type":"object"}}"#;
        let raw = RawValue::from_string(text.to_owned()).unwrap();
        assert_eq!(&*renamed(&raw, "a__read").unwrap(), text.replace(r#""read""#, r#""a__read""#));
    }

    #[test]
    fn config_order_then_name_with_deferral_and_reasons() {
        let plan = plan(
            "mcp_servers:\n\
             - { name: b, command: x, tools: { exclude: [w*], always: [r] } }\n\
             - { name: a, command: x, defer: false, tools: { include: [z, y] } }\n\
             mcp: { denylist: [a__y] }\n",
        );
        let catalog = Catalog::build(&plan, &listings(&[("a", &["z", "y", "q"]), ("b", &["w", "r", "c"])]));
        let seen: Vec<_> = catalog.tools().iter().map(|tool| (tool.exposed.as_str(), tool.deferred)).collect();
        assert_eq!(seen, [("mcp__b__c", true), ("mcp__b__r", false), ("mcp__a__z", false)]);
        assert_eq!(catalog.hidden("mcp__b__w").unwrap().1, &Hidden::Excluded("w*".into()));
        assert_eq!(catalog.hidden("mcp__a__y").unwrap().1, &Hidden::Denylist("a__y".into()));
        assert_eq!(catalog.hidden("mcp__a__q").unwrap().1, &Hidden::NotIncluded);
        assert!(catalog.hidden("mcp__a__nope").is_none());
    }

    #[test]
    fn a_filter_never_renames_a_tool() {
        let both = plan("mcp_servers: [{ name: a, command: x }]");
        let one = plan("mcp_servers: [{ name: a, command: x, tools: { exclude: [x.y] } }]");
        let lists = listings(&[("a", &["x.y", "x y"])]);
        let name = |plan: &Plan| {
            Catalog::build(plan, &lists).tools().iter().find(|t| t.entry.known.name == "x y").unwrap().exposed.clone()
        };
        assert_eq!(name(&both), name(&one));
    }

    #[test]
    fn a_tool_with_a_name_of_ours_is_hidden() {
        let plan = plan("mcp_servers: [{ name: a, command: x }]\nmcp: { naming: '{tool}' }");
        let catalog = Catalog::build(&plan, &listings(&[("a", &["search_mcp_tools", "x"])]));
        assert_eq!(catalog.hidden("search_mcp_tools").unwrap().1, &Hidden::Reserved);
        assert_eq!(catalog.tools().len(), 1);
    }

    #[test]
    fn disabled_servers_offer_nothing() {
        for config in [
            "mcp_servers: [{ name: a, command: x, enabled: false }]",
            "mcp_servers: [{ name: a, command: x }]\nmcp: { enabled: false }",
        ] {
            assert!(Catalog::build(&plan(config), &listings(&[("a", &["x"])])).tools().is_empty());
        }
    }
}
