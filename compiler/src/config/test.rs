//! One entry of `tests:`, something that must hold of the locked plan.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::source::Spanned;

/// Something that must hold. Exactly one of `search`, `call`, `listed`, `deferred` and `block` says what is looked at.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// A query; `expect: { tool, top }` says which tool must be among the first how many, by default the first.
    #[schemars(extend("examples" = ["open a pull request"]))]
    pub search: Option<Spanned<String>>,
    /// A tool by its exposed name; `expect` is allowed, denied or hidden. Nothing is contacted.
    #[schemars(extend("examples" = ["mcp__github__delete_repository"]))]
    pub call: Option<Spanned<String>>,
    /// A tool by its exposed name; `expect` says whether it is in the agent's list from the start.
    #[schemars(extend("examples" = ["mcp__filesystem__list_directory"]))]
    pub listed: Option<Spanned<String>>,
    /// A tool by its exposed name; `expect` says whether it is found by search instead.
    #[schemars(extend("examples" = ["mcp__filesystem__read_file"]))]
    pub deferred: Option<Spanned<String>>,
    /// What the prompt block must be like.
    #[schemars(extend("examples" = [{ "max_chars": 2000, "contains": ["github"], "omits": ["delete_"] }]))]
    pub block: Option<Spanned<BlockTest>>,
    /// As which agent; servers with `workspaces` are there wherever it works. Default: lead.
    pub agent: Option<Spanned<String>>,
    /// What must come out.
    #[schemars(
        extend("type" = ["object", "string", "boolean"]),
        extend("examples" = ["denied", true, { "tool": "mcp__github__create_pull_request", "top": 3 }])
    )]
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
    pub max_tokens: Option<u64>,
    /// Texts that must be in it.
    pub contains: Option<Vec<Spanned<String>>>,
    /// Texts that must not.
    pub omits: Option<Vec<Spanned<String>>>,
}
