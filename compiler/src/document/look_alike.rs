//! Characters that look like YAML's own and are none: blanks that are no space, quotes that are no quotes. Each comes from
//! a page or a word processor that the text was copied from.

use std::ops::Range;

use super::scalar::line_start;
use super::{Kind as NodeKind, Node};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, shown};
use crate::source::Span;

/// A blank to the eye, and a letter like any other to YAML.
fn is_strange_blank(c: char) -> bool {
    c.is_whitespace() && !c.is_ascii()
}

/// The strange blanks that `text` begins with, in bytes.
fn blanks_at_start(text: &str) -> usize {
    text.len() - text.trim_start_matches(is_strange_blank).len()
}

/// What is wrong with the blanks at `at`, whose first is `first`.
pub(super) fn strange_blank(at: Span, first: char) -> Diagnostic {
    let name = match first {
        '\u{a0}' => "a no-break space".to_owned(),
        _ => "a blank of another kind".to_owned(),
    };
    Diagnostic::new(
        Code::Syntax,
        at,
        format!("{name} (U+{:04X}) stands where YAML takes only a space", u32::from(first)),
    )
    .label("looks like a space")
    .help("delete what looks blank here and write spaces; put the value in quotes where it belongs to a text")
}

/// What is wrong with a plain scalar, other than a strange blank inside of it.
pub(super) struct Strange {
    /// In the bytes of the scalar.
    pub at: Range<usize>,
    pub kind: Kind,
    /// What was meant; `None` where nothing can be said of what follows.
    pub meant: Option<String>,
}

pub(super) enum Kind {
    Blank(char),
    Quotes,
}

impl Strange {
    /// Looks at a scalar that begins at `start` of the source.
    pub(super) fn of(source: &str, start: usize, text: &str) -> Option<Self> {
        if text.is_ascii() {
            return None;
        }
        // A dash with such a blank behind it is no entry of a list.
        let dash = usize::from(text.starts_with('-'));
        let front = blanks_at_start(&text[dash..]);
        if front > 0 {
            let rest = &text[dash + front..];
            let layout = dash > 0
                || source[line_start(source, start)..start].trim().is_empty()
                || rest.starts_with(['"', '\'', '[', '{', '-', '&', '*', '!', '|', '>', '#']);
            let meant = (!layout).then(|| rest.trim().to_owned());
            return Some(Self { at: dash..dash + front, kind: Kind::Blank(text[dash..].chars().next()?), meant });
        }
        let bare = text.trim_end_matches(is_strange_blank);
        if let Some(first) = text[bare.len()..].chars().next() {
            return Some(Self { at: bare.len()..text.len(), kind: Kind::Blank(first), meant: Some(bare.to_owned()) });
        }
        let inner = text.strip_prefix(is_curly).and_then(|rest| rest.strip_suffix(is_curly))?;
        (!inner.contains(is_curly)).then(|| Self {
            at: 0..text.len(),
            kind: Kind::Quotes,
            meant: Some(inner.to_owned()),
        })
    }

    /// In words, for the scalar `text` that begins at `start`.
    pub(super) fn diagnostic(&self, scalar: Span, text: &str) -> Diagnostic {
        let at = Span { start: scalar.start + self.at.start, end: scalar.start + self.at.end, ..scalar };
        match self.kind {
            Kind::Blank(first) => strange_blank(at, first),
            Kind::Quotes => curly_quotes(at, text),
        }
    }
}

fn is_curly(c: char) -> bool {
    matches!(c, '\u{2018}'..='\u{201f}')
}

/// Whether a value begins with a quote of a word processor's.
pub(super) fn begins_curly(text: &str) -> bool {
    text.starts_with(is_curly)
}

pub(super) fn curly_quotes(at: Span, text: &str) -> Diagnostic {
    let inner = shown(text.trim_matches(is_curly)).into_owned();
    Diagnostic::new(Code::Syntax, at, "quotes of a word processor are no quotes to YAML, but a part of the text")
        .label("in curly quotes")
        .help(format!("write `\"{inner}\"`, with straight quotes"))
}

/// The strange blanks in the layout of some lines, before their text or behind a dash or a key's colon: their place in
/// `lines`.
pub(super) fn blank_in_layout(lines: &str) -> Option<(Range<usize>, char)> {
    let mut line_at = 0;
    for line in lines.split_inclusive('\n') {
        for (at, c) in line.char_indices().filter(|(_, c)| is_strange_blank(*c)) {
            let before = line[..at].trim_end();
            let layout = before.trim_start_matches(['-', ' ', '\t', '?']).is_empty()
                || before.strip_suffix(':').is_some_and(|before| is_key(before.trim_start_matches(['-', ' '])));
            if layout {
                let start = line_at + at;
                return Some((start..start + blanks_at_start(&line[at..]), c));
            }
        }
        line_at += line.len();
    }
    None
}

/// Whether a text is a plain key, such as the config has.
pub(super) fn is_key(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
}

/// `key:value`, which is one text and no key: the bytes of the key with its colon.
pub(super) fn glued(text: &str) -> Option<usize> {
    let (key, value) = text.split_once(':')?;
    (is_key(key) && !value.is_empty() && !value.starts_with([' ', '/'])).then_some(key.len() + 1)
}

/// What is wrong with a text that was to be a key and its value, and has no space behind the colon. `at` is its place.
pub(crate) fn no_space(text: &str, at: Span) -> Option<Diagnostic> {
    let line = text.lines().next()?;
    let colon = glued(line)?;
    let value = &line[colon..];
    let end = at.start + colon;
    let blanks = blanks_at_start(value);
    if let Some(first) = value.chars().next().filter(|_| blanks > 0) {
        return Some(strange_blank(Span { start: end, end: end + blanks, ..at }, first));
    }
    let key = &line[..colon];
    Some(
        Diagnostic::new(Code::Syntax, Span { end, ..at }, format!("there is no space after `{key}`"))
            .label("a space is missing behind this colon")
            .help(format!("write `{key} {}`", shown(value))),
    )
}

/// An entry of a list in brackets that goes over several lines and is one text to YAML.
pub(super) fn joined_lines(source: &str, item: &Node) -> Option<Diagnostic> {
    let NodeKind::String(text) = &item.kind else { return None };
    let written = &source[item.at.range()];
    if item.via.is_some() || written.starts_with(['"', '\'']) {
        return None;
    }
    let first = written.lines().next().filter(|first| first.len() < written.len())?;
    let at = Span { end: item.at.start + first.trim_end().len(), ..item.at };
    Some(
        Diagnostic::new(
            Code::JoinedLines,
            at,
            format!("this entry goes on in the next line, as one text: `{}`", shown(text)),
        )
        .label("no comma behind this")
        .help("put a comma between two entries; write a long one on one line"),
    )
}

/// A dash that was to begin an entry of a list, and has no space behind it.
pub(crate) fn no_space_after_dash(dash: Span) -> Diagnostic {
    Diagnostic::new(Code::Syntax, dash, "a list entry needs a space after its dash")
        .label("no space behind this")
        .help("write `- ` and the value")
}
