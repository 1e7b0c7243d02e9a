//! A result of one protocol era made fit for a client of another, touching only what has to change.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

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
pub fn for_stateless(result: &str, list: bool) -> String {
    let mut extra = String::new();
    let has = |field: &str| {
        result.contains(field)
            && serde_json::from_str::<Map<String, Value>>(result)
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
    spliced(result, &extra)
}

/// A result for a client with initialize: without the type, and with structured content only where it is an object.
pub fn for_session(result: &str) -> String {
    if !result.contains("\"resultType\"") && !result.contains("\"structuredContent\"") {
        return result.to_owned();
    }
    let Ok(flags) = serde_json::from_str::<Flags<'_>>(result) else { return result.to_owned() };
    let odd = flags.structured_content.filter(|content| !content.get().starts_with('{'));
    if flags.result_type.is_none() && odd.is_none() {
        return result.to_owned();
    }
    let Ok(mut map) = serde_json::from_str::<Map<String, Value>>(result) else { return result.to_owned() };
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
    Value::Object(map).to_string()
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
