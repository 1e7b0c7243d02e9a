//! What an editor with the YAML language server shows of the config schema: a text for every key and word, examples for the
//! keys that people write, and only keywords that it knows.

use std::collections::BTreeSet;

#[path = "compile/folder.rs"]
mod folder;

use folder::{cases, written};
use jsonschema::{Draft, Validator};
use mcplan_compiler::schema;
use serde_json::{Map, Value, json};

/// Calls `visit` on every schema in `schema`, with its path. What stands in `examples` or `const` is no schema.
fn walk<'s>(schema: &'s Value, path: &str, visit: &mut impl FnMut(&str, &'s Map<String, Value>)) {
    let Value::Object(map) = schema else { return };
    visit(path, map);
    for (keyword, value) in map {
        let path = format!("{path}/{keyword}");
        match (keyword.as_str(), value) {
            ("properties" | "patternProperties" | "$defs", Value::Object(named)) => {
                named.iter().for_each(|(name, schema)| walk(schema, &format!("{path}/{name}"), visit));
            }
            ("oneOf" | "anyOf" | "allOf", Value::Array(all)) => {
                all.iter().enumerate().for_each(|(at, schema)| walk(schema, &format!("{path}/{at}"), visit));
            }
            ("items" | "additionalProperties" | "if" | "then" | "else" | "not", schema) => walk(schema, &path, visit),
            _ => {}
        }
    }
}

fn described(schema: &Map<String, Value>) -> &str {
    schema.get("description").and_then(Value::as_str).unwrap_or_default()
}

/// Whether a text is one that a person wrote for persons: sentences, in one line.
fn is_prose(text: &str) -> bool {
    text.contains(' ') && text.ends_with('.') && !text.contains('\n') && text.trim() == text
}

#[test]
fn every_key_says_what_it_is_for() {
    let schema = schema::config();
    let (mut seen, mut without) = (0, Vec::new());
    walk(&schema, "", &mut |path, map| {
        for (name, key) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            seen += 1;
            if !key.as_object().is_some_and(|key| is_prose(described(key))) {
                without.push(format!("{path}/{name}: {key}"));
            }
        }
        if path.starts_with("/$defs/") && path.matches('/').count() == 2 && !is_prose(described(map)) {
            without.push(format!("{path}: {map:?}"));
        }
    });
    assert!(seen > 140, "only {seen} keys");
    assert!(without.is_empty(), "without a description in sentences:\n{}", without.join("\n"));
}

#[test]
fn every_word_of_a_choice_says_what_it_does() {
    let schema = schema::config();
    let (mut choices, mut without) = (0, Vec::new());
    walk(&schema, "", &mut |path, map| {
        choices += usize::from(map.contains_key("oneOf"));
        // An `enum` has no place for a text of each word.
        let silent = map.contains_key("enum");
        let word = map.get("const").filter(|_| path.contains("/oneOf/")).is_some_and(|_| !is_prose(described(map)));
        if silent || word {
            without.push(format!("{path}: {map:?}"));
        }
    });
    assert!(choices > 8, "only {choices} choices");
    assert!(without.is_empty(), "words without a description:\n{}", without.join("\n"));
}

/// The keys that a newcomer writes; `[]` goes into a list, `*` into a map with free keys.
const WITH_EXAMPLES: &str = "
    fragments mcp_servers mcp_builtins agents skills plugins tests
    mcp_servers.[].name mcp_servers.[].description mcp_servers.[].transport mcp_servers.[].command mcp_servers.[].args
    mcp_servers.[].env mcp_servers.[].cwd mcp_servers.[].url mcp_servers.[].headers mcp_servers.[].workspaces
    mcp_servers.[].tools.include mcp_servers.[].tools.exclude mcp_servers.[].tools.always mcp_servers.[].when.env
    mcp.servers mcp.naming mcp.denylist mcp.reserved mcp.ca_bundle
    policy.deny policy.allow agents.*.tools agents.*.prompts agents.*.resources agents.*.policy.deny
    agents.*.policy.allow prompt.budget prompt.template serve.http.listen serve.http.tokens serve.http.admin_token
    serve.http.allowed_origins serve.http.allowed_hosts plugins.[].name plugins.[].command plugins.[].env
    tests.[].search tests.[].call tests.[].listed tests.[].deferred tests.[].expect tests.[].block
";

fn follow<'s>(root: &'s Value, schema: &'s Value) -> &'s Value {
    match schema["$ref"].as_str() {
        Some(target) => root.pointer(target.trim_start_matches('#')).expect("a reference leads to a definition"),
        None => schema,
    }
}

#[test]
fn the_keys_that_people_write_have_examples() {
    let root = schema::config();
    for path in WITH_EXAMPLES.split_whitespace() {
        let mut schema = &root;
        for step in path.split('.') {
            let holder = follow(&root, schema);
            schema = match step {
                "[]" => &holder["items"],
                "*" => &holder["additionalProperties"],
                key => &holder["properties"][key],
            };
        }
        let examples = schema["examples"].as_array().map_or(0, Vec::len);
        assert!(examples > 0, "{path} has no example: {schema}");
    }
}

/// `schema`, a part of `root`, as one of its own.
fn alone(root: &Value, schema: &Map<String, Value>) -> Validator {
    let mut schema = Value::Object(schema.clone());
    schema["$defs"] = root["$defs"].clone();
    jsonschema::draft202012::new(&schema).expect("a part of a schema is one")
}

#[test]
fn every_example_is_right() {
    let root = schema::config();
    let mut seen = 0;
    walk(&root, "", &mut |path, map| {
        for example in map.get("examples").and_then(Value::as_array).into_iter().flatten() {
            let validator = alone(&root, map);
            let errors: Vec<_> = validator.iter_errors(example).map(|error| error.to_string()).collect();
            assert_eq!(errors, [""; 0], "{path}: {example}");
            seen += 1;
        }
        if let Some(default) = map.get("default") {
            assert!(alone(&root, map).is_valid(default), "{path}: {default}");
        }
    });
    assert!(seen > 40, "only {seen} examples");
}

/// The keywords of draft 07, which every YAML language server reads, and two newer ones that do no harm where they are
/// unknown: `$defs` is only pointed into, `deprecated` only strikes a key through. What later drafts added to what is checked
/// (`unevaluatedProperties`, `prefixItems`, `$dynamicRef`) is ignored by most that are installed.
const KEYWORDS: [&str; 28] = [
    "$schema",
    "$id",
    "$ref",
    "$defs",
    "title",
    "description",
    "examples",
    "default",
    "deprecated",
    "type",
    "const",
    "enum",
    "properties",
    "patternProperties",
    "additionalProperties",
    "required",
    "items",
    "minItems",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "pattern",
    "oneOf",
    "anyOf",
    "allOf",
    "if",
    "then",
    "else",
];

#[test]
fn it_is_written_in_what_language_servers_know() {
    let schema = schema::config();
    assert!(schema["$id"].as_str().is_some_and(|id| id.starts_with("urn:mcplan:")), "{}", schema["$id"]);
    assert!(schema["title"].is_string() && schema["$schema"].is_string());
    let mut used = BTreeSet::new();
    walk(&schema, "", &mut |path, map| {
        used.extend(map.keys().map(String::as_str));
        if let Some(target) = map.get("$ref").and_then(Value::as_str) {
            assert!(target.starts_with("#/$defs/"), "{path}: nothing is fetched for {target}");
            // Older servers let the keywords beside a reference win, and others drop them: only words may stand there.
            let words = ["$ref", "description", "examples", "deprecated"];
            assert!(map.keys().all(|keyword| words.contains(&keyword.as_str())), "{path}: {map:?}");
        }
    });
    let unknown: Vec<_> = used.iter().filter(|keyword| !KEYWORDS.contains(keyword)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// A server that reads every schema as one of draft 07 marks the same mistakes.
#[test]
fn read_as_draft_07_it_says_the_same() {
    let mut schema = schema::config();
    let validator = |schema: &Value, draft| jsonschema::options().with_draft(draft).build(schema).expect("a schema");
    let new = validator(&schema, Draft::Draft202012);
    schema["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    let old = validator(&schema, Draft::Draft7);
    let mut refused = 0;
    for value in ["ok", "err"].into_iter().flat_map(cases).filter_map(|case| written(&case)) {
        let places = |validator: &Validator| {
            let errors = validator.iter_errors(&value).map(|error| error.instance_path().to_string());
            errors.collect::<BTreeSet<_>>()
        };
        assert_eq!(places(&old), places(&new), "{value:#}");
        refused += usize::from(!places(&new).is_empty());
    }
    assert!(refused > 20, "{refused} cases were refused");
}

/// Notes which keys and words `value` uses, each by the place of its schema.
fn note_used<'s>(root: &'s Value, schema: &'s Value, value: &Value, used: &mut BTreeSet<*const Value>) {
    let schema = follow(root, schema);
    let words = schema["oneOf"].as_array().into_iter().flatten();
    used.extend(words.filter(|word| word["const"] == *value).map(std::ptr::from_ref));
    let branch = if value.is_object() { &schema["then"] } else { &schema["else"] };
    if !branch.is_null() {
        note_used(root, branch, value, used);
    }
    for (key, value) in value.as_object().into_iter().flatten() {
        match schema["properties"].get(key) {
            Some(property) => {
                used.insert(property);
                note_used(root, property, value, used);
            }
            None => note_used(root, &schema["additionalProperties"], value, used),
        }
    }
    value.as_array().into_iter().flatten().for_each(|item| note_used(root, &schema["items"], item, used));
}

/// A key or a word that nobody has seen compile may not.
#[test]
fn every_key_and_word_is_in_a_case_that_compiles() {
    let root = schema::config();
    let mut used = BTreeSet::new();
    for value in cases("ok").iter().filter(|case| !case.has("host-keys")).filter_map(written) {
        note_used(&root, &root, &value, &mut used);
    }
    let mut unused = Vec::new();
    walk(&root, "", &mut |path, map| {
        for (name, key) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
            if !used.contains(&std::ptr::from_ref(key)) {
                unused.push(format!("{path}: {name}"));
            }
        }
        // A builtin may be written in two forms; one is enough.
        let words = map.get("oneOf").filter(|_| !path.ends_with("BuiltinOverrides/properties/name"));
        for word in words.and_then(Value::as_array).into_iter().flatten() {
            if !used.contains(&std::ptr::from_ref(word)) {
                unused.push(format!("{path}: {}", word["const"]));
            }
        }
    });
    assert!(unused.is_empty(), "in no case of tests/compile/ok:\n{}", unused.join("\n"));
}
