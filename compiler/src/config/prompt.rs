//! `prompt:`, the `<AVAILABLE_MCP_TOOLS>` block.

use schemars::JsonSchema;
use serde::Deserialize;

use super::Number;
use crate::source::Spanned;

/// The `<AVAILABLE_MCP_TOOLS>` block of the system prompt.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// The most the block may cost, tags and names included. Default: 2000 characters.
    #[schemars(extend("examples" = [{ "chars": 2000 }, { "tokens": 500 }, { "context": 200000, "percent": 1.0 }]))]
    pub budget: Option<Spanned<Budget>>,
    /// Longest description when descriptions have to be cut, in characters. Default: 250.
    #[schemars(range(min = 1))]
    pub max_description_chars: Option<Spanned<u64>>,
    /// Shortest description worth showing, in characters; below it only names are shown. Default: 20.
    #[schemars(range(min = 1))]
    pub min_description_chars: Option<Spanned<u64>>,
    /// A minijinja file that renders the block, relative to this file. Default: the built-in one.
    #[schemars(extend("examples" = ["prompts/tools.j2"]))]
    pub template: Option<Spanned<String>>,
}

/// The most the block may cost: `chars`, or `tokens`, or a `percent` of a `context` window.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Unicode characters.
    #[schemars(range(min = 1))]
    pub chars: Option<u64>,
    /// Tokens of o200k_base.
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// The model's context window; `percent` of it is the budget, in characters.
    #[schemars(range(min = 1))]
    pub context: Option<u64>,
    /// Percent of `context`. Above 0.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 100))]
    pub percent: Option<Number>,
}

/// The block's budget as older hosts write it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Progressive {
    /// A fraction of a context window of 200 000: 0.01 is 2000 characters.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = 1))]
    pub budget_pct: Option<Spanned<Number>>,
    /// Same as `prompt.max_description_chars`.
    #[schemars(range(min = 1))]
    pub max_listing_chars_per_entry: Option<Spanned<u64>>,
    /// Same as `prompt.min_description_chars`.
    #[schemars(range(min = 1))]
    pub min_listing_chars_per_entry: Option<Spanned<u64>>,
}
