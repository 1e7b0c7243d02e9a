//! Why a connection or a call failed: the real cause, in words that say what to do. No secret value in any of it.

use mcplan_compiler::name::ServerName;
use serde_json::Value;

use crate::runtime::process::{Exit, NotFound};
use crate::runtime::secrets::SecretError;
use crate::runtime::transport::http::BadHeader;

/// Where a connection is on its way to being ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The handshake.
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
    /// What was going on, as it follows "while".
    fn doing(self) -> &'static str {
        match self {
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
    /// A transport that this version can't speak.
    #[error(
        "server `{server}` uses the transport `{transport}`, which this version can't speak; use streamable_http if the server offers it"
    )]
    Transport {
        /// The server.
        server: ServerName,
        /// Its canonical spelling.
        transport: &'static str,
    },
    /// A header that can't be sent.
    #[error("{0}")]
    Header(#[from] BadHeader),
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
    #[error("server `{server}` answered HTTP {status}{}", detail(.body))]
    Status {
        /// The server.
        server: ServerName,
        /// The status.
        status: u16,
        /// The start of the body.
        body: String,
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
    /// It speaks a revision that we don't.
    #[error(
        "server `{server}` answered with protocol version `{version}`; supported are 2024-11-05, 2025-03-26, 2025-06-18 and 2025-11-25"
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
            Self::Header(_) | Self::Url { .. } | Self::Transport { .. } => "config",
            Self::NotFound { .. } => "command_not_found",
            Self::Directory { .. } | Self::Spawn { .. } => "spawn",
            Self::Exited { .. } => "exited",
            Self::HungUp { .. } => "hung_up",
            Self::TimedOut { .. } => "timeout",
            Self::Unauthorized { .. } => "unauthorized",
            Self::Status { .. } => "http_status",
            Self::Unreachable { .. } => "unreachable",
            Self::Refused { .. } => "refused",
            Self::Version { .. } => "protocol_version",
            Self::Protocol { .. } => "protocol",
            Self::GivenUp { .. } => "given_up",
        }
    }

    /// Whether trying again without any change could end otherwise.
    pub fn is_worth_retrying(&self) -> bool {
        match self {
            Self::Secret(_)
            | Self::Header(_)
            | Self::Url { .. }
            | Self::Transport { .. }
            | Self::NotFound { .. }
            | Self::Directory { .. }
            | Self::Unauthorized { .. }
            | Self::Version { .. } => false,
            Self::Status { status, .. } => *status >= 500 || matches!(status, 404 | 408 | 425 | 429),
            Self::Spawn { .. }
            | Self::Exited { .. }
            | Self::HungUp { .. }
            | Self::TimedOut { .. }
            | Self::Unreachable { .. }
            | Self::Refused { .. }
            | Self::GivenUp { .. }
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

fn detail(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}

/// Which limit stopped a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// `call_timeout_seconds`: the whole call.
    Call,
    /// `idle_timeout_seconds`: without an answer or progress.
    Idle,
    /// `request_timeout_seconds`: any other request.
    Request,
}

impl Limit {
    /// The setting.
    pub fn setting(self) -> &'static str {
        match self {
            Self::Call => "call_timeout_seconds",
            Self::Idle => "idle_timeout_seconds",
            Self::Request => "request_timeout_seconds",
        }
    }

    fn happened(self) -> &'static str {
        match self {
            Self::Call | Self::Request => "did not answer",
            Self::Idle => "gave neither answer nor progress",
        }
    }
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The server's own error.
    #[error("server `{server}` answered with an error: {message} (code {code})")]
    Server {
        /// The server.
        server: ServerName,
        /// JSON-RPC error code.
        code: i32,
        /// Its words, unchanged but for secrets.
        message: String,
        /// What it added.
        data: Option<Value>,
    },
    /// A limit of ours.
    #[error(
        "server `{server}` {} within {seconds} s, so the call was stopped; raise `{}` for this server if it needs longer",
        .limit.happened(),
        .limit.setting()
    )]
    TimedOut {
        /// The server.
        server: ServerName,
        /// Which.
        limit: Limit,
        /// How much it is.
        seconds: f64,
    },
    /// The caller went away or asked for it.
    #[error("the call to server `{server}` was cancelled")]
    Cancelled {
        /// The server.
        server: ServerName,
    },
    /// The connection ended before the answer came.
    #[error("the connection to server `{server}` was lost before it answered: {reason}")]
    Lost {
        /// The server.
        server: ServerName,
        /// Why.
        reason: String,
    },
    /// The server forgot our session, and the call may have had effects already.
    #[error(
        "server `{server}` has forgotten the session, most likely because it was restarted; a new one is open, but the call was not repeated because the tool does not say that it is read-only or idempotent"
    )]
    SessionLost {
        /// The server.
        server: ServerName,
    },
    /// Too much that was sent before waits for a process that doesn't read.
    #[error("server `{server}` is busy: {cause}; the call was not sent")]
    Unread {
        /// The server.
        server: ServerName,
        /// How much.
        cause: String,
    },
    /// The answer is longer than 16 MiB.
    #[error("the answer of server `{server}` is longer than 16 MiB, so it was thrown away")]
    TooLong {
        /// The server.
        server: ServerName,
    },
    /// An HTTP answer that says no, or no HTTP at all.
    #[error("server `{server}` could not be asked: {cause}")]
    Http {
        /// The server.
        server: ServerName,
        /// What came instead.
        cause: String,
    },
    /// An answer that isn't one.
    #[error("the answer of server `{server}` can't be used: {cause}")]
    Protocol {
        /// The server.
        server: ServerName,
        /// What is wrong.
        cause: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server() -> ServerName {
        ServerName::new("s").unwrap()
    }

    #[test]
    fn every_limit_is_named_with_what_raises_it() {
        let call = |limit| CallError::TimedOut { server: server(), limit, seconds: 5.0 }.to_string();
        assert_eq!(
            [Limit::Call, Limit::Idle, Limit::Request].map(call),
            [
                "server `s` did not answer within 5 s, so the call was stopped; raise `call_timeout_seconds` for this server if it needs longer",
                "server `s` gave neither answer nor progress within 5 s, so the call was stopped; raise `idle_timeout_seconds` for this server if it needs longer",
                "server `s` did not answer within 5 s, so the call was stopped; raise `request_timeout_seconds` for this server if it needs longer",
            ]
        );
        let connect = |at_least| {
            let (step, stderr) = (Step::Tools, vec!["warming up".to_owned()]);
            ConnectError::TimedOut { server: server(), step, seconds: 120.0, at_least, stderr }.to_string()
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
