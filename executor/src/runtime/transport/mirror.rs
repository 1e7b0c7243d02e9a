//! Arguments that the new era wants in headers too, so that what stands between can route by them: `x-mcp-header` in a
//! tool's schema names the header.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use serde_json::{Map, Value};

/// Names the header in a property's schema.
const ANNOTATION: &str = "x-mcp-header";
/// What such a header's name begins with.
const PREFIX: &str = "mcp-param-";

/// An argument that has a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mirrored {
    /// The names of the properties that lead to it.
    path: Vec<String>,
    header: HeaderName,
}

/// The mirrored arguments of each tool of a server.
#[derive(Debug, Default)]
pub(crate) struct Mirror(RwLock<HashMap<String, Vec<Mirrored>>>);

impl Mirror {
    /// Takes the tools of a new list.
    pub(crate) fn learn(&self, tools: HashMap<String, Vec<Mirrored>>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tools;
    }

    /// The headers that go with a message.
    pub(super) fn headers(&self, message: &ClientJsonRpcMessage) -> Vec<(HeaderName, HeaderValue)> {
        let JsonRpcMessage::Request(request) = message else { return Vec::new() };
        let ClientRequest::CustomRequest(custom) = &request.request else { return Vec::new() };
        let Some(params) = custom.params.as_ref().filter(|_| custom.method == "tools/call") else { return Vec::new() };
        let tools = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mirrored = params["name"].as_str().and_then(|name| tools.get(name)).into_iter().flatten();
        let header = |argument: &Mirrored| {
            let value = argument.path.iter().try_fold(&params["arguments"], |value, key| value.get(key))?;
            Some((argument.header.clone(), header_value(value)?))
        };
        mirrored.filter_map(header).collect()
    }
}

/// A primitive value as a header holds it; what a header can't hold as it is goes in base64.
fn header_value(value: &Value) -> Option<HeaderValue> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        _ => return None,
    };
    let has_odd = text.bytes().any(|byte| !(0x20..0x7f).contains(&byte)) || text.trim_matches(' ') != text;
    let is_taken_for_base64 = text.starts_with("=?base64?") && text.ends_with("?=");
    let text =
        if has_odd || is_taken_for_base64 { format!("=?base64?{}?=", BASE64_STANDARD.encode(text)) } else { text };
    HeaderValue::try_from(text).ok()
}

/// The arguments of a schema that have headers.
///
/// # Errors
/// Why its annotations can't be used, which makes the tool unusable over HTTP.
pub(crate) fn mirrored(schema: &Value) -> Result<Vec<Mirrored>, String> {
    let mut found = Vec::new();
    if let Value::Object(root) = schema {
        look(root, Some(&mut Vec::new()), &mut found)?;
    }
    Ok(found)
}

/// Looks through a schema. `path` leads to it through properties alone; where there is none, nothing may be annotated.
fn look(schema: &Map<String, Value>, path: Option<&mut Vec<String>>, found: &mut Vec<Mirrored>) -> Result<(), String> {
    let mut path = path;
    if let Some(annotation) = schema.get(ANNOTATION) {
        let path = path.as_ref().filter(|path| !path.is_empty());
        let path = path.ok_or_else(|| format!("{ANNOTATION} stands where no argument is"))?;
        found.push(annotated(schema, annotation, path, found)?);
    }
    for (key, value) in schema {
        match key.as_str() {
            "properties" => {
                for (name, property) in value.as_object().into_iter().flatten() {
                    let Value::Object(property) = property else { continue };
                    match &mut path {
                        Some(path) => {
                            path.push(name.clone());
                            look(property, Some(path), found)?;
                            path.pop();
                        }
                        None => look(property, None, found)?,
                    }
                }
            }
            // Names of properties and values, where the word is no annotation.
            "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" => {
                value.as_object().into_iter().flatten().try_for_each(|(_, schema)| look_below(schema, found))?;
            }
            "default" | "const" | "enum" | "examples" | "dependentRequired" => {}
            _ => look_below(value, found)?,
        }
    }
    Ok(())
}

fn look_below(value: &Value, found: &mut Vec<Mirrored>) -> Result<(), String> {
    match value {
        Value::Object(schema) => look(schema, None, found),
        Value::Array(items) => items.iter().try_for_each(|item| look_below(item, found)),
        _ => Ok(()),
    }
}

fn annotated(
    schema: &Map<String, Value>,
    annotation: &Value,
    path: &[String],
    found: &[Mirrored],
) -> Result<Mirrored, String> {
    let argument = path.join(".");
    let name = annotation.as_str().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| format!("{ANNOTATION} of `{argument}` is no name"))?;
    let header = HeaderName::try_from(format!("{PREFIX}{name}"))
        .map_err(|_| format!("{ANNOTATION} of `{argument}` can't be the name of a header"))?;
    if found.iter().any(|other| other.header == header) {
        return Err(format!("{ANNOTATION} of `{argument}` names a header that another argument has"));
    }
    if !matches!(schema.get("type").and_then(Value::as_str), Some("string" | "integer" | "boolean")) {
        return Err(format!("{ANNOTATION} of `{argument}`, which is no string, integer or boolean"));
    }
    Ok(Mirrored { path: path.to_vec(), header })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{CustomRequest, RequestId};
    use serde_json::json;

    #[test]
    fn annotated_arguments_are_headers_of_their_calls() {
        let schema = json!({"type": "object", "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "deep": {"type": "object", "properties": {"n": {"type": "integer", "x-mcp-header": "N"}}},
            "x-mcp-header": {"type": "string", "default": {"x-mcp-header": 1}},
            "no": {"type": "boolean"}
        }});
        let mirror = Mirror::default();
        mirror.learn(HashMap::from([("t".to_owned(), mirrored(&schema).unwrap())]));
        let headers = |method: &str, params: Value| {
            let request = ClientRequest::CustomRequest(CustomRequest::new(method.to_owned(), Some(params)));
            let headers = mirror.headers(&JsonRpcMessage::request(request, RequestId::Number(1)));
            let text = |(name, value): (HeaderName, HeaderValue)| format!("{name}: {}", value.to_str().unwrap());
            headers.into_iter().map(text).collect::<Vec<_>>()
        };
        let arguments = json!({"region": "eu west", "deep": {"n": 7}, "no": true});
        let expected = ["mcp-param-region: eu west", "mcp-param-n: 7"];
        assert_eq!(headers("tools/call", json!({"name": "t", "arguments": arguments})), expected);
        let odd = json!({"region": "Zürich", "deep": null});
        assert_eq!(
            headers("tools/call", json!({"name": "t", "arguments": odd})),
            ["mcp-param-region: =?base64?WsO8cmljaA==?="]
        );
        assert_eq!(headers("tools/call", json!({"name": "u", "arguments": arguments})), [] as [String; 0]);
        assert_eq!(headers("tools/list", json!({"name": "t", "arguments": arguments})), [] as [String; 0]);
        for (value, expected) in [(" a", "=?base64?IGE=?="), ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="), ("", "")]
        {
            assert_eq!(header_value(&json!(value)).unwrap(), expected);
        }
    }

    #[test]
    fn an_annotation_that_cannot_be_used_says_why() {
        let property = |schema: Value| json!({"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}, "b": schema}});
        for (schema, expected) in [
            (json!({"type": "object", "x-mcp-header": "A"}), "where no argument is"),
            (property(json!({"type": "string", "x-mcp-header": ""})), "`b` is no name"),
            (property(json!({"type": "string", "x-mcp-header": 1})), "`b` is no name"),
            (property(json!({"type": "string", "x-mcp-header": "a b"})), "can't be the name of a header"),
            (property(json!({"type": "string", "x-mcp-header": "a"})), "another argument has"),
            (property(json!({"type": "number", "x-mcp-header": "B"})), "no string, integer or boolean"),
            (property(json!({"anyOf": [{"type": "string", "x-mcp-header": "B"}]})), "where no argument is"),
            (
                property(json!({"type": "array", "items": {"type": "string", "x-mcp-header": "B"}})),
                "where no argument is",
            ),
        ] {
            let error = mirrored(&schema).unwrap_err();
            assert!(error.contains(expected), "{error}: {schema}");
        }
    }
}
