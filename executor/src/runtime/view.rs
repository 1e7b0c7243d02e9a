//! What readers see of a running plan: one moment, and the connections that belong to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcplan_compiler::name::ServerName;
use tokio::sync::mpsc;
use tokio_util::task::TaskTracker;

use super::connection::Connection;
use super::process::Tail;
use super::server::Command;
use crate::core::lifecycle::Epoch;
use crate::core::snapshot::Snapshot;

/// One moment of a running plan. Plan, catalog, health and connections travel together.
#[derive(Clone, Debug)]
pub struct View {
    /// What is decided and known.
    pub snapshot: Arc<Snapshot>,
    pub(super) links: BTreeMap<ServerName, Link>,
}

/// The way to one server.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Which instance of the server it leads to; later ones have larger numbers.
    pub(super) instance: u64,
    /// Open, if it is.
    pub(super) connection: Option<Connection>,
    /// Counts the calls that use it, so that closing can wait for them.
    pub(super) calls: TaskTracker,
    /// To the server's task.
    pub(super) commands: mpsc::Sender<Command>,
    /// Its last attempt to connect.
    pub(super) epoch: Epoch,
    /// The end of what the process wrote to stderr.
    pub(super) tail: Tail,
}

impl View {
    /// The last `count` lines that a server's process wrote to stderr, without values of secrets.
    pub fn stderr(&self, server: &ServerName, count: usize) -> Vec<String> {
        self.links.get(server).map(|link| link.tail.last(count)).unwrap_or_default()
    }
}
