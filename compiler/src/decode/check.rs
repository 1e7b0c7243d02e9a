//! A document against a schema: every misfit at its place, in our words.
//!
//! The validator says which keyword failed where; nothing of its wording is shown. What follows from something already
//! said is left out: a missing `command` beside an unknown `comand`, an error inside of an alias for each of its uses,
//! whatever concerns a value that the parser has reported.

use std::collections::HashSet;

use jsonschema::error::{TypeKind, ValidationErrorKind as E};
use jsonschema::{JsonType, ValidationError};
use serde_json::{Map, Number, Value};

use super::limit::{limit, range};
use super::path::{Finder, Place, Step};
use super::schema::{CompiledSchema, known_keys};
use super::words::{
    Quantity, command_line_hint, form_hint, glued_dash, hint, inner_key_hint, instead, list_of_servers, quoted_list,
    type_names, value_name, written,
};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, closest, shown, sort};
use crate::document::{self, Document, Entry, Kind, Node, no_space, no_space_after_dash, number_of};
use crate::source::Span;

/// After this many unknown keys no more guesses are made: each costs a comparison with every known key.
const MAX_GUESSES: usize = 200;

/// Everything in `document` that `schema` doesn't allow, sorted by place.
pub fn check(document: &Document, schema: &CompiledSchema) -> Vec<Diagnostic> {
    let value = to_json(&document.root);
    if schema.validator.is_valid(&value) {
        return Vec::new();
    }
    let mut check = Check {
        schema,
        finder: Finder::new(document),
        diagnostics: Vec::new(),
        said: HashSet::new(),
        meant: HashSet::new(),
        guesses: 0,
    };
    let mut errors: Vec<_> = schema.validator.iter_errors(&value).collect();
    // Unknown keys first: what they were meant to be is then not missing.
    errors
        .sort_by_key(|error| !matches!(error.kind(), E::AdditionalProperties { .. } | E::UnevaluatedProperties { .. }));
    for error in &errors {
        check.error(error);
    }
    sort(&mut check.diagnostics);
    check.diagnostics
}

/// The value as JSON; numbers as near as JSON can hold them.
pub fn to_json(node: &Node) -> Value {
    match &node.kind {
        Kind::Null | Kind::Reported => Value::Null,
        Kind::Bool(truth, _) => Value::Bool(*truth),
        Kind::Number(text) => json_number(text).map_or(Value::Null, Value::Number),
        Kind::String(text) => Value::String(text.clone()),
        Kind::List(items) => Value::Array(items.iter().map(to_json).collect()),
        Kind::Map(entries) => {
            Value::Object(entries.iter().map(|entry| (entry.key.clone(), to_json(&entry.value))).collect::<Map<_, _>>())
        }
    }
}

fn json_number(text: &str) -> Option<Number> {
    match number_of(text)? {
        document::Number::Whole(whole) => i64::try_from(whole)
            .map(Number::from)
            .or_else(|_| u64::try_from(whole).map(Number::from))
            .ok()
            .or_else(|| Number::from_f64(whole as f64)),
        document::Number::Float(float) => Number::from_f64(float),
    }
}

struct Check<'a> {
    schema: &'a CompiledSchema,
    finder: Finder<'a>,
    diagnostics: Vec<Diagnostic>,
    /// Code, place and detail of everything said; an alias repeats its anchor's errors.
    said: HashSet<(Code, Span, String)>,
    /// Place of a map and a key that an unknown one of it was probably meant to be.
    meant: HashSet<(Span, String)>,
    guesses: usize,
}

impl<'a> Check<'a> {
    fn say(&mut self, detail: &str, via: Option<Span>, mut diagnostic: Diagnostic) {
        if let Some(alias) = via
            && alias != diagnostic.primary.at
        {
            diagnostic = diagnostic.related(alias, "used here");
        }
        if self.said.insert((diagnostic.code, diagnostic.primary.at, detail.to_owned())) {
            self.diagnostics.push(diagnostic);
        }
    }

    fn error(&mut self, error: &ValidationError<'_>) {
        let place = self.finder.find(error.instance_path());
        if matches!(place.node.kind, Kind::Reported) {
            return;
        }
        let parent = parent(error.schema_path().as_str());
        match error.kind() {
            E::AdditionalProperties { unexpected } | E::UnevaluatedProperties { unexpected } => {
                self.unknown_keys(&place, parent, unexpected);
            }
            E::Required { property } => self.missing_key(&place, property.as_str().unwrap_or_default()),
            E::Type { .. } if self.schema.at(parent).is_some_and(|schema| schema_words(schema).is_some()) => {
                let words = self.schema.at(parent).and_then(schema_words).unwrap_or_default();
                self.unknown_word(&place, &words);
            }
            E::Type { kind } => {
                let kinds = self.type_kinds(kind, parent);
                self.wrong_type(&place, &kinds, parent);
            }
            E::Enum { options } => self.unknown_word(&place, options.as_array().map_or(&[], Vec::as_slice)),
            E::Constant { expected_value } => self.unknown_word(&place, std::slice::from_ref(&**expected_value)),
            E::AnyOf { context } | E::OneOfNotValid { context } => self.union(&place, parent, error, context),
            kind => {
                let found = limit(&place, Self::at(&place), kind, self.schema.at(parent));
                self.say(kind.keyword(), place.node.via, found);
            }
        }
    }

    /// What to mark: the value, or its key when nothing is written after that.
    fn at(place: &Place<'_>) -> Span {
        match place.entry() {
            Some(entry) if place.node.at.start == place.node.at.end => entry.key_at,
            _ => place.node.head(),
        }
    }

    fn unknown_keys(&mut self, place: &Place<'a>, parent: &str, unexpected: &[String]) {
        let schema = self.schema;
        let known = schema.at(parent).map(known_keys).unwrap_or_default();
        for key in unexpected {
            let Some(entry) = self.finder.entry(place.node, key) else { continue };
            let name = entry.written.as_ref().map_or(key, |written| &written.path);
            let message = format!("unknown key `{}`{}", shown(name), place.inside());
            let mut diagnostic = Diagnostic::new(Code::UnknownKey, entry.key_at, message);
            self.guesses += 1;
            let free = known
                .iter()
                .copied()
                .filter(|known| place.node.entries().len() > 64 || place.node.get(known).is_none());
            let guess = if self.guesses <= MAX_GUESSES {
                let begins = known.iter().copied().find(|known| begins(known, key) && schema.homes(key).is_empty());
                closest(key, free).or_else(|| closest(key, known.iter().copied())).or(begins)
            } else {
                None
            };
            let mut help = (!known.is_empty()).then(|| format!("known keys: {}", known.join(", ")));
            let homes = schema.homes(key);
            if let Some(named) = named_by_its_key(place.node, &known) {
                help = Some(named);
                self.meant.insert((place.node.at, "name".to_owned()));
            }
            match guess {
                _ if key.starts_with("//") => {
                    diagnostic = diagnostic.label("a comment starts with `#`, not with `//`");
                    help = Some("write `#` here, or remove the comment".to_owned());
                }
                Some(guess) => {
                    self.meant.insert((place.node.at, guess.to_owned()));
                    // What follows may have the form of the other word too.
                    let kinds = schema.at(&format!("{parent}/properties/{guess}")).map(schema_types);
                    help = kinds.and_then(|kinds| form_hint(&entry.value, &kinds)).or(help);
                    diagnostic = diagnostic.meant(guess);
                }
                None if !homes.is_empty() => {
                    let here = home_of(&place.steps);
                    diagnostic = diagnostic.label(format!("belongs {}", home_list(homes, &here)));
                }
                None => diagnostic = diagnostic.label("no such key"),
            }
            diagnostic.help = help;
            self.say(key, entry.value.via, diagnostic);
        }
    }

    fn missing_key(&mut self, place: &Place<'a>, key: &str) {
        if self.meant.contains(&(place.node.at, key.to_owned())) {
            return;
        }
        let at = match place.entry() {
            Some(entry) if place.node.via.is_none() => entry.key_at,
            _ if place.steps.is_empty() && place.node.entries().is_empty() => place.node.at,
            _ => place.node.head(),
        };
        let message = format!("the key `{}` is missing{}", shown(key), place.inside());
        let diagnostic = Diagnostic::new(Code::MissingKey, at, message)
            .label(format!("needs `{}`", shown(key)))
            .help(format!("add `{}: …`", shown(key)));
        self.say(key, place.node.via, diagnostic);
    }

    /// The types that a failed `type` allows, and with `else` those that its `if` asks for.
    fn type_kinds(&self, kind: &TypeKind, parent: &str) -> Vec<JsonType> {
        let mut kinds: Vec<JsonType> = match kind {
            TypeKind::Single(kind) => vec![*kind],
            TypeKind::Multiple(kinds) => kinds.iter().collect(),
        };
        if let Some(outer) = parent.strip_suffix("/else")
            && let Some(condition) = self.schema.at(outer).and_then(|schema| schema.get("if"))
        {
            kinds.extend(schema_types(condition));
        }
        kinds
    }

    /// `parent` is the schema that asks for another type.
    fn wrong_type(&mut self, place: &Place<'a>, kinds: &[JsonType], parent: &str) {
        let node = place.node;
        if matches!(node.kind, Kind::Null) {
            return self.missing_value(place, &type_names(kinds), kinds.contains(&JsonType::String) && kinds.len() > 1);
        }
        let takes_number = kinds.iter().all(|kind| matches!(kind, JsonType::Number | JsonType::Integer));
        if let Kind::String(text) = &node.kind
            && takes_number
            && let Some(quantity) = Quantity::parse(text)
        {
            return self.unit(place, text, &quantity);
        }
        if let Kind::String(text) = &node.kind
            && !kinds.contains(&JsonType::String)
            && kinds.contains(&JsonType::Object)
            && let Some(problem) = no_space(text, node.at)
        {
            return self.say("", place.node.via, problem);
        }
        if kinds == [JsonType::Array]
            && let Some(dash) = glued_dash(place.key(), node)
        {
            return self.say("", place.node.via, no_space_after_dash(dash));
        }
        let subject = place.subject();
        let known_hint = command_line_hint(place.key(), node)
            .or_else(|| place.steps.is_empty().then(|| list_of_servers(node)).flatten())
            .or_else(|| (kinds == [JsonType::Object]).then(|| inner_key_hint(place.key(), node)).flatten());
        let hint = known_hint.or_else(|| hint(node, kinds)).or_else(|| {
            let keys = self.schema.at(parent).map(known_keys).unwrap_or_default();
            match node.text() {
                _ if kinds != [JsonType::Object] || keys.is_empty() => None,
                Some(name) if keys.contains(&"name") && !name.contains(char::is_whitespace) => {
                    Some(format!("write `- name: {}`, with its keys below", shown(name)))
                }
                _ => Some(format!("known keys: {}", keys.join(", "))),
            }
        });
        let is = match (&node.kind, &hint) {
            (Kind::String(text), Some(_)) if takes_number && number_of(text).is_some() => {
                "a text because of its quotes".to_owned()
            }
            _ => value_name(node),
        };
        let names = type_names(kinds);
        let mut diagnostic =
            Diagnostic::new(Code::WrongType, Self::at(place), format!("{subject} takes {names}, this is {is}"))
                .label(format!("should be {names}"));
        let range = || range(self.schema.at(parent).filter(|_| takes_number)?, false);
        let hint = hint.or_else(|| range().map(|range| format!("write {range}")));
        diagnostic = diagnostic.help(hint.unwrap_or_else(|| instead(kinds)));
        self.say("", place.node.via, diagnostic);
    }

    /// `free` is whether any text will do.
    fn missing_value(&mut self, place: &Place<'a>, takes: &str, free: bool) {
        let written = place.node.at.start < place.node.at.end;
        let message = if written {
            format!("{} takes {takes}, this is null", place.subject())
        } else {
            format!("{} takes {takes}, and nothing is written after it", place.subject())
        };
        let label = if written { "no value" } else { "nothing follows" };
        let what = if place.entry().is_some() { "the key" } else { "the entry" };
        let stray = if free { Vec::new() } else { self.stray_children(place) };
        let help = match (stray.first(), free) {
            (Some(child), _) => format!("indent `{}` and what else belongs to it", shown(&child.key)),
            (None, true) => format!("write a value, `\"\"` for an empty one, or remove {what}"),
            (None, false) => format!("write a value, or remove {what}"),
        };
        if !stray.is_empty() {
            // That they are unknown where they stand is the same mistake.
            let of_stray = |known: &Diagnostic| stray.iter().any(|entry| entry.key_at == known.primary.at);
            self.diagnostics.retain(|known| known.code != Code::UnknownKey || !of_stray(known));
        }
        let diagnostic = Diagnostic::new(Code::MissingValue, Self::at(place), message).label(label).help(help);
        self.say("", place.node.via, diagnostic);
    }

    /// Keys after an empty one that belong into it: their indentation is missing.
    fn stray_children(&self, place: &Place<'a>) -> Vec<&'a Entry> {
        let Some((Step::Key(empty), outer)) = place.steps.split_last() else { return Vec::new() };
        let siblings = match outer.last() {
            Some(Step::Key(entry)) => entry.value.entries(),
            Some(Step::Item(_, item)) => item.entries(),
            None => self.finder.root().entries(),
        };
        let (home, beside) = (home_of(&place.steps), home_of(outer));
        let after = siblings.iter().skip_while(|entry| entry.key_at <= empty.key_at).take(100);
        if matches!(&*empty.key, "env" | "headers") {
            // What may be in them has no list: it ends where a key of ours comes.
            return after.take_while(|entry| self.schema.homes(&entry.key).is_empty()).collect();
        }
        after
            .filter(|entry| {
                let homes = self.schema.homes(&entry.key);
                homes.contains(&home) && !homes.contains(&beside)
            })
            .collect()
    }

    fn unit(&mut self, place: &Place<'a>, text: &str, quantity: &Quantity<'_>) {
        let of_time = place.key().ends_with("seconds");
        let (takes, help) = match (quantity.seconds(), quantity.plain()) {
            (Some(seconds), _) if of_time => ("seconds", Some(format!("write `{seconds}`"))),
            (_, Some(plain)) if !of_time => ("a plain number", Some(format!("write `{plain}`"))),
            _ if of_time => ("seconds", None),
            _ => ("a plain number", None),
        };
        let message = format!("{} takes {takes} without a unit, this is `{}`", place.subject(), shown(text));
        let diagnostic = Diagnostic::new(Code::Unit, place.node.at, message)
            .label(format!("`{}` is a unit", quantity.unit()))
            .help(help.unwrap_or_else(|| "write the number alone".to_owned()));
        self.say("", place.node.via, diagnostic);
    }

    fn unknown_word(&mut self, place: &Place<'a>, options: &[Value]) {
        let node = place.node;
        let words: Vec<String> = options.iter().map(written).collect();
        let list = quoted_list(words.iter().map(String::as_str));
        if matches!(node.kind, Kind::Null) {
            return self.missing_value(place, &one_of(&words, &list), false);
        }
        let Some(text) = node.text() else {
            let message = format!("{} takes {}, this is {}", place.subject(), one_of(&words, &list), node.what());
            let diagnostic = Diagnostic::new(Code::WrongType, Self::at(place), message)
                .label(format!("is {}", node.what()))
                .help(format!("write {}", one_of(&words, &list)));
            return self.say("", place.node.via, diagnostic);
        };
        if matches!(node.kind, Kind::String(_)) && options.iter().any(|word| !word.is_string() && written(word) == text)
        {
            let message =
                format!("{} takes {}, this is a text because of its quotes", place.subject(), one_of(&words, &list));
            let diagnostic = Diagnostic::new(Code::WrongType, Self::at(place), message);
            return self.say("", place.node.via, diagnostic.help(format!("write `{text}` without the quotes")));
        }
        let message = match words.as_slice() {
            [only] => format!("{} takes only `{only}`, this is `{}`", place.subject(), shown(text)),
            _ => format!("{} can't be `{}`", place.subject(), shown(text)),
        };
        let mut diagnostic = Diagnostic::new(Code::UnknownValue, Self::at(place), message);
        if let Some(guess) = closest(text, words.iter().map(String::as_str)) {
            diagnostic = diagnostic.label(if guess == text {
                "a text, because of its quotes".to_owned()
            } else {
                format!("did you mean `{guess}`?")
            });
        }
        diagnostic = diagnostic.help(match words.as_slice() {
            [only] => format!("write `{only}`, or remove the key"),
            _ => format!("one of {list}"),
        });
        self.say("", place.node.via, diagnostic);
    }

    /// `anyOf` and `oneOf`: words, then plain types, then the one branch whose type fits.
    fn union(
        &mut self,
        place: &Place<'a>,
        parent: &str,
        error: &ValidationError<'_>,
        context: &[Vec<ValidationError<'static>>],
    ) {
        let schema = self.schema;
        let branches: Vec<&Value> = schema
            .at(parent)
            .and_then(|schema| schema.get(error.kind().keyword()))
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|branch| schema.follow(branch))
            .collect();
        let words: Option<Vec<Vec<Value>>> = branches.iter().map(|branch| schema_words(branch)).collect();
        if let Some(words) = words.filter(|words| !words.is_empty()) {
            return self.unknown_word(place, &words.concat());
        }
        // A branch of the right type says more than "none of these types".
        let here = error.instance_path().as_str();
        let wrong_type = |branch: &&Vec<ValidationError<'static>>| {
            branch.iter().any(|error| matches!(error.kind(), E::Type { .. }) && error.instance_path().as_str() == here)
        };
        if let Some(branch) = context
            .iter()
            .filter(|branch| !wrong_type(branch))
            .min_by_key(|branch| branch.len())
            .filter(|b| !b.is_empty())
        {
            branch.iter().for_each(|error| self.error(error));
            return;
        }
        let kinds: Vec<JsonType> = branches.iter().flat_map(|branch| schema_types(branch)).collect();
        self.wrong_type(place, &kinds, parent);
    }
}

/// The path of a map as [`CompiledSchema::homes`] names it.
fn home_of(steps: &[Step<'_>]) -> String {
    let mut home = String::new();
    for step in steps {
        match step {
            Step::Key(entry) if home.is_empty() => home.clone_from(&entry.key),
            Step::Key(entry) => home.extend([".", &entry.key]),
            Step::Item(..) => home.push_str("[]"),
        }
    }
    home
}

/// `- github: { … }`: an entry that has its name as its key.
fn named_by_its_key(node: &Node, known: &[&str]) -> Option<String> {
    let [only] = node.entries() else { return None };
    let named = known.contains(&"name") && matches!(only.value.kind, Kind::Map(_) | Kind::Null);
    named.then(|| format!("write `- name: {}`, with its keys below", shown(&only.key)))
}

/// `timeout` for `timeout_seconds`: the beginning of a word is no typing error, and is meant all the same.
fn begins(known: &str, key: &str) -> bool {
    key.len() > 3 && known.strip_prefix(key).is_some_and(|rest| rest.starts_with('_'))
}

/// The schema that holds the keyword at the end of `pointer`.
fn parent(pointer: &str) -> &str {
    pointer.rfind('/').map_or("", |slash| &pointer[..slash])
}

fn one_of(words: &[String], list: &str) -> String {
    if words.len() == 1 { list.to_owned() } else { format!("one of {list}") }
}

/// `in `mcp` or in `mcp_servers[]``; only those below `here`, if there are any.
fn home_list(homes: &[String], here: &str) -> String {
    let below: Vec<_> = homes.iter().filter_map(|home| home.strip_prefix(here)?.strip_prefix('.')).collect();
    let homes = if below.is_empty() || here.is_empty() { homes.iter().map(String::as_str).collect() } else { below };
    let mut places: Vec<_> = homes.into_iter().take(3).map(home_name).collect();
    let last = places.pop().unwrap_or_default();
    if places.is_empty() { last } else { format!("{} or {last}", places.join(", ")) }
}

/// A home as a reader knows it: entries of a list, not our notation for them.
fn home_name(home: &str) -> String {
    let entry = |list: &str| format!("an entry of `{list}`");
    match home.rsplit_once("[]").or_else(|| home.rsplit_once(".*")) {
        _ if home.is_empty() => "at the top level".to_owned(),
        Some((list, "")) => format!("in {}", entry(list)),
        Some((list, field)) => format!("in `{}` of {}", field.trim_start_matches('.'), entry(list)),
        None => format!("in `{home}`"),
    }
}

/// The types that a schema asks for.
fn schema_types(schema: &Value) -> Vec<JsonType> {
    let names: Vec<&Value> = match schema.get("type") {
        Some(Value::Array(names)) => names.iter().collect(),
        Some(name) => vec![name],
        // An `enum` without a type: words.
        None if schema.get("enum").is_some() || schema.get("const").is_some() => return vec![JsonType::String],
        None => Vec::new(),
    };
    names.into_iter().filter_map(|name| name.as_str()?.parse().ok()).collect()
}

/// The values that a schema of nothing but values allows.
fn schema_words(schema: &Value) -> Option<Vec<Value>> {
    if let Some(only) = schema.get("const") {
        return Some(vec![only.clone()]);
    }
    schema.get("enum")?.as_array().cloned()
}
