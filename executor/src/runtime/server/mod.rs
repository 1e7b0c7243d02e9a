//! One task per server: events in, [`Lifecycle`] decides, actions out. Nothing is decided here.

mod closing;
mod lists;
pub(super) mod session;
mod tell;
mod wires;

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::Arc;

use futures::future::FutureExt as _;
use mcplan_compiler::observed::Observed;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::connection::{self, Attempt, ConnectError, Connection, Kind, Terms};
use super::flights::Ends;
use super::slots::Connected;
use crate::core::era::Era;
use crate::core::lifecycle::{Action, Epoch, Event, Lifecycle, State};
use crate::event::Event as Happened;
use closing::{Closing, Connecting};
use lists::Lists;
use session::{Needs, Said, Sessions};
pub(super) use wires::{Begin, Bell, Ears, Report, Until};

pub(super) struct ServerTask {
    begin: Begin,
    life: Lifecycle,
    ears: Ears,
    ends: Ends,
    reports: mpsc::Sender<Report>,
    connecting: Option<Connecting>,
    timer: Option<(Epoch, Instant)>,
    connection: Option<(Epoch, Connection)>,
    events: Option<mpsc::Receiver<connection::Event>>,
    observed: Option<Arc<Observed>>,
    seen: u64,
    sessions: Sessions,
    lists: Lists,
}

/// What one round of waiting gave.
enum Round {
    Life(Event),
    Connected(Epoch, Box<Connected>),
    ConnectFailed(Epoch, ConnectError),
    Heard(connection::Event),
    /// Nothing will be heard of the connection any more.
    Mute,
    Asked(session::Asked),
    Said(Said),
    Lists(lists::Due),
    Stop,
}

impl ServerTask {
    pub(super) fn new(begin: Begin, ears: Ears, reports: mpsc::Sender<Report>) -> Self {
        Self {
            life: Lifecycle::new(&begin.server, begin.enabled),
            begin,
            ends: ears.flights.ends(),
            ears,
            reports,
            connecting: None,
            timer: None,
            connection: None,
            events: None,
            observed: None,
            seen: 0,
            sessions: Sessions::default(),
            lists: Lists::default(),
        }
    }

    /// Runs until it is told to stop, and returns when nothing of the server is left.
    pub(super) async fn run(mut self) {
        for before in std::mem::take(&mut self.begin.after) {
            tokio::select! {
                () = before.cancelled() => {}
                _ = self.ears.stop.wait_for(Option::is_some) => return self.ears.flights.close(),
            }
        }
        let unmet = self.begin.unmet.take();
        self.take(Event::Start { unmet }).await;
        self.report().await;
        loop {
            match self.round().await {
                Round::Life(event) => self.take(event).await,
                Round::Connected(epoch, connected) => self.connected(epoch, *connected).await,
                Round::ConnectFailed(epoch, error) => self.connect_failed(epoch, &error).await,
                Round::Heard(event) => self.heard(event).await,
                Round::Mute => {
                    self.events = None;
                    self.lost("the connection is gone".to_owned(), false).await;
                }
                Round::Asked(asked) => self.open_session(asked),
                Round::Said(said) => self.said(said).await,
                Round::Lists(due) => self.lists_due(due).await,
                Round::Stop => return self.end().await,
            }
        }
    }

    async fn round(&mut self) -> Round {
        let timer = self.timer;
        let connected = async {
            match &mut self.connecting {
                Some(connecting) => (connecting.epoch, (&mut connecting.result).await),
                None => pending().await,
            }
        };
        let event = async {
            match &mut self.events {
                Some(events) => events.recv().await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            // An error means that the supervisor is gone without a word.
            _ = self.ears.stop.wait_for(Option::is_some) => Round::Stop,
            event = self.ears.bell.rung() => Round::Life(event),
            () = self.ends.next(), if self.life.can_rest() => Round::Life(Event::Quiet),
            (epoch, result) = connected => match result {
                Ok(connected) => Round::Connected(epoch, Box::new(connected)),
                Err(error) => Round::ConnectFailed(epoch, error),
            },
            () = at(timer.map(|(_, when)| when)) => {
                let epoch = timer.map_or(Epoch::default(), |(epoch, _)| epoch);
                Round::Life(Event::TimerFired(epoch))
            }
            due = self.lists.due() => Round::Lists(due),
            Some(asked) = self.ears.sessions.recv() => Round::Asked(asked),
            said = self.sessions.said() => Round::Said(said),
            // Last, so that a server that never stops talking holds up nothing else.
            event = event => event.map_or(Round::Mute, Round::Heard),
        }
    }

    async fn take(&mut self, event: Event) {
        let mut next = Some(event);
        while let Some(event) = next.take() {
            if let Event::TimerFired(_) = event {
                self.timer = None;
            }
            let actions = self.life.on(event.clone(), chance());
            let closing = actions.iter().find_map(|action| match action {
                Action::Close(epoch) => Some(self.let_go(*epoch)),
                _ => None,
            });
            // Told before it is closed, so that no call begins on it.
            if actions.contains(&Action::Changed) {
                self.report().await;
            }
            if let Some(closing) = closing {
                self.tell_end(&event, &closing);
                closing.end(Until::of(&self.ears.stop).end).await;
            }
            for action in actions {
                match action {
                    Action::Connect(epoch) => self.connect(epoch),
                    Action::Timer(epoch, delay) => self.timer = Instant::now().checked_add(delay).map(|at| (epoch, at)),
                    Action::Rest(epoch) if self.ears.flights.leave_if_quiet(epoch) => next = Some(Event::Rested(epoch)),
                    Action::Rest(_) | Action::Close(_) | Action::Changed => {}
                }
            }
        }
    }

    /// How it is connected now: what it said last counts more than what was locked.
    fn terms(&self) -> Terms {
        let mut terms = self.begin.terms.clone();
        let said = self.observed.as_ref().and_then(|said| Era::of(&said.introduction.protocol_version));
        terms.era = said.or(terms.era);
        terms
    }

    /// The attempt is polled by this task. Given up, it ends its process; dropped, it kills it.
    fn connect(&mut self, epoch: Epoch) {
        let Begin { server, context, slots, .. } = &self.begin;
        let (server, context, slots, terms) = (server.clone(), context.clone(), slots.clone(), self.terms());
        let (sender, receiver) = mpsc::channel(64);
        self.events = Some(receiver);
        self.timer = None;
        let attempt = Attempt { stderr: self.begin.tail.clone(), ..Attempt::default() };
        let give_up = attempt.given_up.clone();
        let result = async move { slots.connect(&server, &context, &terms, sender, attempt).await }.boxed();
        self.connecting = Some(Connecting { epoch, result, give_up });
    }

    async fn connected(&mut self, epoch: Epoch, connected: Connected) {
        self.connecting = None;
        tell::connected(&self.begin.server, &connected);
        self.learn(connected.observed);
        self.connection = Some((epoch, connected.connection));
        self.take(Event::Connected(epoch)).await;
    }

    async fn connect_failed(&mut self, epoch: Epoch, error: &ConnectError) {
        self.connecting = None;
        // What it said last; nothing follows, and a channel without a sender would never let us rest.
        let last = self.events.take();
        for event in last.into_iter().flat_map(|mut events| std::iter::from_fn(move || events.try_recv().ok())) {
            tell::heard(&self.begin.server.name, event);
        }
        let attempt = self.life.attempts();
        let cause = error.to_string();
        let happened = match error.is_worth_retrying() {
            true => Event::ConnectFailed(epoch, cause, error.asked_wait()),
            false => Event::Refused(epoch, cause),
        };
        self.take(happened).await;
        let state = self.life.state();
        tell::connect_failed(&self.begin.server, error, attempt, matches!(state, State::Failed { .. }));
        tell::returns(&self.begin.server.name, state);
    }

    async fn heard(&mut self, event: connection::Event) {
        match event {
            connection::Event::ListChanged(kind) => {
                if self.lists.announced(kind) {
                    self.turned().await;
                }
            }
            connection::Event::Closed(closed) => {
                let was_clean = closed.asked || closed.exit.is_some_and(|exit| exit.code == Some(0));
                self.lost(closed.to_string(), was_clean).await;
            }
            event => tell::heard(&self.begin.server.name, event),
        }
    }

    async fn lost(&mut self, reason: String, was_clean: bool) {
        let Some(epoch) = self.connection.as_ref().map(|(epoch, _)| *epoch) else { return };
        let name = self.begin.server.name.clone();
        tell::disconnected(&name, reason.clone(), was_clean);
        self.take(Event::Lost(epoch, reason)).await;
        tell::returns(&name, self.life.state());
        if let State::Failed { cause } = self.life.state() {
            tell::stays_away(&self.begin.server, cause.clone());
        }
    }

    async fn turned(&mut self) {
        tell::turned(&self.begin.server.name, self.lists.are_unstable());
        self.report().await;
    }

    /// Takes what the server says of itself, as far as it is news.
    fn learn(&mut self, mut observed: Observed) -> bool {
        let before = self.observed.as_deref();
        if let Some(before) = before {
            observed.fill_in(before);
        }
        tell::oddities(&self.begin.server.name, before, &observed);
        // A list that can't be read now is worth less than the one that was read before.
        let is_worse = observed.tools_unknown.is_some() && before.is_some();
        let is_news = !is_worse && before != Some(&observed);
        if is_news {
            self.observed = Some(Arc::new(observed));
            self.seen += 1;
        }
        is_news
    }

    async fn lists_due(&mut self, due: lists::Due) {
        match due {
            lists::Due::Reading => {
                let connection = self.connection.as_ref().map(|(_, connection)| connection);
                self.lists.read(connection.cloned());
            }
            lists::Due::Calm if self.lists.pass() => self.turned().await,
            lists::Due::Calm => {}
            lists::Due::Read(kinds, result) => self.reread(&kinds, *result).await,
        }
    }

    async fn reread(&mut self, kinds: &BTreeSet<Kind>, result: Result<Observed, String>) {
        let name = self.begin.server.name.clone();
        let before = self.observed.clone();
        let changed = match result {
            Ok(observed) => {
                let is_news = self.learn(observed);
                if let Some(now) = &self.observed {
                    kinds.iter().for_each(|kind| tell::list_changed(&name, *kind, before.as_deref(), now));
                }
                is_news
            }
            Err(cause) => {
                let message = format!("its lists changed and can't be read again: {cause}; the old ones stay");
                Happened::ServerWarning { server: name, message }.log();
                false
            }
        };
        self.lists.were_read(changed);
        if changed {
            self.report().await;
        }
    }

    fn open_session(&mut self, asked: session::Asked) {
        let Begin { server, context, slots, tail, .. } = &self.begin;
        let (server, context, slots, tail) = (server.clone(), context.clone(), slots.clone(), tail.clone());
        let (terms, stop) = (self.terms(), self.ears.stop.clone());
        self.sessions.open(Needs { server, context, terms, slots, tail, stop }, asked);
    }

    /// What a server says to a call's own session counts like what it says at any other connection.
    async fn said(&mut self, (observed, answer): Said) {
        if self.learn(*observed) {
            self.report().await;
        }
        // The session may have been ended.
        let _unheard = answer.send(self.seen);
    }

    /// Takes what is open, or being opened, out of use.
    fn let_go(&mut self, epoch: Epoch) -> Closing {
        self.ears.flights.leave(epoch);
        self.lists = Lists::default();
        // Nobody reads them any more, and a connection must not wait to tell.
        self.events = None;
        Closing {
            connecting: self.connecting.take_if(|own| own.epoch == epoch),
            connection: self.connection.take_if(|(own, _)| *own == epoch).map(|(_, connection)| connection),
        }
    }

    /// Tells of a connection that ends because we want it to.
    fn tell_end(&self, event: &Event, closing: &Closing) {
        let reason = match event {
            _ if closing.connection.is_none() => return,
            Event::Rested(_) => self.life.state().cause().unwrap_or_default(),
            Event::Reconnect => "a new connection was asked for".to_owned(),
            Event::Stop => "stopped".to_owned(),
            // Lost has been told; and after its lists were read, a session that isn't kept is no news.
            _ => return,
        };
        tell::disconnected(&self.begin.server.name, reason, true);
    }

    /// Waits for the calls in flight as long as they have, then closes. The supervisor may shorten the wait meanwhile.
    async fn end(mut self) {
        self.ears.flights.close();
        self.events = None;
        loop {
            let until = self.ears.stop.borrow_and_update().map_or_else(Instant::now, |until| until.calls);
            tokio::select! {
                () = self.ears.flights.quiet() => break,
                () = sleep_until(until) => break,
                more = self.ears.stop.changed() => if more.is_err() { break },
                // A call that has been promised a session gets it.
                Some(asked) = self.ears.sessions.recv() => self.open_session(asked),
                said = self.sessions.said() => self.said(said).await,
            }
        }
        let sessions = std::mem::take(&mut self.sessions);
        tokio::join!(sessions.end(), self.take(Event::Stop));
    }

    async fn report(&mut self) {
        let report = Report {
            server: self.begin.server.name.clone(),
            instance: self.begin.instance,
            state: self.life.state().clone(),
            epoch: self.life.epoch(),
            attempts: self.life.attempts(),
            wakes: self.life.wakes(),
            unstable: self.lists.are_unstable(),
            connection: self.connection.as_ref().map(|(_, connection)| connection.clone()),
            observed: self.observed.clone(),
            seen: self.seen,
        };
        // The supervisor that is gone needs no report.
        let _unheard = self.reports.send(report).await;
    }
}

async fn at(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => pending().await,
    }
}

/// Uniform in 0..1; only spreads reconnects, so the standard library's seed is good enough.
fn chance() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0u8) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests;
