//! Another program's file, which holds its own keys beside ours: which are ours, and which are let be.

use crate::code::Code;
use crate::config::spelling::SPELLINGS;
use crate::diagnostic::{Diagnostic, closest};
use crate::document::{self, Document, Entry, Kind, Node};

use super::TOP_LEVEL;

/// What is ours at the top level of another program's file.
const HOST: [&str; 4] = ["mcp", "mcp_servers", "mcp_builtins", "progressive_mcp"];
/// Where our other sections stand in another program's file.
const SECTION: &str = "x-mcplan";

/// Another program's file: our sections stay, those under `x-mcplan` come up, the rest goes, unless it looks like a
/// typing error of ours.
pub fn put_host_keys_aside(document: &mut Document) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let Kind::Map(entries) = &mut document.root.kind else { return found };
    let (mut ours, mut sections) = (Vec::<Entry>::new(), Vec::new());
    for entry in std::mem::take(entries) {
        if HOST.contains(&entry.key.as_str()) {
            ours.push(entry);
        } else if entry.key == SECTION {
            match entry.value.kind {
                Kind::Map(inner) => sections = inner,
                _ => found.push(no_section(&entry)),
            }
        } else if let Some(close) = meant(&entry) {
            found.push(
                Diagnostic::new(
                    Code::UnknownKey,
                    entry.key_at,
                    format!("unknown key `{}` at the top level", entry.key),
                )
                .meant(close)
                .help("other programs' keys are let be with --host-keys, this one looks like a typing error of ours"),
            );
        } else if TOP_LEVEL.contains(&entry.key.as_str()) {
            found.push(
                Diagnostic::new(
                    Code::HostKey,
                    entry.key_at,
                    format!("`{}` belongs to the host here and is not read", entry.key),
                )
                .help(format!("our own `{}` stands under `{SECTION}:` in another program's file", entry.key)),
            );
        }
    }
    for section in sections {
        match ours.iter().find(|entry| entry.key == section.key) {
            Some(other) => found.push(
                Diagnostic::new(
                    Code::DuplicateKey,
                    section.key_at,
                    format!("`{}` stands at the top level and under `{SECTION}`", section.key),
                )
                .related(other.key_at, "at the top level")
                .help("keep one of the two: at the top level of another program's file it is ours too"),
            ),
            None => ours.push(section),
        }
    }
    *entries = ours;
    // What came up may be spelled in the old way too.
    found.extend(document::rename(document, SPELLINGS));
    found
}

/// The key of ours that one of the host's was probably meant to be.
fn meant(entry: &Entry) -> Option<&'static str> {
    closest(&entry.key, HOST)
        .or_else(|| closest(&entry.key, [SECTION]).filter(|_| first_of_ours(&entry.value).is_some()))
}

fn no_section(entry: &Entry) -> Diagnostic {
    match entry.value.kind {
        Kind::Null => Diagnostic::new(
            Code::MissingValue,
            entry.key_at,
            format!("`{SECTION}` takes a map, and nothing is written after it"),
        )
        .label("nothing follows")
        .help("write our own sections below it, such as `policy:`, or remove the key"),
        _ => Diagnostic::new(
            Code::WrongType,
            entry.value.at,
            format!("`{SECTION}` takes a map, this is {}", entry.value.what()),
        )
        .label("should be a map")
        .help("write our own sections below it, such as `policy:`"),
    }
}

/// What stands under `x-mcplan` in a file that isn't read as another program's. A denial that is written there must not
/// be lost in silence.
pub fn unread_section(document: &Document, help: &str) -> Option<Diagnostic> {
    let entry = document.root.entries().iter().find(|entry| entry.key == SECTION)?;
    let first = first_of_ours(&entry.value)?;
    Some(
        Diagnostic::new(Code::HostSection, entry.key_at, format!("`{}` under `{SECTION}` is not read here", first.key))
            .related(first.key_at, "this is left out")
            .help(help),
    )
}

/// The first entry that is a section of ours, or was probably meant to be one.
fn first_of_ours(section: &Node) -> Option<&Entry> {
    let is_ours = |entry: &&Entry| TOP_LEVEL.contains(&&*entry.key) || closest(&entry.key, TOP_LEVEL).is_some();
    section.entries().iter().find(is_ours)
}
