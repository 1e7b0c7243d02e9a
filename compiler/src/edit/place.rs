//! Where lists and their items stand in a text: lines, dashes, colons, comments.

use crate::document::{Entry, Kind, Node};

use super::{List, Refused, Style};

/// The entry of the first list of that kind, with its path.
pub(super) fn find(root: &Node, list: List) -> Option<(&'static [&'static str], &Entry)> {
    list.paths().iter().find_map(|path| Some((*path, at(root, path)?)))
}

/// The entry at a path of keys.
pub(super) fn at<'n>(root: &'n Node, path: &[&str]) -> Option<&'n Entry> {
    let (last, parents) = path.split_last()?;
    parents.iter().try_fold(root, |node, key| node.get(key))?.entry(last)
}

/// That nothing on the way to the list is brought by an alias or a merge key: an edit there would be one elsewhere.
pub(super) fn check_own(root: &Node, path: &[&str]) -> Result<(), Refused> {
    let mut node = root;
    for key in path {
        let Some(next) = node.get(key) else { return Ok(()) };
        if next.via.is_some() {
            return Err(Refused::Shape("the list comes from an alias or a merge key"));
        }
        node = next;
    }
    Ok(())
}

/// The first byte of the line of `at`.
pub(super) fn line_start(body: &str, at: usize) -> usize {
    body[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// One past the newline of the line of `at`, or the end of the text.
pub(super) fn next_line(body: &str, at: usize) -> usize {
    body[at..].find('\n').map_or(body.len(), |newline| at + newline + 1)
}

/// The end of the line of `at`, before its line end.
pub(super) fn line_end(body: &str, at: usize) -> usize {
    let end = body[at..].find('\n').map_or(body.len(), |newline| at + newline);
    if body[..end].ends_with('\r') && end > at { end - 1 } else { end }
}

/// How many characters stand before `at` on its line.
pub(super) fn column(body: &str, at: usize) -> usize {
    body[line_start(body, at)..at].chars().count()
}

/// The colon after a key.
pub(super) fn colon(body: &str, entry: &Entry) -> Option<usize> {
    let rest = &body[entry.key_at.end..];
    let blank = rest.len() - rest.trim_start().len();
    rest[blank..].starts_with(':').then_some(entry.key_at.end + blank)
}

/// The dash of a block list's item.
pub(super) fn dash(body: &str, item: &Node) -> Option<usize> {
    let before = body[..item.at.start].trim_end();
    let at = before.len().checked_sub(1)?;
    (before.ends_with('-') && body[line_start(body, at)..at].bytes().all(|byte| byte == b' ')).then_some(at)
}

/// Whether a list is written in brackets.
pub(super) fn in_brackets(body: &str, list: &Node) -> bool {
    body[list.at.range()].starts_with('[')
}

/// Whether a map is written in braces.
pub(super) fn in_braces(body: &str, map: &Node) -> bool {
    body[map.at.range()].starts_with('{')
}

/// Whether a comment stands between the brackets of a list or map.
pub(super) fn has_comment(body: &str, node: &Node) -> bool {
    let mut scalars = Vec::new();
    collect_scalars(node, &mut scalars);
    scalars.sort_unstable();
    let mut at = node.at.start;
    for (start, end) in scalars {
        if start >= at && body[at..start].contains('#') {
            return true;
        }
        at = at.max(end);
    }
    at < node.at.end && body[at..node.at.end].contains('#')
}

fn collect_scalars(node: &Node, out: &mut Vec<(usize, usize)>) {
    match &node.kind {
        Kind::List(items) => items.iter().for_each(|item| collect_scalars(item, out)),
        Kind::Map(entries) => entries.iter().for_each(|entry| {
            out.push((entry.key_at.start, entry.key_at.end));
            collect_scalars(&entry.value, out);
        }),
        _ => out.push((node.at.start, node.at.end)),
    }
}

/// Where an item of a block list ends: behind its last line, a comment on it, and comments that stand deeper than its
/// dash below it.
pub(super) fn item_end(body: &str, item: &Node, dash: usize) -> usize {
    let mut end = next_line(body, last_byte(item).unwrap_or(0).max(dash + 1).min(body.len()));
    let deeper = column(body, dash);
    while end < body.len() {
        let line = &body[end..next_line(body, end)];
        let text = line.trim_start_matches(' ');
        if !text.starts_with('#') || line.len() - text.len() <= deeper {
            break;
        }
        end += line.len();
    }
    end
}

/// Where the text of a node ends; `None` where it has none. The place of an empty value may lie beyond its line.
fn last_byte(node: &Node) -> Option<usize> {
    if node.at.start == node.at.end {
        return None;
    }
    match &node.kind {
        _ if node.via.is_some() => Some(node.at.end),
        Kind::Map(entries) => {
            let own = entries.iter().filter(|entry| entry.value.via.is_none_or(|via| via.end == entry.value.at.end));
            let inside = own.map(|entry| last_byte(&entry.value).unwrap_or(0).max(entry.key_at.end)).max();
            inside.map(|inside| inside.max(closed(node)))
        }
        Kind::List(items) => Some(items.iter().filter_map(last_byte).max().unwrap_or(0).max(closed(node))),
        _ => Some(node.at.end),
    }
}

/// The end of a list or map in brackets; a block has no end of its own.
fn closed(node: &Node) -> usize {
    let last = match &node.kind {
        Kind::Map(entries) => entries.iter().map(|entry| entry.value.at.end.max(entry.key_at.end)).max(),
        Kind::List(items) => items.iter().map(|item| item.at.end).max(),
        _ => None,
    };
    if last.is_none_or(|last| last < node.at.end) { node.at.end } else { 0 }
}

/// Whether the line before the one of `at` is blank.
pub(super) fn blank_before(body: &str, at: usize) -> bool {
    let start = line_start(body, at);
    start > 0 && body[line_start(body, start - 1)..start].trim().is_empty()
}

/// How the items of a block list are written.
pub(super) fn style_of(body: &str, items: &[Node]) -> Style {
    let mut style = Style::default();
    let mut brackets = false;
    for item in items {
        let Some(dash) = dash(body, item) else { continue };
        if line_start(body, dash) == line_start(body, item.at.start) && item.at.start > dash + 1 {
            style.gap = item.at.start - dash - 1;
        }
        for entry in item.entries().iter().filter(|entry| entry.value.via.is_none()) {
            let (key, value) = (column(body, entry.key_at.start), &entry.value);
            let own_line = line_start(body, value.at.start) > entry.key_at.start;
            match &value.kind {
                Kind::Map(inner) if own_line && !inner.is_empty() => {
                    style.indent = column(body, value.at.start).saturating_sub(key).max(1);
                }
                Kind::List(inner) if !inner.is_empty() => {
                    let dashes = own_line && !in_brackets(body, value);
                    brackets |= !dashes;
                    style.dashes |= dashes;
                    if let (true, Some(at)) = (dashes, inner.first().and_then(|first| self::dash(body, first))) {
                        style.list_indent = column(body, at).saturating_sub(key);
                    }
                }
                _ => {}
            }
        }
    }
    // Where both are seen, dashes are for the long ones.
    Style { dashes: style.dashes && !brackets, ..style }
}

/// Spaces that dashes stand deeper than their key, as the first block list of the file has it.
pub(super) fn list_indent(body: &str, root: &Node) -> Option<usize> {
    root.entries().iter().find_map(|entry| match &entry.value.kind {
        Kind::List(items) if !in_brackets(body, &entry.value) && entry.value.via.is_none() => {
            let dash = dash(body, items.first()?)?;
            column(body, dash).checked_sub(column(body, entry.key_at.start))
        }
        Kind::Map(_) => list_indent(body, &entry.value),
        _ => None,
    })
}
