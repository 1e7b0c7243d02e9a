//! JSON Schemas of the files we read and write, generated from their types: the field comments are the documentation.

use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::builtins::{Builtin, catalogue};
use crate::config::Config;
use crate::config::server::TRANSPORTS;
use crate::config::spelling::SPELLINGS;
use crate::decode::schema_of;
use crate::document::Rename;
use crate::lock::Lock;
use crate::name::SERVER_NAME_MAX;
use crate::plan::TransportKind;

/// The schema that a config is checked against, after its old spellings were renamed.
pub fn checked_config() -> Value {
    schema_of::<Config>()
}

/// The schema for editors: what may be written, old spellings included and marked deprecated, and the words and forms
/// that are only checked later.
pub fn config() -> Value {
    let mut schema = checked_config();
    let name = format!("^[A-Za-z0-9]([A-Za-z0-9._-]{{0,{}}}[A-Za-z0-9])?$", SERVER_NAME_MAX - 2);
    let builtins = builtins();
    for (definition, field, keyword, value) in [
        ("ServerEntry", "transport", "oneOf", transports()),
        ("ServerEntry", "name", "pattern", json!(name)),
        ("BuiltinOverrides", "as", "pattern", json!(name)),
        ("BuiltinOverrides", "name", "oneOf", builtins.clone()),
    ] {
        if let Some(Value::Object(field)) = properties(&mut schema, definition).and_then(|all| all.get_mut(field)) {
            field.insert(keyword.to_owned(), value);
        }
    }
    if let Some(Value::Object(builtin)) = schema.pointer_mut("/$defs/BuiltinEntry") {
        // For the short form, a name alone.
        builtin.insert("else".to_owned(), json!({ "oneOf": builtins }));
    }
    for spelling in SPELLINGS {
        add_spelling(&mut schema, spelling);
    }
    published(schema)
}

/// Every word for a transport, with what it stands for.
fn transports() -> Value {
    let kinds = schema_of::<TransportKind>();
    let about = |kind: TransportKind| {
        let words = kinds["oneOf"].as_array().into_iter().flatten();
        words.filter(|word| word["const"] == kind.as_str()).find_map(|word| word["description"].as_str())
    };
    let choice = |(word, kind): &(&str, TransportKind)| {
        let text = match kind.as_str() {
            canonical if canonical == *word => about(*kind).unwrap_or_default().to_owned(),
            canonical => format!("Same as `{canonical}`."),
        };
        json!({ "const": word, "description": text })
    };
    TRANSPORTS.iter().map(choice).collect()
}

/// Every builtin, with what it is for.
fn builtins() -> Value {
    let choice = |(name, builtin): (&String, &Builtin)| {
        let archived = builtin.archived.iter().map(|instead| format!(" No longer maintained: {instead}."));
        json!({ "const": name, "description": format!("Server: {}.{}", builtin.description, archived.collect::<String>()) })
    };
    catalogue().iter().map(choice).collect()
}

fn add_spelling(schema: &mut Value, spelling: &Rename) {
    let definition = if spelling.at == "mcp" { "Mcp" } else { "ServerEntry" };
    let mut old = property(schema, definition, spelling.to).unwrap_or_else(|| json!({}));
    if let Value::Object(old) = &mut old {
        old.insert("deprecated".to_owned(), json!(true));
        old.insert("description".to_owned(), json!(format!("Older spelling of `{}`.", spelling.to)));
        old.remove("examples");
    }
    let (name, old) = match spelling.from.split_once('.') {
        None => (spelling.from, old),
        Some((outer, inner)) => (
            outer,
            json!({
                "description": format!("Older spelling: `{}` is now `{}`.", spelling.from, spelling.to),
                "deprecated": true,
                "type": "object",
                "properties": { inner: old },
                "patternProperties": { "^x-": true },
                "additionalProperties": false,
            }),
        ),
    };
    if let Some(properties) = properties(schema, definition) {
        properties.insert(name.to_owned(), old);
    }
}

/// The schema of a lock file.
pub fn lock() -> Value {
    published(SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Lock>().to_value())
}

/// What it is first, and descriptions without the line breaks of our sources.
fn published(schema: Value) -> Value {
    let mut schema = schema;
    unfold(&mut schema);
    let Value::Object(mut rest) = schema else { return schema };
    let mut first = Map::new();
    for keyword in ["$schema", "$id", "title", "description"] {
        first.extend(rest.shift_remove_entry(keyword));
    }
    first.extend(rest);
    Value::Object(first)
}

fn unfold(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            for (keyword, value) in object {
                match value {
                    Value::String(text) if keyword == "description" => {
                        let paragraphs: Vec<_> = text.split("\n\n").map(|part| part.replace('\n', " ")).collect();
                        *text = paragraphs.join("\n\n");
                    }
                    value => unfold(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(unfold),
        _ => {}
    }
}

/// A schema as the text of its published file.
pub fn text(schema: &Value) -> String {
    crate::json::pretty(&schema.to_string())
}

fn properties<'a>(schema: &'a mut Value, definition: &str) -> Option<&'a mut Map<String, Value>> {
    schema.get_mut("$defs")?.get_mut(definition)?.get_mut("properties")?.as_object_mut()
}

/// The schema of `path` (`tools.include`) below a definition, following one reference a step.
fn property(schema: &Value, definition: &str, path: &str) -> Option<Value> {
    let mut at = schema.get("$defs")?.get(definition)?;
    for step in path.split('.') {
        if let Some(target) = at.get("$ref").and_then(Value::as_str) {
            at = schema.pointer(target.strip_prefix('#')?)?;
        }
        at = at.get("properties")?.get(step)?;
    }
    Some(at.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walk<'a>(value: &'a Value, path: &str, visit: &mut impl FnMut(&str, &'a Map<String, Value>)) {
        match value {
            Value::Object(map) => {
                visit(path, map);
                map.iter().for_each(|(key, value)| walk(value, &format!("{path}/{key}"), visit));
            }
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(at, value)| walk(value, &format!("{path}/{at}"), visit));
            }
            _ => {}
        }
    }

    #[test]
    fn every_struct_refuses_unknown_keys_and_lets_x_keys_be() {
        walk(&config(), "", &mut |path, map| {
            if map.get("additionalProperties") == Some(&json!(false)) {
                assert_eq!(map.get("patternProperties"), Some(&json!({"^x-": true})), "{path}");
            }
        });
    }

    #[test]
    fn nothing_may_be_null() {
        walk(&checked_config(), "", &mut |path, map| {
            let null = json!("null");
            let types = map.get("type");
            assert!(
                types != Some(&null) && !types.and_then(Value::as_array).is_some_and(|all| all.contains(&null)),
                "{path}"
            );
        });
    }

    #[test]
    fn old_spellings_are_published_and_not_checked() {
        let published = config();
        for field in ["tool_filter", "auth", "call_timeout", "tool_timeout_seconds"] {
            assert_eq!(published["$defs"]["ServerEntry"]["properties"][field]["deprecated"], json!(true), "{field}");
            assert!(checked_config()["$defs"]["ServerEntry"]["properties"].get(field).is_none(), "{field}");
        }
        assert_eq!(published["$defs"]["ServerEntry"]["properties"]["tool_filter"]["type"], json!("array"));
    }
}
