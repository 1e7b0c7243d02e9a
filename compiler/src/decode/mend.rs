//! After a failed check: what remains that can still be read, so that the rest of the file is looked at in the same run.
//!
//! A key that was probably meant to be another one takes its name; whatever else was refused is left out. Nothing of a
//! mended document ever becomes a plan, since it comes with an error.

use std::collections::HashMap;

use super::CompiledSchema;
use super::check::check;
use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::document::{Document, Kind, Node};
use crate::source::Span;

/// Mending one thing can uncover another, such as the wrong type of a value under a mistyped key. More rounds than this
/// are never needed by hand-made mistakes.
const ROUNDS: usize = 4;

/// Leaves in `document` only what `schema` allows, as far as that is possible; `diagnostics` are those of [`check`].
pub fn mend(document: &mut Document, schema: &CompiledSchema, diagnostics: &[Diagnostic]) {
    let mut found = diagnostics.to_vec();
    for _ in 0..ROUNDS {
        if found.is_empty() {
            return;
        }
        let refused = Refused::new(&found);
        refused.mend(&mut document.root);
        found = check(document, schema);
    }
}

/// What was refused, by place.
struct Refused {
    /// Keys, with the one that each was probably meant to be.
    keys: HashMap<Span, Option<String>>,
    values: HashMap<Span, ()>,
}

impl Refused {
    fn new(diagnostics: &[Diagnostic]) -> Self {
        let mut refused = Self { keys: HashMap::new(), values: HashMap::new() };
        for diagnostic in diagnostics {
            match diagnostic.code {
                Code::UnknownKey => {
                    refused.keys.insert(diagnostic.primary.at, diagnostic.meant.clone());
                }
                _ => {
                    refused.keys.entry(diagnostic.primary.at).or_insert(None);
                    refused.values.insert(diagnostic.primary.at, ());
                }
            }
        }
        refused
    }

    fn has(&self, node: &Node) -> bool {
        self.values.contains_key(&node.head())
    }

    fn mend(&self, node: &mut Node) {
        match &mut node.kind {
            Kind::Map(entries) => {
                entries.retain(|entry| !self.has(&entry.value));
                let known: Vec<String> = entries.iter().map(|entry| entry.key.clone()).collect();
                entries.retain_mut(|entry| match self.keys.get(&entry.key_at) {
                    None => true,
                    Some(Some(meant)) if !known.contains(meant) => {
                        entry.key.clone_from(meant);
                        true
                    }
                    Some(_) => false,
                });
                entries.iter_mut().for_each(|entry| self.mend(&mut entry.value));
            }
            Kind::List(items) => {
                items.retain(|item| !self.has(item));
                items.iter_mut().for_each(|item| self.mend(item));
            }
            _ => {}
        }
    }
}
