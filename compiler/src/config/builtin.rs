//! One entry of `mcp_builtins`: a name, or a map that overrides parts of the catalogue's entry.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};

use super::{Number, Text, Tools};
use crate::source::Spanned;

/// A server of the curated catalogue.
#[derive(Clone, Debug, Default)]
pub struct BuiltinEntry {
    /// What was written; a plain name is a map with only `name`.
    pub overrides: Overrides,
}

/// The map form of an entry.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "BuiltinOverrides", extend("patternProperties" = serde_json::json!({"^x-": true})))]
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
    pub defer: Option<bool>,
    /// `false` keeps the entry without ever connecting. Default: true.
    pub enabled: Option<bool>,
    /// Seconds for connecting and reading its lists. Above 0.
    #[schemars(extend("exclusiveMinimum" = 0))]
    pub timeout_seconds: Option<Spanned<Number>>,
}

impl<'de> Deserialize<'de> for BuiltinEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> serde::de::Visitor<'de> for Visitor {
            type Value = BuiltinEntry;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a builtin or a map")
            }
            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
                // The place of the name is the place of the entry, which the list keeps.
                let name = Spanned::new(text.to_owned(), crate::source::Span::default());
                Ok(BuiltinEntry { overrides: Overrides { name, ..Overrides::default() } })
            }
            fn visit_map<A: serde::de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let overrides = Overrides::deserialize(serde::de::value::MapAccessDeserializer::new(map))?;
                Ok(BuiltinEntry { overrides })
            }
        }
        deserializer.deserialize_any(Visitor)
    }
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
