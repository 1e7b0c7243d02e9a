//! What changed in a text, word by word, for people who review it.

use similar::{Algorithm, DiffOp, capture_diff_slices};

use crate::hidden::visible;

/// A stretch of a changed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// In both texts.
    Same(&'a str),
    /// Only in the old one.
    Removed(&'a str),
    /// Only in the new one.
    Added(&'a str),
}

/// More words than these, after what both texts begin and end with, are one large change: comparing takes time with
/// the square of the changes.
const MOST_WORDS: usize = 8_000;

/// The parts of both texts in order. What is removed comes before what is added in its place; the parts that aren't
/// added make the old text, those that aren't removed the new one.
pub fn parts<'a>(old: &'a str, new: &'a str) -> Vec<Part<'a>> {
    let (old_words, new_words) = (words(old), words(new));
    let starts = old_words.iter().zip(&new_words).take_while(|(a, b)| a == b).count();
    let most = old_words.len().min(new_words.len()) - starts;
    let ends = old_words.iter().rev().zip(new_words.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
    let (old_middle, new_middle) =
        (&old_words[starts..old_words.len() - ends], &new_words[starts..new_words.len() - ends]);
    let mut edges = Edges::default();
    edges.same(length(&old_words[..starts]));
    if old_middle.len() + new_middle.len() > MOST_WORDS {
        edges.change(length(old_middle), length(new_middle));
    } else {
        for op in capture_diff_slices(Algorithm::Myers, old_middle, new_middle) {
            match op {
                DiffOp::Equal { old_index, len, .. } => {
                    let same = &old_middle[old_index..old_index + len];
                    // A space between two changes would only take them apart.
                    let is_between = old_index + len < old_middle.len() && old_index > 0;
                    match same {
                        [blank] if is_between && blank.trim().is_empty() => edges.change(blank.len(), blank.len()),
                        _ => edges.same(length(same)),
                    }
                }
                DiffOp::Delete { old_index, old_len, .. } => {
                    edges.change(length(&old_middle[old_index..old_index + old_len]), 0);
                }
                DiffOp::Insert { new_index, new_len, .. } => {
                    edges.change(0, length(&new_middle[new_index..new_index + new_len]));
                }
                DiffOp::Replace { old_index, old_len, new_index, new_len } => edges.change(
                    length(&old_middle[old_index..old_index + old_len]),
                    length(&new_middle[new_index..new_index + new_len]),
                ),
            }
        }
    }
    edges.same(length(&old_words[old_words.len() - ends..]));
    edges.cut(old, new)
}

/// The parts as one text, `[-old-]{+new+}`. Of unchanged stretches at most `around` characters are left beside a change.
/// What a reader wouldn't see is written out.
pub fn render(parts: &[Part<'_>], around: usize) -> String {
    let mut out = String::new();
    for (index, part) in parts.iter().enumerate() {
        match part {
            Part::Removed(text) => out.push_str(&format!("[-{}-]", visible(text))),
            Part::Added(text) => out.push_str(&format!("{{+{}+}}", visible(text))),
            Part::Same(text) => {
                let head = if index == 0 { 0 } else { around };
                let tail = if index + 1 == parts.len() { 0 } else { around };
                out.push_str(&shortened(&visible(text), head, tail));
            }
        }
    }
    out
}

/// `text` with `…` for what is between its first `head` and its last `tail` characters.
fn shortened(text: &str, head: usize, tail: usize) -> String {
    let count = text.chars().count();
    // One character for another is no gain.
    if count <= head + tail + 1 {
        return text.to_owned();
    }
    let place = |characters: usize| text.char_indices().nth(characters).map_or(text.len(), |(at, _)| at);
    format!("{}…{}", &text[..place(head)], &text[place(count - tail)..])
}

/// Words, the white space between them, and each other character by itself.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut start = 0;
    let mut before = None;
    for (at, c) in text.char_indices() {
        let kind = if c.is_alphanumeric() || c == '_' {
            Some(true)
        } else if c.is_whitespace() {
            Some(false)
        } else {
            None
        };
        if at > start && (kind.is_none() || kind != before) {
            words.push(&text[start..at]);
            start = at;
        }
        before = kind;
    }
    if start < text.len() {
        words.push(&text[start..]);
    }
    words
}

fn length(words: &[&str]) -> usize {
    words.iter().map(|word| word.len()).sum()
}

/// How many bytes are the same, or stand for one another, in turns.
#[derive(Default)]
struct Edges(Vec<(bool, usize, usize)>);

impl Edges {
    fn same(&mut self, bytes: usize) {
        self.add(true, bytes, bytes);
    }

    fn change(&mut self, old: usize, new: usize) {
        self.add(false, old, new);
    }

    fn add(&mut self, is_same: bool, old: usize, new: usize) {
        match self.0.last_mut() {
            Some((last, old_bytes, new_bytes)) if *last == is_same => {
                *old_bytes += old;
                *new_bytes += new;
            }
            _ => self.0.push((is_same, old, new)),
        }
    }

    fn cut<'a>(self, mut old: &'a str, mut new: &'a str) -> Vec<Part<'a>> {
        let mut parts = Vec::new();
        for (is_same, old_bytes, new_bytes) in self.0 {
            let (was, old_rest) = old.split_at(old_bytes);
            let (is, new_rest) = new.split_at(new_bytes);
            (old, new) = (old_rest, new_rest);
            if is_same {
                parts.push(Part::Same(was));
            } else {
                parts.extend([Part::Removed(was), Part::Added(is)]);
            }
        }
        parts.retain(|part| !matches!(part, Part::Same("") | Part::Removed("") | Part::Added("")));
        parts
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn changes_stand_in_their_place_and_long_stretches_are_cut() {
        for (old, new, expected) in [
            ("reads a file", "reads a file", "…"),
            ("reads a file", "shows a file", "[-reads-]{+shows+} a fi…"),
            ("reads the file", "reads the big file", "… the {+big +}file"),
            (
                "Reads a file from the disk of this machine.",
                "Reads one file from the disk of a machine.",
                "Reads [-a-]{+one+} file…k of [-this-]{+a+} mach…",
            ),
            ("one two three", "1 2 three", "[-one two-]{+1 2+} three"),
            ("", "new", "{+new+}"),
            ("old", "", "[-old-]"),
            ("a\u{200b}b", "ab\n", "[-a\\u{200b}b-]{+ab\\u{a}+}"),
            ("mäßig große Übung", "mäßig kleine Übung", "mäßig [-große-]{+kleine+} Übung"),
        ] {
            assert_eq!(render(&parts(old, new), 5), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn a_text_of_a_million_words_is_compared_in_no_time() {
        let (old, new) = ("a b ".repeat(250_000), "c d ".repeat(250_000));
        let (old, new) = (format!("start {old}end"), format!("start {new}end"));
        assert_eq!(render(&parts("start a end", "start b end"), 9), "start [-a-]{+b+} end");
        assert_eq!(parts(&old, &new).len(), 4);
    }

    proptest! {
        #[test]
        fn the_parts_make_both_texts(old in "[ab c.ß\n]{0,24}", new in "[ab c.ß\n]{0,24}") {
            let parts = parts(&old, &new);
            let make = |is_left: fn(&Part<'_>) -> bool| -> String {
                let text = |part: &Part<'_>| match *part {
                    Part::Same(text) | Part::Removed(text) | Part::Added(text) => text.to_owned(),
                };
                parts.iter().filter(|part| is_left(part)).map(text).collect()
            };
            prop_assert_eq!(make(|part| !matches!(part, Part::Added(_))), old.clone());
            prop_assert_eq!(make(|part| !matches!(part, Part::Removed(_))), new.clone());
            prop_assert_eq!(parts.iter().all(|part| matches!(part, Part::Same(_))), old == new);
        }
    }
}
