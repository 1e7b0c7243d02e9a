//! A live server: connected, discovered, callable, and closed with everything that belongs to it.
//!
//! [`connect`] does all of it within the server's `timeout_seconds` and gives a [`Connection`] and what the server
//! reported. A task of the connection watches over it: changed lists, lines of stderr and the end come out as
//! [`Event`]s; it ends with the connection.

mod attend;
mod call;
mod call_error;
mod context;
mod discover;
mod error;
mod establish;
mod handshake;
mod host;
mod input;
mod launch;
mod listen;
mod open;
mod pulse;
mod questions;
mod steps;

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use mcplan_compiler::diagnostic::one_line;
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::{Observed, Quarantined};
use mcplan_compiler::plan::Limits;
use rmcp::model::RequestId;
use rmcp::service::RunningService;
use rmcp::{Peer, RoleClient};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use crate::runtime::transport::tap::{Kind, Progress};
pub use call::{Client, Operation};
pub use call_error::{CallError, Limit};
pub use context::{Context, Terms};
pub use discover::{ITEMS_MAX, PAGES_MAX};
pub use error::{ConnectError, Step};
pub use open::{Attempt, connect, connect_unless, missing, program};
pub use questions::{Answers, Question};
pub use steps::watched;

use crate::core::era::Era;
use crate::runtime::process::Exit;
use crate::runtime::secrets::Mask;
use crate::runtime::transport::mirror::{self, Mirror};
use host::Host;
use questions::Clients;

/// What happens on a connection by itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// A list is no longer what it was; [`Connection::observe`] tells how it is now.
    ListChanged(Kind),
    /// A line of the process's stderr, masked.
    Stderr(String),
    /// Text on stdout that is no message; its start, masked.
    Noise(String),
    /// Something else that a person should know.
    Warning(String),
    /// The connection is over, and nothing follows.
    Closed(Closed),
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Closed {
    /// In words.
    pub reason: String,
    /// How the process ended, if there was one and it ended by itself.
    pub exit: Option<Exit>,
    /// What is kept of its stderr, masked.
    pub stderr: Vec<String>,
    /// Whether we wanted it.
    pub asked: bool,
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.reason, error::last_words(&self.stderr))
    }
}

/// A live server. Clones share it; when the last one is dropped, it is closed.
#[derive(Clone, Debug)]
pub struct Connection {
    inner: Arc<Inner>,
    close: Arc<Close>,
}

/// What a connection's handles and its task share.
pub(super) struct Inner {
    server: ServerName,
    limits: Limits,
    peer: Peer<RoleClient>,
    mask: Mask,
    /// Whether there is a process at the other end.
    process: bool,
    era: Era,
    /// Which arguments go in headers too, where the protocol wants that.
    mirror: Option<Arc<Mirror>>,
    /// Tools that may be called twice, by their own word.
    repeatable: RwLock<HashSet<String>>,
    cancels: mpsc::Sender<(RequestId, &'static str)>,
    /// Whose calls are in flight.
    clients: Arc<Clients>,
    /// Requests that wait for their answer.
    in_flight: AtomicUsize,
    /// Cancelled once `ended` says how.
    over: CancellationToken,
    ended: OnceLock<Closed>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("server", &self.server).field("ended", &self.ended).finish_non_exhaustive()
    }
}

/// The way to ask the connection's task to end. Dropping it asks too.
#[derive(Debug)]
struct Close {
    token: CancellationToken,
    deadline: Arc<OnceLock<Instant>>,
    finished: CancellationToken,
}

impl Drop for Close {
    fn drop(&mut self) {
        self.token.cancel();
    }
}

impl Connection {
    /// The server.
    pub fn server(&self) -> &ServerName {
        &self.inner.server
    }

    /// How it ended, once it has.
    pub fn ended(&self) -> Option<&Closed> {
        self.inner.ended.get()
    }

    /// Asks for all lists again.
    ///
    /// # Errors
    /// When the connection ends meanwhile. A list that fails is unknown, with a warning.
    pub async fn observe(&self) -> Result<Observed, CallError> {
        self.inner.discover(&|_| {}).await.map(|observed| self.inner.masked(observed))
    }

    /// Closes the connection; ends the process and all that it started. Comes back when all of it is gone, at the
    /// latest a second after `deadline`.
    pub async fn close(&self, deadline: Instant) {
        let _ = self.close.deadline.set(deadline);
        self.close.token.cancel();
        self.close.finished.cancelled().await;
    }
}

/// Items in which secrets were hidden that a warning names.
const MASKED_TOLD: usize = 10;

impl Inner {
    /// What the server reported, without values of secrets in its texts: it is listed, locked and shown. Names and keys
    /// stay as they are, since calls are made by them; an item that shows a secret there is left out.
    fn masked(&self, mut observed: Observed) -> Observed {
        let changed = observed.map_texts(&|said| std::borrow::Cow::Owned(self.mask.apply(said).into_owned()));
        if !changed.is_empty() {
            let more = changed.len().saturating_sub(MASKED_TOLD);
            let told: Vec<_> = changed
                .iter()
                .take(MASKED_TOLD)
                .map(|item| one_line(&self.mask.apply(item), 100).into_owned())
                .collect();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            observed.warnings.push(format!("the value of a secret was hidden in {}{more}", told.join(", ")));
        }
        observed.set_apart(|name, raw| {
            let label = self.mask.secret_in(raw)?;
            let reason = format!("its name or its schema holds the value of {label}");
            Some(Quarantined { name: self.mask.apply(name).into_owned(), reason })
        });
        observed
    }

    /// The data of an error, without values of secrets.
    fn masked_data(&self, data: Value) -> Value {
        let text = data.to_string();
        let masked = mcplan_compiler::json::map_strings(&text, |said| {
            std::borrow::Cow::Owned(self.mask.apply(said).into_owned())
        });
        // What was mapped is JSON still; were it not, nothing may be said.
        masked.map_or(data, |text| serde_json::from_str(&text).unwrap_or_default())
    }

    fn is_repeatable(&self, tool: &str) -> bool {
        self.repeatable.read().unwrap_or_else(PoisonError::into_inner).contains(tool)
    }

    /// Leaves out tools whose arguments can't go into headers where they have to, and notes those of the others.
    fn mirror(&self, observed: &mut Observed) {
        let Some(mirror) = &self.mirror else { return };
        let mut tools = HashMap::new();
        let quarantined = &mut observed.quarantined;
        observed.tools.retain(|tool| match mirror::mirrored(&tool.input_schema()) {
            Ok(mirrored) => {
                tools.insert(tool.known.name.clone(), mirrored);
                true
            }
            Err(reason) => {
                quarantined.push(Quarantined { name: tool.known.name.clone(), reason });
                false
            }
        });
        mirror.learn(tools);
    }

    /// Notes which tools may be called twice.
    fn learn(&self, observed: &Observed) {
        let safe = observed
            .tools
            .iter()
            .filter(|tool| {
                tool.known
                    .annotations
                    .as_ref()
                    .is_some_and(|hints| hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true))
            })
            .map(|tool| tool.known.name.clone())
            .collect();
        *self.repeatable.write().unwrap_or_else(PoisonError::into_inner) = safe;
    }
}

/// The service of rmcp below a connection.
type Service = RunningService<RoleClient, Host>;

#[cfg(test)]
mod tests;
