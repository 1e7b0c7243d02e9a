//! Agents' side of the executor: what they see and how they ask for it.

pub mod mcp;
