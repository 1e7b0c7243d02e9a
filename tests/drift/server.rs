//! A server as data: what it says, changed at a place, as it is locked and as it is found.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use mcplan_compiler::compile;
use mcplan_compiler::lock::{Change, Context, Found, Lock, changes, make};
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::{Entry, Introduction, Observed, Resource};
use mcplan_compiler::plan::{NameTable, Plan};
use mcplan_compiler::source::MemorySources;
use serde::de::DeserializeOwned;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

/// A change of what a server says, by JSON pointer.
#[derive(Clone, Debug)]
pub(crate) enum Edit {
    /// The value there is now this one; what isn't there comes.
    Set(&'static str, Value),
    /// The value there is gone.
    Gone(&'static str),
}

/// Everything that the server of the tests says.
pub(crate) fn said() -> Value {
    json!({
        "introduction": {
            "protocol_version": "2025-11-25",
            "name": "files",
            "version": "1.0.0",
            "instructions": "List before you read.",
        },
        "tools": [
            {
                "name": "read",
                "title": "Read",
                "description": "Reads a file. More at https://docs.example/read.",
                "inputSchema": {
                    "type": "object",
                    "properties": {
                        "path": { "type": "string", "description": "Which file", "minLength": 1, "maxLength": 500 },
                        "mode": { "type": "string", "enum": ["text", "bytes"], "default": "text" },
                        "limit": { "type": "integer", "minimum": 1, "maximum": 100 },
                        "match": { "anyOf": [{ "type": "string" }, { "$ref": "#/$defs/Match" }] },
                        "options": {
                            "type": "object",
                            "properties": { "deep": { "type": "boolean", "description": "Follow links" } },
                        },
                    },
                    "required": ["path", "mode"],
                    "$defs": {
                        "Match": { "type": "object", "properties": { "glob": { "type": "string", "pattern": "^.+$" } } },
                    },
                },
                "outputSchema": {
                    "type": "object",
                    "properties": { "text": { "type": "string" }, "size": { "type": "integer", "minimum": 0 } },
                    "required": ["text"],
                },
                "annotations": { "title": "Read", "readOnlyHint": true, "openWorldHint": false },
                "icons": [{ "src": "https://docs.example/read.png" }],
                "_meta": { "example/group": 1 },
            },
            { "name": "stat", "description": "Tells size and time.", "inputSchema": { "type": "object" } },
            { "name": "internal_flush", "description": "Not for you.", "inputSchema": { "type": "object" } },
        ],
        "prompts": [{
            "name": "review",
            "title": "Review",
            "description": "Reviews a file.",
            "arguments": [
                { "name": "path", "description": "Which file", "required": true },
                { "name": "style", "description": "How strict" },
            ],
        }],
        "templates": [{ "uriTemplate": "notes://{id}", "name": "note", "description": "A note.", "mimeType": "text/plain" }],
        "resources": true,
    })
}

/// The same with changes.
pub(crate) fn with(edits: &[Edit]) -> Value {
    let mut all = said();
    for edit in edits {
        let (Edit::Set(pointer, _) | Edit::Gone(pointer)) = edit;
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer");
        let parent = all.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer} has no place"));
        match (parent, edit) {
            (Value::Object(map), Edit::Set(_, value)) => drop(map.insert(key.to_owned(), value.clone())),
            (Value::Object(map), Edit::Gone(_)) => drop(map.shift_remove(key).expect("it is there")),
            (Value::Array(list), Edit::Set(_, value)) => match list.get_mut(key.parse::<usize>().expect("a place")) {
                Some(place) => *place = value.clone(),
                None => list.push(value.clone()),
            },
            (Value::Array(list), Edit::Gone(_)) => drop(list.remove(key.parse().expect("a place"))),
            (other, _) => panic!("{pointer} is in {other}"),
        }
    }
    all
}

fn name() -> ServerName {
    ServerName::new("files").expect("a name")
}

/// The server with a filter, and a second one.
static PLAN: LazyLock<Plan> = LazyLock::new(|| {
    let text =
        "mcp_servers: [{ name: files, command: run, tools: { exclude: [internal_*] } }, { name: mail, command: run }]";
    let files = MemorySources([("config.yml".to_owned(), text.as_bytes().to_vec())].into());
    compile("config.yml", &files).expect("it is there").plan.expect("it compiles")
});

fn entries<T: DeserializeOwned>(list: &Value) -> Vec<Entry<T>> {
    list.as_array().expect("a list").iter().map(|item| Entry::parse(&item.to_string()).expect("an item")).collect()
}

pub(crate) fn observed(said: &Value) -> Observed {
    let introduction: Introduction = serde_json::from_value(said["introduction"].clone()).expect("an introduction");
    let mut observed = Observed {
        introduction,
        prompts: entries(&said["prompts"]),
        resource_templates: entries(&said["templates"]),
        resources: (said["resources"] == true).then(resource).into_iter().collect(),
        ..Observed::default()
    };
    let tools = said["tools"].as_array().expect("a list");
    let tools: Vec<Box<RawValue>> = tools.iter().map(|tool| to_raw_value(tool).expect("JSON")).collect();
    observed.add_tools(tools.iter().map(|tool| &**tool));
    observed
}

fn lock(said: &Value) -> Lock {
    make(PLAN.clone(), Vec::new(), BTreeMap::from([(name(), observed(said))]), None).lock
}

/// What `check` finds where `locked` was locked and `found` is said now, beside a mail server with two tools.
pub(crate) fn difference(locked: &Value, found: &Value) -> Vec<Change> {
    let (plan, lock, observed) = (&*PLAN, lock(locked), observed(found));
    let (files, mail) = (name(), ServerName::new("mail").expect("a name"));
    let names = NameTable::build(
        &plan.naming,
        &[],
        [(&files, "read"), (&files, "stat"), (&mail, "send_mail"), (&mail, "search")],
    );
    let server = plan.server("files").expect("it is there");
    let found = Found::observed(plan, server, &observed);
    changes(&lock.catalog[&files], &found, &Context { server: &files, names: &names })
}

fn resource() -> Arc<Entry<Resource>> {
    Arc::new(Entry::parse(r#"{"uri":"x://1","name":"one"}"#).expect("it is one"))
}
