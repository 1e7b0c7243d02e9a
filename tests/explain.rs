//! `mcplan explain`, and that the page of all codes is the one that its sources give.
//!
//! `UPDATE=1 cargo test -p mcplan-executor --test explain` writes `schemas/diagnostics.md` anew.

use std::path::Path;
use std::process::{Command, Output};

use mcplan_compiler::code::Code;
use mcplan_compiler::explain;
use mcplan_compiler::lock::{Notice, Rule};

fn mcplan(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mcplan")).args(arguments).output().expect("mcplan runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

#[test]
fn the_published_page_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/diagnostics.md");
    let now = explain::page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder can be made");
        return std::fs::write(&path, now).expect("the page can be written");
    }
    let committed = std::fs::read_to_string(&path).expect("the page is there").replace("\r\n", "\n");
    let difference = similar::TextDiff::from_lines(&committed, &now).unified_diff().to_string();
    assert_eq!(committed, now, "run with UPDATE=1\n{difference}");
}

#[test]
fn every_code_is_explained_with_both_examples() {
    for code in Code::ALL {
        let output = mcplan(&["explain", code.as_str()]);
        assert!(output.status.success() && output.stderr.is_empty(), "{code}: {output:?}");
        let shown = text(&output.stdout);
        assert!(shown.starts_with(&format!("{}[{code}]: ", code.severity().word())), "{shown}");
        let examples = !explain::WITHOUT_EXAMPLE.contains(code);
        assert_eq!(shown.contains("\nWrong:\n\n    ") && shown.contains("\nRight:\n\n    "), examples, "{shown}");
    }
}

#[test]
fn a_code_may_be_given_as_a_report_shows_it() {
    let plain = mcplan(&["explain", "unknown-key"]).stdout;
    for spelling in ["error[unknown-key]", "error[unknown-key]:", "[unknown-key]", "UNKNOWN_KEY"] {
        assert_eq!(mcplan(&["explain", spelling]).stdout, plain, "{spelling}");
    }
}

#[test]
fn an_unknown_code_names_the_closest_one() {
    let output = mcplan(&["explain", "unknwon-key"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(
        text(&output.stderr),
        "error: there is no word 'unknwon-key'; did you mean 'unknown-key'? 'mcplan explain --list' shows all; as for a \
         tool: there is no config.yml and no mcplan.yml here; name a config with -c FILE, or make one with 'mcplan init'\n"
    );
    // What is like no code can only be a tool.
    let far = mcplan(&["explain", "weather"]);
    assert_eq!(far.status.code(), Some(2));
    assert_eq!(
        text(&far.stderr),
        "error: there is no config.yml and no mcplan.yml here; name a config with -c FILE, or make one with 'mcplan init'\n"
    );
    let bracketed = mcplan(&["explain", "error[weather]"]);
    assert_eq!(bracketed.status.code(), Some(2));
    assert_eq!(
        text(&bracketed.stderr),
        "error: there is no word 'error[weather]'; 'mcplan explain --list' shows all\n"
    );
    assert_eq!(mcplan(&["explain"]).status.code(), Some(2), "neither a code nor --list");
}

#[test]
fn the_list_has_a_line_for_every_word() {
    let listed = text(&mcplan(&["explain", "--list"]).stdout);
    let words: Vec<_> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(words, all_words());
}

/// Every word that reports, logs and differences use.
fn all_words() -> Vec<&'static str> {
    let codes = Code::ALL.iter().map(|code| code.as_str());
    let rules = Rule::ALL.iter().map(|rule| rule.as_str());
    codes.chain(rules).chain(Notice::ALL.iter().map(|notice| notice.as_str())).collect()
}

/// Whoever reads a log or a difference has nothing but the word.
#[test]
fn the_words_of_drift_and_of_the_lock_are_explained_as_the_page_has_them() {
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/drift.md")).expect("the page");
    for rule in Rule::ALL {
        let shown = text(&mcplan(&["explain", rule.as_str()]).stdout);
        let head = format!("{}[{rule}]: {}", rule.class().as_str(), rule.meaning());
        assert!(shown.contains(&head) && shown.contains("by default `"), "{shown}");
        assert!(page.contains(&format!("| `{rule}` | {} | {} |", rule.class().as_str(), rule.meaning())), "{rule}");
    }
    for notice in Notice::ALL {
        let shown = text(&mcplan(&["explain", notice.as_str()]).stdout);
        let head = format!("warning[{notice}]: {}\n\n{}\n", notice.summary(), notice.meaning());
        assert_eq!(shown, head);
        assert!(page.contains(&format!("| `{notice}` | {} | {} |", notice.summary(), notice.meaning())), "{notice}");
    }
    let misspelt = text(&mcplan(&["explain", "frase-gained"]).stderr);
    assert!(misspelt.contains("did you mean 'phrase-gained'?"), "{misspelt}");
    let misspelt = text(&mcplan(&["explain", "lock_stail"]).stderr);
    assert!(misspelt.contains("did you mean 'lock-stale'?"), "{misspelt}");
}

/// One word is both: a code of a config, and a kind of change.
#[test]
fn a_word_of_two_meanings_is_explained_as_both() {
    let shown = text(&mcplan(&["explain", "hidden-characters"]).stdout);
    assert!(shown.starts_with("warning[hidden-characters]: "), "{shown}");
    assert!(shown.contains("\nsuspicious[hidden-characters]: "), "{shown}");
    let output = mcplan(&["explain", "--json", "hidden-characters"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&output).expect("JSON");
    assert_eq!((&json["code"], &json["also"][0]["rule"]), (&"hidden-characters".into(), &"hidden-characters".into()));
    assert_eq!(json["also"][0]["default_reaction"], "quarantine");
}

#[test]
fn everything_is_json_too() {
    let one: serde_json::Value =
        serde_json::from_slice(&mcplan(&["explain", "--json", "bad-template"]).stdout).expect("JSON");
    assert_eq!(one["severity"], "error");
    assert!(one["wrong"]["files"]["prompts/tools.j2"].as_str().is_some_and(|text| text.contains("tols")), "{one}");
    let all: serde_json::Value =
        serde_json::from_slice(&mcplan(&["explain", "--list", "--json"]).stdout).expect("JSON");
    assert_eq!(all.as_array().map(Vec::len), Some(all_words().len()));
}

/// A file that no code takes in would be forgotten.
#[test]
fn every_text_belongs_to_a_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../compiler/src/explain");
    for file in std::fs::read_dir(folder).expect("the folder is there") {
        let name = file.expect("an entry").file_name().into_string().expect("UTF-8");
        let code = name.strip_suffix(".md").and_then(explain::find);
        assert!(name == "mod.rs" || code.is_some(), "{name} explains no code");
    }
}
