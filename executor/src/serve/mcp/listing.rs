//! Telling a client that its list is no longer what it was, and only then.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mcplan_compiler::json;
use rmcp::RoleServer;
use rmcp::model::ServerNotification;
use rmcp::service::Peer;

use tokio::sync::watch;

use super::handler::Handler;
use crate::runtime::view::View;

/// What is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl Kind {
    /// Those of which one notice tells.
    const TOLD: [&[Self]; 3] = [&[Self::Tools], &[Self::Prompts], &[Self::Resources, Self::Templates]];

    /// What tells that such a list is another one.
    pub(super) fn notice(self) -> ServerNotification {
        match self {
            Self::Tools => ServerNotification::ToolListChangedNotification(Default::default()),
            Self::Prompts => ServerNotification::PromptListChangedNotification(Default::default()),
            Self::Resources | Self::Templates => {
                ServerNotification::ResourceListChangedNotification(Default::default())
            }
        }
    }
}

/// Digests of the lists that a client knows; of a kind that it never listed there is none.
#[derive(Debug, Default)]
pub(super) struct Known([Option<String>; 4]);

impl Known {
    pub(super) fn set(&mut self, kind: Kind, digest: String) {
        self.0[kind as usize] = Some(digest);
    }
}

/// Tells a client with a session whenever a list that it knows becomes another one; others subscribe.
pub(super) async fn announce(handler: Handler, peer: Peer<RoleServer>) {
    let mut watch = ListWatch::known(&handler);
    while let Some(kind) = watch.changed().await {
        // Revisions without initialize hear of changes only through a subscription of theirs.
        if handler.is_stateless(&peer) {
            continue;
        }
        if peer.send_notification(kind.notice()).await.is_err() {
            return;
        }
    }
}

/// Wakes when a visible list of a session became another one.
pub(super) struct ListWatch {
    handler: Handler,
    views: watch::Receiver<Arc<View>>,
    promotions: watch::Receiver<u64>,
    known: Arc<Mutex<Known>>,
    /// Kinds that may have changed.
    unseen: Vec<&'static [Kind]>,
}

impl ListWatch {
    /// What tells a client with a session that a list is no longer the one it knows.
    fn known(handler: &Handler) -> Self {
        Self::new(handler, handler.known.clone())
    }

    /// What tells whether a visible list of one of these kinds became another one than it is now.
    pub(super) fn from_now(handler: &Handler, kinds: impl Iterator<Item = Kind>) -> Self {
        let mut known = Known::default();
        kinds.for_each(|kind| known.set(kind, handler.visible(kind)));
        Self::new(handler, Arc::new(Mutex::new(known)))
    }

    fn new(handler: &Handler, known: Arc<Mutex<Known>>) -> Self {
        let (views, promotions) = (handler.executor.views(), handler.promotions.subscribe());
        Self { handler: handler.clone(), views, promotions, known, unseen: Vec::new() }
    }

    /// Waits for a list that is another one than the known, which it is from then on; `None` when there will be none any
    /// more. As long as none is known, none is another one.
    pub(super) async fn changed(&mut self) -> Option<Kind> {
        loop {
            while let Some(kinds) = self.unseen.pop() {
                let mut changed = None;
                for kind in kinds {
                    if let Some(known) = &mut locked(&self.known).0[*kind as usize] {
                        let now = self.handler.visible(*kind);
                        if *known != now {
                            *known = now;
                            changed = Some(*kind);
                        }
                    }
                }
                if changed.is_some() {
                    return changed;
                }
            }
            tokio::select! {
                woken = self.views.changed() => woken,
                woken = self.promotions.changed() => woken,
            }
            .ok()?;
            self.unseen = Kind::TOLD.into_iter().rev().collect();
        }
    }
}

pub(super) fn digest(listed: &[Arc<str>]) -> String {
    json::digest_of(listed.iter().map(|item| item.as_bytes()))
}

/// What these locks guard is whole after every statement, so a panic elsewhere doesn't spoil it.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
