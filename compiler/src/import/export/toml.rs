//! Codex's `config.toml`: one table a server.

use std::fmt::Write as _;

use super::server::Written;

/// The tables of all servers.
pub(super) fn file(servers: &[(String, Written)]) -> String {
    let tables: Vec<_> = servers.iter().map(|(name, written)| table(name, written)).collect();
    tables.join("\n")
}

fn table(name: &str, written: &Written) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "[mcp_servers.{}]", key(name));
    let mut put = |name: &str, value: String| {
        let _ = writeln!(out, "{name} = {value}");
    };
    if let Some(command) = &written.command {
        put("command", string(command));
        put("args", list(&written.args));
    }
    if let Some(url) = &written.url {
        put("url", string(url));
    }
    if let Some(bearer) = &written.bearer {
        put("bearer_token_env_var", string(bearer));
    }
    for (name, pairs) in
        [("env", &written.env), ("http_headers", &written.headers), ("env_http_headers", &written.header_variables)]
    {
        if !pairs.is_empty() {
            let pairs = pairs.iter().map(|(name, value)| format!("{} = {}", key(name), string(value)));
            put(name, format!("{{ {} }}", pairs.collect::<Vec<_>>().join(", ")));
        }
    }
    if !written.handed_on.is_empty() {
        put("env_vars", list(&written.handed_on));
    }
    if let Some(cwd) = &written.cwd {
        put("cwd", string(cwd));
    }
    if written.disabled {
        put("enabled", "false".to_owned());
    }
    if let Some(include) = &written.include {
        put("enabled_tools", list(include));
    }
    if !written.exclude.is_empty() {
        put("disabled_tools", list(&written.exclude));
    }
    for (name, seconds) in
        [("startup_timeout_sec", written.startup_seconds), ("tool_timeout_sec", written.call_seconds)]
    {
        if let Some(seconds) = seconds {
            put(name, seconds.to_string());
        }
    }
    out
}

fn key(name: &str) -> String {
    let bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    if bare { name.to_owned() } else { string(name) }
}

/// A basic string: that of JSON, but for one character that only TOML forbids.
fn string(text: &str) -> String {
    crate::json::string(text).replace('\u{7f}', "\\u007F")
}

fn list<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let texts: Vec<_> = texts.into_iter().map(|text| string(text)).collect();
    format!("[{}]", texts.join(", "))
}
