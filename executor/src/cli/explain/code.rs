//! What a diagnostic means, an example that has the problem, and one that hasn't.

use std::fmt::Write as _;

use mcplan_compiler::code::Code;
use mcplan_compiler::diagnostic::closest;
use mcplan_compiler::explain::{self, Explanation, Files};
use serde_json::{Value, json};

use super::print;
use crate::cli::report;

/// Explains one code.
pub(super) fn explain(code: Code, as_data: bool) {
    match as_data {
        true => print(&as_json(&explain::explain(code))),
        false => report::result(explain::explain(code).text()),
    }
}

/// Lists every code with a line about it.
pub(super) fn list(as_data: bool) {
    match as_data {
        true => print(&Code::ALL.iter().map(|code| as_json(&explain::explain(*code))).collect()),
        false => report::result(lines()),
    }
}

/// The code as it stands in a report, with or without what is around it there: `error[unknown-key]`.
pub(super) fn find(written: &str) -> Option<Code> {
    explain::find(&word(written))
}

/// The code that was probably meant.
pub(super) fn close(written: &str) -> Option<&'static str> {
    closest(&word(written), Code::ALL.iter().map(|code| code.as_str()))
}

fn word(written: &str) -> String {
    let word = written.split_once('[').map_or(written, |(_, rest)| rest).trim_end_matches([']', ':']);
    word.trim().to_ascii_lowercase().replace('_', "-")
}

fn lines() -> String {
    let width = Code::ALL.iter().map(|code| code.as_str().len()).max().unwrap_or_default();
    Code::ALL.iter().fold(String::new(), |mut out, code| {
        let _ = writeln!(out, "{:width$}  {:7}  {}", code.as_str(), code.severity().word(), code.summary());
        out
    })
}

fn as_json(explanation: &Explanation) -> Value {
    let code = explanation.code;
    let mut out = json!({
        "code": code.as_str(),
        "severity": code.severity().word(),
        "summary": code.summary(),
        "meaning": explanation.meaning,
    });
    if let Some(example) = &explanation.example {
        out["wrong"] = files(&example.wrong);
        out["right"] = files(&example.right);
    }
    out
}

fn files(files: &Files) -> Value {
    let mut out = json!({ "config": files.config });
    if !files.beside.is_empty() {
        out["files"] = files.beside.iter().map(|(path, text)| (path.clone(), Value::from(text.as_str()))).collect();
    }
    out
}
