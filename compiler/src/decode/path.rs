//! Where in a document a schema error is, and how that place is called: `timeout_seconds` in `mcp_servers[2]` (github).

use std::collections::HashMap;

use jsonschema::paths::{Location, LocationSegment};

use crate::diagnostic::shown;
use crate::document::{Document, Entry, Node};

/// One step from a value to one inside of it.
#[derive(Clone, Copy)]
pub(super) enum Step<'d> {
    Key(&'d Entry),
    Item(usize, &'d Node),
}

/// A value and the way to it.
pub(super) struct Place<'d> {
    pub(super) node: &'d Node,
    pub(super) steps: Vec<Step<'d>>,
}

/// Finds places in constant time per step, however wide a map is.
pub(super) struct Finder<'d> {
    document: &'d Document,
    wide: HashMap<*const Entry, HashMap<&'d str, &'d Entry>>,
}

impl<'d> Finder<'d> {
    pub(super) fn new(document: &'d Document) -> Self {
        Self { document, wide: HashMap::new() }
    }

    /// The outermost value.
    pub(super) fn root(&self) -> &'d Node {
        &self.document.root
    }

    /// The place of an instance path. A path of another document leads to the last place that this one has.
    pub(super) fn find(&mut self, path: &Location) -> Place<'d> {
        let mut place = Place { node: &self.document.root, steps: Vec::new() };
        for segment in path.segments() {
            let step = match segment {
                LocationSegment::Property(key) => self.entry(place.node, &key).map(Step::Key),
                // A key of digits looks like an index.
                LocationSegment::Index(index) => match place.node.items().get(index) {
                    Some(item) => Some(Step::Item(index, item)),
                    None => self.entry(place.node, &index.to_string()).map(Step::Key),
                },
            };
            let Some(step) = step else { break };
            place.node = match step {
                Step::Key(entry) => &entry.value,
                Step::Item(_, item) => item,
            };
            place.steps.push(step);
        }
        place
    }

    /// The entry of `key` in a map.
    pub(super) fn entry(&mut self, node: &'d Node, key: &str) -> Option<&'d Entry> {
        const WIDE: usize = 32;
        let entries = node.entries();
        if entries.len() < WIDE {
            return node.entry(key);
        }
        let index = self.wide.entry(entries.as_ptr());
        index.or_insert_with(|| entries.iter().map(|entry| (entry.key.as_str(), entry)).collect()).get(key).copied()
    }
}

impl<'d> Place<'d> {
    /// The entry whose value this is, unless it is an item of a list or the root.
    pub(super) fn entry(&self) -> Option<&'d Entry> {
        match self.steps.last() {
            Some(Step::Key(entry)) => Some(entry),
            _ => None,
        }
    }

    /// The last key on the way, as the schema knows it.
    pub(super) fn key(&self) -> &'d str {
        self.steps
            .iter()
            .rev()
            .find_map(|step| if let Step::Key(entry) = step { Some(&*entry.key) } else { None })
            .unwrap_or("")
    }

    /// The value itself: `timeout_seconds` in `mcp_servers[2]` (github).
    pub(super) fn subject(&self) -> String {
        // The last key takes the indexes after it along: `args[1]`.
        let Some(key) = self.steps.iter().rposition(|step| matches!(step, Step::Key(_))) else {
            return match path(&self.steps) {
                path if path.is_empty() => "the file".to_owned(),
                path => format!("`{path}`"),
            };
        };
        let (outer, inner) = split_written(&self.steps, key);
        if outer.is_empty() { format!("`{inner}`") } else { format!("`{}` in `{}`{}", inner, path(outer), name(outer)) }
    }

    /// The map whose keys are meant: ` in `mcp_servers[2]` (github)`, or ` at the top level`.
    pub(super) fn inside(&self) -> String {
        if self.steps.is_empty() {
            return " at the top level".to_owned();
        }
        format!(" in `{}`{}", path(&self.steps), name(&self.steps))
    }
}

/// Splits before the key at `key`; an old spelling of several keys stays whole.
fn split_written<'a, 'd>(steps: &'a [Step<'d>], key: usize) -> (&'a [Step<'d>], String) {
    let replaced = match steps[key] {
        Step::Key(Entry { written: Some(written), .. }) => written.replaces - 1,
        _ => 0,
    };
    let start = key - replaced.min(key);
    (&steps[..start], path(&steps[start..]))
}

/// The way as written: keys joined by dots, `[n]` for items.
fn path(steps: &[Step<'_>]) -> String {
    let mut parts: Vec<String> = Vec::new();
    for step in steps {
        match step {
            Step::Key(entry) => match &entry.written {
                Some(written) => {
                    parts.truncate(parts.len().saturating_sub(written.replaces - 1));
                    parts.push(written.path.clone());
                }
                None => parts.push(shown(&entry.key).into_owned()),
            },
            Step::Item(index, _) => match parts.last_mut() {
                Some(last) => *last += &format!("[{index}]"),
                None => parts.push(format!("[{index}]")),
            },
        }
    }
    parts.join(".")
}

/// ` (github)` for the innermost list entry on the way that has a name.
fn name(steps: &[Step<'_>]) -> String {
    let named = steps.iter().rev().find_map(|step| match step {
        Step::Item(_, item) => item.get("name")?.text(),
        Step::Key(_) => None,
    });
    named.map_or_else(String::new, |name| format!(" ({})", shown(name)))
}
