//! One entry of `tests:`, something that must hold of the locked plan.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Number;
use crate::source::Spanned;

/// Something that must hold. Exactly one of `search`, `call`, `listed`, `deferred` and `block` says what is looked at.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// A query; `expect: { tool, top }` says which tool must be among the first how many, by default the first.
    pub search: Option<Spanned<String>>,
    /// A tool by its exposed name; `expect` is allowed, denied or hidden. Nothing is contacted.
    pub call: Option<Spanned<String>>,
    /// A tool by its exposed name; `expect` says whether it is in the agent's list from the start.
    pub listed: Option<Spanned<String>>,
    /// A tool by its exposed name; `expect` says whether it is found by search instead.
    pub deferred: Option<Spanned<String>>,
    /// What the prompt block must be like.
    pub block: Option<Spanned<BlockTest>>,
    /// As which agent; servers with `workspaces` are there wherever it works. Default: lead.
    pub agent: Option<Spanned<String>>,
    /// What must come out.
    #[schemars(extend("type" = ["object", "string", "boolean"]))]
    pub expect: Option<Spanned<serde_json::Value>>,
}

/// What the prompt block must be like.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BlockTest {
    /// Characters, at most.
    #[schemars(range(min = 0))]
    pub max_chars: Option<u64>,
    /// Tokens of o200k_base, at most.
    #[schemars(range(min = 0))]
    pub max_tokens: Option<Number>,
    /// Texts that must be in it.
    pub contains: Option<Vec<Spanned<String>>>,
    /// Texts that must not.
    pub omits: Option<Vec<Spanned<String>>>,
}
