//! What becomes of servers that were told to connect: waits until each is ready, or it is known why not.

use std::sync::Arc;
use std::time::Duration;

use mcplan_compiler::name::ServerName;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::executor::Executor;
use super::supervisor::{Message, Reloaded};
use super::view::View;
use crate::core::lifecycle::{Epoch, State};
use crate::core::reconcile::Step;

/// The longest that an outcome is waited for. Attempts end by `timeout_seconds`; waiting for a turn, or for calls of the
/// instance before, can take longer.
const PATIENCE: Duration = Duration::from_secs(600);

impl Executor {
    /// Connects a server anew, whatever state it is in, and waits for the outcome; gives the view that has it. A server
    /// that is tried again by itself after a failure has failed once, and that is the outcome.
    ///
    /// `None` when there is no server of that name. One that is disabled, or whose `when` isn't met, stays as it is.
    pub async fn reconnect(&self, name: &ServerName) -> Option<Arc<View>> {
        let (reply, answer) = oneshot::channel();
        self.messages.send(Message::Reconnect(name.clone(), reply)).await.ok()?;
        let before = answer.await.ok()?;
        let view = self.outcome(|view| is_known(view, name, Some(before))).await;
        view.snapshot.health.contains_key(name).then_some(view)
    }

    /// Waits for the servers that a reload has touched.
    pub async fn reloaded(&self, reloaded: &Reloaded) -> Arc<View> {
        let touched: Vec<_> = reloaded.steps.iter().filter_map(Step::connects).collect();
        self.outcome(|view| touched.iter().all(|name| is_known(view, name, None))).await
    }

    async fn outcome(&self, is_known: impl Fn(&View) -> bool) -> Arc<View> {
        let mut views = self.views();
        let until = Instant::now() + PATIENCE;
        // Late, or without a supervisor, it stays what it is.
        let _late = tokio::time::timeout_at(until, views.wait_for(|view| is_known(view))).await.is_err();
        self.view()
    }
}

/// Whether it is known what became of a server, since the attempt that it had come to before it was told.
fn is_known(view: &View, name: &ServerName, before: Option<(u64, Epoch)>) -> bool {
    let (Some(health), Some(link)) = (view.snapshot.health.get(name), view.links.get(name)) else { return true };
    let is_kept_off = matches!(health.state, State::Parked | State::Unmet { .. } | State::Stopped);
    let is_later = before.is_none_or(|before| (link.instance, link.epoch) > before);
    (is_later || is_kept_off) && !health.replacing && health.state.has_arrived()
}
