//! What the user wrote, one concept a file. `None` is "not written": defaults live in [`crate::resolve`], never here.
//!
//! The doc comments of the fields are the user's documentation: they become the descriptions in the JSON schema that
//! editors show. A field that a later check names is [`Spanned`]. Old spellings never get here, they are renamed on the
//! document first ([`spelling`]).

pub mod agents;
pub mod builtin;
pub mod foreign;
pub mod mcp;
pub mod plugin;
pub mod policy;
pub mod prompt;
pub mod serve;
pub mod server;
pub mod spelling;
pub mod test;
mod values;

pub use agents::Agent;
pub use builtin::BuiltinEntry;
pub use mcp::{Concurrency, Mcp, Reconnect};
pub use plugin::Plugin;
pub use policy::{OnDrift, Policy, Reaction, Verdict};
pub use prompt::{Budget, Progressive, Prompt};
pub use serve::{Disclosure, Search, Serve};
pub use server::{ServerEntry, Tools, When};
pub use test::Test;
pub use values::{MAX_SECONDS, Number, Text};

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::source::Spanned;

/// The whole of `config.yml`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "mcplan configuration", extend("$id" = "urn:mcplan:schema:config:1"))]
pub struct Config {
    /// Version of the configuration language. Only 1 exists.
    #[schemars(extend("const" = 1))]
    pub version: Option<Spanned<Number>>,
    /// Further files with servers, relative to this one: paths or globs. They may hold `mcp_servers`, `mcp_builtins`,
    /// `mcp.denylist`, `policy.deny` and `tests`.
    #[schemars(extend("examples" = [["teams/*.yml"]]))]
    pub fragments: Option<Vec<Spanned<String>>>,
    /// The MCP servers that the agent may use.
    #[schemars(extend("examples" = [
        [{ "name": "filesystem", "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem@2026.8.31", "."] }],
        [{ "name": "weather", "url": "https://example.com/mcp" }]
    ]))]
    pub mcp_servers: Option<Vec<Spanned<ServerEntry>>>,
    /// Servers from the curated catalogue, by name or as a map that overrides parts. `mcplan builtins` lists them.
    #[schemars(extend("examples" = [["github", "playwright"], [{ "name": "github", "as": "gh", "tools": { "include": ["get_*"] } }]]))]
    pub mcp_builtins: Option<Vec<Spanned<BuiltinEntry>>>,
    /// Settings for all servers.
    pub mcp: Option<Mcp>,
    /// What may be done.
    pub policy: Option<Policy>,
    /// What each agent sees. `lead` always exists and sees what policy leaves.
    #[schemars(extend("examples" = [{ "researcher": { "tools": ["web__*"] } }]))]
    pub agents: Option<BTreeMap<Spanned<String>, Spanned<Agent>>>,
    /// The `<AVAILABLE_MCP_TOOLS>` block of the system prompt.
    pub prompt: Option<Prompt>,
    /// How `search_mcp_tools` answers.
    pub search: Option<Search>,
    /// How agents are served.
    pub serve: Option<Serve>,
    /// Directories of local skills, merged into the listing of slash commands.
    #[schemars(extend("examples" = [[".agents/skills"]]))]
    pub skills: Option<Vec<Spanned<String>>>,
    /// Programs that say which servers to run.
    #[schemars(extend("examples" = [[{ "name": "google", "command": ["./plugins/google-mcp"] }]]))]
    pub plugins: Option<Vec<Spanned<Plugin>>>,
    /// What must hold of the locked plan; `mcplan test` checks it.
    #[schemars(extend("examples" = [[{ "call": "mcp__github__delete_repository", "expect": "denied" }]]))]
    pub tests: Option<Vec<Spanned<Test>>>,
    /// The block's budget in the spelling of older hosts. Use `prompt` in new files.
    #[schemars(extend("deprecated" = true))]
    pub progressive_mcp: Option<Spanned<Progressive>>,
}
