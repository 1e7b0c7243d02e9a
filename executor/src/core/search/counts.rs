//! Reads documents into weighted terms.
//!
//! Every text is bounded before it is split, so that one tool can't make itself most of the index.

use std::collections::HashMap;

use super::document::{Document, PARAMETERS_MAX};
use super::words;

/// How much a field says, and how much its length takes from that.
struct Field {
    weight: f32,
    length: f32,
}

const FIELD_COUNT: usize = 6;
const NAME: usize = 0;
const TITLE: usize = 1;
const SERVER: usize = 2;
const DESCRIPTION: usize = 3;
const PARAMETER: usize = 4;
const PARAMETER_TEXT: usize = 5;

const FIELDS: [Field; FIELD_COUNT] = [
    Field { weight: 3.0, length: 0.5 },
    Field { weight: 2.0, length: 0.5 },
    Field { weight: 1.2, length: 0.0 },
    Field { weight: 1.0, length: 0.75 },
    Field { weight: 0.9, length: 0.75 },
    Field { weight: 0.3, length: 0.75 },
];

/// A term that stands in a field more often counts this often.
const REPEATS_MAX: u16 = 3;
/// Characters of a name or title that are indexed.
const NAME_MAX_CHARS: usize = 256;
/// Characters of a tool's description, and of all its parameters' descriptions, that are indexed.
const TEXT_MAX_CHARS: usize = 4000;

/// What is counted while documents are read.
#[derive(Default)]
pub(super) struct Counts {
    /// Each term's number.
    pub(super) terms: HashMap<String, u32>,
    /// By term: whether it stands in a tool's name.
    pub(super) in_name: Vec<bool>,
    /// Words in lower case that were seen, so that each is stemmed once; stop words are `None`.
    seen: HashMap<String, Option<u32>>,
    documents: Vec<Read>,
}

/// A document as it was read.
struct Read {
    /// How often each term stands in each field.
    terms: Vec<(u32, [u16; FIELD_COUNT])>,
    /// Words in each field, without stop words.
    lengths: [u32; FIELD_COUNT],
}

impl Counts {
    pub(super) fn add(&mut self, document: &Document) {
        let mut found: Vec<(u32, usize)> = Vec::new();
        let mut read = |field: usize, text: &str| self.words(text, |id| found.push((id, field)));
        read(NAME, bounded(&document.bare, NAME_MAX_CHARS));
        read(TITLE, bounded(&document.title, NAME_MAX_CHARS));
        read(SERVER, bounded(&document.server, NAME_MAX_CHARS));
        read(DESCRIPTION, bounded(&document.description, TEXT_MAX_CHARS));
        let mut left = TEXT_MAX_CHARS;
        for (name, description) in document.parameters.iter().take(PARAMETERS_MAX) {
            read(PARAMETER, bounded(name, NAME_MAX_CHARS));
            let description = bounded(description, left);
            left -= description.chars().count();
            read(PARAMETER_TEXT, description);
        }
        let mut lengths = [0; FIELD_COUNT];
        found.sort_unstable();
        let mut terms: Vec<(u32, [u16; FIELD_COUNT])> = Vec::new();
        for (id, field) in found {
            lengths[field] += 1;
            self.in_name[id as usize] |= field == NAME;
            match terms.last_mut() {
                Some((last, counts)) if *last == id => counts[field] = counts[field].saturating_add(1),
                _ => {
                    let mut counts = [0; FIELD_COUNT];
                    counts[field] = 1;
                    terms.push((id, counts));
                }
            }
        }
        self.documents.push(Read { terms, lengths });
    }

    fn words(&mut self, text: &str, mut each: impl FnMut(u32)) {
        words::split(text, |word| {
            let id = match self.seen.get(word) {
                Some(id) => *id,
                None => {
                    let id = (!words::is_stop_word(word)).then(|| {
                        let next = self.terms.len() as u32;
                        *self.terms.entry(words::term(word)).or_insert_with(|| {
                            self.in_name.push(false);
                            next
                        })
                    });
                    self.seen.insert(word.to_owned(), id);
                    id
                }
            };
            if let Some(id) = id {
                each(id);
            }
        });
    }

    /// By term: documents and its weight in them. BM25F: the weighted frequencies of all fields, each by its own length, make one.
    pub(super) fn weigh(&self) -> Vec<Vec<(u32, f32)>> {
        let mut totals = [0u64; FIELD_COUNT];
        for read in &self.documents {
            for (total, length) in totals.iter_mut().zip(&read.lengths) {
                *total += u64::from(*length);
            }
        }
        let average = totals.map(|total| (total as f32 / self.documents.len().max(1) as f32).max(1.0));
        let mut postings = vec![Vec::new(); self.terms.len()];
        for (index, read) in self.documents.iter().enumerate() {
            for (id, counts) in &read.terms {
                let weight = (0..FIELD_COUNT)
                    .map(|field| {
                        let Field { weight, length } = FIELDS[field];
                        let relative = read.lengths[field] as f32 / average[field];
                        weight * f32::from(counts[field].min(REPEATS_MAX)) / (1.0 - length + length * relative)
                    })
                    .sum();
                postings[*id as usize].push((index as u32, weight));
            }
        }
        postings
    }
}

fn bounded(text: &str, chars: usize) -> &str {
    text.char_indices().nth(chars).map_or(text, |(end, _)| &text[..end])
}
