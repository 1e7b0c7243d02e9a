//! Asks servers what they have, once: for `lock`. Connects, reads all lists, closes.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use mcplan_compiler::lock::Lock;
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Launch, Plan, Server};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::{Duration, Instant};

use super::connection::{self, ConnectError, Context, Terms};

/// A first start may download a package, so each server has at least this long.
const PATIENCE_SECONDS: f64 = 120.0;
/// How long a server has to go away.
const FAREWELL: Duration = Duration::from_secs(2);

/// Connects each of `names` and gives what it reported, or why it can't. `told` hears of each as it ends. A server in
/// `lock` is spoken to as it was then.
pub async fn observe(
    plan: &Plan,
    context: &Context,
    lock: Option<&Lock>,
    names: &[ServerName],
    mut told: impl FnMut(&ServerName, &Result<Observed, ConnectError>),
) -> BTreeMap<ServerName, Result<Observed, ConnectError>> {
    let stdio = Arc::new(Semaphore::new(plan.concurrency.stdio));
    let remote = Arc::new(Semaphore::new(plan.concurrency.remote));
    let mut asked: FuturesUnordered<_> = plan
        .servers
        .iter()
        .filter(|server| names.contains(&server.name))
        .map(|server| {
            let slots = if matches!(server.launch, Launch::Stdio(_)) { stdio.clone() } else { remote.clone() };
            let terms = Terms::of(plan, lock.and_then(|lock| lock.baseline_of(plan, &server.name)));
            async move {
                // The semaphore is never closed.
                let _slot = slots.acquire_owned().await;
                (server.name.clone(), one(server, context, &terms).await)
            }
        })
        .collect();
    let mut all = BTreeMap::new();
    while let Some((name, result)) = asked.next().await {
        told(&name, &result);
        all.insert(name, result);
    }
    all
}

async fn one(server: &Server, context: &Context, terms: &Terms) -> Result<Observed, ConnectError> {
    let mut patient = server.clone();
    patient.limits.timeout_seconds = patient.limits.timeout_seconds.max(PATIENCE_SECONDS);
    let (events, mut heard) = mpsc::channel(64);
    // What happens meanwhile is of no interest, but nobody may have to wait for us to hear it.
    let listener = tokio::spawn(async move { while heard.recv().await.is_some() {} });
    let connected = connection::connect(&patient, context, terms, events).await;
    let observed = match connected {
        Ok((connection, observed)) => {
            connection.close(Instant::now() + FAREWELL).await;
            match observed.tools_unknown {
                Some(cause) => Err(ConnectError::Protocol { server: server.name.clone(), cause }),
                None => Ok(observed),
            }
        }
        Err(error) => Err(error),
    };
    listener.abort();
    observed
}
