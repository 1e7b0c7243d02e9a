//! Files as they were read: path, text, and where each line starts.
//!
//! Knows nothing of what the text means. Compiling never opens a file by itself: it asks a
//! [`Sources`], so a test can hand over texts from memory.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Deserializer};

/// Which file of a run a position belongs to; an index into [`SourceMap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct SourceId(pub u32);

/// A range of bytes in one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// The file.
    pub source: SourceId,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// A span over `range` of `source`.
    pub fn new(source: SourceId, range: Range<usize>) -> Self {
        Self { source, start: range.start, end: range.end }
    }

    /// The bytes as a range.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// A value and where it was written. Equality ignores the place, so moving a line is no change.
#[derive(Clone, Debug, Default)]
pub struct Spanned<T> {
    /// What was written.
    pub value: T,
    /// Where.
    pub at: Span,
}

impl<T> Spanned<T> {
    /// `value`, written at `at`.
    pub fn new(value: T, at: Span) -> Self {
        Self { value, at }
    }
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Spanned<T> {}

impl<T: PartialOrd> PartialOrd for Spanned<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl<T: Ord> Ord for Spanned<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.value.cmp(&other.value)
    }
}

/// The struct name and fields by which [`crate::decode`]'s deserializer recognises a [`Spanned`].
pub(crate) const SPANNED: &str = "$mcplan::Spanned";
pub(crate) const SPANNED_FIELDS: &[&str] = &["source", "start", "end", "value"];

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Spanned<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>> serde::de::Visitor<'de> for Visitor<T> {
            type Value = Spanned<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value with its place")
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                use serde::de::Error;
                let mut at = Span::default();
                let mut value = None;
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "source" => at.source = SourceId(map.next_value()?),
                        "start" => at.start = map.next_value()?,
                        "end" => at.end = map.next_value()?,
                        "value" => value = Some(map.next_value()?),
                        other => return Err(A::Error::custom(format_args!("unexpected field {other}"))),
                    }
                }
                let value = value.ok_or_else(|| A::Error::missing_field("value"))?;
                Ok(Spanned { value, at })
            }
        }
        deserializer.deserialize_struct(SPANNED, SPANNED_FIELDS, Visitor(std::marker::PhantomData))
    }
}

impl<T: schemars::JsonSchema> schemars::JsonSchema for Spanned<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

/// One file of a run.
#[derive(Clone, Debug)]
pub struct Source {
    /// The path as the user gave it or as the config names it; shown in messages.
    pub path: String,
    /// The text, without a byte order mark.
    pub text: String,
    lines: Vec<usize>,
    /// Characters before each [`BLOCK`] of bytes: columns in a file of one line of megabytes are counted too.
    characters: Vec<usize>,
}

/// Bytes between two counts of characters.
const BLOCK: usize = 4096;

/// A line and a column, both from 1; the column counts characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in Unicode scalar values, from 1.
    pub column: usize,
}

impl Source {
    /// A source of `text`, shown as `path`.
    pub fn new(path: impl Into<String>, text: impl Into<String>) -> Self {
        let text = text.into();
        let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut characters = vec![0];
        for block in text.as_bytes().chunks(BLOCK) {
            characters.push(characters.last().copied().unwrap_or_default() + starts(block));
        }
        Self { path: path.into(), text, lines, characters }
    }

    /// Where `offset` (bytes) stands. An offset past the end is the end.
    pub fn position(&self, offset: usize) -> Position {
        let mut offset = offset.min(self.text.len());
        while !self.text.is_char_boundary(offset) {
            offset -= 1;
        }
        let line = self.lines.partition_point(|start| *start <= offset);
        let start = self.lines[line - 1];
        Position { line, column: self.characters_before(offset) - self.characters_before(start) + 1 }
    }

    fn characters_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        self.characters[block] + starts(&self.text.as_bytes()[block * BLOCK..offset])
    }
}

/// The path of a file that the file at `from` names as `path`: relative to where `from` itself is relative to.
///
/// `~/x` and absolute paths stay as they are.
pub fn beside(from: &str, path: &str) -> String {
    let is_separator = |c: char| c == '/' || (cfg!(windows) && c == '\\');
    let drive = cfg!(windows) && path.as_bytes().get(1) == Some(&b':');
    if path.starts_with(is_separator) || path.starts_with("~/") || drive {
        return path.to_owned();
    }
    let folder = from.rfind(is_separator).map_or("", |end| &from[..=end]);
    format!("{folder}{}", path.strip_prefix("./").unwrap_or(path))
}

/// How many characters start in `bytes`.
fn starts(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Every file that one run has read, by [`SourceId`].
#[derive(Clone, Debug, Default)]
pub struct SourceMap {
    sources: Vec<Source>,
}

impl SourceMap {
    /// Adds a file and says how it is named from now on.
    pub fn add(&mut self, source: Source) -> SourceId {
        self.sources.push(source);
        SourceId((self.sources.len() - 1) as u32)
    }

    /// The file of `id`.
    ///
    /// # Panics
    /// When `id` comes from another map: a bug of ours.
    pub fn get(&self, id: SourceId) -> &Source {
        &self.sources[id.0 as usize]
    }

    /// Where the lines of all files are, for who keeps places for long and needs no text.
    pub fn lines(self) -> Lines {
        Lines(self.sources.into_iter().map(|source| (source.path, source.lines)).collect())
    }

    /// All files, in the order they were read.
    pub fn iter(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter()
    }
}

/// The lines of the files of a [`SourceMap`].
#[derive(Clone, Debug, Default)]
pub struct Lines(Vec<(String, Vec<usize>)>);

impl Lines {
    /// File and line of a place, as in `config.yml:12`.
    ///
    /// # Panics
    /// When the place is one of other files: a bug of ours.
    pub fn shown(&self, at: Span) -> String {
        let (path, lines) = &self.0[at.source.0 as usize];
        format!("{path}:{}", lines.partition_point(|start| *start <= at.start))
    }
}

/// Where compiling gets its files from.
pub trait Sources {
    /// The bytes of the file at `path`, which is relative to the directory of the main file.
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError>;

    /// The names of the files and directories in a directory, which is relative to that of the main file; empty for the
    /// directory itself. In any order.
    fn list(&self, directory: &str) -> Result<Vec<String>, ReadError>;

    /// Whether two paths are one file.
    fn same(&self, one: &str, other: &str) -> bool {
        one == other
    }
}

/// Why a file could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// There is no such file.
    #[error("no such file")]
    Missing,
    /// It is there, but reading failed.
    #[error("{0}")]
    Failed(String),
}

/// Files held in memory, for tests and for hosts that keep their config elsewhere.
#[derive(Clone, Debug, Default)]
pub struct MemorySources(pub BTreeMap<String, Vec<u8>>);

impl Sources for MemorySources {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        self.0.get(path).cloned().ok_or(ReadError::Missing)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>, ReadError> {
        let prefix = if directory.is_empty() { String::new() } else { format!("{directory}/") };
        let below = self.0.keys().filter_map(|path| path.strip_prefix(&prefix));
        let names: std::collections::BTreeSet<_> =
            below.filter_map(|rest| rest.split('/').next()).map(str::to_owned).collect();
        if names.is_empty() { Err(ReadError::Missing) } else { Ok(names.into_iter().collect()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn position_counts_lines_and_characters_from_one() {
        let source = Source::new("a.yml", "a: 1\nä: x\n");
        assert_eq!(source.position(0), Position { line: 1, column: 1 });
        assert_eq!(source.position(5), Position { line: 2, column: 1 });
        assert_eq!(source.position(7), Position { line: 2, column: 2 }, "ä is one character of two bytes");
        assert_eq!(source.position(999), Position { line: 3, column: 1 });
    }

    #[test]
    fn columns_are_those_of_characters_however_long_the_line() {
        for text in
            ["é".repeat(10_000), format!("ab\n{}\n日本", "x日é".repeat(5_000)), "a".repeat(BLOCK * 2), String::new()]
        {
            let source = Source::new("a.yml", text.as_str());
            for offset in
                (0..=text.len()).filter(|offset| text.is_char_boundary(*offset)).step_by(7).chain([text.len()])
            {
                let line = text[..offset].rfind('\n').map_or(0, |newline| newline + 1);
                assert_eq!(source.position(offset).column, text[line..offset].chars().count() + 1, "{offset}");
            }
        }
    }

    #[test]
    fn a_file_is_shown_from_where_the_one_that_names_it_is() {
        assert_eq!(beside("config.yml", "./prompts/a.j2"), "prompts/a.j2");
        assert_eq!(beside("agents/config.yml", "prompts/a.j2"), "agents/prompts/a.j2");
        assert_eq!(beside("../config.yml", "../a.j2"), "../../a.j2");
        assert_eq!(beside("/etc/config.yml", "a.j2"), "/etc/a.j2");
        assert_eq!(beside("agents/config.yml", "/a.j2"), "/a.j2");
        assert_eq!(beside("agents/config.yml", "~/a.j2"), "~/a.j2");
    }
}
