//! Text to terms: names split where people split them, words brought to their stem.

use rust_stemmers::{Algorithm, Stemmer};

/// Longest word that is looked at, in characters; the rest is no word.
const WORD_MAX: usize = 40;

/// One word of a text: in lower case, and what it is indexed as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// Lower case, unstemmed.
    pub(super) text: String,
    /// The stem.
    pub(super) term: String,
}

/// Splits texts into words. Holds the stemmer.
pub(super) struct Words(Stemmer);

impl Words {
    pub(super) fn new() -> Self {
        Self(Stemmer::create(Algorithm::English))
    }

    /// The words of `text` in order. `getHTTPResponse2` is get, http, response, 2 and the whole of it; a run of
    /// Chinese, Japanese or Korean gives its pairs of characters.
    pub(super) fn of(&self, text: &str) -> Vec<Word> {
        let mut words = Vec::new();
        for run in text.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '’') {
            for run in run.split(['\'', '’']).take(1) {
                self.run(run, &mut words);
            }
            // What stands behind an apostrophe is an ending (`user's`, `don't`) unless it is longer than one.
            for rest in run.split(['\'', '’']).skip(1).filter(|rest| rest.chars().count() > 2) {
                self.run(rest, &mut words);
            }
        }
        words
    }

    fn run(&self, run: &str, words: &mut Vec<Word>) {
        if run.is_empty() {
            return;
        }
        let pieces = pieces(run);
        for piece in &pieces {
            self.push(piece, words);
        }
        if pieces.len() > 1 {
            self.push(run, words);
        }
    }

    fn push(&self, piece: &str, words: &mut Vec<Word>) {
        if piece.chars().next().is_some_and(is_cjk) {
            let chars: Vec<char> = piece.chars().take(4 * WORD_MAX).collect();
            let pairs = chars.windows(2.min(chars.len())).map(|pair| pair.iter().collect::<String>());
            words.extend(pairs.map(|text| Word { term: text.clone(), text }));
            return;
        }
        let text: String = piece.chars().take(WORD_MAX).flat_map(char::to_lowercase).collect();
        let term = if text.is_ascii() { self.0.stem(&text).into_owned() } else { text.clone() };
        words.push(Word { text, term });
    }
}

fn is_cjk(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}' | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Upper,
    Lower,
    Digit,
    Cjk,
}

fn kind(c: char) -> Kind {
    if is_cjk(c) {
        Kind::Cjk
    } else if c.is_numeric() {
        Kind::Digit
    } else if c.is_uppercase() {
        Kind::Upper
    } else {
        Kind::Lower
    }
}

/// A run of letters and digits at its seams: `parseJSONBody2` → parse, JSON, Body, 2.
fn pieces(run: &str) -> Vec<&str> {
    let chars: Vec<(usize, char)> = run.char_indices().collect();
    let mut pieces = Vec::new();
    let mut start = 0;
    for at in 1..chars.len() {
        let (before, here) = (kind(chars[at - 1].1), kind(chars[at].1));
        let next = chars.get(at + 1).map(|(_, c)| kind(*c));
        let seam = match (before, here) {
            (Kind::Lower, Kind::Upper) => true,
            // The last capital of several starts the next word: `JSONBody`.
            (Kind::Upper, Kind::Upper) => next == Some(Kind::Lower),
            (Kind::Upper, Kind::Lower) => false,
            (before, here) => before != here,
        };
        if seam {
            pieces.push(&run[start..chars[at].0]);
            start = chars[at].0;
        }
    }
    pieces.push(&run[start..]);
    pieces
}
