//! Getting to know a server, of either era.
//!
//! A server of which nothing is known is asked `server/discover` first. Whatever is no answer of the new era, silence
//! too, means the older one, and `initialize` follows on the same transport.

use std::time::Duration;

use mcplan_compiler::observed::kind;
use mcplan_compiler::plan::TransportKind;
use rmcp::ClientHandler as _;
use rmcp::RoleClient;
use rmcp::model::{
    ClientConfig, ClientNotification, ClientRequest, ClientResult, DiscoverRequest, DiscoverRequestParams, ErrorCode,
    ErrorData, InitializeRequest, InitializeResult, InitializedNotification, JsonRpcMessage, ProtocolVersion,
    RequestId, RequestMetaObject, ServerCapabilities, ServerPeerInfo, ServerRequest, ServerResult,
};
use rmcp::transport::{DynamicTransportError, Transport};
use serde::Deserialize;
use serde_json::{Value, json};

use super::error::Step;
use super::host::Host;
use crate::core::era::Era;
use crate::runtime::transport::raw;

/// How long a server of which nothing is known may be silent, before it counts as one of the older era.
const PATIENCE: Duration = Duration::from_secs(2);
/// Ids of the handshake's requests. rmcp counts its own from 0, and no two in a session may be the same.
const FIRST_ID: i64 = 2_000_000_000;
/// Where a server of the new era says what it is.
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// With what a handshake begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Start {
    /// `initialize`.
    Initialize,
    /// `server/discover`, and `initialize` after this much silence.
    Discover(Duration),
}

impl Start {
    /// By what is known of the server, within the time that it has.
    pub(super) fn of(kind: TransportKind, era: Option<Era>, seconds: f64) -> Self {
        let share = |of: f64| Duration::try_from_secs_f64(seconds * of).unwrap_or(Duration::MAX);
        match (kind, era) {
            // Both are of the older revisions.
            (TransportKind::Sse, _) | (_, Some(Era::Session)) => Self::Initialize,
            (_, None) => Self::Discover(PATIENCE.min(share(1.0 / 3.0))),
            // It is known to answer, and a first start may take long; but it may be another program by now.
            (_, Some(Era::Stateless)) => Self::Discover(share(2.0 / 3.0)),
        }
    }
}

/// Why a handshake failed.
#[derive(Debug)]
pub(super) enum Refusal {
    /// The server's own error.
    Error(ErrorData),
    /// Revisions that we don't speak.
    Version(String),
    /// An answer to `initialize` that isn't what the protocol asks for: what is wrong with it.
    Odd(String),
    /// The message could not be sent.
    Send(DynamicTransportError),
    /// The stream ended.
    Closed,
}

/// What a server of the new era says of itself. Only what is needed is asked for.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Discovered {
    supported_versions: Vec<String>,
    #[serde(default)]
    capabilities: ServerCapabilities,
    #[serde(default)]
    instructions: Option<String>,
    #[serde(default, rename = "_meta")]
    meta: Value,
}

/// What the question for the new era came to.
enum Answer {
    Stateless(Box<ServerPeerInfo>),
    Older,
    /// Nothing yet. Should an error without an id come later, it belongs to this question.
    Silence,
}

/// Shakes hands over `transport`. `step` is told where we are.
///
/// # Errors
/// Why it failed.
pub(super) async fn shake_hands<T: Transport<RoleClient> + 'static>(
    transport: &mut T,
    host: &Host,
    start: Start,
    step: &(dyn Fn(Step) + Sync),
) -> Result<ServerPeerInfo, Refusal> {
    let mut hands = Hands { transport, config: host.get_info(), next: FIRST_ID, owed: false, asked: None, late: None };
    if let Start::Discover(patience) = start {
        step(Step::Discover);
        match hands.discover(patience).await? {
            Answer::Stateless(info) => return Ok(*info),
            Answer::Older => {}
            Answer::Silence => hands.owed = true,
        }
    }
    step(Step::Initialize);
    hands.initialize().await
}

struct Hands<'a, T> {
    transport: &'a mut T,
    config: ClientConfig,
    next: i64,
    /// A question is open still.
    owed: bool,
    /// The question for the new era, when nothing came in time.
    asked: Option<RequestId>,
    /// What came to it after all.
    late: Option<ServerResult>,
}

impl<T: Transport<RoleClient> + 'static> Hands<'_, T> {
    async fn ask(&mut self, request: ClientRequest) -> Result<RequestId, Refusal> {
        let id = RequestId::Number(self.next);
        self.next += 1;
        self.say(JsonRpcMessage::request(request, id.clone())).await?;
        Ok(id)
    }

    async fn say(&mut self, message: rmcp::model::ClientJsonRpcMessage) -> Result<(), Refusal> {
        let sent = self.transport.send(message).await;
        sent.map_err(|error| Refusal::Send(DynamicTransportError::new::<T, RoleClient>(error)))
    }

    /// Waits for the answer to `id`; what else comes is no business of a handshake.
    async fn answer(&mut self, id: &RequestId) -> Result<Result<ServerResult, ErrorData>, Refusal> {
        let is_it = |found: &RequestId| found == id || found.to_string() == id.to_string();
        loop {
            match self.transport.receive().await.ok_or(Refusal::Closed)? {
                JsonRpcMessage::Response(response) if is_it(&response.id) => return Ok(Ok(response.result)),
                JsonRpcMessage::Response(response) if self.asked.as_ref() == Some(&response.id) => {
                    self.late = Some(response.result);
                }
                JsonRpcMessage::Error(error) if error.id.as_ref().is_some_and(is_it) => return Ok(Err(error.error)),
                // What refuses a message before reading it can't know its id.
                JsonRpcMessage::Error(error) if error.id.is_none() && !std::mem::take(&mut self.owed) => {
                    return Ok(Err(error.error));
                }
                JsonRpcMessage::Request(asked) => {
                    let reply = match asked.request {
                        ServerRequest::PingRequest(_) => JsonRpcMessage::response(ClientResult::empty(()), asked.id),
                        _ => {
                            let early = ErrorData::invalid_request("nothing is answered before the handshake", None);
                            JsonRpcMessage::error(early, Some(asked.id))
                        }
                    };
                    self.say(reply).await?;
                }
                _ => {}
            }
        }
    }

    async fn discover(&mut self, patience: Duration) -> Result<Answer, Refusal> {
        let newest = ProtocolVersion::LATEST;
        let (info, capabilities) = (self.config.client_info.clone(), self.config.capabilities.clone());
        let mut request = DiscoverRequest::new(DiscoverRequestParams {});
        request.extensions.insert(RequestMetaObject::with_client_context(newest, info, capabilities));
        // A message must not be cut off, so only the answer has its time.
        let id = self.ask(ClientRequest::DiscoverRequest(request)).await?;
        match tokio::time::timeout(patience, self.answer(&id)).await {
            Err(_) => {
                self.asked = Some(id);
                Ok(Answer::Silence)
            }
            Ok(answer) => match answer? {
                Ok(result) => discovered(result),
                Err(error) => refused(error),
            },
        }
    }

    async fn initialize(&mut self) -> Result<ServerPeerInfo, Refusal> {
        let request = InitializeRequest::new(self.config.clone());
        let id = self.ask(ClientRequest::InitializeRequest(request)).await?;
        let info: ServerPeerInfo = match self.answer(&id).await? {
            Ok(ServerResult::InitializeResult(result)) => result.into(),
            Ok(result) => return Err(Refusal::Odd(odd(raw::text(result).as_ref().map_or("", |text| text.get())))),
            // One that was only slow to start reads both questions: it has answered the first, and refuses the second.
            Err(error) => match self.late.take().map(discovered) {
                Some(Ok(Answer::Stateless(info))) => return Ok(*info),
                _ => return Err(Refusal::Error(error)),
            },
        };
        if !is_of_session(info.protocol_version.as_str()) {
            return Err(Refusal::Version(info.protocol_version.to_string()));
        }
        let initialized = ClientNotification::InitializedNotification(InitializedNotification::default());
        self.say(JsonRpcMessage::notification(initialized)).await?;
        Ok(info)
    }
}

fn is_known(version: &str) -> bool {
    ProtocolVersion::KNOWN_VERSIONS.iter().any(|known| known.as_str() == version)
}

fn is_of_session(version: &str) -> bool {
    is_known(version) && Era::of(version) == Some(Era::Session)
}

/// What is wrong with an answer to `initialize`.
fn odd(text: &str) -> String {
    type Is = fn(&Value) -> bool;
    const FIELDS: [(&str, Is, &str); 5] = [
        ("protocolVersion", Value::is_string, "a string"),
        ("capabilities", Value::is_object, "an object"),
        ("serverInfo", Value::is_object, "an object"),
        ("serverInfo.name", Value::is_string, "a string"),
        ("serverInfo.version", Value::is_string, "a string"),
    ];
    let result = serde_json::from_str::<Value>(text).unwrap_or_default();
    if !result.is_object() {
        return format!("the result is {}, not an object", kind(&result));
    }
    let faults = FIELDS.iter().filter_map(|(path, is_right, wanted)| {
        match path.split('.').try_fold(&result, |value, key| value.get(key)) {
            // What should hold it is told of already.
            None if path.contains('.') && !result["serverInfo"].is_object() => None,
            None => Some(format!("`{path}` is missing")),
            Some(found) if !is_right(found) => Some(format!("`{path}` is {}, not {wanted}", kind(found))),
            Some(_) => None,
        }
    });
    let faults: Vec<_> = faults.collect();
    if !faults.is_empty() {
        return faults.join(", ");
    }
    // Something deeper; most often an ability that isn't written as one.
    let abilities = result["capabilities"].as_object().into_iter().flatten();
    let mut odd = abilities.filter(|(key, value)| ServerCapabilities::deserialize(json!({ *key: value })).is_err());
    if let Some((key, value)) = odd.next() {
        return format!("`capabilities.{key}` can't be read: {:.100}", value.to_string());
    }
    let cause = InitializeResult::deserialize(&result).err().map(|error| error.to_string()).unwrap_or_default();
    format!("the result can't be read: {cause:.200}")
}

/// What an answer to `server/discover` makes of the server. One that can't be read is no answer of the new era.
fn discovered(result: ServerResult) -> Result<Answer, Refusal> {
    let text = raw::text(result);
    let Some(said) = text.and_then(|text| serde_json::from_str::<Discovered>(text.get()).ok()) else {
        return Ok(Answer::Older);
    };
    let newest = ProtocolVersion::LATEST;
    if !said.supported_versions.iter().any(|version| version == newest.as_str()) {
        return among(&said.supported_versions);
    }
    let mut info = ServerPeerInfo::new(newest, said.capabilities);
    info.instructions = said.instructions;
    info.server_info = said.meta.get(SERVER_INFO).and_then(|info| serde_json::from_value(info.clone()).ok());
    Ok(Answer::Stateless(Box::new(info)))
}

/// What an error to `server/discover` makes of the server.
fn refused(error: ErrorData) -> Result<Answer, Refusal> {
    match error.code {
        ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => {
            let supported = error.data.as_ref().and_then(|data| data.get("supported")).cloned();
            among(&supported.and_then(|list| serde_json::from_value::<Vec<String>>(list).ok()).unwrap_or_default())
        }
        ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY | ErrorCode::HEADER_MISMATCH => Err(Refusal::Error(error)),
        _ => Ok(Answer::Older),
    }
}

/// A server that knows the question and not our newest revision may speak an older one.
fn among(supported: &[String]) -> Result<Answer, Refusal> {
    if supported.is_empty() || supported.iter().any(|version| is_of_session(version)) {
        return Ok(Answer::Older);
    }
    Err(Refusal::Version(supported.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_begins_by_what_is_known() {
        use TransportKind::{Sse, Stdio, StreamableHttp};
        let seconds = |start| match start {
            Start::Discover(patience) => patience.as_secs_f64(),
            Start::Initialize => 0.0,
        };
        assert_eq!(seconds(Start::of(Stdio, None, 20.0)), 2.0);
        assert_eq!(seconds(Start::of(StreamableHttp, None, 3.0)), 1.0, "a third of the time at most");
        assert_eq!(seconds(Start::of(Stdio, Some(Era::Stateless), 30.0)), 20.0);
        assert_eq!(Start::of(Stdio, Some(Era::Session), 20.0), Start::Initialize);
        assert_eq!(Start::of(Sse, None, 20.0), Start::Initialize);
    }
}
