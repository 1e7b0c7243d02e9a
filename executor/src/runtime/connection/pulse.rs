//! Whether a remote server is still there, when nothing else would tell: a connection to one that is gone stays open for
//! hours, and a server that was restarted doesn't say so.
//!
//! A server that is silent while nothing is asked of it gets a ping. A call in flight has limits of its own, and one that
//! works on a call may have no time for pings. The operating system probes connections besides, so that a machine that is
//! gone ends calls too.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{ClientRequest, DiscoverRequest, DiscoverRequestParams, PingRequest};

use super::Inner;
use crate::core::era::Era;
use crate::runtime::transport::tap::Notices;

/// How long a server may be silent before it is asked.
const SILENCE: Duration = Duration::from_secs(30);

/// Counts a request as long as it lasts.
pub(super) struct InFlight<'a>(&'a AtomicUsize);

impl<'a> InFlight<'a> {
    pub(super) fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Inner {
    /// Ends when the server answers no longer, with the reason.
    pub(super) async fn pulse(&self, notices: &Notices) -> String {
        // In the new era there is nothing between two requests over HTTP that could be lost.
        if self.mirror.is_some() {
            std::future::pending::<()>().await;
        }
        let seconds = self.limits.request_timeout_seconds;
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        loop {
            tokio::time::sleep(SILENCE).await;
            let is_busy = || self.in_flight.load(Ordering::Relaxed) > 0;
            if notices.was_heard() || is_busy() {
                continue;
            }
            // Any answer is one, also an error.
            let asked = tokio::time::timeout(limit, self.peer.send_request(self.question())).await;
            if asked.is_err() && !notices.was_heard() && !is_busy() {
                return format!("the server no longer answers: it was silent for {seconds} s after a ping");
            }
        }
    }

    /// What every server answers at once. The new era has no ping.
    pub(super) fn question(&self) -> ClientRequest {
        match self.era {
            Era::Session => ClientRequest::PingRequest(PingRequest::default()),
            Era::Stateless => ClientRequest::DiscoverRequest(DiscoverRequest::new(DiscoverRequestParams {})),
        }
    }
}
