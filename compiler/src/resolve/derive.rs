//! A name for a server that has none, from what it starts or where it is.

use crate::config::ServerEntry;
use crate::name::ServerName;
use crate::package::{fetched, program};
use crate::secret::value_looks_secret;

/// Programs that start something else, which is what the server is about.
const LAUNCHERS: &[&str] = &[
    "npx", "uvx", "bunx", "pnpx", "npm", "pnpm", "yarn", "node", "tsx", "python", "python3", "uv", "deno", "bun",
    "docker", "podman", "sh", "bash", "cmd", "go", "pipx", "ruby", "java", "dotnet", "php",
];
/// Words of a launcher's own before the script or package.
const WORDS: &[&str] = &["run", "exec", "dlx", "tool", "x", "/c", "npx", "uvx", "start", "container"];
/// Options of launchers whose value is no name.
const VALUE_OPTIONS: &[&str] = &["--directory", "--project", "--with", "--python", "--env-file", "-C", "--cwd", "-e"];
/// What every package of this field is called as well.
const COMMON: &[&str] = &["mcp", "server", "mcp-server", "mcp_server"];

/// The name that an entry's launch suggests, if it suggests one.
pub(crate) fn derive(entry: &ServerEntry) -> Option<ServerName> {
    if let Some(url) = &entry.url {
        return host_name(&url.value);
    }
    let command = entry.command.as_ref()?.value.as_str();
    if !LAUNCHERS.contains(&program(command)) {
        return named(program(command));
    }
    let args: Vec<_> = entry.args.iter().flat_map(|args| &args.value).map(|arg| arg.value.0.as_str()).collect();
    if let Some(fetched) = fetched(command, &args) {
        return named(fetched.parts().0);
    }
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        if VALUE_OPTIONS.contains(&arg) {
            args.next();
        } else if !arg.starts_with('-') && !WORDS.contains(&arg) {
            return named(arg);
        }
    }
    None
}

/// `https://mcp.linear.app/mcp` → linear; a bare host or an address keeps its own name.
fn host_name(url: &str) -> Option<ServerName> {
    let authority = url.split_once("://")?.1.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    let host = if host.starts_with('[') { return None } else { host.split(':').next()? };
    if host.contains('$') {
        return None;
    }
    if host.split('.').all(|label| label.bytes().all(|byte| byte.is_ascii_digit())) {
        return ServerName::nearest(host);
    }
    let mut labels: Vec<_> = host.split('.').filter(|label| !matches!(*label, "mcp" | "www" | "api")).collect();
    if labels.len() > 1 {
        labels.pop();
        // `example.co.uk`: the name is before what is registered under.
        if labels.len() > 1 && labels.last().is_some_and(|label| matches!(*label, "co" | "com" | "org" | "net" | "ac"))
        {
            labels.pop();
        }
    }
    ServerName::nearest(labels.last()?)
}

/// The name of a package, image or script, where it holds no reference.
fn named(text: &str) -> Option<ServerName> {
    let mut parts = text.split(['/', '\\']).rev();
    let mut base = plain(parts.next()?);
    if COMMON.contains(&base)
        && let Some(outer) = parts.next()
    {
        base = plain(outer.trim_start_matches('@'));
    }
    if base.contains('$') || value_looks_secret(base) { None } else { ServerName::nearest(base) }
}

/// Without ending, version and the words every server has.
fn plain(base: &str) -> &str {
    let base = base.find('@').filter(|at| *at > 0).map_or(base, |at| &base[..at]);
    let base = [".py", ".js", ".mjs", ".cjs", ".ts", ".exe", ".jar", ".rb", ".php", ".sh", ".git"]
        .iter()
        .find_map(|ending| base.strip_suffix(ending))
        .unwrap_or(base);
    if COMMON.contains(&base) {
        return base;
    }
    let before = ["mcp-server-", "mcp_server_", "server-", "mcp-", "mcp_"];
    let base = before.iter().find_map(|word| base.strip_prefix(word)).unwrap_or(base);
    let after = ["-mcp-server", "_mcp_server", "-server", "_server", "-mcp", "_mcp"];
    after.iter().find_map(|word| base.strip_suffix(word)).unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Text;
    use crate::source::{Span, Spanned};

    fn derived(command: &str, args: &[&str]) -> String {
        let span = Span::default();
        let args = args.iter().map(|arg| Spanned::new(Text((*arg).to_owned()), span)).collect();
        let entry = ServerEntry {
            command: Some(Spanned::new(command.to_owned(), span)),
            args: Some(Spanned::new(args, span)),
            ..ServerEntry::default()
        };
        derive(&entry).map_or("-".to_owned(), |name| name.to_string())
    }

    fn from_url(url: &str) -> String {
        let entry = ServerEntry { url: Some(Spanned::new(url.to_owned(), Span::default())), ..ServerEntry::default() };
        derive(&entry).map_or("-".to_owned(), |name| name.to_string())
    }

    #[test]
    fn names_come_from_packages_images_and_scripts() {
        assert_eq!(derived("npx", &["-y", "@modelcontextprotocol/server-filesystem@1.2", "/data"]), "filesystem");
        assert_eq!(derived("uvx", &["mcp-server-git==2026.1.1"]), "git");
        assert_eq!(derived("uvx", &["--from", "git+https://example.com/acme/notes-mcp.git", "x"]), "notes");
        assert_eq!(derived("python", &["examples/mcp/echo_server.py"]), "echo");
        assert_eq!(derived("python", &["-m", "mcp_server_time"]), "time");
        assert_eq!(derived("/opt/bin/weather-mcp", &[]), "weather");
        assert_eq!(derived("cmd", &["/c", "npx", "-y", "@playwright/mcp@latest"]), "playwright");
        assert_eq!(derived("docker", &["run", "-i", "-e", "A_TOKEN", "ghcr.io/acme/mcp:1"]), "acme");
        assert_eq!(derived("uv", &["--directory", "/srv/tools", "run", "weather.py"]), "weather");
        assert_eq!(derived("npx", &["-y"]), "-");
        assert_eq!(derived("npx", &["${PACKAGE}"]), "-");
        assert_eq!(derived("${BIN}", &[]), "-");
        assert_eq!(derived("${DIR}/notes-mcp", &[]), "notes");
    }

    #[test]
    fn names_come_from_hosts() {
        assert_eq!(from_url("https://mcp.linear.app/mcp"), "linear");
        assert_eq!(from_url("http://localhost:3000/mcp"), "localhost");
        assert_eq!(from_url("https://example.com/mcp"), "example");
        assert_eq!(from_url("https://user:password@api.example.co.uk/mcp"), "example");
        assert_eq!(from_url("http://127.0.0.1:3000/mcp"), "127.0.0.1");
        assert_eq!(from_url("http://[::1]:3000/mcp"), "-");
        assert_eq!(from_url("https://${HOST}/mcp"), "-");
        assert_eq!(from_url("https://mcp/"), "-");
        assert_eq!(from_url("${URL}"), "-");
    }
}
