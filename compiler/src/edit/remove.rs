//! One entry out of its list, with the comments inside it and no others.

use std::borrow::Cow;

use crate::config::{ServerEntry, Text};
use crate::diagnostic::closest;
use crate::document::{Entry, Node};
use crate::resolve::derive_name;
use crate::source::Spanned;

use super::place::{self, line_start};
use super::{List, Original, Refused, Value};

/// What removing gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The new text.
    pub text: String,
    /// What was taken out.
    pub entry: Value,
    /// The path of the list that it stood in, such as `mcp.servers`.
    pub from: String,
}

/// Removes the entry that is called `name` from the list that holds it.
///
/// # Errors
/// When there is no such entry or the text can't be edited safely; it is to be left as it is then.
pub fn remove(text: &str, name: &str) -> Result<Removed, Refused> {
    let original = Original::read(text)?;
    let empty = Refused::NoEntry { name: name.to_owned(), meant: None };
    let root = &original.document.as_ref().ok_or(empty)?.root;
    let paths = [List::Servers, List::Builtins].into_iter().flat_map(List::paths);
    let lists: Vec<_> = paths.filter_map(|path| Some((*path, place::at(root, path)?))).collect();
    let named = lists.iter().flat_map(|(path, key)| {
        key.value.items().iter().enumerate().filter_map(move |(index, item)| Some((*path, *key, index, name_of(item)?)))
    });
    let named: Vec<_> = named.collect();
    let mut right = named.iter().filter(|(.., written)| *written == name);
    let Some((path, key, index, _)) = right.next() else {
        let meant = closest(name, named.iter().map(|(.., written)| &**written)).map(str::to_owned);
        return Err(Refused::NoEntry { name: name.to_owned(), meant });
    };
    let others = right.count();
    if others > 0 {
        return Err(Refused::Several { name: name.to_owned(), count: others + 1 });
    }
    place::check_own(root, path)?;
    let entry = Value::from(&key.value.items()[*index]);
    let expected = without(original.tree.clone(), path, *index);
    let candidates = candidates(&original, key, *index)?;
    let text = original
        .first_right(candidates, &expected)
        .ok_or(Refused::Shape("the entry is written in a way that isn't edited"))?;
    Ok(Removed { text, entry, from: path.join(".") })
}

/// The names of all entries that are written in this file, in order.
///
/// # Errors
/// When the text can't be read.
pub fn names(text: &str) -> Result<Vec<String>, Refused> {
    let original = Original::read(text)?;
    let root = original.document.as_ref().map(|document| &document.root);
    let paths = [List::Servers, List::Builtins].into_iter().flat_map(List::paths);
    let items = paths.filter_map(|path| place::at(root?, path)).flat_map(|key| key.value.items());
    Ok(items.filter_map(name_of).map(Cow::into_owned).collect())
}

/// The name of an item: of a server, or of a builtin, which may be known under another one. A server without a name has
/// the one that compiling derives.
fn name_of(item: &Node) -> Option<Cow<'_, str>> {
    let written = item.text().or_else(|| item.get("as")?.text()).or_else(|| item.get("name")?.text());
    written.map(Cow::from).or_else(|| {
        let text = |node: &Node| Some(Spanned::new(node.text()?.to_owned(), node.at));
        let args = item.get("args").map(Node::items).unwrap_or_default();
        let args = args.iter().filter_map(|arg| Some(Spanned::new(Text(arg.text()?.to_owned()), arg.at)));
        let entry = ServerEntry {
            command: item.get("command").and_then(text),
            args: Some(Spanned::new(args.collect(), item.at)),
            url: item.get("url").and_then(text),
            ..ServerEntry::default()
        };
        Some(derive_name(&entry)?.to_string().into())
    })
}

fn without(mut tree: Value, path: &[&str], index: usize) -> Value {
    let list = path.iter().try_fold(&mut tree, |node, key| node.get_mut(key));
    if let Some(Value::List(items)) = list {
        items.remove(index);
    }
    tree
}

fn candidates(original: &Original<'_>, key: &Entry, index: usize) -> Result<Vec<String>, Refused> {
    let body = original.body;
    let items = key.value.items();
    if place::in_brackets(body, &key.value) {
        if place::has_comment(body, &key.value) {
            return Err(Refused::Shape("comments stand between the brackets of the list"));
        }
        return Ok(vec![out_of_brackets(body, key, items, index)]);
    }
    let item = &items[index];
    let dash = place::dash(body, item)
        .ok_or(Refused::Shape("an anchor, a tag or a comment stands between its dash and its first key"))?;
    let (start, end) = (line_start(body, dash), place::item_end(body, item, dash));
    if let [_] = items {
        return empty_list(original, key, start, end);
    }
    let mut ranges = Vec::new();
    // Of two blank lines that would meet, one goes too.
    let blank_after = body[end..].lines().next().is_none_or(|line| line.trim().is_empty());
    if place::blank_before(body, dash) && blank_after {
        ranges.push(line_start(body, start - 1)..end);
    }
    ranges.push(start..end);
    let cut = |range: std::ops::Range<usize>| {
        let rest = &body[range.end..];
        let mut head = &body[..range.start];
        // A last line without an end leaves none behind either.
        if rest.is_empty() && !body.ends_with('\n') {
            head = head.strip_suffix('\n').map_or(head, |head| head.strip_suffix('\r').unwrap_or(head));
        }
        format!("{head}{rest}")
    };
    Ok(ranges.into_iter().map(cut).collect())
}

/// A list in brackets loses one item and one comma.
fn out_of_brackets(body: &str, key: &Entry, items: &[Node], index: usize) -> String {
    let (start, end) = match (items.get(index.wrapping_sub(1)), items.get(index + 1)) {
        (_, Some(next)) => (items[index].at.start, next.at.start),
        (Some(previous), None) => (previous.at.end, items[index].at.end),
        // Alone: a comma behind it goes too.
        (None, None) => (key.value.at.start + 1, key.value.at.end - 1),
    };
    format!("{}{}", &body[..start], &body[end..])
}

/// Without its only item a list is written `[]`, since a key with nothing behind it would be an error.
///
/// A comment may follow the key, or an anchor, which has to stand before the brackets.
fn empty_list(original: &Original<'_>, key: &Entry, start: usize, end: usize) -> Result<Vec<String>, Refused> {
    let body = original.body;
    let colon = place::colon(body, key).ok_or(Refused::Shape("no colon stands behind the key of the list"))?;
    let rest = &body[end..];
    let mut between = &body[colon + 1..start];
    if rest.is_empty() && !body.ends_with('\n') {
        between = between.strip_suffix('\n').map_or(between, |head| head.strip_suffix('\r').unwrap_or(head));
    }
    let (anchor, blank) = between.split_at(between.trim_end().len());
    let head = &body[..=colon];
    Ok(vec![format!("{head} []{between}{rest}"), format!("{head}{anchor} []{blank}{rest}")])
}
