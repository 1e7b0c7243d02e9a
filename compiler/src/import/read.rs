//! Text → [`Foreign`]: which of JSON, TOML and YAML it is shows in the text, never in a file's name.

use toml::de::{DeTable, DeValue};

use super::tree::{Entry, Foreign, Kind};
use super::{Note, NoteKind, Problem, json};
use crate::code::Code;
use crate::document;
use crate::source::{Source, SourceId};

/// What a text says, and what was odd about it.
pub(super) struct Read {
    pub root: Option<Foreign>,
    pub format: Format,
    pub notes: Vec<Note>,
    pub problems: Vec<Problem>,
}

/// What a text is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Json,
    Toml,
    Yaml,
}

/// Reads the text. Bytes keep their places, so every line number is one of the file.
pub(super) fn read(source: &Source) -> Read {
    let unfenced = without_fence(&source.text);
    let text = unfenced.as_deref().unwrap_or(&source.text);
    let start = text.trim_start();
    let looks_json = start.starts_with(['{', '"']) || start.starts_with("//") || start.starts_with("/*");
    if looks_json || start.starts_with('[') {
        match json::parse(text) {
            Ok(root) => {
                return Read { root: Some(root), format: Format::Json, notes: Vec::new(), problems: Vec::new() };
            }
            Err(error) if looks_json => {
                // What is no JSON may still be YAML in braces, unless its first key is one of JSON.
                let quoted = start.trim_start_matches('{').trim_start().starts_with('"');
                if quoted {
                    return failed(Format::Json, source, error.at, &error.message);
                }
                let yaml = read_yaml(source, text);
                let broken = yaml.root.is_none() || !yaml.problems.is_empty();
                return if broken { failed(Format::Json, source, error.at, &error.message) } else { yaml };
            }
            Err(_) => {}
        }
    }
    if looks_toml(text) {
        return match DeTable::parse(text) {
            Ok(table) => {
                let root = Foreign { at: 0, kind: Kind::Map(toml_entries(table.get_ref())) };
                Read { root: Some(root), format: Format::Toml, notes: Vec::new(), problems: Vec::new() }
            }
            Err(error) => failed(Format::Toml, source, error.span().map_or(0, |span| span.start), error.message()),
        };
    }
    read_yaml(source, text)
}

fn failed(format: Format, source: &Source, at: usize, message: &str) -> Read {
    let problem = Problem::of_file(source.position(at).line, message);
    Read { root: None, format, notes: Vec::new(), problems: vec![problem] }
}

/// A text copied from a page together with its ``` lines: those become blank.
fn without_fence(text: &str) -> Option<String> {
    if !text.trim_start().starts_with("```") {
        return None;
    }
    let mut fences = 0;
    let lines = text.split_inclusive('\n').map(|line| {
        if fences < 2 && line.trim_start().starts_with("```") {
            fences += 1;
            return line.chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        }
        line.to_owned()
    });
    Some(lines.collect())
}

/// Whether the first line that says anything is one of TOML.
fn looks_toml(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let Some(line) = lines.next() else { return false };
    let line = line.split('#').next().unwrap_or(line).trim_end();
    if line.starts_with('[') && line.ends_with(']') {
        let name = line.trim_matches(['[', ']']);
        return name.chars().all(|c| c.is_alphanumeric() || "_-.\"' :/@".contains(c)) && !name.contains(", ");
    }
    let key = line.split('=').next().unwrap_or_default();
    line.contains('=') && key.trim_end().chars().all(|c| c.is_ascii_alphanumeric() || "_-.\"".contains(c))
}

fn toml_entries(table: &DeTable<'_>) -> Vec<Entry> {
    let mut entries: Vec<_> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            at: key.span().start,
            value: toml_value(value.get_ref(), value.span().start),
        })
        .collect();
    // The map is sorted by key; the order written is in the places.
    entries.sort_by_key(|entry| entry.at);
    entries
}

fn toml_value(value: &DeValue<'_>, at: usize) -> Foreign {
    let kind = match value {
        DeValue::String(text) => Kind::Text(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Kind::Number(number.as_str().to_owned()),
        DeValue::Integer(number) => Kind::Text(number.as_str().to_owned()),
        DeValue::Float(number) => Kind::Number(number.as_str().to_owned()),
        DeValue::Boolean(value) => Kind::Bool(*value),
        DeValue::Datetime(value) => Kind::Text(value.to_string()),
        DeValue::Array(items) => {
            Kind::List(items.iter().map(|item| toml_value(item.get_ref(), item.span().start)).collect())
        }
        DeValue::Table(table) => Kind::Map(toml_entries(table)),
    };
    Foreign { at, kind }
}

fn read_yaml(source: &Source, text: &str) -> Read {
    let (document, found) = document::parse(SourceId::default(), &Source::new("", text));
    let mut read = Read { root: None, format: Format::Yaml, notes: Vec::new(), problems: Vec::new() };
    for problem in found {
        let line = source.position(problem.primary.at.start).line;
        match problem.code {
            Code::UnknownTag => {
                let text = format!("{}; the value behind it is taken as a plain text", problem.message);
                read.notes.push(Note { kind: NoteKind::Changed, line, text });
            }
            Code::EmptyFile => {}
            Code::SeveralDocuments if document.is_some() => {
                let text = "a second YAML document starts here; only the first one is imported".to_owned();
                read.notes.push(Note { kind: NoteKind::Lost, line, text });
            }
            _ if !problem.is_error() => {
                read.notes.push(Note { kind: NoteKind::Changed, line, text: problem.message });
            }
            _ => read.problems.push(Problem::of_file(line, problem.message)),
        }
    }
    read.root = document.map(|document| yaml_value(&document.root, text));
    read
}

fn yaml_value(node: &document::Node, text: &str) -> Foreign {
    let kind = match &node.kind {
        document::Kind::Null => Kind::Null,
        document::Kind::Bool(value, _) => Kind::Bool(*value),
        document::Kind::Number(number) => Kind::Number(number.clone()),
        document::Kind::String(text) => Kind::Text(text.clone()),
        document::Kind::List(items) => Kind::List(items.iter().map(|item| yaml_value(item, text)).collect()),
        document::Kind::Map(entries) => Kind::Map(
            entries
                .iter()
                .map(|entry| Entry {
                    key: entry.key.clone(),
                    at: entry.key_at.start,
                    value: yaml_value(&entry.value, text),
                })
                .collect(),
        ),
        document::Kind::Reported => behind_tag(text.get(node.at.range()).unwrap_or_default()),
    };
    Foreign { at: node.at.start, kind }
}

/// What stands behind a tag that means nothing here, such as `!secret ${X}`.
fn behind_tag(written: &str) -> Kind {
    let inner = ["\"", "'"].iter().find_map(|quote| written.strip_prefix(quote)?.strip_suffix(quote));
    match inner.unwrap_or(written) {
        "" => Kind::Null,
        one if one.contains('\n') => Kind::Null,
        one => Kind::Text(one.to_owned()),
    }
}
