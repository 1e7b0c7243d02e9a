//! `import` on one file of each kind that clients write: `tests/import/KIND/input.*`, with everything that comes of it
//! beside it in `expected.snap`.

#![expect(clippy::unwrap_used, reason = "an integration test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use mcplan_compiler::code::Code;
use mcplan_compiler::compile;
use mcplan_compiler::edit::{List, add};
use mcplan_compiler::import::{Imported, Note, NoteKind, import};
use mcplan_compiler::source::MemorySources;
use proptest::prelude::*;

fn note(out: &mut String, note: &Note) {
    let kind = match &note.kind {
        NoteKind::Changed => "changed".to_owned(),
        NoteKind::Set(name) => format!("set {name}"),
        NoteKind::Lost => "lost".to_owned(),
    };
    let _ = writeln!(out, "  {}: {kind}: {}", note.line, note.text);
}

/// Everything that came of a file.
fn show(imported: &Imported) -> String {
    let mut out = format!("places: {}\n", imported.places.join(", "));
    imported.notes.iter().for_each(|one| note(&mut out, one));
    for server in &imported.servers {
        let _ = writeln!(out, "\n{} (line {})", server.name, server.line);
        server.notes.iter().for_each(|one| note(&mut out, one));
        out.push_str(&add("", List::Servers, &server.entry).unwrap());
    }
    if !imported.problems.is_empty() {
        out.push_str("\nproblems\n");
    }
    for problem in &imported.problems {
        let _ = writeln!(out, "  {}: {}", problem.line, problem.text);
    }
    out
}

/// All entries in one config.
fn config(imported: &Imported) -> String {
    let add = |text: String, entry| add(&text, List::Servers, entry).unwrap();
    imported.servers.iter().map(|server| &server.entry).fold(String::new(), add)
}

/// The errors of a text that is compiled as a config.
fn errors(text: &str) -> Vec<(Code, String)> {
    let files = MemorySources(BTreeMap::from([("config.yml".to_owned(), text.as_bytes().to_vec())]));
    let found = compile("config.yml", &files).unwrap().diagnostics;
    found.into_iter().filter(|problem| problem.is_error()).map(|problem| (problem.code, problem.message)).collect()
}

/// That what was imported is a config.
fn check_compiles(text: &str) {
    assert_eq!(errors(text), [], "{text}");
}

/// What a value of the client's may be wrong in, which is said when the entry is put into the config.
const ITS_OWN: [Code; 6] =
    [Code::BadUrl, Code::BadHeader, Code::BadVariableName, Code::BadCommand, Code::BadPattern, Code::MissingKey];

/// Everything that an import says.
fn said(imported: &Imported) -> Vec<(usize, &str)> {
    let notes = imported.servers.iter().flat_map(|server| &server.notes).chain(&imported.notes);
    let notes = notes.map(|note| (note.line, &*note.text));
    notes.chain(imported.problems.iter().map(|problem| (problem.line, &*problem.text))).collect()
}

/// The files of `tests/import`, by the kind of each.
fn inputs() -> Vec<(PathBuf, String)> {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/import");
    let mut folders: Vec<_> = std::fs::read_dir(cases).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let input = |folder: PathBuf| {
        let mut files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let input = files.find(|path| path.file_stem().is_some_and(|stem| stem == "input")).unwrap();
        (folder, std::fs::read_to_string(input).unwrap())
    };
    folders.into_iter().map(input).collect()
}

#[test]
fn one_file_of_each_kind() {
    let mut seen = 0;
    for (folder, text) in inputs() {
        let imported = import(&text, "input", None);
        let shown = show(&imported);
        assert!(!shown.contains("-secret"), "a secret came through: {shown}");
        if !imported.servers.is_empty() {
            check_compiles(&config(&imported));
        }
        insta::with_settings!({ snapshot_path => &folder, prepend_module_to_snapshot => false, omit_expression => true }, {
            insta::assert_snapshot!("expected", shown);
        });
        seen += 1;
    }
    assert!(seen > 30, "only {seen} cases");
}

#[test]
fn a_name_can_be_given() {
    let one = r#"{ "command": "npx", "args": ["-y", "x@1"] }"#;
    assert_eq!(import(one, "stdin", Some("mine")).servers[0].name.as_str(), "mine");
    let named = r#"{ "mcpServers": { "theirs": { "command": "x" } } }"#;
    assert_eq!(import(named, "stdin", Some("mine")).servers[0].name.as_str(), "mine");
    let two = r#"{ "a": { "command": "x" }, "b": { "command": "y" } }"#;
    assert!(import(two, "stdin", Some("mine")).problems[0].text.contains("for one server"));
    let nameless = import(r#"{ "command": "npx", "args": ["-y"] }"#, "stdin", None);
    assert!(nameless.problems[0].text.contains("--name"), "{:?}", nameless.problems);
}

proptest! {
    #[test]
    fn any_text_is_read(text in any::<String>(), json in "[\\[\\]{}\",:a-z0-9/*$% \n-]{0,60}") {
        for text in [text, json.clone(), format!("{{\"mcpServers\": {{\"a\": {json}"), format!("mcp_servers:\n  - {json}")] {
            let imported = import(&text, "any", None);
            prop_assert!(!imported.servers.is_empty() || !imported.problems.is_empty());
        }
    }

    #[test]
    fn any_bytes_are_read(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        import(&String::from_utf8_lossy(&bytes), "any", None);
    }

    /// A few characters too many, too few or in another place of a real file.
    #[test]
    fn a_damaged_file_is_read_or_said_the_same_every_time(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        insert in "[\\[\\]{}:,=#&*!|>'\"$\\\\\t\n\u{1b}\u{7}é -]{0,3}",
        remove in 0..6_usize,
        name in prop::option::of(Just("mine")),
    ) {
        let (folder, mut text) = which.get(&inputs()).clone();
        let ours = folder.ends_with("own-config");
        let places: Vec<_> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
        let start = at.index(places.len());
        let end = (start + remove).min(places.len() - 1);
        text.replace_range(places[start]..places[end], &insert);
        let imported = import(&text, "input", name);
        prop_assert_eq!(&imported, &import(&text, "input", name));
        prop_assert!(!imported.servers.is_empty() || !imported.problems.is_empty(), "{}", text);
        for (line, said) in said(&imported) {
            prop_assert!((1..=text.matches('\n').count() + 1).contains(&line), "{}: {}\n{}", line, said, text);
            prop_assert!(!said.contains(char::is_control), "{:?}\n{}", said, text);
        }
        let config = config(&imported);
        if !imported.servers.is_empty() {
            let errors = errors(&config);
            for (code, message) in &errors {
                prop_assert!(ours || ITS_OWN.contains(code), "{}: {}\n{}\n---\n{}", code, message, text, config);
            }
            let again = import(&config, "config.yml", None);
            let entries = |of: &Imported| of.servers.iter().map(|server| server.entry.clone()).collect::<Vec<_>>();
            if errors.is_empty() {
                prop_assert_eq!(entries(&again), entries(&imported), "{}", config);
            }
        }
    }

    #[test]
    fn what_comes_in_is_a_config_and_comes_in_again(
        name in "\\PC{1,12}",
        command in "[a-z./ \\\\-]{1,12}",
        args in prop::collection::vec("[a-zA-Z0-9$%{}:=/. <>-]{0,16}", 0..4),
        env in prop::collection::btree_map("[A-Z_]{1,8}", "\\PC{0,16}", 0..3),
    ) {
        let text = serde_json::json!({ "mcpServers": { name: { "command": command, "args": args, "env": env } } });
        let imported = import(&text.to_string(), "any", None);
        if let Some(server) = imported.servers.first() {
            let text = config(&imported);
            let again = import(&text, "config.yml", None);
            prop_assert_eq!(&again.problems, &[]);
            prop_assert_eq!(&again.servers[0].entry, &server.entry, "{}", text);
            check_compiles(&text);
        }
    }
}
