//! What readers see of a running plan: one moment, and the connections that belong to it.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::Server;
use tokio::sync::mpsc;

use super::connection::Connection;
use super::flights::Flights;
use super::process::Tail;
use super::server::Bell;
use super::server::session::Asked;
use crate::core::lifecycle::Epoch;
use crate::core::snapshot::Snapshot;

/// One moment of a running plan. Plan, catalog, health and connections travel together.
#[derive(Clone, Debug)]
pub struct View {
    /// What is decided and known.
    pub snapshot: Arc<Snapshot>,
    pub(super) links: BTreeMap<ServerName, Link>,
}

impl View {
    /// The last `count` lines that a server's process wrote to stderr, without values of secrets.
    pub fn stderr(&self, server: &ServerName, count: usize) -> Vec<String> {
        self.links.get(server).map(|link| link.tail.last(count)).unwrap_or_default()
    }

    /// Has lazy servers connected of which something isn't known that can't wait for a call.
    pub(super) fn want<'a>(&self, servers: impl Iterator<Item = &'a Server>) {
        for server in servers {
            if let Some(link) = self.links.get(&server.name).filter(|link| link.wakes) {
                link.bell.want();
            }
        }
    }
}

/// The way to one server.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// Which instance of the server it leads to; later ones have larger numbers.
    pub(super) instance: u64,
    /// Open, if it is.
    pub(super) connection: Option<Connection>,
    /// Counts the calls that use it, so that closing can wait for them.
    pub(super) flights: Flights,
    /// To the server's task.
    pub(super) bell: Arc<Bell>,
    /// Where a call gets a session of its own, when none is kept.
    pub(super) sessions: Option<mpsc::Sender<Asked>>,
    /// Its last attempt to connect.
    pub(super) epoch: Epoch,
    /// Whether a call connects it.
    pub(super) wakes: bool,
    /// Which observation of the server the snapshot knows.
    pub(super) seen: u64,
    /// The end of what the process wrote to stderr.
    pub(super) tail: Tail,
}
