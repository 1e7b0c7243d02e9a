//! The published schemas are what the types say, and they fit what we read and write.
//!
//! `UPDATE=1 cargo test -p mcplan-compiler --test schemas` writes them again after a wanted change.

#[path = "compile/folder.rs"]
mod folder;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use folder::{cases, check, finish, report, written};
use jsonschema::Validator;
use mcplan_compiler::lock::{self, Lock};
use mcplan_compiler::observed::{Entry, Introduction, Observed};
use mcplan_compiler::schema;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn published(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas").join(name)
}

fn validator(name: &str) -> Validator {
    let text = std::fs::read_to_string(published(name)).expect("the schema is committed");
    jsonschema::draft202012::new(&serde_json::from_str(&text).expect("it is JSON")).expect("it is a schema")
}

fn errors(validator: &Validator, value: &Value) -> Vec<String> {
    validator.iter_errors(value).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

#[test]
fn the_published_schemas_are_those_of_the_types() {
    let mut wrong = Vec::new();
    check(&published("config.schema.json"), &schema::text(&schema::config()), &mut wrong);
    check(&published("lock.schema.json"), &schema::text(&schema::lock()), &mut wrong);
    finish(&wrong);
}

#[test]
fn every_case_that_compiles_fits_the_config_schema() {
    let validator = validator("config.schema.json");
    for case in cases("ok") {
        // Another program's file has its own keys.
        if case.has("host-keys") {
            continue;
        }
        let value = written(&case).expect("it compiles");
        assert_eq!(errors(&validator, &value), [""; 0], "{}: {value:#}", case.0.display());
    }
}

#[test]
fn an_editor_marks_unknown_keys_wrong_types_and_wrong_numbers() {
    let validator = validator("config.schema.json");
    let mut refused = 0;
    for case in cases("err") {
        let name = case.0.file_name().expect("a folder").to_string_lossy();
        if !["key-", "type-", "numbers", "servers-", "budget-limits", "version"].iter().any(|p| name.starts_with(p)) {
            continue;
        }
        let value = written(&case).expect("the text itself is fine");
        assert!(!validator.is_valid(&value), "{name} passes: {value:#}");
        refused += 1;
    }
    assert!(refused > 10, "{refused} cases were looked at");
}

fn raw(items: &[&str]) -> Vec<Box<RawValue>> {
    items.iter().map(|item| RawValue::from_string((*item).to_owned()).expect("it is JSON")).collect()
}

/// A server that offers something of everything.
fn observed() -> Observed {
    let mut observed = Observed {
        introduction: Introduction {
            protocol_version: "2025-11-25".to_owned(),
            name: "demo".to_owned(),
            version: "1.0.0".to_owned(),
            instructions: Some("read before you write".to_owned()),
        },
        resources: vec![Entry::parse(r#"{"uri":"x://1","name":"one"}"#).expect("it is one").into()],
        ..Observed::default()
    };
    let tools = raw(&[
        r#"{"name":"read","description":"reads","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}"#,
        r#"{"name":"delete","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}"#,
    ]);
    observed.add_tools(tools.iter().map(|tool| &**tool));
    observed
}

#[test]
fn every_lock_fits_the_lock_schema() {
    let validator = validator("lock.schema.json");
    for case in cases("ok") {
        let compilation = case.compile();
        let Some(plan) = compilation.plan else { panic!("{}", report(&compilation)) };
        let seen: BTreeMap<_, _> = plan.servers.iter().map(|server| (server.name.clone(), observed())).collect();
        let made = lock::make(plan, vec!["config.yml".to_owned()], seen, None);
        let text = made.lock.text();
        let value: Value = serde_json::from_str(&text).expect("a lock is JSON");
        assert_eq!(errors(&validator, &value), [""; 0], "{}: {text}", case.0.display());
        assert_eq!(Lock::read(&text).expect("a lock reads its own text").text(), text);
    }
    assert!(!validator.is_valid(&serde_json::json!({ "lock_version": 1, "sources": [] })), "a lock holds a plan");
}

/// `validate` needs no second check of a lock: what can be read at all fits the schema. Every value of a lock is left
/// out, and given every other form.
#[test]
fn whatever_reads_as_a_lock_fits_the_lock_schema() {
    let validator = validator("lock.schema.json");
    let case = cases("ok").into_iter().find(|case| case.0.ends_with("serve")).expect("a case with many settings");
    let plan = case.compile().plan.expect("it compiles");
    let seen: BTreeMap<_, _> = plan.servers.iter().map(|server| (server.name.clone(), observed())).collect();
    let made = lock::make(plan, vec!["config.yml".to_owned()], seen, None);
    let whole: Value = serde_json::from_str(&made.lock.text()).expect("a lock is JSON");
    let mut pointers = Vec::new();
    all_pointers(&whole, String::new(), &mut pointers);
    let others =
        [json!(null), json!(true), json!(-1), json!(1.5), json!(1e300), json!(""), json!("x y"), json!([]), json!({})];
    let (mut read, mut wrong) = (0, Vec::new());
    for pointer in &pointers {
        let (parent, key) = pointer.rsplit_once('/').expect("a pointer below the root");
        let mut changed: Vec<_> = others
            .iter()
            .map(|other| {
                let mut value = whole.clone();
                *value.pointer_mut(pointer).expect("it is there") = other.clone();
                value
            })
            .collect();
        let mut without = whole.clone();
        if let Some(Value::Object(map)) = without.pointer_mut(parent) {
            map.shift_remove(&key.replace("~1", "/").replace("~0", "~"));
            changed.push(without);
        }
        for value in changed {
            if Lock::read(&value.to_string()).is_ok() {
                read += 1;
                let errors = errors(&validator, &value);
                if !errors.is_empty() {
                    wrong.push(format!(
                        "{pointer}: {} reads, and {errors:?}",
                        value.pointer(pointer).unwrap_or(&Value::Null)
                    ));
                }
            }
        }
    }
    assert!(read > 100, "{read}");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

fn all_pointers(value: &Value, at: String, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, item)| all_pointers(item, format!("{at}/{index}"), found))
        }
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            all_pointers(value, format!("{at}/{}", key.replace('~', "~0").replace('/', "~1")), found);
        }),
        _ => {}
    }
    if !at.is_empty() {
        found.push(at);
    }
}
