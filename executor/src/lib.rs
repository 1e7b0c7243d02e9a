//! Runs a locked MCP plan.

pub mod core;
pub mod demo;
pub mod runtime;
