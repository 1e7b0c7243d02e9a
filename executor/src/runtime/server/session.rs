//! `persistent_sessions: false`: each call has a connection of its own, which is made for it and closed after it.
//!
//! A session is a task of the server's task. What the server says at its beginning is taken as at any other connection,
//! so that the call is looked at once more before it is made.

use std::convert::Infallible;
use std::sync::Arc;

use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::Server;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Until, tell};
use crate::runtime::connection::{Attempt, ConnectError, Connection, Context, Terms};
use crate::runtime::process::Tail;
use crate::runtime::slots::Slots;

/// Most sessions of one server at the same time; each may be a process.
pub(in crate::runtime) const SESSIONS_MAX: usize = 16;

/// A call that asks for a session.
pub(in crate::runtime) type Asked = oneshot::Sender<Result<Lent, ConnectError>>;

/// A connection for one call; closed when this is dropped.
#[derive(Debug)]
pub(in crate::runtime) struct Lent {
    pub(in crate::runtime) connection: Connection,
    /// What a view must know of the server before the call is made.
    pub(in crate::runtime) seen: u64,
    /// Never sent on: its end is the message.
    _back: oneshot::Sender<Infallible>,
}

/// What the server said to a session, and where to answer which observation that is.
pub(super) type Said = (Box<Observed>, oneshot::Sender<u64>);

/// The sessions of one server.
#[derive(Debug)]
pub(super) struct Sessions {
    tasks: JoinSet<()>,
    /// Ends all of them.
    end: CancellationToken,
    said: mpsc::Receiver<Said>,
    say: mpsc::Sender<Said>,
}

/// What a session needs.
pub(super) struct Needs {
    pub(super) server: Arc<Server>,
    pub(super) context: Arc<Context>,
    pub(super) terms: Terms,
    pub(super) slots: Slots,
    pub(super) tail: Tail,
    pub(super) stop: watch::Receiver<Option<Until>>,
}

impl Default for Sessions {
    fn default() -> Self {
        let (say, said) = mpsc::channel(SESSIONS_MAX);
        Self { tasks: JoinSet::new(), end: CancellationToken::new(), said, say }
    }
}

impl Sessions {
    /// Opens one for a call.
    pub(super) fn open(&mut self, needs: Needs, asked: Asked) {
        while self.tasks.try_join_next().is_some() {}
        self.tasks.spawn(session(needs, asked, self.say.clone(), self.end.clone()));
    }

    /// Waits for what the server says to one of them.
    pub(super) async fn said(&mut self) -> Said {
        match self.said.recv().await {
            Some(said) => said,
            // There is always a sender: ours.
            None => std::future::pending().await,
        }
    }

    /// Ends them; comes back when nothing of them is left.
    pub(super) async fn end(mut self) {
        self.end.cancel();
        // A session that waits to be answered what it said isn't answered any more.
        self.said.close();
        while self.said.try_recv().is_ok() {}
        while self.tasks.join_next().await.is_some() {}
    }
}

async fn session(needs: Needs, asked: Asked, say: mpsc::Sender<Said>, end: CancellationToken) {
    let Needs { server, context, terms, slots, tail, stop } = needs;
    let (events, mut heard) = mpsc::channel(64);
    let attempt = Attempt { given_up: end.child_token(), stderr: tail, ..Attempt::default() };
    let given_up = attempt.given_up.clone();
    let name = server.name.clone();
    // Ends with the connection, which holds the other end.
    let hear = async {
        while let Some(event) = heard.recv().await {
            tell::heard(&name, event);
        }
    };
    let work = async {
        let mut asked = asked;
        let mut connecting = std::pin::pin!(slots.connect(&server, &context, &terms, events, attempt));
        let connected = tokio::select! {
            connected = &mut connecting => connected,
            // Whoever asked has gone, and nobody else can use it.
            () = asked.closed() => {
                given_up.cancel();
                connecting.await
            }
        };
        let connected = match connected {
            Ok(connected) => connected,
            Err(error) => {
                if !matches!(error, ConnectError::GivenUp { .. }) {
                    tell::connect_failed(&server, &error, 1, false);
                }
                // Whoever asked may have gone.
                let _unheard = asked.send(Err(error));
                return;
            }
        };
        let connection = connected.connection;
        if let Some(seen) = is_heard(&say, connected.observed).await {
            let (back, returned) = oneshot::channel();
            let lent = Lent { connection: connection.clone(), seen, _back: back };
            if asked.send(Ok(lent)).is_ok() {
                tokio::select! {
                    _ = returned => {}
                    () = end.cancelled() => {}
                }
            }
        }
        connection.close(Until::of(&stop).end).await;
    };
    tokio::join!(work, hear);
}

/// Says what the server said, and gives which observation that is; nothing when the server's task is ending.
async fn is_heard(say: &mpsc::Sender<Said>, observed: Observed) -> Option<u64> {
    let (answer, answered) = oneshot::channel();
    say.send((Box::new(observed), answer)).await.ok()?;
    answered.await.ok()
}
