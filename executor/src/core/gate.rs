//! The one place that allows an operation. A connection takes only [`Allowed`], and only this file makes one.

use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::ExposedName;
use serde_json::{Map, Value};

/// One tool call, under the names that both sides use.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The server that owns the tool.
    pub server: ServerName,
    /// The tool as the server calls it.
    pub tool: String,
    /// The tool as the agent calls it.
    pub exposed: ExposedName,
    /// The arguments as the agent sent them.
    pub arguments: Map<String, Value>,
    /// The request's `_meta` without the keys that belong to the connection to the agent.
    pub meta: Map<String, Value>,
}

/// An operation that passed the gate.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowed<T>(T);

impl<T> Allowed<T> {
    /// What was allowed.
    pub fn get(&self) -> &T {
        &self.0
    }
}
