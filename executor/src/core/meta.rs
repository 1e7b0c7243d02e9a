//! Our own tools, `search_mcp_tools` and `call_mcp_tool`: how they are listed, what they take, what they answer.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::catalog::CatalogTool;
use super::prompt::clean;
use super::session::Disclosure;
use super::snapshot::{CALL_TOOL, SEARCH_TOOL, Snapshot};

/// Most hits that a search gives, exact ones aside.
const LIMIT_MAX: usize = 50;
/// Most queries in one search.
const QUERIES_MAX: usize = 10;
/// Longest input schema that an answer shows whole, in characters.
const SCHEMA_MAX_CHARS: usize = 4000;
/// Longest description that an answer shows whole, in characters.
const DESCRIPTION_MAX_CHARS: usize = 1500;

/// The JSON texts of our own tools, the same bytes for every session. `limit` is how many tools a search gives when it
/// doesn't say.
pub fn own_tools(limit: usize) -> [String; 2] {
    let search = json!({
        "name": SEARCH_TOOL,
        "title": "Search MCP tools",
        "description": "Finds MCP tools that are not loaded yet, by what they do or by name. Answers with their names, \
                        descriptions and input schemas. Search for one step at a time; an exact tool name always finds \
                        that tool.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": { "type": "string", "description": "What the tool should do, or its name." },
                "queries": {
                    "type": "array", "items": { "type": "string" }, "maxItems": QUERIES_MAX,
                    "description": "Further queries, answered together."
                },
                "server": { "type": "string", "description": "Only tools of this server." },
                "limit": {
                    "type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": limit,
                    "description": "Most tools to answer with."
                }
            },
            "required": ["query"]
        },
        "annotations": { "readOnlyHint": true, "openWorldHint": false }
    });
    let call = json!({
        "name": CALL_TOOL,
        "title": "Call an MCP tool",
        "description": "Calls an MCP tool by the name that search_mcp_tools or the list of available tools gave.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": { "type": "string", "description": "The tool's name." },
                "arguments": { "type": "object", "description": "Its arguments, as its input schema says." }
            },
            "required": ["name"]
        }
    });
    [search.to_string(), call.to_string()]
}

/// A search as an agent asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// At least one.
    pub queries: Vec<String>,
    /// Only this server's tools.
    pub server: Option<String>,
    /// 1 to 50.
    pub limit: usize,
}

impl Search {
    /// Reads the arguments of `search_mcp_tools`. A limit out of bounds is clamped, `default` is for one that isn't there.
    ///
    /// # Errors
    /// What is wrong, for the model to mend.
    pub fn from_arguments(arguments: &Map<String, Value>, default: usize) -> Result<Self, String> {
        let mut queries = Vec::new();
        match arguments.get("query") {
            Some(Value::String(query)) => queries.push(query.clone()),
            Some(_) => return Err("`query` takes a text".to_owned()),
            None => {}
        }
        match arguments.get("queries") {
            None => {}
            Some(Value::Array(more)) => {
                for query in more {
                    queries.push(query.as_str().ok_or("`queries` takes a list of texts")?.to_owned());
                }
            }
            Some(_) => return Err("`queries` takes a list of texts".to_owned()),
        }
        queries.retain(|query| !query.trim().is_empty());
        queries.truncate(QUERIES_MAX);
        if queries.is_empty() {
            return Err("say in `query` what the tool should do".to_owned());
        }
        let server = match arguments.get("server") {
            None | Some(Value::Null) => None,
            Some(Value::String(server)) => Some(server.clone()),
            Some(_) => return Err("`server` takes the name of a server".to_owned()),
        };
        let limit = match arguments.get("limit") {
            None | Some(Value::Null) => default,
            Some(limit) => {
                let limit = limit.as_f64().ok_or("`limit` takes a number")?;
                (limit.max(1.0) as usize).min(LIMIT_MAX)
            }
        };
        Ok(Self { queries, server, limit })
    }
}

/// The answer to a search, for a model to read.
pub fn search_text(snapshot: &Snapshot, search: &Search, hits: &[&CatalogTool], mode: Disclosure) -> String {
    let asked =
        search.queries.iter().map(|query| format!("\"{}\"", cut(&clean(query), 200))).collect::<Vec<_>>().join(", ");
    if hits.is_empty() {
        return nothing_found(snapshot, search, &asked);
    }
    let mut out = format!("{} {} for {asked}:\n", hits.len(), if hits.len() == 1 { "tool" } else { "tools" });
    for tool in hits {
        let known = &tool.entry.known;
        let description = cut(
            &clean(known.description.as_deref().or(known.display_title()).unwrap_or_default()),
            DESCRIPTION_MAX_CHARS,
        );
        let _ = write!(out, "\n{} (server {}{})\n", tool.exposed, tool.server, hints(tool));
        if !description.is_empty() {
            let _ = writeln!(out, "{description}");
        }
        let _ = writeln!(out, "input schema: {}", bounded_schema(&tool.entry.input_schema()));
    }
    let how = match mode {
        Disclosure::Promote => {
            format!("\nThey are in the tool list now. If you don't see them there, use {CALL_TOOL}.")
        }
        Disclosure::Bridge => format!("\nCall one with {CALL_TOOL} {{\"name\": …, \"arguments\": {{…}}}}."),
        Disclosure::All => "\nThey are in the tool list.".to_owned(),
    };
    out.push_str(&how);
    out
}

fn nothing_found(snapshot: &Snapshot, search: &Search, asked: &str) -> String {
    let mut servers: Vec<&str> = snapshot.catalog.tools().iter().map(|tool| tool.server.as_str()).collect();
    servers.dedup();
    if let Some(server) = &search.server
        && !servers.contains(&server.as_str())
    {
        return format!(
            "There is no server \"{}\" with tools. Servers: {}.",
            cut(&clean(server), 64),
            servers.join(", ")
        );
    }
    if servers.is_empty() {
        return format!("No tool for {asked}: no server has any tool at the moment.");
    }
    format!("No tool for {asked}. Try other words, or one step of the task at a time. Servers: {}.", servers.join(", "))
}

/// The hints that a model should know before it calls.
fn hints(tool: &CatalogTool) -> String {
    let Some(annotations) = &tool.entry.known.annotations else { return String::new() };
    let mut hints = String::new();
    if annotations.read_only_hint == Some(true) {
        hints.push_str(", read-only");
    } else if annotations.destructive_hint == Some(true) {
        hints.push_str(", may destroy");
    }
    if annotations.idempotent_hint == Some(true) && annotations.read_only_hint != Some(true) {
        hints.push_str(", idempotent");
    }
    hints
}

/// A schema within [`SCHEMA_MAX_CHARS`]: whole, else without prose, else only its own parameters and their types.
fn bounded_schema(schema: &Value) -> String {
    let fits = |text: &String| text.chars().count() <= SCHEMA_MAX_CHARS;
    let whole = schema.to_string();
    if fits(&whole) {
        return whole;
    }
    let mut bare = schema.clone();
    drop_prose(&mut bare, 0);
    let bare_text = bare.to_string();
    if fits(&bare_text) {
        return bare_text;
    }
    let types: Map<String, Value> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .map(|(name, property)| {
            (name.clone(), json!({ "type": property.get("type").cloned().unwrap_or(json!("object")) }))
        })
        .collect();
    let required = schema.get("required").cloned().unwrap_or(json!([]));
    cut(
        &json!({ "type": "object", "properties": types, "required": required, "x-cut": true }).to_string(),
        SCHEMA_MAX_CHARS,
    )
}

/// Removes what explains and doesn't constrain, except on the first level of parameters.
fn drop_prose(schema: &mut Value, depth: usize) {
    match schema {
        Value::Object(map) => {
            // `properties` maps names to schemas, so a parameter called `description` must stay.
            let keep_names = map.values().all(Value::is_object) && depth % 2 == 1;
            if !keep_names && depth > 2 {
                for word in ["description", "title", "examples", "$comment", "default"] {
                    map.shift_remove(word);
                }
            }
            map.values_mut().for_each(|value| drop_prose(value, depth + 1));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| drop_prose(item, depth + 1)),
        _ => {}
    }
}

fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// A finished text as the result of a tool.
pub fn text_result(text: &str, is_error: bool) -> String {
    json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(arguments: Value) -> Result<Search, String> {
        Search::from_arguments(arguments.as_object().unwrap(), 5)
    }

    #[test]
    fn arguments_are_read_and_bounded() {
        let expected = |queries: &[&str], limit| {
            Ok(Search { queries: queries.iter().map(ToString::to_string).collect(), server: None, limit })
        };
        assert_eq!(search(json!({ "query": "x" })), expected(&["x"], 5));
        assert_eq!(search(json!({ "query": "x", "limit": 0 })), expected(&["x"], 1));
        assert_eq!(search(json!({ "query": "x", "limit": 1e9 })), expected(&["x"], 50));
        assert_eq!(search(json!({ "queries": ["a", " ", "b"] })), expected(&["a", "b"], 5));
        for bad in [json!({}), json!({ "query": " " }), json!({ "query": 1 }), json!({ "query": "x", "limit": "many" })]
        {
            assert!(search(bad.clone()).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_large_schema_keeps_its_parameters() {
        let property = json!({ "type": "object", "description": "d", "properties": { "description": { "type": "string", "description": "x".repeat(300) } } });
        let properties: Map<_, _> = (0..20).map(|n| (format!("p{n}"), property.clone())).collect();
        let schema = json!({ "type": "object", "properties": properties });
        let text = bounded_schema(&schema);
        assert!(text.chars().count() <= SCHEMA_MAX_CHARS);
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["properties"]["p7"]["properties"]["description"]["type"], "string", "{text}");
    }
}
