//! Streamable HTTP: rmcp's transport keeps sessions and streams, this client makes the requests.
//!
//! Ours because results have to stay text, because errors must not show URLs and headers (both may hold secrets), and
//! because a call must not be repeated on a new session unless that is harmless.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue, StatusCode, header};
use reqwest::{RequestBuilder, Response};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, GetExtensions as _, JsonRpcMessage};
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use rmcp::transport::{StreamableHttpClientTransport, Transport};
use secrecy::{ExposeSecret as _, SecretString};
use serde::Deserialize;
use sse_stream::Sse;
use tokio_util::sync::CancellationToken;

use super::MESSAGE_MAX;
use super::raw::{self, Stand, Typed};
use super::sse;
use super::tap::{Kind, Notices};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Most of an error's body that is read, in bytes.
const ERROR_MAX: usize = 64 * 1024;
/// Calls on one connection at the same time; more wait for a place.
const CALLS_MAX: usize = 256;

/// Why a request failed, without URL and headers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    /// Nothing answered at all.
    #[error("{0}")]
    Unreachable(String),
    /// The exchange broke off, or was no HTTP.
    #[error("{0}")]
    Broken(String),
    /// An answer that says no.
    #[error("HTTP {status}{}", shown(.body))]
    Status {
        /// The code.
        status: u16,
        /// The start of the body, on one line.
        body: String,
    },
    /// An answer that isn't MCP.
    #[error("{0}")]
    NotMcp(String),
}

fn shown(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}

impl HttpError {
    fn of(error: reqwest::Error) -> Self {
        let is_unreachable = error.is_connect();
        // The outer layers say no more than "error sending request"; the cause is at the bottom.
        let error = error.without_url();
        let mut cause: &dyn std::error::Error = &error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        if is_unreachable { Self::Unreachable(cause.to_string()) } else { Self::Broken(cause.to_string()) }
    }
}

/// Rides in a request's extensions: it may be sent again on a new session.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeatable;

/// What the client has learned, shared with the connection.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Cancelled when the server can't be reached any more.
    pub(crate) lost: CancellationToken,
    /// The last thing that went wrong; rmcp passes on no more than "channel closed" of some of it.
    failure: Mutex<Option<HttpError>>,
    initialized: AtomicBool,
}

impl Watch {
    pub(crate) fn failure(&self) -> Option<HttpError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn fail(&self, error: &HttpError) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        if matches!(error, HttpError::Unreachable(_)) {
            self.lost.cancel();
        }
    }
}

/// Makes the requests of one connection.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::Client,
    headers: Arc<Vec<(HeaderName, HeaderValue)>>,
    typed: Typed,
    notices: Arc<Notices>,
    watch: Arc<Watch>,
}

/// A header that can't be sent; its name and never its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header `{0}` can't be sent: a header's name is letters, digits and `-`, its value has no line break")]
pub struct BadHeader(pub String);

/// A transport to `url`.
///
/// # Errors
/// When a header can't be sent.
pub(crate) fn transport(
    http: reqwest::Client,
    url: &SecretString,
    headers: &BTreeMap<String, SecretString>,
    notices: Arc<Notices>,
    watch: Arc<Watch>,
) -> Result<impl Transport<rmcp::RoleClient> + 'static, BadHeader> {
    let headers = headers
        .iter()
        .map(|(name, value)| {
            let bad = || BadHeader(name.clone());
            let key = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
            let mut value = HeaderValue::try_from(value.expose_secret()).map_err(|_| bad())?;
            value.set_sensitive(true);
            Ok((key, value))
        })
        .collect::<Result<_, _>>()?;
    let client = Client { http, headers: Arc::new(headers), typed: Typed::default(), notices, watch };
    let mut config = StreamableHttpClientTransportConfig::with_uri(url.expose_secret());
    config.max_concurrent_requests = CALLS_MAX;
    config.max_sse_event_size = MESSAGE_MAX;
    config.max_json_response_size = MESSAGE_MAX;
    let mut retry = ExponentialBackoff::default();
    (retry.max_times, retry.max_delay) = (Some(5), Some(Duration::from_secs(30)));
    config.retry_config = Arc::new(retry);
    Ok(StreamableHttpClientTransport::with_client(client, config))
}

type Failure = StreamableHttpError<HttpError>;

impl Client {
    async fn send(
        &self,
        mut request: RequestBuilder,
        session: Option<&str>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<Response, Failure> {
        let mut all = http::HeaderMap::new();
        for (name, value) in self.headers.iter() {
            all.insert(name.clone(), value.clone());
        }
        // The protocol's own come last, so that a config can't break it.
        all.extend(headers);
        if let Some(session) = session.and_then(|session| HeaderValue::try_from(session).ok()) {
            all.insert(SESSION, session);
        }
        all.insert(header::ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        request = request.headers(all);
        request.send().await.map_err(|error| self.failed(HttpError::of(error)))
    }

    fn failed(&self, error: HttpError) -> Failure {
        self.watch.fail(&error);
        StreamableHttpError::Client(error)
    }

    /// Notes a session that begins; one that replaces another may bring other lists.
    fn beginning(&self, message: &ClientJsonRpcMessage) {
        self.typed.note(message);
        let is_initialize = matches!(message, JsonRpcMessage::Request(request)
            if matches!(request.request, ClientRequest::InitializeRequest(_)));
        if is_initialize && self.watch.initialized.swap(true, Ordering::Relaxed) {
            Kind::ALL.into_iter().for_each(|kind| self.notices.change(kind));
        }
    }

    /// An answer that says no.
    async fn refused(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
        in_session: bool,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let status = response.status();
        let is_json = media_type(&response).as_deref() == Some(JSON);
        let body = start_of_body(response, if is_json { MESSAGE_MAX } else { ERROR_MAX }).await;
        if in_session && is_lost_session(status, &body) {
            return lost_session(message);
        }
        let is_closed = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_json
            && !is_closed
            && let JsonRpcMessage::Request(request) = message
            && let Some(JsonRpcMessage::Error(mut error)) = raw::message(&body, &self.typed)
        {
            // What refuses a message before reading it can't know its id.
            error.id = Some(request.id.clone());
            return Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), None));
        }
        let body = one_line(&String::from_utf8_lossy(&body));
        Err(self.failed(HttpError::Status { status: status.as_u16(), body }))
    }
}

/// The essence of the content type, in lower case.
fn media_type(response: &Response) -> Option<String> {
    let value = response.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}

/// At most `limit` bytes of the body, as far as it comes.
async fn start_of_body(response: Response, limit: usize) -> Vec<u8> {
    let (mut body, mut stream) = (Vec::new(), response.bytes_stream());
    while body.len() < limit
        && let Some(Ok(chunk)) = stream.next().await
    {
        body.extend_from_slice(&chunk[..chunk.len().min(limit - body.len())]);
    }
    body
}

fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
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
            error.code == -32001 || (error.code == -32000 && error.message.to_ascii_lowercase().contains("session"))
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
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
        _: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        self.beginning(&message);
        let request = self.http.post(&*uri).json(&message);
        let response = self.send(request, session.as_deref(), headers).await?;
        let status = response.status();
        if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
            return Ok(StreamableHttpPostResponse::Accepted);
        }
        if !status.is_success() {
            return self.refused(response, &message, session.is_some()).await;
        }
        let JsonRpcMessage::Request(request) = &message else {
            // Nothing is awaited, so whatever a 200 carries is no answer to anything.
            return Ok(StreamableHttpPostResponse::Accepted);
        };
        let new_session = response.headers().get(SESSION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        match media_type(&response).as_deref() {
            Some(EVENTS) => {
                let events = sse::events(response.bytes_stream(), MESSAGE_MAX, self.typed.clone());
                Ok(StreamableHttpPostResponse::Sse(events, new_session))
            }
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

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _: Option<String>,
        headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failure> {
        // Whether the server knows how to end a session is its own affair.
        self.send(self.http.delete(&*uri), Some(&session), headers).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _: Option<String>,
        mut headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failure> {
        if let Some(last_event) = last_event.and_then(|id| HeaderValue::try_from(id).ok()) {
            headers.insert(LAST_EVENT, last_event);
        }
        let response = self.send(self.http.get(&*uri), session.as_deref(), headers).await?;
        let is_stream = response.status().is_success() && media_type(&response).as_deref() == Some(EVENTS);
        if !is_stream {
            // Most servers offer none, in one way or another; it is never worth an error.
            return Err(StreamableHttpError::ServerDoesNotSupportSse);
        }
        Ok(sse::events(response.bytes_stream(), MESSAGE_MAX, self.typed.clone()))
    }
}

/// The HTTP client that all connections share: rustls with ring, no redirects (they would carry headers elsewhere).
///
/// # Errors
/// When the system's certificates can't be read.
pub(crate) fn client() -> Result<reqwest::Client, reqwest::Error> {
    // Fails when one is installed already, and then that one is right.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(Duration::from_secs(30))
        .user_agent(concat!("mcplan/", env!("CARGO_PKG_VERSION")))
        .build()
}
