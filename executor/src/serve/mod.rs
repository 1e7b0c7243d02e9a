//! What agents, and people through `mcplan status` and its like, talk to.

mod allow;
pub mod control;
pub mod http;
pub mod mcp;
