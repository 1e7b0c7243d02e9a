//! JSON as text: laid out, packed and digested without re-encoding a single number or string.
//!
//! What a server said is kept byte for byte inside its tokens; only white space between tokens is ours to change.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;

use memchr::{memchr, memchr2};
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

/// Lays JSON text out with two spaces a level and a final newline. Tokens are copied as they stand.
///
/// `text` must be valid JSON; what isn't comes out in a shape of its own, never as a panic.
pub fn pretty(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut depth = 0usize;
    let newline = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    let mut tokens = Tokens(text).peekable();
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => {
                out.push_str(token);
                let close = if token == "{" { "}" } else { "]" };
                if tokens.peek() == Some(&close) {
                    out.push_str(close);
                    tokens.next();
                } else {
                    depth += 1;
                    newline(&mut out, depth);
                }
            }
            "}" | "]" => {
                depth = depth.saturating_sub(1);
                newline(&mut out, depth);
                out.push_str(token);
            }
            "," => {
                out.push(',');
                newline(&mut out, depth);
            }
            ":" => out.push_str(": "),
            _ => out.push_str(token),
        }
    }
    out.push('\n');
    out
}

/// Drops the white space between tokens, so that the text stands on one line.
pub fn compact(text: &str) -> String {
    if !text.contains(['\n', '\r', '\t', ' ']) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    out.extend(Tokens(text));
    out
}

/// The text with every string in it, keys included, put through `change`. Every other token stays as it is; `None` when
/// nothing changed.
pub fn map_strings<'a>(text: &str, change: impl Fn(&str) -> Cow<'a, str>) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut changed = false;
    for token in Tokens(text) {
        let said = token.starts_with('"').then(|| serde_json::from_str::<String>(token).ok()).flatten();
        match said.as_deref().map(|said| (said, change(said))) {
            Some((said, new)) if new != said => {
                out.push_str(&string(&new));
                changed = true;
            }
            _ => out.push_str(token),
        }
    }
    changed.then_some(out)
}

/// Keys whose values are names by which something is called, or which a schema is matched by: changed, they would no
/// longer fit what the server has.
const NAMING: [&str; 15] = [
    "name",
    "uri",
    "uriTemplate",
    "const",
    "enum",
    "required",
    "dependentRequired",
    "type",
    "format",
    "mimeType",
    "$ref",
    "$dynamicRef",
    "$id",
    "$anchor",
    "$schema",
];

/// `text` with every string that is said to somebody put through `change`; `None` when nothing changed. Keys of objects
/// stay, and so do names: the value of `name`, `uri`, `enum` and the like, and the items of a list there.
pub fn map_texts<'a>(text: &str, change: impl Fn(&str) -> Cow<'a, str>) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut changed = false;
    // Of each object and list around the token: whether it is an object, and whether what comes next in it is a name.
    let mut around: Vec<(bool, bool)> = Vec::new();
    let mut is_key = false;
    for token in Tokens(text) {
        let is_name = around.last().is_some_and(|(_, is_name)| *is_name);
        match token {
            "{" => {
                around.push((true, false));
                is_key = true;
            }
            "[" => {
                around.push((false, is_name));
                is_key = false;
            }
            "}" | "]" => {
                around.pop();
                is_key = false;
            }
            "," => is_key = around.last().is_some_and(|(is_object, _)| *is_object),
            ":" => is_key = false,
            _ if token.starts_with('"') => {
                if let Ok(said) = serde_json::from_str::<String>(token) {
                    if is_key {
                        if let Some((_, is_name)) = around.last_mut() {
                            *is_name = NAMING.contains(&said.as_str());
                        }
                    } else if !is_name {
                        let new = change(&said);
                        if new != said {
                            out.push_str(&string(&new));
                            changed = true;
                            continue;
                        }
                    }
                }
            }
            _ => {}
        }
        out.push_str(token);
    }
    changed.then_some(out)
}

/// The tokens of a JSON text: punctuation, strings with their quotes, and runs of anything else.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
        let spaces = self.0.bytes().position(|byte| !is_space(&byte))?;
        let text = &self.0[spaces..];
        let bytes = text.as_bytes();
        let length = match bytes.first()? {
            b'{' | b'}' | b'[' | b']' | b',' | b':' => 1,
            b'"' => string_length(bytes),
            _ => bytes
                .iter()
                .position(|b| {
                    matches!(b, b'{' | b'}' | b'[' | b']' | b',' | b':' | b'"' | b' ' | b'\n' | b'\r' | b'\t')
                })
                .unwrap_or(bytes.len()),
        };
        let (token, rest) = text.split_at(length);
        self.0 = rest;
        Some(token)
    }
}

/// Bytes of the string literal that `bytes` starts with, quotes included.
fn string_length(bytes: &[u8]) -> usize {
    let mut at = 1;
    while let Some(next) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += next;
        match bytes[at] {
            b'"' => return at + 1,
            _ => at += 2,
        }
    }
    bytes.len()
}

/// Why a text has no canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotCanonical {
    /// This key stands twice in one object. Readers disagree on which of the two counts, so that what is checked need
    /// not be what a client shows.
    Doubled(String),
    /// It is no JSON, nested deeper than 127, or a text or number in it stands for nothing.
    Unreadable,
}

/// Deepest nesting that is read, as in serde_json.
const MAX_DEPTH: usize = 127;

/// The same value with sorted keys and nothing between tokens, so that two servers' spellings of one thing are equal.
///
/// Numbers are normalised: `1.0`, `1` and `1e0` are one number.
///
/// # Errors
/// `text` must be JSON, which is checked only as far as it matters here.
pub fn canonical(text: &str) -> Result<String, NotCanonical> {
    let mut out = String::with_capacity(text.len());
    whole_canonical(&mut Tokens(text), &mut out)?;
    Ok(out)
}

/// The text as [`compact`] gives it, and its canonical form, in one reading.
///
/// # Errors
/// As [`canonical`].
pub fn compact_and_canonical(text: &str) -> Result<(String, String), NotCanonical> {
    let (mut compact, mut canonical) = (String::with_capacity(text.len()), String::with_capacity(text.len()));
    let mut tokens = Tokens(text).inspect(|token| compact.push_str(token));
    whole_canonical(&mut tokens, &mut canonical)?;
    Ok((compact, canonical))
}

fn whole_canonical<'a>(tokens: &mut impl Iterator<Item = &'a str>, out: &mut String) -> Result<(), NotCanonical> {
    let first = tokens.next().ok_or(NotCanonical::Unreadable)?;
    write_canonical(first, tokens, 0, out)?;
    if tokens.next().is_some() { Err(NotCanonical::Unreadable) } else { Ok(()) }
}

/// The canonical form of `value`.
pub fn canonical_of(value: &Value) -> String {
    let text = value.to_string();
    // Nothing can be said of a value that is nested too deep but what it says itself.
    canonical(&text).unwrap_or(text)
}

/// Writes the value that begins with `token`, in time and space that grow with its text, as nothing else in it is kept.
fn write_canonical<'a>(
    token: &'a str,
    tokens: &mut impl Iterator<Item = &'a str>,
    depth: usize,
    out: &mut String,
) -> Result<(), NotCanonical> {
    use NotCanonical::Unreadable;
    if depth >= MAX_DEPTH && matches!(token, "{" | "[") {
        return Err(Unreadable);
    }
    match token {
        "{" => {
            out.push('{');
            let start = out.len();
            // Each key and where it stands in `out`, with its value.
            let mut members: Vec<(Cow<'a, str>, Range<usize>)> = Vec::new();
            let mut token = tokens.next().ok_or(Unreadable)?;
            while token != "}" {
                if !members.is_empty() {
                    out.push(',');
                }
                let from = out.len();
                let key = read_string(token)?;
                match &key {
                    Cow::Borrowed(_) => out.push_str(token),
                    Cow::Owned(key) => out.push_str(&string(key)),
                }
                if tokens.next() != Some(":") {
                    return Err(Unreadable);
                }
                out.push(':');
                write_canonical(tokens.next().ok_or(Unreadable)?, tokens, depth + 1, out)?;
                members.push((key, from..out.len()));
                token = match tokens.next().ok_or(Unreadable)? {
                    "," => tokens.next().ok_or(Unreadable)?,
                    "}" => "}",
                    _ => return Err(Unreadable),
                };
            }
            if !members.is_sorted_by(|(one, _), (next, _)| one < next) {
                members.sort_by(|(one, _), (other, _)| one.cmp(other));
                if let Some(pair) = members.windows(2).find(|pair| pair[0].0 == pair[1].0) {
                    return Err(NotCanonical::Doubled(pair[0].0.to_string()));
                }
                let sorted: Vec<_> = members.iter().map(|(_, at)| &out[at.clone()]).collect();
                let sorted = sorted.join(",");
                out.truncate(start);
                out.push_str(&sorted);
            }
            out.push('}');
        }
        "[" => {
            out.push('[');
            let start = out.len();
            let mut token = tokens.next().ok_or(Unreadable)?;
            while token != "]" {
                if out.len() > start {
                    out.push(',');
                }
                write_canonical(token, tokens, depth + 1, out)?;
                token = match tokens.next().ok_or(Unreadable)? {
                    "," => tokens.next().ok_or(Unreadable)?,
                    "]" => "]",
                    _ => return Err(Unreadable),
                };
            }
            out.push(']');
        }
        "true" | "false" | "null" => out.push_str(token),
        _ if token.starts_with('"') => write_string(token, out)?,
        _ => write_number(token, out)?,
    }
    Ok(())
}

/// What a string literal stands for.
fn read_string(token: &str) -> Result<Cow<'_, str>, NotCanonical> {
    let inner = token.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).ok_or(NotCanonical::Unreadable)?;
    if !inner.contains('\\') {
        return Ok(Cow::Borrowed(inner));
    }
    serde_json::from_str(token).map(Cow::Owned).map_err(|_| NotCanonical::Unreadable)
}

fn write_string(token: &str, out: &mut String) -> Result<(), NotCanonical> {
    if is_only_spelling(token) {
        out.push_str(token);
    } else {
        out.push_str(&string(&read_string(token)?));
    }
    Ok(())
}

/// Whether a string literal has no escape but those of which there is one spelling; `\/` and `\u` have others.
fn is_only_spelling(token: &str) -> bool {
    let mut rest = token.as_bytes();
    while let Some(at) = memchr(b'\\', rest) {
        match rest.get(at + 1) {
            None | Some(b'/' | b'u') => return false,
            Some(_) => rest = &rest[at + 2..],
        }
    }
    true
}

fn write_number(token: &str, out: &mut String) -> Result<(), NotCanonical> {
    // Most are short, whole and spelt in the one way.
    if token.len() < 16 && token.bytes().all(|byte| byte.is_ascii_digit()) {
        out.push_str(token);
        return Ok(());
    }
    let number: serde_json::Number = serde_json::from_str(token).map_err(|_| NotCanonical::Unreadable)?;
    match number.as_f64() {
        // Beyond 2^53 a float can't tell neighbours apart, so such an integer keeps its own digits.
        Some(float) if float.fract() == 0.0 && float.abs() < 9_007_199_254_740_992.0 => {
            out.push_str(&format!("{}", float as i64));
        }
        _ => out.push_str(&number.to_string()),
    }
    Ok(())
}

/// `text` as a JSON string literal.
pub fn string(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// SHA-256 of `bytes`, as `sha256:` and 64 hex digits.
pub fn digest(bytes: &[u8]) -> String {
    digest_of([bytes])
}

/// The digest of all `parts` one after the other.
pub fn digest_of<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> String {
    let whole = parts.into_iter().fold(Sha256::new(), |whole, part| whole.chain_update(part));
    format!("sha256:{}", hex(&whole.finalize()))
}

/// The literal of the string that the object `text` has under that name itself, and not further inside.
///
/// `text` must be valid JSON; it is read only as far as there.
pub fn string_member<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut tokens = Tokens(text).peekable();
    let mut depth = 0usize;
    while let Some(token) = tokens.next() {
        match token {
            "{" | "[" => depth += 1,
            "}" | "]" => depth = depth.checked_sub(1)?,
            _ if depth == 1
                && token.starts_with('"')
                && tokens.next_if_eq(&":").is_some()
                && read_string(token).is_ok_and(|key| key == name) =>
            {
                return tokens.next().filter(|value| value.starts_with('"'));
            }
            _ => {}
        }
    }
    None
}

/// `text` with another string under that name of the object's own, every other byte as it is. Without such a string it is
/// the same text.
pub fn with_string_member(text: &str, name: &str, value: &str) -> String {
    let Some(old) = string_member(text, name) else { return text.to_owned() };
    // `old` borrows from `text`, so the distance of the two is where it stands.
    let at = old.as_ptr() as usize - text.as_ptr() as usize;
    [&text[..at], &string(value), &text[at + old.len()..]].concat()
}

/// Lower-case hex of `bytes`.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: [char; 16] = ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'];
    let digit = |value: u8| DIGITS[usize::from(value & 0xf)];
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

/// `value`, which serializes as an object, as JSON text with its own fields sorted and each field's text as it is.
///
/// # Panics
/// Never for the types of this crate: see [`text`].
pub fn sorted_fields<T: Serialize>(value: &T) -> String {
    let fields: BTreeMap<String, Box<RawValue>> =
        serde_json::from_str(&text(value)).expect("it serializes as an object");
    text(&fields)
}

/// `value` as JSON text with our own keys sorted at every level that comes from a map.
///
/// # Panics
/// Never for the types of this crate: none has a map with keys that aren't strings.
pub fn text<T: Serialize>(value: &T) -> String {
    serde_json::to_string(value).expect("types of this crate serialize")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pretty_keeps_tokens_and_lays_out() {
        let text = r#"{"a":1.50,"b":[],"c":[1,{"d":"x, {y}: \"z\""}],"e":{}}"#;
        let laid = pretty(text);
        assert_eq!(
            laid,
            "{\n  \"a\": 1.50,\n  \"b\": [],\n  \"c\": [\n    1,\n    {\n      \"d\": \"x, {y}: \\\"z\\\"\"\n    }\n  ],\n  \"e\": {}\n}\n"
        );
        assert_eq!(compact(&laid), text);
    }

    #[test]
    fn a_member_is_the_objects_own() {
        let text = r#"{"a":{"name":"inner"},"list":["name",{"name":1}],"text":"\"name\":\"no\"", "n\u0061me" : "out\"er","z":1}"#;
        assert_eq!(string_member(text, "name"), Some(r#""out\"er""#));
        assert_eq!(string_member(text, "inner"), None);
        assert_eq!(string_member(text, "z"), None, "it is no string");
        assert_eq!(string_member(r#"["name"]"#, "name"), None);
        assert_eq!(string_member("", "name"), None);
        assert_eq!(with_string_member(text, "name", "n\"w"), text.replace(r#""out\"er""#, r#""n\"w""#));
        assert_eq!(with_string_member(text, "absent", "x"), text);
    }

    #[test]
    fn one_reading_gives_both_forms() {
        let text = "{ \"b\" : [ 1.0, \"x  y\" ],\n\t\"a\": {} }";
        let (compacted, canon) = compact_and_canonical(text).unwrap();
        assert_eq!((compacted, canon), (compact(text), canonical(text).unwrap()));
    }

    #[test]
    fn canonical_ignores_order_and_spelling() {
        let a = r#"{"b":1.0, "a":[2,3e0], "\u0063":"\u00e9\/\n"}"#;
        let b = "{\"c\":\"é/\\n\",\"a\":[2.0,3],\"b\":1}";
        assert_eq!(canonical(a), canonical(b));
        assert_eq!(canonical(a).unwrap(), "{\"a\":[2,3],\"b\":1,\"c\":\"é/\\n\"}");
        let c = canonical(r#"{"a":[3,2],"b":1,"c":"é/\n"}"#);
        assert_ne!(canonical(a), c, "order of a list is meaning");
        for (number, expected) in [
            ("-0", "0"),
            ("1.50", "1.5"),
            ("1E2", "100"),
            ("0.1", "0.1"),
            ("9007199254740993", "9007199254740993"),
            ("18446744073709551615", "18446744073709551615"),
            ("1e300", "1e+300"),
        ] {
            assert_eq!(canonical(number).unwrap(), expected);
        }
    }

    #[test]
    fn what_stands_for_nothing_has_no_canonical_form() {
        for text in ["", "{", "[1", "1e999", r#""\ud800""#, "tru", "{1:2}", "[1] 2", r#"{"a"}"#] {
            assert_eq!(canonical(text), Err(NotCanonical::Unreadable), "{text}");
        }
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(canonical(&nested(127)).is_ok());
        assert!(serde_json::from_str::<Value>(&nested(127)).is_ok());
        assert!(canonical(&nested(127).replace("[]", "[1]")).is_ok());
        assert_eq!(canonical(&nested(128)), Err(NotCanonical::Unreadable));
        assert!(serde_json::from_str::<Value>(&nested(128)).is_err());
    }

    #[test]
    fn only_strings_are_mapped() {
        let text = r#"{"a":"x \"123456\" y","n":123456.0,"123456":[true]}"#;
        let mapped = map_strings(text, |said| said.replace("123456", "${N}").into());
        assert_eq!(mapped.unwrap(), r#"{"a":"x \"${N}\" y","n":123456.0,"${N}":[true]}"#);
        assert_eq!(map_strings(text, |said| said.to_owned().into()), None);
    }

    #[test]
    fn names_and_keys_are_no_text() {
        let text = r#"{"name":"get_hunter2","title":"hunter2","inputSchema":{"type":"object","properties":{"hunter2":{"enum":["hunter2"],"default":"hunter2","examples":["hunter2"]},"name":{"description":"hunter2"}},"required":["hunter2"]},"x":["hunter2"]}"#;
        let mapped = map_texts(text, |said| said.replace("hunter2", "-").into());
        assert_eq!(
            mapped.unwrap(),
            r#"{"name":"get_hunter2","title":"-","inputSchema":{"type":"object","properties":{"hunter2":{"enum":["hunter2"],"default":"-","examples":["-"]},"name":{"description":"-"}},"required":["hunter2"]},"x":["-"]}"#
        );
        assert_eq!(map_texts(r#"{"uri":"hunter2"}"#, |said| said.replace("hunter2", "-").into()), None);
    }

    #[test]
    fn a_key_that_stands_twice_in_one_object_is_found() {
        for (text, expected) in [
            (r#"{"a":1,"b":{"a":1},"c":[{"a":1},{"a":2}]}"#, None),
            (r#"{"a":"a","b":["a","a"]}"#, None),
            (r#"{"a":1,"a":1}"#, Some("a")),
            (r#"{"b":[{"x":{"a":1,"c":{},"a":2}}]}"#, Some("a")),
            (r#"{"a":1,"\u0061":2}"#, Some("a")),
            (r#"[1, 2]"#, None),
        ] {
            let doubled = match canonical(text) {
                Err(NotCanonical::Doubled(key)) => Some(key),
                _ => None,
            };
            assert_eq!(doubled.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn broken_text_never_panics() {
        for text in ["", "\"", "\"\\", "{", "}}}}", "[,:]", "\u{feff}"] {
            pretty(text);
            compact(text);
            map_strings(text, |said| said.to_owned().into());
            map_texts(text, |said| said.to_owned().into());
            let _unreadable = canonical(text);
        }
    }
}
