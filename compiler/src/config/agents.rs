//! `agents:`, what each agent sees.

use schemars::JsonSchema;
use serde::Deserialize;

use super::policy::AgentPolicy;
use crate::source::Spanned;

/// What one agent sees. `lead` sees everything that is not listed otherwise; any other agent only what is listed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    /// Patterns of its tools, tried against `tool`, `server__tool` and `mcp__server__tool`.
    #[schemars(extend("examples" = [["web__*"]]))]
    pub tools: Option<Vec<Spanned<String>>>,
    /// Patterns of its prompts, tried against the same three forms.
    #[schemars(extend("examples" = [["review_*"]]))]
    pub prompts: Option<Vec<Spanned<String>>>,
    /// Patterns of its resources, `SERVER:URI`; `*` stops at `/`, `**` does not.
    #[schemars(extend("examples" = [["filesystem:file:///srv/**"]]))]
    pub resources: Option<Vec<Spanned<String>>>,
    /// Narrows the global policy.
    pub policy: Option<AgentPolicy>,
}
