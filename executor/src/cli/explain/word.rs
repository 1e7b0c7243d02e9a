//! What a word of a report means: a diagnostic, with an example that has the problem and one that hasn't, a kind of change
//! that drift tells of, or something about the lock as a whole.

use std::fmt::{self, Write as _};

use mcplan_compiler::code::Code;
use mcplan_compiler::diagnostic::closest;
use mcplan_compiler::explain::{self, Explanation, Files};
use mcplan_compiler::lock::{Notice, Rule};
use mcplan_compiler::plan::OnDrift;
use serde_json::{Value, json};

use super::print;
use crate::cli::report;

/// A word that reports, logs and differences use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Word {
    Code(Code),
    Rule(Rule),
    Notice(Notice),
}

impl Word {
    /// All of them; a word that is a code and a rule stands twice.
    fn all() -> impl Iterator<Item = Self> {
        let codes = Code::ALL.iter().copied().map(Self::Code);
        let rules = Rule::ALL.iter().copied().map(Self::Rule);
        codes.chain(rules).chain(Notice::ALL.into_iter().map(Self::Notice))
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Code(code) => code.as_str(),
            Self::Rule(rule) => rule.as_str(),
            Self::Notice(notice) => notice.as_str(),
        }
    }

    /// How bad it is: a severity, or the class of a change.
    fn weight(self) -> &'static str {
        match self {
            Self::Code(code) => code.severity().word(),
            Self::Rule(rule) => rule.class().as_str(),
            Self::Notice(_) => "warning",
        }
    }

    fn summary(self) -> &'static str {
        match self {
            Self::Code(code) => code.summary(),
            Self::Rule(rule) => rule.meaning(),
            Self::Notice(notice) => notice.summary(),
        }
    }

    fn text(self) -> String {
        let head = format!("{}[{self}]: {}", self.weight(), self.summary());
        match self {
            Self::Code(code) => explain::explain(code).text(),
            Self::Rule(rule) => format!("{head}\n\n{}\n", rule.consequence()),
            Self::Notice(notice) => format!("{head}\n\n{}\n", notice.meaning()),
        }
    }

    fn as_json(self) -> Value {
        match self {
            Self::Code(code) => of_code(&explain::explain(code)),
            Self::Rule(rule) => json!({
                "rule": rule.as_str(),
                "class": rule.class().as_str(),
                "default_reaction": OnDrift::default().reaction(rule.class()).as_str(),
                "summary": rule.meaning(),
                "meaning": rule.consequence(),
            }),
            Self::Notice(notice) => json!({
                "notice": notice.as_str(),
                "summary": notice.summary(),
                "meaning": notice.meaning(),
            }),
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Explains words: one, or what one spelling means as a code and as a rule.
pub(super) fn explain(words: &[Word], as_data: bool) {
    match (as_data, words) {
        (true, [first, also @ ..]) => {
            let mut json = first.as_json();
            if !also.is_empty() {
                json["also"] = also.iter().map(|word| word.as_json()).collect();
            }
            print(&json);
        }
        _ => report::result(words.iter().map(|word| word.text()).collect::<Vec<_>>().join("\n")),
    }
}

/// Lists every word with a line about it.
pub(super) fn list(as_data: bool) {
    match as_data {
        true => print(&Word::all().map(Word::as_json).collect()),
        false => report::result(lines()),
    }
}

/// What is called so, as it stands in a report, with or without what is around it there: `error[unknown-key]`.
pub(super) fn find(written: &str) -> Vec<Word> {
    let written = word(written);
    Word::all().filter(|word| word.as_str() == written).collect()
}

/// The word that was probably meant.
pub(super) fn close(written: &str) -> Option<&'static str> {
    closest(&word(written), Word::all().map(Word::as_str))
}

fn word(written: &str) -> String {
    let word = written.split_once('[').map_or(written, |(_, rest)| rest).trim_end_matches([']', ':']);
    word.trim().to_ascii_lowercase().replace('_', "-")
}

fn lines() -> String {
    let width = Word::all().map(|word| word.as_str().len()).max().unwrap_or_default();
    Word::all().fold(String::new(), |mut out, word| {
        let _ = writeln!(out, "{:width$}  {:10}  {}", word.as_str(), word.weight(), word.summary());
        out
    })
}

fn of_code(explanation: &Explanation) -> Value {
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
