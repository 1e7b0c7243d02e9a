//! Shell-style patterns for tool names: the semantics of Python's `fnmatch.fnmatchcase`.
//!
//! `*` any run, `?` one character, `[ab]` and `[a-c]` a class, `[!ab]` its complement; there is no escape, an
//! unclosed `[` is itself, `{` and `^` are ordinary. Every crate we tried differs in one of these. What is surely not
//! meant so is a [`Flaw`].

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A compiled pattern; serialises as it was written.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Part {
    Literal(char),
    Any,
    Run,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// Something in a pattern that nobody means as it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// Nothing, or nothing but blanks.
    Empty,
    /// Blanks at an end.
    Blank,
    /// A control character.
    Control,
    /// A `[` without its `]`, which is an ordinary character.
    Unclosed,
    /// `[z-a]`: a range without a member.
    Backwards(char, char),
    /// `[^ab]`: a class of three characters.
    Caret,
    /// `{a,b}`: five ordinary characters.
    Braces,
    /// `${NAME}`: variables aren't filled in.
    Variable,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("an empty pattern matches nothing"),
            Self::Blank => f.write_str("it begins or ends with a blank"),
            Self::Control => f.write_str("it holds a control character"),
            Self::Unclosed => f.write_str("its `[` has no `]`"),
            Self::Backwards(low, high) => write!(f, "the range `{low}-{high}` runs backwards"),
            Self::Caret => f.write_str("`[^` doesn't exclude, `^` is an ordinary character"),
            Self::Variable => f.write_str("variables are only filled in where a server is launched"),
            Self::Braces => f.write_str("braces are ordinary characters, not a choice"),
        }
    }
}

impl Flaw {
    /// What to write instead of it in `text`.
    pub fn remedy(&self, text: &str) -> String {
        match self {
            Self::Empty => "write a name, or a pattern such as `read_*`, or remove it".to_owned(),
            Self::Blank | Self::Control => format!("write `{}`", without_blanks(text)),
            Self::Unclosed => "close it, as in `[ab]`; write `[[]` for the character `[` itself".to_owned(),
            Self::Backwards(low, high) => format!("write `{high}-{low}`"),
            Self::Caret => "write `[!ab]` for what is neither a nor b".to_owned(),
            Self::Variable => "write the name itself".to_owned(),
            Self::Braces => "write an entry for each choice; `[{]` stands for the character `{` itself".to_owned(),
        }
    }
}

/// Without blanks at its ends and without control characters.
fn without_blanks(text: &str) -> String {
    text.replace(char::is_control, "").trim().to_owned()
}

impl Pattern {
    /// Compiles `text`. Every text is a pattern.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        let chars: Vec<char> = text.chars().collect();
        let mut parts = Vec::with_capacity(chars.len());
        let mut at = 0;
        while at < chars.len() {
            match chars[at] {
                '*' => {
                    if parts.last() != Some(&Part::Run) {
                        parts.push(Part::Run);
                    }
                    at += 1;
                }
                '?' => {
                    parts.push(Part::Any);
                    at += 1;
                }
                '[' => match class(&chars[at..]) {
                    Some((part, length)) => {
                        parts.push(part);
                        at += length;
                    }
                    None => {
                        parts.push(Part::Literal('['));
                        at += 1;
                    }
                },
                other => {
                    parts.push(Part::Literal(other));
                    at += 1;
                }
            }
        }
        Self { text, parts }
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What in `text` matches otherwise than anyone would mean it, with its bytes. Whatever is found can be said without
    /// it: in a class a character stands for itself.
    pub fn flaw(text: &str) -> Option<(Range<usize>, Flaw)> {
        let whole = match without_blanks(text) {
            plain if plain.is_empty() => Some(Flaw::Empty),
            _ if text.contains(char::is_control) => Some(Flaw::Control),
            plain if plain != text => Some(Flaw::Blank),
            _ => None,
        };
        if let Some(flaw) = whole {
            return Some((0..text.len(), flaw));
        }
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            let at = text.len() - rest.len();
            let mut length = c.len_utf8();
            if c == '[' {
                let chars: Vec<char> = rest.chars().collect();
                let Some((_, closed)) = class(&chars) else { return Some((at..at + 1, Flaw::Unclosed)) };
                length = chars[..closed].iter().map(|c| c.len_utf8()).sum();
                let members = &chars[1..closed - 1];
                if members.first() == Some(&'^') && members.len() > 1 {
                    return Some((at..at + length, Flaw::Caret));
                }
                let backwards = members.windows(3).find(|range| range[1] == '-' && range[0] > range[2]);
                if let Some(&[low, _, high]) = backwards {
                    return Some((at..at + length, Flaw::Backwards(low, high)));
                }
            } else if rest.starts_with("${") {
                let end = rest.find('}').map_or(rest.len(), |close| close + 1);
                return Some((at..at + end, Flaw::Variable));
            } else if c == '{'
                && let Some(end) = rest.find('}')
                && rest[..end].contains(',')
            {
                return Some((at..at + end + 1, Flaw::Braces));
            }
            rest = &rest[length..];
        }
        None
    }

    /// Whether it names exactly one text: no `*`, `?` or `[`.
    pub fn is_literal(&self) -> bool {
        !self.text.contains(['*', '?', '['])
    }

    /// Whether `text` matches as a whole, case-sensitively.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        let (mut part, mut at) = (0, 0);
        // Where to go back to: the last `*`, and how much it has swallowed. One such point is enough.
        let mut back: Option<(usize, usize)> = None;
        loop {
            let fits = match self.parts.get(part) {
                Some(Part::Run) => {
                    back = Some((part, at));
                    part += 1;
                    continue;
                }
                None if at == text.len() => return true,
                None => false,
                Some(one) => text.get(at).is_some_and(|c| one.fits(*c)),
            };
            if fits {
                part += 1;
                at += 1;
            } else if let Some((run, from)) = back.filter(|(_, from)| *from < text.len()) {
                back = Some((run, from + 1));
                part = run + 1;
                at = from + 1;
            } else {
                return false;
            }
        }
    }
}

impl Part {
    fn fits(&self, c: char) -> bool {
        match self {
            Self::Literal(own) => *own == c,
            Self::Any => true,
            Self::Run => false,
            Self::Class { negated, ranges } => ranges.iter().any(|(low, high)| (*low..=*high).contains(&c)) != *negated,
        }
    }
}

/// The class that `chars` starts with and its length, or `None` when it isn't closed.
fn class(chars: &[char]) -> Option<(Part, usize)> {
    let negated = chars.get(1) == Some(&'!');
    let first = if negated { 2 } else { 1 };
    // A `]` in first place is a member, as in every shell.
    let close = (first + 1..chars.len()).find(|at| chars[*at] == ']')?;
    let members = &chars[first..close];
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < members.len() {
        if at + 2 < members.len() && members[at + 1] == '-' {
            // A range that runs backwards matches nothing.
            if members[at] <= members[at + 2] {
                ranges.push((members[at], members[at + 2]));
            }
            at += 3;
        } else {
            ranges.push((members[at], members[at]));
            at += 1;
        }
    }
    Some((Part::Class { negated, ranges }, close + 1))
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({:?})", self.text)
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Pattern {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::new)
    }
}

impl schemars::JsonSchema for Pattern {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Pattern".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn follows_fnmatch() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("read_*", "read_file", true),
            ("read_*", "xread_file", false),
            ("*_file", "read_file", true),
            ("a*b*c", "a__b__b__c", true),
            ("a*b*c", "a__b__b__", false),
            ("?", "é", true),
            ("[rw]*", "write", true),
            ("[a-c]x", "bx", true),
            ("[!x]", "y", true),
            ("[!x]", "x", false),
            ("[^rw]*", "list", false),
            ("[^rw]*", "^x", true),
            ("{a,b}", "{a,b}", true),
            ("{a,b}", "a", false),
            ("[", "[", true),
            ("[]", "[]", true),
            ("[]]", "]", true),
            ("\\*", "\\x", true),
            ("a**b", "ab", true),
            ("Read", "read", false),
            ("*", "ns/read.file", true),
            ("[z-a]", "m", false),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern} against {text}");
        }
    }

    #[test]
    fn what_nobody_means_is_a_flaw() {
        for (pattern, flaw) in [
            ("", Some((0..0, Flaw::Empty))),
            (" ", Some((0..1, Flaw::Empty))),
            ("read_* ", Some((0..7, Flaw::Blank))),
            ("a\0", Some((0..2, Flaw::Control))),
            ("[", Some((0..1, Flaw::Unclosed))),
            ("é[", Some((2..3, Flaw::Unclosed))),
            ("[]", Some((0..1, Flaw::Unclosed))),
            ("[!]", Some((0..1, Flaw::Unclosed))),
            ("a[x][z", Some((4..5, Flaw::Unclosed))),
            ("[z-a]", Some((0..5, Flaw::Backwards('z', 'a')))),
            ("[^rw]*", Some((0..5, Flaw::Caret))),
            ("{get,list}_*", Some((0..10, Flaw::Braces))),
            ("x_${NAME}*", Some((2..9, Flaw::Variable))),
            ("${NAME", Some((0..6, Flaw::Variable))),
            ("$[{]NAME}", None),
            ("[[]", None),
            ("[]]", None),
            ("[{]a,b}", None),
            ("[a^]", None),
            ("[^]", None),
            ("[a-z][!0-9]?*", None),
            ("{name}", None),
            ("two words", None),
        ] {
            assert_eq!(Pattern::flaw(pattern), flaw, "{pattern}");
        }
    }

    proptest! {
        #[test]
        fn a_literal_matches_itself_and_never_panics(text in "\\PC{0,20}", other in "\\PC{0,20}") {
            let pattern = Pattern::new(&*text);
            if pattern.is_literal() {
                prop_assert!(pattern.matches(&text));
                prop_assert_eq!(pattern.matches(&other), text == other);
            } else {
                pattern.matches(&other);
            }
            if let Some((at, flaw)) = Pattern::flaw(&text) {
                prop_assert!(text.get(at).is_some());
                prop_assert!(!flaw.to_string().is_empty() && !flaw.remedy(&text).is_empty());
            }
        }
    }
}
