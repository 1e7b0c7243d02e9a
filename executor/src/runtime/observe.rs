//! Asks servers what they have, once: for `lock`, and with everything that can be told of the way, for `doctor`.
//! Connects, reads all lists, closes.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use mcplan_compiler::lock::Lock;
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Plan, Server};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, timeout};

use super::connection::{self, Attempt, ConnectError, Context, Event, Step, Terms};
use super::slots::{Connected, Slots};

/// A first start may download a package, so each server has at least this long to be locked.
const PATIENCE_SECONDS: f64 = 120.0;
/// After how long without news who is waited for is told, and again.
const QUIET: Duration = Duration::from_secs(10);
/// How long a server has to go away.
const FAREWELL: Duration = Duration::from_secs(2);

/// What one server said, and how it came to it.
#[derive(Debug)]
pub struct Probed {
    /// What it reported, or why it can't be asked.
    pub result: Result<Observed, ConnectError>,
    /// How long each step took, in order; the first is what comes before anything is said.
    pub steps: Vec<(Option<Step>, Duration)>,
    /// Starts of texts on stdout that are no messages.
    pub noise: Vec<String>,
    /// What else was odd about its stream.
    pub oddities: Vec<String>,
}

/// Connects each of `names` and gives what it reported, or why it can't. `told` hears of each as it ends. A
/// server in `lock` is spoken to as it was then.
pub async fn observe(
    plan: &Plan,
    context: &Context,
    lock: Option<&Lock>,
    names: &[ServerName],
    mut told: impl FnMut(&ServerName, &Result<Observed, ConnectError>),
) -> BTreeMap<ServerName, Result<Observed, ConnectError>> {
    let patient = |server: &Server| {
        let mut patient = server.clone();
        patient.limits.timeout_seconds = patient.limits.timeout_seconds.max(PATIENCE_SECONDS);
        patient
    };
    let probed = probe_as(plan, context, lock, names, patient, |name, probed| told(name, &probed.result)).await;
    probed.into_iter().map(|(name, probed)| (name, probed.result)).collect()
}

/// The same, in the time that a run would give each server, with all that there is to tell.
pub async fn probe(
    plan: &Plan,
    context: &Context,
    names: &[ServerName],
    told: impl FnMut(&ServerName, &Probed),
) -> BTreeMap<ServerName, Probed> {
    probe_as(plan, context, None, names, Server::clone, told).await
}

async fn probe_as(
    plan: &Plan,
    context: &Context,
    lock: Option<&Lock>,
    names: &[ServerName],
    changed: impl Fn(&Server) -> Server,
    mut told: impl FnMut(&ServerName, &Probed),
) -> BTreeMap<ServerName, Probed> {
    let slots = Slots::new(plan.concurrency);
    let mut asked: FuturesUnordered<_> = plan
        .servers
        .iter()
        .filter(|server| names.contains(&server.name))
        .map(|server| {
            let slots = slots.clone();
            let terms = Terms::of(plan, lock.and_then(|lock| lock.baseline_of(plan, &server.name)));
            let (own_seconds, server) = (server.limits.timeout_seconds, changed(server));
            async move {
                let mut probed = one(&server, context, &terms, &slots).await;
                if let Err(ConnectError::TimedOut { seconds, at_least, .. }) = &mut probed.result {
                    *at_least = *seconds > own_seconds;
                }
                (server.name, probed)
            }
        })
        .collect();
    let mut all = BTreeMap::new();
    loop {
        match timeout(QUIET, asked.next()).await {
            Ok(Some((name, probed))) => {
                told(&name, &probed);
                all.insert(name, probed);
            }
            Ok(None) => return all,
            Err(_) => {
                let silent = names.iter().filter(|name| !all.contains_key(*name)).map(ServerName::as_str);
                tracing::warn!("still waiting for {}", silent.collect::<Vec<_>>().join(", "));
            }
        }
    }
}

async fn one(server: &Server, context: &Context, terms: &Terms, slots: &Slots) -> Probed {
    let (events, mut heard) = mpsc::channel(64);
    let (mut noise, mut oddities) = (Vec::new(), Vec::new());
    let mut hear = |event| match event {
        Event::Noise(start) => noise.push(start),
        Event::Warning(warning) => oddities.push(warning),
        Event::Stderr(_) | Event::ListChanged(_) | Event::Closed(_) => {}
    };
    let attempt = Attempt::default();
    let turn = slots.turn(server, &attempt).await;
    // Waiting for others is no step of this one.
    let began = Instant::now();
    let (connected, reached) = {
        let connecting = async {
            let turn = turn?;
            turn.connect(server, context, terms, events, attempt).await
        };
        let mut connecting = std::pin::pin!(connection::watched(connecting));
        loop {
            tokio::select! {
                biased;
                // Nobody may have to wait for us to hear what happens meanwhile.
                Some(event) = heard.recv() => hear(event),
                connected = &mut connecting => break connected,
            }
        }
    };
    while let Ok(event) = heard.try_recv() {
        hear(event);
    }
    let begins: Vec<_> =
        [(None, began)].into_iter().chain(reached.into_iter().map(|(step, at)| (Some(step), at))).collect();
    let ends = begins.iter().skip(1).map(|(_, at)| *at).chain([Instant::now()]);
    let steps = begins.iter().zip(ends).map(|((step, from), to)| (*step, to.duration_since(*from))).collect();
    // What is said from here on is of no interest.
    let deaf = tokio::spawn(async move { while heard.recv().await.is_some() {} });
    let result = match connected {
        Ok(Connected { connection, observed, took: _ }) => {
            connection.close(Instant::now() + FAREWELL).await;
            match observed.tools_unknown {
                Some(cause) => Err(ConnectError::Protocol { server: server.name.clone(), cause }),
                None => Ok(observed),
            }
        }
        Err(error) => Err(error),
    };
    deaf.abort();
    Probed { result, steps, noise, oddities }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;
    use crate::core::catalog::tests::plan;

    /// Real processes under a clock that passes at once while nobody speaks.
    #[tokio::test(start_paused = true)]
    async fn a_silent_server_has_two_minutes_or_as_long_as_its_own_limit() {
        for (limit, waited, told) in [
            (
                "",
                120,
                "was not ready within 120 s, the least that a lock gives: it timed out while waiting for the answer to `initialize`; if it needs longer, set its `timeout_seconds` to more than 120",
            ),
            (
                ", timeout_seconds: 300",
                300,
                "was not ready within 300 s: it timed out while waiting for the answer to `initialize`; if it needs longer, raise its `timeout_seconds`",
            ),
        ] {
            let plan = plan(&format!(
                "mcp_servers: [{{ name: s, command: sh, args: ['-c', 'while read -r line; do :; done']{limit} }}]"
            ));
            let context = Context::of_process("/");
            let names = [plan.servers[0].name.clone()];
            let (log, said) = std::io::pipe().map(|(said, log)| (log, said)).unwrap();
            let subscriber = tracing_subscriber::fmt().with_writer(std::sync::Mutex::new(log)).finish();
            let logging = tracing::subscriber::set_default(subscriber);
            let began = Instant::now();
            let mut observed = observe(&plan, &context, None, &names, |_, _| {}).await;
            let waited_for = began.elapsed().as_secs();
            let error = observed.remove(&names[0]).unwrap().unwrap_err().to_string();
            assert_eq!(error, format!("server `s` {told}"));
            // Closing it takes a moment too.
            assert!((waited..waited + 5).contains(&waited_for), "{waited_for} s");
            drop(logging);
            let said = std::io::read_to_string(said).unwrap();
            // Every ten seconds, for whoever looks on.
            let lines = said.lines().filter(|line| line.ends_with("still waiting for s")).count();
            assert!((waited / 10 - 1..=waited / 10).contains(&(lines as u64)), "{said}");
        }
    }
}
