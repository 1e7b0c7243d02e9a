//! One server of a plan: how it is launched, what of it is shown, how long things may take.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ToolFilter;
use crate::interpolate::Template;
use crate::name::ServerName;
use crate::package::{Fetched, fetched};

/// A server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Server {
    /// Unique in the plan.
    pub name: ServerName,
    /// For people and for the prompt block.
    pub description: Option<String>,
    /// Where the entry came from.
    pub origin: Origin,
    /// How it is reached.
    #[serde(flatten)]
    pub launch: Launch,
    /// Which of its tools remain.
    pub tools: ToolFilter,
    /// Whether its tools are deferred unless `tools.always` names them.
    pub defer: bool,
    /// `false`: never connected.
    pub enabled: bool,
    /// Whether the executor is ready only with it.
    pub required: bool,
    /// Variables that must all be set for it to be connected.
    pub when_env: Vec<String>,
    /// Globs of workspaces; only sessions in one of them see it. Empty: all sessions.
    pub workspaces: Vec<String>,
    /// Whether it may ask for the user's model.
    pub sampling: bool,
    /// Whether a connection serves many calls.
    pub persistent_sessions: bool,
    /// When it is connected.
    pub connect: Connect,
    /// Seconds without a call after which a lazily connected server is stopped; 0 is never.
    pub idle_stop_seconds: f64,
    /// What a reload does with the old connection.
    pub replace: Replace,
    /// How long and how much.
    pub limits: Limits,
    /// What happens after a lost connection to a remote server, or to a process that comes back on failure.
    pub reconnect: Reconnect,
}

/// Where a server entry came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// Written in the config.
    Config,
    /// Taken from the curated catalogue.
    Builtin,
    /// Written in a fragment.
    Fragment,
    /// Said by a plugin.
    Plugin,
}

/// How a server is reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "transport", rename_all = "snake_case")]
pub enum Launch {
    /// A child process.
    Stdio(Stdio),
    /// A remote server over streamable HTTP.
    StreamableHttp(Remote),
    /// A remote server over the older HTTP with server-sent events.
    Sse(Remote),
    /// A remote server over websocket.
    Websocket(Remote),
}

/// A child process that speaks MCP on its standard streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stdio {
    /// The program; never split, never given to a shell.
    pub command: Template,
    /// Its arguments.
    pub args: Vec<Template>,
    /// Variables it gets besides the inherited ones.
    pub env: BTreeMap<String, Template>,
    /// Directory it starts in, relative to the main file.
    pub cwd: Template,
    /// What it inherits.
    pub environment: Environment,
    /// Whether a dead process comes back by itself.
    pub restart: Restart,
}

/// A remote server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Remote {
    /// Where it listens.
    pub url: Template,
    /// Sent with every request.
    pub headers: BTreeMap<String, Template>,
}

/// The transports by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransportKind {
    /// A child process, spoken to over its stdin and stdout.
    Stdio,
    /// HTTP as of revision 2025-03-26: one address, answers as JSON or as a stream of events.
    StreamableHttp,
    /// HTTP with server-sent events, of revision 2024-11-05.
    Sse,
    /// A websocket, which no revision of the protocol names.
    Websocket,
}

impl TransportKind {
    /// The canonical spelling.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::StreamableHttp => "streamable_http",
            Self::Sse => "sse",
            Self::Websocket => "websocket",
        }
    }
}

/// What a child process inherits from ours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Environment {
    /// A short published list of harmless variables.
    #[default]
    Minimal,
    /// Everything but names that look like secrets.
    Filtered,
    /// Everything that we have, secrets too.
    All,
}

/// When a server is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Connect {
    /// At start.
    #[default]
    Eager,
    /// On the first call to it, or for the first list when no lock has its tools.
    Lazy,
}

/// Whether a dead child process comes back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Restart {
    /// Only by hand.
    #[default]
    Never,
    /// With the next call.
    OnCall,
    /// At once, with the backoff of remote servers.
    OnFailure,
}

/// What a reload does with a changed server's old connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Replace {
    /// The old one serves until the new one is ready.
    #[default]
    Swap,
    /// The old one is stopped first, for servers that own something exclusive.
    StopFirst,
}

/// How long things may take and how large a result may be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limits {
    /// Connect and discovery, seconds; above 0.
    pub timeout_seconds: f64,
    /// One request other than a tool call, seconds; above 0.
    pub request_timeout_seconds: f64,
    /// One tool call, seconds; 0 is none.
    pub call_timeout_seconds: f64,
    /// A call without progress, seconds; 0 is none.
    pub idle_timeout_seconds: f64,
    /// Characters of one tool result's JSON; 0 is none.
    pub max_result_chars: usize,
}

/// Exponential backoff after a lost connection.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reconnect {
    /// Attempts before giving up; 0 is for ever.
    pub attempts: u32,
    /// First wait, seconds.
    pub initial_seconds: f64,
    /// Longest wait, seconds.
    pub max_seconds: f64,
    /// Most that chance adds or takes, seconds.
    pub jitter_seconds: f64,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { attempts: 5, initial_seconds: 1.0, max_seconds: 30.0, jitter_seconds: 0.5 }
    }
}

impl Launch {
    /// Which transport it is.
    pub fn kind(&self) -> TransportKind {
        match self {
            Self::Stdio(_) => TransportKind::Stdio,
            Self::StreamableHttp(_) => TransportKind::StreamableHttp,
            Self::Sse(_) => TransportKind::Sse,
            Self::Websocket(_) => TransportKind::Websocket,
        }
    }

    /// Where a remote server is; `None` for a child process.
    pub fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Stdio(_) => None,
            Self::StreamableHttp(remote) | Self::Sse(remote) | Self::Websocket(remote) => Some(remote),
        }
    }

    /// Every template of the launch with the field it stands in, as messages name it.
    pub fn templates(&self) -> Vec<(String, &Template)> {
        let Self::Stdio(stdio) = self else {
            let remote = self.remote();
            let headers = remote.iter().flat_map(|remote| &remote.headers);
            let url = remote.iter().map(|remote| ("url".to_owned(), &remote.url));
            return url.chain(headers.map(|(key, value)| (format!("headers.{key}"), value))).collect();
        };
        let mut all = vec![("command".to_owned(), &stdio.command)];
        all.extend(stdio.args.iter().enumerate().map(|(index, arg)| (format!("args[{index}]"), arg)));
        all.extend(stdio.env.iter().map(|(key, value)| (format!("env.{key}"), value)));
        all.push(("cwd".to_owned(), &stdio.cwd));
        all
    }

    /// The version of the package or image that it fetches, where its command line pins one.
    pub fn pinned_version(&self) -> Option<String> {
        self.fetches(|fetched| fetched.version().map(str::to_owned))
    }

    /// The package or image of which it runs whatever version is newest, and how it would be written with one.
    pub fn unpinned(&self) -> Option<(String, String)> {
        self.fetches(|fetched| {
            let is_open = !fetched.is_elsewhere() && !fetched.is_pinned();
            is_open.then(|| (fetched.text.to_owned(), fetched.pinned_form()))
        })
    }

    fn fetches<T>(&self, told: impl FnOnce(Fetched<'_>) -> Option<T>) -> Option<T> {
        let Self::Stdio(stdio) = self else { return None };
        let args: Vec<_> = stdio.args.iter().map(ToString::to_string).collect();
        let words: Vec<_> = args.iter().map(String::as_str).collect();
        told(fetched(&stdio.command.to_string(), &words)?)
    }

    /// Transport, command, args and url: what decides whether an observation still speaks of the same server.
    pub fn identity(&self) -> Vec<String> {
        let mut all = vec![self.kind().as_str().to_owned()];
        match self {
            Self::Stdio(stdio) => {
                all.push(stdio.command.to_string());
                all.extend(stdio.args.iter().map(ToString::to_string));
            }
            Self::StreamableHttp(remote) | Self::Sse(remote) | Self::Websocket(remote) => {
                all.push(remote.url.to_string());
            }
        }
        all
    }
}
