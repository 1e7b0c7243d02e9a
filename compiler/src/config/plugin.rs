//! One entry of `plugins:`, a program that says which servers to run.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Text;
use crate::source::Spanned;

/// A program that gets the config as JSON on stdin and prints `{"servers": [...]}`, empty when nothing should run. It has
/// 10 seconds. Its servers replace those of the same name.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Plugin {
    /// Unique among plugins.
    #[schemars(example = &"google")]
    pub name: Spanned<String>,
    /// The program and its arguments. A program with a slash is relative to this file.
    #[schemars(extend("examples" = [["./plugins/google-mcp"]]), extend("minItems" = 1))]
    pub command: Spanned<Vec<Spanned<Text>>>,
    /// Variables it gets besides a minimal environment.
    #[schemars(extend("examples" = [{ "GOOGLE_PROFILE": "work" }]))]
    pub env: Option<BTreeMap<Spanned<String>, Spanned<Text>>>,
    /// Whether its servers run although `mcp.enabled` is false. Default: true.
    pub activate: Option<bool>,
}
