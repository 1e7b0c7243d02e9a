//! How many servers may be connected at the same time: a slot is taken before a process is started or an address is
//! dialled, and given back as soon as the handshake is over.

use std::sync::Arc;
use std::time::Duration;

use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Concurrency, Launch, Server};
use tokio::sync::{Semaphore, SemaphorePermit, mpsc};
use tokio::time::Instant;

use super::connection::{self, Attempt, ConnectError, Connection, Context, Terms};

/// The slots of a plan. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Slots {
    stdio: Arc<Semaphore>,
    remote: Arc<Semaphore>,
}

/// A server that was connected.
#[derive(Debug)]
pub(super) struct Connected {
    pub(super) connection: Connection,
    pub(super) observed: Observed,
    /// From the moment that it had its slot.
    pub(super) took: Duration,
}

impl Slots {
    pub(super) fn new(concurrency: Concurrency) -> Self {
        let slots = |number| Arc::new(Semaphore::new(number));
        Self { stdio: slots(concurrency.stdio), remote: slots(concurrency.remote) }
    }

    /// Waits until it is a server's turn to be connected.
    pub(super) async fn turn(&self, server: &Server, attempt: &Attempt) -> Result<Turn<'_>, ConnectError> {
        let given_up = || ConnectError::GivenUp { server: server.name.clone() };
        let slots = match server.launch {
            Launch::Stdio(_) => &self.stdio,
            Launch::StreamableHttp(_) | Launch::Sse(_) | Launch::Websocket(_) => &self.remote,
        };
        tokio::select! {
            biased;
            () = attempt.given_up.cancelled() => Err(given_up()),
            // Nobody closes it.
            slot = slots.acquire() => slot.map(|_slot| Turn { _slot }).map_err(|_| given_up()),
        }
    }

    /// Connects a server in its turn.
    pub(super) async fn connect(
        &self,
        server: &Server,
        context: &Context,
        terms: &Terms,
        events: mpsc::Sender<connection::Event>,
        attempt: Attempt,
    ) -> Result<Connected, ConnectError> {
        self.turn(server, &attempt).await?.connect(server, context, terms, events, attempt).await
    }
}

/// A slot that was taken.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    _slot: SemaphorePermit<'a>,
}

impl Turn<'_> {
    /// Connects the server; its clock starts here. The lists are read without a slot, so that a server that is slow to
    /// list keeps nobody from starting.
    pub(super) async fn connect(
        self,
        server: &Server,
        context: &Context,
        terms: &Terms,
        events: mpsc::Sender<connection::Event>,
        attempt: Attempt,
    ) -> Result<Connected, ConnectError> {
        let (began, initialized) = (Instant::now(), attempt.initialized.clone());
        let mut connecting = std::pin::pin!(connection::connect_unless(server, context, terms, events, attempt));
        let early = tokio::select! {
            biased;
            result = &mut connecting => Some(result),
            () = initialized.cancelled() => None,
        };
        drop(self);
        let (connection, observed) = match early {
            Some(result) => result?,
            None => connecting.await?,
        };
        Ok(Connected { connection, observed, took: began.elapsed() })
    }
}

#[cfg(test)]
mod tests {
    use futures::future::FutureExt as _;

    use super::*;
    use crate::core::catalog::tests::plan;

    #[test]
    fn processes_and_remote_servers_have_slots_of_their_own() {
        let plan = plan("mcp_servers: [{ name: p, command: x }, { name: r, url: 'https://x.example/mcp' }]");
        let slots = Slots::new(plan.concurrency);
        let attempt = Attempt::default();
        let turn = |server: usize| slots.turn(&plan.servers[server], &attempt).now_or_never();
        for (server, most) in [(0, 3), (1, 20)] {
            let mut taken: Vec<_> = (0..most).map(|_| turn(server).unwrap().unwrap()).collect();
            assert!(turn(server).is_none(), "{most} at a time");
            taken.pop();
            taken.push(turn(server).unwrap().unwrap());
            // All of them are still taken when the other kind has its turn.
            std::mem::forget(taken);
        }
        attempt.given_up.cancel();
        assert!(matches!(turn(0), Some(Err(ConnectError::GivenUp { .. }))), "nobody waits for it any more");
    }
}
