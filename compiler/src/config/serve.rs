//! `serve:` and `search:`, how agents are served.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Text;
use crate::source::Spanned;

/// How agents are served.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Serve {
    /// How a session learns of deferred tools. Default: auto.
    pub disclosure: Option<Spanned<Disclosure>>,
    /// Characters that the client puts before our names; they are taken off `mcp.name_limit`. Default: 0.
    #[schemars(range(min = 0, max = 100))]
    pub host_prefix: Option<Spanned<u64>>,
    /// The HTTP listener.
    pub http: Option<Http>,
}

/// How a session learns of deferred tools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Disclosure {
    /// Bridge for clients without initialize, promote for the others.
    #[default]
    Auto,
    /// Search promotes tools into the list.
    Promote,
    /// The list stays the same; `call_mcp_tool` calls what search found.
    Bridge,
    /// Every tool is listed.
    All,
}

/// The HTTP listener.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Address and port. Anywhere but on loopback only with `tokens`. Default: 127.0.0.1:8765.
    #[schemars(example = &"127.0.0.1:8765")]
    pub listen: Option<Spanned<String>>,
    /// The token of each agent, by the agent's name.
    #[schemars(extend("examples" = [{ "lead": "${MCPLAN_TOKEN}" }]))]
    pub tokens: Option<BTreeMap<Spanned<String>, Spanned<Text>>>,
    /// Opens the routes that change or show the installation.
    #[schemars(extend("examples" = ["${MCPLAN_ADMIN_TOKEN}"]))]
    pub admin_token: Option<Spanned<Text>>,
    /// Origins that a browser may come from.
    #[schemars(extend("examples" = [["https://example.com"]]))]
    pub allowed_origins: Option<Vec<Spanned<String>>>,
    /// Host names that the listener answers to, besides loopback's.
    #[schemars(extend("examples" = [["mcp.example.com"]]))]
    pub allowed_hosts: Option<Vec<Spanned<String>>>,
}

/// How `search_mcp_tools` answers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Search {
    /// Tools in an answer that doesn't say how many. Default: 5.
    #[schemars(range(min = 1, max = 50))]
    pub limit: Option<u64>,
    /// Tools that a session may have promoted; the least recently used ones leave. Default: 50.
    #[schemars(range(min = 1, max = 1000))]
    pub promote_limit: Option<u64>,
}
