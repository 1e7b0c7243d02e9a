//! How agents are served, how search answers, and which programs add servers.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::Disclosure;
use crate::interpolate::Template;
use crate::name::ServerName;
use crate::plan::Digested;

/// How agents are served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Serve {
    /// How a session learns of deferred tools.
    pub disclosure: Disclosure,
    /// Characters that the client puts before our names; already taken off the limit of names.
    pub host_prefix: usize,
    /// The HTTP listener; `null` when the config has none.
    pub http: Option<Http>,
}

/// The HTTP listener.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Http {
    /// Address and port.
    pub listen: String,
    /// Agent to token.
    pub tokens: BTreeMap<String, Template>,
    /// Opens the routes that change or show the installation.
    pub admin_token: Option<Template>,
    /// Origins that a browser may come from.
    pub allowed_origins: Vec<String>,
    /// Host names besides loopback's.
    pub allowed_hosts: Vec<String>,
}

/// How `search_mcp_tools` answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Search {
    /// Tools in an answer that doesn't say how many.
    pub limit: usize,
    /// Tools that a session may have promoted.
    pub promote_limit: usize,
}

impl Default for Search {
    fn default() -> Self {
        Self { limit: 5, promote_limit: 50 }
    }
}

/// A program that says which servers to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plugin {
    /// Unique among plugins.
    pub name: ServerName,
    /// The program and its arguments.
    pub command: Vec<Template>,
    /// Variables besides a minimal environment.
    pub env: BTreeMap<String, Template>,
    /// Whether its servers run although `mcp.enabled` is false.
    pub activate: bool,
    /// What it printed when the plan was made; `null` when it wasn't run.
    pub output: Option<Digested>,
}
