//! How a running plan stands, as people and programs are told: every server of it, failed and disabled ones included.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::catalog::Hidden;
use super::snapshot::{Health, Snapshot};
use mcplan_compiler::plan::Server;

/// What is said of a server that announces changes of its lists too often.
const UNSTABLE: &str = "it announces changes of its lists too often to follow each; they are read every ten seconds";

/// Which plan is served.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanStatus {
    /// Grows with every plan.
    pub generation: u64,
    /// SHA-256 of it.
    pub digest: String,
    /// Whether only what is locked is served.
    pub locked: bool,
    /// Whether the lock alone is the plan.
    pub frozen: bool,
}

/// The servers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct McpStatus {
    /// Whether the plan connects any.
    pub enabled: bool,
    /// Tools that are offered, of all servers together.
    pub tool_count: usize,
    /// In config order.
    pub servers: Vec<ServerStatus>,
}

/// One server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub transport: String,
    /// The word for where it is in its life.
    pub state: String,
    /// Why it doesn't serve, as far as there is a reason.
    pub cause: Option<String>,
    /// Seconds in this state.
    pub since: f64,
    /// Attempts since the last success.
    pub attempts: u32,
    /// Whether another instance is being connected, to take this one's place.
    pub replacing: bool,
    /// Tools that are offered.
    pub tool_count: usize,
    /// Tools that it has and that aren't offered, whatever the reason.
    pub hidden_count: usize,
    /// Tools that can't be used, or aren't what was locked.
    pub quarantined: Vec<QuarantinedTool>,
    /// Tools that aren't offered because their names, which are these, belong to others.
    pub reserved: Vec<String>,
    /// Why none of its tools is offered, when what it says isn't what was locked.
    pub refused: Option<String>,
    /// What else isn't what was locked.
    pub drift: Vec<String>,
    /// What else a person should know.
    pub warnings: Vec<String>,
    /// The last lines that its process wrote to stderr.
    pub stderr: Vec<String>,
}

/// A tool that isn't offered, alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuarantinedTool {
    /// As the server calls it.
    pub tool: String,
    /// Why.
    pub reason: String,
}

impl McpStatus {
    /// The servers of a moment. `stderr` gives the last lines of one of them.
    pub fn of(snapshot: &Snapshot, now: Instant, stderr: impl Fn(&Server) -> Vec<String>) -> Self {
        let servers = snapshot.plan.servers.iter();
        Self {
            enabled: snapshot.plan.enabled,
            tool_count: snapshot.catalog.tools().len(),
            servers: servers.filter_map(|server| ServerStatus::of(snapshot, server, now, stderr(server))).collect(),
        }
    }

    /// Whether a server that is to be connected has been given up.
    pub fn has_failed(&self) -> bool {
        self.servers.iter().any(ServerStatus::has_failed)
    }
}

impl ServerStatus {
    /// One server of a moment.
    pub fn of(snapshot: &Snapshot, server: &Server, now: Instant, stderr: Vec<String>) -> Option<Self> {
        let health = snapshot.health.get(&server.name)?.clone();
        let Health { state, since, attempts, unstable, replacing, quarantined, refused, drift, .. } = health;
        let unstable = unstable.then(|| UNSTABLE.to_owned());
        let hidden = || snapshot.catalog.all_hidden().filter(|(_, owner, _)| **owner == server.name);
        let reserved = hidden().filter(|(.., why)| **why == Hidden::Reserved).map(|(name, ..)| name.to_owned());
        let quarantined = quarantined.into_iter();
        Some(Self {
            name: server.name.to_string(),
            transport: server.launch.kind().as_str().to_owned(),
            state: state.word().to_owned(),
            cause: state.cause(),
            since: seconds(since, now),
            attempts,
            replacing,
            tool_count: snapshot.catalog.tools().iter().filter(|tool| tool.server == server.name).count(),
            hidden_count: hidden().count(),
            quarantined: quarantined.map(|bad| QuarantinedTool { tool: bad.name, reason: bad.reason }).collect(),
            reserved: reserved.collect(),
            refused,
            drift,
            warnings: health.warnings.into_iter().chain(unstable).collect(),
            stderr,
        })
    }

    /// Whether it has been given up.
    pub fn has_failed(&self) -> bool {
        self.state == "failed"
    }

    /// Whether it serves.
    pub fn is_ready(&self) -> bool {
        self.state == "ready"
    }
}

/// Seconds between two moments, to the millisecond.
pub fn seconds(from: Instant, to: Instant) -> f64 {
    (to.saturating_duration_since(from).as_secs_f64() * 1000.0).round() / 1000.0
}
