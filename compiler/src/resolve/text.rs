//! Strings with references: parsed, with every finding at its own column.

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::interpolate::{Finding, FindingKind, Template};
use crate::source::Spanned;

use super::Resolver;

impl Resolver<'_> {
    /// Parses one string field; `field` names it in messages.
    pub(super) fn template(&mut self, written: &Spanned<String>, field: &str) -> Template {
        let (template, findings) = Template::parse(&written.value);
        for finding in findings {
            self.report_finding(written, field, &finding);
        }
        template
    }

    fn report_finding(&mut self, written: &Spanned<String>, field: &str, finding: &Finding) {
        let at = self.inside(written.at, &written.value, finding.at.clone());
        let escape = "write `$${` where the characters `${` themselves are meant";
        let diagnostic = match &finding.kind {
            FindingKind::Unclosed => Diagnostic::new(Code::BadReference, at, format!("`${{` in `{field}` has no `}}`"))
                .label("starts here")
                .help(format!("write `${{NAME}}`, or {}", escape.trim_start_matches("write "))),
            FindingKind::Empty => {
                Diagnostic::new(Code::BadReference, at, format!("`${{}}` in `{field}` names nothing"))
                    .help("write `${NAME}` with the name of a variable")
            }
            FindingKind::Malformed(inner) => {
                Diagnostic::new(Code::BadReference, at, format!("`${{{inner}}}` in `{field}` is no reference"))
                    .help(malformed_help(inner, escape))
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

fn malformed_help(inner: &str, escape: &str) -> String {
    if let Some(id) = inner.strip_prefix("input:") {
        return format!("`${{input:…}}` is an editor's question; write `${{{}}}` and set that variable", variable(id));
    }
    if let Some((name, default)) = inner.split_once(':')
        && !default.starts_with(['-', '?'])
        && !name.is_empty()
        && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
    {
        return format!("a default is written `${{{name}:-{default}}}`");
    }
    format!("a reference is `${{NAME}}`, `${{NAME:-text}}`, `${{NAME:?message}}` or `${{file:PATH}}`; {escape}")
}

/// A variable name made of `text`.
fn variable(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect()
}
