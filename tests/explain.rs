//! `mcplan explain`, and that the page of all codes is the one that its sources give.
//!
//! `UPDATE=1 cargo test -p mcplan-executor --test explain` writes `schemas/diagnostics.md` anew.

use std::path::Path;
use std::process::{Command, Output};

use mcplan_compiler::code::Code;
use mcplan_compiler::explain;

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
        "error: there is no code 'unknwon-key'; did you mean 'unknown-key'? 'mcplan explain --list' shows all; as for a \
         tool: there is no config.yml and no mcplan.yml here; name a config with -c FILE\n"
    );
    // What is like no code can only be a tool.
    let far = mcplan(&["explain", "weather"]);
    assert_eq!(far.status.code(), Some(2));
    assert_eq!(text(&far.stderr), "error: there is no config.yml and no mcplan.yml here; name a config with -c FILE\n");
    let bracketed = mcplan(&["explain", "error[weather]"]);
    assert_eq!(bracketed.status.code(), Some(2));
    assert_eq!(
        text(&bracketed.stderr),
        "error: there is no code 'error[weather]'; 'mcplan explain --list' shows all\n"
    );
    assert_eq!(mcplan(&["explain"]).status.code(), Some(2), "neither a code nor --list");
}

#[test]
fn the_list_has_a_line_for_every_code() {
    let listed = text(&mcplan(&["explain", "--list"]).stdout);
    let words: Vec<_> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(words, Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>());
}

#[test]
fn everything_is_json_too() {
    let one: serde_json::Value =
        serde_json::from_slice(&mcplan(&["explain", "--json", "bad-template"]).stdout).expect("JSON");
    assert_eq!(one["severity"], "error");
    assert!(one["wrong"]["files"]["prompts/tools.j2"].as_str().is_some_and(|text| text.contains("tols")), "{one}");
    let all: serde_json::Value =
        serde_json::from_slice(&mcplan(&["explain", "--list", "--json"]).stdout).expect("JSON");
    assert_eq!(all.as_array().map(Vec::len), Some(Code::ALL.len()));
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
