//! What a server of the new era asks back: instead of a result it names what it needs, and the request is sent again with
//! the answers. Here is nobody who could be asked, so the answers are those that [`super::host`] gives to a server of the
//! older era.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::host::NOBODY;
use crate::core::results::Text;

/// Rounds of one request before it is given up.
pub(super) const ROUNDS_MAX: usize = 10;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Needed {
    #[serde(default)]
    result_type: Option<String>,
    #[serde(default)]
    input_requests: Map<String, Value>,
    #[serde(default)]
    request_state: Option<Value>,
}

/// What becomes of a result.
#[derive(Debug, PartialEq)]
pub(super) enum Round {
    /// It is one.
    Complete,
    /// To be asked again with these parameters added.
    Again(Map<String, Value>),
    /// It is of no use.
    Useless(String),
}

/// Looks at a result of the new era.
pub(super) fn round(result: &Text) -> Round {
    // Most results are large, and most don't say anything of the kind.
    if !result.holds("\"resultType\"") {
        return Round::Complete;
    }
    let Ok(needed) = serde_json::from_str::<Needed>(result.get()) else { return Round::Complete };
    match needed.result_type.as_deref() {
        None | Some("complete") => return Round::Complete,
        Some("input_required") => {}
        Some(other) => {
            let other: String = other.chars().take(60).collect();
            return Round::Useless(format!("its result is of the type `{other}`, which isn't understood"));
        }
    }
    let mut responses = Map::new();
    for (key, request) in needed.input_requests {
        match request["method"].as_str() {
            Some("roots/list") => responses.insert(key, json!({ "roots": [] })),
            Some("elicitation/create") => {
                responses.insert(key, json!({ "action": "decline", "_meta": { "mcplan/reason": NOBODY } }))
            }
            other => {
                let other: String = other.unwrap_or("something").chars().take(60).collect();
                return Round::Useless(format!("it asks for {other}, and nobody here can answer that"));
            }
        };
    }
    let state = needed.request_state.map(|state| ("requestState".to_owned(), state));
    let responses = (!responses.is_empty()).then(|| ("inputResponses".to_owned(), Value::Object(responses)));
    Round::Again(state.into_iter().chain(responses).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(result: Value) -> Round {
        round(&Text::new(result.to_string()).unwrap())
    }

    #[test]
    fn what_is_asked_is_declined_and_the_state_goes_back() {
        assert_eq!(of(json!({"content": []})), Round::Complete);
        assert_eq!(of(json!({"content": [], "resultType": "complete"})), Round::Complete);
        assert_eq!(of(json!({"content": [{"text": "\"resultType\""}]})), Round::Complete);
        let asked = of(json!({"resultType": "input_required", "requestState": "opaque", "inputRequests": {
            "a": {"method": "elicitation/create", "params": {}}, "b": {"method": "roots/list"}}}));
        let Round::Again(more) = asked else { panic!("{asked:?}") };
        assert_eq!(more["requestState"], "opaque");
        assert_eq!(more["inputResponses"]["a"]["action"], "decline");
        assert_eq!(more["inputResponses"]["b"], json!({"roots": []}));
        let only_state = of(json!({"resultType": "input_required", "requestState": "later"}));
        assert_eq!(only_state, Round::Again(Map::from_iter([("requestState".to_owned(), json!("later"))])));
        let sampling =
            json!({"resultType": "input_required", "inputRequests": {"s": {"method": "sampling/createMessage"}}});
        assert!(matches!(of(sampling), Round::Useless(why) if why.contains("sampling/createMessage")));
        assert!(matches!(of(json!({"resultType": "task"})), Round::Useless(why) if why.contains("`task`")));
    }
}
