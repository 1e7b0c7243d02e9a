//! Adds an entry to a config's text, or takes one out, and leaves every other byte alone.
//!
//! An edit is a guess by place that is then checked: the new text is parsed, and its tree must be the old one plus
//! (minus) exactly that entry. What fails the check is never handed out, the caller gets the text to paste instead.
//! Comments, order, quotes and line ends of the rest can't change, because they are never written anew.

mod add;
mod emit;
mod paste;
mod place;
mod remove;
mod value;

pub use add::add;
pub use emit::Style;
pub use paste::{Pasted, to_paste};
pub use remove::{Removed, names, remove};
pub use value::Value;

use std::collections::BTreeSet;

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::document::{self, Document};
use crate::interpolate::{Reference, Template};
use crate::source::{Source, SourceId};

/// A list that entries are added to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// Servers: `mcp_servers`, or `mcp.servers` where only that exists.
    Servers,
    /// `mcp_builtins`.
    Builtins,
}

impl List {
    /// The lists of this kind by their path of keys; a new one is made at the first.
    pub fn paths(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Servers => &[&["mcp_servers"], &["mcp", "servers"]],
            Self::Builtins => &[&["mcp_builtins"]],
        }
    }
}

/// Why a text was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The text has errors already.
    #[error("the file has errors; mend them first")]
    Broken,
    /// No entry of that name is written in this file.
    #[error("there is no entry `{name}` in this file{}", meant.as_ref().map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default())]
    NoEntry {
        /// The name that was asked for.
        name: String,
        /// A written one close to it.
        meant: Option<String>,
    },
    /// Several entries have that name.
    #[error("{count} entries are called `{name}`; remove them by hand")]
    Several {
        /// The name that was asked for.
        name: String,
        /// How many there are.
        count: usize,
    },
    /// The text is written in a way that isn't edited.
    #[error("{0}; edit the file by hand")]
    Shape(&'static str),
}

/// A text to be edited: its tree, and its bytes without a byte order mark.
struct Original<'t> {
    /// The byte order mark, or nothing.
    mark: &'t str,
    body: &'t str,
    newline: &'static str,
    /// `None` when the text holds nothing but comments.
    document: Option<Document>,
    tree: Value,
}

impl<'t> Original<'t> {
    fn read(text: &'t str) -> Result<Self, Refused> {
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mark = &text[..text.len() - body.len()];
        let (document, problems) = parse(body);
        if problems.iter().any(|problem| problem.is_error() && problem.code != Code::EmptyFile) {
            return Err(Refused::Broken);
        }
        let tree = document.as_ref().map_or(Value::Map(Vec::new()), |document| Value::from(&document.root));
        if !matches!(tree, Value::Map(_)) {
            return Err(Refused::Shape("the file holds no map"));
        }
        let newline = if body.contains("\r\n") { "\r\n" } else { "\n" };
        Ok(Self { mark, body, newline, document, tree })
    }

    /// The first of `candidates` that says `expected`.
    fn first_right(&self, candidates: impl IntoIterator<Item = String>, expected: &Value) -> Option<String> {
        let right = |candidate: &String| {
            let (document, problems) = parse(candidate);
            let errors = problems.iter().any(Diagnostic::is_error);
            !errors && document.is_some_and(|document| Value::from(&document.root) == *expected)
        };
        candidates.into_iter().find(right).map(|body| format!("{}{body}", self.mark))
    }

    /// Lines with `\n` as this file ends its lines.
    fn lines(&self, text: &str) -> String {
        if self.newline == "\n" { text.to_owned() } else { text.replace('\n', self.newline) }
    }
}

fn parse(body: &str) -> (Option<Document>, Vec<Diagnostic>) {
    document::parse(SourceId::default(), &Source::new("", body))
}

/// The variables that a config's text refers to.
///
/// # Errors
/// When the text can't be read.
pub fn variables(text: &str) -> Result<BTreeSet<String>, Refused> {
    let original = Original::read(text)?;
    let mut found = BTreeSet::new();
    original.tree.visit(&mut |text| {
        found.extend(Template::parse(text).0.references().filter_map(Reference::variable).map(str::to_owned));
    });
    Ok(found)
}

#[cfg(test)]
mod tests;
