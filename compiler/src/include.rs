//! Several files → one document: a profile over the main file, fragments beside it, a host's own keys put aside. Who wins
//! is said here, once.
//!
//! Lowest first: builtin < fragment < main file < profile < plugin. Every node keeps the place it was written at, so that
//! a message about a merged value points into the file it came from.

mod host;

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::document::{Document, Entry, Kind, Node};

pub use host::{put_host_keys_aside, unread_section};

/// Lists that a profile adds to instead of replacing them.
const ADDED: [&str; 3] = ["mcp.denylist", "policy.deny", "tests"];
/// Lists of entries that a profile merges by `name`.
const BY_NAME: [&str; 3] = ["mcp_servers", "mcp.servers", "plugins"];
/// Two spellings of one thing that stay two up to the types, by where they stand.
const SPELLED_TWICE: [(&str, &str); 4] = [
    ("mcp.environment", "mcp.inherit_env"),
    ("prompt.budget", "progressive_mcp.budget_pct"),
    ("prompt.max_description_chars", "progressive_mcp.max_listing_chars_per_entry"),
    ("prompt.min_description_chars", "progressive_mcp.min_listing_chars_per_entry"),
];
/// The same in the entry of a server.
const SPELLED_TWICE_IN_ENTRY: [(&str, &str); 1] = [("environment", "inherit_env")];
/// Where a map is one value that can be said in several forms, and the keys of each form.
const BUDGET: &str = "prompt.budget";
const BUDGET_FORMS: [&[&str]; 3] = [&["chars"], &["tokens"], &["context", "percent"]];
/// What a fragment may hold.
const FRAGMENT: [&str; 5] = ["mcp_servers", "mcp_builtins", "mcp.denylist", "policy.deny", "tests"];
/// Every key that we know at the top level.
pub const TOP_LEVEL: [&str; 14] = [
    "version",
    "fragments",
    "mcp_servers",
    "mcp_builtins",
    "mcp",
    "policy",
    "agents",
    "prompt",
    "search",
    "serve",
    "skills",
    "plugins",
    "tests",
    "progressive_mcp",
];

/// Lays `over` on `base`: maps key by key, servers and plugins by name, the lists of rules added to, all else replaced.
/// Every value that is replaced is a note with both places.
pub fn overlay(base: &mut Document, mut over: Document) -> Vec<Diagnostic> {
    let mut notes = Vec::new();
    respell(&mut base.root, &over.root, &SPELLED_TWICE, &mut notes);
    merge_across(&mut base.root, &mut over.root, &mut notes);
    merge(&mut base.root, over.root, "", &mut notes);
    notes
}

/// What the profile says in one spelling replaces what the main file says in the other.
fn respell(base: &mut Node, over: &Node, pairs: &[(&str, &str)], notes: &mut Vec<Diagnostic>) {
    for (one, other) in pairs {
        for (here, there) in [(one, other), (other, one)] {
            let Some(new) = here.split('.').try_fold(over, |node, key| node.get(key)) else { continue };
            let Some(old) = take(base, there) else { continue };
            notes.push(
                Diagnostic::new(Code::Overridden, new.at, format!("`{here}` here replaces the main file's `{there}`"))
                    .related(old.at, "replaced"),
            );
        }
    }
}

/// Takes out what stands at a path of keys.
fn take(node: &mut Node, path: &str) -> Option<Node> {
    let Kind::Map(entries) = &mut node.kind else { return None };
    let (key, rest) = path.split_once('.').map_or((path, None), |(key, rest)| (key, Some(rest)));
    let index = entries.iter().position(|entry| entry.key == key)?;
    match rest {
        Some(rest) => take(&mut entries[index].value, rest),
        None => Some(entries.remove(index).value),
    }
}

/// Whether two budgets have nothing in common: one of them is to count, not a mixture.
fn is_other_form(base: &[Entry], over: &[Entry]) -> bool {
    let says = |entries: &[Entry], form: &[&str]| entries.iter().any(|entry| form.contains(&&*entry.key));
    let any = |entries: &[Entry]| BUDGET_FORMS.iter().any(|form| says(entries, form));
    any(base) && any(over) && !BUDGET_FORMS.iter().any(|form| says(base, form) && says(over, form))
}

/// Servers stand in either of two lists, and a name is one across both: what the profile says of a server that the main
/// file has in the other list is merged there.
fn merge_across(base: &mut Node, over: &mut Node, notes: &mut Vec<Diagnostic>) {
    for (here, there) in [("mcp_servers", "mcp.servers"), ("mcp.servers", "mcp_servers")] {
        let known: Vec<_> = list_at(base, here).into_iter().flatten().filter_map(|item| name_of(item)).collect();
        let (Some(items), Some(new)) = (list_at(base, there), list_at(over, here)) else { continue };
        for node in std::mem::take(new) {
            let name = name_of(&node).filter(|name| !known.contains(name));
            match items.iter_mut().find(|item| name.is_some() && name_of(item) == name) {
                Some(item) => merge_entry(item, node, notes),
                None => new.push(node),
            }
        }
    }
}

/// The list at a path of keys.
fn list_at<'n>(node: &'n mut Node, path: &str) -> Option<&'n mut Vec<Node>> {
    let found = path.split('.').try_fold(node, |node, key| match &mut node.kind {
        Kind::Map(entries) => entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.value),
        _ => None,
    })?;
    if let Kind::List(items) = &mut found.kind { Some(items) } else { None }
}

fn name_of(node: &Node) -> Option<String> {
    node.get("name").and_then(Node::text).map(str::to_owned)
}

fn merge(base: &mut Node, over: Node, path: &str, notes: &mut Vec<Diagnostic>) {
    if matches!(base.kind, Kind::Null) {
        *base = over;
        return;
    }
    match (&mut base.kind, over.kind) {
        (Kind::Map(entries), Kind::Map(new)) if path != BUDGET || !is_other_form(entries, &new) => {
            for entry in new {
                let below = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
                match entries.iter_mut().find(|old| old.key == entry.key) {
                    Some(old) => {
                        let new_at = entry.value.at;
                        merge(&mut old.value, entry.value, &below, notes);
                        if old.value.at == new_at {
                            // What is replaced whole has its key there too: a value that is missing is marked by it.
                            old.key_at = entry.key_at;
                        }
                    }
                    None => entries.push(entry),
                }
            }
        }
        (Kind::List(items), Kind::List(new)) if ADDED.contains(&path) => items.extend(new),
        (Kind::List(items), Kind::List(new)) if BY_NAME.contains(&path) => merge_by_name(items, new, notes),
        (kind, new) => {
            let what = path.rsplit('.').next().unwrap_or(path);
            notes.push(
                Diagnostic::new(Code::Overridden, over.at, format!("`{what}` here replaces the main file's"))
                    .related(base.at, "replaced"),
            );
            *kind = new;
            base.at = over.at;
            base.via = over.via;
        }
    }
}

fn merge_by_name(items: &mut Vec<Node>, new: Vec<Node>, notes: &mut Vec<Diagnostic>) {
    let mut seen: Vec<String> = Vec::new();
    for node in new {
        let name = name_of(&node);
        // A name that the profile has twice is no second layer, and is reported as two entries of one name.
        let again = name.as_ref().is_some_and(|name| seen.contains(name));
        match items.iter_mut().find(|item| name.is_some() && !again && name_of(item) == name) {
            // The entry's own lists and values are replaced: below a name no rule of addition holds.
            Some(item) => merge_entry(item, node, notes),
            None => items.push(node),
        }
        seen.extend(name);
    }
}

/// The same name is what made the two one, so it isn't replaced.
fn merge_entry(item: &mut Node, mut over: Node, notes: &mut Vec<Diagnostic>) {
    if let Kind::Map(entries) = &mut over.kind {
        entries.retain(|entry| entry.key != "name");
    }
    respell(item, &over, &SPELLED_TWICE_IN_ENTRY, notes);
    merge(item, over, "[]", notes);
}

/// Reports keys that a fragment may not hold, and leaves them out.
pub fn as_fragment(document: &mut Document) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let allowed = |path: &str| FRAGMENT.iter().any(|known| *known == path || known.starts_with(&format!("{path}.")));
    let Kind::Map(entries) = &mut document.root.kind else { return found };
    entries.retain_mut(|entry| {
        if entry.key.starts_with("x-") || FRAGMENT.contains(&entry.key.as_str()) {
            return true;
        }
        if !TOP_LEVEL.contains(&entry.key.as_str()) {
            // What nothing knows is for the schema to say, with the word that was meant.
            return true;
        }
        if !allowed(&entry.key) {
            found.push(not_in_fragment(entry, &entry.key));
            return false;
        }
        let section = entry.key.clone();
        if let Kind::Map(inner) = &mut entry.value.kind {
            inner.retain(|inner| {
                let path = format!("{section}.{}", inner.key);
                let kept = inner.key.starts_with("x-") || FRAGMENT.contains(&path.as_str());
                if !kept {
                    found.push(not_in_fragment(inner, &path));
                }
                kept
            });
        }
        true
    });
    found
}

fn not_in_fragment(entry: &Entry, path: &str) -> Diagnostic {
    Diagnostic::new(Code::NotInFragment, entry.key_at, format!("a fragment can't hold `{path}`")).help(format!(
        "move it to the main file; a fragment holds {}",
        FRAGMENT.map(|key| format!("`{key}`")).join(", ")
    ))
}

/// Whether a document holds nothing but what a fragment may hold.
pub fn looks_like_fragment(document: &Document) -> bool {
    let mut copy = document.clone();
    as_fragment(&mut copy).is_empty()
}

/// Where the profile of a config is: `config.yml` and `prod` → `config.prod.yml`.
pub fn profile_path(main: &str, profile: &str) -> String {
    let (directory, file) = main.rsplit_once('/').map_or(("", main), |(directory, file)| (directory, file));
    let slash = if directory.is_empty() && !main.starts_with('/') { "" } else { "/" };
    match file.rsplit_once('.') {
        Some((stem, ending)) => format!("{directory}{slash}{stem}.{profile}.{ending}"),
        None => format!("{directory}{slash}{file}.{profile}"),
    }
}

/// Whether the file at `path`, which is relative to the directory of `main`, is a profile of it.
pub fn is_profile(main: &str, path: &str) -> bool {
    let file = main.rsplit_once('/').map_or(main, |(_, file)| file);
    let (stem, ending) = file.rsplit_once('.').unwrap_or((file, ""));
    let name = path.strip_prefix(stem).and_then(|rest| rest.strip_prefix('.'));
    let name =
        name.and_then(|rest| if ending.is_empty() { Some(rest) } else { rest.strip_suffix(ending)?.strip_suffix('.') });
    name.is_some_and(|name| !name.is_empty() && !name.contains('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_schema_is_known_here() {
        let schema = crate::schema::checked_config();
        let keys = schema["properties"].as_object().expect("a map of keys");
        let mut expected: Vec<_> = keys.keys().map(String::as_str).collect();
        let mut known = TOP_LEVEL.to_vec();
        expected.sort_unstable();
        known.sort_unstable();
        assert_eq!(known, expected);
    }

    #[test]
    fn a_profile_lies_beside_its_config() {
        assert_eq!(profile_path("config.yml", "prod"), "config.prod.yml");
        assert_eq!(profile_path("a.b/config.yaml", "prod"), "a.b/config.prod.yaml");
        assert_eq!(profile_path("/x/config", "prod"), "/x/config.prod");
        for main in ["config.yml", "a.b/config.yaml", "/x/config"] {
            let profile = profile_path(main, "prod");
            let beside = profile.rsplit('/').next().unwrap();
            assert!(is_profile(main, beside), "{beside}");
            assert!(!is_profile(main, main.rsplit('/').next().unwrap()));
        }
        for other in [
            "config.json.bak",
            "other.prod.yml",
            "teams/config.prod.yml",
            "config.yml",
            "config..yml",
            "config.a/b.yml",
        ] {
            assert!(!is_profile("config.yml", other), "{other}");
        }
    }
}
