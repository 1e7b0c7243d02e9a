//! SARIF 2.1.0, the format that code hosts and editors read findings in. One log with one run for all files.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Checked;
use super::address::uri;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, Label, Severity};
use crate::explain::explain;
use crate::source::{SourceMap, Span};

/// Where the schema of the format is published.
const SCHEMA: &str = "https://raw.githubusercontent.com/oasis-tcs/sarif-spec/master/Schemata/sarif-schema-2.1.0.json";

/// The log of a run over `files`, in the order given. Its rules are the codes that occur, each with its explanation.
///
/// Columns count characters from 1, ends are one past the last character. Paths below `root` (an absolute directory)
/// are relative to it, others that are absolute become `file:` URIs. A file that couldn't be read is a notification,
/// and the run then wasn't successful.
pub fn sarif(files: &[Checked<'_>], root: Option<&str>) -> Value {
    let rules = Rules::of(files);
    let mut results = Vec::new();
    let mut notifications = Vec::new();
    for file in files {
        match file {
            Checked::Read { diagnostics, texts } => {
                let seen = Seen { texts, root };
                results.extend(diagnostics.iter().map(|diagnostic| seen.result(diagnostic, &rules)));
            }
            Checked::Unreadable { path, reason } => notifications.push(json!({
                "level": "error",
                "message": { "text": reason },
                "locations": [{ "physicalLocation": { "artifactLocation": { "uri": uri(path, root) } } }],
            })),
        }
    }
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "mcplan",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules.described(),
            } },
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": notifications.is_empty(),
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
        }],
    })
}

/// The codes that occur, in the order of their words, and the place of each.
struct Rules(BTreeMap<&'static str, (usize, Code)>);

impl Rules {
    fn of(files: &[Checked<'_>]) -> Self {
        let diagnostics = files.iter().flat_map(|file| match file {
            Checked::Read { diagnostics, .. } => *diagnostics,
            Checked::Unreadable { .. } => &[],
        });
        let mut rules: BTreeMap<_, _> = diagnostics.map(|found| (found.code.as_str(), (0, found.code))).collect();
        rules.values_mut().enumerate().for_each(|(index, rule)| rule.0 = index);
        Self(rules)
    }

    fn index(&self, code: Code) -> usize {
        self.0.get(code.as_str()).map_or(0, |(index, _)| *index)
    }

    fn described(&self) -> Vec<Value> {
        self.0.values().map(|(_, code)| rule(*code)).collect()
    }
}

fn rule(code: Code) -> Value {
    let explanation = explain(code);
    json!({
        "id": code.as_str(),
        "shortDescription": { "text": code.summary() },
        "fullDescription": { "text": explanation.meaning },
        "help": { "text": explanation.text(), "markdown": explanation.markdown() },
        "defaultConfiguration": { "level": level(code.severity()) },
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    }
}

/// The texts of one file's compilation, seen from the root.
struct Seen<'a> {
    texts: &'a SourceMap,
    root: Option<&'a str>,
}

impl Seen<'_> {
    fn result(&self, diagnostic: &Diagnostic, rules: &Rules) -> Value {
        let mut text = diagnostic.message.clone();
        if !diagnostic.primary.text.is_empty() {
            text += &format!(": {}", diagnostic.primary.text);
        }
        if let Some(help) = &diagnostic.help {
            text += &format!("\nhelp: {help}");
        }
        let mut out = json!({
            "ruleId": diagnostic.code.as_str(),
            "ruleIndex": rules.index(diagnostic.code),
            "level": level(diagnostic.severity),
            "message": { "text": text },
            "locations": [{ "physicalLocation": self.place(diagnostic.primary.at) }],
        });
        if !diagnostic.related.is_empty() {
            let related = diagnostic.related.iter().enumerate().map(|(index, label)| self.related(index, label));
            out["relatedLocations"] = related.collect();
        }
        out
    }

    fn related(&self, index: usize, label: &Label) -> Value {
        let text = if label.text.is_empty() { "see also" } else { &label.text };
        json!({
            "id": index,
            "physicalLocation": self.place(label.at),
            "message": { "text": text },
        })
    }

    fn place(&self, at: Span) -> Value {
        let source = self.texts.get(at.source);
        let (start, end) = (source.position(at.start), source.position(at.end));
        json!({
            "artifactLocation": { "uri": uri(&source.path, self.root) },
            "region": {
                "startLine": start.line,
                "startColumn": start.column,
                "endLine": end.line,
                "endColumn": end.column,
            },
        })
    }
}
