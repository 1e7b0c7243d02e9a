//! What a server says now against what was locked: each change as data, with a class, and what it leads to.
//!
//! The rules are mechanical. Digests that are equal end the comparison at once, so it can run at every connect and
//! every `list_changed`.

mod compare;
mod fields;
mod pair;
mod phrases;
mod rule;
mod schema;
mod signs;
mod verdict;
mod wording;

pub use compare::{Found, changes};
pub use phrases::PHRASES;
pub use rule::{Class, Rule};
pub use verdict::{Verdict, verdict};

use std::fmt;

use serde::{Serialize, Serializer};
use serde_json::Value;

use super::words;
use crate::hidden::visible;
use crate::name::ServerName;
use crate::plan::NameTable;

/// What changed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(tag = "kind", content = "name", rename_all = "snake_case")]
pub enum Item {
    /// The server itself: its introduction, its instructions, whether it offers resources.
    Server,
    /// A tool, by the server's own name for it.
    Tool(String),
    /// A prompt, by the server's own name for it.
    Prompt(String),
    /// A resource template, by its URI template.
    ResourceTemplate(String),
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server => f.write_str("the server"),
            Self::Tool(name) => write!(f, "tool `{}`", visible(name)),
            Self::Prompt(name) => write!(f, "prompt `{}`", visible(name)),
            Self::ResourceTemplate(uri) => write!(f, "resource template `{}`", visible(uri)),
        }
    }
}

/// One difference between what is locked and what a server says now.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What changed.
    pub item: Item,
    /// Which kind of change it is.
    pub rule: Rule,
    /// JSON pointer in the item as it is found, or as it is locked for what is gone; empty is the whole.
    pub at: String,
    /// What is locked; `None` where nothing is.
    pub locked: Option<Value>,
    /// What the server says; `None` where it says nothing. For a suspicious text: what makes it one.
    pub found: Option<Value>,
}

impl Change {
    /// The class of its rule.
    pub fn class(&self) -> Class {
        self.rule.class()
    }
}

impl Serialize for Change {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Written<'a> {
            item: &'a Item,
            rule: Rule,
            class: Class,
            at: &'a str,
            #[serde(skip_serializing_if = "Option::is_none")]
            locked: Option<&'a Value>,
            #[serde(skip_serializing_if = "Option::is_none")]
            found: Option<&'a Value>,
        }
        Written {
            item: &self.item,
            rule: self.rule,
            class: self.class(),
            at: &self.at,
            locked: self.locked.as_ref(),
            found: self.found.as_ref(),
        }
        .serialize(serializer)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meaning = self.rule.meaning().trim_end_matches('.');
        let (first, rest) = meaning.split_at(meaning.chars().next().map_or(0, char::len_utf8));
        write!(f, "{}: {}{rest} ({}, {})", self.item, first.to_lowercase(), self.class().as_str(), self.rule)?;
        if self.at.is_empty() {
            // The whole item came or went: its name says all.
            return match (&self.rule, &self.found) {
                (Rule::ToolUnusable, Some(reason)) => write!(f, ": {}", short(reason)),
                _ => Ok(()),
            };
        }
        write!(f, " at {}", visible(&self.at))?;
        match (&self.locked, &self.found) {
            (Some(Value::String(locked)), Some(Value::String(found))) if self.rule.is_of_text() => {
                let parts = words::parts(locked, found);
                write!(f, ": {}", cut(&words::render(&parts, AROUND), LONGEST_TEXT))
            }
            (Some(locked), Some(found)) => write!(f, ": locked {}, now {}", short(locked), short(found)),
            (Some(locked), None) => write!(f, ": locked {}, now nothing", short(locked)),
            (None, Some(found)) if self.class() == Class::Suspicious => write!(f, ": {}", short(found)),
            (None, Some(found)) => write!(f, ": now {}", short(found)),
            (None, None) => Ok(()),
        }
    }
}

/// What is shown of an unchanged stretch beside a changed word, in characters.
const AROUND: usize = 20;
/// Most that is shown of a changed text, in characters.
const LONGEST_TEXT: usize = 300;
/// Most that is shown of a value, in characters.
const LONGEST_VALUE: usize = 100;

/// A value on one line.
fn short(value: &Value) -> String {
    cut(&visible(&value.to_string()), LONGEST_VALUE)
}

fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// What has to be known besides the server's own words.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Whose words are looked at.
    pub server: &'a ServerName,
    /// The exposed names of all servers' tools. A text that gains one of another server's is suspicious.
    pub names: &'a NameTable,
}

/// A change before it is known of what.
#[derive(Clone, Debug)]
struct Note {
    rule: Rule,
    at: String,
    locked: Option<Value>,
    found: Option<Value>,
}

/// The JSON pointer of what stands under `key` at `at`.
fn below(at: &str, key: &str) -> String {
    format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"))
}
