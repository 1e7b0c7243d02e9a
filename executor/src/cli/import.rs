//! `mcplan import`: servers from another client's configuration.

use std::collections::BTreeSet;
use std::io::Read as _;

use clap::Args;
use mcplan_compiler::document;
use mcplan_compiler::edit::{self, List};
use mcplan_compiler::import::{self, ImportedServer, Note, NoteKind};
use mcplan_compiler::render::{self, Human};
use mcplan_compiler::source::SourceMap;

use super::disk::why;
use super::edited::Edited;
use super::project::Which;
use super::report::{self, CouldNot, Outcome};

/// Add the servers of another client's configuration to the config
#[derive(Debug, Args)]
pub(super) struct Import {
    /// The file: JSON, TOML or YAML of any client; `-` reads stdin
    file: String,
    /// What the server is called, where the file doesn't say
    #[arg(long)]
    name: Option<String>,
    /// Write nothing, print the difference
    #[arg(long)]
    dry_run: bool,
}

/// What became of one server.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Became {
    Added,
    /// One of that name is there already.
    Known,
    LeftOut,
}

impl Import {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let mut edited = match Edited::open(which)? {
            Ok(edited) => edited,
            Err(outcome) => return Ok(outcome),
        };
        let read_before = edit::variables(edited.text()).unwrap_or_default();
        let shown = if self.file == "-" { "stdin" } else { &self.file };
        let bytes = self.read()?;
        let mut texts = SourceMap::default();
        let (id, problem) = document::read(&mut texts, shown, &bytes);
        if let Some(problem) = problem {
            report::to_stderr(render::human(&[problem], &texts, Human { styled: true, ..Human::default() }));
            return Ok(Outcome::CouldNotFindOut);
        }
        let imported = import::import(&texts.get(id).text, shown, self.name.as_deref());
        imported.notes.iter().for_each(|note| tell(shown, note));
        let became: Vec<_> =
            imported.servers.iter().map(|server| add(&mut edited, server, shown, &read_before)).collect();
        for problem in &imported.problems {
            report::error(format_args!("{shown}:{}: {}", problem.line, problem.text));
        }
        edited.finish(self.dry_run)?;
        let count = |wanted| became.iter().filter(|one| **one == wanted).count();
        let config = edited.path().display();
        let would = if self.dry_run { "would be added" } else { "added" };
        match became.len() + imported.problems.iter().filter(|problem| problem.of_entry).count() {
            0 => report::note(format_args!("no server is added to {config}")),
            servers => {
                report::note(format_args!("{} of {} {would} to {config}", count(Became::Added), plural(servers)))
            }
        }
        let fine = imported.problems.is_empty() && count(Became::LeftOut) == 0;
        Ok(if fine { Outcome::Fine } else { Outcome::DoesNotHold })
    }

    fn read(&self) -> Result<Vec<u8>, CouldNot> {
        let read = if self.file == "-" {
            let mut bytes = Vec::new();
            std::io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            std::fs::read(&self.file)
        };
        read.map_err(|error| CouldNot::new(format!("{} can't be read: {}", self.file, why(&error))))
    }
}

/// Adds one server and tells what was done with it.
fn add(edited: &mut Edited, server: &ImportedServer, shown: &str, read_before: &BTreeSet<String>) -> Became {
    let name = server.name.as_str();
    if edit::names(edited.text()).is_ok_and(|names| names.iter().any(|other| other == name)) {
        report::warning(format_args!("{shown}:{}: `{name}` is in the config already; it is skipped", server.line));
        return Became::Known;
    }
    match edited.add(List::Servers, &server.entry) {
        Ok(()) => {
            report::note(format_args!("{shown}:{}: `{name}`", server.line));
            server.notes.iter().for_each(|note| tell(shown, note));
            for (line, variable) in server.notes.iter().filter_map(of_variable) {
                if read_before.contains(variable) {
                    report::note(format_args!(
                        "  note: {shown}:{line}: `${{{variable}}}` was in {} already: if this is to be another value, call \
                         the variable otherwise here",
                        edited.path().display()
                    ));
                }
            }
            Became::Added
        }
        Err(why) => {
            let pasted = edited.to_paste(List::Servers, &server.entry);
            why.tell(&format!("{shown}:{}: `{name}` is not added", server.line), Some(pasted));
            server.notes.iter().for_each(|note| tell(shown, note));
            Became::LeftOut
        }
    }
}

/// The variable that a note says is to be set.
fn of_variable(note: &Note) -> Option<(usize, &String)> {
    match &note.kind {
        NoteKind::Set(variable) => Some((note.line, variable)),
        NoteKind::Changed | NoteKind::Lost => None,
    }
}

/// One line of the report.
pub(super) fn tell(shown: &str, note: &Note) {
    let text = format!("{shown}:{}: {}", note.line, note.text);
    match note.kind {
        NoteKind::Changed | NoteKind::Set(_) => report::note(format_args!("  note: {text}")),
        NoteKind::Lost => report::note(format_args!("  left out: {text}")),
    }
}

fn plural(servers: usize) -> String {
    format!("{servers} server{}", if servers == 1 { "" } else { "s" })
}
