//! What one agent sees. The filters say what exists, the policy what may be done, this whose it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::filter::first_match;
use super::policy::{Operation, Policy, SlashPattern};
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
        first_match(self.tools.as_deref().unwrap_or_default(), server, tool)
    }

    /// Whether some address of a server's that begins with `head` is among what the agent sees and may read, as far as
    /// that is plain to see.
    pub fn may_read_some(&self, server: &ServerName, head: &str) -> bool {
        let whole = format!("{server}:{head}");
        let is_seen = self.resources.as_ref().is_none_or(|patterns| {
            let heads = patterns.iter().map(|pattern| SlashPattern::new(pattern).head());
            heads.into_iter().any(|own| own.starts_with(&whole) || whole.starts_with(&own))
        });
        is_seen && self.policy.may_read_some(server, head)
    }

    /// Whether an operation is among what the agent sees; its policy is asked apart.
    pub fn sees(&self, operation: &Operation<'_>) -> bool {
        let listed = |patterns: &Option<Vec<Pattern>>, server: &ServerName, name: &str| {
            patterns.as_ref().is_none_or(|patterns| first_match(patterns, server, name).is_some())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(tools: &[&str], prompts: &[&str], resources: &[&str]) -> Agent {
        let patterns = |list: &[&str]| Some(list.iter().map(|text| Pattern::new(*text)).collect());
        let resources = Some(resources.iter().map(|text| (*text).to_owned()).collect());
        Agent { tools: patterns(tools), prompts: patterns(prompts), resources, policy: Policy::default() }
    }

    #[test]
    fn each_list_says_what_of_its_kind_is_seen() {
        let docs = ServerName::new("docs").unwrap();
        let web = ServerName::new("web").unwrap();
        let call = |server, tool| Operation::Call { server, tool, read_only: true };
        let invoke = |server, prompt| Operation::Invoke { server, prompt };
        let read = |server, uri| Operation::Read { server, uri };
        let list = |server| Operation::List { server };

        let lead = Agent::unlimited();
        let nothing = agent(&[], &[], &[]);
        let all = [call(&docs, "x"), invoke(&docs, "x"), read(&docs, "file:///x"), list(&docs)];
        for operation in &all {
            assert!(lead.sees(operation) && !nothing.sees(operation), "{operation:?}");
        }

        let some = agent(&["docs__*"], &["review", "mcp__web__plan"], &["docs:file:///docs/*", "web:**"]);
        for (operation, seen) in [
            (call(&docs, "review"), true),
            (call(&web, "review"), false),
            (invoke(&docs, "review"), true),
            (invoke(&web, "review"), true),
            (invoke(&web, "plan"), true),
            (invoke(&docs, "plan"), false),
            (read(&docs, "file:///docs/a.md"), true),
            (read(&docs, "file:///docs/inner/a.md"), false),
            (read(&docs, "file:///etc/passwd"), false),
            (read(&web, "https://example.com/a/b"), true),
            (list(&docs), true),
            (list(&web), true),
        ] {
            assert_eq!(some.sees(&operation), seen, "{operation:?}");
        }
        // One list says nothing of another kind.
        let only_prompts = agent(&[], &["*"], &[]);
        assert!(only_prompts.sees(&invoke(&docs, "x")));
        assert!(
            !all.iter().any(|operation| !matches!(operation, Operation::Invoke { .. }) && only_prompts.sees(operation))
        );
    }
}
