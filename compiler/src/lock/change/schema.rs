//! Two JSON Schemas, keyword by keyword: what takes less, what takes more, what only reads otherwise.
//!
//! Where a comparison can't tell, it says narrowed: that costs a warning.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::fields::{description, each_difference, list, note, object, same};
use super::pair::pair;
use super::{Note, Rule, below};
use crate::json;

/// Whether a schema is about what goes in or what comes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Input,
    Output,
}

impl Side {
    /// A value that fitted may no longer fit.
    fn narrowed(self) -> Rule {
        match self {
            Self::Input => Rule::ParameterNarrowed,
            Self::Output => Rule::OutputNarrowed,
        }
    }

    /// A value that didn't fit may fit now.
    fn widened(self) -> Rule {
        match self {
            Self::Input => Rule::ParameterWidened,
            Self::Output => Rule::OutputLoosened,
        }
    }

    /// Something is there that wasn't, or the other way round.
    fn by_presence(self, locked: Option<&Value>, found: Option<&Value>) -> Rule {
        if found.is_none() && locked.is_some() { self.widened() } else { self.narrowed() }
    }
}

/// Keywords that say something about a schema and ask nothing of a value.
const TELLING: [&str; 6] = ["title", "description", "$comment", "default", "examples", "deprecated"];

/// Compares two schemas that stand at `at`.
pub(super) fn schema(side: Side, at: &str, locked: &Value, found: &Value, notes: &mut Vec<Note>) {
    if same(Some(locked), Some(found)) {
        return;
    }
    let nothing = Map::new();
    let before = notes.len();
    match (locked, found) {
        (Value::Bool(false), _) => note(notes, side.widened(), at, Some(locked), Some(found)),
        (_, Value::Bool(false)) => note(notes, side.narrowed(), at, Some(locked), Some(found)),
        (Value::Object(was), Value::Object(is)) => keywords(side, at, was, is, notes),
        (Value::Object(was), Value::Bool(true)) => keywords(side, at, was, &nothing, notes),
        (Value::Bool(true), Value::Object(is)) => keywords(side, at, &nothing, is, notes),
        _ => note(notes, side.narrowed(), at, Some(locked), Some(found)),
    }
    if notes.len() == before {
        note(notes, Rule::Respelled, at, Some(locked), Some(found));
    }
}

fn keywords(side: Side, at: &str, was: &Map<String, Value>, is: &Map<String, Value>, notes: &mut Vec<Note>) {
    let unions = one_became_several(was, is);
    if let Some((key, was, is)) = &unions {
        branches(side, &below(at, key), was, is, notes);
    }
    let is_compared = |key: &str| unions.is_some() && !TELLING.contains(&key);
    let (was_values, is_values) = (values(was), values(is));
    let mut values_done = false;
    each_difference(at, was, is, notes, |key, at, locked, found, notes| match key {
        _ if is_compared(key) => {}
        "title" => note(notes, Rule::TitleChanged, at, locked, found),
        "description" | "$comment" => description(at, locked, found, notes),
        "default" => note(notes, Rule::DefaultChanged, at, locked, found),
        "type" => types(side, at, locked, found, notes),
        "enum" | "const" if std::mem::replace(&mut values_done, true) => {}
        "enum" | "const" => enumeration(side, at, was_values.as_ref(), is_values.as_ref(), notes),
        "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" | "minContains" => {
            bound(side, at, locked, found, false, notes);
        }
        "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" | "maxContains" => {
            bound(side, at, locked, found, true, notes);
        }
        "uniqueItems" => match (locked, found) {
            (Some(Value::Bool(false)) | None, Some(Value::Bool(false)) | None) => {
                note(notes, Rule::Respelled, at, locked, found);
            }
            (_, Some(Value::Bool(true))) => note(notes, side.narrowed(), at, locked, found),
            _ => note(notes, side.widened(), at, locked, found),
        },
        "multipleOf" | "pattern" | "format" | "contentEncoding" | "contentMediaType" | "not" | "if" | "$ref"
        | "$dynamicRef" | "dependentRequired" | "dependencies" => {
            note(notes, side.by_presence(locked, found), at, locked, found);
        }
        "additionalProperties"
        | "unevaluatedProperties"
        | "unevaluatedItems"
        | "additionalItems"
        | "items"
        | "propertyNames"
        | "contains"
        | "then"
        | "else"
        | "contentSchema" => match (locked, found) {
            (Some(Value::Array(was)), Some(Value::Array(is))) => positions(side, at, was, is, notes),
            // What isn't written takes everything.
            _ => schema(side, at, locked.unwrap_or(&Value::Bool(true)), found.unwrap_or(&Value::Bool(true)), notes),
        },
        "prefixItems" => match (list(locked), list(found)) {
            (Some(was), Some(is)) => positions(side, at, was, is, notes),
            _ => note(notes, side.narrowed(), at, locked, found),
        },
        "anyOf" | "oneOf" => match (locked, found) {
            (Some(Value::Array(was)), Some(Value::Array(is))) => branches(side, at, was, is, notes),
            _ => note(notes, side.by_presence(locked, found), at, locked, found),
        },
        "allOf" => match (list(locked), list(found)) {
            (Some(was), Some(is)) => positions(side, at, was, is, notes),
            _ => note(notes, side.narrowed(), at, locked, found),
        },
        "properties" => match (object(locked), object(found)) {
            (Some(locked), Some(found)) => properties(side, at, &locked, &found, &required(is), notes),
            _ => note(notes, side.narrowed(), at, locked, found),
        },
        "required" => requirements(side, at, was, is, notes),
        "patternProperties" | "dependentSchemas" => match (object(locked), object(found)) {
            (Some(was), Some(is)) => {
                each_difference(at, &was, &is, notes, |_, at, locked, found, notes| match (locked, found) {
                    (Some(was), Some(is)) => schema(side, at, was, is, notes),
                    _ => note(notes, side.narrowed(), at, locked, found),
                })
            }
            _ => note(notes, side.narrowed(), at, locked, found),
        },
        "$defs" | "definitions" => match (object(locked), object(found)) {
            (Some(was), Some(is)) => {
                each_difference(at, &was, &is, notes, |_, at, locked, found, notes| match (locked, found) {
                    (Some(was), Some(is)) => schema(side, at, was, is, notes),
                    _ => note(notes, Rule::DefinitionChanged, at, locked, found),
                })
            }
            _ => note(notes, side.narrowed(), at, locked, found),
        },
        "$schema" => note(notes, Rule::Respelled, at, locked, found),
        _ => note(notes, Rule::OtherField, at, locked, found),
    });
}

fn required(schema: &Map<String, Value>) -> BTreeSet<&str> {
    schema.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}

fn properties(
    side: Side,
    at: &str,
    was: &Map<String, Value>,
    is: &Map<String, Value>,
    required: &BTreeSet<&str>,
    notes: &mut Vec<Note>,
) {
    let keys: BTreeSet<_> = was.keys().chain(is.keys()).collect();
    let before = notes.len();
    for key in keys {
        let at = below(at, key);
        match (was.get(key), is.get(key)) {
            (Some(was), Some(is)) => schema(side, &at, was, is, notes),
            (None, found) => {
                let rule = match side {
                    Side::Output => Rule::OutputAdded,
                    Side::Input if required.contains(key.as_str()) => Rule::ParameterRequired,
                    Side::Input => Rule::ParameterAdded,
                };
                note(notes, rule, &at, None, found);
            }
            (locked, None) => {
                let rule = if side == Side::Input { Rule::ParameterRemoved } else { Rule::OutputRemoved };
                note(notes, rule, &at, locked, None);
            }
        }
    }
    if notes.len() == before {
        note(notes, Rule::Respelled, at, Some(&was.clone().into()), Some(&is.clone().into()));
    }
}

/// `required`, except for properties that came or went and are told of as such.
fn requirements(side: Side, at: &str, was: &Map<String, Value>, is: &Map<String, Value>, notes: &mut Vec<Note>) {
    let is_list = |schema: &Map<String, Value>| {
        let strings = |list: &Vec<Value>| list.iter().all(Value::is_string);
        schema.get("required").is_none_or(|list| list.is_null() || list.as_array().is_some_and(strings))
    };
    let (locked, found) = (was.get("required"), is.get("required"));
    if !is_list(was) || !is_list(is) {
        return note(notes, side.narrowed(), at, locked, found);
    }
    let has = |schema: &Map<String, Value>, name: &str| {
        schema.get("properties").and_then(Value::as_object).is_some_and(|properties| properties.contains_key(name))
    };
    let (was_required, is_required) = (required(was), required(is));
    if was_required == is_required {
        return note(notes, Rule::Respelled, at, locked, found);
    }
    for &name in is_required.difference(&was_required).filter(|name| has(was, name) || !has(is, name)) {
        let rule = if side == Side::Input { Rule::ParameterRequired } else { Rule::OutputAdded };
        note(notes, rule, at, None, Some(&name.into()));
    }
    for &name in was_required.difference(&is_required).filter(|name| has(is, name) || !has(was, name)) {
        let rule = if side == Side::Input { Rule::ParameterOptional } else { Rule::OutputLoosened };
        note(notes, rule, at, Some(&name.into()), None);
    }
}

fn type_set(value: Option<&Value>) -> Option<BTreeSet<&str>> {
    let mut set: BTreeSet<_> = match value {
        None => BTreeSet::from(["array", "boolean", "null", "number", "object", "string"]),
        Some(Value::String(kind)) => BTreeSet::from([kind.as_str()]),
        Some(Value::Array(kinds)) => kinds.iter().map(Value::as_str).collect::<Option<_>>()?,
        Some(_) => return None,
    };
    if set.contains("number") {
        set.insert("integer");
    }
    Some(set)
}

fn types(side: Side, at: &str, locked: Option<&Value>, found: Option<&Value>, notes: &mut Vec<Note>) {
    let rule = match (type_set(locked), type_set(found)) {
        (Some(was), Some(is)) if was == is => Rule::Respelled,
        (Some(was), Some(is)) if was.is_subset(&is) => side.widened(),
        _ => side.narrowed(),
    };
    note(notes, rule, at, locked, found);
}

/// The values that `enum` and `const` leave, in order; `None` is all.
fn values(schema: &Map<String, Value>) -> Option<Vec<&Value>> {
    match (schema.get("const"), schema.get("enum")) {
        (Some(only), _) => Some(vec![only]),
        (None, Some(Value::Array(all))) => Some(all.iter().collect()),
        (None, _) => None,
    }
}

fn enumeration(side: Side, at: &str, was: Option<&Vec<&Value>>, is: Option<&Vec<&Value>>, notes: &mut Vec<Note>) {
    let whole = |values: &Vec<&Value>| Value::Array(values.iter().map(|value| (*value).clone()).collect());
    let before = notes.len();
    match (was, is) {
        (Some(was), Some(is)) => {
            let texts =
                |values: &[&Value]| values.iter().map(|value| json::canonical_of(value)).collect::<BTreeSet<_>>();
            let (was_texts, is_texts) = (texts(was), texts(is));
            let removed = if side == Side::Input { Rule::EnumValueRemoved } else { Rule::OutputNarrowed };
            for value in was.iter().filter(|value| !is_texts.contains(&json::canonical_of(value))) {
                note(notes, removed, at, Some(value), None);
            }
            for value in is.iter().filter(|value| !was_texts.contains(&json::canonical_of(value))) {
                note(notes, Rule::EnumValueAdded, at, None, Some(value));
            }
        }
        (None, Some(is)) => note(notes, side.narrowed(), at, None, Some(&whole(is))),
        (Some(was), None) => note(notes, side.widened(), at, Some(&whole(was)), None),
        (None, None) => note(notes, Rule::OtherField, at, None, None),
    }
    if notes.len() == before {
        note(notes, Rule::Respelled, at, was.map(whole).as_ref(), is.map(whole).as_ref());
    }
}

/// A bound; `upper`, or else lower.
fn bound(side: Side, at: &str, locked: Option<&Value>, found: Option<&Value>, upper: bool, notes: &mut Vec<Note>) {
    let rule = match (locked, found) {
        (Some(Value::Number(was)), Some(Value::Number(is))) => {
            let (was, is) = (was.as_f64().unwrap_or_default(), is.as_f64().unwrap_or_default());
            // Numbers beyond what a float tells apart count as narrowed.
            if if upper { is > was } else { is < was } { side.widened() } else { side.narrowed() }
        }
        // `exclusiveMinimum: true` of draft 4.
        (Some(Value::Bool(_)) | None, Some(Value::Bool(exclusive))) => {
            if *exclusive {
                side.narrowed()
            } else {
                side.widened()
            }
        }
        _ => side.by_presence(locked, found),
    };
    note(notes, rule, at, locked, found);
}

/// Lists whose places count: `prefixItems`, and `allOf`, where each further one asks more.
fn positions(side: Side, at: &str, was: &[Value], is: &[Value], notes: &mut Vec<Note>) {
    for index in 0..was.len().max(is.len()) {
        let at = below(at, &index.to_string());
        match (was.get(index), is.get(index)) {
            (Some(was), Some(is)) => schema(side, &at, was, is, notes),
            (locked, found) => note(notes, side.by_presence(locked, found), &at, locked, found),
        }
    }
}

/// The branches of `anyOf` or `oneOf`: equal ones go together in any order, then those of the same types.
fn branches(side: Side, at: &str, was: &[Value], is: &[Value], notes: &mut Vec<Note>) {
    let before = notes.len();
    let kinds = |branch: &Value| {
        let kinds = branch.get("type").map(|kind| type_set(Some(kind)));
        kinds.flatten().map(|kinds| kinds.into_iter().map(str::to_owned).collect::<Vec<_>>())
    };
    let pairs = pair(was, is, json::canonical_of, kinds);
    for (was, (index, is)) in pairs.changed {
        schema(side, &below(at, &index.to_string()), was, is, notes);
    }
    for (index, branch) in pairs.removed {
        note(notes, side.narrowed(), &below(at, &index.to_string()), Some(branch), None);
    }
    for (index, branch) in pairs.added {
        note(notes, side.widened(), &below(at, &index.to_string()), None, Some(branch));
    }
    if notes.len() == before {
        note(notes, Rule::Respelled, at, Some(&was.to_vec().into()), Some(&is.to_vec().into()));
    }
}

/// Where one schema became the branch of a union or the other way round: `string` → `anyOf: [string, null]`.
fn one_became_several<'a>(
    was: &'a Map<String, Value>,
    is: &'a Map<String, Value>,
) -> Option<(&'a str, Vec<Value>, Vec<Value>)> {
    let asking = |schema: &'a Map<String, Value>| {
        let all = schema.iter().filter(|(key, _)| !TELLING.contains(&key.as_str()));
        all.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>()
    };
    let union = |schema: &'a Map<String, Value>| {
        let (key, list) = ["anyOf", "oneOf"].into_iter().find_map(|key| Some((key, schema.get(key)?.as_array()?)))?;
        (asking(schema).len() == 1).then(|| (key, list.clone()))
    };
    match (union(was), union(is)) {
        (Some((key, branches)), None) => {
            let one = asking(is);
            (!one.is_empty() && !one.contains_key("anyOf") && !one.contains_key("oneOf"))
                .then(|| (key, branches, vec![one.into()]))
        }
        (None, Some((key, branches))) => {
            let one = asking(was);
            (!one.is_empty() && !one.contains_key("anyOf") && !one.contains_key("oneOf"))
                .then(|| (key, vec![one.into()], branches))
        }
        _ => None,
    }
}
