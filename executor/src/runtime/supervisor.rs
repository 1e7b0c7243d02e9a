//! The one writer: owns the servers' tasks, puts their reports together, publishes one [`View`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::{Replace, Server};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connection::Context;
use super::flights::Flights;
use super::process;
use super::program::Program;
use super::seat::{Instance, Seat, Wires, drain_limit};
use super::server::session::SESSIONS_MAX;
use super::server::{Begin, Bell, Ears, Report, ServerTask, Until};
use super::slots::Slots;
use super::view::View;
use crate::core::catalog::{Catalog, Listing};
use crate::core::lifecycle::{Epoch, Rest, State};
use crate::core::reconcile::{Step, reconcile};
use crate::core::snapshot::Snapshot;
use crate::core::written::Written;
use crate::event::Event;

/// How often we look for ended processes that servers left to us.
const REAP_EVERY: Duration = Duration::from_secs(30);

/// A catalog stays for so many times as long as it took to build, and for no longer than this, so that servers that start
/// or change one after another don't keep us busy with it. The one that all wait for comes at once: when the last server is
/// known.
const PAUSE: u32 = 4;
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long the first list has the machine to itself: so long for each server, and no longer than the second, those that
/// nobody need wait for begin later at start.
const HEAD_START: Duration = Duration::from_millis(1);
const HEAD_START_MAX: Duration = Duration::from_millis(30);

/// Most calls of one server that are in flight or wait for it; who comes after them is told that it is busy.
pub const CALLS_MAX: usize = 256;

/// What a reload did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reloaded {
    /// The generation that serves now.
    pub generation: u64,
    /// What happened to servers.
    pub steps: Vec<Step>,
}

/// What the supervisor is told.
#[derive(Debug)]
pub(super) enum Message {
    Reload(Box<Program>, oneshot::Sender<Reloaded>),
    /// The plan is the same, and its lines have moved.
    Moved(Arc<Written>, oneshot::Sender<()>),
    /// Answered with the attempt that it had come to before, if there is such a server.
    Reconnect(ServerName, oneshot::Sender<(u64, Epoch)>),
    Shutdown(Until, oneshot::Sender<()>),
}

pub(super) struct Supervisor {
    program: Program,
    context: Arc<Context>,
    slots: Slots,
    generation: u64,
    instances: u64,
    seats: BTreeMap<ServerName, Seat>,
    /// Replaced instances and how long their calls may go on. They are told to end only after a view without them is
    /// out, so that no call can begin on a connection that is being closed.
    leaving: Vec<(Instance, Duration)>,
    /// Told to end, and not gone yet.
    retired: Vec<Instance>,
    /// What begins once a view with it is out: whoever lists what is locked goes before whoever connects.
    beginning: Vec<(ServerName, ServerTask, DropGuard)>,
    /// No view is out yet.
    is_first: bool,
    tasks: JoinSet<()>,
    catalog: Arc<Catalog>,
    stale: bool,
    /// When the next catalog may be built.
    calm_until: Instant,
    /// Whether every server was known, or tried, when the last view was made.
    settled: bool,
    /// What is to be told once the view that it speaks of is out.
    news: Vec<Event>,
    reports: mpsc::Receiver<Report>,
    report_to: mpsc::Sender<Report>,
    views: watch::Sender<Arc<View>>,
}

impl Supervisor {
    /// Starts every server of the program and publishes the first view at once.
    pub(super) fn start(program: Program, context: Arc<Context>) -> (Self, watch::Receiver<Arc<View>>) {
        let (report_to, reports) = mpsc::channel(256);
        let slots = Slots::new(program.plan.concurrency);
        let empty = Snapshot::new(0, program.plan.clone(), Arc::default(), BTreeMap::new(), program.template.clone());
        let (views, receiver) = watch::channel(Arc::new(View { snapshot: Arc::new(empty), links: BTreeMap::new() }));
        let mut supervisor = Self {
            program,
            context,
            slots,
            generation: 1,
            instances: 0,
            seats: BTreeMap::new(),
            leaving: Vec::new(),
            retired: Vec::new(),
            beginning: Vec::new(),
            is_first: true,
            tasks: JoinSet::new(),
            catalog: Arc::default(),
            stale: true,
            calm_until: Instant::now(),
            settled: false,
            news: Vec::new(),
            reports,
            report_to,
            views,
        };
        for server in supervisor.program.plan.clone().servers.iter() {
            supervisor.seat(server);
        }
        supervisor.publish();
        (supervisor, receiver)
    }

    /// Runs until it is told to shut down or everyone who could tell it is gone.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Message>) {
        let mut reap = tokio::time::interval(REAP_EVERY);
        reap.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut reaper = process::Reaper::default();
        // Whether reports wait for the next view.
        let mut due = false;
        loop {
            tokio::select! {
                // In a process of unit tests the children of one test are no orphans of another's.
                _ = reap.tick() => reaper.reap(Instant::now().into_std(), |_| !cfg!(test)),
                message = inbox.recv() => match message {
                    Some(Message::Reload(program, reply)) => {
                        let reloaded = self.reload(*program);
                        self.publish();
                        // Whoever asked may have gone.
                        let _unheard = reply.send(reloaded);
                    }
                    Some(Message::Moved(written, reply)) => {
                        self.program.written = written;
                        self.publish();
                        let _unheard = reply.send(());
                    }
                    Some(Message::Reconnect(name, reply)) => {
                        // Whoever asked may have gone.
                        let _unheard = self.seats.get(&name).map(|seat| reply.send(seat.reconnect()));
                    }
                    Some(Message::Shutdown(until, reply)) => {
                        self.shutdown(until).await;
                        let _unheard = reply.send(());
                        return;
                    }
                    None => return self.shutdown(Until::after(Duration::ZERO)).await,
                },
                Some(report) = self.reports.recv() => {
                    self.take(report);
                    // Reports of a busy start come in bursts; one view for all of them.
                    while let Ok(report) = self.reports.try_recv() {
                        self.take(report);
                    }
                    if !self.stale || Instant::now() >= self.calm_until || self.settles() {
                        self.publish();
                    } else {
                        due = true;
                    }
                },
                () = tokio::time::sleep_until(self.calm_until), if due => {
                    due = false;
                    self.publish();
                }
                Some(_) = self.tasks.join_next(), if !self.tasks.is_empty() => {}
            }
        }
    }

    fn seat(&mut self, server: &Server) {
        let after = if server.replace == Replace::StopFirst { self.before(&server.name) } else { Vec::new() };
        let mut seat = Seat::new(self.instance(server, after));
        self.news.extend(seat.refresh(&self.program));
        self.seats.insert(server.name.clone(), seat);
        self.stale = true;
    }

    /// The ends of every earlier instance of a server.
    fn before(&self, name: &ServerName) -> Vec<CancellationToken> {
        let leaving = self.leaving.iter().map(|(instance, _)| instance);
        leaving.chain(&self.retired).filter(|earlier| earlier.server == *name).map(|e| e.ended.clone()).collect()
    }

    fn instance(&mut self, server: &Server, after: Vec<CancellationToken>) -> Instance {
        self.instances += 1;
        let (stop, stopped) = watch::channel(None);
        let (ask, asked) = mpsc::channel(SESSIONS_MAX);
        let (bell, ended) = (Arc::<Bell>::default(), CancellationToken::new());
        let tail = process::Tail::default();
        let keeps = server.persistent_sessions;
        let flights = Flights::new(if keeps { CALLS_MAX } else { SESSIONS_MAX });
        let enabled = self.program.plan.enabled && server.enabled;
        let unmet = server.when_env.iter().find(|name| !self.context.is_set(name)).cloned();
        let state = match &unmet {
            _ if !enabled => State::Parked,
            Some(variable) => State::Unmet { variable: variable.clone() },
            None => State::Configured(Rest::Starting),
        };
        let begin = Begin {
            instance: self.instances,
            server: Arc::new(server.clone()),
            enabled,
            unmet,
            context: self.context.clone(),
            terms: self.program.terms(&server.name),
            slots: self.slots.clone(),
            tail: tail.clone(),
            after,
        };
        let ears = Ears { bell: bell.clone(), flights: flights.clone(), sessions: asked, stop: stopped };
        let task = ServerTask::new(begin, ears, self.report_to.clone());
        self.beginning.push((server.name.clone(), task, ended.clone().drop_guard()));
        let wires = Wires { bell, sessions: (!keeps).then_some(ask), stop, flights };
        Instance::new(self.instances, server.name.clone(), state, wires, ended, tail)
    }

    fn take(&mut self, report: Report) {
        let Some(seat) = self.seats.get_mut(&report.server) else { return };
        let server = report.server.clone();
        // Whoever is settled now may be what others waited for to be named.
        self.stale |= !self.program.plan.naming.separates_servers();
        let Some(news) = seat.take(report) else { return };
        if let Some(old) = news.replaced {
            self.leaving.push((old, drain_limit(&self.program.plan, &server)));
        }
        if news.listing {
            self.news.extend(seat.refresh(&self.program));
            self.stale = true;
        }
    }

    fn reload(&mut self, program: Program) -> Reloaded {
        let steps = reconcile(&self.program.plan, &program.plan);
        self.generation += 1;
        let before = std::mem::replace(&mut self.program, program).plan;
        self.stale = true;
        let concurrency = self.program.plan.concurrency;
        if concurrency != before.concurrency {
            // Permits that are out stay out; the new bounds hold for what connects from now on.
            self.slots = Slots::new(concurrency);
        }
        // A new lock may know more of a server, or have its text otherwise.
        for seat in self.seats.values_mut() {
            self.news.extend(seat.refresh(&self.program));
        }
        let plan = self.program.plan.clone();
        for step in &steps {
            match step {
                Step::Stop(name) => {
                    if let Some(seat) = self.seats.remove(name) {
                        self.leaving.push((seat.current, drain_limit(&before, name)));
                        self.leaving.extend(seat.next.map(|next| (next, Duration::ZERO)));
                    }
                }
                Step::Start(name) => {
                    if let Some(server) = plan.server(name.as_str()) {
                        self.seat(server);
                    }
                }
                Step::Replace(name, replace) => {
                    if let Some(server) = plan.server(name.as_str()) {
                        self.replace(server, *replace);
                    }
                }
            }
        }
        Reloaded { generation: self.generation, steps }
    }

    fn replace(&mut self, server: &Server, how: Replace) {
        let drain = drain_limit(&self.program.plan, &server.name);
        let Some(mut seat) = self.seats.remove(&server.name) else { return self.seat(server) };
        self.leaving.extend(seat.next.take().map(|next| (next, Duration::ZERO)));
        match how {
            Replace::Swap => seat.next = Some(self.instance(server, Vec::new())),
            Replace::StopFirst => {
                let mut after = self.before(&server.name);
                after.push(seat.current.ended.clone());
                let next = self.instance(server, after);
                self.leaving.push((std::mem::replace(&mut seat.current, next), drain));
                self.news.extend(seat.refresh(&self.program));
            }
        }
        self.seats.insert(server.name.clone(), seat);
    }

    /// Whether the last server that others waited for is known now.
    fn settles(&self) -> bool {
        !self.settled && self.seats.values().all(Seat::is_settled)
    }

    fn publish(&mut self) {
        self.settled = self.seats.values().all(Seat::is_settled);
        if self.stale {
            let began = std::time::Instant::now();
            let catalog = self.catalog.rebuilt(&self.program.plan, &self.listings());
            self.calm_until = Instant::now() + began.elapsed().saturating_mul(PAUSE).min(PAUSE_MAX);
            if !catalog.same(&self.catalog) {
                self.catalog = Arc::new(catalog);
            }
            self.stale = false;
        }
        let health = self.seats.iter().map(|(name, seat)| (name.clone(), seat.health())).collect();
        let links = self.seats.iter().map(|(name, seat)| (name.clone(), seat.link())).collect();
        let snapshot = Snapshot::new(
            self.generation,
            self.program.plan.clone(),
            self.catalog.clone(),
            health,
            self.program.template.clone(),
        );
        let snapshot = Arc::new(snapshot.with_written(self.program.written.clone()));
        self.views.send_replace(Arc::new(View { snapshot, links }));
        // Only now is it so for whoever reads of it.
        std::mem::take(&mut self.news).iter().for_each(Event::log);
        self.retired.retain(|instance| !instance.ended.is_cancelled());
        for (instance, drain) in std::mem::take(&mut self.leaving) {
            instance.retire(Until::after(drain));
            self.retired.push(instance);
        }
        let servers = u32::try_from(self.beginning.len()).unwrap_or(u32::MAX);
        let head_start = HEAD_START.saturating_mul(servers).min(HEAD_START_MAX);
        let is_first = std::mem::take(&mut self.is_first);
        for (server, task, end) in self.beginning.drain(..) {
            let is_listed = self.seats.get(&server).is_some_and(|seat| seat.listing().is_some());
            self.tasks.spawn(async move {
                if is_first && is_listed {
                    tokio::time::sleep(head_start).await;
                }
                task.run().await;
                drop(end);
            });
        }
    }

    /// What the servers list. Where names don't tell servers apart, the first in config order keeps a plain name: what
    /// comes after one that isn't known yet can't be named, or a name would change its owner.
    fn listings(&self) -> BTreeMap<ServerName, &Listing> {
        let plan = &self.program.plan;
        let in_order = plan.servers.iter().filter_map(|server| self.seats.get(&server.name));
        let named = in_order.take_while(|seat| plan.naming.separates_servers() || seat.is_settled());
        named.filter_map(|seat| Some((seat.current.server.clone(), seat.listing()?))).collect()
    }

    /// Everything at once and in parallel. Whatever doesn't end in time is dropped, which kills its process.
    async fn shutdown(&mut self, until: Until) {
        let seats = std::mem::take(&mut self.seats).into_values();
        let running = seats.flat_map(|seat| std::iter::once(seat.current).chain(seat.next));
        let leaving = std::mem::take(&mut self.leaving).into_iter().map(|(instance, _)| instance);
        let all: Vec<_> = running.chain(leaving).chain(std::mem::take(&mut self.retired)).collect();
        all.iter().for_each(|instance| instance.retire(until));
        // Tasks may be waiting to report: nobody reads any more, so they must not wait.
        self.reports.close();
        let joined = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout_at(until.end, joined).await.is_err() {
            tracing::warn!("some servers did not end in time and are killed");
            self.tasks.abort_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcplan_compiler::observed::Observed;

    use crate::core::baseline::Baseline;
    use crate::runtime::executor::{SHUTDOWN, SWEEP};
    use crate::runtime::program::tests::program;

    /// A hundred servers that can't be started, known from a lock or not, and when the first of them was tried.
    async fn first_tried(is_locked: bool) -> Duration {
        let servers: Vec<_> = (0..100).map(|at| format!("{{ name: s{at}, command: no-such-command }}")).collect();
        let mut program = program(&format!("mcp_servers: [{}]", servers.join(", ")));
        if is_locked {
            let said = program.plan.servers.iter().map(|server| (server.name.clone(), Observed::default())).collect();
            let lock = mcplan_compiler::lock::make((*program.plan).clone(), Vec::new(), said, None).lock;
            program.baseline = Some(Arc::new(Baseline::new(lock, false)));
        }
        let began = Instant::now();
        let (supervisor, mut views) = Supervisor::start(program, Arc::new(Context::new(BTreeMap::new(), "/")));
        let (messages, inbox) = mpsc::channel(1);
        let running = tokio::spawn(supervisor.run(inbox));
        let is_tried = |view: &Arc<View>| view.snapshot.health.values().any(|health| health.state.was_tried());
        views.wait_for(is_tried).await.unwrap();
        let tried = began.elapsed();
        drop(messages);
        running.await.unwrap();
        tried
    }

    /// Under a clock that passes only while there is nothing to do.
    #[tokio::test(start_paused = true)]
    async fn who_is_known_from_the_lock_leaves_the_first_list_a_head_start() {
        assert_eq!(first_tried(false).await, Duration::ZERO);
        assert!(first_tried(true).await >= HEAD_START_MAX);
    }

    /// A supervisor without servers, and how long its shutdown takes when `task` is among what it waits for.
    async fn shutdown_with(task: impl Future<Output = ()> + Send + 'static, asked: Duration) -> Duration {
        let context = Arc::new(Context::new(BTreeMap::new(), "/"));
        let (mut supervisor, _views) = Supervisor::start(program("mcp_servers: []"), context);
        supervisor.tasks.spawn(task);
        let (messages, inbox) = mpsc::channel(1);
        let running = tokio::spawn(supervisor.run(inbox));
        let began = Instant::now();
        let asked = began - asked;
        let (reply, answer) = oneshot::channel();
        let until = Until { calls: asked + SHUTDOWN / 2, end: asked + SHUTDOWN - SWEEP };
        messages.send(Message::Shutdown(until, reply)).await.unwrap();
        answer.await.unwrap();
        running.await.unwrap();
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_takes_its_time_and_no_more_whatever_hangs() {
        assert_eq!(shutdown_with(async {}, Duration::ZERO).await, Duration::ZERO);
        let hangs = shutdown_with(std::future::pending(), Duration::ZERO).await;
        assert_eq!(hangs, SHUTDOWN - SWEEP, "what is left is for killing");
        // What calls have used up already isn't given again.
        let late = shutdown_with(std::future::pending(), Duration::from_secs(3)).await;
        assert_eq!(late, SHUTDOWN - SWEEP - Duration::from_secs(3));
    }
}
