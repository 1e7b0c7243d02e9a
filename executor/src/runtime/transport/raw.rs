//! A result stays the text that the server wrote: it goes through rmcp as a custom result that is one string.
//!
//! Only the answer to `initialize` is decoded, because it is read as rmcp's own, unless it can't be. So a result may hold anything (unknown
//! keys, unknown content types, numbers in any spelling) and comes out byte for byte.

use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomResult, ErrorCode, ErrorData, InitializeResult, JsonRpcMessage,
    RequestId, ServerResult,
};
use rmcp::service::RxJsonRpcMessage;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::core::results::Text;

/// A message from a server, as rmcp takes it.
pub(crate) type Incoming = RxJsonRpcMessage<RoleClient>;

/// What we say in a server's place when its own answer can't be had. Told apart from a server's errors by the code and
/// by `data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stand {
    /// The answer is longer than we take.
    TooLong,
    /// The server has forgotten our session and the call must not be repeated.
    SessionLost,
}

impl Stand {
    const CODE: ErrorCode = ErrorCode(-32098);

    fn word(self) -> &'static str {
        match self {
            Self::TooLong => "mcplan/too-long",
            Self::SessionLost => "mcplan/session-lost",
        }
    }

    pub(crate) fn error(self) -> ErrorData {
        ErrorData::new(Self::CODE, self.word(), Some(json!(self.word())))
    }

    pub(crate) fn of(error: &ErrorData) -> Option<Self> {
        [Self::TooLong, Self::SessionLost].into_iter().find(|stand| *error == stand.error())
    }
}

/// Remembers which request's answer rmcp has to read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Typed(Arc<Mutex<Option<RequestId>>>);

impl Typed {
    /// Notes an outgoing message, if it is `initialize`.
    pub(crate) fn note(&self, message: &ClientJsonRpcMessage) {
        if let JsonRpcMessage::Request(request) = message
            && matches!(request.request, ClientRequest::InitializeRequest(_))
        {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.id.clone());
        }
    }

    /// Whether this is the answer to it, and can be read. What can't stays text, so that it can be told what is wrong.
    fn reads(&self, id: &RequestId, result: &RawValue) -> bool {
        let awaited = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let is_it = awaited.is_some_and(|awaited| awaited == *id || awaited.to_string() == id.to_string());
        is_it && serde_json::from_str::<InitializeResult>(result.get()).is_ok()
    }
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(borrow, default)]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "also_null")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// A result of `null` is one too.
fn also_null<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What a piece of text turned out to be.
#[derive(Debug)]
pub(crate) enum Read {
    /// A message, or several in a batch.
    Messages(Vec<Incoming>),
    /// No JSON-RPC at all.
    Noise,
}

/// Reads a message, or a batch of them as the 2025-03-26 revision allows.
pub(crate) fn read(text: &[u8], typed: &Typed) -> Read {
    if text.first() == Some(&b'[') {
        let Ok(parts) = serde_json::from_slice::<Vec<&RawValue>>(text) else { return Read::Noise };
        let messages: Vec<_> = parts.iter().filter_map(|part| message(part.get().as_bytes(), typed)).collect();
        return if messages.is_empty() { Read::Noise } else { Read::Messages(messages) };
    }
    message(text, typed).map_or(Read::Noise, |message| Read::Messages(vec![message]))
}

/// One message; `None` for what isn't one. Bytes that are no UTF-8 are shown as such, so that an answer stays one.
pub(crate) fn message(text: &[u8], typed: &Typed) -> Option<Incoming> {
    match serde_json::from_slice(text) {
        Ok(envelope) => enveloped(envelope, text, typed),
        Err(_) if std::str::from_utf8(text).is_err() => {
            let text = String::from_utf8_lossy(text);
            enveloped(serde_json::from_str(&text).ok()?, text.as_bytes(), typed)
        }
        Err(_) => None,
    }
}

fn enveloped(envelope: Envelope<'_>, text: &[u8], typed: &Typed) -> Option<Incoming> {
    match (envelope.id, envelope.result) {
        (Some(id), Some(result)) if envelope.method.is_none() && !typed.reads(&id, result) => {
            let text = Value::String(result.get().to_owned());
            Some(JsonRpcMessage::response(ServerResult::CustomResult(CustomResult(text)), id))
        }
        // Who waits for it is told, also when it is no error as the protocol has it.
        (Some(id), None)
            if envelope.method.is_none()
                && let Some(error) = envelope.error =>
        {
            Some(serde_json::from_slice(text).unwrap_or_else(|_| JsonRpcMessage::error(odd_error(error), Some(id))))
        }
        _ if envelope.method.is_some() || envelope.result.is_some() || envelope.error.is_some() => {
            serde_json::from_slice(text).ok()
        }
        _ => None,
    }
}

/// What a server means by an error without code or message.
fn odd_error(error: &RawValue) -> ErrorData {
    ErrorData::internal_error(format!("an error that is none of the protocol: {:.200}", error.get()), None)
}

/// A message in which the result is a string that holds its text, for a reader that decodes by itself. Anything that
/// isn't a result stays as it is.
pub(crate) fn quoted(text: &str, typed: &Typed) -> Option<String> {
    let envelope: Envelope<'_> = serde_json::from_str(text).ok()?;
    let (id, result) = (envelope.id?, envelope.result?);
    if envelope.method.is_some() || typed.reads(&id, result) {
        return None;
    }
    let (id, result) = (serde_json::to_string(&id).ok()?, serde_json::to_string(result.get()).ok()?);
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

/// The text of a result that [`message`] or [`quoted`] let through.
pub(crate) fn text(result: ServerResult) -> Option<Text> {
    match result {
        ServerResult::CustomResult(CustomResult(Value::String(text))) => Some(Text::cut_out(text)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ODD: &str = r#"{"content":[{"type":"hologram","n":1.50,"x":1e400}],"zz":{"b":1,"a":2},"isError":false}"#;

    fn result_of(message: Incoming) -> String {
        let JsonRpcMessage::Response(response) = message else { panic!("{message:?}") };
        text(response.result).unwrap().get().to_owned()
    }

    #[test]
    fn a_result_comes_through_byte_for_byte() {
        let line = format!(r#"{{"result":{ODD},"jsonrpc":"2.0","id":7}}"#);
        assert_eq!(result_of(message(line.as_bytes(), &Typed::default()).unwrap()), ODD);
        let again = quoted(&line, &Typed::default()).unwrap();
        assert_eq!(result_of(serde_json::from_str(&again).unwrap()), ODD, "through rmcp's own decoding");
    }

    #[test]
    fn a_string_is_never_taken_for_another_result() {
        for text in ["\"\"", "\"complete\"", "null", "{}", "[]", "7"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{text}}}"#);
            let again = quoted(&line, &Typed::default()).unwrap();
            assert_eq!(result_of(serde_json::from_str(&again).unwrap()), text);
        }
    }

    #[test]
    fn batches_and_noise() {
        let typed = Typed::default();
        let batch =
            br#"[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}]"#;
        assert!(matches!(read(batch, &typed), Read::Messages(all) if all.len() == 2));
        for noise in ["Listening on 3000", r#"{"level":"info","msg":"hi"}"#, "[1,2]", "[", "7", "\"x\"", "\u{fffd}"] {
            assert!(matches!(read(noise.as_bytes(), &typed), Read::Noise), "{noise}");
        }
    }

    #[test]
    fn an_answer_is_one_whatever_its_bytes_and_its_error() {
        let typed = Typed::default();
        let text = message(b"{\"id\":1,\"result\":{\"t\":\"\xff\"}}", &typed).unwrap();
        assert_eq!(result_of(text), "{\"t\":\"\u{fffd}\"}");
        for error in ["\"a text\"", "{\"code\":\"x\"}", "7"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":3,"error":{error}}}"#);
            let Some(JsonRpcMessage::Error(told)) = message(line.as_bytes(), &typed) else { panic!("{error}") };
            assert_eq!(told.id, Some(RequestId::Number(3)));
            assert_eq!(told.error.message, format!("an error that is none of the protocol: {error}"));
        }
    }

    #[test]
    fn errors_keep_code_message_and_data() {
        let line = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no","data":{"k":[1]}}}"#;
        let Some(JsonRpcMessage::Error(error)) = message(line, &Typed::default()) else { panic!() };
        assert_eq!(error.error.code, ErrorCode(-32602));
        assert_eq!(error.error.data, Some(json!({"k": [1]})));
        assert_eq!(Stand::of(&error.error), None);
        assert_eq!(Stand::of(&Stand::SessionLost.error()), Some(Stand::SessionLost));
    }
}
