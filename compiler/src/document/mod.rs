//! YAML as a tree in which every node knows where it was written and how.
//!
//! Bytes become a [`Source`] in [`read`], the source becomes a [`Document`] in [`parse`]. A
//! document has anchors, aliases and merge keys already applied and knows neither defaults nor types: whether
//! `timeout: 5` may stand there is asked in [`crate::decode`]. Scalars follow the core schema of YAML 1.2 with one
//! deviation: digits after a leading zero (`017`) and digits with `_` are texts, because half of the world reads them
//! as something else.

mod alias;
mod build;
mod entries;
mod look_alike;
mod read;
mod rename;
mod scalar;
mod syntax;
mod tag;

use crate::diagnostic::Diagnostic;
use crate::source::{Source, SourceId, SourceMap, Span};

pub(crate) use look_alike::{no_space, no_space_after_dash};
pub use read::{MAX_BYTES, read};
pub use rename::{Rename, map_to_list, name_to_map, rename};
pub(crate) use scalar::{Number, number as number_of};

/// Deepest nesting of lists and maps, aliases expanded.
pub const MAX_DEPTH: usize = 64;
/// Most nodes that anchors and aliases may add to what is written.
pub const MAX_ALIAS_NODES: usize = 100_000;
/// Most bytes of text that anchors and aliases may add to what is written.
pub const MAX_ALIAS_BYTES: usize = 8 << 20;

/// What one file says.
#[derive(Clone, Debug)]
pub struct Document {
    /// The outermost value.
    pub root: Node,
}

/// A value and where it stands.
#[derive(Clone, Debug)]
pub struct Node {
    /// Where it is written; for an alias, where the alias stands. A block list or map ends with its last entry.
    pub at: Span,
    /// The alias that brought it here, for everything inside of an alias.
    pub via: Option<Span>,
    /// The value.
    pub kind: Kind,
    inner: scalar::Inner,
}

/// A value.
#[derive(Clone, Debug)]
pub enum Kind {
    /// `null`, `~` or nothing at all; nothing at all has an empty span.
    Null,
    /// `true` or `false`, and the word as written.
    Bool(bool, String),
    /// A finite number as written.
    Number(String),
    /// A text.
    String(String),
    /// A list.
    List(Vec<Node>),
    /// A map in the order written, each key once; what merge keys brought comes last.
    Map(Vec<Entry>),
    /// Something that was reported and has no value; nothing more is said about it.
    Reported,
}

/// A key and its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key is written.
    pub key_at: Span,
    /// How the key was written, when [`rename`] gave it another name.
    pub written: Option<Written>,
    /// The value.
    pub value: Node,
}

/// The spelling that [`rename`] replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The old path, such as `auth.headers`.
    pub path: String,
    /// How many keys of the new path it stands for.
    pub replaces: usize,
}

impl Node {
    fn new(at: Span, kind: Kind) -> Self {
        Self { at, via: None, kind, inner: scalar::Inner::Whole }
    }

    /// The written text of a scalar: `1.10` and `True` as they stand, quotes and escapes resolved. `None` for nothing,
    /// lists and maps.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Bool(_, text) | Kind::Number(text) | Kind::String(text) => Some(text),
            Kind::Null | Kind::List(_) | Kind::Map(_) | Kind::Reported => None,
        }
    }

    /// What kind of value this is, in words: `a text`, `a list`.
    pub fn what(&self) -> &'static str {
        match self.kind {
            Kind::Null | Kind::Reported => "nothing",
            Kind::Bool(true, _) => "`true`",
            Kind::Bool(false, _) => "`false`",
            Kind::Number(_) => "a number",
            Kind::String(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }

    /// The entries of a map; none for anything else.
    pub fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none for anything else.
    pub fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// The entry of `key`, if this is a map that holds it.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// The value of `key`, if this is a map that holds it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// Where bytes `range` of [`Node::text`] stand in the file, or the whole scalar where escapes or folded lines make
    /// that unclear.
    pub fn place(&self, range: std::ops::Range<usize>) -> Span {
        match self.inner.locate(range) {
            Some(range) => Span::new(self.at.source, range),
            None => self.at,
        }
    }

    /// What to point at when something is wrong with the value as a whole: a scalar itself, the first entry of a block
    /// map or list.
    pub fn head(&self) -> Span {
        match &self.kind {
            Kind::Map(entries) => match entries.iter().find(|entry| entry.key_at.start == self.at.start) {
                Some(first) if first.value.text().is_some() && first.value.at.start >= first.key_at.end => {
                    Span { end: first.value.at.end, ..first.key_at }
                }
                Some(first) => first.key_at,
                None => self.at,
            },
            // A block list ends with its last item, one in brackets behind it.
            Kind::List(items) => match (items.first(), items.last()) {
                (Some(first), Some(last)) if last.at.end == self.at.end => Span { end: first.head().end, ..self.at },
                _ => self.at,
            },
            _ => self.at,
        }
    }
}

/// Turns a source into a document, with everything that is wrong with the text itself.
///
/// No document means that reading on would be meaningless; the last diagnostic says why. A document may come with
/// errors: what they are about is then left out or [`Kind::Reported`].
pub fn parse(id: SourceId, source: &Source) -> (Option<Document>, Vec<Diagnostic>) {
    build::build(id, &source.text)
}

/// [`read`] and [`parse`] in one step.
pub fn load(sources: &mut SourceMap, path: &str, bytes: &[u8]) -> (SourceId, Option<Document>, Vec<Diagnostic>) {
    let (id, problem) = read(sources, path, bytes);
    if let Some(problem) = problem {
        return (id, None, vec![problem]);
    }
    let (document, diagnostics) = parse(id, sources.get(id));
    (id, document, diagnostics)
}

#[cfg(test)]
mod tests;
