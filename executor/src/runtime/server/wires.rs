//! What goes between a server's task and the rest: how it is told things, and what it tells.

use std::sync::Arc;
use std::time::Duration;

use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::Server;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::session;
use crate::core::lifecycle::{Epoch, Event, State};
use crate::runtime::connection::{Connection, Context, Terms};
use crate::runtime::flights::Flights;
use crate::runtime::process::Tail;
use crate::runtime::slots::Slots;

/// What a server's task is told. What is told twice before it listens is told once, and nothing is lost.
#[derive(Debug, Default)]
pub(in crate::runtime) struct Bell {
    wanted: Notify,
    reconnect: Notify,
}

impl Bell {
    /// A call wants the server, or a list that nobody knows without it.
    pub(in crate::runtime) fn want(&self) {
        self.wanted.notify_one();
    }

    /// A person wants a new connection.
    pub(in crate::runtime) fn reconnect(&self) {
        self.reconnect.notify_one();
    }

    pub(super) async fn rung(&self) -> Event {
        tokio::select! {
            biased;
            () = self.reconnect.notified() => Event::Reconnect,
            () = self.wanted.notified() => Event::Wanted,
        }
    }
}

/// By when a server that is to end has to have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::runtime) struct Until {
    /// Its calls in flight.
    pub(in crate::runtime) calls: Instant,
    /// All of it.
    pub(in crate::runtime) end: Instant,
}

impl Until {
    /// With as long for calls, and the whole ladder after them.
    pub(in crate::runtime) fn after(calls: Duration) -> Self {
        let calls = Instant::now() + calls;
        Self { calls, end: calls + LADDER }
    }

    /// What `stop` says; where nobody has to stop, what a connection may take to be closed.
    pub(super) fn of(stop: &watch::Receiver<Option<Self>>) -> Self {
        stop.borrow().unwrap_or_else(|| Self::after(Duration::ZERO))
    }
}

/// What a server's task tells the supervisor.
#[derive(Debug)]
pub(in crate::runtime) struct Report {
    pub(in crate::runtime) server: ServerName,
    pub(in crate::runtime) instance: u64,
    pub(in crate::runtime) state: State,
    pub(in crate::runtime) epoch: Epoch,
    pub(in crate::runtime) attempts: u32,
    /// Whether a call connects it.
    pub(in crate::runtime) wakes: bool,
    /// Whether its lists change too often to follow.
    pub(in crate::runtime) unstable: bool,
    pub(in crate::runtime) connection: Option<Connection>,
    pub(in crate::runtime) observed: Option<Arc<Observed>>,
    /// Which observation that is, from 1.
    pub(in crate::runtime) seen: u64,
}

/// What a task needs to begin.
pub(in crate::runtime) struct Begin {
    pub(in crate::runtime) instance: u64,
    pub(in crate::runtime) server: Arc<Server>,
    pub(in crate::runtime) enabled: bool,
    /// The first variable of `when.env` that isn't set.
    pub(in crate::runtime) unmet: Option<String>,
    pub(in crate::runtime) context: Arc<Context>,
    pub(in crate::runtime) terms: Terms,
    pub(in crate::runtime) slots: Slots,
    /// Where lines of stderr are kept.
    pub(in crate::runtime) tail: Tail,
    /// Cancelled when the processes before this one are gone (`replace: stop_first`).
    pub(in crate::runtime) after: Vec<CancellationToken>,
}

/// How others reach the task.
pub(in crate::runtime) struct Ears {
    pub(in crate::runtime) bell: Arc<Bell>,
    pub(in crate::runtime) flights: Flights,
    pub(in crate::runtime) sessions: mpsc::Receiver<session::Asked>,
    pub(in crate::runtime) stop: watch::Receiver<Option<Until>>,
}

/// What the shutdown ladder takes at its longest, with some room.
pub(in crate::runtime) const LADDER: Duration = Duration::from_secs(2);
