//! Old spellings → one spelling, on the tree, before anything asks what a key means.
//!
//! Driven by one table. Spans stay, and [`Entry::written`] remembers the word as written, so a message names what
//! stands in the file.

use super::{Document, Entry, Kind, Node, Written};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, closest, shown};
use crate::source::Span;

/// One old spelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rename {
    /// The maps it applies to: keys joined by dots, `[]` for every item of a list, `*` for every value of a map; empty
    /// for the top level. For example `mcp_servers[]` or `agents.*`.
    pub at: &'static str,
    /// The old key, or a path of keys: `auth.headers`.
    pub from: &'static str,
    /// The new key, or a path of keys: `tools.include`. Maps on the way are made where they are missing.
    pub to: &'static str,
}

/// Moves every old spelling to its new place. Two spellings of one thing are reported with both places; the one that
/// was there first stays.
///
/// A map that existed only for an old spelling (`auth`) goes when it is empty; keys left in it are reported as unknown.
pub fn rename(document: &mut Document, table: &[Rename]) -> Vec<Diagnostic> {
    let mut diagnostics = Vec::new();
    for row in table {
        each(&mut document.root, &steps(row.at), &mut |map| apply(map, row, &mut diagnostics));
    }
    for row in table {
        let Some((parent, _)) = row.from.rsplit_once('.') else { continue };
        // A parent that some new spelling uses too belongs to the new shape.
        let lives_on = |other: &Rename| other.at == row.at && other.to.starts_with(&format!("{parent}."));
        if !table.iter().any(lives_on) {
            each(&mut document.root, &steps(row.at), &mut |map| left_over(map, row, parent, table, &mut diagnostics));
        }
    }
    diagnostics
}

/// Makes every plain text in the lists at `at` a map that holds it under `key`: `[github]` becomes
/// `[{ name: github }]`. The text keeps its place and is the place of the map and of the key too.
pub fn name_to_map(document: &mut Document, at: &str, key: &str) {
    each_node(&mut document.root, &steps(at), &mut |node| {
        if let Kind::String(_) = node.kind {
            let at = node.at;
            let value = std::mem::replace(node, Node::new(at, Kind::Null));
            let via = value.via;
            node.via = via;
            node.kind = Kind::Map(vec![Entry { key: key.to_owned(), key_at: at, written: None, value }]);
        }
    });
}

/// Makes a map of maps a list of them, each of which holds its old key under `key`: `{ github: { … } }` becomes
/// `[{ name: github, … }]`. Whether there was such a map; one that holds anything else stays as it is.
pub fn map_to_list(node: &mut Node, key: &str) -> bool {
    let Kind::Map(entries) = &mut node.kind else { return false };
    if entries.is_empty() || entries.iter().any(|entry| !matches!(entry.value.kind, Kind::Map(_))) {
        return false;
    }
    let items = std::mem::take(entries).into_iter().map(|entry| {
        let mut item = entry.value;
        if let Kind::Map(fields) = &mut item.kind
            && !fields.iter().any(|field| field.key == key)
        {
            let name = Node::new(entry.key_at, Kind::String(entry.key));
            fields.insert(0, Entry { key: key.to_owned(), key_at: entry.key_at, written: None, value: name });
        }
        item.at.start = item.at.start.min(entry.key_at.start);
        item
    });
    node.kind = Kind::List(items.collect());
    true
}

#[derive(Clone, Copy)]
enum Step<'a> {
    Key(&'a str),
    Items,
    Values,
}

fn steps(path: &str) -> Vec<Step<'_>> {
    let mut steps = Vec::new();
    for part in path.split('.').filter(|part| !part.is_empty()) {
        let key = part.trim_end_matches("[]");
        match key {
            "" => {}
            "*" => steps.push(Step::Values),
            key => steps.push(Step::Key(key)),
        }
        steps.extend(std::iter::repeat_n(Step::Items, (part.len() - key.len()) / 2));
    }
    steps
}

/// Calls `act` on the entries of every map that `steps` leads to.
fn each(node: &mut Node, steps: &[Step<'_>], act: &mut dyn FnMut(&mut Vec<Entry>)) {
    each_node(node, steps, &mut |node| {
        if let Kind::Map(entries) = &mut node.kind {
            act(entries);
        }
    });
}

fn each_node(node: &mut Node, steps: &[Step<'_>], act: &mut dyn FnMut(&mut Node)) {
    if steps.is_empty() {
        return act(node);
    }
    match (&mut node.kind, steps) {
        (Kind::Map(entries), [Step::Key(key), rest @ ..]) => {
            if let Some(entry) = entries.iter_mut().find(|entry| entry.key == *key) {
                each_node(&mut entry.value, rest, act);
            }
        }
        (Kind::Map(entries), [Step::Values, rest @ ..]) => {
            entries.iter_mut().for_each(|entry| each_node(&mut entry.value, rest, act));
        }
        (Kind::List(items), [Step::Items, rest @ ..]) => items.iter_mut().for_each(|item| each_node(item, rest, act)),
        _ => {}
    }
}

fn apply(map: &mut Vec<Entry>, row: &Rename, diagnostics: &mut Vec<Diagnostic>) {
    let from: Vec<_> = row.from.split('.').collect();
    let to: Vec<_> = row.to.split('.').collect();
    let Some(mut entry) = take(map, &from) else { return };
    entry.key = to.last().copied().unwrap_or_default().to_owned();
    entry.written = Some(Written { path: row.from.to_owned(), replaces: to.len() });
    put(map, &to, entry, row, diagnostics);
}

/// Takes the entry out; a map that is empty without it goes too.
fn take(map: &mut Vec<Entry>, path: &[&str]) -> Option<Entry> {
    let (first, rest) = path.split_first()?;
    let index = map.iter().position(|entry| entry.key == *first)?;
    if rest.is_empty() {
        return Some(map.remove(index));
    }
    let Kind::Map(inner) = &mut map[index].value.kind else { return None };
    let taken = take(inner, rest)?;
    if inner.is_empty() {
        map.remove(index);
    }
    Some(taken)
}

fn put(map: &mut Vec<Entry>, path: &[&str], entry: Entry, row: &Rename, diagnostics: &mut Vec<Diagnostic>) {
    let Some((first, rest)) = path.split_first() else { return };
    let found = map.iter().position(|other| other.key == *first);
    match (found, rest.is_empty()) {
        (None, true) => map.push(entry),
        (None, false) => {
            let mut inner = Vec::new();
            let (key_at, at) = (entry.key_at, Span { start: entry.key_at.start, ..entry.value.at });
            put(&mut inner, rest, entry, row, diagnostics);
            let at = if at.start <= at.end { at } else { key_at };
            let value = Node::new(at, Kind::Map(inner));
            map.push(Entry { key: (*first).to_owned(), key_at, written: None, value });
        }
        (Some(index), true) => {
            let other = &map[index];
            let name = other.written.as_ref().map_or(row.to, |written| &written.path);
            diagnostics.push(two_spellings((row.from, entry.key_at), (name, other.key_at)));
        }
        (Some(index), false) => {
            // Something else than a map stands in the way: the schema reports that, and this would only be noise.
            if let Kind::Map(inner) = &mut map[index].value.kind {
                put(inner, rest, entry, row, diagnostics);
            }
        }
    }
}

fn two_spellings(a: (&str, Span), b: (&str, Span)) -> Diagnostic {
    let (first, second) = if a.1 <= b.1 { (a, b) } else { (b, a) };
    let message = format!("`{}` and `{}` are two spellings of one thing", first.0, second.0);
    Diagnostic::new(Code::TwoSpellings, second.1, message)
        .label("written again here")
        .related(first.1, "first written here")
        .help("keep one of them")
}

fn left_over(map: &mut Vec<Entry>, row: &Rename, parent: &str, table: &[Rename], diagnostics: &mut Vec<Diagnostic>) {
    let Some(left) = take(map, &parent.split('.').collect::<Vec<_>>()) else { return };
    let known: Vec<_> = table
        .iter()
        .filter(|other| other.at == row.at)
        .filter_map(|other| other.from.strip_prefix(parent)?.strip_prefix('.'))
        .collect();
    let help = format!("known keys: {}", known.join(", "));
    let mut kept = Vec::new();
    for entry in left.value.entries() {
        if entry.key.starts_with("x-") {
            continue;
        }
        let mut problem = Diagnostic::new(
            Code::UnknownKey,
            entry.key_at,
            format!("unknown key `{}` in `{parent}`", shown(&entry.key)),
        );
        if let Some(meant) = closest(&entry.key, known.iter().copied()) {
            problem = problem.label(format!("did you mean `{meant}`?"));
        }
        kept.push(problem.help(help.clone()));
    }
    if !matches!(left.value.kind, Kind::Map(_)) {
        let message = format!("`{parent}` takes a map, this is {}", left.value.what());
        let at = if left.value.at.start == left.value.at.end { left.key_at } else { left.value.head() };
        kept.push(Diagnostic::new(Code::WrongType, at, message).help(help));
    }
    diagnostics.extend(kept);
}
