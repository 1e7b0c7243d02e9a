//! The clients whose files are written, and what they do to the names of tools.

/// A client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// Claude Code, `.mcp.json`.
    ClaudeCode,
    /// Claude Desktop, `claude_desktop_config.json`.
    ClaudeDesktop,
    /// Cursor, `.cursor/mcp.json`.
    Cursor,
    /// VS Code, `.vscode/mcp.json`.
    Vscode,
    /// Codex, `~/.codex/config.toml`.
    Codex,
}

impl Client {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::ClaudeCode, Self::ClaudeDesktop, Self::Cursor, Self::Vscode, Self::Codex];

    /// What people call it.
    pub fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::Vscode => "VS Code",
            Self::Codex => "Codex",
        }
    }

    /// Where its file is.
    pub fn file(self) -> &'static str {
        match self {
            Self::ClaudeCode => ".mcp.json",
            Self::ClaudeDesktop => "claude_desktop_config.json",
            Self::Cursor => ".cursor/mcp.json",
            Self::Vscode => ".vscode/mcp.json",
            Self::Codex => "~/.codex/config.toml",
        }
    }

    /// What it puts before the name of each tool of a server.
    pub fn prefix(self, server: &str) -> String {
        match self {
            Self::ClaudeCode | Self::Codex => format!("mcp__{server}__"),
            Self::Cursor | Self::Vscode => format!("mcp_{server}_"),
            Self::ClaudeDesktop => format!("{server}:"),
        }
    }

    /// The longest name of a tool that it takes, its own prefix included, in characters.
    pub fn name_limit(self) -> usize {
        match self {
            Self::Cursor => 60,
            _ => 64,
        }
    }
}
