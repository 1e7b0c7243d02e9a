//! What one agent sees. The filters say what exists, the policy what may be done, this whose it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::filter::first_match;
use super::policy::{Operation, Policy, SlashPattern};
use super::tool_strings;
use crate::name::ServerName;
use crate::pattern::Pattern;

/// The agent that always exists.
pub const LEAD: &str = "lead";

/// One agent's share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// Patterns of its tools; `null` is all, which only `lead` can have.
    pub tools: Option<Vec<Pattern>>,
    /// Patterns of its prompts.
    pub prompts: Option<Vec<Pattern>>,
    /// Patterns of its resources, `SERVER:URI`.
    pub resources: Option<Vec<String>>,
    /// Narrows the global policy.
    pub policy: Policy,
}

impl Agent {
    /// An agent that sees everything.
    pub fn unlimited() -> Self {
        Self { tools: None, prompts: None, resources: None, policy: Policy::default() }
    }

    /// Whether it sees everything that exists.
    pub fn is_unlimited(&self) -> bool {
        *self == Self::unlimited()
    }

    /// The pattern of `tools` that names a tool.
    pub fn lists(&self, server: &ServerName, tool: &str) -> Option<&Pattern> {
        first_match(self.tools.as_deref().unwrap_or_default(), &tool_strings(server, tool))
    }

    /// Whether an operation is among what the agent sees; its policy is asked apart.
    pub fn sees(&self, operation: &Operation<'_>) -> bool {
        let listed = |patterns: &Option<Vec<Pattern>>, server: &ServerName, name: &str| {
            patterns.as_ref().is_none_or(|patterns| first_match(patterns, &tool_strings(server, name)).is_some())
        };
        match operation {
            Operation::Call { server, tool, .. } => self.tools.is_none() || self.lists(server, tool).is_some(),
            Operation::Invoke { server, prompt } => listed(&self.prompts, server, prompt),
            Operation::Read { server, uri } => self.resources.as_ref().is_none_or(|patterns| {
                let whole = format!("{server}:{uri}");
                patterns.iter().any(|pattern| SlashPattern::new(pattern).matches(&whole))
            }),
            Operation::List { .. } => self.resources.as_ref().is_none_or(|patterns| !patterns.is_empty()),
        }
    }
}
