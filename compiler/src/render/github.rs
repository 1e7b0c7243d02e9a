//! Workflow commands of GitHub Actions: each problem becomes an annotation at its line, without any further program.

use std::fmt::Write as _;

use super::Checked;
use super::address::relative;
use crate::diagnostic::{Diagnostic, Severity};
use crate::source::SourceMap;

/// One command a line for every problem of `files`. Paths below `root` (an absolute directory) are relative to it.
pub fn github(files: &[Checked<'_>], root: Option<&str>) -> String {
    let mut out = String::new();
    for file in files {
        match file {
            Checked::Read { diagnostics, texts } => {
                diagnostics.iter().for_each(|diagnostic| out += &one(diagnostic, texts, root));
            }
            Checked::Unreadable { path, reason } => {
                let _ = writeln!(out, "::error file={}::{}", property(&relative(path, root)), message(reason));
            }
        }
    }
    out
}

fn one(diagnostic: &Diagnostic, texts: &SourceMap, root: Option<&str>) -> String {
    let command = match diagnostic.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "notice",
    };
    let at = diagnostic.primary.at;
    let source = texts.get(at.source);
    let (start, end) = (source.position(at.start), source.position(at.end));
    let mut out = format!("::{command} file={},line={}", property(&relative(&source.path, root)), start.line);
    // The runner drops columns, with a complaint, where an annotation spans lines.
    if start.line == end.line {
        let _ = write!(out, ",col={},endLine={},endColumn={}", start.column, end.line, end.column);
    } else {
        let _ = write!(out, ",endLine={}", end.line);
    }
    let _ = writeln!(out, ",title={}::{}", property(diagnostic.code.as_str()), message(&told(diagnostic, texts)));
    out
}

/// All that is to be said, since there is no excerpt: the message, what stands beside the mark, the other places, the
/// help.
fn told(diagnostic: &Diagnostic, texts: &SourceMap) -> String {
    let mut text = diagnostic.message.clone();
    if !diagnostic.primary.text.is_empty() {
        let _ = write!(text, ": {}", diagnostic.primary.text);
    }
    for label in &diagnostic.related {
        let source = texts.get(label.at.source);
        let place = source.position(label.at.start);
        let said = if label.text.is_empty() { "see also" } else { &label.text };
        let _ = write!(text, "\n{}:{}:{}: {said}", source.path, place.line, place.column);
    }
    if let Some(help) = &diagnostic.help {
        let _ = write!(text, "\nhelp: {help}");
    }
    text
}

/// What follows the second `::`. `%` first, or the others would be escaped twice.
fn message(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A value before it, where `:` and `,` separate.
fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}
