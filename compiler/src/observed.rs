//! What a live server reported, as plain data. The executor gathers it; the compiler decides what it means.
//!
//! A tool, prompt or template is an [`Entry`]: `raw` is its text as the server sent it and what is sent on, `known` the
//! few fields that anything is decided by.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::diagnostic::{one_line, shown};
use crate::json::{self, NotCanonical};

/// A server's item: its own text, and what we read of it.
#[derive(Clone, Debug)]
pub struct Entry<T> {
    /// Compact JSON, every token as it came.
    pub raw: Box<RawValue>,
    /// The fields that decisions need.
    pub known: T,
    /// SHA-256 over the canonical form, so that order of keys and spelling of numbers don't count.
    pub digest: String,
}

/// Why an item of a list can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EntryError {
    /// It isn't an object, or a field that we need has another type.
    #[error("{0}")]
    Shape(String),
    /// A schema that can't be used; with the JSON pointer of the place.
    #[error("{reason} at {pointer}")]
    Schema {
        /// JSON pointer into the item.
        pointer: String,
        /// What is wrong there.
        reason: String,
    },
    /// Larger than we take.
    #[error("{size} bytes of JSON, more than {ENTRY_MAX_BYTES}")]
    TooLarge {
        /// Bytes.
        size: usize,
    },
}

impl EntryError {
    /// The reader quotes what it found, however long a server made it.
    fn shape(error: &serde_json::Error) -> Self {
        // The reader's words for it are about the escape, and not about what it stands for.
        let text = error.to_string();
        if text.contains("surrogate") || text.contains("hex escape") {
            let at = error.column();
            return Self::Shape(format!(
                "half a character stands in one of its texts, at byte {at}: a `\\u` escape of a pair without the other half"
            ));
        }
        Self::Shape(one_line(&error.to_string(), 200).into_owned())
    }

    fn schema(pointer: &str, reason: String) -> Self {
        Self::Schema { pointer: one_line(pointer, 80).into_owned(), reason }
    }
}

/// Largest tool, prompt or template that is taken, in bytes of compact JSON.
pub const ENTRY_MAX_BYTES: usize = 256 * 1024;
/// Deepest nesting of a schema that is taken.
pub const SCHEMA_MAX_DEPTH: usize = 64;

impl<T: DeserializeOwned> Entry<T> {
    /// Reads an item from its JSON text.
    ///
    /// # Errors
    /// When the text is too large or has another shape.
    pub fn parse(text: &str) -> Result<Self, EntryError> {
        let (compact, canonical) = match json::compact_and_canonical(text) {
            Ok((compact, canonical)) => (compact, Ok(canonical)),
            Err(why) => (json::compact(text), Err(why)),
        };
        if compact.len() > ENTRY_MAX_BYTES {
            return Err(EntryError::TooLarge { size: compact.len() });
        }
        let raw = RawValue::from_string(compact).map_err(|error| EntryError::shape(&error))?;
        if !raw.get().starts_with('{') {
            return Err(Self::unreadable(&raw));
        }
        let canonical = canonical.map_err(|why| match why {
            NotCanonical::Unreadable => Self::unreadable(&raw),
            NotCanonical::Doubled(key) => {
                let key = one_line(&key, 60).into_owned();
                EntryError::Shape(format!("the key {} stands twice in one object", json::string(&key)))
            }
        })?;
        let known = serde_json::from_str(raw.get()).map_err(|_| Self::unreadable(&raw))?;
        Ok(Self { raw, known, digest: json::digest(canonical.as_bytes()) })
    }

    /// Why this text can't be read. Most can, so that nothing is kept of them on the way to the entry.
    fn unreadable(raw: &RawValue) -> EntryError {
        let value: Value = match serde_json::from_str(raw.get()) {
            Ok(value) => value,
            Err(error) => return EntryError::shape(&error),
        };
        if !value.is_object() {
            return EntryError::Shape(format!("an object was expected, not {}", kind(&value)));
        }
        match T::deserialize(value) {
            Ok(_) => EntryError::Shape("it can't be read".to_owned()),
            Err(error) => EntryError::shape(&error),
        }
    }
}

impl<T: DeserializeOwned> Entry<T> {
    /// The entry with every string in it put through `change`; `None` when nothing changed.
    pub fn map_strings<'a>(&self, change: impl Fn(&str) -> Cow<'a, str>) -> Option<Self> {
        let text = json::map_strings(self.raw.get(), change)?;
        Self::parse(&text).ok()
    }
}

impl Entry<Tool> {
    /// JSON Schema of the tool's arguments; null where it has none. Read anew each time: it is large, and seldom wanted.
    pub fn input_schema(&self) -> Value {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Schema {
            #[serde(default)]
            input_schema: Value,
        }
        serde_json::from_str(self.raw.get()).map_or(Value::Null, |schema: Schema| schema.input_schema)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl<T> Serialize for Entry<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Entry<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Borrowed: all that is read is text.
        let raw = <&RawValue>::deserialize(deserializer)?;
        Self::parse(raw.get()).map_err(serde::de::Error::custom)
    }
}

/// The JSON type of `value` with its article, for messages.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// What we read of a tool.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    /// As the server calls it.
    pub name: String,
    /// For people.
    #[serde(default)]
    pub title: Option<String>,
    /// For the model.
    #[serde(default)]
    pub description: Option<String>,
    /// What the server says of the tool's effects.
    #[serde(default)]
    pub annotations: Option<Annotations>,
}

/// A tool's hints about itself; untrusted.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Annotations {
    /// For people.
    #[serde(default)]
    pub title: Option<String>,
    /// Changes nothing.
    #[serde(default)]
    pub read_only_hint: Option<bool>,
    /// Twice is as once.
    #[serde(default)]
    pub idempotent_hint: Option<bool>,
    /// May destroy something.
    #[serde(default)]
    pub destructive_hint: Option<bool>,
}

impl Tool {
    /// The name for people: `title`, else the annotation's.
    pub fn display_title(&self) -> Option<&str> {
        self.title.as_deref().or_else(|| self.annotations.as_ref()?.title.as_deref())
    }
}

/// A tool whose schema has been looked at too.
///
/// # Errors
/// What makes this tool, and it alone, unusable.
pub fn parse_tool(text: &str) -> Result<Entry<Tool>, EntryError> {
    let entry = Entry::<Tool>::parse(text)?;
    let all: Value = serde_json::from_str(entry.raw.get()).map_err(|error| EntryError::shape(&error))?;
    check_schema(all.get("inputSchema").unwrap_or(&Value::Null))?;
    check_fields(&all)?;
    // Clients hold results against it, and must be led nowhere by it either.
    check_nested(all.get("outputSchema").unwrap_or(&Value::Null), "/outputSchema", 0)?;
    Ok(entry)
}

/// What is only passed on must have the protocol's types too: strict clients throw away the whole list otherwise.
fn check_fields(tool: &Value) -> Result<(), EntryError> {
    let wrong = |pointer: &str, reason: String| Err(EntryError::schema(pointer, reason));
    if tool.get("name").and_then(Value::as_str) == Some("") {
        return wrong("/name", "the name is empty".to_owned());
    }
    let is_other = |value: &Value, expected: &str| !value.is_null() && kind(value) != expected;
    for (pointer, expected) in [
        ("/icons", "a list"),
        ("/_meta", "an object"),
        ("/outputSchema", "an object"),
        ("/execution", "an object"),
        ("/annotations/openWorldHint", "a boolean"),
    ] {
        if let Some(value) = tool.pointer(pointer).filter(|value| is_other(value, expected)) {
            return wrong(pointer, format!("{expected} was expected, not {}", kind(value)));
        }
    }
    for (index, icon) in tool.get("icons").and_then(Value::as_array).into_iter().flatten().enumerate() {
        if !icon.get("src").is_some_and(Value::is_string) {
            return wrong(&format!("/icons/{index}"), "an object with the string `src` was expected".to_owned());
        }
    }
    Ok(())
}

fn check_schema(schema: &Value) -> Result<(), EntryError> {
    let wrong = |pointer: &str, reason: String| Err(EntryError::schema(pointer, reason));
    let Value::Object(root) = schema else {
        let found = if schema.is_null() { "missing or null" } else { kind(schema) };
        return wrong("/inputSchema", format!("the schema must be an object, it is {found}"));
    };
    match root.get("type") {
        Some(Value::String(kind)) if kind == "object" => {}
        Some(other) => {
            return wrong(
                "/inputSchema/type",
                format!("the root type must be \"object\", it is {}", shown(&other.to_string())),
            );
        }
        None => return wrong("/inputSchema", "the root has no type, it must be \"object\"".to_owned()),
    }
    check_nested(schema, "/inputSchema", 0)?;
    check_properties(schema, "/inputSchema")
}

/// Each property has a schema. One that hasn't makes those who serve models refuse the whole list.
fn check_properties(schema: &Value, pointer: &str) -> Result<(), EntryError> {
    let pointer = format!("{pointer}/properties");
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let pointer = format!("{pointer}/{name}");
        if !property.is_object() && !property.is_boolean() {
            let reason = format!("the schema of a property is an object or a boolean, this is {}", kind(property));
            return Err(EntryError::schema(&pointer, reason));
        }
        check_properties(property, &pointer)?;
    }
    Ok(())
}

/// Depth, and references that would need the network. Looks at every value, so that no keyword is forgotten.
fn check_nested(value: &Value, pointer: &str, depth: usize) -> Result<(), EntryError> {
    if depth > SCHEMA_MAX_DEPTH {
        return Err(EntryError::schema(pointer, format!("nested deeper than {SCHEMA_MAX_DEPTH}")));
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let pointer = format!("{pointer}/{key}");
                if (key == "$ref" || key == "$dynamicRef")
                    && let Value::String(target) = value
                    && !target.starts_with('#')
                {
                    let reason = format!("a {key} outside the schema ({}) is never fetched", shown(target));
                    return Err(EntryError::schema(&pointer, reason));
                }
                check_nested(value, &pointer, depth + 1)?;
            }
            Ok(())
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(index, item)| check_nested(item, &format!("{pointer}/{index}"), depth + 1)),
        _ => Ok(()),
    }
}

/// What we read of a prompt.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Prompt {
    /// As the server calls it.
    pub name: String,
    /// For the model.
    #[serde(default)]
    pub description: Option<String>,
}

/// What we read of a resource template.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceTemplate {
    /// RFC 6570.
    pub uri_template: String,
    /// As the server calls it.
    #[serde(default)]
    pub name: Option<String>,
}

/// What we read of a resource.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Resource {
    /// Where it is, as the server writes it.
    pub uri: String,
    /// As the server calls it. Strict clients throw the whole list away where one is missing.
    pub name: String,
}

/// How a server introduced itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Introduction {
    /// The protocol revision that was agreed on.
    pub protocol_version: String,
    /// Its own name; never a key.
    pub name: String,
    /// Its own version.
    pub version: String,
    /// What it wants the model to know.
    pub instructions: Option<String>,
}

/// An item of a list that can't be used, alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quarantined {
    /// Its name, when that much could be read.
    pub name: String,
    /// Why.
    pub reason: String,
}

/// Everything that one server reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// How it introduced itself.
    pub introduction: Introduction,
    /// Its tools, in its order, with bad ones left out.
    pub tools: Vec<Entry<Tool>>,
    /// Why its tools are not known, when it failed to list them.
    pub tools_unknown: Option<String>,
    /// Its prompts.
    pub prompts: Vec<Entry<Prompt>>,
    /// Why its prompts are not known, when it failed to list them.
    pub prompts_unknown: Option<String>,
    /// Its resource templates.
    pub resource_templates: Vec<Entry<ResourceTemplate>>,
    /// Why its resource templates are not known, when it failed to list them.
    pub resource_templates_unknown: Option<String>,
    /// The resources that it lists. They are live data: only whether there are any is locked.
    pub resources: Vec<Arc<Entry<Resource>>>,
    /// Why that is not known, when it failed to list them.
    pub resources_unknown: Option<String>,
    /// Items that were left out.
    pub quarantined: Vec<Quarantined>,
    /// Things that a person should know: a list that failed, a cursor that repeated.
    pub warnings: Vec<String>,
}

impl Observed {
    /// Sorts a page's items into usable and quarantined ones. Two tools of one name: the first stays.
    pub fn add_tools<'a>(&mut self, items: impl IntoIterator<Item = &'a RawValue>) {
        let mut names: BTreeSet<_> = self.tools.iter().map(|tool| tool.known.name.clone()).collect();
        for item in items {
            match parse_tool(item.get()) {
                Ok(entry) if !names.insert(entry.known.name.clone()) => {
                    let reason = "the server lists this name twice; the first one is kept".to_owned();
                    self.quarantined.push(Quarantined { name: entry.known.name, reason });
                }
                Ok(entry) => self.tools.push(entry),
                Err(error) => {
                    let name = name_of(item.get());
                    self.quarantined.push(Quarantined { name, reason: error.to_string() });
                }
            }
        }
    }
}

impl Observed {
    /// Takes from `before` the prompts, templates and resources, where they aren't known now: what was true a moment ago
    /// is worth more than nothing. That they aren't known stays.
    pub fn fill_in(&mut self, before: &Self) {
        if self.prompts_unknown.is_some() {
            self.prompts.clone_from(&before.prompts);
        }
        if self.resource_templates_unknown.is_some() {
            self.resource_templates.clone_from(&before.resource_templates);
        }
        if self.resources_unknown.is_some() {
            self.resources.clone_from(&before.resources);
        }
    }

    /// Puts every string that the server said through `change` and names what changed.
    pub fn map_strings<'a>(&mut self, change: &impl Fn(&str) -> Cow<'a, str>) -> Vec<String> {
        self.map(change, &|raw| json::map_strings(raw, change))
    }

    /// The same, except for names and keys ([`json::map_texts`]), so that everything can still be called.
    pub fn map_texts<'a>(&mut self, change: &impl Fn(&str) -> Cow<'a, str>) -> Vec<String> {
        let mut changed = self.map(change, &|raw| json::map_texts(raw, change));
        // Those that are never locked.
        for entry in &mut self.resources {
            let new = json::map_texts(entry.raw.get(), change).and_then(|text| Entry::<Resource>::parse(&text).ok());
            if let Some(new) = new {
                changed.push(format!("the resource {}", new.known.uri));
                *entry = Arc::new(new);
            }
        }
        changed
    }

    /// Takes every item out that `why` has something against, which is asked with its name and its text.
    pub fn set_apart(&mut self, why: impl Fn(&str, &str) -> Option<Quarantined>) {
        let mut apart = Vec::new();
        let mut keep = |name: &str, raw: &RawValue| match why(name, raw.get()) {
            Some(bad) => {
                apart.push(bad);
                false
            }
            None => true,
        };
        self.tools.retain(|tool| keep(&tool.known.name, &tool.raw));
        self.prompts.retain(|prompt| keep(&prompt.known.name, &prompt.raw));
        self.resource_templates.retain(|template| keep(&template.known.uri_template, &template.raw));
        self.resources.retain(|resource| keep(&resource.known.uri, &resource.raw));
        self.quarantined.extend(apart);
    }

    fn map<'a>(
        &mut self,
        change: &impl Fn(&str) -> Cow<'a, str>,
        of_item: &dyn Fn(&str) -> Option<String>,
    ) -> Vec<String> {
        let mut changed = Vec::new();
        let introduction = &mut self.introduction;
        for (said, what) in [
            (Some(&mut introduction.name), "the server's own name"),
            (Some(&mut introduction.version), "the server's own version"),
            (Some(&mut introduction.protocol_version), "the protocol version"),
            (introduction.instructions.as_mut(), "the instructions"),
        ] {
            let Some(said) = said else { continue };
            let new = change(said).into_owned();
            if new != *said {
                changed.push(what.to_owned());
                *said = new;
            }
        }
        map_list(&mut self.tools, of_item, &mut changed, |tool| format!("the tool {}", tool.name));
        map_list(&mut self.prompts, of_item, &mut changed, |prompt| format!("the prompt {}", prompt.name));
        map_list(&mut self.resource_templates, of_item, &mut changed, |template| {
            format!("the resource template {}", template.uri_template)
        });
        // What can't be used is told of all the same, in the server's words.
        let told = self.quarantined.iter_mut().flat_map(|bad| [&mut bad.name, &mut bad.reason]);
        let unknown = [
            &mut self.tools_unknown,
            &mut self.prompts_unknown,
            &mut self.resource_templates_unknown,
            &mut self.resources_unknown,
        ];
        for said in told.chain(&mut self.warnings).chain(unknown.into_iter().flatten()) {
            *said = change(said).into_owned();
        }
        changed
    }
}

fn map_list<T: DeserializeOwned>(
    list: &mut [Entry<T>],
    change: &dyn Fn(&str) -> Option<String>,
    changed: &mut Vec<String>,
    name: impl Fn(&T) -> String,
) {
    for entry in list {
        if let Some(new) = change(entry.raw.get()).and_then(|text| Entry::<T>::parse(&text).ok()) {
            changed.push(name(&new.known));
            *entry = new;
        }
    }
}

/// The name of an item that can't be used, as far as it has one.
fn name_of(text: &str) -> String {
    #[derive(Deserialize)]
    struct Named {
        name: String,
    }
    serde_json::from_str::<Named>(text).map_or_else(|_| "(no name)".to_owned(), |named| named.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_bad_item_is_one_short_line() {
        let long = "long\\n".repeat(1000);
        for item in [
            format!(r#"{{"name": "a", "inputSchema": {{"type": "object"}}, "annotations": "{long}"}}"#),
            format!(r#"{{"name": "a", "inputSchema": {{"type": "{long}"}}}}"#),
            format!(r##"{{"name": "a", "inputSchema": {{"type": "object", "x": {{"$ref": "{long}"}}}}}}"##),
            format!(
                r##"{{"name": "a", "inputSchema": {{"type": "object", "{long}": {{"$ref": "https://x.example"}}}}}}"##
            ),
            format!(r#"{{"name": {{"{long}": 1}}}}"#),
        ] {
            let said = parse_tool(&item).expect_err("it can't be used").to_string();
            assert!(said.chars().count() < 300 && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn half_a_character_is_told_in_plain_words() {
        for text in [r"\ud83d", r"\ud83dx", r"\ude00", r"\ud83d\u0041", r"\ud83d\n"] {
            let said =
                parse_tool(&format!(r#"{{"name":"x","description":"{text}","inputSchema":{{"type":"object"}}}}"#));
            let said = said.expect_err("it is no text").to_string();
            assert!(said.starts_with("half a character stands in one of its texts, at byte "), "{said}");
        }
    }

    /// What is checked would be one of the two, and what a client shows perhaps the other.
    #[test]
    fn a_key_that_stands_twice_makes_a_tool_unusable() {
        let text = r#"{"name":"x","description":"do as I say","description":"fine","inputSchema":{"type":"object"}}"#;
        let error = parse_tool(text).unwrap_err();
        assert_eq!(error.to_string(), "the key \"description\" stands twice in one object");
    }

    #[test]
    fn raw_text_stays_and_the_digest_ignores_spelling() {
        let a =
            parse_tool(r#"{"name": "x", "inputSchema": {"type": "object", "n": 1.50}, "execution": {"z": 1, "a": 2}}"#)
                .unwrap();
        assert!(a.raw.get().contains("1.50"), "{}", a.raw);
        let b =
            parse_tool(r#"{"execution":{"a":2,"z":1},"inputSchema":{"n":1.5,"type":"object"},"name":"x"}"#).unwrap();
        assert_eq!(a.digest, b.digest);
    }

    #[test]
    fn one_bad_tool_is_quarantined_alone_with_its_place() {
        let deep = format!(r#"{{"type":"object","p":{}1{}}}"#, "[".repeat(70), "]".repeat(70));
        for (schema, expected) in [
            (r#"{"type":"string"}"#, "the root type must be \"object\", it is \"string\" at /inputSchema/type"),
            ("null", "the schema must be an object, it is missing or null at /inputSchema"),
            ("[]", "the schema must be an object, it is a list at /inputSchema"),
            (
                r#"{"type":"object","properties":{"a":{"$ref":"http://127.0.0.1:9/s"}}}"#,
                "a $ref outside the schema (http://127.0.0.1:9/s) is never fetched at /inputSchema/properties/a/$ref",
            ),
            (
                r#"{"type":"object","$dynamicRef":"other.json"}"#,
                "a $dynamicRef outside the schema (other.json) is never fetched at /inputSchema/$dynamicRef",
            ),
            (&*deep, "nested deeper than 64"),
            ("7", "the schema must be an object, it is a number at /inputSchema"),
            (r#"{"type":"strng"}"#, "the root type must be \"object\", it is \"strng\" at /inputSchema/type"),
            (
                r#"{"type":"object","properties":{"required":["a"]}}"#,
                "the schema of a property is an object or a boolean, this is a list at /inputSchema/properties/required",
            ),
            (
                r#"{"type":"object","properties":{"a":{"properties":{"b":null}}}}"#,
                "this is null at /inputSchema/properties/a/properties/b",
            ),
            (
                r#"{"type":"object"},"outputSchema":{"type":"object","items":[{"$ref":"https://x.example/s"}]}"#,
                "a $ref outside the schema (https://x.example/s) is never fetched at /outputSchema/items/0/$ref",
            ),
        ] {
            let bad = RawValue::from_string(format!(r#"{{"name":"bad","inputSchema":{schema}}}"#)).unwrap();
            let ok = r##"{"name":"ok","inputSchema":{"$schema":"http://json-schema.org/draft-07/schema#","type":"object",
                "properties":{"properties":true,"required":{"$ref":"#/$defs/x"}},"default":{"properties":{"a":[]}}}}"##;
            let ok = RawValue::from_string(ok.to_owned()).unwrap();
            let mut observed = Observed::default();
            observed.add_tools([&*bad, &*ok]);
            assert_eq!(observed.tools.len(), 1, "{:?}", observed.quarantined);
            assert_eq!(observed.quarantined[0].name, "bad");
            assert!(observed.quarantined[0].reason.contains(expected), "{}", observed.quarantined[0].reason);
        }
    }

    /// To the byte and to the level.
    #[test]
    fn a_tool_may_be_as_large_and_as_deep_as_its_bounds_say() {
        let of_size = |bytes: usize| {
            let text = |filling: &str| {
                format!(r#"{{"name":"x","description":"{filling}","inputSchema":{{"type":"object"}}}}"#)
            };
            text(&"d".repeat(bytes - text("").len()))
        };
        assert!(parse_tool(&of_size(256 * 1024)).is_ok());
        let said = parse_tool(&of_size(256 * 1024 + 1)).unwrap_err().to_string();
        assert_eq!(said, "262145 bytes of JSON, more than 262144");
        // Spaces between tokens aren't passed on, so they don't count.
        assert!(parse_tool(&of_size(256 * 1024).replace(':', " : ")).is_ok());
        let of_depth = |depth: usize| {
            let (open, close) = ("[".repeat(depth), "]".repeat(depth));
            format!(r#"{{"name":"x","inputSchema":{{"type":"object","x":{open}{close}}}}}"#)
        };
        assert!(parse_tool(&of_depth(64)).is_ok());
        assert!(parse_tool(&of_depth(65)).is_err());
    }

    #[test]
    fn a_malformed_field_that_is_only_passed_on_costs_the_tool_too() {
        for (field, expected) in [
            (r#""name":"""#, "the name is empty at /name"),
            (r#""name":"bad","icons":5"#, "a list was expected, not a number at /icons"),
            (r#""name":"bad","icons":["x"]"#, "an object with the string `src` was expected at /icons/0"),
            (r#""name":"bad","_meta":3"#, "an object was expected, not a number at /_meta"),
            (r#""name":"bad","annotations":{"openWorldHint":"yes"}"#, "a boolean was expected, not a string"),
            (r#""name":"bad","annotations":{"readOnlyHint":"yes"}"#, "expected a boolean"),
        ] {
            let bad = RawValue::from_string(format!(r#"{{{field},"inputSchema":{{"type":"object"}}}}"#)).unwrap();
            let ok =
                r#"{"name":"ok","inputSchema":{"type":"object"},"icons":[{"src":"a"}],"_meta":{},"execution":null}"#;
            let ok = RawValue::from_string(ok.to_owned()).unwrap();
            let mut observed = Observed::default();
            observed.add_tools([&*bad, &*ok]);
            assert_eq!(observed.tools.len(), 1, "{field}");
            assert!(observed.quarantined[0].reason.contains(expected), "{}", observed.quarantined[0].reason);
        }
    }

    #[test]
    fn what_is_told_of_bad_items_is_changed_too() {
        let bad = RawValue::from_string(r#"{"name":"hush","inputSchema":{"type":"hush"}}"#.to_owned()).unwrap();
        let mut observed = Observed { warnings: vec!["hush".to_owned()], ..Observed::default() };
        observed.add_tools([&*bad]);
        observed.map_strings(&|said| Cow::Owned(said.replace("hush", "-")));
        let Quarantined { name, reason } = &observed.quarantined[0];
        assert!(name == "-" && !reason.contains("hush") && observed.warnings == ["-"], "{observed:?}");
    }

    #[test]
    fn the_introduction_is_changed_whole() {
        let introduction = Introduction {
            protocol_version: "2025-06-18".to_owned(),
            name: "at hush".to_owned(),
            version: "1+hush".to_owned(),
            instructions: Some("hush".to_owned()),
        };
        let mut observed = Observed { introduction, ..Observed::default() };
        let changed = observed.map_strings(&|said| Cow::Owned(said.replace("hush", "-")));
        assert_eq!(changed, ["the server's own name", "the server's own version", "the instructions"]);
        assert!(!format!("{observed:?}").contains("hush"), "{observed:?}");
    }

    #[test]
    fn a_name_listed_twice_is_kept_once_within_a_page_and_across_pages() {
        let tool = |name| RawValue::from_string(format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#));
        let (a, b) = (tool("a").unwrap(), tool("b").unwrap());
        let mut observed = Observed::default();
        observed.add_tools([&*a, &*b, &*a]);
        observed.add_tools([&*b]);
        assert_eq!(observed.tools.iter().map(|tool| &*tool.known.name).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(observed.quarantined.iter().map(|bad| &*bad.name).collect::<Vec<_>>(), ["a", "b"]);
    }

    #[test]
    fn a_tool_without_schema_or_name_and_a_stranger_cost_only_themselves() {
        let items: Vec<_> = [r#"{"name":"a"}"#, "7", r#"{"inputSchema":{"type":"object"}}"#]
            .iter()
            .map(|text| RawValue::from_string((*text).to_owned()).unwrap())
            .collect();
        let mut observed = Observed::default();
        observed.add_tools(items.iter().map(|item| &**item));
        assert_eq!(observed.quarantined.len(), 3);
        assert_eq!(observed.quarantined[1].name, "(no name)");
    }
}
