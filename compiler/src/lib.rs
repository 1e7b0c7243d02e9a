//! Compiles an agent's MCP configuration into a locked plan.
//!
//! ```text
//! path ─read─► Source ─parse─► Document ─decode─► Config ─resolve─► Plan ─lock─► Lock
//! ```
//!
//! One type a phase, one function an arrow; each arrow yields a value and the diagnostics it has to give. Nothing in
//! this crate opens a socket, reads a clock or looks at the environment: files come through [`source::Sources`], and
//! what servers report comes in as [`observed::Observed`].

pub mod builtins;
pub mod code;
mod compile;
pub mod config;
pub mod decode;
pub mod diagnostic;
pub mod document;
pub mod edit;
pub mod expectation;
pub mod explain;
pub mod hidden;
pub mod import;
pub mod include;
pub mod interpolate;
pub mod json;
pub mod lint;
pub mod lock;
pub mod name;
pub mod observed;
pub mod package;
pub mod pattern;
pub mod places;
pub mod plan;
pub mod prompt_template;
pub mod render;
pub mod resolve;
pub mod schema;
pub mod secret;
pub mod source;

pub use compile::{Compilation, Options, compile, compile_with};
