//! One entry of `mcp_builtins`: a name, or a map that overrides parts of the catalogue's entry.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::Deserialize;

use super::{MAX_SECONDS, Number, Text, Tools};
use crate::source::Spanned;

/// A server of the curated catalogue. A plain name was made a map with only `name` before it gets here.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct BuiltinEntry(pub Overrides);

/// The map form of an entry.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BuiltinOverrides")]
pub struct Overrides {
    /// The catalogue's name.
    pub name: Spanned<String>,
    /// Another name for the server, for instance to use one builtin twice.
    pub r#as: Option<Spanned<String>>,
    /// Another version of the package than the catalogue's.
    pub version: Option<Spanned<Text>>,
    /// Further variables, or other values for those that the catalogue sets.
    pub env: Option<BTreeMap<Spanned<String>, Spanned<Text>>>,
    /// Which of its tools remain.
    pub tools: Option<Tools>,
    /// Whether its tools are deferred. Default: true.
    pub defer: Option<Spanned<bool>>,
    /// `false` keeps the entry without ever connecting. Default: true.
    pub enabled: Option<Spanned<bool>>,
    /// Seconds for connecting and reading its lists. Above 0.
    #[schemars(extend("exclusiveMinimum" = 0), range(max = MAX_SECONDS))]
    pub timeout_seconds: Option<Spanned<Number>>,
}

impl JsonSchema for BuiltinEntry {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "BuiltinEntry".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let map = generator.subschema_for::<Overrides>();
        // Not `oneOf`: its errors say only that nothing fitted.
        schemars::json_schema!({
            "description": "The name of a builtin, or a map that overrides parts of it.",
            "type": ["string", "object"],
            "if": { "type": "object" },
            "then": map,
        })
    }
}
