//! What a server's task tells: its life as events, and what the server says by itself.

use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::Server;

use crate::core::lifecycle::State;
use crate::event::Event;
use crate::runtime::connection::{self, ConnectError, Kind};
use crate::runtime::slots::Connected;

/// What comes of a connection by itself and changes nothing.
pub(super) fn heard(server: &ServerName, event: connection::Event) {
    let warning = |message| Event::ServerWarning { server: server.clone(), message }.log();
    match event {
        connection::Event::Warning(message) => warning(message),
        connection::Event::Noise(start) => {
            warning(format!("text on stdout that is no MCP message was skipped: {start}"));
        }
        connection::Event::Stderr(line) => tracing::info!(target: "mcplan::stderr", %server, "{line}"),
        connection::Event::ListChanged(_) | connection::Event::Closed(_) => {}
    }
}

pub(super) fn connected(server: &Server, connected: &Connected) {
    let observed = &connected.observed;
    Event::ServerConnected {
        server: server.name.clone(),
        transport: server.launch.kind().as_str(),
        tool_count: observed.tools.len(),
        prompt_count: observed.prompts.len(),
        resource_count: observed.resources.len(),
        latency_ms: connected.took.as_millis() as u64,
    }
    .log();
}

pub(super) fn connect_failed(server: &Server, error: &ConnectError, attempt: u32, is_terminal: bool) {
    Event::ServerConnectFailed {
        server: server.name.clone(),
        transport: server.launch.kind().as_str(),
        error_class: error.class(),
        cause: error.to_string(),
        attempt,
        is_terminal,
    }
    .log();
}

/// A server that is gone and doesn't come back by itself.
pub(super) fn stays_away(server: &Server, cause: String) {
    let (server, transport) = (server.name.clone(), server.launch.kind().as_str());
    Event::ServerConnectFailed { server, transport, error_class: "lost", cause, attempt: 0, is_terminal: true }.log();
}

pub(super) fn disconnected(server: &ServerName, reason: String, was_clean: bool) {
    Event::ServerDisconnected { server: server.clone(), reason, was_clean }.log();
}

/// What becomes of a server that isn't connected any more.
pub(super) fn returns(server: &ServerName, state: &State) {
    if let State::Waiting { attempt, delay, .. } = state {
        let (attempt, backoff_s) = (*attempt, delay.as_secs_f64());
        Event::ServerReconnecting { server: server.clone(), attempt, backoff_s }.log();
    }
}

/// What of a list a person should know, as far as it is news.
pub(super) fn oddities(server: &ServerName, before: Option<&Observed>, observed: &Observed) {
    for warning in &observed.warnings {
        if before.is_none_or(|before| !before.warnings.contains(warning)) {
            Event::ServerWarning { server: server.clone(), message: warning.clone() }.log();
        }
    }
    for bad in &observed.quarantined {
        if before.is_none_or(|before| !before.quarantined.contains(bad)) {
            Event::ToolQuarantined { server: server.clone(), tool: bad.name.clone(), reason: bad.reason.clone() }.log();
        }
    }
}

/// One list that was announced to be another, and how long it was and is.
pub(super) fn list_changed(server: &ServerName, kind: Kind, before: Option<&Observed>, now: &Observed) {
    let count = |observed: &Observed| match kind {
        Kind::Tools => observed.tools.len(),
        Kind::Prompts => observed.prompts.len(),
        Kind::Resources => observed.resources.len(),
    };
    Event::ServerListChanged {
        server: server.clone(),
        kind: kind.as_str(),
        old_count: before.map_or(0, count),
        new_count: count(now),
    }
    .log();
}

/// The server turned unstable, or stable again.
pub(super) fn turned(server: &ServerName, is_unstable: bool) {
    let server = server.clone();
    if is_unstable { Event::ServerUnstable { server } } else { Event::ServerStable { server } }.log();
}
