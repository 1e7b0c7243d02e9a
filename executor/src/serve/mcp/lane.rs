//! Calls and lists that are answered where they are read: polled in the task that reads them, without a task, a queue or a decoded
//! result of their own. That is half of what a call costs us.
//!
//! Only for a client with a session, about which nothing has to be asked of rmcp again at each call.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt as _, StreamExt as _};
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, JsonRpcMessage, RequestId};
use rmcp::service::TxJsonRpcMessage;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::call::Asker;
use super::handler::Handler;
use super::request::Request;
use crate::core::results::Text;

/// An answer that is larger than this is written from where it is; smaller ones are gathered.
const GATHERED_MAX: usize = 32 * 1024;

/// The calls of one client that are in flight here.
pub(super) struct Lane {
    handler: Arc<Handler>,
    calls: FuturesUnordered<BoxFuture<'static, Ended>>,
    open: HashMap<RequestId, Open>,
    requests: TaskTracker,
}

/// A call that has come to its end.
struct Ended {
    id: RequestId,
    /// Cancelled if nobody wants the answer; its id may be that of another call by then.
    cancel: CancellationToken,
    answer: Result<Text, ErrorData>,
}

struct Open {
    cancel: CancellationToken,
    token: TaskTrackerToken,
}

/// Answers on their way out, and what holds them to be in flight until they are written.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) chunks: Vec<Vec<u8>>,
    tokens: Vec<TaskTrackerToken>,
}

/// What became of a request.
#[derive(Debug, PartialEq)]
pub(super) enum Taken {
    /// It is answered here.
    Here,
    /// It is none for here.
    No,
    /// Another one with its id is in flight.
    InUse,
}

impl Lane {
    /// Each call holds a token of `requests` until its answer is written.
    pub(super) fn new(handler: Handler, requests: TaskTracker) -> Self {
        Self { handler: Arc::new(handler), calls: FuturesUnordered::new(), open: HashMap::new(), requests }
    }

    /// Takes a request in whose result is text.
    pub(super) fn take(&mut self, id: &RequestId, method: &str, params: &str) -> Taken {
        // Whoever names a revision in the request itself is checked by rmcp.
        let Some(peer) = self.handler.client().filter(|_| !params.contains("io.modelcontextprotocol/")) else {
            return Taken::No;
        };
        if self.open.contains_key(id) {
            return Taken::InUse;
        }
        let cancel = CancellationToken::new();
        let asker = Asker { peer: peer.clone(), cancel: cancel.clone() };
        self.open.insert(id.clone(), Open { cancel: cancel.clone(), token: self.requests.token() });
        let (handler, id) = (self.handler.clone(), id.clone());
        let request = Request::read(method, &mut serde_json::Deserializer::from_str(params));
        let request = request.map_err(|error| format!("{method} can't be read: {error}"));
        let answered = async move {
            match request {
                Ok(Some(request)) => handler.answer(request, &asker).await,
                Ok(None) => Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "unknown method", None)),
                Err(wrong) => Err(ErrorData::invalid_params(wrong, None)),
            }
        };
        // A fault of ours costs one call and not the session.
        let guarded = AssertUnwindSafe(answered).catch_unwind().map(|answered| {
            answered.unwrap_or_else(|_| Err(ErrorData::internal_error("mcplan has a fault; its log tells more", None)))
        });
        self.calls.push(async move { Ended { id, cancel, answer: guarded.await } }.boxed());
        Taken::Here
    }

    /// The client takes a request back, so it is answered by nobody.
    pub(super) fn cancel(&mut self, id: &RequestId) {
        if let Some(open) = self.open.remove(id) {
            open.cancel.cancel();
        }
    }

    /// Waits for an answer, and takes all that are there then. Nothing is lost when the future is dropped.
    pub(super) async fn answers(&mut self, batch: &mut Batch) {
        // With none in flight the stream has ended, for now.
        let Some(ended) = self.calls.next().await else { return std::future::pending().await };
        self.put(batch, ended);
        while let Some(Some(ended)) = self.calls.next().now_or_never() {
            self.put(batch, ended);
        }
    }

    fn put(&mut self, batch: &mut Batch, Ended { id, cancel, answer }: Ended) {
        if cancel.is_cancelled() {
            return;
        }
        let Some(open) = self.open.remove(&id) else { return };
        batch.tokens.push(open.token);
        match answer {
            Ok(result) => batch.result(&id, super::wire::one_line(result)),
            Err(error) => batch.error(&id, error),
        }
    }
}

impl Batch {
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.chunks.iter().map(Vec::len).sum()
    }

    fn small(&mut self) -> &mut Vec<u8> {
        if self.chunks.last().is_none_or(|chunk| chunk.len() > GATHERED_MAX) {
            self.chunks.push(Vec::new());
        }
        self.chunks.last_mut().expect("one was pushed")
    }

    fn result(&mut self, id: &RequestId, result: String) {
        let head = super::wire::head(id);
        self.small().extend_from_slice(head.as_bytes());
        if result.len() > GATHERED_MAX {
            self.chunks.push(result.into_bytes());
        } else {
            self.small().extend_from_slice(result.as_bytes());
        }
        self.small().extend_from_slice(b"}\n");
    }

    fn error(&mut self, id: &RequestId, error: ErrorData) {
        let message: TxJsonRpcMessage<RoleServer> = JsonRpcMessage::error(error, Some(id.clone()));
        let line = serde_json::to_vec(&message).unwrap_or_default();
        self.small().extend_from_slice(&line);
        self.small().push(b'\n');
    }
}
