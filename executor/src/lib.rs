//! Runs a locked MCP plan.
//!
//! ```text
//! cli → runtime, serve → core → compiler
//! ```
//!
//! `core` decides without IO, `runtime` keeps servers connected, `serve` is what agents talk to, `cli` is the command
//! line. The protocol crate is known to a handful of files at the edges of `runtime` and `serve`, and nowhere else.

pub mod cli;
pub mod core;
pub mod demo;
pub mod event;
pub mod runtime;
pub mod serve;
