//! Foreign configurations → entries of ours, with a report of everything that changed on the way.
//!
//! Pure: text in, values and words out. What a file is written in, and for which client, is seen in what it says, never
//! in its name. Each key of each entry is either understood or reported; a bad entry costs only itself; no literal
//! secret comes through, neither in an entry nor in the report.

mod docker;
mod draft;
pub mod export;
mod field;
mod find;
mod finish;
mod input;
mod json;
mod keys;
mod read;
mod reference;
mod secrets;
mod time;
mod tree;

use std::borrow::Cow;
use std::collections::BTreeSet;

use crate::diagnostic::one_line;
use crate::edit::Value;
use crate::name::ServerName;
use crate::source::Source;
use draft::Draft;
use find::Found;
use secrets::Secrets;

/// Longest sentence about a file, in characters.
const LONGEST_MESSAGE: usize = 400;

/// What came of a foreign text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// Where servers were found, such as `mcpServers`; empty when nowhere.
    pub places: Vec<String>,
    /// The servers, in the order written.
    pub servers: Vec<ImportedServer>,
    /// What is to be said about the file as a whole.
    pub notes: Vec<Note>,
    /// What could not be imported, and why: an entry, or the whole file.
    pub problems: Vec<Problem>,
}

/// One server as our config has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedServer {
    /// Its name, valid and unique in this import.
    pub name: ServerName,
    /// The entry, `name` first.
    pub entry: Value,
    /// The line that it starts on.
    pub line: usize,
    /// What changed or was left out, by line.
    pub notes: Vec<Note>,
}

/// Something about an entry that the user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What kind of news it is.
    pub kind: NoteKind,
    /// The line it is about, from 1.
    pub line: usize,
    /// One sentence without a final stop. Never holds a secret.
    pub text: String,
}

/// Kinds of [`Note`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// The same is said in other words.
    Changed,
    /// This variable has to be set where mcplan runs.
    Set(String),
    /// Something could not be taken over.
    Lost,
}

/// Something that could not be imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The line it is about, from 1.
    pub line: usize,
    /// One sentence without a final stop.
    pub text: String,
    /// Whether it costs an entry; else it is about the file as a whole.
    pub of_entry: bool,
}

impl Problem {
    fn of_file(line: usize, text: impl Into<String>) -> Self {
        Self { line, text: text.into(), of_entry: false }
    }
}

impl Imported {
    /// Whether something was left out of what could be read.
    pub fn has_losses(&self) -> bool {
        let notes = self.servers.iter().flat_map(|server| &server.notes).chain(&self.notes);
        notes.into_iter().any(|note| note.kind == NoteKind::Lost)
    }
}

/// Reads servers out of a text of any kind that is known. `path` is for messages only; `name` is for a server that has
/// none, or instead of the only one's.
pub fn import(text: &str, path: &str, name: Option<&str>) -> Imported {
    let mut imported = import_as_said(text, path, name);
    // What is said holds pieces of the file: no line break of it, no control character and no secret gets through.
    let notes = imported.servers.iter_mut().flat_map(|server| &mut server.notes).chain(&mut imported.notes);
    let said = notes.map(|note| &mut note.text).chain(imported.problems.iter_mut().map(|problem| &mut problem.text));
    for text in said {
        if let Cow::Owned(clean) = one_line(text, LONGEST_MESSAGE) {
            *text = clean;
        }
    }
    imported
}

fn import_as_said(text: &str, path: &str, name: Option<&str>) -> Imported {
    let source = Source::new(path, text.strip_prefix('\u{feff}').unwrap_or(text));
    let read = read::read(&source);
    let mut imported = Imported { notes: read.notes, problems: read.problems, ..Imported::default() };
    let Some(root) = read.root else {
        if imported.problems.is_empty() {
            imported.problems.push(Problem::of_file(1, "the file holds nothing"));
        }
        return imported;
    };
    let found = find::find(&root, read.format);
    imported.places = found.places.clone();
    if found.servers.is_empty() {
        imported.problems.push(Problem::of_file(1, found.nothing()));
        return imported;
    }
    if name.is_some() && found.servers.len() > 1 {
        let text = format!("a name can be given for one server, and this file holds {}", found.servers.len());
        imported.problems.push(Problem::of_file(1, text));
        return imported;
    }
    if let Some(builtins) = root.entries().iter().find(|entry| entry.key == "mcp_builtins" && !entry.value.is_empty()) {
        let text = "`mcp_builtins` is left out: add each with 'mcplan add --builtin NAME'".to_owned();
        imported.notes.push(Note { kind: NoteKind::Lost, line: source.position(builtins.at).line, text });
    }
    let mut secrets = Secrets::default();
    for server in &found.servers {
        draft::variables_from_outside(server.node).into_iter().for_each(|variable| secrets.refer(variable));
    }
    let mut names = BTreeSet::new();
    for server in &found.servers {
        let line = source.position(server.at).line;
        match one(&source, server, &found, name, &mut secrets) {
            Ok(mut converted) => {
                if let Some(twin) = imported.servers.iter().find(|other| is_twin(other, &converted)) {
                    let text = format!("`{}` stands on line {} with the same settings already", twin.name, twin.line);
                    imported.notes.push(Note { kind: NoteKind::Changed, line, text });
                    continue;
                }
                number(&mut converted, &mut names);
                imported.servers.push(converted);
            }
            Err(text) => imported.problems.push(Problem { line, text, of_entry: true }),
        }
    }
    imported
}

fn one(
    source: &Source,
    server: &Found<'_>,
    found: &find::FoundAll<'_>,
    name: Option<&str>,
    secrets: &mut Secrets,
) -> Result<ImportedServer, String> {
    let shown = name.or(server.name).unwrap_or("an entry without a name");
    let failed = |text: String| format!("`{}`: {text}", crate::diagnostic::shown(shown));
    let mut draft = Draft::read(source, server, found).map_err(failed)?;
    draft.name = name.map(str::to_owned).or_else(|| draft.name.clone()).or_else(|| draft.derived_name());
    let Some(written) = draft.name.clone() else {
        return Err("this server has no name; give it one with --name".to_owned());
    };
    let valid =
        ServerName::new(written.clone()).ok().filter(|name| !crate::plan::sanitize(name.as_str()).contains("__"));
    let name = match valid.or_else(|| ServerName::nearest(&written)) {
        Some(name) => name,
        None => {
            return Err(failed(
                "nothing in this name can be in a server's name; rename it there, or import it alone with --name"
                    .to_owned(),
            ));
        }
    };
    if name.as_str() != written {
        draft.note(
            server.at,
            NoteKind::Changed,
            format!("`{}` is called `{name}`", crate::diagnostic::shown(&written)),
        );
    }
    let (entry, notes) = draft.finish(&name, secrets).map_err(failed)?;
    Ok(ImportedServer { name, entry, line: source.position(server.at).line, notes })
}

fn is_twin(a: &ImportedServer, b: &ImportedServer) -> bool {
    a.name == b.name && a.entry == b.entry
}

/// A second server of one name gets a number.
fn number(server: &mut ImportedServer, names: &mut BTreeSet<String>) {
    let written = server.name.clone();
    let numbered = (2..).map(|number| {
        // Room for the number in a name of full length.
        let head: String = written.as_str().chars().take(58).collect();
        format!("{}-{number}", head.trim_end_matches(['.', '_', '-']))
    });
    let names_of = std::iter::once(written.to_string()).chain(numbered);
    // Names that differ only in letter case are told apart, since hosts do.
    let free = names_of.into_iter().find(|name| names.insert(crate::plan::sanitize(name)));
    if let Some(name) = free.and_then(|name| ServerName::new(name).ok())
        && name != written
    {
        let text = format!("another server is called `{written}`; this one is called `{name}`");
        server.notes.push(Note { kind: NoteKind::Changed, line: server.line, text });
        if let Value::Map(entries) = &mut server.entry
            && let Some((_, value)) = entries.iter_mut().find(|(key, _)| key == "name")
        {
            *value = Value::text(name.as_str());
        }
        server.name = name;
    }
}
