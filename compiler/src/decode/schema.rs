//! The schema of a config type, as published and as compiled.

use std::collections::BTreeMap;

use jsonschema::{PatternOptions, Validator};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The JSON Schema (draft 2020-12) of what may be written for a `T`.
///
/// Differs from what schemars makes of the type: an `Option` may be left away but not be `null`; `x-*` keys are free in
/// every object with fixed keys; an integer has the limits of its type.
pub fn schema_of<T: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    fit(&mut schema);
    schema
}

/// A schema ready to be checked against. Compile once per process: it costs a millisecond.
#[derive(Debug)]
pub struct CompiledSchema {
    pub(super) raw: Value,
    pub(super) validator: Validator,
    /// For each key, the maps that know it: `defer` → `mcp`, `mcp_servers[]`.
    homes: BTreeMap<String, Vec<String>>,
}

impl CompiledSchema {
    /// Compiles a schema that [`schema_of`] made or that has the same form.
    ///
    /// # Errors
    /// What is wrong with the schema. References to other files or hosts are refused, nothing is ever fetched.
    pub fn new(raw: Value) -> Result<Self, String> {
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex())
            .build(&raw)
            .map_err(|error| error.to_string())?;
        let mut homes = BTreeMap::new();
        find_homes(&raw, &raw, "", &mut Vec::new(), &mut homes);
        Ok(Self { raw, validator, homes })
    }

    /// The schema at a JSON pointer, references followed.
    pub(super) fn at(&self, pointer: &str) -> Option<&Value> {
        self.follow(self.raw.pointer(pointer)?)
    }

    /// `schema`, or what it refers to.
    pub(super) fn follow<'a>(&'a self, mut schema: &'a Value) -> Option<&'a Value> {
        for _ in 0..16 {
            match schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#')) {
                Some(pointer) => schema = self.raw.pointer(pointer)?,
                None => return Some(schema),
            }
        }
        None
    }

    /// The maps that know `key`, as paths; empty path for the top level.
    pub(super) fn homes(&self, key: &str) -> &[String] {
        self.homes.get(key).map_or(&[], Vec::as_slice)
    }
}

/// The keys that a schema of a map names, without deprecated ones.
pub(super) fn known_keys(schema: &Value) -> Vec<&str> {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return Vec::new() };
    properties
        .iter()
        .filter(|(_, property)| property.get("deprecated") != Some(&Value::Bool(true)))
        .map(|(key, _)| key.as_str())
        .collect()
}

fn find_homes<'a>(
    root: &'a Value,
    schema: &'a Value,
    path: &str,
    inside: &mut Vec<&'a str>,
    homes: &mut BTreeMap<String, Vec<String>>,
) {
    if let Some(pointer) = schema.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix('#')) {
        // A type that holds itself has no end of homes; the first is enough.
        if !inside.contains(&pointer)
            && let Some(target) = root.pointer(pointer)
        {
            inside.push(pointer);
            find_homes(root, target, path, inside, homes);
            inside.pop();
        }
    }
    for key in known_keys(schema) {
        let here = homes.entry(key.to_owned()).or_default();
        if !here.iter().any(|known| known == path) {
            here.push(path.to_owned());
        }
        let inner = if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
        if let Some(property) = schema.get("properties").and_then(|properties| properties.get(key)) {
            find_homes(root, property, &inner, inside, homes);
        }
    }
    if let Some(items) = schema.get("items") {
        find_homes(root, items, &format!("{path}[]"), inside, homes);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        find_homes(root, values, &format!("{path}.*"), inside, homes);
    }
    for branch in ["then", "else"].iter().filter_map(|keyword| schema.get(keyword)) {
        find_homes(root, branch, path, inside, homes);
    }
}

/// Applies the differences that [`schema_of`] names to a schema and all in it.
fn fit(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    drop_null(object);
    if object.get("additionalProperties") == Some(&Value::Bool(false)) {
        object.insert("patternProperties".to_owned(), json!({ "^x-": true }));
    }
    limit_integer(object);
    for (keyword, value) in object.iter_mut() {
        match keyword.as_str() {
            "properties" | "patternProperties" | "$defs" | "dependentSchemas" => {
                value.as_object_mut().into_iter().flat_map(Map::values_mut).for_each(fit);
            }
            "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
                value.as_array_mut().into_iter().flatten().for_each(fit);
            }
            "items" | "additionalProperties" | "if" | "then" | "else" | "not" | "contains" | "propertyNames" => {
                fit(value);
            }
            _ => {}
        }
    }
}

fn drop_null(schema: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    let is_null = |branch: &Value| branch.get("type") == Some(&json!("null"));
    if let Some(Value::Array(branches)) = schema.get_mut("anyOf")
        && branches.iter().any(is_null)
    {
        branches.retain(|branch| !is_null(branch));
        if let [Value::Object(only)] = branches.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            for (keyword, value) in only {
                schema.entry(keyword).or_insert(value);
            }
        }
    }
    if let Some(Value::Array(words)) = schema.get_mut("enum") {
        words.retain(|word| !word.is_null());
    }
    if schema.get("default") == Some(&Value::Null) {
        schema.remove("default");
    }
}

fn limit_integer(schema: &mut Map<String, Value>) {
    let (low, high) = match schema.get("format").and_then(Value::as_str) {
        Some("uint8") => (json!(u8::MIN), json!(u8::MAX)),
        Some("uint16") => (json!(u16::MIN), json!(u16::MAX)),
        Some("uint32") => (json!(u32::MIN), json!(u32::MAX)),
        Some("uint64" | "uint") => (json!(u64::MIN), json!(u64::MAX)),
        Some("int8") => (json!(i8::MIN), json!(i8::MAX)),
        Some("int16") => (json!(i16::MIN), json!(i16::MAX)),
        Some("int32") => (json!(i32::MIN), json!(i32::MAX)),
        Some("int64" | "int") => (json!(i64::MIN), json!(i64::MAX)),
        _ => return,
    };
    // Editors know nothing of these formats, and an own limit of the field is narrower.
    schema.remove("format");
    if !schema.contains_key("exclusiveMinimum") {
        schema.entry("minimum").or_insert(low);
    }
    if !schema.contains_key("exclusiveMaximum") {
        schema.entry("maximum").or_insert(high);
    }
}
