//! The fields of a tool, a prompt and a resource template, one by one.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::pair::pair;
use super::schema::{Side, schema};
use super::wording::same_words;
use super::{Item, Note, Rule, below};
use crate::json;
use crate::observed::{Prompt, ResourceTemplate, Tool};

/// An item of one of the lists.
pub(super) trait Listed {
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

fn or_null(value: Option<&Value>) -> &Value {
    value.unwrap_or(&Value::Null)
}

/// Whether two values are one thing to the digest.
pub(super) fn same(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) => a == b || json::canonical_of(a) == json::canonical_of(b),
        _ => false,
    }
}

pub(super) fn note(notes: &mut Vec<Note>, rule: Rule, at: &str, locked: Option<&Value>, found: Option<&Value>) {
    notes.push(Note { rule, at: at.to_owned(), locked: locked.cloned(), found: found.cloned() });
}

/// A list; one that isn't written is empty.
pub(super) fn list(value: Option<&Value>) -> Option<&[Value]> {
    value.map_or(Some(&[]), |value| value.as_array().map(Vec::as_slice))
}

/// An object; one that isn't written is empty.
pub(super) fn object(value: Option<&Value>) -> Option<Cow<'_, Map<String, Value>>> {
    value.map_or(Some(Cow::Owned(Map::new())), |value| value.as_object().map(Cow::Borrowed))
}

/// Calls `differ` with every key whose values differ, the pointer of its place and both values. `null` is nothing, except
/// where it is the value that a `const` asks for.
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
        let says = |value: &&Value| !value.is_null() || key == "const";
        match (was.filter(says), is.filter(says)) {
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
    let before = notes.len();
    let (Some(was), Some(is)) = (object(locked), object(found)) else {
        return note(notes, Rule::HintChanged, at, locked, found);
    };
    each_difference(at, &was, &is, notes, |key, at, locked, found, notes| {
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
    let list = |value| -> Option<Vec<(&str, &Map<String, Value>)>> {
        let items = list(value)?.iter();
        items.map(|item| Some((item.get("name")?.as_str()?, item.as_object()?))).collect()
    };
    let (Some(was), Some(is)) = (list(locked), list(found)) else {
        return note(notes, Rule::OtherField, at, locked, found);
    };
    let required = |argument: &Map<String, Value>| argument.get("required") == Some(&Value::Bool(true));
    let whole = |argument: &Map<String, Value>| Value::Object(argument.clone());
    let pairs = pair(&was, &is, |(_, argument)| json::canonical_of(&whole(argument)), |(name, _)| *name);
    for ((_, was), (index, (_, is))) in pairs.changed {
        each_difference(&below(at, &index.to_string()), was, is, notes, |key, at, locked, found, notes| {
            let rule = match (key, required(was), required(is)) {
                ("required", false, true) => Rule::ParameterRequired,
                ("required", true, false) => Rule::ParameterOptional,
                ("required", ..) => Rule::Respelled,
                _ => return field(key, at, locked, found, notes),
            };
            note(notes, rule, at, locked, found);
        });
    }
    for (index, (_, argument)) in pairs.removed {
        note(notes, Rule::ParameterRemoved, &below(at, &index.to_string()), Some(&whole(argument)), None);
    }
    for (index, (_, argument)) in pairs.added {
        let rule = if required(argument) { Rule::ParameterRequired } else { Rule::ParameterAdded };
        note(notes, rule, &below(at, &index.to_string()), None, Some(&whole(argument)));
    }
    if notes.len() == before {
        note(notes, Rule::Respelled, at, locked, found);
    }
}
