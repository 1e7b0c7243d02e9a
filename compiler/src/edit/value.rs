//! What a text says, without where it says it: what edits compare and what they write.

use crate::document::{Kind, Node};

/// A value of a config. Equality is what "the same tree" means: order counts, spelling of quotes and space doesn't.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as written.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// A map, in the order written.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// A text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A list of texts.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::List(texts.into_iter().map(Self::text).collect())
    }

    /// The value of `key`, if this is a map that holds it.
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Map(entries) => entries.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    /// The text, if it is one.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Hands every text in it to `see`.
    pub(super) fn visit(&self, see: &mut impl FnMut(&str)) {
        match self {
            Self::Text(text) => see(text),
            Self::List(items) => items.iter().for_each(|item| item.visit(see)),
            Self::Map(entries) => entries.iter().for_each(|(_, value)| value.visit(see)),
            Self::Null | Self::Bool(_) | Self::Number(_) => {}
        }
    }

    pub(super) fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        match self {
            Self::Map(entries) => entries.iter_mut().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }
}

impl From<&Node> for Value {
    /// What was reported as broken is nothing here; a document with errors isn't edited.
    fn from(node: &Node) -> Self {
        match &node.kind {
            Kind::Null | Kind::Reported => Self::Null,
            Kind::Bool(value, _) => Self::Bool(*value),
            Kind::Number(text) => Self::Number(text.clone()),
            Kind::String(text) => Self::Text(text.clone()),
            Kind::List(items) => Self::List(items.iter().map(Self::from).collect()),
            Kind::Map(entries) => {
                Self::Map(entries.iter().map(|entry| (entry.key.clone(), Self::from(&entry.value))).collect())
            }
        }
    }
}
