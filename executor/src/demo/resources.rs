//! The resources: notes and issues as texts with an address.

use serde_json::{Value, json};

use super::notes::heading;
use super::prompts::numbers;
use super::store::Store;
use super::wire::RpcError;

/// Which kinds of address this server has.
#[derive(Clone, Copy)]
pub(super) struct Kinds {
    pub(super) notes: bool,
    pub(super) issues: bool,
}

pub(super) fn list(store: &Store, kinds: Kinds) -> Value {
    let mut resources = Vec::new();
    if kinds.issues {
        resources.push(json!({
            "uri": "issue://open", "name": "open-issues", "title": "Open issues", "mimeType": "text/markdown",
            "description": "All open issues, one line each.",
        }));
    }
    if kinds.notes {
        resources.extend(store.notes.iter().map(|(name, text)| {
            json!({
                "uri": format!("note://{name}"), "name": name, "title": heading(text), "mimeType": "text/markdown",
                "size": text.len(),
            })
        }));
    }
    json!({ "resources": resources })
}

pub(super) fn templates(kinds: Kinds) -> Value {
    let mut templates = Vec::new();
    if kinds.issues {
        templates.push(json!({
            "uriTemplate": "issue://{number}", "name": "issue", "title": "An issue", "mimeType": "text/markdown",
            "description": "One issue with its comments.",
        }));
    }
    if kinds.notes {
        templates.push(json!({
            "uriTemplate": "note://{name}", "name": "note", "title": "A note", "mimeType": "text/markdown",
            "description": "One note of the team.",
        }));
    }
    json!({ "resourceTemplates": templates })
}

/// # Errors
/// -32002 when there is no such resource.
pub(super) fn read(store: &Store, kinds: Kinds, uri: &str) -> Result<Value, RpcError> {
    let Some(text) = text(store, kinds, uri) else {
        let message = format!("Resource not found: {uri}");
        return Err(RpcError { code: -32002, message, data: Some(json!({ "uri": uri })) });
    };
    Ok(json!({ "contents": [{ "uri": uri, "mimeType": "text/markdown", "text": text }] }))
}

fn text(store: &Store, kinds: Kinds, uri: &str) -> Option<String> {
    match uri.split_once("://")? {
        ("issue", "open") if kinds.issues => {
            let open = store.issues.values().filter(|issue| issue.open);
            Some(open.map(|issue| format!("- {} {}\n", issue.number, issue.title)).collect())
        }
        ("issue", number) if kinds.issues => Some(store.issue(number.parse().ok()?).ok()?.markdown()),
        ("note", name) if kinds.notes => store.note(name).ok().map(str::to_owned),
        _ => None,
    }
}

/// Values for a template's variable.
///
/// # Errors
/// Unknown template or variable.
pub(super) fn suggestions(
    store: &Store,
    kinds: Kinds,
    template: &str,
    variable: &str,
) -> Result<Vec<String>, RpcError> {
    match (template, variable) {
        ("issue://{number}", "number") if kinds.issues => Ok(numbers(store)),
        ("note://{name}", "name") if kinds.notes => Ok(store.notes.keys().cloned().collect()),
        _ => Err(RpcError::parameters(format!("there is no template {template} with a variable {variable}"))),
    }
}
