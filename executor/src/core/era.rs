//! The protocol's two eras; and a result of one made fit for a client of the other, touching only what has to change.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::results::Text;

/// How the two ends of a connection get to know each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    /// By `initialize`, as revisions 2024-11-05 to 2025-11-25 have it.
    Session,
    /// Not at all: from 2026-07-28 on every request says who asks.
    Stateless,
}

impl Era {
    /// The era of a revision, which is a date; `None` for what is none.
    pub fn of(revision: &str) -> Option<Self> {
        let is_date = revision.len() == 10
            && revision.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            });
        is_date.then_some(if revision < "2026-07-28" { Self::Session } else { Self::Stateless })
    }
}

/// The top-level fields of a result that decide anything.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Flags<'a> {
    #[serde(default, borrow)]
    result_type: Option<&'a RawValue>,
    #[serde(default, borrow)]
    structured_content: Option<&'a RawValue>,
}

/// A result for a client without initialize (2026-07-28 and later): it must name its type.
pub fn for_stateless(result: Text, list: bool) -> Text {
    let mut extra = String::new();
    let has = |field: &str| {
        result.holds(field)
            && serde_json::from_str::<Map<String, Value>>(result.get())
                .is_ok_and(|map| map.contains_key(&field[1..field.len() - 1]))
    };
    if !has("\"resultType\"") {
        extra.push_str("\"resultType\":\"complete\",");
    }
    if list {
        // Lists change whenever a server or the plan does, and they may differ by agent.
        if !has("\"ttlMs\"") {
            extra.push_str("\"ttlMs\":0,");
        }
        if !has("\"cacheScope\"") {
            extra.push_str("\"cacheScope\":\"private\",");
        }
    }
    if extra.is_empty() { result } else { Text::cut_out(spliced(result.get(), &extra)) }
}

/// A result for a client with initialize: without the type, and with structured content only where it is an object.
pub fn for_session(result: Text) -> Text {
    if !result.holds("\"resultType\"") && !result.holds("\"structuredContent\"") {
        return result;
    }
    let Ok(flags) = serde_json::from_str::<Flags<'_>>(result.get()) else { return result };
    let odd = flags.structured_content.filter(|content| !content.get().starts_with('{'));
    if flags.result_type.is_none() && odd.is_none() {
        return result;
    }
    let Ok(mut map) = serde_json::from_str::<Map<String, Value>>(result.get()) else { return result };
    map.shift_remove("resultType");
    if let Some(content) = odd {
        map.shift_remove("structuredContent");
        let text = serde_json::json!({ "type": "text", "text": content.get() });
        match map.get_mut("content").and_then(Value::as_array_mut) {
            // The server said it as text already, as it should.
            Some(blocks) if blocks.iter().any(|block| block == &text) => {}
            Some(blocks) => blocks.push(text),
            None => {
                map.insert("content".to_owned(), Value::Array(vec![text]));
            }
        }
    }
    Text::cut_out(Value::Object(map).to_string())
}

/// `fields` (each with its comma) in front of an object's own.
fn spliced(object: &str, fields: &str) -> String {
    let Some(inner) = object.trim_start().strip_prefix('{') else { return object.to_owned() };
    if inner.trim_start().starts_with('}') {
        return format!("{{{}{inner}", fields.trim_end_matches(','));
    }
    format!("{{{fields}{inner}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_revision_has_an_era() {
        assert_eq!(Era::of("2025-11-25"), Some(Era::Session));
        assert_eq!(Era::of("2026-07-28"), Some(Era::Stateless));
        for none in ["", "1", "2026-7-28", "draft-2026", "2026/07/28"] {
            assert_eq!(Era::of(none), None, "{none}");
        }
    }

    fn for_stateless(result: &str, list: bool) -> String {
        super::for_stateless(Text::new(result.to_owned()).unwrap(), list).into_string()
    }

    fn for_session(result: &str) -> String {
        super::for_session(Text::new(result.to_owned()).unwrap()).into_string()
    }

    #[test]
    fn stateless_clients_are_told_the_type_once() {
        assert_eq!(for_stateless(r#"{"n":1.50}"#, false), r#"{"resultType":"complete","n":1.50}"#);
        assert_eq!(for_stateless(r#"{"resultType":"input_required"}"#, false), r#"{"resultType":"input_required"}"#);
        assert_eq!(for_stateless("{}", false), r#"{"resultType":"complete"}"#);
        let text = r#"{"content":[{"text":"\"resultType\""}]}"#;
        assert!(for_stateless(text, false).starts_with(r#"{"resultType":"complete","content""#));
        assert_eq!(
            for_stateless(r#"{"tools":[]}"#, true),
            r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[]}"#
        );
    }

    #[test]
    fn session_clients_get_what_they_know() {
        let same = r#"{"content":[],"structuredContent":{"n":1.50}}"#;
        assert_eq!(for_session(same), same);
        assert_eq!(for_session(r#"{"resultType":"complete","content":[]}"#), r#"{"content":[]}"#);
        assert_eq!(
            for_session(r#"{"content":[],"structuredContent":[1]}"#),
            r#"{"content":[{"type":"text","text":"[1]"}]}"#
        );
    }
}
