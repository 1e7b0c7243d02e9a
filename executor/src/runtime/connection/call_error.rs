//! Why a call has no result: the real cause, in words that say what to do. No secret value in any of it.

use mcplan_compiler::name::ServerName;
use serde_json::Value;

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

fn new_session(renewed: bool) -> &'static str {
    if renewed { "a new one is open" } else { "a new one could not be opened" }
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
    /// The exchange of this one call broke off, and the connection is there still.
    #[error("server `{server}` was asked, and the exchange broke off before its answer came: {cause}")]
    Cut {
        /// The server.
        server: ServerName,
        /// What happened.
        cause: String,
    },
    /// The server forgot our session, and the call may have had effects already.
    #[error(
        "server `{server}` has forgotten the session, most likely because it was restarted; {}, and the call was not repeated because the tool does not say that it is read-only or idempotent",
        new_session(*.renewed)
    )]
    SessionLost {
        /// The server.
        server: ServerName,
        /// Whether a new session is open, so that the next call can work.
        renewed: bool,
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

    #[test]
    fn every_limit_is_named_with_what_raises_it() {
        let call = |limit| {
            let server = ServerName::new("s").unwrap();
            CallError::TimedOut { server, limit, seconds: 5.0 }.to_string()
        };
        assert_eq!(
            [Limit::Call, Limit::Idle, Limit::Request].map(call),
            [
                "server `s` did not answer within 5 s, so the call was stopped; raise `call_timeout_seconds` for this server if it needs longer",
                "server `s` gave neither answer nor progress within 5 s, so the call was stopped; raise `idle_timeout_seconds` for this server if it needs longer",
                "server `s` did not answer within 5 s, so the call was stopped; raise `request_timeout_seconds` for this server if it needs longer",
            ]
        );
    }
}
