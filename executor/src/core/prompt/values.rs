//! What a template sees: the variables of `mcplan_compiler::prompt_template::VARIABLES`, made only when asked for.
//!
//! A rendering stops as soon as the budget is used up, so of ten thousand tools only those are cut and escaped that
//! got that far.

use std::sync::Arc;

use minijinja::Value;
use minijinja::value::{Enumerator, Object, ObjectRepr};

use super::text::{cut, escape};

/// How much of a description is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// All of it.
    Full,
    /// At most so many characters.
    Cut(usize),
    /// None of it.
    Nothing,
}

impl Length {
    /// `text` in this length, escaped.
    pub(super) fn of(self, text: &str) -> String {
        match self {
            Self::Full => escape(text),
            Self::Cut(length) => cut(text, length).map_or_else(|| escape(text), |text| escape(&text)),
            Self::Nothing => String::new(),
        }
    }

    /// Whether `text` loses something in this length.
    pub(super) fn shortens(self, text: &str) -> bool {
        match self {
            Self::Full => false,
            Self::Cut(length) => text.char_indices().nth(length).is_some(),
            Self::Nothing => !text.is_empty(),
        }
    }
}

/// A tool made fit for the block: names escaped, texts cleaned.
#[derive(Debug)]
pub(super) struct Tool {
    pub(super) name: Arc<str>,
    pub(super) server: Arc<str>,
    pub(super) title: String,
    pub(super) description: String,
}

/// The variable `tools`: some of all tools, all with the same length of description.
#[derive(Debug)]
pub(super) struct Tools {
    pub(super) all: Arc<Vec<Tool>>,
    /// Indexes into `all`, in order.
    pub(super) shown: Vec<usize>,
    pub(super) length: Length,
}

impl Object for Tools {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let index = *self.shown.get(key.as_usize()?)?;
        Some(Value::from_object(Line { all: self.all.clone(), index, length: self.length }))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.shown.len())
    }
}

/// One item of `tools`.
#[derive(Debug)]
struct Line {
    all: Arc<Vec<Tool>>,
    index: usize,
    length: Length,
}

impl Object for Line {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.get_value_by_str(key.as_str()?)
    }

    fn get_value_by_str(self: &Arc<Self>, key: &str) -> Option<Value> {
        let tool = &self.all[self.index];
        match key {
            "name" => Some(Value::from(tool.name.clone())),
            "server" => Some(Value::from(tool.server.clone())),
            "title" => Some(Value::from(self.length.of(&tool.title))),
            "description" => Some(Value::from(self.length.of(&tool.description))),
            _ => None,
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Str(&["name", "server", "title", "description"])
    }
}
