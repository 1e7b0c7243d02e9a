//! The one writer: owns the servers' tasks, puts their reports together, publishes one [`View`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mcplan_compiler::lock::Lock;
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Plan, Replace, Server};
use mcplan_compiler::prompt_template::Template;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::task::TaskTracker;

use super::connection::{Connection, Context};
use super::server::{Begin, Command, Report, ServerTask, Slots};
use super::view::{Link, View};
use crate::core::catalog::{Catalog, Listing};
use crate::core::lifecycle::State;
use crate::core::reconcile::{Step, reconcile};
use crate::core::snapshot::{Health, Snapshot};

/// What is run: a plan, and the lock that fits it, if there is one.
#[derive(Clone, Debug)]
pub struct Program {
    /// The decisions.
    pub plan: Arc<Plan>,
    /// What servers looked like when they were locked.
    pub lock: Option<Arc<Lock>>,
    /// The plan's template, parsed.
    pub template: Arc<Template>,
}

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
    Reconnect(ServerName),
    Shutdown(Duration, oneshot::Sender<()>),
}

/// One running instance of a server.
#[derive(Debug)]
struct Instance {
    id: u64,
    commands: mpsc::Sender<Command>,
    calls: TaskTracker,
    state: State,
    attempts: u32,
    connection: Option<Connection>,
    observed: Option<Arc<Observed>>,
    /// It was ready or failed once.
    tried: bool,
    ended: Option<oneshot::Receiver<()>>,
}

/// A server of the plan: the instance that serves, and the one that will take its place.
#[derive(Debug)]
struct Seat {
    current: Instance,
    next: Option<Instance>,
    /// What the server listed last, kept while it is down so that the list stays the same.
    listing: Option<Listing>,
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
    tasks: JoinSet<()>,
    catalog: Arc<Catalog>,
    stale: bool,
    reports: mpsc::Receiver<Report>,
    report_to: mpsc::Sender<Report>,
    views: watch::Sender<Arc<View>>,
}

impl Supervisor {
    /// Starts every server of the program and publishes the first view at once.
    pub(super) fn start(program: Program, context: Arc<Context>) -> (Self, watch::Receiver<Arc<View>>) {
        let (report_to, reports) = mpsc::channel(256);
        let concurrency = program.plan.concurrency;
        let slots = Slots {
            stdio: Arc::new(Semaphore::new(concurrency.stdio)),
            remote: Arc::new(Semaphore::new(concurrency.remote)),
        };
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
            tasks: JoinSet::new(),
            catalog: Arc::default(),
            stale: true,
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
        loop {
            tokio::select! {
                message = inbox.recv() => match message {
                    Some(Message::Reload(program, reply)) => {
                        let reloaded = self.reload(*program);
                        self.publish();
                        // Whoever asked may have gone.
                        let _unheard = reply.send(reloaded);
                    }
                    Some(Message::Reconnect(name)) => self.command(&name, Command::Reconnect),
                    Some(Message::Shutdown(drain, reply)) => {
                        self.shutdown(drain).await;
                        let _unheard = reply.send(());
                        return;
                    }
                    None => return self.shutdown(Duration::ZERO).await,
                },
                Some(report) = self.reports.recv() => {
                    self.take(report);
                    // Reports of a busy start come in bursts; one view for all of them.
                    while let Ok(report) = self.reports.try_recv() {
                        self.take(report);
                    }
                    self.publish();
                },
                Some(_) = self.tasks.join_next(), if !self.tasks.is_empty() => {}
            }
        }
    }

    fn seat(&mut self, server: &Server) {
        let current = self.instance(server, None);
        let listing = self.locked_listing(&server.name);
        self.seats.insert(server.name.clone(), Seat { current, next: None, listing });
        self.stale = true;
    }

    fn locked_listing(&self, name: &ServerName) -> Option<Listing> {
        let lock = self.program.lock.as_ref()?;
        lock.baseline(&self.program.plan).find(|(locked, _)| *locked == name).map(|(_, locked)| Listing::from(locked))
    }

    fn instance(&mut self, server: &Server, after: Option<oneshot::Receiver<()>>) -> Instance {
        self.instances += 1;
        let (commands, inbox) = mpsc::channel(16);
        let (end, ended) = oneshot::channel();
        let calls = TaskTracker::new();
        let enabled = self.program.plan.enabled && server.enabled;
        let begin = Begin {
            instance: self.instances,
            server: Arc::new(server.clone()),
            enabled,
            context: self.context.clone(),
            slots: self.slots.clone(),
            calls: calls.clone(),
            after,
        };
        let task = ServerTask::new(begin, inbox, self.report_to.clone());
        self.tasks.spawn(async move {
            task.run().await;
            // Nobody may be waiting for it.
            let _unheard = end.send(());
        });
        Instance {
            id: self.instances,
            commands,
            calls,
            state: if enabled { State::Configured } else { State::Parked },
            attempts: 0,
            connection: None,
            observed: None,
            tried: false,
            ended: Some(ended),
        }
    }

    fn take(&mut self, report: Report) {
        let locked = self.program.lock.as_ref().and_then(|lock| lock.catalog.get(&report.server)).cloned();
        let Some(seat) = self.seats.get_mut(&report.server) else { return };
        let is_next = seat.next.as_ref().is_some_and(|next| next.id == report.instance);
        let instance = match &mut seat.next {
            Some(next) if is_next => next,
            _ if seat.current.id == report.instance => &mut seat.current,
            // An instance that was replaced; it has nothing to say any more.
            _ => return,
        };
        let same = matches!((&instance.observed, &report.observed), (Some(a), Some(b)) if Arc::ptr_eq(a, b));
        instance.tried |= matches!(
            report.state,
            State::Ready { .. } | State::Failed { .. } | State::Waiting { .. } | State::Unmet { .. } | State::Parked
        );
        instance.state = report.state;
        instance.attempts = report.attempts;
        instance.connection = report.connection;
        instance.observed = report.observed;
        let tried = instance.tried;
        if is_next
            && tried
            && let Some(next) = seat.next.take()
        {
            // Ready: it takes over. Failed: the file is the truth, so the old one ends all the same.
            let old = std::mem::replace(&mut seat.current, next);
            self.leaving.push((old, drain_limit(&self.program.plan, &report.server)));
            self.stale = true;
        }
        if !is_next && same {
            return;
        }
        if let Some(observed) = &seat.current.observed {
            seat.listing = Some(Listing::observed(observed, locked.as_ref(), seat.listing.as_ref()));
            self.stale = true;
        }
    }

    fn reload(&mut self, program: Program) -> Reloaded {
        let steps = reconcile(&self.program.plan, &program.plan);
        self.generation += 1;
        let before = std::mem::replace(&mut self.program, program).plan;
        self.stale = true;
        // Permits that are out stay out; the new bounds hold for what connects from now on.
        let concurrency = self.program.plan.concurrency;
        self.slots.stdio = Arc::new(Semaphore::new(concurrency.stdio));
        self.slots.remote = Arc::new(Semaphore::new(concurrency.remote));
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
            Replace::Swap => seat.next = Some(self.instance(server, None)),
            Replace::StopFirst => {
                let after = seat.current.ended.take();
                let next = self.instance(server, after);
                self.leaving.push((std::mem::replace(&mut seat.current, next), drain));
            }
        }
        self.seats.insert(server.name.clone(), seat);
    }

    fn command(&self, name: &ServerName, command: Command) {
        if let Some(seat) = self.seats.get(name) {
            // A full inbox means that the task is about to act anyway.
            let _full = seat.current.commands.try_send(command);
        }
    }

    fn publish(&mut self) {
        if self.stale {
            let listings = self
                .seats
                .iter()
                .filter_map(|(name, seat)| Some((name.clone(), seat.listing.clone()?)))
                .collect::<BTreeMap<_, _>>();
            let catalog = Catalog::build(&self.program.plan, &listings);
            if !catalog.same(&self.catalog) {
                self.catalog = Arc::new(catalog);
            }
            self.stale = false;
        }
        let health = self.seats.iter().map(|(name, seat)| (name.clone(), health(seat))).collect();
        let links = self
            .seats
            .iter()
            .map(|(name, seat)| {
                let current = &seat.current;
                let link = Link {
                    connection: current.connection.clone(),
                    calls: current.calls.clone(),
                    commands: current.commands.clone(),
                };
                (name.clone(), link)
            })
            .collect();
        let snapshot = Snapshot::new(
            self.generation,
            self.program.plan.clone(),
            self.catalog.clone(),
            health,
            self.program.template.clone(),
        );
        self.views.send_replace(Arc::new(View { snapshot: Arc::new(snapshot), links }));
        self.retired.retain(|instance| !instance.commands.is_closed());
        for (instance, drain) in std::mem::take(&mut self.leaving) {
            retire(&instance, drain);
            self.retired.push(instance);
        }
    }

    /// Everything at once and in parallel; whatever is left when the tasks are joined was killed by them.
    async fn shutdown(&mut self, drain: Duration) {
        let seats = std::mem::take(&mut self.seats).into_values();
        let running = seats.flat_map(|seat| std::iter::once(seat.current).chain(seat.next));
        let leaving = std::mem::take(&mut self.leaving).into_iter().map(|(instance, _)| instance);
        let all: Vec<_> = running.chain(leaving).chain(std::mem::take(&mut self.retired)).collect();
        all.iter().for_each(|instance| retire(instance, drain));
        // Tasks may be waiting to report: nobody reads any more, so they must not wait.
        self.reports.close();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Tells an instance to end; its task stays in the set until it has.
fn retire(instance: &Instance, drain: Duration) {
    // A full inbox can't be: each message before was one of a person or a call, and the task reads them at once.
    let _full = instance.commands.try_send(Command::Stop(drain));
}

/// How long calls in flight may go on when their connection is replaced: as long as a call may take.
fn drain_limit(plan: &Plan, name: &ServerName) -> Duration {
    let seconds = plan.server(name.as_str()).map_or(0.0, |server| server.limits.call_timeout_seconds);
    if seconds > 0.0 {
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    } else {
        Duration::from_secs(3600)
    }
}

fn health(seat: &Seat) -> Health {
    let current = &seat.current;
    Health {
        state: current.state.clone(),
        attempts: current.attempts,
        settled: current.tried
            || seat.listing.is_some()
            || matches!(current.state, State::Parked | State::Unmet { .. }),
        quarantined: current.observed.as_ref().map(|observed| observed.quarantined.clone()).unwrap_or_default(),
        warnings: current.observed.as_ref().map(|observed| observed.warnings.clone()).unwrap_or_default(),
    }
}
