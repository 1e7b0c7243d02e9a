//! JSON as clients' files have it: with comments and trailing commas, and as a piece cut out of a larger file.

use super::tree::{Entry, Foreign, Kind};
use crate::diagnostic::shown;

/// Deepest nesting that is read.
const MAX_DEPTH: usize = 64;

/// What is wrong, and the byte it is wrong at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JsonError {
    pub at: usize,
    pub message: String,
}

/// Reads the text; a text that starts with a key (`"github": { … }`) is read as the inside of a map.
pub(super) fn parse(text: &str) -> Result<Foreign, JsonError> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    reader.blank()?;
    let value = if reader.peek() == Some('"') { reader.members(0, None)? } else { reader.value()? };
    reader.blank()?;
    // `"a": {…},` copied with its comma.
    if reader.peek() == Some(',') {
        reader.at += 1;
        reader.blank()?;
    }
    match reader.peek() {
        None => Ok(value),
        Some(c) => Err(reader.error(format!("{} stands behind the end of the JSON", sign(c)))),
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

type Read<T> = Result<T, JsonError>;

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn error(&self, message: impl Into<String>) -> JsonError {
        JsonError { at: self.at, message: message.into() }
    }

    /// Skips blanks and comments.
    fn blank(&mut self) -> Read<()> {
        loop {
            let rest = &self.text[self.at..];
            let trimmed = rest.trim_start_matches([' ', '\t', '\r', '\n', '\u{feff}', '\u{a0}']);
            self.at += rest.len() - trimmed.len();
            if trimmed.starts_with("//") {
                self.at += trimmed.find('\n').unwrap_or(trimmed.len());
            } else if trimmed.starts_with("/*") {
                let end = trimmed.find("*/").ok_or_else(|| self.error("this comment has no end"))?;
                self.at += end + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self) -> Read<Foreign> {
        let at = self.at;
        let kind = match self.peek() {
            Some('{') => {
                self.at += 1;
                return self.nested(|reader| reader.members(at, Some('}')));
            }
            Some('[') => {
                self.at += 1;
                return self.nested(|reader| reader.list(at));
            }
            Some('"') => Kind::Text(self.string()?),
            Some(c) if c == '-' || c.is_ascii_digit() => self.number()?,
            Some(c) if c.is_ascii_alphabetic() => self.word()?,
            Some('\'') => return Err(self.error("a text stands between double quotes")),
            Some(c) => return Err(self.error(format!("{} stands where a value is due", sign(c)))),
            None => return Err(self.error("the JSON ends too early")),
        };
        Ok(Foreign { at, kind })
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Read<Foreign>) -> Read<Foreign> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("lists and maps are nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let value = read(self);
        self.depth -= 1;
        value
    }

    /// The members of a map up to `close`, or up to the end of the text.
    fn members(&mut self, at: usize, close: Option<char>) -> Read<Foreign> {
        let mut entries = Vec::new();
        loop {
            self.blank()?;
            match self.peek() {
                c if c == close => break,
                Some('"') => {}
                None => return Err(self.error("a closing `}` is missing")),
                Some(c) => {
                    return Err(self.error(format!("{} stands where a key between double quotes is due", sign(c))));
                }
            }
            let key_at = self.at;
            let key = self.string()?;
            self.blank()?;
            if self.peek() != Some(':') {
                return Err(self.error("a `:` is missing behind the key"));
            }
            self.at += 1;
            self.blank()?;
            let value = self.value()?;
            entries.push(Entry { key, at: key_at, value });
            self.blank()?;
            match self.peek() {
                Some(',') => self.at += 1,
                c if c == close => break,
                _ => return Err(self.error("a `,` or `}` is missing")),
            }
        }
        self.at += close.map_or(0, char::len_utf8);
        Ok(Foreign { at, kind: Kind::Map(entries) })
    }

    fn list(&mut self, at: usize) -> Read<Foreign> {
        let mut items = Vec::new();
        loop {
            self.blank()?;
            if self.peek() == Some(']') {
                break;
            }
            items.push(self.value()?);
            self.blank()?;
            match self.peek() {
                Some(',') => self.at += 1,
                Some(']') => break,
                _ => return Err(self.error("a `,` or `]` is missing")),
            }
        }
        self.at += 1;
        Ok(Foreign { at, kind: Kind::List(items) })
    }

    fn number(&mut self) -> Read<Kind> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c))).unwrap_or(rest.len());
        if serde_json::from_str::<serde_json::Number>(&rest[..end]).is_err() {
            return Err(self.error(format!("`{}` is no number", shown(&rest[..end]))));
        }
        self.at += end;
        Ok(Kind::Number(rest[..end].to_owned()))
    }

    fn word(&mut self) -> Read<Kind> {
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let kind = match &rest[..end] {
            "null" => Kind::Null,
            "true" => Kind::Bool(true),
            "false" => Kind::Bool(false),
            // A long one may be a secret that lost its quotes.
            other if other.len() > 12 => {
                return Err(self.error("a text without its quotes stands where a value is due"));
            }
            other => return Err(self.error(format!("`{other}` stands where a value is due"))),
        };
        self.at += end;
        Ok(kind)
    }

    fn string(&mut self) -> Read<String> {
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut end = start + 1;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => end += 2,
                Some(b'\n') | None => return Err(self.error("this text has no closing quote")),
                Some(_) => end += 1,
            }
        }
        let written = &self.text[start..=end];
        match serde_json::from_str(written) {
            Ok(text) => {
                self.at = end + 1;
                Ok(text)
            }
            // A tab in a text is a fault of JSON's only.
            Err(_) if written.contains('\t') => {
                let text = serde_json::from_str(&written.replace('\t', "\\t"));
                self.at = end + 1;
                text.map_err(|_| self.bad_text(start))
            }
            Err(_) => Err(self.bad_text(start)),
        }
    }

    fn bad_text(&self, at: usize) -> JsonError {
        JsonError { at, message: "this text holds a bad escape; a single `\\` is written `\\\\`".to_owned() }
    }
}

/// A character as a message names it.
fn sign(c: char) -> String {
    if c.is_control() { format!("the control character U+{:04X}", u32::from(c)) } else { format!("`{c}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn show(value: &Foreign) -> String {
        match &value.kind {
            Kind::List(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(",")),
            Kind::Map(entries) => {
                let entries = entries.iter().map(|entry| format!("{}:{}", entry.key, show(&entry.value)));
                format!("{{{}}}", entries.collect::<Vec<_>>().join(","))
            }
            _ => value.text().unwrap_or("null").to_owned(),
        }
    }

    #[test]
    fn comments_and_commas_are_fine() {
        let read = |text| show(&parse(text).unwrap());
        assert_eq!(read("{\"a\": [1, true, null, \"x\\u00e9\"],}"), "{a:[1,true,null,xé]}");
        assert_eq!(
            read("// top\r\n{ /* in */ \"a\": \"//no\", // behind\n \"b\": [1, /* c */],\n}\n// end"),
            "{a://no,b:[1]}"
        );
        assert_eq!(read("\"a\": {\"b\": 1},"), "{a:{b:1}}");
        assert_eq!(read("\"a\": 1, \"b\": 2"), "{a:1,b:2}");
        assert_eq!(read("{\"a\": \"\\ud83d\\ude00\"}"), "{a:😀}");
    }

    #[test]
    fn errors_have_their_byte() {
        let error = |text: &str| parse(text).unwrap_err();
        assert_eq!(error("{\"a\": x}"), JsonError { at: 6, message: "`x` stands where a value is due".to_owned() });
        assert_eq!(error("{\"a\" 1}").at, 5);
        assert_eq!(error("{\"a\": 1 \"b\": 2}").at, 8);
        assert_eq!(error("{\"p\": \"C:\\Users\"}").at, 6);
        assert!(error("{\"a\": \"x").message.contains("no closing quote"));
        assert!(error("{\"a\": 1").message.contains("missing"));
        assert!(error("{, ... }").message.contains("key"));
        assert!(error(&"[".repeat(100)).message.contains("nested"));
        assert!(error("{} x").message.contains("behind the end"));
    }

    #[test]
    fn messages_drive_no_terminal_and_repeat_no_secret() {
        for text in ["{\u{1b}", "{\"a\": \u{7}}", "{} \u{1b}[2J"] {
            let message = parse(text).unwrap_err().message;
            assert!(message.starts_with("the control character U+00"), "{message:?}");
        }
        for text in ["{\"a\": ghp0123456789abcdefghijABCDEFGHIJ0123}", "{\"a\": sk-0123456789abcdefghij0123456789}"] {
            let message = parse(text).unwrap_err().message;
            assert!(!message.contains("0123456789abc"), "{message}");
        }
    }
}
