//! What happened, as one closed enum: every message of ours that a person may act on later goes through here.

pub mod metrics;
pub mod stream;

use std::fmt;

use mcplan_compiler::name::ServerName;
use serde::Serialize;

use crate::core::gate::Denied;
use crate::core::snapshot::Snapshot;

/// Something that happened while a plan runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Event {
    /// A server is ready.
    ServerConnected {
        /// Its name.
        server: ServerName,
        /// How it is reached.
        transport: &'static str,
        /// Tools that it lists.
        tool_count: usize,
        /// Prompts that it lists.
        prompt_count: usize,
        /// Resources that it lists.
        resource_count: usize,
        /// From the moment that it had its slot, milliseconds.
        latency_ms: u64,
    },
    /// A connection is gone.
    ServerDisconnected {
        /// Its name.
        server: ServerName,
        /// Why.
        reason: String,
        /// Whether we wanted it, or the process ended with status 0.
        was_clean: bool,
    },
    /// A new attempt will follow.
    ServerReconnecting {
        /// Its name.
        server: ServerName,
        /// Number of the attempt that comes.
        attempt: u32,
        /// Wait before it, seconds.
        backoff_s: f64,
    },
    /// An attempt failed, or a server that is gone stays so.
    ServerConnectFailed {
        /// Its name.
        server: ServerName,
        /// How it is reached.
        transport: &'static str,
        /// What kind of cause, in a word.
        error_class: &'static str,
        /// Why.
        cause: String,
        /// Attempts since the last success; 0 when it was connected until now.
        attempt: u32,
        /// Whether it isn't tried again by itself.
        is_terminal: bool,
    },
    /// A list that the server announced to be another was read again.
    ServerListChanged {
        /// Its name.
        server: ServerName,
        /// `tools`, `prompts` or `resources`.
        kind: &'static str,
        /// Items before.
        old_count: usize,
        /// Items now.
        new_count: usize,
    },
    /// A server announces changes of its lists too often to follow each.
    ServerUnstable {
        /// Its name.
        server: ServerName,
    },
    /// It has become calm again.
    ServerStable {
        /// Its name.
        server: ServerName,
    },
    /// A server said something that a person should know.
    ServerWarning {
        /// Its name.
        server: ServerName,
        /// What.
        message: String,
    },
    /// What a server says isn't what was locked; it is used all the same.
    ServerDrifted {
        /// Its name.
        server: ServerName,
        /// What changed, with the rule and its class.
        change: String,
    },
    /// What a server says isn't what was locked, and none of its tools is offered.
    ServerRefused {
        /// Its name.
        server: ServerName,
        /// What changed, with the rule and its class.
        reason: String,
    },
    /// A tool can't be used, or isn't what was locked.
    ToolQuarantined {
        /// Its server.
        server: ServerName,
        /// Its own name.
        tool: String,
        /// Why.
        reason: String,
    },
    /// A tool was called.
    ToolInvoked {
        /// Its server.
        server: ServerName,
        /// Its own name.
        tool: String,
        /// Milliseconds.
        latency_ms: u64,
        /// Whether there was a result that is no error.
        success: bool,
        /// Characters of the result's JSON.
        result_chars: usize,
    },
    /// A call was stopped because it took longer than it may.
    ToolTimeout {
        /// Its server.
        server: ServerName,
        /// Its own name.
        tool: String,
        /// The limit that fired, seconds.
        timeout_s: f64,
    },
    /// A resource was read.
    ResourceRead {
        /// The server that was asked.
        server: ServerName,
        /// The address that it was asked for.
        uri: String,
        /// Characters of the result's JSON.
        chars: usize,
        /// Milliseconds.
        latency_ms: u64,
    },
    /// A prompt was fetched.
    PromptInvoked {
        /// Its server.
        server: ServerName,
        /// Its own name.
        prompt: String,
        /// Milliseconds.
        latency_ms: u64,
    },
    /// A deferred tool entered a session's list.
    ToolPromoted {
        /// Its exposed name.
        tool: String,
    },
    /// A session searched.
    SearchQueried {
        /// What for.
        query: String,
        /// Tools found.
        match_count: usize,
    },
    /// A call, a prompt or the reading of a resource was refused.
    PolicyDenied {
        /// The name that was asked for.
        operation: String,
        /// The rule, or that nothing of that name exists.
        rule: String,
        /// File and line of the rule, as in `config.yml:12`, where somebody wrote it.
        #[serde(skip_serializing_if = "Option::is_none")]
        place: Option<String>,
    },
    /// The prompt block doesn't fit its budget, not even as counts.
    BlockOverBudget {
        /// What the template failed with, when it wasn't the size.
        failure: Option<String>,
    },
    /// A new plan serves.
    PlanReloaded {
        /// Its generation.
        generation: u64,
        /// Digest of the plan before.
        old: String,
        /// Digest of the plan now.
        new: String,
        /// What happened to servers.
        changes: Vec<String>,
    },
    /// A new config was refused; the old plan serves on.
    PlanRejected {
        /// The report.
        diagnostics: String,
    },
}

impl Event {
    /// What the gate denied by what it saw.
    pub fn denied(denied: &Denied, seen: &Snapshot) -> Self {
        Self::PolicyDenied { operation: denied.operation(), rule: denied.rule(), place: seen.place(denied) }
    }

    /// The event's name, as it stands in logs and streams.
    pub fn name(&self) -> &'static str {
        match self {
            Self::ServerConnected { .. } => "server.connected",
            Self::ServerDisconnected { .. } => "server.disconnected",
            Self::ServerReconnecting { .. } => "server.reconnecting",
            Self::ServerConnectFailed { .. } => "server.connect_failed",
            Self::ServerListChanged { .. } => "server.list_changed",
            Self::ServerUnstable { .. } => "server.unstable",
            Self::ServerStable { .. } => "server.stable",
            Self::ServerWarning { .. } => "server.warning",
            Self::ServerDrifted { .. } => "server.drifted",
            Self::ServerRefused { .. } => "server.refused",
            Self::ToolQuarantined { .. } => "tool.quarantined",
            Self::ToolInvoked { .. } => "tool.invoked",
            Self::ToolTimeout { .. } => "tool.timeout",
            Self::ResourceRead { .. } => "resource.read",
            Self::PromptInvoked { .. } => "prompt.invoked",
            Self::ToolPromoted { .. } => "tool.promoted",
            Self::SearchQueried { .. } => "search.queried",
            Self::PolicyDenied { .. } => "policy.denied",
            Self::BlockOverBudget { .. } => "block-over-budget",
            Self::PlanReloaded { .. } => "plan.reloaded",
            Self::PlanRejected { .. } => "plan.rejected",
        }
    }

    /// Counts it, tells whoever listens, and writes it to the log: what needs a person as a warning, single calls only
    /// when asked for.
    pub fn log(&self) {
        metrics::count(self);
        stream::tell(self);
        match self {
            Self::ServerConnectFailed { .. }
            | Self::ServerDisconnected { was_clean: false, .. }
            | Self::ServerUnstable { .. }
            | Self::ServerWarning { .. }
            | Self::ServerDrifted { .. }
            | Self::ServerRefused { .. }
            | Self::ToolQuarantined { .. }
            | Self::ToolTimeout { .. }
            | Self::BlockOverBudget { .. }
            | Self::PlanRejected { .. } => tracing::warn!("{self}"),
            Self::ToolInvoked { .. }
            | Self::ResourceRead { .. }
            | Self::PromptInvoked { .. }
            | Self::SearchQueried { .. }
            | Self::ToolPromoted { .. } => tracing::debug!("{self}"),
            _ => tracing::info!("{self}"),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        match self {
            Self::ServerConnected { server, transport, tool_count, prompt_count, resource_count, latency_ms } => {
                write!(f, "{server} over {transport}: {tool_count} tools, {prompt_count} prompts, ")?;
                write!(f, "{resource_count} resources, {latency_ms} ms")
            }
            Self::ServerDisconnected { server, reason, was_clean: _ } => write!(f, "{server}: {reason}"),
            Self::ServerReconnecting { server, attempt, backoff_s } => {
                write!(f, "{server}: attempt {attempt} in {backoff_s:.1} s")
            }
            Self::ServerConnectFailed { server, cause, is_terminal, transport: _, error_class: _, attempt: _ } => {
                write!(f, "{server}: {cause}{}", if *is_terminal { " (not tried again by itself)" } else { "" })
            }
            Self::ServerListChanged { server, kind, old_count, new_count } => {
                write!(f, "{server}: {old_count} {kind} before, {new_count} now")
            }
            Self::ServerUnstable { server } => {
                write!(f, "{server}: it announces changes of its lists more than ten times a second; ")?;
                f.write_str("they are read every ten seconds until it is calm")
            }
            Self::ServerStable { server } => write!(f, "{server}: it has become calm, its changes are followed again"),
            Self::ServerWarning { server, message } => write!(f, "{server}: {message}"),
            Self::ServerDrifted { server, change } => write!(f, "{server}: {change}"),
            Self::ServerRefused { server, reason } => write!(f, "{server}: nothing of it is offered: {reason}"),
            Self::ToolQuarantined { server, tool, reason } => write!(f, "{server}: {tool}: {reason}"),
            Self::ToolInvoked { server, tool, latency_ms, success, result_chars } => {
                let outcome = if *success { "ok" } else { "error" };
                write!(f, "{server}: {tool}: {outcome}, {result_chars} characters, {latency_ms} ms")
            }
            Self::ToolTimeout { server, tool, timeout_s } => {
                write!(f, "{server}: {tool}: stopped, it took longer than {timeout_s} s")
            }
            Self::ResourceRead { server, uri, chars, latency_ms } => {
                write!(f, "{server}: {uri}: {chars} characters, {latency_ms} ms")
            }
            Self::PromptInvoked { server, prompt, latency_ms } => write!(f, "{server}: {prompt}: {latency_ms} ms"),
            Self::ToolPromoted { tool } => f.write_str(tool),
            Self::SearchQueried { query, match_count } => write!(f, "{query:?}: {match_count} found"),
            Self::PolicyDenied { operation, rule, place: Some(place) } => write!(f, "{operation}: {rule} ({place})"),
            Self::PolicyDenied { operation, rule, place: None } => write!(f, "{operation}: {rule}"),
            Self::BlockOverBudget { failure: Some(failure) } => f.write_str(failure),
            Self::BlockOverBudget { failure: None } => {
                f.write_str("not even counts fit the budget; the block is empty")
            }
            Self::PlanReloaded { generation, old, new, changes } => {
                let changes = if changes.is_empty() { "no server touched".to_owned() } else { changes.join(", ") };
                write!(f, "generation {generation}, {} → {}: {changes}", short(old), short(new))
            }
            Self::PlanRejected { diagnostics } => write!(f, "the old plan serves on\n{diagnostics}"),
        }
    }
}

/// The first digits of a digest.
pub(crate) fn short(digest: &str) -> &str {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    hex.get(..12).unwrap_or(hex)
}
