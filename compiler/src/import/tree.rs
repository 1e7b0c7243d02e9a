//! What a foreign file says, whatever it is written in: one tree with places, no meaning yet.

/// A value and the byte it starts at.
#[derive(Clone, Debug)]
pub(super) struct Foreign {
    /// First byte in the text.
    pub at: usize,
    /// The value.
    pub kind: Kind,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number as written.
    Number(String),
    /// A text.
    Text(String),
    /// A list.
    List(Vec<Foreign>),
    /// A map in the order written; a key may stand twice.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The key.
    pub key: String,
    /// First byte of the key.
    pub at: usize,
    /// The value.
    pub value: Foreign,
}

impl Foreign {
    /// The entries of a map; none for anything else.
    pub(super) fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none for anything else.
    pub(super) fn items(&self) -> &[Foreign] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// The value of `key`, if this is a map that holds it.
    pub(super) fn get(&self, key: &str) -> Option<&Foreign> {
        self.entries().iter().find(|entry| entry.key == key).map(|entry| &entry.value)
    }

    /// The text of a scalar: numbers and truth values as they are written.
    pub(super) fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) | Kind::Number(text) => Some(text),
            Kind::Bool(true) => Some("true"),
            Kind::Bool(false) => Some("false"),
            Kind::Null | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    /// The text, if it is one.
    pub(super) fn string(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.kind, Kind::Map(_))
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.kind, Kind::List(_))
    }

    /// Whether there is nothing in it: null, `""`, `[]`, `{}`.
    pub(super) fn is_empty(&self) -> bool {
        match &self.kind {
            Kind::Null => true,
            Kind::Text(text) => text.is_empty(),
            Kind::List(items) => items.is_empty(),
            Kind::Map(entries) => entries.is_empty(),
            Kind::Bool(_) | Kind::Number(_) => false,
        }
    }

    /// What kind of value this is, in words.
    pub(super) fn what(&self) -> &'static str {
        match self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "a truth value",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "a text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }

    /// Every text in it.
    pub(super) fn each_text(&self, act: &mut dyn FnMut(&str)) {
        match &self.kind {
            Kind::Text(text) => act(text),
            Kind::List(items) => items.iter().for_each(|item| item.each_text(act)),
            Kind::Map(entries) => entries.iter().for_each(|entry| entry.value.each_text(act)),
            Kind::Null | Kind::Bool(_) | Kind::Number(_) => {}
        }
    }
}
