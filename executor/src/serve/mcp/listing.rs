//! Telling a client that its list is no longer what it was, and only then.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcplan_compiler::json;
use rmcp::RoleServer;
use rmcp::service::Peer;

use tokio::sync::watch;

use super::handler::Handler;
use crate::runtime::view::View;

/// Sends `tools/list_changed` whenever the visible list of this session becomes another one. For clients with a
/// session; others subscribe.
pub(super) async fn announce(handler: Handler, peer: Peer<RoleServer>) {
    let mut watch = ListWatch::known(&handler);
    while watch.changed().await {
        // Revisions without initialize hear of changes only through a subscription of theirs.
        if handler.is_stateless(&peer) {
            continue;
        }
        if peer.notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}

/// Wakes when the visible list of a session became another one.
pub(super) struct ListWatch {
    handler: Handler,
    views: watch::Receiver<Arc<View>>,
    promotions: watch::Receiver<u64>,
    known: Arc<Mutex<Option<String>>>,
}

impl ListWatch {
    /// What tells a client with a session that the list is no longer the one it knows.
    fn known(handler: &Handler) -> Self {
        Self::new(handler, handler.known.clone())
    }

    /// What tells whether the visible list became another one than it is now.
    pub(super) fn from_now(handler: &Handler) -> Self {
        Self::new(handler, Arc::new(Mutex::new(Some(handler.visible()))))
    }

    fn new(handler: &Handler, known: Arc<Mutex<Option<String>>>) -> Self {
        let (views, promotions) = (handler.executor.views(), handler.promotions.subscribe());
        Self { handler: handler.clone(), views, promotions, known }
    }

    /// Waits for a list that is another one than the known, which it is from then on; false when there will be none any
    /// more. As long as none is known, none is another one.
    pub(super) async fn changed(&mut self) -> bool {
        loop {
            let woken = tokio::select! {
                woken = self.views.changed() => woken,
                woken = self.promotions.changed() => woken,
            };
            if woken.is_err() {
                return false;
            }
            if let Some(known) = locked(&self.known).as_mut() {
                let now = self.handler.visible();
                if *known != now {
                    *known = now;
                    return true;
                }
            }
        }
    }
}

pub(super) fn digest(listed: &[Arc<str>]) -> String {
    json::digest_of(listed.iter().map(|tool| tool.as_bytes()))
}

/// What these locks guard is whole after every statement, so a panic elsewhere doesn't spoil it.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
