//! One entry of `mcp_servers` or `mcp.servers`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{MAX_SECONDS, Number, Reconnect, Text};
use crate::plan::{Connect, Environment, Replace, Restart, TransportKind};
use crate::source::Spanned;

/// One MCP server. stdio servers have `command`, remote ones `url`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerEntry {
    /// Unique; 1 to 64 of `A-Z a-z 0-9 . _ -`, a letter or digit at both ends, no `__`. Derived from the package or
    /// the host when it is missing.
    #[schemars(example = &"github")]
    pub name: Option<Spanned<String>>,
    /// What the server is for; shown in the prompt block.
    #[schemars(extend("examples" = ["the project's files"]))]
    pub description: Option<Spanned<String>>,
    /// How the server is reached. Default: stdio with `command`, streamable_http with `url`.
    #[schemars(example = &"stdio", example = &"streamable_http")]
    pub transport: Option<Spanned<String>>,
    /// stdio: the program to start. One program, never split and never given to a shell.
    #[schemars(example = &"npx")]
    pub command: Option<Spanned<String>>,
    /// stdio: its arguments.
    #[schemars(extend("examples" = [["-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "${DATA_DIR:-/data}"]]))]
    pub args: Option<Spanned<Vec<Spanned<Text>>>>,
    /// stdio: variables for the process besides those that it inherits.
    #[schemars(extend("examples" = [{ "LOG_LEVEL": "info", "API_TOKEN": "${API_TOKEN}" }]))]
    pub env: Option<Spanned<BTreeMap<Spanned<String>, Spanned<Text>>>>,
    /// stdio: the directory it starts in, relative to this file. Default: the directory of the main file.
    #[schemars(extend("examples" = ["."]))]
    pub cwd: Option<Spanned<String>>,
    /// stdio: what it inherits of our environment. Default: `mcp.environment`.
    pub environment: Option<Spanned<Environment>>,
    /// Older spelling: true is `environment: all`, false `environment: minimal`.
    #[schemars(extend("deprecated" = true))]
    pub inherit_env: Option<Spanned<bool>>,
    /// stdio: whether a dead process comes back. Default: never, with `required` on_failure.
    pub restart: Option<Spanned<Restart>>,
    /// Remote: the address.
    #[schemars(example = &"https://example.com/mcp")]
    pub url: Option<Spanned<String>>,
    /// Remote: sent with every request.
    #[schemars(extend("examples" = [{ "Authorization": "Bearer ${WEATHER_TOKEN}" }]))]
    pub headers: Option<Spanned<BTreeMap<Spanned<String>, Spanned<Text>>>>,
    /// Whether its tools are deferred: listed by name, found by search. Default: `mcp.defer`.
    pub defer: Option<Spanned<bool>>,
    /// Which of its tools remain.
    pub tools: Option<Tools>,
    /// `false` keeps the entry without ever connecting. Default: true.
    pub enabled: Option<Spanned<bool>>,
    /// Whether the executor is ready only with this server; `lock` fails without it. It then comes back by itself,
    /// however often, unless `restart` or `reconnect` say otherwise. Default: false.
    pub required: Option<bool>,
    /// Conditions under which the server is active.
    pub when: Option<When>,
    /// Paths or globs; only sessions whose workspace lies under one of them see this server. A convenience, no security
    /// boundary: the client says where it is.
    #[schemars(extend("examples" = [["~/src/**"]]))]
    pub workspaces: Option<Spanned<Vec<Spanned<String>>>>,
    /// Whether this server may ask for the user's model. Default: false.
    pub sampling: Option<bool>,
    /// Whether a connection serves many calls. Default: `mcp.persistent_sessions`.
    pub persistent_sessions: Option<bool>,
    /// When it is connected. Default: `mcp.connect`.
    pub connect: Option<Connect>,
    /// Seconds without a call after which it is stopped when it is connected lazily; 0 is never.
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    pub idle_stop_seconds: Option<Spanned<Number>>,
    /// What a reload does with the old connection when the entry changed. Default: swap.
    pub replace: Option<Replace>,
    /// Seconds for connecting and reading its lists. Above 0.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = MAX_SECONDS))]
    pub timeout_seconds: Option<Spanned<Number>>,
    /// Seconds for one request other than a tool call. Above 0.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = MAX_SECONDS))]
    pub request_timeout_seconds: Option<Spanned<Number>>,
    /// Seconds for one tool call; 0 is no limit.
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    pub call_timeout_seconds: Option<Spanned<Number>>,
    /// Seconds that a tool call may go without progress; 0 is no limit.
    #[schemars(range(min = 0, max = MAX_SECONDS))]
    pub idle_timeout_seconds: Option<Spanned<Number>>,
    /// Characters of one tool result's JSON; 0 is no limit.
    #[schemars(range(min = 0))]
    pub max_result_chars: Option<u64>,
    /// Remote, or with `restart: on_failure`: how a lost connection comes back. Default: `mcp.reconnect`.
    pub reconnect: Option<Spanned<Reconnect>>,
}

/// Every spelling of a transport that is understood; the first of a kind is the canonical one.
pub const TRANSPORTS: [(&str, TransportKind); 8] = [
    ("stdio", TransportKind::Stdio),
    ("streamable_http", TransportKind::StreamableHttp),
    ("streamable-http", TransportKind::StreamableHttp),
    ("streamableHttp", TransportKind::StreamableHttp),
    ("http", TransportKind::StreamableHttp),
    ("sse", TransportKind::Sse),
    ("websocket", TransportKind::Websocket),
    ("ws", TransportKind::Websocket),
];

/// Which of a server's tools remain. Patterns are fnmatch (`*`, `?`, `[ab]`, `[!ab]`), case-sensitive, tried against
/// `tool`, `server__tool` and `mcp__server__tool`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tools {
    /// Only what matches. An empty list means none.
    #[schemars(extend("examples" = [["read_*", "list_directory"]]))]
    pub include: Option<Spanned<Vec<Spanned<String>>>>,
    /// Drops what matches, unless `include` names that very tool.
    #[schemars(extend("examples" = [["delete_*"]]))]
    pub exclude: Option<Vec<Spanned<String>>>,
    /// Never deferred, whatever `defer` says.
    #[schemars(extend("examples" = [["list_directory"]]))]
    pub always: Option<Vec<Spanned<String>>>,
}

impl Tools {
    /// Every pattern in it, as written.
    pub fn patterns(&self) -> impl Iterator<Item = &Spanned<String>> {
        let include = self.include.iter().flat_map(|include| &include.value);
        include.chain(self.exclude.iter().flatten()).chain(self.always.iter().flatten())
    }
}

/// Conditions under which a server is active; all must hold.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// Variables that must all be set and not empty.
    #[schemars(extend("examples" = [["DATA_DIR"]]))]
    pub env: Option<Vec<Spanned<String>>>,
}
