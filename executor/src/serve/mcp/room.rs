//! Answers that wait for a client that doesn't read. Beyond a bound nothing is read of it either, so that it can't ask for
//! more than it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

use crate::runtime::transport::MESSAGE_MAX;

/// Bytes that may wait.
pub(super) const WAITING_MAX: usize = 4 * MESSAGE_MAX;

/// How much waits. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Room(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: AtomicUsize,
    /// Told by each that has gone.
    less: Notify,
}

/// An answer that waits until this is dropped.
#[derive(Debug)]
pub(super) struct Waiting(Arc<Shared>, usize);

impl Room {
    pub(super) fn wait(&self, bytes: usize) -> Waiting {
        self.0.waiting.fetch_add(bytes, Ordering::Relaxed);
        Waiting(self.0.clone(), bytes)
    }

    /// Whether there is none, when so many bytes wait elsewhere.
    pub(super) fn is_full(&self, elsewhere: usize) -> bool {
        self.0.waiting.load(Ordering::Relaxed) + elsewhere > WAITING_MAX
    }

    /// An answer has gone.
    pub(super) fn tell(&self) {
        self.0.less.notify_one();
    }

    /// Waits until an answer has gone.
    pub(super) async fn less(&self) {
        self.0.less.notified().await;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(self.1, Ordering::Relaxed);
        self.0.less.notify_one();
    }
}
