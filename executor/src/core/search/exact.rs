//! Names that a query holds as such.
//!
//! A pasted name must find its tool whatever the ranking thinks. A plain word in a sentence is no name: a third of
//! real queries hold one that names a tool which isn't meant.

use std::collections::{HashMap, HashSet};

use super::Document;

/// Names without case, `-`, `_` and space → the documents that bear them, by name.
#[derive(Debug, Default)]
pub(super) struct Names(HashMap<String, Vec<usize>>);

impl Names {
    /// `order` are indexes of `documents` in the order of their names.
    pub(super) fn new(documents: &[Document], order: &[usize]) -> Self {
        let mut names = HashMap::<String, Vec<usize>>::new();
        for &index in order {
            let document = &documents[index];
            let qualified = format!("{}{}", document.server, document.bare);
            for name in HashSet::from([fold(&document.bare), fold(&document.name), fold(&qualified)]) {
                if !name.is_empty() {
                    names.entry(name).or_default().push(index);
                }
            }
        }
        Self(names)
    }

    /// The documents whose names stand in `query`, in the order in which they stand there.
    pub(super) fn find(&self, query: &str) -> Vec<usize> {
        let mut found = Vec::new();
        let mut take = |name: &str| match self.0.get(&fold(name)) {
            Some(indexes) => {
                found.extend(indexes);
                true
            }
            None => false,
        };
        if !take(query.trim_matches(|c: char| c.is_whitespace() || QUOTES.contains(&c) || ".,;:!?".contains(c))) {
            let mut places: Vec<(usize, &str)> = tokens(query);
            places.extend(quoted(query));
            places.sort_unstable();
            for (_, name) in places {
                if !take(name) {
                    // `server/tool`, `tool:` and the like; each part has to look like a name by itself.
                    for part in name.split(['/', ':', '.', '#']).filter(|part| looks_like_a_name(part)) {
                        take(part);
                    }
                }
            }
        }
        let mut seen = HashSet::new();
        found.retain(|index| seen.insert(*index));
        found
    }
}

fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_') && !c.is_whitespace()).flat_map(char::to_lowercase).collect()
}

const QUOTES: [char; 8] = ['`', '"', '\'', '“', '”', '‘', '’', '„'];

/// Holds `_`, `-`, a digit, or a capital behind its first letter beside small ones.
fn looks_like_a_name(token: &str) -> bool {
    token.contains(|c: char| matches!(c, '_' | '-') || c.is_numeric())
        || (token.chars().skip(1).any(char::is_uppercase) && token.chars().any(char::is_lowercase))
}

/// Runs of what names are made of, with their places, that look like one.
fn tokens(query: &str) -> Vec<(usize, &str)> {
    let in_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '#');
    let mut found = Vec::new();
    let mut rest = query;
    while let Some(start) = rest.find(in_name) {
        let at = query.len() - rest.len() + start;
        let token = &rest[start..];
        let token = &token[..token.find(|c| !in_name(c)).unwrap_or(token.len())];
        rest = &rest[start + token.len()..];
        let name = token.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
        if looks_like_a_name(name) {
            found.push((at, name));
        }
    }
    found
}

/// What stands between two quotes of a kind, with its place. An apostrophe inside a word is no quote.
fn quoted(query: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (open, close) in [('`', '`'), ('"', '"'), ('\'', '\''), ('“', '”'), ('‘', '’'), ('„', '“')] {
        let mut from = 0;
        while let Some(start) = query[from..].find(open).map(|at| from + at) {
            let inside = start + open.len_utf8();
            let in_word = open == '\'' && query[..start].ends_with(char::is_alphanumeric);
            match query[inside..].find(close).map(|at| inside + at) {
                Some(end) if !in_word => {
                    found.push((start, &query[inside..end]));
                    from = end + close.len_utf8();
                }
                Some(_) => from = inside,
                None => break,
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(bare: &[&str]) -> Names {
        let documents: Vec<Document> = bare
            .iter()
            .map(|bare| Document {
                name: format!("mcp__srv__{bare}"),
                bare: (*bare).to_owned(),
                server: "srv".to_owned(),
                ..Document::default()
            })
            .collect();
        Names::new(&documents, &(0..bare.len()).collect::<Vec<_>>())
    }

    #[test]
    fn the_whole_query_names_a_tool_in_any_spelling() {
        let names = names(&["create_issue", "search"]);
        for query in ["create_issue", "Create Issue", "createIssue", "`create-issue`", " mcp__srv__create_issue. "] {
            assert_eq!(names.find(query), [0], "{query}");
        }
        assert_eq!(names.find("search"), [1]);
    }

    #[test]
    fn a_name_in_a_sentence_has_to_look_like_one_or_stand_in_quotes() {
        let names = names(&["list_directory", "search", "fetch2", "getWeather"]);
        assert_eq!(names.find("use getWeather, then srv/list_directory and fetch2!"), [3, 0, 2]);
        assert_eq!(names.find("call mcp__srv__search (or srv.list-directory)"), [1, 0]);
        assert!(names.find("search the web").is_empty(), "a plain word");
        assert!(names.find("don't SEARCH; it's done").is_empty());
        assert_eq!(names.find("call 'search' and \"list directory\""), [1, 0]);
        assert_eq!(names.find("don't call `search`"), [1]);
        assert!(names.find("the list directory").is_empty(), "two plain words");
    }

    #[test]
    fn odd_quotes_and_nothing_are_no_trouble() {
        let names = names(&["a_b"]);
        for query in ["", "'", "`", "''''", "“a_b", "ä'ö'ü_", "\"\"", "_", "-", "a_b`a_b"] {
            names.find(query);
        }
    }
}
