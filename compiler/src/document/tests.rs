//! Every problem of a text, as the user sees it, and what a text without problems means.

use proptest::prelude::*;

use super::*;
use crate::code::Code;
use crate::render::{Human, human};

fn parsed(bytes: &[u8]) -> (SourceMap, Option<Document>, Vec<Diagnostic>) {
    let mut sources = SourceMap::default();
    let (_, document, diagnostics) = load(&mut sources, "config.yml", bytes);
    (sources, document, diagnostics)
}

/// The reports on several texts, each under its text.
fn look(texts: &[&str]) -> String {
    let mut out = String::new();
    for text in texts {
        let (sources, _, diagnostics) = parsed(text.as_bytes());
        out += &format!("# {text:?}\n{}", human(&diagnostics, &sources, Human::default()));
    }
    out
}

macro_rules! snapshot {
    ($shown:expr) => {
        insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!($shown) })
    };
}

fn codes(text: &str) -> Vec<Code> {
    parsed(text.as_bytes()).2.iter().map(|diagnostic| diagnostic.code).collect()
}

/// The document of a text without problems.
fn read_clean(text: &str) -> Document {
    let (sources, document, diagnostics) = parsed(text.as_bytes());
    assert!(diagnostics.is_empty(), "{}", human(&diagnostics, &sources, Human::default()));
    document.expect("a text without problems has a document")
}

/// A value in one line, written text and kind of each scalar kept.
fn flat(node: &Node) -> String {
    match &node.kind {
        Kind::Null => "null".to_owned(),
        Kind::Bool(_, text) => format!("bool {text}"),
        Kind::Number(text) => format!("number {text}"),
        Kind::String(text) => format!("{text:?}"),
        Kind::List(items) => format!("[{}]", items.iter().map(flat).collect::<Vec<_>>().join(", ")),
        Kind::Map(entries) => {
            let entries: Vec<_> =
                entries.iter().map(|entry| format!("{}: {}", entry.key, flat(&entry.value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Kind::Reported => "reported".to_owned(),
    }
}

fn text_of(text: &str, at: Span) -> &str {
    &text[at.range()]
}

#[test]
fn tabs() {
    snapshot!(look(&[
        "mcp:\n\tenabled: true\n",
        "mcp:\n  enabled: true\n\tdefer: true\n",
        "mcp: b\n\tc\n",
        "text: |\n\tx\n",
    ]));
    assert_eq!(flat(&read_clean("a:\t1\n").root), "{a: number 1}");
}

#[test]
fn indentation() {
    snapshot!(look(&[
        "mcp:\n  enabled: true\n defer: true\n",
        "mcp:\n  enabled: true\n   defer: true\n",
        "mcp:\n    enabled: true\n  defer: true\nversion: 1\n",
        "mcp_servers:\n- name: a\n  command: x\n - name: b\n",
        "mcp_servers:\n  - name: x\n  args: [a, b]\n",
        "- a\nversion: 1\n",
        "version: 1\n- a\n",
        "args: - b\n",
        "a: b\n  c\n  d: e\n",
        "a: x # why\n  y\n",
        "text: |\n   x\n  y\n z\n",
        "mcp_servers\n  - name: a\n",
        "mcp:\n  reconnect\n    attempts: 3\n",
    ]));
}

#[test]
fn colons_and_dashes() {
    snapshot!(look(&[
        "description: files: all of them\n",
        "mcp:\n  timeout_seconds:5\n  enabled: true\n",
        "version:1\nmcp: {}\n",
        "a: x\nb\nc: 1\n",
        "-a\n-b: 2\nc: 1\n",
        "mcp_servers:\n  -name: a\n   command: x\n",
        "x: ? y\n",
    ]));
}

#[test]
fn quotes() {
    snapshot!(look(&[
        "a: \"abc\nb: 2\n",
        "a: 'abc\nb: 2\n",
        "a: \"x\n---\nb\"\n",
        "a: \"x\nb: \"y\"\n",
        "a: 'it's'\n",
        "a: \"say \"hi\"\"\n",
        "a: \"x\" y\n",
        "a: [\"x\" \"y\"]\n",
        "- name: \"a\", command: x\n",
        "- name: \"a\",\n  command: x\n",
        "{\"a\": {\"args\": [\"x\" \"y\"]}}\n",
        "a: \"C:\\path\"\n",
        "a: \"\\u12\"\n",
        "a: \"\\ud800\"\n",
        "a: \"\\ud83d\\ude00 \\ude00\"\n",
        "a: \"\\ud83d\\ude00 \\q\"\n",
        "a: \"C:\\Users\\x\"\n",
    ]));
}

#[test]
fn brackets() {
    snapshot!(look(&[
        "args: [a, b\nenv: {}\n",
        "env: {A: 1\nargs: 3\n",
        "mcp_servers:\n  - name: x\n    args: [a, b\n    env: {}\n",
        "a: [\n",
        "a: [1}\n",
        "a: {x: [1,\n  2}\n",
        "a: ]\n",
        "a: {b: c}}\n",
        "a: [a, b] c\n",
        "a: [b: c d: e]\n",
        "args: [-y, ${X}]\n",
        "args: [--root=${ROOT:-/a}/b, x]\n",
        "headers: {Authorization: Bearer ${TOKEN}, X: y}\n",
        "env: {A: ${X}}\n",
        "{\n  \"a\": [\n    {\"b\": 1}\n    {\"b\": 2}\n  ]\n}\n",
        "{\n  \"a\": 1,\n  \"b\": {\"c\": \"x\"\n    \"d\": []}\n}\n",
        "{\n  \"a\": [\n    {\"b\": 1}\n  ] // why\n}\n",
        "{\n  \"a\": \"x\" /* why */\n}\n",
        "a: \"x\" // why\n",
    ]));
}

#[test]
fn signs_at_the_start_of_a_value() {
    snapshot!(look(&[
        "a: @scope/package\n",
        "args: [-y, @scope/package, x]\n",
        "a: `date`\n",
        "a: %TEMP%\n",
        "include: *.txt\n",
        "include: [*, read_*]\n",
        "include:\n  - *\n",
        "include: [read_*, git_[!c]*, x]\n",
        "a: { include: [[ab]*] }\n",
        "password: &abc\n",
        "password: & b\n",
        "a: , b\n",
        "a: {{ b }}\n",
    ]));
}

#[test]
fn directives_tags_and_blocks() {
    snapshot!(look(&[
        "%YAML 3.0\n---\na: 1\n",
        "%foo\n",
        "a: 1\n%foo\n",
        "token: !env TOKEN\n",
        "servers: !include servers.yml\n",
        "a: !foo {b: c}\n",
        "a: !e!foo b\n",
        "a: !<foo b\n",
        "a: !!int x\n",
        "a: |x\n  x\n",
        "a: |0\n  x\n",
    ]));
}

#[test]
fn documents_and_strange_characters() {
    snapshot!(look(&[
        "",
        "# only a comment\n",
        "---\n",
        "a: 1\n---\nb: 2\n",
        "a: 1\n...\nb\n",
        "a: \u{7}x\n",
        "a\0b: 1\n",
        "a: \u{feff}1\n",
    ]));
}

#[test]
fn keys_anchors_and_merges() {
    snapshot!(look(&[
        "command: a\nargs: []\ncommand: b\ncommand: c\n",
        "a: &timeouts 1\nb: *timeout\n",
        "a: &x [*x]\n",
        "<<: 1\n",
        "a: &a {x: 1}\nb:\n  <<: *a\n  <<: *a\n",
        "[a, b]: c\n",
        "{a: b}: c\n",
        ": x\n",
    ]));
}

#[test]
fn encodings_and_size() {
    let mut out = String::new();
    for bytes in [&b"name: caf\xe9\nb: 1\n"[..], b"\xff\xfea\0:\0", b"\xef\xbb\xbfa: \xc3\x28\n"] {
        let (sources, document, diagnostics) = parsed(bytes);
        assert!(document.is_none());
        out += &human(&diagnostics, &sources, Human::default());
    }
    let (sources, _, diagnostics) = parsed(&vec![b'#'; MAX_BYTES + 1]);
    out += &human(&diagnostics, &sources, Human::default());
    snapshot!(out);
    let largest = format!("a: 1\n{}", "#".repeat(MAX_BYTES - 5));
    assert_eq!(codes(&largest), []);
}

#[test]
fn a_syntax_error_is_one_diagnostic_after_what_was_found_before() {
    assert_eq!(codes("a: 1\na: 2\nb: *no\nc: ]\nd: [\n"), [Code::DuplicateKey, Code::UnknownAlias, Code::Syntax]);
}

#[test]
fn scalars_keep_what_was_written() {
    for (text, value) in [
        ("8080", "number 8080"),
        ("1.10", "number 1.10"),
        ("0x1F", "number 0x1F"),
        ("yes", "\"yes\""),
        ("off", "\"off\""),
        ("017", "\"017\""),
        ("1_000", "\"1_000\""),
        (".inf", "\".inf\""),
        ("1e999", "\"1e999\""),
        ("True", "bool True"),
        ("\"true\"", "\"true\""),
        ("'8080'", "\"8080\""),
        ("~", "null"),
        ("", "null"),
        ("!!str 8080", "\"8080\""),
        ("!!str", "\"\""),
        ("!!int 8080", "number 8080"),
        ("! 8080", "\"8080\""),
        ("${X}", "\"${X}\""),
        ("http://localhost:8080/#x", "\"http://localhost:8080/#x\""),
        ("2026-08-31", "\"2026-08-31\""),
    ] {
        assert_eq!(flat(&read_clean(&format!("a: {text}\n")).root), format!("{{a: {value}}}"), "{text}");
    }
}

#[test]
fn keys_are_the_written_text() {
    assert_eq!(
        flat(&read_clean("8080: a\ntrue: b\n\"x\": c\n? y\n: d\n").root),
        "{8080: \"a\", true: \"b\", x: \"c\", y: \"d\"}"
    );
}

#[test]
fn merge_keys_give_way_to_explicit_keys_and_to_earlier_maps() {
    let text = "a: &a {x: 1, y: 1}\nb: &b {x: 2, y: 2, z: 2}\nc:\n  <<: [*a, *b]\n  y: 3\n";
    let document = read_clean(text);
    let merged = document.root.get("c").expect("c");
    assert_eq!(flat(merged), "{y: number 3, x: number 1, z: number 2}");
    let entry = merged.entry("x").expect("x");
    assert_eq!(text_of(text, entry.key_at), "x", "a merged key points at where it is written");
    assert_eq!(entry.value.via.map(|alias| text_of(text, alias)), Some("*a"));
    assert_eq!(flat(&read_clean("\"<<\": {x: 1}\n").root), "{<<: {x: number 1}}", "in quotes it is a key");
    assert_eq!(flat(&read_clean("a:\n  <<: {x: 1}\n  y: 2\n").root), "{a: {y: number 2, x: number 1}}");
}

#[test]
fn an_alias_points_at_itself_and_its_inside_at_the_anchor() {
    let text = "a: &name\n  x: 1\nb: *name\n";
    let document = read_clean(text);
    let alias = document.root.get("b").expect("b");
    assert_eq!(text_of(text, alias.at), "*name");
    let inner = alias.get("x").expect("x");
    assert_eq!((inner.at.start, inner.via), (14, Some(alias.at)));
    assert_eq!(document.root.get("a").and_then(|a| a.get("x")).map(|x| x.via), Some(None));
}

#[test]
fn spans_end_with_the_last_entry() {
    let text = "a:\n  b: 1\n  c:\n    - x\n    - y z   # why\n\n# end\nd: [1, 2 ]\ne: |\n  text\n\nf:\n  g:\n";
    let root = read_clean(text).root;
    let written = |key: &str| text_of(text, root.get(key).expect("a key of the text").at);
    assert_eq!(written("a"), "b: 1\n  c:\n    - x\n    - y z");
    assert_eq!(written("d"), "[1, 2 ]");
    assert_eq!(written("e"), "text");
    assert_eq!(written("f"), "g");
}

#[test]
fn crlf_bom_and_json_read_like_anything_else() {
    assert_eq!(flat(&read_clean("a: 1\r\nb:\r\n  - x\r\n").root), "{a: number 1, b: [\"x\"]}");
    assert_eq!(flat(&read_clean("\u{feff}a: 1\n").root), "{a: number 1}");
    let json = r#"{"a": [1, 2.50, true, null, "x\n\u00e9\/"], "b":{"c":"d"}}"#;
    assert_eq!(
        flat(&read_clean(json).root),
        "{a: [number 1, number 2.50, bool true, null, \"x\\né/\"], b: {c: \"d\"}}"
    );
}

#[test]
fn a_place_inside_of_a_scalar_is_exact_where_it_can_be() {
    let text = concat!(
        "plain: say ${A}\n",
        "double: \"say ${A}\"\n",
        "single: 'say ${A}'\n",
        "block: |\n    first\n      say ${A}\n    last\n",
        "escaped: \"\\tsay ${A}\"\n",
        "folded: >\n  one\n  say ${A}\n",
    );
    let root = read_clean(text).root;
    read_clean("a: >-\n  \"é\nb: |\n  'é\n");
    for (key, exact) in
        [("plain", true), ("double", true), ("single", true), ("block", true), ("escaped", false), ("folded", false)]
    {
        let node = root.get(key).expect("a key of the text");
        let start = node.text().and_then(|text| text.find("${A}")).expect("a reference");
        let place = node.place(start..start + 4);
        if exact {
            assert_eq!(text_of(text, place), "${A}", "{key}");
        } else {
            assert_eq!(place, node.at, "{key}");
        }
    }
}

#[test]
fn nesting_ends_at_its_limit() {
    for (open, close) in [("[", "]"), ("{a: ", "}"), ("- ", "")] {
        let nested = |depth: usize| format!("{}x{}", open.repeat(depth), close.repeat(depth));
        assert_eq!(codes(&nested(MAX_DEPTH)), [], "{open}");
        assert_eq!(codes(&nested(MAX_DEPTH + 1)), [Code::TooDeep], "{open}");
        assert_eq!(codes(&open.repeat(200_000)), [Code::TooDeep], "{open}");
    }
    let block: String = (0..=MAX_DEPTH).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
    assert_eq!(codes(&format!("{block}{}x", " ".repeat(MAX_DEPTH + 1))), [Code::TooDeep]);
    let through_alias = format!("a: &a {}x{}\nb: [[*a]]\n", "[".repeat(62), "]".repeat(62));
    assert_eq!(codes(&through_alias), [Code::TooDeep]);
}

#[test]
fn an_alias_bomb_is_weighed_and_never_built() {
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..30 {
        let uses = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{uses}]\n");
    }
    let (_, document, diagnostics) = parsed(bomb.as_bytes());
    assert!(document.is_none());
    assert_eq!(diagnostics.iter().map(|diagnostic| diagnostic.code).collect::<Vec<_>>(), [Code::AliasBomb]);
    let long = format!("a: &a \"{}\"\nb: [{}]\n", "x".repeat(1 << 20), vec!["*a"; 100].join(", "));
    assert_eq!(codes(&long), [Code::AliasBomb], "few values of much text count too");
    let fair = format!("a: &a {{x: 1, y: 2}}\nb: [{}]\n", vec!["*a"; 10_000].join(", "));
    assert_eq!(codes(&fair), []);
}

/// Every span lies in the text and inside of the node around it, unless an alias brought it.
fn check_spans(text: &str, node: &Node) -> Result<(), TestCaseError> {
    prop_assert!(text.get(node.at.range()).is_some(), "{:?}", node.at);
    prop_assert!(text.get(node.head().range()).is_some(), "{:?}", node.head());
    if let (Some(value), scalar::Inner::From(_) | scalar::Inner::Lines(_)) = (node.text(), &node.inner) {
        for (start, c) in value.char_indices().filter(|(_, c)| *c != '\n') {
            let place = node.place(start..start + c.len_utf8());
            prop_assert_eq!(text.get(place.range()), Some(&value[start..start + c.len_utf8()]));
        }
    }
    for item in node.items() {
        check_spans(text, item)?;
    }
    for entry in node.entries() {
        prop_assert!(text.get(entry.key_at.range()).is_some());
        check_spans(text, &entry.value)?;
    }
    Ok(())
}

fn check_any(bytes: &[u8]) -> Result<(), TestCaseError> {
    let (sources, document, diagnostics) = parsed(bytes);
    let (_, _, again) = parsed(bytes);
    prop_assert_eq!(&diagnostics, &again, "the same bytes give the same report");
    prop_assert!(document.is_some() || !diagnostics.is_empty(), "no document without a reason");
    let mut places: Vec<_> =
        diagnostics.iter().filter(|told| told.code == Code::Syntax).map(|told| told.primary.at).collect();
    places.dedup();
    let told = diagnostics.iter().filter(|told| told.code == Code::Syntax).count();
    prop_assert_eq!(places.len(), told, "one mistake is told once: {:?}", diagnostics);
    let text = &sources.get(SourceId(0)).text;
    for diagnostic in &diagnostics {
        prop_assert!(diagnostic.code != Code::Internal, "{}", diagnostic.message);
        prop_assert!(text.get(diagnostic.primary.at.range()).is_some(), "{:?}", diagnostic);
        prop_assert!(!diagnostic.message.contains('\n'));
        for related in &diagnostic.related {
            prop_assert!(text.get(related.at.range()).is_some(), "{:?}", diagnostic);
        }
    }
    human(&diagnostics, &sources, Human::default());
    crate::render::json(&diagnostics, &sources);
    if let Some(document) = &document {
        check_spans(text, &document.root)?;
    }
    Ok(())
}

/// Pieces that mean something to YAML, put together without sense.
fn yamlish() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a",
        "b: ",
        "- ",
        "? ",
        ": ",
        "\n",
        "\n  ",
        "\n    ",
        "\r\n",
        "\t",
        " ",
        "[",
        "]",
        "{",
        "}",
        ",",
        "\"",
        "'",
        "|\n",
        ">-\n",
        "&x ",
        "*x",
        "*y",
        "<<: ",
        "!!str ",
        "!foo ",
        "!",
        "#",
        " # c\n",
        "---\n",
        "...\n",
        "%YAML 1.2\n",
        "%",
        "@",
        "`",
        "1.5",
        "true",
        "~",
        "é",
        "中",
        "\u{feff}",
        "\\",
        "\\x4",
        "\\u12",
        "$",
        "${X}",
        "x:y",
        "\u{85}",
        "\u{2028}",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn any_bytes_are_read_or_reported(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check_any(&bytes)?;
    }

    #[test]
    fn any_text_is_read_or_reported(text in "\\PC{0,200}") {
        check_any(text.as_bytes())?;
    }

    #[test]
    fn any_heap_of_yaml_signs_is_read_or_reported(text in yamlish()) {
        check_any(text.as_bytes())?;
    }

    /// What any JSON writer writes is read back as it was.
    #[test]
    fn json_means_the_same_here(value in json_value()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).expect("JSON is written")] {
            let document = read_clean(&text);
            prop_assert!(same(&document.root, &value), "{text}");
        }
    }
}

fn json_value() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(|float: f64| Value::from(float)),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    let inner = leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map("[a-z<~ 0-9]{1,8}", inner, 0..6)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    });
    prop::collection::btree_map("[a-z]{1,8}", inner, 1..6)
        .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into())
}

fn same(node: &Node, value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (&node.kind, value) {
        (Kind::Bool(truth, _), Value::Bool(other)) => truth == other,
        (Kind::Number(text), Value::Number(number)) => match number_of(text) {
            Some(Number::Whole(whole)) => number.as_i64().map(i128::from) == Some(whole),
            Some(Number::Float(float)) => number.as_f64() == Some(float),
            None => false,
        },
        (Kind::String(text), Value::String(other)) => text == other,
        (Kind::List(items), Value::Array(values)) => {
            items.len() == values.len() && items.iter().zip(values).all(|(item, value)| same(item, value))
        }
        (Kind::Map(entries), Value::Object(map)) => {
            entries.len() == map.len()
                && entries.iter().all(|entry| map.get(&entry.key).is_some_and(|value| same(&entry.value, value)))
        }
        _ => false,
    }
}
