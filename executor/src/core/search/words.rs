//! Text to words to terms: names split where people split them, words brought to their stem.

use std::collections::HashSet;
use std::sync::LazyLock;

use rust_stemmers::{Algorithm, Stemmer};

/// Longest word that is looked at, in characters; what is behind it is left out.
const WORD_MAX: usize = 40;

/// Words that say nothing of a tool: the small words of English, and what people say around a request.
const STOP_WORDS: &str = "
    a about above after again all also am an and any are as at be because been before being below between both but by
    can cannot could d did do does doing don down during each etc few for from further had has have having he her here
    hers him his how i if in into is it its itself just let ll m me might more most must my myself no nor not now of
    off on once only or other our ours out over own please re s same shall she should so some such t than that the
    their theirs them then there these they this those through to too under until up us ve very was we were what when
    where which while who whom whose why will with would you your yours yourself
    need want like help tell give know hi hello hey thanks thank looking";

/// Whether a word in lower case says nothing of a tool.
pub(super) fn is_stop_word(word: &str) -> bool {
    static SET: LazyLock<HashSet<&str>> = LazyLock::new(|| STOP_WORDS.split_whitespace().collect());
    SET.contains(word)
}

/// What a word in lower case is indexed as: the stem of an English one, any other as it is.
pub(super) fn term(word: &str) -> String {
    static STEMMER: LazyLock<Stemmer> = LazyLock::new(|| Stemmer::create(Algorithm::English));
    if word.is_ascii() { STEMMER.stem(word).into_owned() } else { word.to_owned() }
}

/// Hands the words of `text` to `each`, in lower case and in order. `getHTTPResponse2` is get, http, response, 2 and
/// the whole of it; a run of Chinese, Japanese or Korean gives its pairs of characters.
pub(super) fn split(text: &str, mut each: impl FnMut(&str)) {
    for run in text.split(|c: char| !c.is_alphanumeric() && !is_apostrophe(c)) {
        for (place, run) in run.split(is_apostrophe).enumerate() {
            // Behind an apostrophe stands an ending (`user's`, `don't`, `we'll`), unless it is longer than that.
            if place == 0 || run.chars().nth(2).is_some() {
                split_run(run, &mut each);
            }
        }
    }
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '’')
}

fn split_run(run: &str, each: &mut impl FnMut(&str)) {
    let pieces = pieces(run);
    for piece in &pieces {
        if piece.starts_with(is_cjk) {
            for (start, _) in piece.char_indices() {
                let mut ends = piece[start..].char_indices().map(|(at, c)| start + at + c.len_utf8());
                match (ends.next(), ends.next()) {
                    (Some(_), Some(end)) => each(&piece[start..end]),
                    (Some(end), None) if start == 0 => each(&piece[..end]),
                    _ => {}
                }
            }
        } else {
            each(&lower(piece));
        }
    }
    if pieces.len() > 1 {
        each(&lower(run));
    }
}

fn lower(word: &str) -> String {
    word.chars().take(WORD_MAX).flat_map(char::to_lowercase).collect()
}

fn is_cjk(c: char) -> bool {
    matches!(c,
        '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{4dbf}' | '\u{4e00}'..='\u{9fff}' | '\u{ac00}'..='\u{d7af}'
        | '\u{f900}'..='\u{faff}' | '\u{20000}'..='\u{3ffff}')
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Upper,
    Lower,
    Digit,
    Cjk,
}

fn kind(c: char) -> Kind {
    match c {
        _ if is_cjk(c) => Kind::Cjk,
        _ if c.is_numeric() => Kind::Digit,
        _ if c.is_uppercase() => Kind::Upper,
        _ => Kind::Lower,
    }
}

/// A run of letters and digits at its seams: `parseJSONBody2` → parse, JSON, Body, 2.
fn pieces(run: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut start = 0;
    let mut chars = run.char_indices().map(|(at, c)| (at, kind(c))).peekable();
    let Some((_, mut before)) = chars.next() else { return pieces };
    while let Some((at, here)) = chars.next() {
        let seam = match (before, here) {
            (Kind::Upper, Kind::Lower) => false,
            // The last capital of several starts the next word: `JSONBody`.
            (Kind::Upper, Kind::Upper) => chars.peek().is_some_and(|(_, next)| *next == Kind::Lower),
            (before, here) => before != here,
        };
        if seam {
            pieces.push(&run[start..at]);
            start = at;
        }
        before = here;
    }
    pieces.push(&run[start..]);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn words(text: &str) -> String {
        let mut words = Vec::new();
        split(text, |word| words.push(word.to_owned()));
        words.join(" ")
    }

    #[test]
    fn names_are_split_where_people_split_them() {
        assert_eq!(words("getHTTPResponseCode2"), "get http response code 2 gethttpresponsecode2");
        assert_eq!(words("create_pull-request"), "create pull request");
        assert_eq!(words("GitHub's API, don't"), "git hub github api don");
        assert_eq!(words("C'est l'heure"), "c est l heure");
        assert_eq!(words("天气预报x 猫"), "天气 气预 预报 x 天气预报x 猫");
        assert_eq!(words("Straße ÄÖ"), "straße äö");
        assert_eq!(term("repositories"), term("repository"));
    }

    proptest! {
        #[test]
        fn any_text_is_split(text in any::<String>()) {
            split(&text, |word| assert!(!word.is_empty()));
        }
    }
}
