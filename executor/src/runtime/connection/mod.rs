//! A live server: connected, discovered, callable, and closed with everything that belongs to it.
//!
//! [`connect`] does all of it within the server's `timeout_seconds` and gives a [`Connection`] and what the server
//! reported. A task of the connection watches over it: changed lists, lines of stderr and the end come out as
//! [`Event`]s; it ends with the connection.

mod attend;
mod call;
mod discover;
mod error;
mod host;
mod open;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Limits, Server};
use rmcp::model::RequestId;
use rmcp::service::RunningService;
use rmcp::{Peer, RoleClient};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use crate::runtime::transport::tap::{Kind, Progress};
pub use call::Operation;
pub use discover::{ITEMS_MAX, PAGES_MAX};
pub use error::{CallError, ConnectError, Limit, Step};
pub use open::{Attempt, connect, connect_unless};

use crate::runtime::process::Exit;
use crate::runtime::secrets::{Mask, Sources};
use crate::runtime::transport::http;
use host::Host;

/// What a connection needs to know besides its server.
#[derive(Debug)]
pub struct Context {
    environment: BTreeMap<String, String>,
    directory: PathBuf,
    http: OnceLock<Result<reqwest::Client, String>>,
}

impl Context {
    /// `environment` is our own, from which children inherit and references take their values; `directory` is the one
    /// of the main file, from which relative paths are read.
    pub fn new(environment: BTreeMap<String, String>, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        Self { environment, directory, http: OnceLock::new() }
    }

    /// With the environment of this process, as far as it is UTF-8.
    pub fn of_process(directory: impl Into<PathBuf>) -> Self {
        let utf8 = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::new(std::env::vars_os().filter_map(utf8).collect(), directory)
    }

    /// Whether a variable is set and not empty.
    pub fn is_set(&self, name: &str) -> bool {
        self.environment.get(name).is_some_and(|value| !value.is_empty())
    }

    /// The first variable that the server's `when.env` asks for and that is not set.
    pub fn unmet<'a>(&self, server: &'a Server) -> Option<&'a str> {
        server.when_env.iter().map(|name| name.as_ref()).find(|name: &&str| !self.is_set(name))
    }

    pub(in crate::runtime) fn sources(&self) -> Sources<'_> {
        Sources { environment: &self.environment, directory: &self.directory }
    }

    /// The one HTTP client of all connections.
    fn http(&self) -> Result<reqwest::Client, String> {
        self.http.get_or_init(|| http::client().map_err(|error| error.to_string())).clone()
    }
}

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
    /// How the process ended, if there was one.
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
    /// Tools that may be called twice, by their own word.
    repeatable: RwLock<HashSet<String>>,
    cancels: mpsc::Sender<(RequestId, &'static str)>,
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
    /// When the connection ends meanwhile. A list that fails is empty, with a warning.
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

impl Inner {
    /// What the server reported, without values of secrets in its texts: it is listed, locked and shown. Names and keys
    /// stay as they are, since calls are made by them.
    fn masked(&self, mut observed: Observed) -> Observed {
        let changed = observed.map_texts(&|said| std::borrow::Cow::Owned(self.mask.apply(said).into_owned()));
        if !changed.is_empty() {
            let changed = changed.join(", ");
            let changed = self.mask.apply(&changed);
            observed.warnings.push(format!("the value of a secret was hidden in {changed}"));
        }
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
