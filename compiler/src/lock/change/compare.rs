//! A server's lock entry against what it says now, item by item and field by field.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fields::{Listed, note};
use super::pair::pair;
use super::signs::{Signs, host_words};
use super::wording::same_words;
use super::{Change, Context, Item, Note, Rule};
use crate::lock::{LockedList, LockedServer};
use crate::observed::{Entry, Introduction, Observed, Prompt, ResourceTemplate, Tool};
use crate::plan::{Plan, Server};

/// What a server says now, borrowed from where it stands.
#[derive(Clone, Debug)]
pub struct Found<'a> {
    introduction: &'a Introduction,
    /// The tools that pass the filters; `None` while they aren't known.
    tools: Option<Vec<&'a Entry<Tool>>>,
    /// Tools that are there and not among `tools`: filtered, or with the reason why they can't be used.
    apart: BTreeMap<&'a str, Option<&'a str>>,
    /// `None` while they aren't known.
    prompts: Option<Vec<&'a Entry<Prompt>>>,
    /// `None` while they aren't known.
    resource_templates: Option<Vec<&'a Entry<ResourceTemplate>>>,
    /// `None` while it isn't known.
    resources: Option<bool>,
}

impl<'a> Found<'a> {
    /// What a live server reported, by the filters of `plan`. Secrets are masked and places named as in the lock already.
    pub fn observed(plan: &Plan, server: &Server, observed: &'a Observed) -> Self {
        let unusable = observed.quarantined.iter().map(|bad| (bad.name.as_str(), Some(bad.reason.as_str())));
        let mut apart: BTreeMap<_, _> = unusable.collect();
        let mut tools = Vec::with_capacity(observed.tools.len());
        for tool in &observed.tools {
            if plan.keeps(server, &tool.known.name).is_ok() {
                tools.push(tool);
            } else {
                apart.insert(&tool.known.name, None);
            }
        }
        Self {
            introduction: &observed.introduction,
            tools: observed.tools_unknown.is_none().then_some(tools),
            apart,
            prompts: observed.prompts_unknown.is_none().then(|| observed.prompts.iter().collect()),
            resource_templates: observed
                .resource_templates_unknown
                .is_none()
                .then(|| observed.resource_templates.iter().collect()),
            resources: observed.resources_unknown.is_none().then_some(!observed.resources.is_empty()),
        }
    }
}

impl<'a> From<&'a LockedServer> for Found<'a> {
    fn from(locked: &'a LockedServer) -> Self {
        Self {
            introduction: &locked.introduction,
            tools: Some(locked.tools.iter().collect()),
            apart: locked.filtered.iter().map(|tool| (tool.name.as_str(), None)).collect(),
            prompts: Some(locked.prompts.iter().collect()),
            resource_templates: Some(locked.resource_templates.iter().collect()),
            resources: Some(locked.resources),
        }
    }
}

/// Every difference between what is locked of a server and what it says now. Order is none, nor is anything of a tool
/// that the filters drop, nor a kind that the server failed to list. Equal digests are not looked into.
pub fn changes(locked: &LockedServer, found: &Found<'_>, context: &Context<'_>) -> Vec<Change> {
    let mut comparison = Comparison { locked, context, known: OnceCell::new(), changes: Vec::new() };
    comparison.server(found);
    let filtered: BTreeMap<_, _> =
        locked.filtered.iter().map(|tool| (tool.name.as_str(), tool.digest.as_str())).collect();
    if let Some(tools) = &found.tools {
        // Newly kept by the filters and unchanged: the config moved, not the server.
        let is_new = |tool: &&&Entry<Tool>| filtered.get(tool.known.name.as_str()) != Some(&tool.digest.as_str());
        let tools: Vec<_> = tools.iter().filter(is_new).copied().collect();
        comparison.list(&borrowed(&locked.tools), &tools, &found.apart);
    }
    let nothing = BTreeMap::new();
    if let Some(prompts) = &found.prompts {
        comparison.list(&borrowed(&locked.prompts), prompts, &nothing);
    }
    if let Some(templates) = &found.resource_templates {
        comparison.list(&borrowed(&locked.resource_templates), templates, &nothing);
    }
    comparison.changes
}

/// What the server is known for: the signs in all its locked text, and every host that it names.
struct Known {
    signs: Signs,
    hosts: BTreeSet<String>,
}

struct Comparison<'a> {
    locked: &'a LockedServer,
    context: &'a Context<'a>,
    known: OnceCell<Known>,
    changes: Vec<Change>,
}

impl Comparison<'_> {
    fn known(&self) -> &Known {
        self.known.get_or_init(|| {
            let LockedServer { introduction, tools, filtered: _, prompts, resource_templates, resources: _ } =
                self.locked;
            let raws = tools.iter().map(value).chain(prompts.iter().map(value));
            let raws = raws.chain(resource_templates.iter().map(value));
            let mut known = Known { signs: Signs::default(), hosts: BTreeSet::new() };
            for value in raws.chain([introduced(introduction)]) {
                known.signs.read(&value, self.context);
                host_words(&value, &mut known.hosts);
            }
            known.signs = known.signs.without_counts();
            known
        })
    }

    fn server(&mut self, found: &Found<'_>) {
        let (was, is) = (&self.locked.introduction, found.introduction);
        let mut notes = Vec::new();
        if was != is {
            let mut differ = |rule, at: &str, was: &str, is: &str| {
                if was != is {
                    note(&mut notes, rule, at, Some(&was.into()), Some(&is.into()));
                }
            };
            differ(Rule::ProtocolVersion, "/protocol_version", &was.protocol_version, &is.protocol_version);
            differ(Rule::ServerRenamed, "/name", &was.name, &is.name);
            differ(Rule::ServerVersion, "/version", &was.version, &is.version);
            if was.instructions != is.instructions {
                let text = |said: &Option<String>| said.clone().unwrap_or_default();
                let is_layout = same_words(&text(&was.instructions), &text(&is.instructions));
                let rule = if is_layout { Rule::InstructionsLayout } else { Rule::InstructionsWords };
                let value = |said: &Option<String>| said.clone().map(Value::from);
                let (locked, found) = (value(&was.instructions), value(&is.instructions));
                notes.push(Note { rule, at: "/instructions".to_owned(), locked, found });
            }
            let mut signs = Signs::default();
            signs.read(&introduced(was), self.context);
            signs.gained(&introduced(is), &self.known().hosts, self.context, &mut notes);
        }
        if let Some(resources) = found.resources.filter(|found| *found != self.locked.resources) {
            let rule = if resources { Rule::ResourcesOffered } else { Rule::ResourcesGone };
            note(&mut notes, rule, "/resources", Some(&self.locked.resources.into()), Some(&resources.into()));
        }
        self.report(&Item::Server, notes);
    }

    fn list<T: Listed>(&mut self, locked: &[&Entry<T>], found: &[&Entry<T>], apart: &BTreeMap<&str, Option<&str>>) {
        if locked.iter().map(|entry| &entry.digest).eq(found.iter().map(|entry| &entry.digest)) {
            return;
        }
        let pairs = pair(locked, found, |entry| entry.digest.as_str(), |entry| entry.known.name());
        for (was, (_, is)) in pairs.changed {
            self.changed(was, is);
        }
        for (_, was) in pairs.removed {
            let name = was.known.name();
            let (rule, found) = match apart.get(name) {
                Some(None) => continue,
                Some(Some(reason)) => (Rule::ToolUnusable, Some(Value::from(*reason))),
                None => (T::REMOVED, None),
            };
            self.report(&T::item(name), vec![Note { rule, at: String::new(), locked: Some(value(was)), found }]);
        }
        for (_, is) in pairs.added {
            let whole = value(is);
            let mut notes = Vec::new();
            self.known().signs.clone().gained(&whole, &self.known().hosts, self.context, &mut notes);
            notes.insert(0, Note { rule: T::ADDED, at: String::new(), locked: None, found: Some(whole) });
            self.report(&T::item(is.known.name()), notes);
        }
    }

    fn changed<T: Listed>(&mut self, was: &Entry<T>, is: &Entry<T>) {
        let (locked, found) = (value(was), value(is));
        let mut notes = Vec::new();
        if let (Value::Object(locked), Value::Object(found)) = (&locked, &found) {
            T::fields(locked, found, &mut notes);
        }
        if notes.is_empty() {
            // The digests differ, so something did change.
            note(&mut notes, Rule::OtherField, "", Some(&locked), Some(&found));
        }
        let mut signs = Signs::default();
        signs.read(&locked, self.context);
        signs.gained(&found, &self.known().hosts, self.context, &mut notes);
        self.report(&T::item(is.known.name()), notes);
    }

    fn report(&mut self, item: &Item, notes: Vec<Note>) {
        self.changes.extend(notes.into_iter().map(|Note { rule, at, locked, found }| Change {
            item: item.clone(),
            rule,
            at,
            locked,
            found,
        }));
    }
}

fn borrowed<T>(list: &LockedList<T>) -> Vec<&Entry<T>> {
    list.iter().collect()
}

fn value<T>(entry: &Entry<T>) -> Value {
    serde_json::from_str(entry.raw.get()).unwrap_or_default()
}

fn introduced(introduction: &Introduction) -> Value {
    serde_json::to_value(introduction).unwrap_or_default()
}
