//! A server's lock entry against what it says now, item by item and field by field.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::schema::{Side, schema};
use super::signs::{Signs, host_words};
use super::wording::same_words;
use super::{Change, Context, Item, Note, Rule, below};
use crate::json;
use crate::lock::LockedServer;
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
    prompts: &'a [Entry<Prompt>],
    resource_templates: &'a [Entry<ResourceTemplate>],
    resources: bool,
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
            prompts: &observed.prompts,
            resource_templates: &observed.resource_templates,
            resources: observed.resources,
        }
    }
}

impl<'a> From<&'a LockedServer> for Found<'a> {
    fn from(locked: &'a LockedServer) -> Self {
        Self {
            introduction: &locked.introduction,
            tools: Some(locked.tools.0.iter().collect()),
            apart: locked.filtered.iter().map(|tool| (tool.name.as_str(), None)).collect(),
            prompts: &locked.prompts.0,
            resource_templates: &locked.resource_templates.0,
            resources: locked.resources,
        }
    }
}

/// Every difference between what is locked of a server and what it says now. Order is none, nor is anything of a tool
/// that the filters drop. Equal digests are not looked into.
pub fn changes(locked: &LockedServer, found: &Found<'_>, context: &Context<'_>) -> Vec<Change> {
    let mut comparison = Comparison { locked, context, known: OnceCell::new(), changes: Vec::new() };
    comparison.server(found);
    let filtered: BTreeMap<_, _> =
        locked.filtered.iter().map(|tool| (tool.name.as_str(), tool.digest.as_str())).collect();
    if let Some(tools) = &found.tools {
        let tools = tools.iter().copied().filter(|tool| {
            // Newly kept by the filters and unchanged: the config moved, not the server.
            filtered.get(tool.known.name.as_str()) != Some(&tool.digest.as_str())
        });
        comparison.list(locked.tools.0.iter(), tools, &found.apart);
    }
    comparison.list(locked.prompts.0.iter(), found.prompts.iter(), &BTreeMap::new());
    comparison.list(locked.resource_templates.0.iter(), found.resource_templates.iter(), &BTreeMap::new());
    comparison.changes
}

/// An item of one of the lists.
trait Listed {
    const ADDED: Rule;
    const REMOVED: Rule;
    fn name(&self) -> &str;
    fn item(name: &str) -> Item;
    fn fields(locked: &Map<String, Value>, found: &Map<String, Value>, notes: &mut Vec<Note>);
}

impl Listed for Tool {
    const ADDED: Rule = Rule::ToolAdded;
    const REMOVED: Rule = Rule::ToolRemoved;
    fn name(&self) -> &str {
        &self.name
    }
    fn item(name: &str) -> Item {
        Item::Tool(name.to_owned())
    }
    fn fields(locked: &Map<String, Value>, found: &Map<String, Value>, notes: &mut Vec<Note>) {
        each_difference("", locked, found, notes, |key, at, locked, found, notes| match key {
            "inputSchema" => schema(Side::Input, at, or_null(locked), or_null(found), notes),
            "outputSchema" => match (locked, found) {
                (Some(locked), Some(found)) => schema(Side::Output, at, locked, found, notes),
                (None, _) => note(notes, Rule::OutputAdded, at, locked, found),
                (Some(_), None) => note(notes, Rule::OutputRemoved, at, locked, found),
            },
            "annotations" => annotations(at, locked, found, notes),
            _ => field(key, at, locked, found, notes),
        });
    }
}

impl Listed for Prompt {
    const ADDED: Rule = Rule::PromptAdded;
    const REMOVED: Rule = Rule::PromptRemoved;
    fn name(&self) -> &str {
        &self.name
    }
    fn item(name: &str) -> Item {
        Item::Prompt(name.to_owned())
    }
    fn fields(locked: &Map<String, Value>, found: &Map<String, Value>, notes: &mut Vec<Note>) {
        each_difference("", locked, found, notes, |key, at, locked, found, notes| match key {
            "arguments" => arguments(at, locked, found, notes),
            _ => field(key, at, locked, found, notes),
        });
    }
}

impl Listed for ResourceTemplate {
    const ADDED: Rule = Rule::TemplateAdded;
    const REMOVED: Rule = Rule::TemplateRemoved;
    fn name(&self) -> &str {
        &self.uri_template
    }
    fn item(name: &str) -> Item {
        Item::ResourceTemplate(name.to_owned())
    }
    fn fields(locked: &Map<String, Value>, found: &Map<String, Value>, notes: &mut Vec<Note>) {
        each_difference("", locked, found, notes, field);
    }
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
            let raws = tools.0.iter().map(value).chain(prompts.0.iter().map(value));
            let raws = raws.chain(resource_templates.0.iter().map(value));
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
        if self.locked.resources != found.resources {
            let rule = if found.resources { Rule::ResourcesOffered } else { Rule::ResourcesGone };
            note(&mut notes, rule, "/resources", Some(&self.locked.resources.into()), Some(&found.resources.into()));
        }
        self.report(&Item::Server, notes);
    }

    fn list<'e, T: Listed + 'e>(
        &mut self,
        locked: impl Iterator<Item = &'e Entry<T>> + Clone,
        found: impl Iterator<Item = &'e Entry<T>> + Clone,
        apart: &BTreeMap<&str, Option<&str>>,
    ) {
        if locked.clone().map(|entry| &entry.digest).eq(found.clone().map(|entry| &entry.digest)) {
            return;
        }
        // A name that comes twice in a list is taken in order.
        let mut now: BTreeMap<&str, Vec<&Entry<T>>> = BTreeMap::new();
        for entry in found {
            now.entry(entry.known.name()).or_default().push(entry);
        }
        let mut open = Vec::new();
        for entry in locked {
            let same = now.get_mut(entry.known.name());
            let at = same.as_ref().and_then(|now| now.iter().position(|now| now.digest == entry.digest));
            match (same, at) {
                (Some(now), Some(at)) => drop(now.remove(at)),
                _ => open.push(entry),
            }
        }
        for was in open {
            let name = was.known.name();
            match now.get_mut(name).filter(|now| !now.is_empty()).map(|now| now.remove(0)) {
                Some(is) => self.changed(was, is),
                None => match apart.get(name) {
                    Some(None) => {}
                    Some(Some(reason)) => {
                        let reason = Some(Value::from(*reason));
                        let note = Note {
                            rule: Rule::ToolUnusable,
                            at: String::new(),
                            locked: Some(value(was)),
                            found: reason,
                        };
                        self.report(&T::item(name), vec![note]);
                    }
                    None => {
                        let note = Note { rule: T::REMOVED, at: String::new(), locked: Some(value(was)), found: None };
                        self.report(&T::item(name), vec![note]);
                    }
                },
            }
        }
        for is in now.into_values().flatten() {
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

fn value<T>(entry: &Entry<T>) -> Value {
    serde_json::from_str(entry.raw.get()).unwrap_or_default()
}

fn introduced(introduction: &Introduction) -> Value {
    serde_json::to_value(introduction).unwrap_or_default()
}

fn or_null(value: Option<&Value>) -> &Value {
    value.unwrap_or(&Value::Null)
}

/// Whether two values are one thing to the digest.
pub(super) fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a == b || json::canonical(a) == json::canonical(b),
        _ => false,
    }
}

pub(super) fn note(notes: &mut Vec<Note>, rule: Rule, at: &str, locked: Option<&Value>, found: Option<&Value>) {
    notes.push(Note { rule, at: at.to_owned(), locked: locked.cloned(), found: found.cloned() });
}

/// Calls `differ` with every key whose values differ, the pointer of its place and both values. `null` is nothing.
pub(super) fn each_difference(
    at: &str,
    locked: &Map<String, Value>,
    found: &Map<String, Value>,
    notes: &mut Vec<Note>,
    mut differ: impl FnMut(&str, &str, Option<&Value>, Option<&Value>, &mut Vec<Note>),
) {
    let keys: BTreeSet<_> = locked.keys().chain(found.keys()).collect();
    for key in keys {
        let (was, is) = (locked.get(key), found.get(key));
        if same(was, is) {
            continue;
        }
        let at = below(at, key);
        match (was.filter(|was| !was.is_null()), is.filter(|is| !is.is_null())) {
            (None, None) => note(notes, Rule::Respelled, &at, was, is),
            (was, is) => differ(key, &at, was, is, notes),
        }
    }
}

/// A field that means the same in every item.
fn field(key: &str, at: &str, locked: Option<&Value>, found: Option<&Value>, notes: &mut Vec<Note>) {
    match key {
        "title" => note(notes, Rule::TitleChanged, at, locked, found),
        "description" => description(at, locked, found, notes),
        "icons" => note(notes, Rule::IconsChanged, at, locked, found),
        "_meta" => note(notes, Rule::MetaChanged, at, locked, found),
        _ => note(notes, Rule::OtherField, at, locked, found),
    }
}

pub(super) fn description(at: &str, locked: Option<&Value>, found: Option<&Value>, notes: &mut Vec<Note>) {
    let text = |value: Option<&Value>| match value {
        None => Some(String::new()),
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => None,
    };
    let is_layout = matches!((text(locked), text(found)), (Some(was), Some(is)) if same_words(&was, &is));
    let rule = if is_layout { Rule::DescriptionLayout } else { Rule::DescriptionWords };
    note(notes, rule, at, locked, found);
}

/// The hints of a tool. One that says what the protocol takes for said anyhow is no other hint than none.
fn annotations(at: &str, locked: Option<&Value>, found: Option<&Value>, notes: &mut Vec<Note>) {
    let nothing = Map::new();
    let before = notes.len();
    let (was, is) = (locked.and_then(Value::as_object), found.and_then(Value::as_object));
    let (was, is) = (was.unwrap_or(&nothing), is.unwrap_or(&nothing));
    each_difference(at, was, is, notes, |key, at, locked, found, notes| {
        let default = match key {
            "readOnlyHint" | "idempotentHint" => Value::Bool(false),
            "destructiveHint" => Value::Bool(true),
            _ => return field(key, at, locked, found, notes),
        };
        let is_same = locked.unwrap_or(&default) == found.unwrap_or(&default);
        note(notes, if is_same { Rule::Respelled } else { Rule::HintChanged }, at, locked, found);
    });
    if notes.len() == before {
        // An empty object came or went.
        note(notes, Rule::Respelled, at, locked, found);
    }
}

/// The arguments of a prompt, by name.
fn arguments(at: &str, locked: Option<&Value>, found: Option<&Value>, notes: &mut Vec<Note>) {
    let before = notes.len();
    let list = |value: Option<&Value>| -> Option<Vec<(String, Map<String, Value>)>> {
        let items = value.map_or(Some(&[][..]), |value| value.as_array().map(Vec::as_slice))?;
        let named = |item: &Value| Some((item.get("name")?.as_str()?.to_owned(), item.as_object()?.clone()));
        items.iter().map(named).collect()
    };
    let (Some(was), Some(is)) = (list(locked), list(found)) else {
        return note(notes, Rule::OtherField, at, locked, found);
    };
    let required = |argument: &Map<String, Value>| argument.get("required") == Some(&Value::Bool(true));
    for (name, argument) in &was {
        if !is.iter().any(|(other, _)| other == name) {
            note(notes, Rule::ParameterRemoved, &below(at, name), Some(&argument.clone().into()), None);
        }
    }
    for (name, argument) in &is {
        let at = below(at, name);
        let Some((_, was)) = was.iter().find(|(other, _)| other == name) else {
            let rule = if required(argument) { Rule::ParameterRequired } else { Rule::ParameterAdded };
            note(notes, rule, &at, None, Some(&argument.clone().into()));
            continue;
        };
        each_difference(&at, was, argument, notes, |key, at, locked, found, notes| {
            let rule = match (key, required(was), required(argument)) {
                ("required", false, true) => Rule::ParameterRequired,
                ("required", true, false) => Rule::ParameterOptional,
                ("required", ..) => Rule::Respelled,
                _ => return field(key, at, locked, found, notes),
            };
            note(notes, rule, at, locked, found);
        });
    }
    if notes.len() == before {
        note(notes, Rule::Respelled, at, locked, found);
    }
}
