//! Compiling whatever may be written: nothing panics, the same input gives the same answer, and what only looks
//! different means the same.

use mcplan_compiler::plan::Plan;
use mcplan_compiler::render::{self, Human};
use mcplan_compiler::source::MemorySources;
use mcplan_compiler::{Compilation, compile};
use proptest::prelude::*;

fn compiled(text: &str) -> Compilation {
    let files = MemorySources([("config.yml".to_owned(), text.as_bytes().to_vec())].into());
    compile("config.yml", &files).expect("it is there")
}

fn report(compilation: &Compilation) -> String {
    render::human(&compilation.diagnostics, &compilation.texts, Human { limit: usize::MAX, ..Human::default() })
}

fn plan(text: &str) -> String {
    let compilation = compiled(text);
    compilation.plan.as_ref().map(Plan::text).unwrap_or_else(|| panic!("{text}\n{}", report(&compilation)))
}

/// A tree as it is written.
#[derive(Clone, Debug)]
enum Written {
    Scalar(String),
    List(Vec<Written>),
    Map(Vec<(String, Written)>),
}

/// How a tree is laid out; none of it means anything.
#[derive(Clone, Copy, Debug)]
struct Layout {
    comments: bool,
    crlf: bool,
    /// Turns every map by this many keys.
    turn: usize,
    flow: bool,
}

impl Written {
    fn text(&self, layout: Layout) -> String {
        let mut out = if layout.comments { "# a comment\n\n".to_owned() } else { String::new() };
        self.block(0, layout, &mut out);
        if layout.crlf { out.replace('\n', "\r\n") } else { out }
    }

    fn block(&self, indent: usize, layout: Layout, out: &mut String) {
        let pad = " ".repeat(indent);
        let end = if layout.comments { "  # why\n" } else { "\n" };
        match self {
            Self::Scalar(text) => out.push_str(&format!(" {text}{end}")),
            Self::List(items) if items.is_empty() || layout.flow && indent > 2 => {
                out.push_str(&format!(" {}{end}", self.flow(layout)));
            }
            Self::Map(fields) if fields.is_empty() => out.push_str(&format!(" {{}}{end}")),
            Self::List(items) => {
                out.push_str(if indent == 0 { "" } else { end });
                for item in items {
                    out.push_str(&format!("{pad}-"));
                    item.block(indent + 2, layout, out);
                }
            }
            Self::Map(fields) => {
                out.push_str(if indent == 0 { "" } else { end });
                for (key, value) in turned(fields, layout.turn) {
                    out.push_str(&format!("{pad}{key}:"));
                    value.block(indent + 2, layout, out);
                }
            }
        }
    }

    fn flow(&self, layout: Layout) -> String {
        match self {
            Self::Scalar(text) => text.clone(),
            Self::List(items) => {
                format!("[{}]", items.iter().map(|item| item.flow(layout)).collect::<Vec<_>>().join(", "))
            }
            Self::Map(fields) => {
                let fields: Vec<_> =
                    turned(fields, layout.turn).map(|(key, value)| format!("{key}: {}", value.flow(layout))).collect();
                format!("{{{}}}", fields.join(", "))
            }
        }
    }
}

fn turned(fields: &[(String, Written)], turn: usize) -> impl Iterator<Item = &(String, Written)> {
    let start = if fields.is_empty() { 0 } else { turn % fields.len() };
    fields[start..].iter().chain(&fields[..start])
}

fn scalar(words: &'static [&'static str]) -> BoxedStrategy<Written> {
    prop::sample::select(words).prop_map(|word| Written::Scalar(word.to_owned())).boxed()
}

fn list(words: &'static [&'static str]) -> BoxedStrategy<Written> {
    prop::collection::vec(scalar(words), 0..4).prop_map(Written::List).boxed()
}

/// A map in which each key may be missing.
fn map(fields: Vec<(&'static str, BoxedStrategy<Written>)>) -> BoxedStrategy<Written> {
    let fields: Vec<_> = fields
        .into_iter()
        .map(|(key, value)| prop::option::of(value.prop_map(move |value| (key.to_owned(), value))))
        .collect();
    fields.prop_map(|fields| Written::Map(fields.into_iter().flatten().collect())).boxed()
}

const NUMBERS: &[&str] = &["0.5", "1", "20", "1e1", "86400"];
const TEXTS: &[&str] = &["plain", "\"${TOKEN}\"", "\"${A:-b}\"", "8080", "1.10", "yes", "'$$'", "\"two words\""];
const STRINGS: &[&str] = &["plain", "\"${TOKEN}\"", "yes", "'8080'", "\"two words\""];
const PATTERNS: &[&str] = &["read_*", "list", "\"[a-c]?\"", "a__*"];
const BOOLEANS: &[&str] = &["true", "false"];

fn tools() -> BoxedStrategy<Written> {
    map(vec![("include", list(PATTERNS)), ("exclude", list(PATTERNS)), ("always", list(PATTERNS))])
}

fn variables() -> BoxedStrategy<Written> {
    map(vec![("A_TOKEN", scalar(TEXTS)), ("PORT", scalar(TEXTS)), ("LEVEL", scalar(TEXTS))])
}

/// A server that compiles, with any of the fields that every transport takes.
fn server(name: String) -> impl Strategy<Value = Written> {
    let shared = map(vec![
        ("description", scalar(STRINGS)),
        ("defer", scalar(BOOLEANS)),
        ("enabled", scalar(BOOLEANS)),
        ("required", scalar(BOOLEANS)),
        ("tools", tools()),
        ("timeout_seconds", scalar(NUMBERS)),
        ("call_timeout", scalar(NUMBERS)),
        ("x-note", scalar(TEXTS)),
    ]);
    let local = map(vec![
        ("args", list(TEXTS)),
        ("env", variables()),
        ("cwd", scalar(STRINGS)),
        ("restart", scalar(&["never", "on_call", "on_failure"])),
    ]);
    let remote = map(vec![("headers", variables()), ("transport", scalar(&["http", "streamable_http"]))]);
    (shared, local, remote, any::<bool>()).prop_map(move |(shared, local, remote, is_local)| {
        let needed = if is_local { ("command", "npx") } else { ("url", "\"https://example.com/mcp\"") };
        let mut fields = vec![
            ("name".to_owned(), Written::Scalar(name.clone())),
            (needed.0.to_owned(), Written::Scalar(needed.1.to_owned())),
        ];
        for part in [Some(shared), is_local.then_some(local), (!is_local).then_some(remote)].into_iter().flatten() {
            if let Written::Map(more) = part {
                fields.extend(more);
            }
        }
        Written::Map(fields)
    })
}

fn servers(prefix: &'static str) -> impl Strategy<Value = Written> {
    (0..4_usize).prop_flat_map(move |count| {
        (0..count).map(|index| server(format!("{prefix}{index}"))).collect::<Vec<_>>().prop_map(Written::List)
    })
}

/// A config that compiles.
fn config() -> BoxedStrategy<Written> {
    let mcp = map(vec![
        ("enabled", scalar(BOOLEANS)),
        ("defer", scalar(BOOLEANS)),
        ("timeout_seconds", scalar(NUMBERS)),
        ("denylist", list(PATTERNS)),
        ("naming", scalar(&["mcp__{server}__{tool}", "\"{server}__{tool}\""])),
        ("servers", servers("b").boxed()),
    ]);
    let budget = scalar(&["{ chars: 100 }", "{ tokens: 5 }", "{ context: 1000, percent: 2.5 }"]);
    map(vec![
        ("version", scalar(&["1"])),
        ("mcp_servers", servers("a").boxed()),
        ("mcp_builtins", list(&["time"]).prop_map(first).boxed()),
        ("mcp", mcp),
        ("prompt", map(vec![("budget", budget), ("max_description_chars", scalar(&["20", "300"]))])),
        ("x-free", variables()),
    ])
}

/// At most one entry: a builtin twice is an error.
fn first(written: Written) -> Written {
    match written {
        Written::List(items) => Written::List(items.into_iter().take(1).collect()),
        other => other,
    }
}

fn layout() -> impl Strategy<Value = Layout> {
    (any::<bool>(), any::<bool>(), 0..7_usize, any::<bool>()).prop_map(|(comments, crlf, turn, flow)| Layout {
        comments,
        crlf,
        turn,
        flow,
    })
}

const PLAIN: Layout = Layout { comments: false, crlf: false, turn: 0, flow: false };

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn order_of_keys_comments_and_line_ends_mean_nothing(config in config(), layout in layout()) {
        let (plain, other) = (config.text(PLAIN), config.text(layout));
        prop_assume!(!plain.is_empty());
        prop_assert_eq!(plan(&plain), plan(&other), "{}\n---\n{}", plain, other);
    }

    #[test]
    fn a_plan_reads_its_own_text(config in config()) {
        let text = config.text(PLAIN);
        prop_assume!(!text.is_empty());
        let written = plan(&text);
        let read: Plan = serde_json::from_str(&written).expect("a plan reads its own text");
        prop_assert_eq!(read.text(), written);
    }

    /// One character too many, too few or in another place.
    #[test]
    fn a_damaged_config_is_reported_the_same_every_time(
        config in config(),
        layout in layout(),
        at in any::<prop::sample::Index>(),
        insert in "[\\[\\]{}:,#&*!|>'\"%@`$\t\n -]{0,2}",
        remove in 0..3_usize,
    ) {
        let mut text = config.text(layout);
        let start = at.index(text.len() + 1);
        let end = (start + remove).min(text.len());
        text.replace_range(start..end, &insert);
        let first = compiled(&text);
        let again = compiled(&text);
        prop_assert_eq!(&first.diagnostics, &again.diagnostics);
        prop_assert_eq!(report(&first), report(&again));
        prop_assert_eq!(first.plan.as_ref().map(Plan::text), again.plan.as_ref().map(Plan::text));
        let errors = first.diagnostics.iter().any(|diagnostic| diagnostic.is_error());
        prop_assert_eq!(first.plan.is_none(), errors, "{}\n{}", text, report(&first));
    }

    #[test]
    fn any_bytes_are_compiled_or_reported(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let files = MemorySources([("config.yml".to_owned(), bytes)].into());
        let compilation = compile("config.yml", &files).expect("it is there");
        report(&compilation);
    }
}

/// Wherever a secret is written, no message says it: messages end in logs.
#[test]
fn no_message_repeats_a_secret() {
    const SECRET: &str = "ghp_c4n4ry0123456789";
    for place in [
        "name: SECRET__\n    command: x",
        "name: a\n    command: npx x --token SECRET",
        "name: a\n    command: [npx, SECRET]",
        "name: a\n    command: SECRET\n    args: --token SECRET",
        "name: a\n    command: ' SECRET'",
        "name: a\n    command: x\n    args: SECRET",
        "name: a\n    command: x\n    args: [\"--token=SECRET\", SECRET, [SECRET]]",
        "name: a\n    command: x\n    env: [TOKEN=SECRET]",
        "name: a\n    command: x\n    env: SECRET",
        "name: a\n    command: x\n    env: { TOKEN: SECRET, TOKEN=SECRET: a, SECRET: b }",
        "name: a\n    command: x\n    env: { TOKEN: [SECRET], B: \"${A:SECRET}\", C: \"${SECRET\", D: \"${SECRET|x}\" }",
        "name: a\n    command: x\n    when: { env: [TOKEN=SECRET] }",
        "name: a\n    command: x\n    timeout_seconds: SECRET\n    enabled: SECRET\n    tools: SECRET",
        "name: a\n    command: x\n    SECRET: 1",
        "name: a\n    transport: SECRET\n    command: x",
        "name: a\n    url: https://user:SECRET@example.com:bad/mcp",
        "name: a\n    url: SECRET",
        "name: a\n    url: https://example.com/mcp?token=SECRET x",
        "name: a\n    url: http://example.com/mcp\n    headers: { Authorization: Bearer SECRET, \"X SECRET\": a }",
        "name: a\n    url: https://example.com/mcp\n    headers: Bearer SECRET\n    auth: Bearer SECRET",
        "command: npx\n    args: [SECRET]",
        "url: https://SECRET@example.com/mcp",
    ] {
        let text = format!("mcp_servers:\n  - {}\n", place.replace("SECRET", SECRET));
        let compilation = compiled(&text);
        assert!(!compilation.diagnostics.is_empty(), "nothing is said about\n{text}");
        for diagnostic in &compilation.diagnostics {
            let labels = std::iter::once(&diagnostic.primary).chain(&diagnostic.related);
            let said = labels.map(|label| &*label.text).chain([&*diagnostic.message]).chain(diagnostic.help.as_deref());
            for said in said {
                assert!(!said.contains(SECRET), "`{said}` is said about\n{text}");
            }
        }
    }
}

/// With anything quadratic on the way this doesn't come to an end.
#[test]
fn very_many_mistakes_are_all_reported() {
    let unknown: String = (0..20_000).map(|index| format!("k{index}: 1\n")).collect();
    assert_eq!(compiled(&format!("mcp_servers: []\n{unknown}")).diagnostics.len(), 20_000);
    let empty: String = (0..20_000).map(|index| format!("      K{index}:\n")).collect();
    let text = format!("mcp_servers:\n  - name: a\n    command: x\n    env:\n{empty}");
    assert_eq!(compiled(&text).diagnostics.len(), 20_000);
    let servers: String = (0..5_000).map(|_| "  - name: a\n    command: \"${\"\n    timeout: 1s\n").collect();
    let text = format!("mcp_servers:\n{servers}");
    assert_eq!(compiled(&text).diagnostics.len(), 3 * 5_000 - 1);
}
