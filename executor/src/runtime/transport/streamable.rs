//! Streamable HTTP: rmcp's transport keeps sessions and streams, this client makes the requests.
//!
//! Ours because results have to stay text, because errors must not show URLs and headers (both may hold secrets), and
//! because a call must not be repeated on a new session unless that is harmless.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::{Method, Response, Url};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorCode, ErrorData, GetExtensions as _, JsonRpcMessage, RequestId,
    ServerJsonRpcMessage,
};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpClientWorker,
    StreamableHttpError, StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use rmcp::transport::{Transport, WorkerTransport};
use serde::Deserialize;
use sse_stream::Sse;
use tokio_util::sync::CancellationToken;

use super::mirror::Mirror;
use super::raw::{self, Stand, Typed};
use super::remote::{
    ERROR_MAX, EVENTS, HttpError, JSON, Requests, Watch, media_type, one_line, refusal, retry_after, start_of_body,
};
use super::tap::{Kind, Notices};
use super::{MESSAGE_MAX, events};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Calls on one connection at the same time; more wait for a place.
const CALLS_MAX: usize = 256;

/// Rides in a request's extensions: it may be sent again on a new session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeatable;

/// Makes the requests of one connection.
#[derive(Clone)]
pub(crate) struct Client {
    requests: Requests,
    url: Url,
    typed: Typed,
    notices: Arc<Notices>,
    watch: Arc<Watch>,
    initialized: Arc<AtomicBool>,
    /// How long the answer to `server/discover` is waited for.
    patience: Duration,
    mirror: Arc<Mirror>,
    /// Cancelled when the transport is given up. rmcp's own looks at it only once it has begun to serve, so that an answer
    /// to `initialize` that never comes would be waited for by nobody, for ever.
    given_up: CancellationToken,
}

/// A transport to `url`. An answer to `server/discover` is waited for with `patience`.
pub(crate) fn transport(
    requests: Requests,
    url: Url,
    patience: Duration,
    (notices, watch, mirror): (Arc<Notices>, Arc<Watch>, Arc<Mirror>),
) -> impl Transport<rmcp::RoleClient> + 'static {
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
    let (typed, initialized) = (Typed::default(), Arc::default());
    let given_up = CancellationToken::new();
    let client =
        Client { requests, url, typed, notices, watch, initialized, patience, mirror, given_up: given_up.clone() };
    config.max_concurrent_requests = CALLS_MAX;
    config.max_sse_event_size = MESSAGE_MAX;
    config.max_json_response_size = MESSAGE_MAX;
    let mut retry = ExponentialBackoff::default();
    (retry.max_times, retry.max_delay) = (Some(5), Some(Duration::from_secs(30)));
    config.retry_config = Arc::new(retry);
    WorkerTransport::spawn_with_ct(StreamableHttpClientWorker::new(client, config), given_up)
}

type Failure = StreamableHttpError<HttpError>;

impl Client {
    async fn send(
        &self,
        method: Method,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
        body: Option<Vec<u8>>,
    ) -> Result<Response, Failure> {
        let mut own: HeaderMap = headers.into_iter().collect();
        if let Some(session) = session.and_then(|session| HeaderValue::try_from(session).ok()) {
            own.insert(SESSION, session);
        }
        own.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        self.requests.send(method, &self.url, own, body).await.map_err(|error| self.failed(error))
    }

    fn failed(&self, error: HttpError) -> Failure {
        self.watch.fail(&error);
        StreamableHttpError::Client(error)
    }

    fn events(&self, response: Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let events = events::quoted(response.bytes_stream().map_err(HttpError::of), MESSAGE_MAX, self.typed.clone());
        events.take_until(self.given_up.clone().cancelled_owned()).boxed()
    }

    /// Notes a session that begins; one that replaces another may bring other lists.
    fn beginning(&self, message: &ClientJsonRpcMessage) {
        self.typed.note(message);
        let is_initialize = matches!(message, JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::InitializeRequest(_)));
        if is_initialize && self.initialized.swap(true, Ordering::Relaxed) {
            Kind::ALL.into_iter().for_each(|kind| self.notices.change(kind));
        }
    }

    /// Posts a message and gives what answers it.
    async fn post(
        &self,
        message: &ClientJsonRpcMessage,
        session: Option<&str>,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.beginning(message);
        headers.extend(self.mirror.headers(message));
        if matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)) {
            // What rmcp says of a request is no word about our answer to one.
            headers.remove(&METHOD);
        }
        let body = serde_json::to_vec(message).map_err(StreamableHttpError::Deserialize)?;
        let response = self.send(Method::POST, session, headers, Some(body)).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !status.is_success() {
            return self.refused(response, message, session.is_some()).await;
        }
        let JsonRpcMessage::Request(request) = message else {
            // Nothing is awaited, so whatever a 200 carries is no answer to anything.
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let new_session = response.headers().get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        match media_type(&response).as_deref() {
            Some(EVENTS) => Ok(StreamableHttpPostResponse::Sse(self.events(response), new_session)),
            Some(JSON) => {
                let body = start_of_body(response, MESSAGE_MAX + 1).await;
                if body.len() > MESSAGE_MAX {
                    let error = JsonRpcMessage::error(Stand::TooLong.error(), Some(request.id.clone()));
                    return Ok(StreamableHttpPostResponse::Json(error, new_session));
                }
                match raw::message(&body, &self.typed) {
                    Some(message) => Ok(StreamableHttpPostResponse::Json(message, new_session)),
                    None => {
                        let start = one_line(&String::from_utf8_lossy(&body));
                        Err(self.failed(HttpError::NotMcp(format!("the answer is no MCP message: {start}"))))
                    }
                }
            }
            other => {
                let other = other.unwrap_or("none");
                let text = format!("the answer's content type is {other}, not {JSON} or {EVENTS}");
                Err(self.failed(HttpError::NotMcp(text)))
            }
        }
    }

    /// Asks whether the server speaks the new era. Whatever is no answer of that era is handed on as an error of a server
    /// that doesn't know the question: rmcp's transport would end over anything else, and `initialize` is to follow on it.
    async fn discover(
        &self,
        message: &ClientJsonRpcMessage,
        id: &RequestId,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<ServerJsonRpcMessage, Failure> {
        let asked = async {
            Ok(match self.post(message, None, headers).await? {
                StreamableHttpPostResponse::Json(answer, _) => Some(answer),
                StreamableHttpPostResponse::Sse(events, _) => first_answer(events).await,
                _ => None,
            })
        };
        match tokio::time::timeout(self.patience, asked).await {
            Ok(Ok(Some(answer))) => Ok(answer),
            // Another request would end in the same way.
            Ok(Err(StreamableHttpError::Client(
                error @ (HttpError::Unreachable(_)
                | HttpError::Redirect { .. }
                | HttpError::Status { status: 401 | 403 | 407, .. }),
            ))) => Err(StreamableHttpError::Client(error)),
            _ => {
                self.watch.forgive();
                let unknown = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "no answer of the new era", None);
                Ok(JsonRpcMessage::error(unknown, Some(id.clone())))
            }
        }
    }

    /// An answer that says no.
    async fn refused(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
        in_session: bool,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let (status, retry_after) = (response.status(), retry_after(&response));
        let is_json = media_type(&response).as_deref() == Some(JSON);
        let body = start_of_body(response, if is_json { MESSAGE_MAX } else { ERROR_MAX }).await;
        if in_session && is_lost_session(status, &body) {
            return lost_session(message);
        }
        let is_closed = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        // What a server says of it in JSON-RPC doesn't say how long to wait.
        let waits = retry_after.is_some()
            && matches!(message, JsonRpcMessage::Request(asked) if matches!(asked.request, ClientRequest::InitializeRequest(_)));
        if is_json
            && !is_closed
            && !waits
            && let JsonRpcMessage::Request(request) = message
            && let Some(JsonRpcMessage::Error(mut error)) = raw::message(&body, &self.typed)
        {
            // What refuses a message before reading it can't know its id.
            error.id = Some(request.id.clone());
            return Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), None));
        }
        Err(self.failed(refusal(status, retry_after, &body)))
    }
}

/// The first answer in a stream of events.
async fn first_answer(mut events: BoxStream<'static, Result<Sse, SseError>>) -> Option<ServerJsonRpcMessage> {
    loop {
        let Ok(event) = events.next().await? else { return None };
        let message = serde_json::from_str(event.data.as_deref().unwrap_or_default());
        if let Ok(answer @ (JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_))) = message {
            return Some(answer);
        }
    }
}

/// 404 says so in the protocol; some servers use 400, 401 or 503 and say it in the body.
fn is_lost_session(status: StatusCode, body: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Refusal {
        error: Reason,
    }
    #[derive(Deserialize)]
    struct Reason {
        code: i64,
        #[serde(default)]
        message: String,
    }
    let says_so = || {
        serde_json::from_slice::<Refusal>(body).is_ok_and(|Refusal { error }| {
            let message = error.message.to_ascii_lowercase();
            let is_of_session = message.contains("session") || message.contains("not initialized");
            error.code == -32001 || (matches!(error.code, -32000 | -32600 | 32600) && is_of_session)
        })
    };
    match status.as_u16() {
        404 => true,
        400 | 401 | 503 => says_so(),
        _ => false,
    }
}

/// rmcp opens a new session and sends a message again that failed like this, so only a harmless one may.
fn lost_session(message: &ClientJsonRpcMessage) -> Result<StreamableHttpPostResponse, Failure> {
    match message {
        JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::CustomRequest(_))
                && request.request.extensions().get::<Repeatable>().is_none() =>
        {
            let error = JsonRpcMessage::error(Stand::SessionLost.error(), Some(request.id.clone()));
            Ok(StreamableHttpPostResponse::Json(error, None))
        }
        _ => Err(StreamableHttpError::SessionExpired),
    }
}

impl StreamableHttpClient for Client {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        auth: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, auth, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        _: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        _: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let posted = async {
            if let JsonRpcMessage::Request(request) = &message
                && matches!(request.request, ClientRequest::DiscoverRequest(_))
            {
                let found = self.discover(&message, &request.id, headers).await;
                return found.map(|message| StreamableHttpPostResponse::Json(message, None));
            }
            self.post(&message, session.as_deref(), headers).await
        };
        let posted = self.given_up.run_until_cancelled(posted).await;
        posted.unwrap_or(Err(StreamableHttpError::TransportChannelClosed))
    }

    async fn delete_session(
        &self,
        _: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        // Whether the server knows how to end a session is its own affair.
        self.send(Method::DELETE, Some(&session), headers, None).await.map(drop)
    }

    async fn get_stream(
        &self,
        _: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        if let Some(last_event) = last_event.and_then(|id| HeaderValue::try_from(id).ok()) {
            headers.insert(LAST_EVENT, last_event);
        }
        let response = self.send(Method::GET, session.as_deref(), headers, None).await?;
        let is_stream = response.status().is_success() && media_type(&response).as_deref() == Some(EVENTS);
        if !is_stream {
            // Most servers offer none, in one way or another; it is never worth an error.
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        Ok(self.events(response))
    }
}
