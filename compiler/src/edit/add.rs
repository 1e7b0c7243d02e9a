//! One more entry at the end of a list, whatever the list looks like.

use crate::document::{Entry, Kind, Node};

use super::emit::flow;
use super::place::{self, column, line_end, line_start, next_line};
use super::{List, Original, Refused, Style, Value};

/// Adds `entry` to the list of that kind; the list is made where there is none.
///
/// # Errors
/// When the text can't be edited safely; it is to be left as it is then.
pub fn add(text: &str, list: List, entry: &Value) -> Result<String, Refused> {
    let original = Original::read(text)?;
    let root = original.document.as_ref().map(|document| &document.root);
    let found = root.and_then(|root| place::find(root, list));
    let path = found.map_or(list.paths()[0], |(path, _)| path);
    if let Some(root) = root {
        place::check_own(root, path)?;
        if place::in_braces(original.body, root) {
            return Err(Refused::Shape("the file is written in braces"));
        }
    }
    let candidates = match found {
        None => vec![new_key(&original, root, path[path.len() - 1], entry)],
        Some((_, key)) => to_list(&original, root, key, entry)?,
    };
    let expected = with(original.tree.clone(), path, entry);
    original.first_right(candidates, &expected).ok_or(Refused::Shape("the list is written in a way that isn't edited"))
}

/// The tree with the entry in it.
fn with(mut tree: Value, path: &[&str], entry: &Value) -> Value {
    let mut node = &mut tree;
    for (index, key) in path.iter().enumerate() {
        if node.get(key).is_none()
            && let Value::Map(entries) = node
        {
            let empty = if index + 1 == path.len() { Value::List(Vec::new()) } else { Value::Map(Vec::new()) };
            entries.push(((*key).to_owned(), empty));
        }
        match node.get_mut(key) {
            Some(next) => node = next,
            None => return tree,
        }
    }
    match node {
        Value::List(items) => items.push(entry.clone()),
        other => *other = Value::List(vec![entry.clone()]),
    }
    tree
}

/// A list of its own at the end of the file.
fn new_key(original: &Original<'_>, root: Option<&Node>, key: &str, entry: &Value) -> String {
    let body = original.body;
    let added = keyed(original, root, key, entry);
    let missing = if body.is_empty() || body.ends_with('\n') { "" } else { original.newline };
    format!("{body}{missing}{added}")
}

/// The key with a list of one entry, as whole lines.
pub(super) fn keyed(original: &Original<'_>, root: Option<&Node>, key: &str, entry: &Value) -> String {
    let body = original.body;
    let first = root.and_then(|root| root.entries().iter().find(|entry| entry.value.via.is_none()));
    let key_column = first.map_or(0, |entry| column(body, entry.key_at.start));
    let deeper = root.and_then(|root| place::list_indent(body, root)).unwrap_or(2);
    let item = Style::default().item(entry, key_column + deeper);
    original.lines(&format!("{}{key}:\n{item}", " ".repeat(key_column)))
}

fn to_list(original: &Original<'_>, root: Option<&Node>, key: &Entry, entry: &Value) -> Result<Vec<String>, Refused> {
    let body = original.body;
    match &key.value.kind {
        Kind::Null => Ok(vec![below_key(original, root, key, entry)?]),
        Kind::List(_) if place::in_brackets(body, &key.value) && place::has_comment(body, &key.value) => {
            Err(Refused::Shape("comments stand between the brackets of the list"))
        }
        Kind::List(items) if items.is_empty() => {
            let inside = replace(body, key.value.at.range(), &format!("[{}]", flow(entry, true)));
            Ok(vec![below_key(original, root, key, entry)?, inside])
        }
        Kind::List(items) if place::in_brackets(body, &key.value) => Ok(vec![in_brackets(original, key, items, entry)]),
        Kind::List(items) => behind_last(original, root, key, items, entry),
        _ => Err(Refused::Shape("the key holds something else than a list")),
    }
}

fn replace(body: &str, range: std::ops::Range<usize>, new: &str) -> String {
    format!("{}{new}{}", &body[..range.start], &body[range.end..])
}

/// `key:`, `key: null` or `key: []` becomes a block list; a comment behind the key, or before the value, stays there.
fn below_key(original: &Original<'_>, root: Option<&Node>, key: &Entry, entry: &Value) -> Result<String, Refused> {
    let body = original.body;
    let colon = place::colon(body, key).ok_or(Refused::Shape("no colon stands behind the key of the list"))?;
    let value = key.value.at;
    let rest_from = if value.start == value.end { colon + 1 } else { value.end };
    let rest = &body[rest_from..line_end(body, rest_from)];
    let after = next_line(body, rest_from);
    let key_column = column(body, key.key_at.start);
    let deeper = root.and_then(|root| place::list_indent(body, root)).unwrap_or(2);
    let item = original.lines(&Style::default().item(entry, key_column + deeper));
    // A comment or an anchor may stand before the value, and then both stay on their lines.
    let before = if value.start == value.end { "" } else { &body[colon + 1..value.start] };
    let head = match (before.trim().is_empty(), rest.trim().is_empty()) {
        (true, _) => format!("{}{}", &body[..=colon], rest.trim_end()),
        (false, true) => body[..value.start].trim_end().to_owned(),
        (false, false) => format!("{}{}", &body[..value.start], rest.trim()),
    };
    Ok(splice_lines(original, &head, &item, after))
}

/// `[a, b]` gets one more before the bracket.
fn in_brackets(original: &Original<'_>, key: &Entry, items: &[Node], entry: &Value) -> String {
    let body = original.body;
    let (first, last) = (&items[0], &items[items.len() - 1]);
    let own_lines = line_start(body, first.at.start) > key.value.at.start;
    let written = flow(entry, true);
    let added = if own_lines {
        format!(",{}{}{written}", original.newline, " ".repeat(column(body, first.at.start)))
    } else {
        format!(", {written}")
    };
    replace(body, last.at.end..last.at.end, &added)
}

/// One more item behind the last one; if that turns out wrong, before what follows the list.
fn behind_last(
    original: &Original<'_>,
    root: Option<&Node>,
    key: &Entry,
    items: &[Node],
    entry: &Value,
) -> Result<Vec<String>, Refused> {
    let body = original.body;
    let last = &items[items.len() - 1];
    let dash = place::dash(body, last).ok_or(Refused::Shape(
        "an anchor, a tag or a comment stands between the dash of the last entry and its first key",
    ))?;
    let style = place::style_of(body, items);
    let item = original.lines(&style.item(entry, column(body, dash)));
    let apart = if items.len() > 1 && place::blank_before(body, dash) { original.newline } else { "" };
    let item = format!("{apart}{item}");
    let at = place::item_end(body, last, dash);
    let follows = root.and_then(|root| next_key(root, key.value.at.end)).map_or(body.len(), |at| line_start(body, at));
    let both = [at, follows];
    Ok(both.into_iter().map(|at| splice_lines(original, &body[..at], &item, at)).collect())
}

/// The first key behind `at`.
fn next_key(node: &Node, at: usize) -> Option<usize> {
    let keys = node.entries().iter().filter(|entry| entry.value.via.is_none()).flat_map(|entry| {
        [Some(entry.key_at.start).filter(|start| *start >= at), next_key(&entry.value, at)].into_iter().flatten()
    });
    keys.min()
}

/// `head`, then whole lines, then the text from `after` on. Where the file's last line has no end, it gets one and the
/// new last line has none.
fn splice_lines(original: &Original<'_>, head: &str, lines: &str, after: usize) -> String {
    let rest = &original.body[after..];
    let ended = head.is_empty() || head.ends_with('\n');
    if !rest.is_empty() || original.body.ends_with('\n') {
        let newline = if ended { "" } else { original.newline };
        return format!("{head}{newline}{lines}{rest}");
    }
    let lines = lines.strip_suffix('\n').map_or(lines, |lines| lines.strip_suffix('\r').unwrap_or(lines));
    let newline = if ended { "" } else { original.newline };
    format!("{head}{newline}{lines}")
}
