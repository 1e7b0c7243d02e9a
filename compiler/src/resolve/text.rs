//! Strings with references: parsed, with every finding at its own column.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, shown};
use crate::interpolate::{Finding, FindingKind, Reference, Template};
use crate::source::Spanned;

use super::Resolver;

impl Resolver<'_> {
    /// Parses one string field; `field` names it in messages. Paths of files in it are relative to the file that is being
    /// resolved, and are made relative to the main file.
    pub(super) fn template(&mut self, written: &Spanned<String>, field: &str) -> Template {
        self.check_nul(written, field);
        let (template, findings) = Template::parse(&written.value);
        for finding in findings {
            self.report_finding(written, field, &finding);
        }
        if template.references().any(|reference| matches!(reference, Reference::OrText(_, text) if text.contains("${")))
        {
            self.report_nested(written, field);
        }
        template.with_paths(|path| self.rebased_path(path))
    }

    /// Systems end a text at NUL, so what holds one can't be handed on.
    pub(super) fn check_nul(&mut self, written: &Spanned<String>, field: &str) {
        if written.value.contains('\0') {
            self.report(
                Diagnostic::new(Code::NulCharacter, written.at, format!("`{}` holds a NUL character", shown(field)))
                    .label("every system ends a text there")
                    .help("remove the `\\0`; where a backslash and a zero are meant, write the text in single quotes"),
            );
        }
    }

    /// A path of the file that is being resolved, relative to the main file instead; there has to be one.
    pub(super) fn path(&mut self, written: &Spanned<String>, field: &str) -> String {
        if written.value.trim().is_empty() {
            self.report(
                Diagnostic::new(Code::OutOfRange, written.at, format!("a path in `{field}` is empty"))
                    .help("write a path, `.` for the directory of this file, or remove it"),
            );
        }
        self.check_nul(written, field);
        self.check_plain(written, field);
        self.rebased_path(&written.value)
    }

    /// A text in which nothing is filled in, so that `${` can't be meant.
    pub(super) fn check_plain(&mut self, written: &Spanned<String>, field: &str) {
        let Some(start) = written.value.find("${") else { return };
        let end = written.value[start..].find('}').map_or(written.value.len(), |close| start + close + 1);
        let at = self.inside(written.at, &written.value, start..end);
        let reference = shown(&written.value[start..end]);
        self.report(
            Diagnostic::new(Code::BadReference, at, format!("`{reference}` in `{field}` isn't filled in"))
                .help("write the text itself; variables are only filled in where a server is launched, and in tokens"),
        );
    }

    /// `${A:-${B}}` ends at its first `}` and means the text `${B` and a `}`.
    fn report_nested(&mut self, written: &Spanned<String>, field: &str) {
        let value = &written.value;
        let outer = value.match_indices("${").map(|(at, _)| at).find(|at| {
            let inner = &value[at + 2..];
            inner[..inner.find('}').unwrap_or(inner.len())].contains("${")
        });
        let Some(outer) = outer else { return };
        let end = value[outer..].find('}').map_or(value.len(), |close| outer + close + 1);
        let message = format!("the default of a reference in `{field}` holds `${{`, and isn't filled in");
        self.report(
            Diagnostic::new(Code::NestedReference, self.inside(written.at, value, outer..end), message)
                .label("ends at the first `}`")
                .help("write the default as plain text"),
        );
    }

    fn report_finding(&mut self, written: &Spanned<String>, field: &str, finding: &Finding) {
        // One without an end is marked where it starts: the rest of the text is no part of it.
        let marked = match finding.kind {
            FindingKind::Unclosed => unclosed(&written.value, finding.at.start),
            _ => finding.at.clone(),
        };
        let at = self.inside(written.at, &written.value, marked);
        let angled = written.value[finding.at.start..].starts_with("$<");
        let (open, close) = if angled { ("$<", ">") } else { ("${", "}") };
        let escape = format!("write `${open}` where the characters `{open}` themselves are meant");
        let diagnostic = match &finding.kind {
            FindingKind::Unclosed => {
                Diagnostic::new(Code::BadReference, at, format!("`{open}` in `{field}` has no `{close}`"))
                    .label("starts here")
                    .help(format!("write `{open}NAME{close}`, or {}", escape.trim_start_matches("write ")))
            }
            FindingKind::Malformed(inner) if angled => {
                let message = format!("`$<{}>` in `{field}` is no reference", shown(inner));
                // The braced form may take what this one doesn't.
                let better = format!("${{{}}}", inner.strip_prefix("env:").unwrap_or(inner));
                let braced = !inner.contains('}') && Template::parse(&better).1.is_empty();
                let rest = if braced { format!("write `{}`", shown(&better)) } else { escape };
                Diagnostic::new(Code::BadReference, at, message)
                    .help(format!("nothing but a name stands between `$<` and `>`; {rest}"))
            }
            FindingKind::Empty => {
                Diagnostic::new(Code::BadReference, at, format!("`${{}}` in `{field}` names nothing"))
                    .help(format!("write `${{NAME}}` with the name of a variable; {escape}"))
            }
            FindingKind::Malformed(inner) => {
                Diagnostic::new(Code::BadReference, at, format!("`${{{}}}` in `{field}` is no reference", shown(inner)))
                    .help(malformed_help(inner, &escape))
            }
            FindingKind::Bare(name) => {
                Diagnostic::new(Code::BareDollar, at, format!("`${name}` in `{field}` is left as it is written"))
                    .help(format!("write `${{{name}}}` for the variable, or `$${name}` to say that the text is meant"))
            }
            FindingKind::Doubled => {
                Diagnostic::new(Code::DoubledDollar, at, format!("`$$` in `{field}` becomes one `$`"))
                    .help("write `$$$$` where two are meant")
            }
        };
        self.report(diagnostic);
    }
}

/// `${` and the name that follows it.
fn unclosed(text: &str, start: usize) -> std::ops::Range<usize> {
    let rest = &text[start + 2..];
    let name = rest.find(|c: char| !(c == '_' || c.is_ascii_alphanumeric())).unwrap_or(rest.len());
    start..start + 2 + name
}

/// What was probably meant, and how the characters are written that are no reference.
fn malformed_help(inner: &str, escape: &str) -> String {
    format!("{}; {escape}", meant(inner))
}

fn meant(inner: &str) -> String {
    let is_name = |text: &str| {
        text.starts_with(|c: char| c == '_' || c.is_ascii_alphabetic())
            && text.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
    };
    if is_name(inner.trim()) {
        return format!("write `${{{}}}`, without blanks", inner.trim());
    }
    match inner.split_once(':') {
        Some(("input", id)) => {
            return format!(
                "`${{input:…}}` is an editor's question; write `${{{}}}` and set that variable",
                variable(id)
            );
        }
        Some(("env", "")) => return "write `${NAME}` with the name of a variable".to_owned(),
        Some(("file", "")) => return "write `${file:PATH}` with the path of a file".to_owned(),
        Some((name, default)) if is_name(name) && !default.starts_with(['+', '-', '?']) => {
            return format!("a default is written `${{{name}:-{}}}`", shown(default.trim_start_matches('=')));
        }
        _ => {}
    }
    "a reference is `${NAME}`, `$<NAME>`, `${NAME:-text}`, `${NAME:?message}` or `${file:PATH}`".to_owned()
}

/// A variable name made of `text`.
fn variable(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}
