//! Stands between a transport and rmcp, and takes what rmcp would hand to tasks of their own in any order: progress
//! of calls, changed lists, and the end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use rmcp::RoleClient;
use rmcp::model::{
    GetExtensions as _, GetMeta as _, JsonRpcMessage, NumberOrString, ProgressNotificationParam, ServerNotification,
};
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::raw::Incoming;

/// How far a call has come, in the server's own terms.
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Done so far; grows.
    pub progress: f64,
    /// All there is to do, if known.
    pub total: Option<f64>,
    /// For people.
    pub message: Option<String>,
}

/// Something in a stream that is no message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Odd {
    /// Text that isn't JSON-RPC; its start.
    Noise(String),
    /// A line over the limit.
    TooLong { bytes: u64, start: String },
}

/// A kind of list that a server has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Tools.
    Tools,
    /// Prompts.
    Prompts,
    /// Resources and resource templates.
    Resources,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tools, Self::Prompts, Self::Resources];

    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// What a transport has noticed, waiting for the connection's task. A second notice of a kind adds nothing.
#[derive(Debug, Default)]
pub(crate) struct Notices {
    changed: AtomicU8,
    wake: Notify,
    heard: AtomicBool,
}

impl Notices {
    pub(crate) fn change(&self, kind: Kind) {
        self.changed.fetch_or(kind.bit(), Ordering::Relaxed);
        self.wake.notify_one();
    }

    /// Whether the server has said anything since this was asked before.
    pub(crate) fn was_heard(&self) -> bool {
        self.heard.swap(false, Ordering::Relaxed)
    }

    /// Waits for changed lists.
    pub(crate) async fn changes(&self) -> Vec<Kind> {
        loop {
            let changed = self.changed.swap(0, Ordering::Relaxed);
            if changed != 0 {
                return Kind::ALL.into_iter().filter(|kind| changed & kind.bit() != 0).collect();
            }
            self.wake.notified().await;
        }
    }
}

/// Rides in a request's extensions: where its progress goes.
#[derive(Clone, Debug)]
pub(crate) struct Watcher(pub(crate) mpsc::Sender<Progress>);

/// A transport with a tap.
pub(crate) struct Tap<T> {
    inner: T,
    watchers: HashMap<NumberOrString, Watcher>,
    prune_at: usize,
    notices: Arc<Notices>,
    closed: CancellationToken,
}

/// Watchers that are kept before the first look for ended ones.
const PRUNE_MIN: usize = 32;

impl<T> Tap<T> {
    /// `closed` is cancelled when the stream ends.
    pub(crate) fn new(inner: T, notices: Arc<Notices>, closed: CancellationToken) -> Self {
        Self { inner, watchers: HashMap::new(), prune_at: PRUNE_MIN, notices, closed }
    }

    fn watch(&mut self, message: &TxJsonRpcMessage<RoleClient>) {
        let JsonRpcMessage::Request(request) = message else { return };
        let Some(watcher) = request.request.extensions().get::<Watcher>() else { return };
        let Some(token) = request.request.get_meta().get_progress_token() else { return };
        // A call that has ended drops its receiver; nothing else has to be told here.
        if self.watchers.len() >= self.prune_at {
            self.watchers.retain(|_, watcher| !watcher.0.is_closed());
            self.prune_at = PRUNE_MIN.max(self.watchers.len() * 2);
        }
        self.watchers.insert(token.0, watcher.clone());
    }

    fn progress(&self, params: &ProgressNotificationParam) {
        let token = &params.progress_token.0;
        let watcher = self.watchers.get(token).or_else(|| match token {
            // Some servers answer a number as text.
            NumberOrString::String(text) => self.watchers.get(&NumberOrString::Number(text.parse().ok()?)),
            NumberOrString::Number(_) => None,
        });
        if let Some(watcher) = watcher {
            let (progress, total, message) = (params.progress, params.total, params.message.clone());
            // Full means that the call is behind; a later one says more.
            let _ = watcher.0.try_send(Progress { progress, total, message });
        }
    }

    /// Takes a message that is for us; gives back what is for rmcp.
    fn sift(&mut self, message: Incoming) -> Option<Incoming> {
        let JsonRpcMessage::Notification(notification) = &message else { return Some(message) };
        match &notification.notification {
            ServerNotification::ProgressNotification(progress) => self.progress(&progress.params),
            ServerNotification::ToolListChangedNotification(_) => self.notices.change(Kind::Tools),
            ServerNotification::PromptListChangedNotification(_) => self.notices.change(Kind::Prompts),
            ServerNotification::ResourceListChangedNotification(_) => self.notices.change(Kind::Resources),
            _ => return Some(message),
        }
        None
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.watch(&message);
        self.inner.send(message)
    }

    async fn receive(&mut self) -> Option<Incoming> {
        loop {
            let Some(message) = self.inner.receive().await else {
                self.closed.cancel();
                return None;
            };
            self.notices.heard.store(true, Ordering::Relaxed);
            if let Some(message) = self.sift(message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.closed.cancel();
        self.inner.close().await
    }
}

impl<T> Drop for Tap<T> {
    fn drop(&mut self) {
        self.closed.cancel();
    }
}
