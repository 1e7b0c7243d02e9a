//! What the compiler decided: every id, filter, limit and name pattern, with nothing left open.
//!
//! A plan holds references to secrets, never a value; no absolute path; no `Option` that means "undecided". It
//! serialises into the lock, and two plans are the same exactly when they serialise the same.

mod agent;
mod digested;
mod filter;
mod naming;
mod policy;
mod serve;
mod server;

pub use agent::{Agent, LEAD};
pub use digested::Digested;
pub use filter::{Dropped, Reading, ToolFilter, tool_strings};
pub use naming::{ExposedName, NameChange, NameTable, Naming, OWN_TOOLS, sanitize, suffix};
pub use policy::{OnDrift, Operation, Policy, Refusal, Rule, RuleError, SlashPattern, Verb, normalize_uri};
pub use serve::{Http, Plugin, Search, Serve};
pub use server::{
    Connect, Environment, Launch, Limits, Origin, Reconnect, Remote, Replace, Restart, Server, Stdio, TransportKind,
};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::ServerName;
use crate::pattern::Pattern;

/// Everything that the executor needs to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Whether anything is connected at all (`mcp.enabled`).
    pub enabled: bool,
    /// The servers, in config order: `mcp_servers`, `mcp.servers`, builtins.
    pub servers: Vec<Server>,
    /// Patterns of tools that are never offered, whatever else says so.
    pub denylist: Vec<Pattern>,
    /// Names of the host's own tools; a server's tool of such a name is not bound.
    pub reserved: Vec<String>,
    /// A PEM file of further certificates for remote servers, relative to the main file.
    pub ca_bundle: Option<String>,
    /// What may be done.
    pub policy: Policy,
    /// The agents by name; `lead` is always there.
    pub agents: BTreeMap<String, Agent>,
    /// How exposed names are made.
    pub naming: Naming,
    /// How many servers connect at the same time.
    pub concurrency: Concurrency,
    /// The prompt block.
    pub prompt: Prompt,
    /// How `search_mcp_tools` answers.
    pub search: Search,
    /// How agents are served.
    pub serve: Serve,
    /// Directories of local skills, relative to the main file.
    pub skills: Vec<String>,
    /// Programs that say which servers to run.
    pub plugins: Vec<Plugin>,
}

/// How many servers connect at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Concurrency {
    /// Processes being started.
    pub stdio: usize,
    /// Remote servers being connected.
    pub remote: usize,
}

/// How the `<AVAILABLE_MCP_TOOLS>` block is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Prompt {
    /// The most the block may cost.
    pub budget: Budget,
    /// Longest description shown when descriptions are cut, in characters.
    pub max_description_chars: usize,
    /// Shortest description worth showing, in characters; below it only names are shown.
    pub min_description_chars: usize,
    /// What renders it.
    pub template: PromptTemplate,
}

/// The most a prompt block may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// Unicode scalar values.
    Chars(usize),
    /// Tokens of o200k_base.
    Tokens(usize),
}

/// The text of a prompt template.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromptTemplate {
    /// The file it came from as the config names it, or `builtin`.
    pub from: String,
    /// The minijinja text.
    #[serde(flatten)]
    pub content: Digested,
}

impl Plan {
    /// The server of that name.
    pub fn server(&self, name: &str) -> Option<&Server> {
        self.servers.iter().find(|server| server.name.as_str() == name)
    }

    /// The plan as canonical JSON text: equal texts, equal plans.
    pub fn text(&self) -> String {
        crate::json::text(self)
    }

    /// SHA-256 over [`Plan::text`].
    pub fn digest(&self) -> String {
        crate::json::digest(self.text().as_bytes())
    }

    /// Whether a tool of `server` is offered, by the filters alone.
    ///
    /// # Errors
    /// The rule that drops it.
    pub fn keeps<'a>(&'a self, server: &'a Server, tool: &str) -> Result<(), Dropped<'a>> {
        server.tools.keeps(&server.name, tool)?;
        self.denied(&server.name, tool).map_or(Ok(()), |pattern| Err(Dropped::Denylist(pattern)))
    }

    /// The pattern of `mcp.denylist` that names a tool.
    pub fn denied(&self, server: &ServerName, tool: &str) -> Option<&Pattern> {
        filter::first_match(&self.denylist, server, tool)
    }
}
