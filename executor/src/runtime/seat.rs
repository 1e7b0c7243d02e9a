//! A server's place in the running plan: the instance that serves, and the one that will take over.

use std::sync::Arc;
use std::time::Duration;

use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::{Observed, Quarantined};
use mcplan_compiler::plan::Plan;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::connection::Connection;
use super::flights::Flights;
use super::process::Tail;
use super::program::Program;
use super::server::session::Asked;
use super::server::{Bell, Report, Until};
use super::view::Link;
use crate::core::catalog::Listing;
use crate::core::lifecycle::{Epoch, State};
use crate::core::snapshot::Health;
use crate::event::Event;

/// The longest that a replaced connection is kept for its calls when calls have no limit of their own, or a longer one.
const DRAIN_MAX: Duration = Duration::from_secs(24 * 3600);
/// What it is when calls have no limit.
const DRAIN_UNLIMITED: Duration = Duration::from_secs(3600);

/// How an instance's task is told things.
#[derive(Debug)]
pub(super) struct Wires {
    pub(super) bell: Arc<Bell>,
    /// Where calls get sessions of their own, when none is kept.
    pub(super) sessions: Option<mpsc::Sender<Asked>>,
    /// By when it must have ended, once it is to end.
    pub(super) stop: watch::Sender<Option<Until>>,
    pub(super) flights: Flights,
}

/// One running instance of a server.
#[derive(Debug)]
pub(super) struct Instance {
    id: u64,
    pub(super) server: ServerName,
    wires: Wires,
    state: State,
    since: Instant,
    epoch: Epoch,
    attempts: u32,
    wakes: bool,
    unstable: bool,
    connection: Option<Connection>,
    observed: Option<Arc<Observed>>,
    seen: u64,
    /// It came as far as it does by itself: it can take another one's place.
    arrived: bool,
    /// The end of what its processes wrote to stderr.
    tail: Tail,
    /// It was ready or failed once.
    tried: bool,
    /// Cancelled when nothing of it is left.
    pub(super) ended: CancellationToken,
}

impl Instance {
    pub(super) fn new(
        id: u64,
        server: ServerName,
        state: State,
        wires: Wires,
        ended: CancellationToken,
        tail: Tail,
    ) -> Self {
        Self {
            id,
            server,
            wires,
            state,
            since: Instant::now(),
            epoch: Epoch::default(),
            attempts: 0,
            wakes: false,
            unstable: false,
            connection: None,
            observed: None,
            seen: 0,
            arrived: false,
            tail,
            tried: false,
            ended,
        }
    }

    /// Tells it to end; a second time only shortens the time.
    pub(super) fn retire(&self, until: Until) {
        self.wires.stop.send_modify(|stop| {
            let before = stop.unwrap_or(until);
            *stop = Some(Until { calls: before.calls.min(until.calls), end: before.end.min(until.end) });
        });
    }

    /// Which attempt it has come to.
    pub(super) fn attempt(&self) -> (u64, Epoch) {
        (self.id, self.epoch)
    }

    /// Takes what it reports; whether its list is another one.
    fn take(&mut self, report: Report) -> bool {
        let same = self.seen == report.seen;
        // A state that it was only created with, or that it passes through, is no outcome.
        self.arrived |= report.state.has_arrived();
        self.tried |= report.state.was_tried();
        if self.state != report.state {
            self.since = Instant::now();
        }
        self.state = report.state;
        self.epoch = report.epoch;
        self.attempts = report.attempts;
        self.wakes = report.wakes;
        self.unstable = report.unstable;
        self.connection = report.connection;
        self.observed = report.observed;
        self.seen = report.seen;
        !same
    }
}

/// What a report changed.
pub(super) struct News {
    /// The instance that has left its place.
    pub(super) replaced: Option<Instance>,
    /// What is listed may be something else.
    pub(super) listing: bool,
}

/// A server of the plan.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) current: Instance,
    pub(super) next: Option<Instance>,
    /// What the server listed last, kept while it is down so that the list stays the same.
    listing: Option<Listing>,
    /// What the instance that serves said, and the same with places named as the lock does.
    as_locked: Option<(Arc<Observed>, Observed)>,
    /// What has been told of how the server's words differ from the lock's.
    told: Vec<Event>,
}

impl Seat {
    pub(super) fn new(current: Instance) -> Self {
        Self { current, next: None, listing: None, as_locked: None, told: Vec::new() }
    }

    /// Takes a report; `None` when it comes from an instance that was replaced and has nothing to say any more.
    pub(super) fn take(&mut self, report: Report) -> Option<News> {
        if self.current.id == report.instance {
            return Some(News { listing: self.current.take(report), replaced: None });
        }
        let next = self.next.as_mut().filter(|next| next.id == report.instance)?;
        next.take(report);
        // Ready or lazy: it takes over. Failed: the file is the truth, so the old one ends all the same.
        let next = if next.arrived { self.next.take() } else { None };
        let replaced = next.map(|next| std::mem::replace(&mut self.current, next));
        Some(News { listing: replaced.is_some(), replaced })
    }

    /// Decides what is listed: what the server said, as far as the lock trusts it, else what is locked of it, else what
    /// was listed before. Gives what a person should hear of it, each thing once.
    pub(super) fn refresh(&mut self, program: &Program) -> Vec<Event> {
        let name = self.current.server.clone();
        let before = self.listing.as_ref();
        let locked = || program.baseline.as_ref()?.server(&program.plan, &name).map(Listing::from);
        let (listing, told) = match (self.current.observed.clone(), program.plan.server(name.as_str())) {
            (Some(said), Some(server)) => {
                let is_known = self.as_locked.as_ref().is_some_and(|(of, _)| Arc::ptr_eq(of, &said));
                if !is_known {
                    self.as_locked = Some((said.clone(), program.as_locked(&said)));
                }
                let as_locked = self.as_locked.as_ref().map_or(&*said, |(_, as_locked)| as_locked);
                let heard = program.hear(server, &said, as_locked, before);
                let listing = match said.tools_unknown {
                    // Of the other kinds all the same it counts what it says.
                    Some(_) => heard.listing.with_tools_of(locked().or_else(|| before.cloned()).unwrap_or_default()),
                    None => heard.listing,
                };
                (Some(listing), heard.told)
            }
            (None, Some(_)) => (locked(), self.told.clone()),
            _ => (None, self.told.clone()),
        };
        self.listing = listing.or_else(|| self.listing.take());
        let news = told.iter().filter(|event| !self.told.contains(event)).cloned().collect();
        self.told = told;
        news
    }

    /// A person wants a new connection: of the instance that is to serve, if another one serves still. Gives the attempt
    /// that it had come to before.
    pub(super) fn reconnect(&self) -> (u64, Epoch) {
        let instance = self.next.as_ref().unwrap_or(&self.current);
        instance.wires.bell.reconnect();
        instance.attempt()
    }

    /// What it lists; nothing while a condition of its own isn't met.
    pub(super) fn listing(&self) -> Option<&Listing> {
        self.listing.as_ref().filter(|_| !matches!(self.current.state, State::Unmet { .. }))
    }

    /// Whether its tools are known, it was tried once, or it won't be.
    pub(super) fn is_settled(&self) -> bool {
        let current = &self.current;
        current.tried || self.listing.is_some() || matches!(current.state, State::Parked | State::Unmet { .. })
    }

    pub(super) fn health(&self) -> Health {
        let current = &self.current;
        let observed = current.observed.as_ref();
        let (mut refused, mut drift) = (None, Vec::new());
        let mut quarantined = observed.map(|observed| observed.quarantined.clone()).unwrap_or_default();
        for event in &self.told {
            match event {
                Event::ServerRefused { reason, .. } => refused = Some(reason.clone()),
                Event::ServerDrifted { change, .. } => drift.push(change.clone()),
                Event::ToolQuarantined { tool, reason, .. } => {
                    quarantined.push(Quarantined { name: tool.clone(), reason: reason.clone() });
                }
                _ => {}
            }
        }
        Health {
            state: current.state.clone(),
            since: current.since.into_std(),
            attempts: current.attempts,
            unstable: current.unstable,
            replacing: self.next.is_some(),
            settled: self.is_settled(),
            tried: current.tried,
            quarantined,
            refused,
            drift,
            warnings: observed.map(|observed| observed.warnings.clone()).unwrap_or_default(),
        }
    }

    pub(super) fn link(&self) -> Link {
        let current = &self.current;
        Link {
            instance: current.id,
            connection: current.connection.clone(),
            flights: current.wires.flights.clone(),
            bell: current.wires.bell.clone(),
            sessions: current.wires.sessions.clone(),
            epoch: current.epoch,
            wakes: current.wakes,
            seen: current.seen,
            tail: current.tail.clone(),
        }
    }
}

/// How long calls in flight may go on when their connection is replaced: as long as a call may take.
pub(super) fn drain_limit(plan: &Plan, name: &ServerName) -> Duration {
    let seconds = plan.server(name.as_str()).map_or(0.0, |server| server.limits.call_timeout_seconds);
    if seconds > 0.0 {
        Duration::try_from_secs_f64(seconds).unwrap_or(DRAIN_MAX).min(DRAIN_MAX)
    } else {
        DRAIN_UNLIMITED
    }
}
