//! [`Document`](crate::document::Document) → typed config, in two steps.
//!
//! [`check`] holds the document against the schema that the config types themselves generate, and reports everything
//! that doesn't fit, in our words and at its place. [`decode`] then fills the types and keeps positions. What passes the
//! first step passes the second: if it doesn't, that is a bug of ours and reported as one.

mod check;
mod de;
mod limit;
mod mend;
mod path;
mod schema;
mod words;

pub use check::{check, to_json};
pub use de::decode;
pub use mend::mend;
pub use schema::{CompiledSchema, schema_of};

#[cfg(test)]
mod tests;
