//! Every misfit of a document, as the user sees it, on a small config of the same build as the real one.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use proptest::prelude::*;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use super::*;
use crate::code::Code;
use crate::document::{Document, Node, Rename, load, rename};
use crate::render::{Human, human};
use crate::source::{SourceMap, Spanned};

#[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    version: Option<u8>,
    mcp: Option<Mcp>,
    #[serde(default)]
    mcp_servers: Vec<Server>,
    #[serde(default)]
    #[schemars(schema_with = "builtins")]
    mcp_builtins: Vec<serde_json::Value>,
    agents: Option<BTreeMap<String, Agent>>,
    budget: Option<Budget>,
}

#[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Mcp {
    enabled: Option<Spanned<bool>>,
    #[schemars(extend("exclusiveMinimum" = 0))]
    timeout_seconds: Option<Spanned<f64>>,
    call_timeout_seconds: Option<f64>,
    max_result_chars: Option<u32>,
    naming: Option<Spanned<Text>>,
    connect: Option<Connect>,
    denylist: Option<Vec<String>>,
}

#[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Server {
    name: Option<Spanned<String>>,
    transport: Option<Spanned<Transport>>,
    command: Spanned<Text>,
    args: Option<Vec<Spanned<Text>>>,
    env: Option<BTreeMap<String, Text>>,
    headers: Option<BTreeMap<String, Text>>,
    defer: Option<bool>,
    timeout_seconds: Option<f64>,
    call_timeout_seconds: Option<f64>,
    tools: Option<Tools>,
}

#[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Tools {
    #[schemars(length(min = 1))]
    include: Option<Vec<Text>>,
    exclude: Option<Vec<Text>>,
}

#[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Agent {
    tools: Vec<String>,
}

#[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Budget {
    #[schemars(range(min = 1, max = 100))]
    percent: Option<f64>,
    offset: Option<i16>,
}

/// Words with a description each: `oneOf` in the schema.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Transport {
    /// A child process.
    Stdio,
    /// A remote server.
    StreamableHttp,
    /// Also remote.
    Sse,
}

/// Words without: `enum` in the schema.
#[derive(Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Connect {
    Eager,
    Lazy,
}

/// The written text of a scalar.
#[derive(Debug, Default, Clone, PartialEq, Deserialize)]
struct Text(String);

impl JsonSchema for Text {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Text".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "number", "boolean"] })
    }
}

fn builtins(generator: &mut SchemaGenerator) -> Schema {
    let entry = generator.subschema_for::<Server>();
    json_schema!({
        "type": "array",
        "items": { "if": { "type": "object" }, "then": entry, "else": { "type": "string" } },
    })
}

fn schema() -> &'static CompiledSchema {
    static SCHEMA: OnceLock<CompiledSchema> = OnceLock::new();
    SCHEMA.get_or_init(|| CompiledSchema::new(schema_of::<Config>()).expect("a schema of our own compiles"))
}

const RENAMES: &[Rename] = &[
    Rename { at: "mcp_servers[]", from: "tool_filter", to: "tools.include" },
    Rename { at: "mcp_servers[]", from: "auth.headers", to: "headers" },
    Rename { at: "mcp_servers[]", from: "call_timeout", to: "call_timeout_seconds" },
    Rename { at: "mcp_servers[]", from: "tool_timeout_seconds", to: "call_timeout_seconds" },
    Rename { at: "agents.*", from: "tool_list", to: "tools" },
    Rename { at: "", from: "progressive.pct", to: "budget.percent" },
];

fn read(text: &str) -> (SourceMap, Document) {
    let mut sources = SourceMap::default();
    let (_, document, diagnostics) = load(&mut sources, "config.yml", text.as_bytes());
    assert!(diagnostics.is_empty(), "{}", human(&diagnostics, &sources, Human::default()));
    (sources, document.expect("a document without problems"))
}

/// The report on `text`, renamed and checked.
fn look(text: &str) -> String {
    let (sources, mut document) = read(text);
    let mut diagnostics = rename(&mut document, RENAMES);
    diagnostics.extend(check(&document, schema()));
    crate::diagnostic::sort(&mut diagnostics);
    human(&diagnostics, &sources, Human::default())
}

fn config(node: &Node) -> Config {
    decode(node).expect("what passes the check is decoded")
}

macro_rules! snapshot {
    ($texts:expr) => {
        let shown: String = $texts.iter().map(|text| format!("# {text}\n{}", look(text))).collect();
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(shown) })
    };
}

fn codes(text: &str) -> Vec<Code> {
    let (_, document) = read(text);
    check(&document, schema()).iter().map(|diagnostic| diagnostic.code).collect()
}

#[test]
fn keys() {
    snapshot!([
        "mcp_servers:\n  - name: github\n    comand: npx\n",
        "mpc:\n  enabled: true\n",
        "mcp:\nenabled: true\ntimeout_seconds: 5\n",
        "mcp_servers:\n  - name: a\n    timeout_seconds: 5\n    colour: red\n",
        "mcp_builtins:\n  - github\n  - nam: x\n    command: y\n",
        "agents: {a: {}, b: , 1: {tools: [x], y: 1}}\n",
        "{}\n",
    ]);
    assert_eq!(codes("x-top: 1\nmcp: {x-in: {a: b}}\nmcp_servers: [{command: a, x-note: ~}]\n"), []);
    assert_eq!(codes("mcp_servers: [{command: a, headers: {x-api-key: k, X-Y: 1}}]\n"), []);
}

#[test]
fn types() {
    snapshot!([
        "mcp_servers:\n  - command: x\n    timeout_seconds: \"30\"\n    defer: yes\n    args: -y\n    env: [A=b]\n",
        "mcp_servers:\n  - command: [npx, -y]\n    env: {A: [1], B: , C: {}}\n    name: 123\n",
        "mcp_servers:\n  github:\n    command: npx\n  fs:\n    command: npx\n",
        "mcp:\n  naming: {}\n  denylist:\n    - 1\n    -\n    - [a]\n  enabled: 1\n",
        "mcp:\n  timeout_seconds: \"${T}\"\n  max_result_chars: 1.5\n  call_timeout_seconds: soon\n",
        "mcp_builtins: [5, [a]]\n",
        "mcp_servers: {}\nmcp: []\n",
        "- a\n",
        "just text\n",
    ]);
}

#[test]
fn nothing_after_a_key() {
    snapshot!(["mcp:\n  connect:\n  naming: ~\n  timeout_seconds:\nagents:\n", "mcp_servers:\n  -\n  - command:\n"]);
}

#[test]
fn words() {
    snapshot!([
        "mcp_servers:\n  - command: npx\n    transport: streamable-http\n  - command: x\n    transport: 5\n",
        "mcp:\n  connect: lzy\n",
        "mcp:\n  connect: [eager]\n",
        "mcp_servers: [{command: x, transport: carrier pigeon}]\n",
    ]);
}

#[test]
fn numbers() {
    snapshot!([
        "mcp:\n  timeout_seconds: 0\n  call_timeout_seconds: 2m\n  max_result_chars: 50k\n",
        "mcp:\n  timeout_seconds: 500ms\n  call_timeout_seconds: 30 parsecs\n  max_result_chars: -1\n",
        "mcp:\n  timeout_seconds: .inf\n  call_timeout_seconds: 1e999\n  max_result_chars: 4294967296\n",
        "mcp:\n  timeout_seconds: 017\n  call_timeout_seconds: 1_000\n",
        "version: 300\nbudget: {percent: 0.5, offset: -99999}\n",
        "budget: {percent: 101}\n",
        "mcp_servers: [{command: x, tools: {include: []}}]\n",
    ]);
    assert_eq!(codes("mcp: {timeout_seconds: 0x10, call_timeout_seconds: 1e3, max_result_chars: 5.0}\n"), []);
}

#[test]
fn aliases_are_reported_once_and_say_where_they_are_used() {
    snapshot!([
        "x-base: &b\n  timout_seconds: 5\n  defer: maybe\nmcp_servers:\n  - <<: *b\n    command: x\n  - <<: *b\n    command: y\n",
        "x-base: &b\n  command: y\n  foo: 1\nmcp_servers: [*b, *b]\n",
    ]);
}

#[test]
fn old_spellings_are_named_as_written() {
    snapshot!([
        "mcp_servers:\n  - command: x\n    tool_filter: [a]\n    tools: {include: [b]}\n",
        "mcp_servers:\n  - command: x\n    call_timeout: 1\n    tool_timeout_seconds: 2\n",
        "mcp_servers:\n  - command: x\n    headers: {A: 1}\n    auth: {headers: {B: 1}}\n",
        "mcp_servers:\n  - command: x\n    tool_filter: 5\n    call_timeout: 500ms\n    auth: {headers: [], type: bearer}\n",
        "progressive: {pct: many}\nagents: {r: {tool_list: 5}}\n",
        "mcp_servers:\n  - command: x\n    auth: {header: 1}\n  - command: x\n    auth: none\n",
        "mcp_servers:\n  - command: x\n    tools: [a]\n    tool_filter: [b]\n",
    ]);
}

#[test]
fn old_spellings_mean_the_new_ones() {
    let old = "mcp_servers:\n  - command: x\n    tool_filter: [a]\n    call_timeout: 5\n    auth: {headers: {B: 1.10}}\n    tools: {exclude: [b]}\nprogressive: {pct: 2}\nagents: {r: {tool_list: [t]}}\n";
    let new = "mcp_servers:\n  - command: x\n    tools: {include: [a], exclude: [b]}\n    call_timeout_seconds: 5\n    headers: {B: 1.10}\nbudget: {percent: 2}\nagents: {r: {tools: [t]}}\n";
    let (_, mut document) = read(old);
    assert_eq!(rename(&mut document, RENAMES), []);
    assert_eq!(check(&document, schema()), []);
    assert_eq!(config(&document.root), config(&read(new).1.root));
    let tools = document.root.get("mcp_servers").and_then(|servers| servers.items()[0].get("tools")).expect("tools");
    let include = tools.entry("include").expect("include");
    assert_eq!(&old[include.key_at.range()], "tool_filter");
    assert_eq!(include.written.as_ref().map(|written| written.path.as_str()), Some("tool_filter"));
}

#[test]
fn decoding_keeps_places_and_written_text() {
    let text = "mcp_servers:\n  - name: a\n    command: npx\n    args: [-p, 8080, 1.10, yes, True]\n    transport: stdio\n    env: {PORT: 8080}\n    x-note: {any: thing}\n    headers: {x-api-key: 017}\n";
    let config = config(&read(text).1.root);
    let server = &config.mcp_servers[0];
    let args: Vec<_> = server.args.iter().flatten().map(|arg| arg.value.0.as_str()).collect();
    assert_eq!(args, ["-p", "8080", "1.10", "yes", "True"]);
    assert_eq!(server.env.as_ref().and_then(|env| env.get("PORT")), Some(&Text("8080".to_owned())));
    assert_eq!(server.headers.as_ref().and_then(|headers| headers.get("x-api-key")), Some(&Text("017".to_owned())));
    let transport = server.transport.as_ref().expect("transport");
    assert_eq!((&transport.value, &text[transport.at.range()]), (&Transport::Stdio, "stdio"));
    assert_eq!(server.args.as_ref().map(|args| &text[args[2].at.range()]), Some("1.10"));
}

#[test]
fn keys_of_a_map_can_keep_their_place() {
    #[derive(PartialEq, Eq)]
    struct Key(Spanned<String>);
    impl PartialOrd for Key {
        fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
            Some(self.cmp(other))
        }
    }
    impl Ord for Key {
        fn cmp(&self, other: &Self) -> std::cmp::Ordering {
            self.0.value.cmp(&other.0.value)
        }
    }
    impl<'de> Deserialize<'de> for Key {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Spanned::deserialize(deserializer).map(Key)
        }
    }
    let text = "lead: 1\nresearcher: 2\n";
    let map: BTreeMap<Key, u8> = decode(&read(text).1.root).expect("a map of numbers");
    let keys: Vec<_> = map.keys().map(|key| (key.0.value.as_str(), &text[key.0.at.range()])).collect();
    assert_eq!(keys, [("lead", "lead"), ("researcher", "researcher")]);
}

#[test]
fn a_decode_error_after_a_passed_check_is_our_bug_at_its_place() {
    let text = "mcp:\n  denylist: [a, 5x]\n";
    #[derive(Debug, Deserialize)]
    struct Other {
        #[serde(rename = "mcp")]
        _mcp: BTreeMap<String, Vec<u8>>,
    }
    let (_, document) = read(text);
    let problem = decode::<Other>(&document.root).expect_err("texts are no numbers");
    assert_eq!((problem.code, &text[problem.primary.at.range()]), (Code::Internal, "a"));
    let unknown = decode::<Tools>(&read("includ: [a]\n").1.root).expect_err("an unknown field");
    assert_eq!((unknown.code, unknown.primary.at.range()), (Code::Internal, 0..6));
}

#[test]
fn the_schema_leaves_x_keys_free_and_takes_no_null() {
    let schema = schema_of::<Config>();
    let mut closed = 0;
    for (name, definition) in
        schema["$defs"].as_object().expect("definitions").iter().chain([(&String::new(), &schema)])
    {
        if definition["additionalProperties"] == serde_json::Value::Bool(false) {
            closed += 1;
            assert_eq!(definition["patternProperties"]["^x-"], serde_json::Value::Bool(true), "{name}");
        }
    }
    assert_eq!(closed, 6, "Config and the structs in it");
    assert!(!schema.to_string().contains("null"), "{schema}");
}

#[test]
fn a_report_on_very_many_errors_stays_linear() {
    // Counted in guesses and look-ups, not in seconds: with neither bounded this test doesn't come to an end.
    let unknown: String = (0..20_000).map(|index| format!("k{index}: 1\n")).collect();
    assert_eq!(codes(&unknown).len(), 20_000);
    let wrong: String = (0..20_000).map(|index| format!("      k{index}: [1]\n")).collect();
    assert_eq!(codes(&format!("mcp_servers:\n  - command: x\n    env:\n{wrong}")).len(), 20_000);
}

/// Values of every kind, right and wrong ones.
fn value() -> impl Strategy<Value = String> {
    let scalar = prop::sample::select(vec![
        "a",
        "true",
        "yes",
        "5",
        "5.0",
        "-1",
        "0.5",
        "300",
        "70000",
        "5000000000",
        "1e400",
        "017",
        "'5'",
        "stdio",
        "eager",
        "streamable_http",
        "\"${X}\"",
        "0x10",
        "99999999999999999999999999",
    ])
    .prop_map(str::to_owned);
    let list = prop::collection::vec(scalar.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", ")));
    let map = prop::collection::btree_map("[A-C]", scalar.clone(), 0..3).prop_map(flow_map);
    prop_oneof![4 => scalar, 1 => list, 1 => map]
}

fn flow_map(map: BTreeMap<String, String>) -> String {
    let entries: Vec<_> = map.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    format!("{{{}}}", entries.join(", "))
}

/// A map with some of `keys`; each has a value that fits three times out of four.
fn map_of(keys: Vec<(&'static str, BoxedStrategy<String>)>) -> BoxedStrategy<String> {
    let entries: Vec<_> = keys
        .into_iter()
        .map(|(key, fitting)| {
            let value = prop_oneof![12 => fitting, 1 => value()];
            prop::option::of(value.prop_map(move |value| (key.to_owned(), value)))
        })
        .collect();
    entries.prop_map(|entries| flow_map(entries.into_iter().flatten().collect())).boxed()
}

fn one_of(words: &[&'static str]) -> BoxedStrategy<String> {
    prop::sample::select(words.to_vec()).prop_map(str::to_owned).boxed()
}

fn list_of(item: BoxedStrategy<String>) -> BoxedStrategy<String> {
    prop::collection::vec(item, 0..3).prop_map(|items| format!("[{}]", items.join(", "))).boxed()
}

fn document() -> impl Strategy<Value = String> {
    let number = || one_of(&["1", "2.5", "30"]);
    let text = || one_of(&["a", "8080", "1.10", "true", "yes", "\"${X}\""]);
    let texts = || list_of(text());
    let env = || prop::collection::btree_map("[A-C]|x-a", text(), 0..3).prop_map(flow_map).boxed();
    let tools = map_of(vec![("exclude", texts()), ("x-free", value().boxed()), ("includ", texts())]);
    let server = map_of(vec![
        ("command", text()),
        ("args", texts()),
        ("env", env()),
        ("headers", env()),
        ("defer", one_of(&["true", "false"])),
        ("transport", one_of(&["stdio", "streamable_http", "sse"])),
        ("timeout_seconds", number()),
        ("tools", tools),
        ("x-note", value().boxed()),
    ]);
    let mcp = map_of(vec![
        ("enabled", one_of(&["true", "True"])),
        ("timeout_seconds", number()),
        ("max_result_chars", one_of(&["0", "5", "4294967295"])),
        ("naming", text()),
        ("connect", one_of(&["eager", "lazy"])),
    ]);
    map_of(vec![
        ("version", one_of(&["1"])),
        ("mcp", mcp),
        ("mcp_servers", list_of(server)),
        ("budget", map_of(vec![("offset", one_of(&["-5", "32767"]))])),
        ("x-any", value().boxed()),
    ])
}

/// What serde can't see and only the schema forbids: limits that are no limits of a type, and text where a field is a
/// plain `String`. The generated documents hold only the first, in one field.
fn only_the_schema_objects(diagnostics: &[crate::diagnostic::Diagnostic]) -> bool {
    diagnostics.iter().all(|diagnostic| {
        diagnostic.code == Code::OutOfRange && diagnostic.message.contains("`timeout_seconds` in `mcp`")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_passes_the_schema_is_decoded_and_nothing_else(text in document()) {
        let (sources, document) = read(&text);
        let diagnostics = check(&document, schema());
        let decoded = decode::<Config>(&document.root);
        let report = human(&diagnostics, &sources, Human::default());
        let passed = only_the_schema_objects(&diagnostics);
        prop_assert_eq!(passed, decoded.is_ok(), "{}\n{}\n{:?}", text, report, decoded);
        for diagnostic in &diagnostics {
            prop_assert!(!diagnostic.message.contains("does not fit"), "{}", report);
        }
    }

    #[test]
    fn renaming_any_document_is_safe(text in document(), old in "tool_filter|auth|call_timeout") {
        let text = text.replace("args", &old).replace("env", "tool_timeout_seconds");
        let (sources, mut document) = read(&text);
        let mut diagnostics = rename(&mut document, RENAMES);
        diagnostics.extend(check(&document, schema()));
        human(&diagnostics, &sources, Human::default());
    }
}
