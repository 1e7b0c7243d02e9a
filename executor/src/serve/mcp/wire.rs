//! Lines ↔ rmcp's messages. Requests for what servers have go in as custom requests, so that their results can go out as
//! the text they are; those of a client with a session go by [`Lane`] and never reach rmcp.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use mcplan_compiler::json;

use rmcp::RoleServer;
use rmcp::model::{ClientNotification, ClientRequest, CustomResult, JsonRpcMessage, RequestId, ServerResult};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::lane::{Batch, Lane, Taken};
use super::request::METHODS;
use super::room::Room;
use crate::core::results::Text;
use crate::runtime::transport::MESSAGE_MAX;
use crate::runtime::transport::line::{Line, Lines};

/// What a request of this kind is called on its way through rmcp.
pub(super) const PASSED: &str = "mcplan/";
/// Requests whose answers aren't written; until there are fewer, nothing is read. None of them waits for the client.
const IN_FLIGHT_MAX: usize = 1024;
/// Said of a message beyond [`MESSAGE_MAX`].
const TOO_LONG: &str = "the message is longer than 16 MiB";

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(default, borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(default, borrow)]
    params: Option<&'a RawValue>,
}

/// One client's streams.
pub(super) struct Wire<R, W> {
    lines: Lines<BufReader<R>>,
    writer: Arc<Mutex<W>>,
    lane: Lane,
    /// Answers of the lane, and those of them that are being written.
    ready: Batch,
    writing: Option<BoxFuture<'static, io::Result<()>>>,
    room: Room,
    in_flight: InFlight,
    requests: TaskTracker,
    stop: CancellationToken,
}

/// Requests that were taken in and whose answers aren't written yet.
type InFlight = Arc<std::sync::Mutex<HashMap<RequestId, TaskTrackerToken>>>;

fn forget(in_flight: &InFlight, id: &RequestId) {
    in_flight.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
}

impl<R: AsyncRead + Unpin, W> Wire<R, W> {
    /// Each request holds a token of `requests` until its answer is written. Once `stop` is cancelled, nothing more is
    /// read; the end of the stream cancels it.
    pub(super) fn new(reader: R, writer: W, lane: Lane, requests: TaskTracker, stop: CancellationToken) -> Self {
        Self {
            lines: Lines::new(BufReader::with_capacity(64 * 1024, reader), MESSAGE_MAX),
            writer: Arc::new(Mutex::new(writer)),
            lane,
            ready: Batch::default(),
            writing: None,
            room: Room::default(),
            in_flight: InFlight::default(),
            requests,
            stop,
        }
    }
}

impl<R, W> Wire<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    /// A call that the client takes back is answered by nobody.
    fn note(&mut self, message: &RxJsonRpcMessage<RoleServer>) {
        match message {
            // A subscription lasts as long as the client.
            JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::CustomRequest(_)) => {
                let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
                in_flight.insert(request.id.clone(), self.requests.token());
            }
            JsonRpcMessage::Notification(notification) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    forget(&self.in_flight, id);
                    self.lane.cancel(id);
                }
            }
            _ => {}
        }
    }

    /// Tells whoever waits for the answer to a message that was thrown away; `None` when that can't be told and the
    /// connection has to end.
    async fn too_long(&mut self, id: Option<RequestId>, has_method: bool) -> Option<()> {
        match (id, has_method) {
            (Some(id), true) => {
                let id = serde_json::to_value(id).unwrap_or_default();
                self.refuse(id, -32600, TOO_LONG).await;
            }
            // Nobody waits for an answer to a notification, or to an answer.
            (None, true) | (Some(_), false) => tracing::warn!("a message of the client was skipped: {TOO_LONG}"),
            (None, false) => {
                tracing::error!("the client's connection is closed: {TOO_LONG}, and it has no id to answer to");
                let text = format!("{TOO_LONG} and has no id to answer to, so the connection is closed");
                self.refuse(Value::Null, -32600, &text).await;
                return None;
            }
        }
        Some(())
    }

    async fn refuse(&mut self, id: Value, code: i32, message: &str) {
        let answer = serde_json::json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
        // A client that is gone is noticed by the next read.
        let _gone = write(&self.writer, answer.to_string().into_bytes()).await;
    }
}

async fn write<W: AsyncWrite + Unpin>(writer: &Mutex<W>, mut line: Vec<u8>) -> io::Result<()> {
    line.push(b'\n');
    let mut writer = writer.lock().await;
    writer.write_all(&line).await?;
    writer.flush().await
}

impl<R, W> Transport<RoleServer> for Wire<R, W>
where
    R: AsyncRead + Unpin + Send,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (writer, in_flight, room) = (self.writer.clone(), self.in_flight.clone(), self.room.clone());
        async move {
            let answered = match &message {
                JsonRpcMessage::Response(response) => Some(&response.id),
                JsonRpcMessage::Error(error) => error.id.as_ref(),
                _ => None,
            };
            let written = match to_client(&message) {
                Ok(line) => {
                    let _waiting = room.wait(line.len());
                    write(&writer, line).await
                }
                Err(error) => Err(error),
            };
            if let Some(id) = answered {
                forget(&in_flight, id);
                room.tell();
            }
            written
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            if self.writing.is_none() && !self.ready.is_empty() {
                let batch = std::mem::take(&mut self.ready);
                let waiting = self.room.wait(batch.bytes());
                let delivery = deliver(self.writer.clone(), batch);
                self.writing = Some(delivery.inspect(|_| drop(waiting)).boxed());
            }
            let in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner).len();
            let is_full = in_flight >= IN_FLIGHT_MAX || self.room.is_full(self.ready.bytes());
            let stop = self.stop.clone();
            let line = tokio::select! {
                biased;
                written = written(&mut self.writing) => {
                    self.writing = None;
                    if let Err(error) = written {
                        tracing::debug!("the client takes no answers any more: {error}");
                    }
                    continue;
                }
                () = self.lane.answers(&mut self.ready) => continue,
                line = self.lines.next(), if !stop.is_cancelled() && !is_full => line,
                () = self.room.less(), if is_full => continue,
                () = stop.cancelled(), if !stop.is_cancelled() => continue,
            };
            let line = match line {
                Some(Line::Whole(line)) => line,
                Some(Line::TooLong { id, has_method, .. }) => {
                    self.too_long(id, has_method).await?;
                    continue;
                }
                None => {
                    // The client asks for nothing more; what it has asked for has its time as at any other end.
                    stop.cancel();
                    continue;
                }
            };
            if line.trim_ascii().is_empty() {
                continue;
            }
            match from_client(&line, |id, method, params| self.lane.take(id, method, params)) {
                Ok(None) => {}
                Ok(Some(message)) => {
                    self.note(&message);
                    return Some(message);
                }
                Err(Refused::Answer { id, code, message }) => self.refuse(id, code, &message).await,
                Err(Refused::Silently(why)) => tracing::debug!("skipped a notification of the client: {why}"),
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.writer.lock().await.shutdown().await
    }
}

/// A line that is no message we take.
#[derive(Debug, PartialEq)]
enum Refused {
    /// Whoever sent it is told.
    Answer { id: Value, code: i32, message: String },
    /// A notification, and those are never answered.
    Silently(String),
}

/// The message of a line; nothing for a request that `take` took in.
fn from_client(
    line: &[u8],
    take: impl FnOnce(&RequestId, &str, &str) -> Taken,
) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Refused> {
    let refuse = |id: Option<&RequestId>, code, message: String| {
        let id = id.and_then(|id| serde_json::to_value(id).ok()).unwrap_or(Value::Null);
        Err(Refused::Answer { id, code, message })
    };
    // An array would be read as the fields of a message in their order.
    if !line.trim_ascii().starts_with(b"{") && serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok() {
        return refuse(None, -32600, "not a JSON-RPC message: an object was expected".to_owned());
    }
    let envelope: Envelope<'_> = match serde_json::from_slice(line) {
        Ok(envelope) => envelope,
        Err(error) if error.is_data() => return refuse(None, -32600, format!("not a JSON-RPC message: {error}")),
        Err(error) => return refuse(None, -32700, format!("not JSON: {error}")),
    };
    let passed = envelope.method.as_deref().filter(|method| envelope.id.is_some() && METHODS.contains(method));
    let Some(method) = passed else {
        return serde_json::from_slice(line).map(Some).or_else(|error| {
            match (&envelope.id, envelope.method.as_deref()) {
                (None, Some(method)) => Err(Refused::Silently(format!("{method} can't be read: {error}"))),
                (id, Some(method)) => refuse(id.as_ref(), -32602, format!("{method} can't be read: {error}")),
                (id, None) => refuse(id.as_ref(), -32600, format!("not a JSON-RPC message: {error}")),
            }
        });
    };
    let params = envelope.params.map_or("{}", RawValue::get);
    if let Some(id) = &envelope.id {
        match take(id, method, params) {
            Taken::Here => return Ok(None),
            Taken::InUse => return refuse(Some(id), -32600, format!("the id {id} is that of a request in flight")),
            Taken::No => {}
        }
    }
    let body = format!(r#"{{"method":"{PASSED}{method}","params":{params}}}"#);
    match (serde_json::from_str(&body), envelope.id) {
        (Ok(request), Some(id)) => Ok(Some(JsonRpcMessage::request(ClientRequest::CustomRequest(request), id))),
        (Err(error), id) => refuse(id.as_ref(), -32602, format!("{method} can't be read: {error}")),
        (Ok(_), None) => refuse(None, -32600, "a request needs an id".to_owned()),
    }
}

/// Text goes out as it is; it stands on one line.
fn to_client(message: &TxJsonRpcMessage<RoleServer>) -> io::Result<Vec<u8>> {
    if let JsonRpcMessage::Response(response) = message
        && let ServerResult::CustomResult(CustomResult(Value::String(text))) = &response.result
    {
        let mut line = head(&response.id);
        line.reserve(text.len() + 1);
        line.push_str(text);
        line.push('}');
        return Ok(line.into_bytes());
    }
    Ok(serde_json::to_vec(message)?)
}

/// A line with an answer, as far as its result.
pub(super) fn head(id: &RequestId) -> String {
    // An id that was read is a number or a text, and those can be written.
    let id = serde_json::to_string(id).unwrap_or_default();
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#)
}

/// A result on one line.
pub(super) fn one_line(result: Text) -> String {
    let is_broken = memchr::memchr2(b'\n', b'\r', result.get().as_bytes()).is_some();
    if is_broken { json::compact(result.get()) } else { result.into_string() }
}

/// Waits for answers that are being written; for ever while none are.
async fn written(writing: &mut Option<BoxFuture<'static, io::Result<()>>>) -> io::Result<()> {
    match writing {
        Some(writing) => writing.await,
        None => std::future::pending().await,
    }
}

/// Writes answers, which are in flight as long as that takes.
async fn deliver<W: AsyncWrite + Unpin>(writer: Arc<Mutex<W>>, batch: Batch) -> io::Result<()> {
    let mut writer = writer.lock().await;
    for chunk in &batch.chunks {
        writer.write_all(chunk).await?;
    }
    writer.flush().await
}

#[cfg(test)]
mod tests;
