//! Text of a server made fit for the block: one line, nothing hidden, cut at a word, no tag left in it.
//!
//! The order is fixed: [`clean`] once, then [`cut`], then [`escape`], so that a cut never splits an escape and the
//! length that a user sets counts what the server wrote.

use mcplan_compiler::hidden::is_hidden;

/// What stands for the part that was cut off.
pub(super) const ELLIPSIS: char = '…';

/// `text` on one line: every run of white space is one space, none at the ends; hidden characters are gone.
pub fn clean(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut space = false;
    for c in text.chars() {
        if is_hidden(c) {
            continue;
        }
        if c.is_whitespace() {
            space = true;
            continue;
        }
        if space && !out.is_empty() {
            out.push(' ');
        }
        space = false;
        out.push(c);
    }
    out
}

/// Cleaned text in at most `length` characters; `None` when it fits as it is.
///
/// The cut is at a word's end unless that gives away more than half; [`ELLIPSIS`] counts as one character.
pub(super) fn cut(text: &str, length: usize) -> Option<String> {
    // The byte after `length` characters, if there are more than that.
    text.char_indices().nth(length)?;
    let room = length.saturating_sub(1);
    let end = text.char_indices().nth(room).map_or(text.len(), |(at, _)| at);
    let head = &text[..end];
    let at_word = if text[end..].starts_with(' ') { Some(end) } else { head.rfind(' ') };
    let head = match at_word {
        Some(at) if head[..at].chars().count() * 2 >= room => &head[..at],
        _ => head,
    };
    let mut out = head.trim_end_matches([' ', ',', ';', ':']).to_owned();
    if length > 0 {
        out.push(ELLIPSIS);
    }
    Some(out)
}

/// `text` with whatever could open or close a tag replaced.
pub(super) fn escape(text: &str) -> String {
    if !text.contains(['<', '>']) {
        return text.to_owned();
    }
    text.replace('<', "&lt;").replace('>', "&gt;")
}

/// A name for the block: cleaned, and without what could end a tag or the quotes around an attribute.
pub(in crate::core) fn name(text: &str) -> String {
    escape(&clean(text)).replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hidden_characters_go_and_lines_become_one() {
        assert_eq!(clean(" a\r\n\tb \u{2028} c\u{200b}d\u{202e}\u{e0041}\u{e0042}\u{1b}[0m "), "a b cd[0m");
        assert_eq!(clean("\u{200b} \n"), "");
    }

    #[test]
    fn cut_prefers_a_word_and_counts_characters() {
        assert_eq!(cut("Reads a file", 12), None);
        assert_eq!(cut("Reads a file", 11).unwrap(), "Reads a…");
        assert_eq!(cut("Reads, in full", 8).unwrap(), "Reads…");
        assert_eq!(cut("Donaudampfschifffahrt und mehr", 6).unwrap(), "Donau…");
        assert_eq!(cut("a Donaudampfschifffahrt", 8).unwrap(), "a Donau…", "half of it would be given away");
        assert_eq!(cut("äöüßäöüß", 4).unwrap(), "äöü…");
        assert_eq!(cut("ab", 1).unwrap(), "…");
        assert_eq!(cut("ab", 0).unwrap(), "");
    }

    proptest! {
        #[test]
        fn cleaned_is_clean_and_stays_so(text in any::<String>()) {
            let cleaned = clean(&text);
            prop_assert!(!cleaned.chars().any(|c| is_hidden(c) || (c.is_whitespace() && c != ' ')));
            prop_assert!(!cleaned.contains("  ") && cleaned.trim() == cleaned);
            prop_assert_eq!(clean(&cleaned), cleaned.clone());
            prop_assert!(!escape(&cleaned).contains(['<', '>']));
        }

        #[test]
        fn a_cut_keeps_the_length(text in "[a-c ,]{0,40}|\\PC{0,40}", length in 0usize..44) {
            let text = clean(&text);
            let of = |length| cut(&text, length).unwrap_or_else(|| text.clone()).chars().count();
            prop_assert!(of(length) <= length);
            prop_assert_eq!(cut(&text, length).is_none(), text.chars().count() <= length);
        }
    }
}
