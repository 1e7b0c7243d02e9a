//! One task per server: events in, [`Lifecycle`] decides, actions out. Nothing is decided here.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Concurrency, Launch, Server};
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::connection::{self, Connection, Context, Terms};
use super::process::Tail;
use crate::core::coalesce::Coalesce;
use crate::core::era::Era;
use crate::core::lifecycle::{Action, Epoch, Event, Lifecycle, State};
use crate::event::Event as Happened;

/// How many servers may connect at the same time.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    pub(super) stdio: Arc<Semaphore>,
    pub(super) remote: Arc<Semaphore>,
}

impl Slots {
    pub(super) fn new(concurrency: Concurrency) -> Self {
        let slots = |number| Arc::new(Semaphore::new(number));
        Self { stdio: slots(concurrency.stdio), remote: slots(concurrency.remote) }
    }
}

/// What a server's task is told.
#[derive(Debug)]
pub(super) enum Command {
    /// A call wants the server.
    Wanted,
    /// A person wants a new connection.
    Reconnect,
}

/// What a server's task tells the supervisor.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) server: ServerName,
    pub(super) instance: u64,
    pub(super) state: State,
    pub(super) epoch: Epoch,
    pub(super) attempts: u32,
    pub(super) connection: Option<Connection>,
    pub(super) observed: Option<Arc<Observed>>,
}

/// What a task needs to begin.
pub(super) struct Begin {
    pub(super) instance: u64,
    pub(super) server: Arc<Server>,
    pub(super) enabled: bool,
    /// The first variable of `when.env` that isn't set.
    pub(super) unmet: Option<String>,
    pub(super) context: Arc<Context>,
    pub(super) terms: Terms,
    pub(super) slots: Slots,
    pub(super) calls: TaskTracker,
    pub(super) tail: Tail,
    /// Cancelled when the processes before this one are gone (`replace: stop_first`).
    pub(super) after: Vec<CancellationToken>,
}

/// What the shutdown ladder takes at its longest, with some room.
pub(super) const LADDER: Duration = Duration::from_secs(2);

type Attempt = BoxFuture<'static, Result<(Connection, Observed), String>>;
type Relist = BoxFuture<'static, Result<Observed, String>>;

pub(super) struct ServerTask {
    begin: Begin,
    life: Lifecycle,
    commands: mpsc::Receiver<Command>,
    stop: watch::Receiver<Option<Instant>>,
    reports: mpsc::Sender<Report>,
    attempt: Option<(Epoch, Instant, Attempt)>,
    /// Gives the attempt up.
    give_up: CancellationToken,
    timer: Option<(Epoch, Instant)>,
    connection: Option<(Epoch, Connection)>,
    events: Option<mpsc::Receiver<connection::Event>>,
    observed: Option<Arc<Observed>>,
    born: Instant,
    burst: Coalesce,
    relist: Option<Relist>,
}

/// What one round of waiting gave.
enum Round {
    Life(Event),
    Connected(Epoch, Instant, Box<(Connection, Observed)>),
    Connection(Epoch, connection::Event),
    /// Nothing will be heard of that connection or attempt any more.
    Silent(Epoch),
    BurstOver,
    Relisted(Box<Result<Observed, String>>),
    Stop,
}

impl ServerTask {
    pub(super) fn new(
        begin: Begin,
        commands: mpsc::Receiver<Command>,
        stop: watch::Receiver<Option<Instant>>,
        reports: mpsc::Sender<Report>,
    ) -> Self {
        Self {
            life: Lifecycle::new(&begin.server, begin.enabled),
            begin,
            commands,
            stop,
            reports,
            attempt: None,
            give_up: CancellationToken::new(),
            timer: None,
            connection: None,
            events: None,
            observed: None,
            born: Instant::now(),
            burst: Coalesce::default(),
            relist: None,
        }
    }

    /// Runs until it is told to stop, and returns when nothing of the server is left.
    pub(super) async fn run(mut self) {
        for before in std::mem::take(&mut self.begin.after) {
            tokio::select! {
                () = before.cancelled() => {}
                _ = self.stop.wait_for(Option::is_some) => return,
            }
        }
        let unmet = self.begin.unmet.take();
        self.take(Event::Start { unmet }).await;
        self.report().await;
        loop {
            match self.round().await {
                Round::Life(event) => self.take(event).await,
                Round::Connected(epoch, since, open) => self.connected(epoch, since, *open).await,
                Round::Connection(epoch, event) => self.connection_event(epoch, event).await,
                Round::Silent(epoch) => {
                    // Asked again it would say so at once, for ever.
                    self.events = None;
                    self.take(Event::Lost(epoch, "the connection is gone".to_owned())).await;
                }
                Round::BurstOver => self.begin_relist(),
                Round::Relisted(result) => self.relisted(*result).await,
                Round::Stop => return self.end().await,
            }
        }
    }

    async fn round(&mut self) -> Round {
        let timer = self.timer;
        let due = self.burst.due().filter(|_| self.relist.is_none()).map(|due| self.born + due);
        let attempt = async {
            match &mut self.attempt {
                Some((epoch, since, attempt)) => (*epoch, *since, attempt.await),
                None => pending().await,
            }
        };
        let event = async {
            match &mut self.events {
                Some(events) => events.recv().await,
                None => pending().await,
            }
        };
        let relisted = async {
            match &mut self.relist {
                Some(relist) => relist.await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            // An error means that the supervisor is gone without a word.
            _ = self.stop.wait_for(Option::is_some) => Round::Stop,
            command = self.commands.recv() => match command {
                Some(Command::Wanted) => Round::Life(Event::Wanted),
                Some(Command::Reconnect) => Round::Life(Event::Reconnect),
                None => Round::Stop,
            },
            (epoch, since, result) = attempt => match result {
                Ok(open) => Round::Connected(epoch, since, Box::new(open)),
                Err(cause) => Round::Life(Event::ConnectFailed(epoch, cause)),
            },
            event = event => {
                let epoch = self.connection.as_ref().map_or(Epoch::default(), |(epoch, _)| *epoch);
                match event {
                    Some(event) => Round::Connection(epoch, event),
                    None => Round::Silent(epoch),
                }
            },
            result = relisted => Round::Relisted(Box::new(result)),
            () = at(due) => Round::BurstOver,
            () = at(timer.map(|(_, when)| when)) => {
                let epoch = timer.map_or(Epoch::default(), |(epoch, _)| epoch);
                Round::Life(Event::TimerFired(epoch))
            }
        }
    }

    async fn take(&mut self, event: Event) {
        self.tell(&event);
        if let Event::ConnectFailed(epoch, _) = &event
            && self.attempt.as_ref().is_some_and(|(own, ..)| own == epoch)
        {
            self.attempt = None;
        }
        if let Event::TimerFired(_) = event {
            self.timer = None;
        }
        let actions = self.life.on(event, chance());
        let changed = actions.contains(&Action::Changed);
        for action in actions {
            match action {
                Action::Connect(epoch) => self.connect(epoch),
                Action::Close(epoch) => self.close(epoch).await,
                Action::Timer(epoch, delay) => self.timer = Some((epoch, Instant::now() + delay)),
                Action::Changed => {}
            }
        }
        if changed {
            self.tell_state();
            self.report().await;
        }
    }

    /// The attempt is polled by this task. Given up, it ends its process; dropped, it kills it.
    fn connect(&mut self, epoch: Epoch) {
        let (server, context) = (self.begin.server.clone(), self.begin.context.clone());
        let mut terms = self.begin.terms.clone();
        // What it said last counts more than what was locked.
        let said = self.observed.as_ref().and_then(|said| Era::of(&said.introduction.protocol_version));
        terms.era = said.or(terms.era);
        let slots = match server.launch {
            Launch::Stdio(_) => self.begin.slots.stdio.clone(),
            Launch::StreamableHttp(_) | Launch::Sse(_) | Launch::Websocket(_) => self.begin.slots.remote.clone(),
        };
        let (sender, receiver) = mpsc::channel(64);
        self.events = Some(receiver);
        self.timer = None;
        self.give_up = CancellationToken::new();
        let given_up = self.give_up.clone();
        let attempt = async move {
            let stopped = |_| "shutting down".to_owned();
            let _slot = tokio::select! {
                biased;
                () = given_up.cancelled() => return Err(stopped(())),
                slot = slots.acquire_owned() => slot.map_err(|_| stopped(()))?,
            };
            connection::connect_unless(&server, &context, &terms, sender, given_up)
                .await
                .map_err(|error| error.to_string())
        };
        self.attempt = Some((epoch, Instant::now(), attempt.boxed()));
    }

    async fn connected(&mut self, epoch: Epoch, since: Instant, (connection, mut observed): (Connection, Observed)) {
        self.attempt = None;
        let name = &self.begin.server.name;
        self.tell_oddities(&observed);
        Happened::ServerConnected {
            server: name.clone(),
            transport: self.begin.server.launch.kind().as_str(),
            tool_count: observed.tools.len(),
            prompt_count: observed.prompts.len(),
            latency_ms: since.elapsed().as_millis() as u64,
        }
        .log();
        if let Some(before) = &self.observed {
            observed.fill_in(before);
        }
        // A list that can't be read now is worth less than the one of the connection before.
        if observed.tools_unknown.is_none() || self.observed.is_none() {
            self.observed = Some(Arc::new(observed));
        }
        self.connection = Some((epoch, connection));
        self.take(Event::Connected(epoch)).await;
    }

    async fn connection_event(&mut self, epoch: Epoch, event: connection::Event) {
        match event {
            connection::Event::ListChanged(_) => self.burst.notice(self.born.elapsed()),
            connection::Event::Closed(reason) => self.take(Event::Lost(epoch, reason.to_string())).await,
            connection::Event::Warning(message) => {
                Happened::ServerWarning { server: self.begin.server.name.clone(), message }.log();
            }
            connection::Event::Noise(start) => {
                let message = format!("text on stdout that is no MCP message was skipped: {start}");
                Happened::ServerWarning { server: self.begin.server.name.clone(), message }.log();
            }
            connection::Event::Stderr(line) => {
                tracing::info!(target: "mcplan::stderr", server = %self.begin.server.name, "{line}");
                self.begin.tail.push(line);
            }
        }
    }

    /// A change that is announced while a list is read makes it stale: the burst stays noted, and it is read once more.
    fn begin_relist(&mut self) {
        if !self.burst.take(self.born.elapsed()) {
            return;
        }
        if let Some((_, connection)) = &self.connection {
            let connection = connection.clone();
            self.relist = Some(async move { connection.observe().await.map_err(|error| error.to_string()) }.boxed());
        }
    }

    async fn relisted(&mut self, result: Result<Observed, String>) {
        self.relist = None;
        let server = self.begin.server.name.clone();
        match result.and_then(|observed| observed.tools_unknown.clone().map_or(Ok(observed), Err)) {
            Ok(mut observed) => {
                if let Some(before) = &self.observed {
                    observed.fill_in(before);
                }
                let old_count = self.observed.as_ref().map_or(0, |observed| observed.tools.len());
                Happened::ServerListChanged { server, old_count, new_count: observed.tools.len() }.log();
                self.tell_oddities(&observed);
                self.observed = Some(Arc::new(observed));
                self.report().await;
            }
            Err(cause) => {
                let message = format!("its lists changed and can't be read again: {cause}; the old ones stay");
                Happened::ServerWarning { server, message }.log();
            }
        }
    }

    async fn close(&mut self, epoch: Epoch) {
        if let Some((_, _, attempt)) = self.attempt.take_if(|(own, ..)| *own == epoch) {
            self.give_up.cancel();
            if let Ok(Ok((connection, _))) = tokio::time::timeout(LADDER, attempt).await {
                connection.close(Instant::now() + LADDER).await;
            }
        }
        self.relist = None;
        self.events = None;
        if let Some((_, connection)) = self.connection.take_if(|(own, _)| *own == epoch) {
            connection.close(Instant::now() + LADDER).await;
        }
    }

    /// Waits for the calls in flight as long as they have, then closes. The supervisor may shorten the wait meanwhile.
    async fn end(mut self) {
        self.begin.calls.close();
        // Nobody reads them any more, and a connection must not wait to tell.
        self.events = None;
        loop {
            let until = self.stop.borrow_and_update().unwrap_or_else(Instant::now);
            tokio::select! {
                () = self.begin.calls.wait() => break,
                () = sleep_until(until) => break,
                more = self.stop.changed() => if more.is_err() { break },
            }
        }
        self.take(Event::Stop).await;
    }

    /// What of a list a person should know, as far as it is news.
    fn tell_oddities(&self, observed: &Observed) {
        let name = &self.begin.server.name;
        let before = self.observed.as_deref();
        for warning in &observed.warnings {
            if before.is_none_or(|before| !before.warnings.contains(warning)) {
                Happened::ServerWarning { server: name.clone(), message: warning.clone() }.log();
            }
        }
        for bad in &observed.quarantined {
            if before.is_none_or(|before| !before.quarantined.contains(bad)) {
                Happened::ToolQuarantined { server: name.clone(), tool: bad.name.clone(), reason: bad.reason.clone() }
                    .log();
            }
        }
    }

    fn tell(&self, event: &Event) {
        let server = self.begin.server.name.clone();
        if let Event::Lost(epoch, reason) = event
            && *self.life.state() == (State::Ready { epoch: *epoch })
        {
            Happened::ServerDisconnected { server, reason: reason.clone() }.log();
        }
    }

    fn tell_state(&self) {
        let server = self.begin.server.name.clone();
        match self.life.state() {
            State::Waiting { attempt, delay, cause } => {
                Happened::ServerConnectFailed { server: server.clone(), cause: cause.clone(), is_terminal: false }
                    .log();
                Happened::ServerReconnecting { server, attempt: *attempt, backoff_s: delay.as_secs_f64() }.log();
            }
            State::Failed { cause } => {
                Happened::ServerConnectFailed { server, cause: cause.clone(), is_terminal: true }.log();
            }
            _ => {}
        }
    }

    async fn report(&mut self) {
        let report = Report {
            server: self.begin.server.name.clone(),
            instance: self.begin.instance,
            state: self.life.state().clone(),
            epoch: self.life.epoch(),
            attempts: self.life.attempts(),
            connection: self.connection.as_ref().map(|(_, connection)| connection.clone()),
            observed: self.observed.clone(),
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
