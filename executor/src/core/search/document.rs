//! What a tool is found by.

use serde_json::Value;

/// A tool as the index sees it. All texts are a server's and untrusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Document {
    /// The exposed name.
    pub name: String,
    /// The tool as its server calls it.
    pub bare: String,
    /// The server's name in the plan.
    pub server: String,
    /// The name for people.
    pub title: String,
    /// What it does.
    pub description: String,
    /// Its parameters and their descriptions.
    pub parameters: Vec<(String, String)>,
}

/// Most parameters of a tool that are read, and how deep in its schema.
pub(super) const PARAMETERS_MAX: usize = 64;
const DEPTH_MAX: usize = 4;

/// The parameters that a JSON Schema declares, nested ones included, with their descriptions.
pub fn parameters(schema: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    collect(schema, 0, &mut found);
    found
}

fn collect(schema: &Value, depth: usize, found: &mut Vec<(String, String)>) {
    if depth > DEPTH_MAX {
        return;
    }
    for (name, property) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        if found.len() >= PARAMETERS_MAX {
            return;
        }
        let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
        found.push((name.clone(), description.to_owned()));
        collect(property, depth + 1, found);
        if let Some(items) = property.get("items") {
            collect(items, depth + 1, found);
        }
    }
    for key in ["anyOf", "oneOf", "allOf"] {
        for part in schema.get(key).and_then(Value::as_array).into_iter().flatten() {
            collect(part, depth + 1, found);
        }
    }
}
