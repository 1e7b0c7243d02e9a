//! MCP over streamable HTTP: sessions of the revisions with initialize, and requests that stand alone (2026-07-28).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{FromRequest as _, Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::Listening;
use super::answer::{ended, events, json_response, single, streamed};
use super::line::{Alone, Envelope, Params, Server, Unasked, id_of};
use super::problem::Problem;
use crate::core::caller::Caller;
use crate::core::era::Era;
use crate::core::gate::shown;
use crate::runtime::transport::MESSAGE_MAX;
use crate::serve::mcp::revisions;

/// Most sessions at the same time.
const SESSIONS_MAX: usize = 1000;
/// How long a session may go without a request, an open stream and a call in flight.
const IDLE_MAX: Duration = Duration::from_secs(3600);
/// How long it must have gone without them to make room for another one where there are [`SESSIONS_MAX`].
const SPARE_AFTER: Duration = Duration::from_secs(60);
/// How often idle sessions are looked for.
const LOOK_EVERY: Duration = Duration::from_secs(60);

const SESSION: &str = "mcp-session-id";
const REVISION: &str = "mcp-protocol-version";

/// A client's session.
#[derive(Debug)]
struct Session {
    agent: String,
    server: Server,
    /// Whether the client can be asked something while it waits, so that it needs a stream.
    answers: bool,
    used: Mutex<Instant>,
}

/// The sessions that are open.
#[derive(Debug, Default)]
pub(super) struct Sessions(Mutex<HashMap<String, Arc<Session>>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Session>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The agent's session that a request names.
    fn of(&self, headers: &HeaderMap, agent: &str) -> Result<(String, Arc<Session>), Problem> {
        let Some(id) = headers.get(SESSION).and_then(|id| id.to_str().ok()) else {
            return Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "the header `Mcp-Session-Id` is missing; `initialize` gives it",
            ));
        };
        // Another agent's session doesn't exist.
        let session = self
            .lock()
            .get(id)
            .filter(|session| session.agent == agent && !session.server.ended.is_cancelled())
            .cloned();
        let session = session.ok_or_else(|| Problem::not_found("there is no such session; initialize again"))?;
        *session.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        Ok((id.to_owned(), session))
    }

    /// Whether there is room for one more. Where there is none, the session that nobody has used for the longest ends, if
    /// that is a minute at least: clients that forget to end theirs keep nobody else out for long.
    fn has_room(&self) -> bool {
        let mut sessions = self.lock();
        if sessions.len() < SESSIONS_MAX {
            return true;
        }
        let used = |session: &Session| *session.used.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = sessions
            .iter()
            .filter(|(_, session)| !session.server.is_busy() && used(session).elapsed() >= SPARE_AFTER)
            .min_by_key(|(_, session)| used(session))
            .map(|(id, _)| id.clone());
        spare.is_some_and(|id| sessions.remove(&id).is_some())
    }

    /// Ends sessions that nobody uses.
    pub(super) async fn reap(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            self.lock().retain(|_, session| {
                let mut used = session.used.lock().unwrap_or_else(PoisonError::into_inner);
                if session.server.is_busy() {
                    *used = Instant::now();
                }
                !session.server.ended.is_cancelled() && used.elapsed() < IDLE_MAX
            });
        }
    }
}

/// A message that can't be taken, as JSON-RPC says it.
fn refused(status: StatusCode, id: Option<&str>, code: i32, message: &str) -> Response {
    let id = id.and_then(|id| serde_json::from_str(id).ok()).unwrap_or(Value::Null);
    let body = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
    (status, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

fn unread(refused: BytesRejection) -> Problem {
    let why = match refused.status() {
        StatusCode::PAYLOAD_TOO_LARGE => format!("a message has at most {} MiB", MESSAGE_MAX >> 20),
        _ => format!("the message did not come whole: {}", refused.body_text()),
    };
    Problem::new(refused.status(), why)
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

pub(super) async fn post(
    State(listening): State<Listening>,
    asked: Option<Path<String>>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers().clone();
    let agent = listening.access.agent(&headers, asked.as_ref().map(|path| path.0.as_str()))?;
    let caller = listening.caller(&agent)?;
    if !text(&headers, "content-type")
        .is_some_and(|kind| kind.split(';').next().unwrap_or(kind).trim().eq_ignore_ascii_case("application/json"))
    {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "a message is sent as `Content-Type: application/json`",
        ));
    }
    // Read only from somebody who may say something here.
    let body = Bytes::from_request(request, &()).await.map_err(unread)?;
    let envelope: Envelope<'_> = match serde_json::from_slice(&body) {
        Ok(envelope) if body.trim_ascii_start().starts_with(b"{") => envelope,
        Ok(_) => {
            return Ok(refused(
                StatusCode::BAD_REQUEST,
                None,
                -32600,
                "not a JSON-RPC message: an object was expected",
            ));
        }
        Err(error) => return Ok(refused(StatusCode::BAD_REQUEST, None, -32700, &format!("not JSON-RPC: {error}"))),
    };
    // An answer may have none, when the question couldn't be read; a request would never be answered.
    let may_lack = envelope.method.is_none();
    let id = match envelope.id.map(|id| id.get()).filter(|id| *id != "null" || !may_lack) {
        None => None,
        Some(written) => match id_of(written) {
            Some(id) => Some(id),
            None => return Ok(refused(StatusCode::BAD_REQUEST, None, -32600, "an id is a text or a whole number")),
        },
    };
    let (id, params) = (id.as_deref(), Params::of(&envelope));
    let method = envelope.method.as_deref().unwrap_or_default();
    if let Some(revision) = text(&headers, REVISION)
        && !revisions().any(|known| known == revision)
    {
        let known: Vec<_> = revisions().collect();
        let message = format!("`MCP-Protocol-Version: {revision}` is not spoken here; these are: {}", known.join(", "));
        return Ok(refused(StatusCode::BAD_REQUEST, id, -32022, &message));
    }
    let revision = params.meta.as_ref().and_then(|meta| meta.revision.as_deref());
    let stands_alone = revision.and_then(Era::of) == Some(Era::Stateless)
        || text(&headers, SESSION).is_none() && text(&headers, REVISION).and_then(Era::of) == Some(Era::Stateless);
    if stands_alone && method != "initialize" {
        if let Err(message) = agrees(&headers, method, &params) {
            return Ok(refused(StatusCode::BAD_REQUEST, id, -32020, &message));
        }
        let Some(id) = id else { return Ok(StatusCode::ACCEPTED.into_response()) };
        return Ok(alone(&listening, caller, (id, method), &params, &body).await);
    }
    if method == "initialize" {
        let Some(id) = id else { return Ok(refused(StatusCode::BAD_REQUEST, None, -32600, "a request needs an id")) };
        return begin(&listening, agent, caller, id, &params, &body).await;
    }
    let (_, session) = listening.sessions.of(&headers, &agent)?;
    let Some(id) = id.filter(|_| envelope.method.is_some()) else {
        // A notification, or the answer to a question of ours.
        if !session.server.say(&body).await {
            return Err(ended());
        }
        if let (true, Some(id)) = (method == "notifications/cancelled", params.request_id) {
            session.server.forget(&id.to_string());
        }
        return Ok(StatusCode::ACCEPTED.into_response());
    };
    let token = params.meta.and_then(|meta| meta.progress_token);
    let streams = token.is_some() || session.answers && method == "tools/call";
    let awaited = match session.server.ask(id, token, &body).await {
        Ok(awaited) => awaited,
        Err(Unasked::InUse) => {
            let message = format!("the id {id} is that of a request in flight");
            return Ok(refused(StatusCode::OK, Some(id), -32600, &message));
        }
        Err(Unasked::Ended) => return Err(ended()),
    };
    Ok(if streams { streamed(awaited, session) } else { single(awaited, |_| StatusCode::OK).await })
}

/// Most of a header or a name that a message repeats, in characters.
const TOLD: usize = 200;

/// What headers say must be what the message says, because others on the way decide by the headers.
fn agrees(headers: &HeaderMap, method: &str, params: &Params) -> Result<(), String> {
    let same = |header: &str, said: Option<&str>, wanted: &str| match said {
        Some(said) if said == wanted => Ok(()),
        Some(said) => Err(format!(
            "the header `{header}: {}` doesn't agree with the message, which says `{}`",
            shown(said, TOLD),
            shown(wanted, TOLD)
        )),
        None => Err(format!("the header `{header}` is missing; the message says `{}`", shown(wanted, TOLD))),
    };
    let revision = params.meta.as_ref().and_then(|meta| meta.revision.as_deref());
    same("MCP-Protocol-Version", text(headers, REVISION), revision.unwrap_or_default())?;
    same("Mcp-Method", text(headers, "mcp-method"), method)?;
    let name = match method {
        "tools/call" | "prompts/get" => params.name.as_deref(),
        "resources/read" => params.uri.as_deref(),
        _ => None,
    };
    let Some(name) = name else { return Ok(()) };
    let said = text(headers, "mcp-name").map(decoded).transpose()?;
    same("Mcp-Name", said.as_deref(), name)
}

/// A header's text, which is base64 where it could not stand in a header.
fn decoded(value: &str) -> Result<String, String> {
    use base64::Engine as _;
    let Some(inner) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(value.to_owned());
    };
    let bytes = base64::engine::general_purpose::STANDARD.decode(inner).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| "the header `Mcp-Name` is no base64 of UTF-8".to_owned())
}

/// A request that stands alone: its server lives as long as it. A client that goes away takes it back.
async fn alone(
    listening: &Listening,
    caller: Caller,
    (id, method): (&str, &str),
    params: &Params,
    body: &[u8],
) -> Response {
    let server = Server::start(listening.control.executor.clone(), listening.disclosure, caller, &listening.stop);
    let token = params.meta.as_ref().and_then(|meta| meta.progress_token.clone());
    let is_stream = token.is_some() || method == "subscriptions/listen";
    let notices = (method == "subscriptions/listen").then(|| server.stream());
    let server = Alone::new(server, id);
    let Ok(awaited) = server.server.ask(id, token, body).await else { return ended().into_response() };
    match notices {
        Some(notices) => {
            events(stream::unfold((notices, awaited, server), |(mut notices, mut awaited, server)| async move {
                let message = tokio::select! {
                    biased;
                    Some(notice) = notices.recv() => notice,
                    Some(notice) = awaited.notices.recv() => notice,
                    Ok(Some(answer)) = &mut awaited.answer, if !awaited.answer.is_terminated() => answer,
                    else => return None,
                };
                Some((message, (notices, awaited, server)))
            }))
        }
        None if is_stream => streamed(awaited, server),
        None => {
            let response = single(awaited, status_of).await;
            drop(server);
            response
        }
    }
}

/// The status of an answer of the new era.
fn status_of(answer: &[u8]) -> StatusCode {
    #[derive(serde::Deserialize)]
    struct Answer {
        #[serde(default)]
        error: Option<Code>,
    }
    #[derive(serde::Deserialize)]
    struct Code {
        code: i64,
    }
    match serde_json::from_slice::<Answer>(answer).ok().and_then(|answer| answer.error) {
        Some(Code { code: -32022..=-32020 }) => StatusCode::BAD_REQUEST,
        Some(Code { code: -32601 }) => StatusCode::NOT_FOUND,
        _ => StatusCode::OK,
    }
}

/// Opens a session.
async fn begin(
    listening: &Listening,
    agent: String,
    caller: Caller,
    id: &str,
    params: &Params,
    body: &[u8],
) -> Result<Response, Problem> {
    if !listening.sessions.has_room() {
        return Err(full());
    }
    let server = Server::start(listening.control.executor.clone(), listening.disclosure, caller, &listening.stop);
    let Ok(awaited) = server.ask(id, None, body).await else { return Err(ended()) };
    let answers = params
        .capabilities
        .as_ref()
        .is_some_and(|able| able.contains_key("elicitation") || able.contains_key("sampling"));
    let Ok(Some(answer)) = awaited.answer.await else { return Err(ended()) };
    let mut response = json_response(StatusCode::OK, answer.clone());
    if serde_json::from_slice::<Value>(&answer).is_ok_and(|answer| answer.get("result").is_some()) {
        let name = fresh_id()?;
        if let Ok(value) = name.parse() {
            response.headers_mut().insert(SESSION, value);
        }
        let session = Session { agent, server, answers, used: Mutex::new(Instant::now()) };
        let mut sessions = listening.sessions.lock();
        // Others may have begun meanwhile.
        if sessions.len() >= SESSIONS_MAX {
            return Err(full());
        }
        sessions.insert(name, Arc::new(session));
    }
    Ok(response)
}

fn full() -> Problem {
    let why = format!("{SESSIONS_MAX} sessions are open, which is the most; end one, or try again later");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, why)
}

/// A name that nobody can guess.
fn fresh_id() -> Result<String, Problem> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, format!("no random number: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(super) async fn get(
    State(listening): State<Listening>,
    asked: Option<Path<String>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let agent = listening.access.agent(&headers, asked.as_ref().map(|path| path.0.as_str()))?;
    listening.caller(&agent)?;
    let (_, session) = listening.sessions.of(&headers, &agent)?;
    let notices: mpsc::Receiver<Vec<u8>> = session.server.stream();
    Ok(events(stream::unfold((notices, session), |(mut notices, session)| async move {
        let message = tokio::select! {
            message = notices.recv() => message?,
            () = session.server.ended.cancelled() => return None,
        };
        Some((message, (notices, session)))
    })))
}

pub(super) async fn delete(
    State(listening): State<Listening>,
    asked: Option<Path<String>>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let agent = listening.access.agent(&headers, asked.as_ref().map(|path| path.0.as_str()))?;
    listening.caller(&agent)?;
    let (id, _) = listening.sessions.of(&headers, &agent)?;
    if let Some(session) = listening.sessions.lock().remove(&id) {
        session.server.end();
    }
    Ok(StatusCode::NO_CONTENT)
}

impl Listening {
    /// Who calls, for an agent that the plan declares.
    fn caller(&self, agent: &str) -> Result<Caller, Problem> {
        let home = self.control.identity.caller.home.clone();
        let caller = Caller { agent: agent.to_owned(), workspace: self.workspace.clone(), home };
        caller
            .check(&self.control.executor.view().snapshot.plan)
            .map_err(|unknown| Problem::not_found(unknown.to_string()))?;
        Ok(caller)
    }
}

#[cfg(test)]
mod tests {
    use mcplan_compiler::plan::LEAD;
    use tokio_util::sync::CancellationToken;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_session_ends_an_hour_after_its_last_use_and_a_stream_is_one() {
        let (server, _theirs) = Server::facing(64, &CancellationToken::new());
        let stream = server.stream();
        let sessions = Arc::<Sessions>::default();
        let session = Session { agent: LEAD.to_owned(), server, answers: false, used: Mutex::new(Instant::now()) };
        sessions.lock().insert("a".to_owned(), Arc::new(session));
        let reaping = tokio::spawn(sessions.clone().reap());
        tokio::time::sleep(IDLE_MAX * 3).await;
        assert_eq!(sessions.lock().len(), 1, "its stream is open");
        drop(stream);
        tokio::time::sleep(IDLE_MAX - LOOK_EVERY * 2).await;
        assert_eq!(sessions.lock().len(), 1, "the hour begins when the stream ends");
        tokio::time::sleep(LOOK_EVERY * 4).await;
        assert_eq!(sessions.lock().len(), 0);
        reaping.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn where_there_is_no_room_the_longest_unused_session_makes_some() {
        let sessions = Sessions::default();
        for number in 0..SESSIONS_MAX {
            let (server, _theirs) = Server::facing(64, &CancellationToken::new());
            let session =
                Session { agent: "lead".to_owned(), server, answers: false, used: Mutex::new(Instant::now()) };
            sessions.lock().insert(number.to_string(), Arc::new(session));
        }
        assert!(!sessions.has_room());
        tokio::time::advance(Duration::from_secs(59)).await;
        for (id, session) in sessions.lock().iter().filter(|(id, _)| *id != "7") {
            *session.used.lock().unwrap() = Instant::now();
            assert_ne!(id, "7");
        }
        assert!(!sessions.has_room());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(sessions.has_room());
        assert!(!sessions.lock().contains_key("7") && sessions.lock().len() == SESSIONS_MAX - 1);
    }
}
