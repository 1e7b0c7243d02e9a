//! One JSON document with every diagnostic, for programs.

use serde_json::{Value, json};

use crate::diagnostic::{Diagnostic, Severity};
use crate::source::{SourceMap, Span};

/// `{"diagnostics": […], "errors": N, "warnings": N}`, in the order given.
///
/// Lines and columns count from 1, columns in characters; `end_line` and `end_column` are one past the last character.
/// A text without content is absent.
pub fn json(diagnostics: &[Diagnostic], sources: &SourceMap) -> Value {
    let count = |severity| diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count();
    json!({
        "diagnostics": diagnostics.iter().map(|diagnostic| one(diagnostic, sources)).collect::<Vec<_>>(),
        "errors": count(Severity::Error),
        "warnings": count(Severity::Warning),
    })
}

fn one(diagnostic: &Diagnostic, sources: &SourceMap) -> Value {
    let mut out = json!({
        "code": diagnostic.code.as_str(),
        "severity": diagnostic.severity.word(),
        "message": diagnostic.message,
    });
    place(&mut out, diagnostic.primary.at, sources);
    put(&mut out, "label", &diagnostic.primary.text);
    put(&mut out, "help", diagnostic.help.as_deref().unwrap_or_default());
    let related = diagnostic.related.iter().map(|label| {
        let mut out = json!({});
        place(&mut out, label.at, sources);
        put(&mut out, "label", &label.text);
        out
    });
    out["related"] = related.collect();
    out
}

fn place(out: &mut Value, at: Span, sources: &SourceMap) {
    let source = sources.get(at.source);
    let (start, end) = (source.position(at.start), source.position(at.end));
    out["path"] = source.path.as_str().into();
    out["line"] = start.line.into();
    out["column"] = start.column.into();
    out["end_line"] = end.line.into();
    out["end_column"] = end.column.into();
}

fn put(out: &mut Value, key: &str, text: &str) {
    if !text.is_empty() {
        out[key] = text.into();
    }
}
