//! Whether two texts say the same in other clothes.

use crate::hidden::is_hidden;

/// Whether the texts differ in white space, punctuation and letter case at most.
///
/// A sign before a number and the point in it belong to the number; other symbols, `%` and `$` among them, are words.
pub(super) fn same_words(a: &str, b: &str) -> bool {
    words(a) == words(b)
}

fn words(text: &str) -> Vec<String> {
    let text: Vec<char> = text.chars().filter(|c| !is_unseen(*c)).flat_map(char::to_lowercase).collect();
    let mut words = Vec::new();
    let mut word = String::new();
    for (at, &c) in text.iter().enumerate() {
        let before = at.checked_sub(1).map(|at| text[at]);
        let is_before_digit = text.get(at + 1).is_some_and(char::is_ascii_digit);
        let is_of_number = is_before_digit
            && match c {
                '-' => before.is_none_or(|c| c.is_whitespace() || matches!(c, '(' | '[' | '=' | ':')),
                '.' | ',' => before.is_some_and(|c| c.is_ascii_digit()) || c == '.',
                _ => false,
            };
        if c.is_alphanumeric() || c == '_' || is_of_number || is_mark(c) {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if !c.is_whitespace() && !is_punctuation(c) {
            words.push(c.to_string());
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

fn is_unseen(c: char) -> bool {
    is_hidden(c) || matches!(c, '\u{fe0e}' | '\u{fe0f}')
}

/// Accents that stand by themselves belong to their letter.
fn is_mark(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c)
}

fn is_punctuation(c: char) -> bool {
    match c {
        '$' | '%' | '&' | '+' | '<' | '=' | '>' | '@' | '^' | '|' | '~' => false,
        c if c.is_ascii() => c.is_ascii_punctuation(),
        '¡' | '§' | '«' | '¶' | '·' | '»' | '¿' | '´' => true,
        '\u{2010}'..='\u{2027}' | '\u{2032}'..='\u{205e}' => true,
        '\u{3001}'..='\u{3003}' | '\u{3008}'..='\u{3011}' | '\u{3014}'..='\u{301f}' | '\u{30fb}' => true,
        '\u{ff01}' | '\u{ff07}'..='\u{ff09}' | '\u{ff0c}'..='\u{ff0f}' | '\u{ff1a}' | '\u{ff1b}' | '\u{ff1f}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_and_case_say_nothing_and_numbers_and_symbols_do() {
        for (a, b) in [
            ("Reads a file.", "reads a file"),
            ("a, b", "a b"),
            ("- one\n- two", "one two"),
            ("`read-only`", "read only"),
            ("", " \n"),
            ("⚠️ careful", "⚠ careful"),
        ] {
            assert!(same_words(a, b), "{a:?} {b:?}");
        }
        for (a, b) in [
            ("1.5 s", "15 s"),
            ("at -5", "at 5"),
            ("5 %", "5"),
            ("$5", "5"),
            ("a < b", "a > b"),
            ("nowhere", "now here"),
            ("max_len", "max len"),
            ("read", "write"),
            ("é", "e"),
            ("good 👍", "good 👎"),
            ("can't", "cant"),
        ] {
            assert!(!same_words(a, b), "{a:?} {b:?}");
        }
    }
}
