//! Finds tools for a query: names that stand in it first, then BM25 over weighted fields.
//!
//! Query and tools are untrusted: a query is bounded before it is read, and no work grows with the square of anything.
//! The same tools give the same ranking in whatever order they were loaded. What the numbers here are worth is
//! measured by `benches/search_quality.rs`.

mod counts;
mod document;
mod exact;
mod synonyms;
mod words;

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

use counts::Counts;
pub use document::{Document, parameters};
use exact::Names;
use synonyms::synonyms;

/// How many hits may be asked for.
pub const LIMIT: RangeInclusive<usize> = 1..=50;
/// Characters of a query that are read.
pub const QUERY_MAX_CHARS: usize = 2000;
/// Different terms of a query that are looked up.
const TERMS_MAX: usize = 64;

/// How soon more of the same term stops to count.
const SATURATION: f32 = 1.4;
/// How much of a score depends on how many of the query's terms were met.
const COVERAGE: f32 = 0.25;
/// What a match is worth whose word in a name only starts with the query's, or is one typing error away.
const PREFIX_WEIGHT: f32 = 0.4;
const TYPO_WEIGHT: f32 = 0.6;
/// Shortest word that is taken for the start of another, or for a misspelt one.
const PREFIX_MIN_CHARS: usize = 4;
const TYPO_MIN_CHARS: usize = 5;
/// Most words that one is taken for.
const LOOKALIKES_MAX: usize = 16;
/// Unknown words of one query that are taken for misspelt ones.
const TYPOS_MAX: usize = 8;
/// A hit with less than this part of the best one's score is filler.
const FILLER: f32 = 0.2;

/// One tool that was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hit {
    /// Which of the documents, as they were given to [`Index::new`].
    pub index: usize,
    /// Whether the query names it.
    pub exact: bool,
    /// How well the rest of the query fits; comparable within one answer only.
    pub score: f32,
}

/// Tools made ready to be found.
pub struct Index {
    /// Place of each document in the order of names: what ties are broken by.
    place: Vec<u32>,
    names: Names,
    terms: HashMap<String, u32>,
    /// By term: documents and the term's weight in them, all fields taken together.
    postings: Vec<Vec<(u32, f32)>>,
    /// The terms that stand in names, sorted.
    name_terms: Vec<(String, u32)>,
    /// Terms by first character and length, for words that aren't known.
    spellings: BTreeMap<(char, usize), Vec<(String, u32)>>,
}

impl Index {
    /// Indexes `tools`.
    pub fn new(tools: impl IntoIterator<Item = Document>) -> Self {
        let documents: Vec<Document> = tools.into_iter().collect();
        let mut order: Vec<usize> = (0..documents.len()).collect();
        order.sort_by(|a, b| {
            let key = |at: usize| (&documents[at].name, &documents[at].server, &documents[at].bare);
            key(*a).cmp(&key(*b))
        });
        let mut place = vec![0; documents.len()];
        for (at, index) in order.iter().enumerate() {
            place[*index] = at as u32;
        }
        let names = Names::new(&documents, &order);
        let mut counts = Counts::default();
        for document in &documents {
            counts.add(document);
        }
        let mut name_terms: Vec<(String, u32)> = counts.terms.iter().map(|(term, id)| (term.clone(), *id)).collect();
        name_terms.retain(|(_, id)| counts.in_name[*id as usize]);
        name_terms.sort_unstable();
        let mut spellings = BTreeMap::<_, Vec<(String, u32)>>::new();
        for (term, id) in &counts.terms {
            if let Some(key) = spelling(term) {
                spellings.entry(key).or_default().push((term.clone(), *id));
            }
        }
        Self { place, names, postings: counts.weigh(), terms: counts.terms, name_terms, spellings }
    }

    /// How many tools there are.
    pub fn len(&self) -> usize {
        self.place.len()
    }

    /// Whether there is no tool.
    pub fn is_empty(&self) -> bool {
        self.place.is_empty()
    }

    /// The tools that `query` names, all of them, then the best others up to `limit` (clamped to [`LIMIT`]) in all. Only
    /// those that `keep` takes. Empty when nothing fits.
    pub fn search(&self, query: &str, limit: usize, keep: impl Fn(usize) -> bool) -> Vec<Hit> {
        let limit = limit.clamp(*LIMIT.start(), *LIMIT.end());
        let query = query.char_indices().nth(QUERY_MAX_CHARS).map_or(query, |(end, _)| &query[..end]);
        let mut scores = self.scores(query);
        let mut hits = Vec::new();
        for index in self.names.find(query).into_iter().filter(|index| keep(*index)) {
            hits.push(Hit { index, exact: true, score: std::mem::take(&mut scores[index]) });
        }
        let mut others: Vec<Hit> = scores
            .iter()
            .enumerate()
            .filter(|(index, score)| **score > 0.0 && keep(*index))
            .map(|(index, score)| Hit { index, exact: false, score: *score })
            .collect();
        others.sort_unstable_by(|a, b| {
            b.score.total_cmp(&a.score).then_with(|| self.place[a.index].cmp(&self.place[b.index]))
        });
        let best = others.first().map_or(0.0, |hit| hit.score);
        others.truncate(limit.saturating_sub(hits.len()));
        hits.extend(others.into_iter().take_while(|hit| hit.score >= best * FILLER));
        hits
    }

    /// Each of `queries` by itself, in their order.
    pub fn search_all(&self, queries: &[&str], limit: usize, keep: impl Fn(usize) -> bool) -> Vec<Vec<Hit>> {
        queries.iter().map(|query| self.search(query, limit, &keep)).collect()
    }

    /// The score of every document.
    fn scores(&self, query: &str) -> Vec<f32> {
        let terms = query_terms(query);
        let mut scores = vec![0.0; self.len()];
        if terms.is_empty() {
            return scores;
        }
        let mut met = vec![0.0; self.len()];
        let mut best = vec![0.0_f32; self.len()];
        let mut touched: Vec<u32> = Vec::new();
        let mut asked = 0.0;
        let mut typos = TYPOS_MAX;
        for term in &terms {
            let variants = self.variants(term, &mut typos);
            let own = self.terms.get(term).map_or(0, |id| self.postings[*id as usize].len());
            // A word that nothing knows counts as rare as one can be: what lacks it lacks much of the query.
            let importance = self.rarity(own);
            asked += importance;
            for (id, weight) in variants {
                let postings = &self.postings[id as usize];
                // A rare synonym of a common word is no more telling than the word that was asked for.
                let rarity = self.rarity(postings.len().max(own)) * weight * (SATURATION + 1.0);
                for &(document, frequency) in postings {
                    let slot = &mut best[document as usize];
                    if *slot == 0.0 {
                        touched.push(document);
                    }
                    *slot = slot.max(rarity * frequency / (SATURATION + frequency));
                }
            }
            // Of the word and all that may stand for it a document is credited with the best alone.
            for document in touched.drain(..) {
                let document = document as usize;
                scores[document] += std::mem::take(&mut best[document]);
                met[document] += importance;
            }
        }
        for (score, met) in scores.iter_mut().zip(met) {
            *score *= 1.0 - COVERAGE + COVERAGE * met / asked;
        }
        scores
    }

    /// The indexed terms that `term` may stand for, with what a match by them is worth.
    fn variants(&self, term: &str, typos: &mut usize) -> Vec<(u32, f32)> {
        let known = self.terms.get(term);
        let mut variants: Vec<(u32, f32)> = known.map(|id| (*id, 1.0)).into_iter().collect();
        variants
            .extend(synonyms(term).iter().filter_map(|(other, weight)| self.terms.get(other).map(|id| (*id, *weight))));
        if term.chars().nth(PREFIX_MIN_CHARS - 1).is_some() {
            let start = self.name_terms.partition_point(|(name, _)| name.as_str() < term);
            let longer = self.name_terms[start..].iter().take_while(|(name, _)| name.starts_with(term));
            variants.extend(
                longer.filter(|(name, _)| name != term).take(LOOKALIKES_MAX).map(|(_, id)| (*id, PREFIX_WEIGHT)),
            );
        }
        if known.is_none() && *typos > 0 && term.chars().nth(TYPO_MIN_CHARS - 1).is_some() {
            *typos -= 1;
            variants.extend(self.misspelt(term).into_iter().map(|id| (id, TYPO_WEIGHT)));
        }
        variants
    }

    /// The terms that are one typing error away (two for long ones), nearest first; the first letter is taken as right.
    fn misspelt(&self, term: &str) -> Vec<u32> {
        let Some((first, length)) = spelling(term) else { return Vec::new() };
        let errors = if length >= 2 * TYPO_MIN_CHARS - 1 { 2 } else { 1 };
        let near = self.spellings.range((first, length.saturating_sub(errors))..=(first, length + errors));
        let mut found: Vec<(usize, &str, u32)> = near
            .flat_map(|(_, terms)| terms)
            .map(|(known, id)| (strsim::osa_distance(known, term), known.as_str(), *id))
            .filter(|(distance, _, _)| *distance <= errors)
            .collect();
        found.sort_unstable();
        found.truncate(LOOKALIKES_MAX);
        found.into_iter().map(|(_, _, id)| id).collect()
    }

    /// BM25's inverse document frequency.
    fn rarity(&self, documents: usize) -> f32 {
        let (all, documents) = (self.len() as f32, documents as f32);
        (1.0 + (all - documents + 0.5) / (documents + 0.5)).ln()
    }
}

/// First character and length of a term that may be mistyped.
fn spelling(term: &str) -> Option<(char, usize)> {
    let length = term.chars().count();
    let first = term.chars().next()?;
    (length + 2 >= TYPO_MIN_CHARS && !first.is_numeric()).then_some((first, length))
}

/// The different terms of a query; how often one stands there says nothing.
fn query_terms(query: &str) -> Vec<String> {
    let mut terms = Vec::new();
    words::split(query, |word| {
        if terms.len() < TERMS_MAX && !words::is_stop_word(word) {
            let term = words::term(word);
            if !terms.contains(&term) {
                terms.push(term);
            }
        }
    });
    terms
}

#[cfg(test)]
mod tests;
