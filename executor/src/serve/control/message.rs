//! What is asked and answered on a control socket.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::core::results::Text;
use crate::core::status::{McpStatus, PlanStatus, ServerStatus};

/// The version of these messages. One that isn't this is answered with a sentence and nothing else.
pub(super) const VERSION: u32 = 1;

/// What an executor is asked.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// How it stands.
    Status,
    /// To connect a server anew, and what came of it.
    Reconnect {
        /// Which.
        server: String,
    },
    /// To read its files now, and what came of it.
    Reload,
    /// To make a call.
    Call(CallRequest),
}

/// One call.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct CallRequest {
    /// The tool, as agents call it.
    pub tool: String,
    /// The arguments.
    pub arguments: Map<String, Value>,
    /// As which agent.
    pub agent: String,
    /// Where whoever asks works: absolute, symlinks resolved.
    pub workspace: Option<String>,
    /// What `~` means in the globs of workspaces.
    pub home: Option<String>,
}

/// What it answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// How it stands.
    Status(Box<Status>),
    /// How a server stands after it was connected anew, or was not.
    Reconnected(Box<ServerStatus>),
    /// What became of the files.
    Reload(Box<Reload>),
    /// A call's result, as the protocol writes it.
    Result(Text),
    /// What was asked for was not done, and why: a call that was denied or failed.
    Refused(String),
    /// The question makes no sense here, and why.
    CouldNot(String),
}

/// How an executor stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Itself.
    pub process: ProcessStatus,
    /// The absolute path of its config.
    pub config: String,
    /// What is laid over that.
    pub profile: Option<String>,
    /// What it serves.
    pub plan: PlanStatus,
    /// Its servers.
    pub mcp: McpStatus,
    /// The files as they are now, when they were refused.
    pub rejected: Option<RejectedStatus>,
}

/// A running executor.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProcessStatus {
    /// Its process id.
    pub pid: u32,
    /// The version of mcplan.
    pub version: String,
    /// Seconds that it has run.
    pub since: f64,
    /// Tasks that live in it: when nothing is going on, a figure that doesn't grow.
    pub tasks: usize,
    /// The agent that it serves.
    pub agent: String,
    /// The directory that this agent works in.
    pub workspace: Option<String>,
}

/// Files that were refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RejectedStatus {
    /// Seconds ago.
    pub since: f64,
    /// What is wrong with them.
    pub report: String,
}

/// What became of the files when they were read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reload {
    /// In a word.
    pub outcome: ReloadOutcome,
    /// What was served before.
    pub before: PlanStatus,
    /// What is served now.
    pub plan: PlanStatus,
    /// What happened to servers.
    pub changes: Vec<Change>,
    /// How those stand that were connected by it.
    pub servers: Vec<ServerStatus>,
    /// What a person should know of the files.
    pub warnings: Vec<String>,
    /// What is wrong with files that were refused.
    pub report: Option<String>,
}

/// What became of the files, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReloadOutcome {
    /// They say what was served already.
    Unchanged,
    /// They are served from now on.
    Reloaded,
    /// They were refused, and what was served before is served on.
    Rejected,
}

/// What happened to one server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Change {
    /// Its name.
    pub server: String,
    /// `added`, `changed` or `removed`.
    pub change: String,
}
