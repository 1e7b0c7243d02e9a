//! What the user wrote, one concept a file. `None` is "not written": defaults live in [`crate::resolve`], never here.
//!
//! The doc comments of the fields are the user's documentation: they become the descriptions in the JSON schema that
//! editors show. A field that a later check names is [`Spanned`]. Old spellings never get here, they are renamed on the
//! document first ([`spelling`]).

pub mod builtin;
pub mod foreign;
pub mod mcp;
pub mod prompt;
pub mod server;
pub mod spelling;
mod values;

pub use builtin::BuiltinEntry;
pub use mcp::{Concurrency, Mcp, Reconnect};
pub use prompt::{Budget, Progressive, Prompt};
pub use server::{ServerEntry, Tools, When};
pub use values::{Number, Text};

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
    /// The MCP servers that the agent may use.
    pub mcp_servers: Option<Vec<Spanned<ServerEntry>>>,
    /// Servers from the curated catalogue, by name or as a map that overrides parts. `mcplan builtins` lists them.
    pub mcp_builtins: Option<Vec<Spanned<BuiltinEntry>>>,
    /// Settings for all servers.
    pub mcp: Option<Mcp>,
    /// The `<AVAILABLE_MCP_TOOLS>` block of the system prompt.
    pub prompt: Option<Prompt>,
    /// The block's budget in the spelling of older hosts. Use `prompt` in new files.
    #[schemars(extend("deprecated" = true))]
    pub progressive_mcp: Option<Spanned<Progressive>>,
}
