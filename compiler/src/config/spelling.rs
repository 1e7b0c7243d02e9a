//! Old and foreign spellings, and the one word that each becomes. Applied to the document before the schema is, so that
//! the types know one word per concept; messages keep the word that was written.

use crate::document::Rename;

const fn spelling(at: &'static str, from: &'static str, to: &'static str) -> Rename {
    Rename { at, from, to }
}

/// All of them.
pub const SPELLINGS: &[Rename] = &[
    spelling("mcp_servers[]", "tool_filter", "tools.include"),
    spelling("mcp_servers[]", "auth.headers", "headers"),
    spelling("mcp_servers[]", "call_timeout", "call_timeout_seconds"),
    spelling("mcp_servers[]", "tool_timeout_seconds", "call_timeout_seconds"),
    spelling("mcp_servers[]", "persistent", "persistent_sessions"),
    spelling("mcp.servers[]", "persistent", "persistent_sessions"),
    spelling("mcp", "persistent", "persistent_sessions"),
    spelling("mcp.servers[]", "tool_filter", "tools.include"),
    spelling("mcp.servers[]", "auth.headers", "headers"),
    spelling("mcp.servers[]", "call_timeout", "call_timeout_seconds"),
    spelling("mcp.servers[]", "tool_timeout_seconds", "call_timeout_seconds"),
    spelling("mcp", "call_timeout", "call_timeout_seconds"),
    spelling("mcp", "tool_timeout_seconds", "call_timeout_seconds"),
];
