//! A map while it is read.

use std::collections::HashMap;

use super::Entry;
use crate::source::Span;

/// The entries of a map, each key once, found in constant time.
#[derive(Default)]
pub(super) struct Entries {
    pub(super) entries: Vec<Entry>,
    /// Filled once a map is wide; a narrow one is quicker to search than to index.
    index: HashMap<String, usize>,
}

impl Entries {
    const NARROW: usize = 16;

    /// Adds an entry, or gives it back with the place of the first one.
    pub(super) fn insert(&mut self, entry: Entry) -> Result<(), (Box<Entry>, Span)> {
        let first = if self.entries.len() <= Self::NARROW {
            self.entries.iter().position(|other| other.key == entry.key)
        } else {
            self.index.get(&entry.key).copied()
        };
        if let Some(first) = first {
            return Err((Box::new(entry), self.entries[first].key_at));
        }
        self.entries.push(entry);
        let indexed = if self.entries.len() > Self::NARROW { self.index.len() } else { self.entries.len() };
        for (index, entry) in self.entries.iter().enumerate().skip(indexed) {
            self.index.insert(entry.key.clone(), index);
        }
        Ok(())
    }
}
