//! One request to a server, from sending to the text of its result: limits, progress, cancellation, and every way to
//! end without one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::{CancelledNotification, CancelledNotificationParam, ClientRequest, CustomRequest, RequestId};
use rmcp::service::{PeerRequestOptions, RequestHandle, ServiceError};
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::call_error::{CallError, Limit};
use super::input::{self, ROUNDS_MAX, Round};
use super::pulse::InFlight;
use super::questions::Answers;
use super::{Connection, Inner};
use crate::core::era::Era;
use crate::core::gate::{Allowed, Call, Invoke, Read};
use crate::core::results::Text;
use crate::core::sound::sound;
use crate::runtime::transport::raw::{self, Stand};
use crate::runtime::transport::remote::HttpError;
use crate::runtime::transport::stdio::Unread;
use crate::runtime::transport::streamable::Repeatable;
use crate::runtime::transport::tap::{Progress, Watcher};

/// Progress that waits for a slow caller before some is left out.
const PROGRESS_BUFFER: usize = 64;

/// What rmcp's transport says in place of an answer that a session took with it.
const REINITIALIZED: &str = "streamable HTTP session was re-initialized before the response arrived";

/// A request as it is sent.
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) params: Map<String, Value>,
    pub(super) meta: Map<String, Value>,
    pub(super) limits: Vec<(Limit, f64)>,
    /// Sending it twice does no harm.
    pub(super) repeatable: bool,
}

/// Whoever makes a call, as long as it lasts.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// Where its progress goes, in the order in which it came; some is left out when the receiver is slow.
    pub progress: Option<mpsc::Sender<Progress>>,
    /// Cancelled when the result isn't wanted any more.
    pub cancel: CancellationToken,
    /// Who answers what the server asks meanwhile.
    pub answers: Option<Arc<dyn Answers>>,
}

/// Something that a server can be asked, once the gate has allowed it.
pub trait Operation {
    /// The protocol's name for it.
    const METHOD: &'static str;
    /// The list that each of its results has.
    const RESULT: &'static str;
    /// Its parameters, without `_meta`.
    fn params(&self) -> Map<String, Value>;
    /// The request's `_meta`; the progress token in it is ours whatever it says.
    fn meta(&self) -> Map<String, Value>;
}

impl Operation for Call {
    const METHOD: &'static str = "tools/call";
    const RESULT: &'static str = "content";

    fn params(&self) -> Map<String, Value> {
        let arguments = Value::Object(self.arguments.clone());
        let named = [("name".to_owned(), json!(self.tool)), ("arguments".to_owned(), arguments)];
        named.into_iter().chain(self.input.clone()).collect()
    }

    fn meta(&self) -> Map<String, Value> {
        self.meta.clone()
    }
}

impl Operation for Invoke {
    const METHOD: &'static str = "prompts/get";
    const RESULT: &'static str = "messages";

    fn params(&self) -> Map<String, Value> {
        let arguments = (!self.more.arguments.is_empty())
            .then(|| ("arguments".to_owned(), Value::Object(self.more.arguments.clone())));
        let named = [("name".to_owned(), json!(self.prompt))];
        named.into_iter().chain(arguments).chain(self.more.input.clone()).collect()
    }

    fn meta(&self) -> Map<String, Value> {
        self.more.meta.clone()
    }
}

impl Operation for Read {
    const METHOD: &'static str = "resources/read";
    const RESULT: &'static str = "contents";

    fn params(&self) -> Map<String, Value> {
        [("uri".to_owned(), json!(self.uri))].into_iter().chain(self.more.input.clone()).collect()
    }

    fn meta(&self) -> Map<String, Value> {
        self.more.meta.clone()
    }
}

impl Connection {
    /// Calls a tool and gives its result as the server wrote it, byte for byte.
    ///
    /// A call that ends without an answer (a limit, the client's `cancel`, this future dropped) is cancelled at the server
    /// too.
    ///
    /// # Errors
    /// The server's own error, or why there is no answer.
    pub async fn call(&self, call: &Allowed<Call>, client: Client) -> Result<Text, CallError> {
        self.send(call.get(), client).await
    }

    pub(super) async fn send(&self, call: &Call, client: Client) -> Result<Text, CallError> {
        let limits = &self.inner.limits;
        let limits = vec![(Limit::Call, limits.call_timeout_seconds), (Limit::Idle, limits.idle_timeout_seconds)];
        let _present = self.inner.clients.enter(client.answers.clone());
        let request = Request::of(call, limits, self.inner.is_repeatable(&call.tool));
        self.inner.sound(self.inner.request(request, client).await?)
    }

    /// Asks for anything but a tool call, within `request_timeout_seconds`, and gives the result as it was written. Such
    /// a request only reads, so it is repeated when the server has forgotten our session.
    ///
    /// # Errors
    /// The server's own error, or why there is no answer.
    pub async fn ask<O: Operation>(&self, operation: &Allowed<O>, client: Client) -> Result<Text, CallError> {
        let limits = vec![(Limit::Request, self.inner.limits.request_timeout_seconds)];
        let _present = self.inner.clients.enter(client.answers.clone());
        let request = Request::of(operation.get(), limits, true);
        let result = self.inner.sound(self.inner.request(request, client).await?)?;
        // Strict clients take a result without it for none, and say less of it.
        let fields = serde_json::from_str::<BTreeMap<String, &RawValue>>(result.get()).unwrap_or_default();
        match fields.get(O::RESULT) {
            Some(list) if list.get().starts_with('[') => Ok(result),
            _ => Err(self.inner.unusable(format!("its result of {} has no list `{}`", O::METHOD, O::RESULT))),
        }
    }
}

impl Request {
    fn of<O: Operation>(operation: &O, limits: Vec<(Limit, f64)>, repeatable: bool) -> Self {
        let (params, meta) = (operation.params(), operation.meta());
        Self { method: O::METHOD, params, meta, limits, repeatable }
    }
}

/// A request on its way. Dropped before the answer came, it tells the server to stop.
struct Flight<'a> {
    inner: &'a Inner,
    id: Option<RequestId>,
    reason: &'static str,
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            // Full only when a thousand calls are given up at once; then the server finishes some for nothing.
            let _ = self.inner.cancels.try_send((id, self.reason));
        }
    }
}

impl Inner {
    pub(super) async fn request(&self, mut request: Request, client: Client) -> Result<Text, CallError> {
        let (begun, _in_flight) = (Instant::now(), InFlight::new(&self.in_flight));
        for _ in 0..ROUNDS_MAX {
            let result = self.once(&request, begun, &client).await?;
            let round = match self.era {
                Era::Stateless => input::round(&result, client.answers.as_ref()).await,
                Era::Session => Round::Complete,
            };
            match round {
                Round::Complete => return Ok(result),
                Round::Again(more) => request.params.extend(more),
                Round::Useless(cause) => return Err(CallError::Protocol { server: self.server.clone(), cause }),
            }
        }
        let cause = format!("it asked back {ROUNDS_MAX} times and gave no result");
        Err(CallError::Protocol { server: self.server.clone(), cause })
    }

    /// One round of a request that began at `begun`.
    async fn once(&self, request: &Request, begun: Instant, client: &Client) -> Result<Text, CallError> {
        let (sender, heard) = mpsc::channel(PROGRESS_BUFFER);
        let mut custom = CustomRequest::new(request.method, Some(Value::Object(request.params.clone())));
        custom.extensions.insert(Watcher(sender));
        if request.repeatable {
            custom.extensions.insert(Repeatable);
        }
        let options = PeerRequestOptions::no_options().with_meta(request.meta.clone().into());
        let sending = self.peer.send_request_with_option(ClientRequest::CustomRequest(custom), options);
        let handle = tokio::select! {
            biased;
            () = client.cancel.cancelled() => return Err(CallError::Cancelled { server: self.server.clone() }),
            handle = sending => match handle {
                Ok(handle) => handle,
                Err(_) => return Err(self.lost().await),
            },
        };
        match self.answer(handle, heard, (&request.limits, begun), client).await? {
            Ok(result) => match raw::text(result) {
                Some(result) if result.get().starts_with('{') => Ok(result),
                Some(other) => Err(self.unusable(format!("a result is an object, and this is {:.100}", other.get()))),
                None => Err(self.unusable("it isn't one of the request's kind".to_owned())),
            },
            Err(error) => Err(self.failed(error).await),
        }
    }

    /// Waits for whatever comes first.
    async fn answer(
        &self,
        mut handle: RequestHandle<RoleClient>,
        mut heard: mpsc::Receiver<Progress>,
        (limits, begun): (&[(Limit, f64)], Instant),
        client: &Client,
    ) -> Result<Result<rmcp::model::ServerResult, ServiceError>, CallError> {
        let mut flight = Flight { inner: self, id: Some(handle.id.clone()), reason: "the caller went away" };
        let seconds = |wanted: &[Limit]| limits.iter().find(|(limit, _)| wanted.contains(limit)).copied();
        let (total, idle) = (seconds(&[Limit::Call, Limit::Request]), seconds(&[Limit::Idle]));
        let at = |from: Instant, limit: Option<(Limit, f64)>| limit.and_then(|(_, seconds)| after(from, seconds));
        let (over, mut quiet) = (at(begun, total), at(Instant::now(), idle));
        let fired = |limit: Option<(Limit, f64)>| {
            let (limit, seconds) = limit.unwrap_or((Limit::Call, 0.0));
            (limit.setting(), CallError::TimedOut { server: self.server.clone(), limit, seconds })
        };
        loop {
            // Progress before the answer, because it came before it; the end of the connection after both.
            tokio::select! {
                biased;
                () = until(over) => {
                    let (reason, error) = fired(total);
                    flight.reason = reason;
                    return Err(error);
                }
                Some(progress) = heard.recv() => {
                    quiet = at(Instant::now(), idle);
                    if let Some(sender) = &client.progress {
                        let _ = sender.try_send(progress);
                    }
                }
                answer = &mut handle.rx => {
                    flight.id = None;
                    return Ok(answer.unwrap_or(Err(ServiceError::TransportClosed)));
                }
                () = self.over.cancelled() => {
                    flight.id = None;
                    return Err(self.lost().await);
                }
                () = client.cancel.cancelled() => return Err(CallError::Cancelled { server: self.server.clone() }),
                () = until(quiet) => {
                    let (reason, error) = fired(idle);
                    flight.reason = reason;
                    return Err(error);
                }
            }
        }
    }

    /// Why the connection ended, as soon as that is known.
    async fn lost(&self) -> CallError {
        let _ = tokio::time::timeout(Duration::from_secs(2), self.over.cancelled()).await;
        let reason =
            self.ended.get().map_or_else(|| "the connection is closed".to_owned(), |closed| closed.to_string());
        CallError::Lost { server: self.server.clone(), reason }
    }

    /// A result that goes to a client, as any client can read it.
    fn sound(&self, result: Text) -> Result<Text, CallError> {
        sound(result).map_err(|cause| self.unusable(cause))
    }

    fn unusable(&self, cause: String) -> CallError {
        CallError::Protocol { server: self.server.clone(), cause: self.mask.apply(&cause).into_owned() }
    }

    async fn failed(&self, error: ServiceError) -> CallError {
        let server = self.server.clone();
        match error {
            ServiceError::McpError(error) => match Stand::of(&error) {
                Some(Stand::TooLong) => CallError::TooLong { server },
                Some(Stand::SessionLost) => CallError::SessionLost { server, renewed: self.renew().await },
                // Another request found the session lost, and its answer was still to come.
                None if error.message == REINITIALIZED => CallError::SessionLost { server, renewed: true },
                None => CallError::Server {
                    server,
                    code: error.code.0,
                    message: self.mask.apply(&error.message).into_owned(),
                    data: error.data.map(|data| self.masked_data(data)),
                },
            },
            ServiceError::TransportSend(error) => match http_error(&error) {
                Some(HttpError::Unreachable(cause)) => {
                    let cause = format!("it can't be reached: {cause}");
                    CallError::Lost { server, reason: self.mask.apply(&cause).into_owned() }
                }
                Some(forgotten @ HttpError::Forgotten) => CallError::Lost { server, reason: forgotten.to_string() },
                Some(HttpError::Cut(cause)) => CallError::Cut { server, cause: self.mask.apply_excerpt(&cause) },
                Some(HttpError::NotMcp(cause)) => self.unusable(cause),
                Some(error) => CallError::Http { server, cause: self.mask.apply_excerpt(&error.to_string()) },
                None if is_unread(&error) => CallError::Unread { server, cause: Unread.to_string() },
                None if self.process => self.lost().await,
                None => CallError::Http { server, cause: self.mask.apply_excerpt(&error.error.to_string()) },
            },
            // The connection is there, the stream of this one answer is not.
            ServiceError::TransportClosed if !self.process && !self.peer.is_transport_closed() => {
                CallError::Cut { server, cause: "it ended the stream of its answer".to_owned() }
            }
            ServiceError::TransportClosed => self.lost().await,
            ServiceError::Cancelled { .. } => CallError::Cancelled { server },
            other => CallError::Protocol { server, cause: other.to_string() },
        }
    }

    /// Opens a new session in a lost one's place, by a request that may be repeated without harm. Whether there is one.
    async fn renew(&self) -> bool {
        let ping = self.peer.send_request(self.question());
        let limit = Duration::try_from_secs_f64(self.limits.request_timeout_seconds).unwrap_or(Duration::MAX);
        // A server that refuses a ping has answered in a session.
        matches!(tokio::time::timeout(limit, ping).await, Ok(Ok(_) | Err(ServiceError::McpError(_))))
    }

    /// Tells the server that nobody waits for an answer any more.
    pub(super) async fn send_cancel(&self, id: RequestId, reason: &str) {
        let params = CancelledNotificationParam::new(Some(id), Some(reason.to_owned()));
        let _ = self.peer.send_notification(CancelledNotification::new(params).into()).await;
    }
}

/// `seconds` after `from`; never for 0, or for what no clock reaches.
pub(super) fn after(from: Instant, seconds: f64) -> Option<Instant> {
    if seconds <= 0.0 {
        return None;
    }
    from.checked_add(Duration::try_from_secs_f64(seconds).ok()?)
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Whether a message was refused because a process doesn't read what it is sent.
fn is_unread(error: &DynamicTransportError) -> bool {
    let error = error.error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
    error.is_some_and(|error| error.is::<Unread>())
}

/// What went wrong on the way to a remote server, out of what rmcp made of it.
pub(super) fn http_error(error: &DynamicTransportError) -> Option<HttpError> {
    if let Some(error) = error.error.downcast_ref::<HttpError>() {
        return Some(error.clone());
    }
    let broken = |cause: String| Some(HttpError::Broken(cause));
    match error.error.downcast_ref::<StreamableHttpError<HttpError>>()? {
        StreamableHttpError::Client(error) => Some(error.clone()),
        StreamableHttpError::SessionExpired => broken("it does not know the session, also not a new one".to_owned()),
        StreamableHttpError::SessionRecoveryTimeout => broken("it gave no new session in time".to_owned()),
        StreamableHttpError::ReinitializationFailed(error) => {
            broken(format!("it refused a new session: {}", error.message))
        }
        StreamableHttpError::ControlRequestTimeout => broken("it did not take the message in time".to_owned()),
        other => broken(other.to_string()),
    }
}
