//! `mcp:`, what holds for all servers.

use schemars::JsonSchema;
use serde::Deserialize;

use super::{MAX_SECONDS, Number, ServerEntry};
use crate::plan::{Connect, Environment};
use crate::source::Spanned;

/// Settings for all servers. Each limit may also be set per server.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mcp {
    /// Whether any server is connected. Default: true as soon as a server or builtin is declared.
    pub enabled: Option<Spanned<bool>>,
    /// Whether the tools of servers that do not say are deferred: listed by name, found by search. Default: true.
    pub defer: Option<Spanned<bool>>,
    /// Seconds for connecting to one server and reading its lists. Above 0. Default: 20.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = MAX_SECONDS))]
    pub timeout_seconds: Option<Spanned<Number>>,
    /// Seconds for one request other than a tool call. Above 0. Default: 60.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = MAX_SECONDS))]
    pub request_timeout_seconds: Option<Spanned<Number>>,
    /// Seconds for one tool call; 0 is no limit. Default: 300.
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    pub call_timeout_seconds: Option<Spanned<Number>>,
    /// Seconds that a tool call may go without progress; 0 is no limit. Default: 0.
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    pub idle_timeout_seconds: Option<Spanned<Number>>,
    /// Characters of one tool result's JSON; longer ones are cut, 0 is no limit. Default: 50000.
    #[schemars(range(min = 0))]
    pub max_result_chars: Option<u64>,
    /// Whether a connection serves many calls; false connects anew for each. Default: true.
    pub persistent_sessions: Option<bool>,
    /// When servers are connected: at start, or on the first call to one (when no lock has its tools, for the first list).
    /// Default: eager.
    pub connect: Option<Connect>,
    /// Seconds without a call after which a lazily connected server is stopped; 0 is never. Default: 0.
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    pub idle_stop_seconds: Option<Spanned<Number>>,
    /// How many servers connect at the same time.
    pub concurrency: Option<Concurrency>,
    /// How a lost connection comes back: to a remote server, or to a process with `restart: on_failure`.
    pub reconnect: Option<Reconnect>,
    /// How tools are called downstream. `{tool}` must be in it, `{server}` should. Default: `mcp__{server}__{tool}`.
    #[schemars(example = &"mcp__{server}__{tool}", example = &"{server}__{tool}")]
    pub naming: Option<Spanned<String>>,
    /// Longest exposed name, in characters; longer ones are cut and end in a hash. Default: 64.
    #[schemars(range(min = 16, max = 128))]
    pub name_limit: Option<Spanned<u64>>,
    /// Patterns of tools that are never offered, whatever else says so. Matched against `tool`, `server__tool` and
    /// `mcp__server__tool`.
    #[schemars(extend("examples" = [["mcp__github__delete_*"]]))]
    pub denylist: Option<Vec<Spanned<String>>>,
    /// Names of the host's own tools. A server's tool of such a name is not bound: the host wins.
    #[schemars(extend("examples" = [["read_file"]]))]
    pub reserved: Option<Vec<Spanned<String>>>,
    /// A PEM file with further certificates to trust for remote servers, relative to this file.
    #[schemars(extend("examples" = ["certs/internal.pem"]))]
    pub ca_bundle: Option<Spanned<String>>,
    /// What a stdio child inherits of our environment. Default: minimal.
    pub environment: Option<Spanned<Environment>>,
    /// Older spelling: true is `environment: all`, false `environment: minimal`.
    #[schemars(extend("deprecated" = true))]
    pub inherit_env: Option<Spanned<bool>>,
    /// Further servers, the same entries as `mcp_servers`.
    #[schemars(extend("examples" = [[{ "name": "weather", "url": "https://example.com/mcp" }]]))]
    pub servers: Option<Vec<Spanned<ServerEntry>>>,
}

/// How many servers connect at the same time.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Concurrency {
    /// Processes being started. Default: 3.
    #[schemars(range(min = 1, max = 1000))]
    pub stdio: Option<u64>,
    /// Remote servers being connected. Default: 20.
    #[schemars(range(min = 1, max = 1000))]
    pub remote: Option<u64>,
}

/// Exponential backoff after a lost connection to a remote server, or to a process with `restart: on_failure`. What another
/// attempt can't mend, such as refused credentials, is not tried again.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reconnect {
    /// Attempts before giving up; 0 is for ever. Default: 5.
    #[schemars(range(min = 0))]
    pub attempts: Option<u32>,
    /// First wait in seconds; it doubles each time. Default: 1.
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    pub initial_seconds: Option<Spanned<Number>>,
    /// Longest wait in seconds. Default: 30.
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    pub max_seconds: Option<Spanned<Number>>,
    /// Most that chance adds to or takes from a wait, in seconds. Default: 0.5.
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    pub jitter_seconds: Option<Spanned<Number>>,
}
