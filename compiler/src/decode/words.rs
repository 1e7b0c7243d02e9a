//! Types, values and hints in the words of a message.

use jsonschema::JsonType;
use serde_json::Value;

use crate::diagnostic::shown;
use crate::document::{Kind, Node, number_of};
use crate::secret::{name_looks_secret, value_looks_secret};
use crate::source::Span;

/// `a text`, `a whole number`: what a schema type is called.
fn type_name(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Null => "nothing",
        JsonType::Boolean => "`true` or `false`",
        JsonType::Integer => "a whole number",
        JsonType::Number => "a number",
        JsonType::String => "a text",
        JsonType::Array => "a list",
        JsonType::Object => "a map",
    }
}

/// `a text or a list`. A text may be written as any scalar where numbers and truth values are allowed beside it.
pub(super) fn type_names(kinds: &[JsonType]) -> String {
    let has = |kind: JsonType| kinds.contains(&kind);
    let mut names: Vec<&str> = Vec::new();
    for kind in kinds {
        let covered = match kind {
            JsonType::Null => true,
            JsonType::Boolean | JsonType::Number => has(JsonType::String),
            JsonType::Integer => has(JsonType::String) || has(JsonType::Number),
            JsonType::String | JsonType::Array | JsonType::Object => false,
        };
        let name = type_name(*kind);
        if !covered && !names.contains(&name) {
            names.push(name);
        }
    }
    match names.as_slice() {
        [] => "nothing".to_owned(),
        [one] => (*one).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// `a list`, with the text of a short scalar where it helps to see it.
pub(super) fn value_name(node: &Node) -> String {
    match &node.kind {
        Kind::String(text) if value_looks_secret(text) => "a text".to_owned(),
        Kind::String(text) if !text.is_empty() && text.len() <= 24 && !text.contains('`') => {
            format!("the text `{}`", shown(text))
        }
        Kind::String(text) if text.is_empty() => "an empty text".to_owned(),
        Kind::Number(text) if text.len() <= 24 => format!("the number `{text}`"),
        _ => node.what().to_owned(),
    }
}

/// `` `a`, `b`, `c` ``.
pub(super) fn quoted_list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

/// A value of a schema as one would write it in YAML.
pub(super) fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => match number.as_f64() {
            // `0.0` in a schema is 0 for everyone else.
            Some(float) if float.fract() == 0.0 && float.abs() < 1e15 => format!("{float:.0}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

/// A number with something behind it.
pub(super) struct Quantity<'a> {
    number: f64,
    unit: &'a str,
}

impl<'a> Quantity<'a> {
    /// Reads `500ms`, `30 s`, `50k`, `5%`.
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let text = text.trim();
        let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-'))?;
        let (digits, unit) = (&text[..end], text[end..].trim());
        let short = (1..=12).contains(&unit.len()) && unit.chars().all(|c| c.is_alphabetic() || c == '%' || c == 'µ');
        let number = digits.parse::<f64>().ok().filter(|number| number.is_finite())?;
        short.then_some(Self { number, unit })
    }

    /// The seconds it stands for, if the unit is one of time.
    pub(super) fn seconds(&self) -> Option<f64> {
        let factor = match self.unit.to_ascii_lowercase().as_str() {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" | "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => 1e-3,
            "s" | "sec" | "secs" | "second" | "seconds" => 1.0,
            "m" | "min" | "mins" | "minute" | "minutes" => 60.0,
            "h" | "hr" | "hrs" | "hour" | "hours" => 3600.0,
            "d" | "day" | "days" => 86_400.0,
            _ => return None,
        };
        // Rounded so that 0.1 s times a thousandth shows no digits of the representation.
        Some((self.number * factor * 1e9).round() / 1e9)
    }

    /// The plain number it stands for, if the unit is a factor.
    pub(super) fn plain(&self) -> Option<f64> {
        let factor = match self.unit.to_ascii_lowercase().as_str() {
            "k" => 1e3,
            "m" => 1e6,
            "g" => 1e9,
            _ => return None,
        };
        Some(self.number * factor)
    }

    /// The unit as written.
    pub(super) fn unit(&self) -> &'a str {
        self.unit
    }
}

/// What to write instead of `node` where one of `kinds` is taken, if that can be said.
pub(super) fn hint(node: &Node, kinds: &[JsonType]) -> Option<String> {
    let takes = |kind: JsonType| kinds.contains(&kind);
    if node.text().is_some_and(value_looks_secret) {
        return None;
    }
    match &node.kind {
        Kind::String(text)
            if text.contains("${")
                && !takes(JsonType::Array)
                && !takes(JsonType::Object)
                && !takes(JsonType::String) =>
        {
            Some("variables are only filled in where a server is launched, not here".to_owned())
        }
        Kind::String(text) if takes(JsonType::Boolean) => truth(text).map(|word| format!("write `{word}`")),
        Kind::String(text) if takes(JsonType::Number) || takes(JsonType::Integer) => number_hint(text),
        Kind::Number(text) if takes(JsonType::Boolean) => truth(text).map(|word| format!("write `{word}`")),
        Kind::Number(text) if takes(JsonType::Integer) => Some("write it without a fraction".to_owned()),
        Kind::Number(text) | Kind::Bool(_, text) if takes(JsonType::String) => Some(format!("write `\"{text}\"`")),
        Kind::Number(_) | Kind::Bool(..) | Kind::String(_) if takes(JsonType::Array) => {
            Some(format!("write `[{}]`", list_item(node.text().unwrap_or_default())))
        }
        // `a: b` where a text is taken was one before its colon.
        Kind::Map(entries) if takes(JsonType::String) => match entries.as_slice() {
            [only] if !name_looks_secret(&only.key) && !only.value.text().is_some_and(value_looks_secret) => {
                let text = format!("{}: {}", only.key, only.value.text()?);
                Some(format!("put it in quotes, if it is a text: `{}`", Value::from(&*shown(&text))))
            }
            _ => None,
        },
        Kind::List(items) if takes(JsonType::String) => match items.as_slice() {
            [only] => only.text().map(|text| format!("write `{}` without the list", shown(text))),
            _ => None,
        },
        _ => form_hint(node, kinds),
    }
}

/// What to write where nothing better can be said.
pub(super) fn instead(kinds: &[JsonType]) -> String {
    match kinds {
        [JsonType::Object] => "write its keys below, one a line, as `KEY: VALUE`".to_owned(),
        [JsonType::Array] => "write its entries below, one a line, each after a `-`".to_owned(),
        kinds if kinds.contains(&JsonType::String) => "write a text on one line".to_owned(),
        kinds => format!("write {}", type_names(kinds)),
    }
}

/// How a map is written as a list, or a list as a map.
pub(super) fn form_hint(node: &Node, kinds: &[JsonType]) -> Option<String> {
    let takes = |kind: JsonType| kinds.contains(&kind);
    match &node.kind {
        Kind::Map(entries) if entries.is_empty() && takes(JsonType::Array) => Some("write `[]`".to_owned()),
        Kind::Map(entries) if takes(JsonType::Array) => {
            let first = entries.first()?;
            let all_maps = entries.iter().all(|entry| matches!(entry.value.kind, Kind::Map(_)));
            all_maps.then(|| format!("write each entry as `- name: {}`, with its keys below", shown(&first.key)))
        }
        Kind::List(items) if takes(JsonType::Object) => {
            let pair = pair(items.first()?.text()?)?;
            let each = if items.len() > 1 { "each " } else { "" };
            Some(format!("write {each}`{pair}` instead, without the list"))
        }
        Kind::String(text) if kinds == [JsonType::Object] => {
            pair(text).map(|pair| format!("write it below, as `{pair}`"))
        }
        _ => None,
    }
}

/// `A=b` or `Authorization: Bearer …` in one text, as a key and its value.
fn pair(text: &str) -> Option<String> {
    let end = text.find(['=', ':', ' '])?;
    let (key, value) = text.split_at(end);
    let value = value.strip_prefix('=').or_else(|| value.strip_prefix(": "))?.trim();
    let value = if name_looks_secret(key) { "…".into() } else { shown(value) };
    (!key.is_empty()).then(|| format!("{}: {value}", shown(key)))
}

/// `command: [npx, -y, x]` and `args: -y x`: a command line where its parts are meant.
pub(super) fn command_line_hint(key: &str, node: &Node) -> Option<String> {
    let words = |texts: &mut dyn Iterator<Item = &str>| {
        let items: Vec<_> = texts.map(list_item).collect();
        items.join(", ")
    };
    match (key, &node.kind) {
        ("command", Kind::List(items)) if items.len() > 1 && items.iter().all(|item| item.text().is_some()) => {
            let mut texts = items.iter().filter_map(Node::text);
            let program = texts.next()?;
            Some(format!("write `command: {}` and `args: [{}]`", shown(program), words(&mut texts)))
        }
        ("args", Kind::String(text)) if text.contains(' ') && !text.contains(['"', '\'', '\\']) => {
            Some(format!("write one word each: `[{}]`", words(&mut text.split_whitespace())))
        }
        _ => None,
    }
}

/// The dash of `-name: a` or `-github` where a list is taken. An argument may well begin with one.
pub(super) fn glued_dash(key: &str, node: &Node) -> Option<Span> {
    let (at, text) = match &node.kind {
        Kind::Map(entries) => entries.first().map(|entry| (entry.key_at, entry.key.as_str()))?,
        Kind::String(text) if key != "args" => (node.at, text.as_str()),
        _ => return None,
    };
    text.starts_with('-').then_some(Span { end: at.start + 1, ..at })
}

/// A file that is nothing but a list of servers.
pub(super) fn list_of_servers(root: &Node) -> Option<String> {
    let first = root.items().first()?;
    let server = ["name", "command", "url"].iter().any(|key| first.get(key).is_some());
    server.then(|| "put the list under the key `mcp_servers`".to_owned())
}

/// `tools: read_*` and `budget: 2000`: the value of the key that is meant in nearly every case, without that key.
pub(super) fn inner_key_hint(key: &str, node: &Node) -> Option<String> {
    let texts = match &node.kind {
        Kind::List(items) => items.iter().map(Node::text).collect::<Option<Vec<_>>>()?,
        _ => vec![node.text()?],
    };
    let list = || texts.iter().copied().map(list_item).collect::<Vec<_>>().join(", ");
    match (key, &node.kind) {
        _ if texts.is_empty() || texts.iter().any(|text| text.contains('`') || value_looks_secret(text)) => None,
        ("tools", Kind::String(_) | Kind::List(_)) => Some(format!("write `tools: {{ include: [{}] }}`", list())),
        ("when", Kind::String(_) | Kind::List(_)) => Some(format!("write `when: {{ env: [{}] }}`", list())),
        ("budget", Kind::Number(number)) => Some(format!("write `budget: {{ chars: {number} }}`, or `tokens`")),
        _ => None,
    }
}

/// A text as an item of a list in brackets.
fn list_item(text: &str) -> String {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./@".contains(c)) && !text.starts_with(['@', '-']);
    let text = shown(text);
    if plain { text.into_owned() } else { Value::from(&*text).to_string() }
}

fn truth(text: &str) -> Option<&'static str> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "y" | "1" | "enabled" => Some("true"),
        "false" | "no" | "off" | "n" | "0" | "disabled" => Some("false"),
        _ => None,
    }
}

fn number_hint(text: &str) -> Option<String> {
    let text = text.trim();
    if number_of(text).is_some() {
        return Some(format!("write `{text}` without the quotes"));
    }
    let float = text.strip_prefix('.').or_else(|| text.strip_prefix("-.")).unwrap_or(text).parse::<f64>();
    if float.is_ok_and(|float| !float.is_finite()) {
        return Some("write a finite number".to_owned());
    }
    let digits: String = text.chars().filter(|c| !matches!(c, '_' | ',' | '\'')).collect();
    let digits =
        if digits.bytes().all(|byte| byte.is_ascii_digit()) { digits.trim_start_matches('0') } else { &digits };
    number_of(digits).map(|_| format!("write `{digits}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_become_seconds() {
        for (text, seconds) in
            [("500ms", 0.5), ("30s", 30.0), ("2m", 120.0), ("1.5 min", 90.0), ("100us", 0.0001), ("1h", 3600.0)]
        {
            assert_eq!(Quantity::parse(text).and_then(|quantity| quantity.seconds()), Some(seconds), "{text}");
        }
        for text in ["soon", "s", "10", "1.2.3s", "", "5 apples and a pear"] {
            assert!(Quantity::parse(text).is_none(), "{text}");
        }
        assert_eq!(Quantity::parse("50k").and_then(|quantity| quantity.plain()), Some(50_000.0));
    }
}
