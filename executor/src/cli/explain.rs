//! `mcplan explain CODE`: what a diagnostic means, an example that has the problem, and one that hasn't.

use std::fmt::Write as _;

use clap::Args;
use mcplan_compiler::code::Code;
use mcplan_compiler::diagnostic::closest;
use mcplan_compiler::explain::{self, Explanation, Files};
use serde_json::{Value, json};

use super::report::{self, CouldNot, Outcome};

/// Say what a diagnostic means: `mcplan explain unpinned`
#[derive(Debug, Args)]
pub(super) struct ExplainCommand {
    /// The word in brackets of a report, such as `unknown-key`
    #[arg(required_unless_present = "list")]
    code: Option<String>,
    /// List every code with a line about it
    #[arg(long, conflicts_with = "code")]
    list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ExplainCommand {
    pub(super) fn run(&self) -> anyhow::Result<Outcome> {
        match (&self.code, self.json) {
            (Some(code), false) => report::result(explain::explain(named(code)?).text()),
            (Some(code), true) => print(&as_json(&explain::explain(named(code)?))),
            (None, false) => report::result(list()),
            (None, true) => print(&Code::ALL.iter().map(|code| as_json(&explain::explain(*code))).collect()),
        }
        Ok(Outcome::Fine)
    }
}

fn print(json: &Value) {
    report::result(mcplan_compiler::json::pretty(&json.to_string()));
}

/// The code as it stands in a report, with or without what is around it there: `error[unknown-key]`.
fn named(written: &str) -> Result<Code, CouldNot> {
    let word = written.split_once('[').map_or(written, |(_, rest)| rest).trim_end_matches([']', ':']);
    let word = word.trim().to_ascii_lowercase().replace('_', "-");
    explain::find(&word).ok_or_else(|| {
        let close = closest(&word, Code::ALL.iter().map(|code| code.as_str()));
        let guess = close.map(|close| format!("did you mean '{close}'? ")).unwrap_or_default();
        CouldNot::new(format!("there is no code '{written}'; {guess}'mcplan explain --list' shows all"))
    })
}

fn list() -> String {
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
