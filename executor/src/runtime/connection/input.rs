//! What a server of the new era asks back: instead of a result it names what it needs, and the request is sent again with
//! the answers: those of the client whose call it is, as far as it can be asked.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::host::declined;
use super::questions::{Answers, Question, able, roots};
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

/// Looks at a result of the new era. `client` is asked what it can answer; a client of the same era that asks for it gets
/// the questions themselves.
pub(super) async fn round(result: &Text, client: Option<&Arc<dyn Answers>>) -> Round {
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
    let asked = needed.input_requests.values().map(|request| Question::of(request["method"].as_str()?));
    let asked: Option<Vec<_>> = asked.collect();
    if client.zip(asked).is_some_and(|(client, asked)| client.takes_questions(&asked)) {
        return Round::Complete;
    }
    let mut responses = Map::new();
    for (key, request) in needed.input_requests {
        match answer(&request, client).await {
            Ok(answer) => responses.insert(key, answer),
            Err(why) => return Round::Useless(why),
        };
    }
    let state = needed.request_state.map(|state| ("requestState".to_owned(), state));
    let responses = (!responses.is_empty()).then(|| ("inputResponses".to_owned(), Value::Object(responses)));
    Round::Again(state.into_iter().chain(responses).collect())
}

/// The answer to one question; why there is none.
async fn answer(request: &Value, client: Option<&Arc<dyn Answers>>) -> Result<Value, String> {
    let method = request["method"].as_str().unwrap_or("something");
    let refused = |why: String| {
        let method: String = method.chars().take(60).collect();
        format!("it asks for {method}, and {why}")
    };
    let Some(question) = Question::of(method) else { return Err(refused("that isn't understood".to_owned())) };
    if question == Question::Roots {
        return Ok(roots(client.and_then(|client| client.workspace()).as_deref()));
    }
    let answered = match able(client, question) {
        Ok(client) => {
            let params = request["params"].as_object().cloned().unwrap_or_default();
            client.answer(question, params).await.map(Value::Object)
        }
        Err(nobody) => declined(question, nobody),
    };
    answered.map_err(|error| refused(error.message.into_owned()))
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::json;

    use super::*;

    fn of(result: Value) -> Round {
        round(&Text::new(result.to_string()).unwrap(), None).now_or_never().unwrap()
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
