//! Why a connection could not be made: the real cause, in words that say what to do. No secret value in any of it.

use std::time::Duration;

use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::TransportKind;

use crate::runtime::process::{Exit, NotFound};
use crate::runtime::secrets::SecretError;
use crate::runtime::transport::remote::{BadHeader, meaning};

/// Where a connection is on its way to being ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The way to where messages can be said.
    Open,
    /// The question whether it speaks the new era.
    Discover,
    /// The handshake of the older era.
    Initialize,
    /// Asking for tools.
    Tools,
    /// Asking for prompts.
    Prompts,
    /// Asking for resource templates.
    ResourceTemplates,
    /// Asking whether there are resources.
    Resources,
}

impl Step {
    /// The word that is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Initialize => "initialize",
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::ResourceTemplates => "resource templates",
            Self::Resources => "resources",
            Self::Open => "open",
            Self::Discover => "discover",
        }
    }

    /// What was going on, as it follows "while".
    fn doing(self) -> &'static str {
        match self {
            Self::Open => "opening the connection",
            Self::Discover => "waiting for the answer to `server/discover`",
            Self::Initialize => "waiting for the answer to `initialize`",
            Self::Tools => "listing its tools",
            Self::Prompts => "listing its prompts",
            Self::ResourceTemplates => "listing its resource templates",
            Self::Resources => "listing its resources",
        }
    }
}

/// Why a server could not be connected.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ConnectError {
    /// A reference has no value.
    #[error("{0}")]
    Secret(#[from] SecretError),
    /// A header that can't be sent.
    #[error("{0}")]
    Header(#[from] BadHeader),
    /// The further certificates can't be used.
    #[error("the certificates of `mcp.ca_bundle` ({path}) can't be used: {cause}")]
    Certificates {
        /// As the config writes it.
        path: String,
        /// What is wrong.
        cause: String,
    },
    /// TLS can't be set up.
    #[error("the certificates of this system can't be used: {cause}; `mcp.ca_bundle` may name a file with others")]
    Tls {
        /// What is wrong.
        cause: String,
    },
    /// A URL that can't be used.
    #[error("the url of server `{server}` can't be used: {cause}")]
    Url {
        /// The server.
        server: ServerName,
        /// What is wrong with it.
        cause: String,
    },
    /// No such program.
    #[error("server `{server}` can't start: {cause}")]
    NotFound {
        /// The server.
        server: ServerName,
        /// Which, and where it was looked for.
        cause: NotFound,
    },
    /// The directory to start in isn't there.
    #[error("server `{server}` can't start: its directory `{directory}` is not there; see `cwd`")]
    Directory {
        /// The server.
        server: ServerName,
        /// Absolute, masked.
        directory: String,
    },
    /// The system refused to start it.
    #[error("server `{server}` can't start: {cause}")]
    Spawn {
        /// The server.
        server: ServerName,
        /// The system's words.
        cause: String,
    },
    /// The program is there, and can't be run.
    #[error("server `{server}` can't start: {cause}")]
    Unfit {
        /// The server.
        server: ServerName,
        /// What is wrong with it, and what to do.
        cause: String,
    },
    /// The process ended before it was ready.
    #[error("server `{server}` ended ({exit}) while {}{}", .step.doing(), last_words(.stderr))]
    Exited {
        /// The server.
        server: ServerName,
        /// How.
        exit: Exit,
        /// When.
        step: Step,
        /// Its last lines on stderr.
        stderr: Vec<String>,
    },
    /// The process closed its stdout and lived on, so it can't ever answer.
    #[error("server `{server}` closed its stdout while {}{}", .step.doing(), last_words(.stderr))]
    HungUp {
        /// The server.
        server: ServerName,
        /// When.
        step: Step,
        /// Its last lines on stderr.
        stderr: Vec<String>,
    },
    /// Nobody wants it any more.
    #[error("server `{server}` was not ready when it was stopped")]
    GivenUp {
        /// The server.
        server: ServerName,
    },
    /// It took longer than it may.
    #[error(
        "server `{server}` was not ready within {seconds} s{}: it timed out while {}; if it needs longer, {}{}",
        if *.at_least { ", the least that a lock gives" } else { "" },
        .step.doing(),
        if *.at_least { format!("set its `timeout_seconds` to more than {seconds}") } else { "raise its `timeout_seconds`".to_owned() },
        last_words(.stderr)
    )]
    TimedOut {
        /// The server.
        server: ServerName,
        /// When.
        step: Step,
        /// The limit.
        seconds: f64,
        /// Whether that is more than its `timeout_seconds`, because a first start may take longer.
        at_least: bool,
        /// Its last lines on stderr.
        stderr: Vec<String>,
    },
    /// It wants other credentials, or any.
    #[error("server `{server}` answered HTTP {status}: {}", credentials(.sent))]
    Unauthorized {
        /// The server.
        server: ServerName,
        /// 401 or 403.
        status: u16,
        /// The headers we sent, as the config writes them: name and references, never a value.
        sent: Vec<String>,
    },
    /// It answered with an HTTP status that says no.
    #[error("server `{server}` answered HTTP {status}{}{}{}", detail(.body), advice(*.transport, *.status), asks(*.retry_after))]
    Status {
        /// The server.
        server: ServerName,
        /// The status.
        status: u16,
        /// The start of the body.
        body: String,
        /// How it was spoken to.
        transport: TransportKind,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// It is somewhere else.
    #[error("server `{server}` answered {cause}")]
    Redirect {
        /// The server.
        server: ServerName,
        /// Status, address, and why it isn't followed.
        cause: String,
    },
    /// Nothing listens there.
    #[error("server `{server}` can't be reached: {cause}")]
    Unreachable {
        /// The server.
        server: ServerName,
        /// The system's words.
        cause: String,
    },
    /// It answered `initialize` with an error.
    #[error("server `{server}` refused to initialize: {message} (code {code})")]
    Refused {
        /// The server.
        server: ServerName,
        /// JSON-RPC error code.
        code: i32,
        /// Its words.
        message: String,
    },
    /// Its answer to `initialize` isn't what the protocol asks for.
    #[error(
        "server `{server}` doesn't keep to the protocol in its answer to `initialize`: {what}; use another version of it, or tell those who make it"
    )]
    Malformed {
        /// The server.
        server: ServerName,
        /// What is wrong with the answer.
        what: String,
    },
    /// It speaks a revision that we don't.
    #[error(
        "server `{server}` answered with protocol version `{version}`; supported are 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25 and, without `initialize`, 2026-07-28"
    )]
    Version {
        /// The server.
        server: ServerName,
        /// What it answered.
        version: String,
    },
    /// What it says isn't MCP, or the exchange broke off.
    #[error("server `{server}` can't be talked to: {cause}")]
    Protocol {
        /// The server.
        server: ServerName,
        /// What happened.
        cause: String,
    },
}

impl ConnectError {
    /// One word for events and metrics.
    pub fn class(&self) -> &'static str {
        match self {
            Self::Secret(_) => "secret",
            Self::Header(_) | Self::Url { .. } | Self::Certificates { .. } | Self::Tls { .. } => "config",
            Self::NotFound { .. } => "command_not_found",
            Self::Directory { .. } | Self::Spawn { .. } | Self::Unfit { .. } => "spawn",
            Self::Exited { .. } => "exited",
            Self::HungUp { .. } => "hung_up",
            Self::TimedOut { .. } => "timeout",
            Self::Unauthorized { .. } => "unauthorized",
            Self::Status { .. } | Self::Redirect { .. } => "http_status",
            Self::Unreachable { .. } => "unreachable",
            Self::Refused { .. } => "refused",
            Self::Version { .. } => "protocol_version",
            Self::Protocol { .. } | Self::Malformed { .. } => "protocol",
            Self::GivenUp { .. } => "given_up",
        }
    }

    /// How long the server asks to be left alone; zero where it doesn't.
    pub fn asked_wait(&self) -> Duration {
        match self {
            Self::Status { retry_after, .. } => retry_after.unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }

    /// Whether trying again without any change could end otherwise.
    pub fn is_worth_retrying(&self) -> bool {
        match self {
            Self::Secret(_)
            | Self::Header(_)
            | Self::Url { .. }
            | Self::Certificates { .. }
            | Self::Tls { .. }
            | Self::NotFound { .. }
            | Self::Directory { .. }
            | Self::Unfit { .. }
            | Self::Unauthorized { .. }
            | Self::Redirect { .. }
            | Self::Version { .. } => false,
            Self::Status { status, .. } => *status >= 500 || matches!(status, 404 | 408 | 425 | 429),
            Self::Spawn { .. }
            | Self::Exited { .. }
            | Self::HungUp { .. }
            | Self::TimedOut { .. }
            | Self::Unreachable { .. }
            | Self::Refused { .. }
            | Self::GivenUp { .. }
            | Self::Malformed { .. }
            | Self::Protocol { .. } => true,
        }
    }
}

/// Lines of stderr that a message shows.
pub(super) const SHOWN_LINES: usize = 5;

/// The last lines of stderr as the end of a message.
pub(super) fn last_words(stderr: &[String]) -> String {
    if stderr.is_empty() {
        return String::new();
    }
    let from = stderr.len().saturating_sub(SHOWN_LINES);
    format!("; its last words: {}", stderr[from..].join(" | "))
}

fn credentials(sent: &[String]) -> String {
    if sent.is_empty() {
        "no header was sent that could identify us; set `headers`, as in `Authorization: \"Bearer ${TOKEN}\"`"
            .to_owned()
    } else {
        format!("it does not accept {}", sent.join(", "))
    }
}

fn asks(retry_after: Option<Duration>) -> String {
    retry_after.map(|wait| format!("; it asks to be left alone for {} s", wait.as_secs())).unwrap_or_default()
}

fn detail(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}

/// What to do about a status, given how the server was spoken to.
fn advice(transport: TransportKind, status: u16) -> &'static str {
    match (transport, status) {
        (TransportKind::Sse, 404..=406) => {
            "; it offers no event stream there: see `url`; a newer server needs `transport: streamable_http`"
        }
        (TransportKind::StreamableHttp, 404 | 405) => {
            "; nothing takes MCP messages there: see `url`; an older server needs `transport: sse`"
        }
        (TransportKind::Websocket, 200..=299 | 400..=406 | 426) => {
            "; it does not switch to a websocket there: see `url` and `transport`"
        }
        _ => meaning(status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_of_a_start_is_named_with_what_raises_it() {
        let connect = |at_least| {
            let (server, step) = (ServerName::new("s").unwrap(), Step::Tools);
            let stderr = vec!["warming up".to_owned()];
            ConnectError::TimedOut { server, step, seconds: 120.0, at_least, stderr }.to_string()
        };
        assert_eq!(
            [false, true].map(connect),
            [
                "server `s` was not ready within 120 s: it timed out while listing its tools; if it needs longer, raise its `timeout_seconds`; its last words: warming up",
                "server `s` was not ready within 120 s, the least that a lock gives: it timed out while listing its tools; if it needs longer, set its `timeout_seconds` to more than 120; its last words: warming up",
            ]
        );
    }
}
