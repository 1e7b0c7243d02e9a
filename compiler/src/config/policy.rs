//! `policy:` and the part of it that an agent may have.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::source::Spanned;

/// What may be done. A rule is `mcp:call:SERVER:TOOL`, `mcp:invoke:SERVER:PROMPT`, `mcp:read:SERVER:URI` or
/// `mcp:list:SERVER`; `*` stays within a segment, in a URI it stops at `/` and `**` does not.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// What holds where no rule does. Default: allow.
    pub default: Option<Spanned<Verdict>>,
    /// Never, whatever else says so.
    #[schemars(extend("examples" = [["mcp:call:filesystem:write_*", "mcp:read:*:file:///etc/**"]]))]
    pub deny: Option<Vec<Spanned<String>>>,
    /// Matters under `default: deny`, and as the exception to `read_only`.
    #[schemars(extend("examples" = [["mcp:call:filesystem:read_*", "mcp:list:filesystem"]]))]
    pub allow: Option<Vec<Spanned<String>>>,
    /// Only tools whose `readOnlyHint` is locked as true, or that `allow` names. Default: false.
    pub read_only: Option<Spanned<bool>>,
    /// What a change of a server's words since it was locked leads to, by class.
    pub on_drift: Option<OnDrift>,
}

/// The policy of one agent; it can only narrow the global one.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentPolicy {
    /// What holds where no rule does. Default: allow.
    pub default: Option<Spanned<Verdict>>,
    /// Never, whatever else says so.
    #[schemars(extend("examples" = [["mcp:call:filesystem:write_*"]]))]
    pub deny: Option<Vec<Spanned<String>>>,
    /// Matters under `default: deny`, and as the exception to `read_only`.
    #[schemars(extend("examples" = [["mcp:call:filesystem:read_*", "mcp:list:filesystem"]]))]
    pub allow: Option<Vec<Spanned<String>>>,
    /// Only tools whose `readOnlyHint` is locked as true, or that `allow` names. Default: false.
    pub read_only: Option<Spanned<bool>>,
}

/// What holds where no rule does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may be done.
    #[default]
    Allow,
    /// It may not.
    Deny,
}

/// A reaction for each class of change. Defaults: cosmetic and additive accept, wording and breaking warn, suspicious
/// quarantine.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OnDrift {
    /// White space, punctuation, letter case, titles, icons.
    pub cosmetic: Option<Reaction>,
    /// Tools, prompts, optional parameters that were added.
    pub additive: Option<Reaction>,
    /// Other words in a description or the instructions.
    pub wording: Option<Reaction>,
    /// Tools that are gone, parameters that were narrowed.
    pub breaking: Option<Reaction>,
    /// Hidden characters, changed hints, new hosts, injected instructions.
    pub suspicious: Option<Reaction>,
}

/// What a change leads to; each more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reaction {
    /// Nothing happens.
    Accept,
    /// An event is sent and logged.
    Warn,
    /// That tool is hidden until it is locked again.
    Quarantine,
    /// The whole server is hidden.
    Refuse,
}

impl Reaction {
    /// The word for it, as it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Warn => "warn",
            Self::Quarantine => "quarantine",
            Self::Refuse => "refuse",
        }
    }

    /// What happens then.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Accept => "nothing is said",
            Self::Warn => "it is logged, and the tool stays",
            Self::Quarantine => "the tool is hidden until it is locked again",
            Self::Refuse => "the whole server is hidden",
        }
    }
}
