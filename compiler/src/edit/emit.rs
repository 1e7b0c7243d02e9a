//! [`Value`] → YAML text, for the few shapes that a server entry has.
//!
//! Texts are plain only where no reader of YAML, 1.1 or 1.2, takes them for anything else; all others stand between
//! double quotes on one line, so that nothing depends on the lines around them.

use super::Value;
use crate::document::number_of;

/// How the entries around look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Spaces that a map's entries stand deeper than its key.
    pub indent: usize,
    /// Spaces that the dashes of a block list stand deeper than its key.
    pub list_indent: usize,
    /// Whether short lists are written with dashes instead of brackets.
    pub dashes: bool,
    /// Spaces between a dash and what follows it.
    pub gap: usize,
}

impl Default for Style {
    fn default() -> Self {
        Self { indent: 2, list_indent: 2, dashes: false, gap: 1 }
    }
}

/// Longest list in brackets, in characters.
const WIDE: usize = 100;

impl Style {
    /// An item of a block list whose dash stands in `column`, as whole lines.
    pub fn item(&self, value: &Value, column: usize) -> String {
        let mut out = spaces(column);
        self.dashed(value, column, &mut out);
        out
    }

    /// The entries of a map whose keys stand in `column`, as whole lines.
    pub fn entries(&self, entries: &[(String, Value)], column: usize) -> String {
        let mut out = String::new();
        for (key, value) in entries {
            out.push_str(&spaces(column));
            self.entry(key, value, column, &mut out);
        }
        out
    }

    /// From the dash on, to the end of the last line.
    fn dashed(&self, value: &Value, column: usize, out: &mut String) {
        out.push('-');
        out.push_str(&spaces(self.gap));
        let inside = column + 1 + self.gap;
        match value {
            Value::Map(entries) if !entries.is_empty() => {
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        out.push_str(&spaces(inside));
                    }
                    self.entry(key, value, inside, out);
                }
            }
            Value::List(items) if !items.is_empty() && !fits_brackets(items) => {
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        out.push_str(&spaces(inside));
                    }
                    self.dashed(item, inside, out);
                }
            }
            other => {
                out.push_str(&flow(other, false));
                out.push('\n');
            }
        }
    }

    fn entry(&self, key: &str, value: &Value, column: usize, out: &mut String) {
        out.push_str(&scalar(key, false));
        out.push(':');
        match value {
            Value::Map(entries) if !entries.is_empty() => {
                out.push('\n');
                out.push_str(&self.entries(entries, column + self.indent));
            }
            Value::List(items) if !items.is_empty() && (self.dashes || !fits_brackets(items)) => {
                out.push('\n');
                // A wide gap is for the entries of the outer list.
                let inner = Self { gap: 1, ..*self };
                for item in items {
                    out.push_str(&inner.item(item, column + self.list_indent));
                }
            }
            other => {
                out.push(' ');
                out.push_str(&flow(other, false));
                out.push('\n');
            }
        }
    }
}

fn spaces(count: usize) -> String {
    " ".repeat(count)
}

fn fits_brackets(items: &[Value]) -> bool {
    let scalar = |item: &Value| !matches!(item, Value::List(_) | Value::Map(_));
    items.iter().all(scalar) && items.iter().map(|item| flow(item, true).len() + 2).sum::<usize>() <= WIDE
}

/// The value on one line; `inside` brackets fewer texts can be plain.
pub(super) fn flow(value: &Value, inside: bool) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(text) => text.clone(),
        Value::Text(text) => scalar(text, inside),
        Value::List(items) => {
            format!("[{}]", items.iter().map(|item| flow(item, true)).collect::<Vec<_>>().join(", "))
        }
        Value::Map(entries) if entries.is_empty() => "{}".to_owned(),
        Value::Map(entries) => {
            let entries = entries.iter().map(|(key, value)| format!("{}: {}", scalar(key, true), flow(value, true)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

fn scalar(text: &str, inside: bool) -> String {
    if is_plain(text, inside) { text.to_owned() } else { quoted(text) }
}

/// Whether the text can stand without quotes for every reader.
fn is_plain(text: &str, inside: bool) -> bool {
    let starts = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '~') || c.is_alphabetic();
    let holds = |c: char| {
        c.is_alphanumeric()
            || " _./:@+=%~^*()!?&;<>|\\-'$".contains(c)
            || (!inside && c == ',')
            || (!inside && c == '"')
    };
    text.starts_with(starts)
        && text.chars().all(holds)
        && !text.ends_with([' ', ':'])
        && !text.contains(": ")
        && !(inside && text.contains(':') && !text.contains("://"))
        && !is_word(text)
        && !looks_numeric(text)
}

/// What some version of YAML reads as a truth value, as nothing or as a number's neighbour.
fn is_word(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    matches!(
        lower.as_str(),
        "true" | "false" | "yes" | "no" | "on" | "off" | "y" | "n" | "null" | "~" | ".nan" | ".inf"
    )
}

/// Numbers, and what YAML 1.1 takes for numbers, times and dates.
fn looks_numeric(text: &str) -> bool {
    let digits = text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    number_of(text).is_some()
        || digits && text.chars().all(|c| c.is_ascii_hexdigit() || " _.:+-xXoTtZz".contains(c)) && !is_path(text)
}

/// `.` and `..` are directories to everyone.
fn is_path(text: &str) -> bool {
    text.bytes().all(|byte| byte == b'.')
}

/// Between double quotes, on one line, with every character that isn't visible written as an escape.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            '\u{ad}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}'
            | '\u{fffe}'
            | '\u{ffff}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            _ => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;
    use crate::source::{Source, SourceId};
    use proptest::prelude::*;

    fn read(text: &str) -> Value {
        let (document, problems) = parse(SourceId::default(), &Source::new("t", text));
        assert!(problems.is_empty(), "{text}\n{problems:?}");
        Value::from(&document.unwrap().root)
    }

    #[test]
    fn quotes_where_somebody_would_read_something_else() {
        for plain in ["npx", "/data", ".", "..", "a b", "https://example.com/mcp?x=1", "C:\\x", "a@1.2", "it's", "~/x"]
        {
            assert_eq!(scalar(plain, false), plain);
        }
        for odd in [
            "",
            "yes",
            "No",
            "null",
            "1.10",
            "017",
            "1_000",
            "2001-01-01",
            "12:30",
            "-y",
            "@x/y",
            "*",
            "a: b",
            "a #b",
            "${X}",
            " a",
            "a ",
            "{x}",
            "[x]",
            "a:",
            "\"x",
            "%A",
            "1e3",
            ".5",
            "0x1f",
            "+1",
            "|",
            ">",
            "&a",
            "!t",
            "`",
        ] {
            assert!(scalar(odd, false).starts_with('"'), "{odd}: {}", scalar(odd, false));
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            "\\PC{0,12}".prop_map(Value::Text),
            any::<String>().prop_map(Value::Text),
            "[-a-z0-9:#&*!|>'\"%@`,{}\\[\\]? .~\n]{0,8}".prop_map(Value::Text),
            Just(Value::Bool(true)),
            (-1000i32..1000).prop_map(|n| Value::Number(n.to_string())),
        ];
        let key = prop_oneof!["[a-z]{1,6}", "\\PC{0,8}"];
        text.prop_recursive(3, 24, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
                prop::collection::btree_map(key.clone(), inner, 0..4)
                    .prop_map(|map| Value::Map(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(value in any_value(), indent in 1usize..5, list_indent in 0usize..4,
                                         dashes: bool, gap in 1usize..4, column in 0usize..4) {
            let style = Style { indent, list_indent, dashes, gap };
            prop_assert_eq!(read(&style.item(&value, column)), Value::List(vec![value.clone()]));
            let map = vec![("k".to_owned(), value.clone())];
            prop_assert_eq!(read(&style.entries(&map, column)), Value::Map(map));
            prop_assert_eq!(read(&format!("[{}]", flow(&value, true))), Value::List(vec![value]));
        }
    }
}
