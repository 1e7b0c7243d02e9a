//! Asks servers what they have, once: for `lock`. Connects, reads all lists, closes.

use std::collections::BTreeMap;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Plan, Server};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant};

use super::connection::{Attempt, ConnectError, Context};
use super::slots::{Connected, Slots};

/// A first start may download a package, so each server has at least this long.
const PATIENCE_SECONDS: f64 = 120.0;
/// How long a server has to go away.
const FAREWELL: Duration = Duration::from_secs(2);

/// Connects each of `names` and gives what it reported, or why it can't. `told` hears of each as it ends.
pub async fn observe(
    plan: &Plan,
    context: &Context,
    names: &[ServerName],
    mut told: impl FnMut(&ServerName, &Result<Observed, ConnectError>),
) -> BTreeMap<ServerName, Result<Observed, ConnectError>> {
    let slots = Slots::new(plan.concurrency);
    let mut asked: FuturesUnordered<_> = plan
        .servers
        .iter()
        .filter(|server| names.contains(&server.name))
        .map(|server| {
            let slots = slots.clone();
            async move { (server.name.clone(), one(server, context, &slots).await) }
        })
        .collect();
    let mut all = BTreeMap::new();
    while let Some((name, result)) = asked.next().await {
        told(&name, &result);
        all.insert(name, result);
    }
    all
}

async fn one(server: &Server, context: &Context, slots: &Slots) -> Result<Observed, ConnectError> {
    let mut patient = server.clone();
    patient.limits.timeout_seconds = patient.limits.timeout_seconds.max(PATIENCE_SECONDS);
    let (events, mut heard) = mpsc::channel(64);
    // What happens meanwhile is of no interest, but nobody may have to wait for us to hear it.
    let listener = tokio::spawn(async move { while heard.recv().await.is_some() {} });
    let connected = slots.connect(&patient, context, events, Attempt::default()).await;
    let observed = match connected {
        Ok(Connected { connection, observed, took: _ }) => {
            connection.close(Instant::now() + FAREWELL).await;
            match observed.tools_unknown {
                Some(cause) => Err(ConnectError::Protocol { server: server.name.clone(), cause }),
                None => Ok(observed),
            }
        }
        Err(ConnectError::TimedOut { server: name, step, seconds, stderr, .. }) => {
            let at_least = seconds > server.limits.timeout_seconds;
            Err(ConnectError::TimedOut { server: name, step, seconds, at_least, stderr })
        }
        Err(error) => Err(error),
    };
    listener.abort();
    observed
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
            let began = Instant::now();
            let mut observed = observe(&plan, &context, &names, |_, _| {}).await;
            let waited_for = began.elapsed().as_secs();
            let error = observed.remove(&names[0]).unwrap().unwrap_err().to_string();
            assert_eq!(error, format!("server `s` {told}"));
            // Closing it takes a moment too.
            assert!((waited..waited + 5).contains(&waited_for), "{waited_for} s");
        }
    }
}
