//! Permissions: what may be done to which server's tools, prompts and resources.

mod rule;
mod uri;

pub use rule::{Rule, RuleError, Verb};
pub use uri::{SlashPattern, normalize_uri};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Reaction, Verdict};
use crate::name::ServerName;

/// What may be done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// What holds where no rule does.
    pub default: Verdict,
    /// Never.
    pub deny: Vec<Rule>,
    /// The exceptions to `default: deny` and to `read_only`.
    pub allow: Vec<Rule>,
    /// Only tools that are locked as read-only, or that `allow` names.
    pub read_only: bool,
    /// What a change of a server's words leads to.
    pub on_drift: OnDrift,
}

/// A reaction for each class of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OnDrift {
    /// Layout and letter case.
    pub cosmetic: Reaction,
    /// Something optional was added.
    pub additive: Reaction,
    /// Other words.
    pub wording: Reaction,
    /// Something is gone or narrower.
    pub breaking: Reaction,
    /// What an attack would look like.
    pub suspicious: Reaction,
}

impl Default for OnDrift {
    fn default() -> Self {
        Self {
            cosmetic: Reaction::Accept,
            additive: Reaction::Accept,
            wording: Reaction::Warn,
            breaking: Reaction::Warn,
            suspicious: Reaction::Quarantine,
        }
    }
}

/// Something that an agent wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Call a tool.
    Call {
        /// Whose.
        server: &'a ServerName,
        /// As the server names it.
        tool: &'a str,
        /// Whether it is known to change nothing.
        read_only: bool,
    },
    /// Fetch a prompt.
    Invoke {
        /// Whose.
        server: &'a ServerName,
        /// As the server names it.
        prompt: &'a str,
    },
    /// Read a resource.
    Read {
        /// Whose.
        server: &'a ServerName,
        /// Normalised ([`normalize_uri`]).
        uri: &'a str,
    },
    /// List resources.
    List {
        /// Whose.
        server: &'a ServerName,
    },
}

impl Operation<'_> {
    fn verb(&self) -> Verb {
        match self {
            Self::Call { .. } => Verb::Call,
            Self::Invoke { .. } => Verb::Invoke,
            Self::Read { .. } => Verb::Read,
            Self::List { .. } => Verb::List,
        }
    }

    /// Whose it is.
    pub fn server(&self) -> &ServerName {
        match self {
            Self::Call { server, .. }
            | Self::Invoke { server, .. }
            | Self::Read { server, .. }
            | Self::List { server } => server,
        }
    }
}

/// Why an operation may not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// This rule of `deny`.
    Rule(&'a Rule),
    /// `default: deny`, and no rule of `allow`.
    Default,
    /// `read_only`, and the tool isn't known to change nothing.
    ReadOnly,
}

impl Policy {
    /// Decides: denied if a deny rule matches; else allowed by default or by an allow rule; then `read_only`.
    ///
    /// # Errors
    /// Why not.
    pub fn decide(&self, operation: &Operation<'_>) -> Result<(), Refusal<'_>> {
        if let Some(rule) = self.deny.iter().find(|rule| rule.matches(operation)) {
            return Err(Refusal::Rule(rule));
        }
        let named = self.allows(operation).is_some();
        if self.default == Verdict::Deny && !named {
            return Err(Refusal::Default);
        }
        match operation {
            Operation::Call { read_only: false, .. } if self.read_only && !named => Err(Refusal::ReadOnly),
            _ => Ok(()),
        }
    }

    /// Whether something may be read of a server's addresses that begin with `head`, as far as that is plain to see.
    pub fn may_read_some(&self, server: &ServerName, head: &str) -> bool {
        let is_denied = self.deny.iter().any(|rule| rule.reads_all(server, head));
        let is_allowed = self.default == Verdict::Allow || self.allow.iter().any(|rule| rule.may_read(server, head));
        is_allowed && !is_denied
    }

    /// The rule of `allow` that names an operation, whether it needs one or not.
    pub fn allows(&self, operation: &Operation<'_>) -> Option<&Rule> {
        self.allow.iter().find(|rule| rule.matches(operation))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str) -> ServerName {
        ServerName::new(name).unwrap()
    }

    fn policy(default: Verdict, deny: &[&str], allow: &[&str], read_only: bool) -> Policy {
        let rules = |texts: &[&str]| texts.iter().map(|text| Rule::parse(text).unwrap()).collect();
        Policy { default, deny: rules(deny), allow: rules(allow), read_only, on_drift: OnDrift::default() }
    }

    fn call(policy: &Policy, server_name: &str, tool: &str, read_only: bool) -> bool {
        policy.decide(&Operation::Call { server: &server(server_name), tool, read_only }).is_ok()
    }

    #[test]
    fn deny_then_default_or_allow_then_read_only() {
        let open = policy(Verdict::Allow, &["mcp:call:fs:write_*"], &["mcp:call:fs:write_log"], false);
        assert!(call(&open, "fs", "read", false));
        assert!(!call(&open, "fs", "write_log", false), "deny always wins");
        let closed = policy(Verdict::Deny, &[], &["mcp:call:fs:read_*", "mcp:call:g*:*"], false);
        assert!(call(&closed, "fs", "read_x", false) && call(&closed, "git", "anything", false));
        assert!(!call(&closed, "fs", "write", false));
        let careful = policy(Verdict::Allow, &[], &["mcp:call:fs:append"], true);
        assert!(call(&careful, "fs", "read", true) && call(&careful, "fs", "append", false));
        assert!(!call(&careful, "fs", "write", false));
    }
}
