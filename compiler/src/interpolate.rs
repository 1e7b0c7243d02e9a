//! `${NAME}` in a scalar: parsed once into a [`Template`], resolved only when a connection opens.
//!
//! Works on one parsed scalar, never on YAML text, so a value can't add structure; one pass, so a value is never
//! scanned again. A template keeps references as references and prints as it would be written.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A string with references in it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Template {
    parts: Vec<Part>,
}

/// A piece of a [`Template`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Text as it is.
    Text(String),
    /// Something to look up.
    Reference(Reference),
}

/// What a reference names and what happens when it is missing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reference {
    /// `${NAME}`: an environment variable; unset is an error.
    Variable(String),
    /// `${NAME:-text}`: the variable, or the text when it is unset or empty.
    OrText(String, String),
    /// `${NAME:?message}`: the variable; unset or empty is an error with this message.
    OrError(String, String),
    /// `${file:PATH}`: the content of a file without its final newline.
    File(String),
}

/// Something in a scalar that is wrong or looks unintended, with the bytes of the scalar it stands on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Bytes within the scalar.
    pub at: Range<usize>,
    /// What.
    pub kind: FindingKind,
}

/// What a [`Finding`] says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindingKind {
    /// `${` or `$<` without its end.
    Unclosed,
    /// `${}`: nothing named.
    Empty,
    /// Something after `${` that is none of the forms, such as `${a-b}` or `${input:key}`, or a name after `$<` with more
    /// than that.
    Malformed(String),
    /// `$NAME` without braces, at the start of a word: left as written.
    Bare(String),
    /// `$$` that keeps nothing from being read: becomes one `$`, and may have been meant as two.
    Doubled,
}

impl FindingKind {
    /// Whether the scalar means nothing because of it.
    pub fn is_error(&self) -> bool {
        matches!(self, Self::Unclosed | Self::Empty | Self::Malformed(_))
    }
}

impl Template {
    /// Parses a scalar. Findings that are errors leave their text in the template as it stands.
    pub fn parse(text: &str) -> (Self, Vec<Finding>) {
        let mut parser = Parser { text, at: 0, parts: Vec::new(), plain: String::new(), findings: Vec::new() };
        parser.run();
        (Self { parts: parser.parts }, parser.findings)
    }

    /// A template of `text` alone, whatever `$` it holds.
    pub fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { parts: if text.is_empty() { Vec::new() } else { vec![Part::Text(text)] } }
    }

    /// The same with a literal text in front.
    #[must_use]
    pub fn prefixed(mut self, front: &str) -> Self {
        match self.parts.first_mut() {
            _ if front.is_empty() => {}
            Some(Part::Text(text)) => text.insert_str(0, front),
            _ => self.parts.insert(0, Part::Text(front.to_owned())),
        }
        self
    }

    /// The same with another path in each `${file:PATH}`.
    #[must_use]
    pub fn with_paths(mut self, change: impl Fn(&str) -> String) -> Self {
        for part in &mut self.parts {
            if let Part::Reference(Reference::File(path)) = part {
                *path = change(path);
            }
        }
        self
    }

    /// The pieces in order.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The references in order.
    pub fn references(&self) -> impl Iterator<Item = &Reference> {
        self.parts.iter().filter_map(|part| match part {
            Part::Reference(reference) => Some(reference),
            Part::Text(_) => None,
        })
    }

    /// The text, when there is no reference in it.
    pub fn as_literal(&self) -> Option<String> {
        self.parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Reference(_) => None,
            })
            .collect()
    }

    /// Puts the parts together, asking `look_up` for each reference.
    ///
    /// # Errors
    /// The first error of `look_up`.
    pub fn resolve<E>(&self, mut look_up: impl FnMut(&Reference) -> Result<String, E>) -> Result<String, E> {
        self.parts.iter().try_fold(String::new(), |mut out, part| {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Reference(reference) => out.push_str(&look_up(reference)?),
            }
            Ok(out)
        })
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    parts: Vec<Part>,
    plain: String,
    findings: Vec<Finding>,
}

impl Parser<'_> {
    fn run(&mut self) {
        while let Some(dollar) = self.text[self.at..].find('$').map(|found| self.at + found) {
            self.plain.push_str(&self.text[self.at..dollar]);
            self.at = dollar;
            match self.text.as_bytes().get(dollar + 1) {
                Some(b'$') => self.doubled(),
                Some(b'{') => self.braced(),
                Some(b'<') => self.angled(),
                _ => self.bare(),
            }
        }
        self.plain.push_str(&self.text[self.at..]);
        self.flush();
    }

    fn flush(&mut self) {
        if !self.plain.is_empty() {
            self.parts.push(Part::Text(std::mem::take(&mut self.plain)));
        }
    }

    fn doubled(&mut self) {
        if !self.before(self.at).ends_with('$') && self.is_ambiguous_run() {
            self.find(self.at..self.at + 2, FindingKind::Doubled);
        }
        self.plain.push('$');
        self.at += 2;
    }

    fn before(&self, at: usize) -> &str {
        &self.text[..at]
    }

    /// Whether the dollars from here on may be meant as they stand. They aren't where every one is written twice, and more
    /// than one is, nor where `${`, `$<` or `$NAME` is kept from being read.
    fn is_ambiguous_run(&self) -> bool {
        let rest = &self.text[self.at..];
        let behind = rest.trim_start_matches('$');
        let count = rest.len() - behind.len();
        if behind.starts_with(['{', '<']) {
            return false;
        }
        match count {
            2 => name_prefix(behind).is_empty() || ends_in_word(self.before(self.at)),
            _ => count % 2 == 1,
        }
    }

    fn bare(&mut self) {
        let name = name_prefix(&self.text[self.at + 1..]);
        let before = self.before(self.at);
        // In the middle of a word it is more likely one of a password's characters.
        if !name.is_empty() && !ends_in_word(before) && !before.ends_with('$') {
            self.find(self.at..self.at + 1 + name.len(), FindingKind::Bare(name.to_owned()));
        }
        self.plain.push('$');
        self.at += 1;
    }

    fn angled(&mut self) {
        let rest = &self.text[self.at + 2..];
        let name = name_prefix(rest);
        if !name.is_empty() && rest[name.len()..].starts_with('>') {
            self.refer(Reference::Variable(name.to_owned()), self.at + 3 + name.len());
            return;
        }
        // Before anything but a name `$<` is ordinary text; with one, a reference was meant.
        if !name.is_empty() {
            let close = rest.find('>');
            let kind = close.map_or(FindingKind::Unclosed, |close| FindingKind::Malformed(rest[..close].to_owned()));
            let end = close.map_or(self.text.len(), |close| self.at + 2 + close + 1);
            self.find(self.at..end, kind);
        }
        self.plain.push_str("$<");
        self.at += 2;
    }

    fn braced(&mut self) {
        let Some(close) = self.text[self.at..].find('}').map(|found| self.at + found) else {
            self.find(self.at..self.text.len(), FindingKind::Unclosed);
            self.plain.push_str(&self.text[self.at..]);
            self.at = self.text.len();
            return;
        };
        let inner = &self.text[self.at + 2..close];
        match reference(inner) {
            Some(reference) => self.refer(reference, close + 1),
            None => {
                let kind = if inner.is_empty() { FindingKind::Empty } else { FindingKind::Malformed(inner.to_owned()) };
                self.find(self.at..close + 1, kind);
                self.plain.push_str(&self.text[self.at..=close]);
                self.at = close + 1;
            }
        }
    }

    fn refer(&mut self, reference: Reference, next: usize) {
        self.flush();
        self.parts.push(Part::Reference(reference));
        self.at = next;
    }

    fn find(&mut self, at: Range<usize>, kind: FindingKind) {
        self.findings.push(Finding { at, kind });
    }
}

/// Whether a `$` behind this text stands inside of a word.
pub(crate) fn ends_in_word(text: &str) -> bool {
    text.ends_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// What stands between `${` and `}`.
fn reference(inner: &str) -> Option<Reference> {
    if let Some(path) = inner.strip_prefix("file:") {
        return (!path.is_empty()).then(|| Reference::File(path.to_owned()));
    }
    let inner = inner.strip_prefix("env:").unwrap_or(inner);
    let name = name_prefix(inner);
    if name.is_empty() {
        return None;
    }
    let (name, rest) = (name.to_owned(), &inner[name.len()..]);
    if rest.is_empty() {
        Some(Reference::Variable(name))
    } else if let Some(text) = rest.strip_prefix(":-") {
        Some(Reference::OrText(name, text.to_owned()))
    } else {
        rest.strip_prefix(":?").map(|message| Reference::OrError(name, message.to_owned()))
    }
}

/// The longest variable name that `text` starts with: a letter or `_`, then letters, digits and `_`.
pub(crate) fn name_prefix(text: &str) -> &str {
    let mut length = 0;
    for (index, byte) in text.bytes().enumerate() {
        if byte == b'_' || byte.is_ascii_alphabetic() || (index > 0 && byte.is_ascii_digit()) {
            length = index + 1;
        } else {
            break;
        }
    }
    &text[..length]
}

impl Reference {
    /// The variable it reads, if it reads one.
    pub fn variable(&self) -> Option<&str> {
        match self {
            Self::Variable(name) | Self::OrText(name, _) | Self::OrError(name, _) => Some(name),
            Self::File(_) => None,
        }
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(f, "${{{name}}}"),
            Self::OrText(name, text) => write!(f, "${{{name}:-{text}}}"),
            Self::OrError(name, message) => write!(f, "${{{name}:?{message}}}"),
            Self::File(path) => write!(f, "${{file:{path}}}"),
        }
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, part) in self.parts.iter().enumerate() {
            match part {
                Part::Reference(reference) => write!(f, "{reference}")?,
                Part::Text(text) => {
                    // Every `$` that a parser could take for the start of something is written twice.
                    let mut rest = text.as_str();
                    while let Some(at) = rest.find('$') {
                        f.write_str(&rest[..at])?;
                        let after = &rest[at + 1..];
                        let last = after.is_empty() && index + 1 == self.parts.len();
                        let plain = last || !after.is_empty() && !after.starts_with(['{', '<', '$']);
                        f.write_str(if plain { "$" } else { "$$" })?;
                        rest = after;
                    }
                    f.write_str(rest)?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({:?})", self.to_string())
    }
}

impl Serialize for Template {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Self::parse(&text).0)
    }
}

impl schemars::JsonSchema for Template {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Template".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(text: &str) -> Vec<Part> {
        Template::parse(text).0.parts
    }

    fn text(text: &str) -> Part {
        Part::Text(text.to_owned())
    }

    fn variable(name: &str) -> Part {
        Part::Reference(Reference::Variable(name.to_owned()))
    }

    #[test]
    fn every_form() {
        assert_eq!(parts("Bearer ${TOKEN}!"), [text("Bearer "), variable("TOKEN"), text("!")]);
        assert_eq!(parts("${env:TOKEN}"), [variable("TOKEN")]);
        assert_eq!(parts("$<TOKEN>"), [variable("TOKEN")]);
        assert_eq!(parts("${A}${B}"), [variable("A"), variable("B")]);
        assert_eq!(parts("${A:-x$y{z}"), [Part::Reference(Reference::OrText("A".into(), "x$y{z".into()))]);
        assert_eq!(parts("${A:-}"), [Part::Reference(Reference::OrText("A".into(), String::new()))]);
        assert_eq!(parts("${A:?set A}"), [Part::Reference(Reference::OrError("A".into(), "set A".into()))]);
        assert_eq!(parts("${file:/run/x}"), [Part::Reference(Reference::File("/run/x".into()))]);
        assert_eq!(parts("$${A}"), [text("${A}")]);
        assert_eq!(parts("$$<A>"), [text("$<A>")]);
        assert_eq!(parts("cost $5"), [text("cost $5")]);
        assert_eq!(parts("${A:-x}y}"), [Part::Reference(Reference::OrText("A".into(), "x".into())), text("y}")]);
        assert_eq!(parts(""), []);
    }

    #[test]
    fn findings_have_their_bytes() {
        let find = |text: &str| Template::parse(text).1;
        assert_eq!(find("a ${B"), [Finding { at: 2..5, kind: FindingKind::Unclosed }]);
        assert_eq!(find("${}"), [Finding { at: 0..3, kind: FindingKind::Empty }]);
        assert_eq!(find("é${a-b}"), [Finding { at: 2..8, kind: FindingKind::Malformed("a-b".into()) }]);
        assert_eq!(find("${1A}"), [Finding { at: 0..5, kind: FindingKind::Malformed("1A".into()) }]);
        assert_eq!(find("x $HOME/y"), [Finding { at: 2..7, kind: FindingKind::Bare("HOME".into()) }]);
        assert_eq!(find("pa$$word"), [Finding { at: 2..4, kind: FindingKind::Doubled }]);
        assert_eq!(find("a $<B"), [Finding { at: 2..5, kind: FindingKind::Unclosed }]);
        assert_eq!(find("$<B:-x>y"), [Finding { at: 0..7, kind: FindingKind::Malformed("B:-x".into()) }]);
        assert_eq!(find("$$$"), [Finding { at: 0..2, kind: FindingKind::Doubled }]);
        assert_eq!(find("$${A} $5 $ $< $<5> $$<x"), []);
        // What the help of both lints says to write.
        assert_eq!(find("$$HOME --x=$$HOME pa$$$$word $$$$ $$$$$${A} $$${A} pa$word a_$b"), []);
    }

    #[test]
    fn a_value_is_never_scanned_again() {
        let (template, _) = Template::parse("${PW}");
        let value = template.resolve(|_| Ok::<_, ()>("pa$$w0rd${X}".to_owned()));
        assert_eq!(value.unwrap(), "pa$$w0rd${X}");
    }

    proptest! {
        #[test]
        fn printing_and_parsing_again_is_the_same_template(text in "[$${}<>:?a-zA-Z_0-9 -]{0,24}") {
            let (template, findings) = Template::parse(&text);
            prop_assume!(findings.iter().all(|finding| !finding.kind.is_error()));
            let printed = template.to_string();
            prop_assert_eq!(Template::parse(&printed).0, template, "printed as {}", printed);
        }

        #[test]
        fn any_text_parses(text in "\\PC{0,40}") {
            Template::parse(&text);
        }
    }
}
