//! Names of servers: checked, unique, also after the characters that tools can't hold are replaced.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::config::ServerEntry;
use crate::diagnostic::Diagnostic;
use crate::name::{NameError, ServerName};
use crate::plan::{Naming, sanitize};
use crate::source::{Span, Spanned};

use super::Resolver;

/// The names that are taken, and where.
#[derive(Default)]
pub(super) struct Names {
    taken: BTreeMap<ServerName, Span>,
    exposed: BTreeMap<String, Spanned<ServerName>>,
}

impl Names {
    pub(super) fn place(&self, name: &ServerName) -> Option<Span> {
        self.taken.get(name).copied()
    }
}

impl Resolver<'_> {
    /// The entry's own name, if it has one that is valid.
    pub(super) fn written_name(&mut self, entry: &Spanned<ServerEntry>) -> Option<Spanned<ServerName>> {
        self.check_name(entry.value.name.as_ref()?)
    }

    pub(super) fn check_name(&mut self, written: &Spanned<String>) -> Option<Spanned<ServerName>> {
        match ServerName::new(&*written.value) {
            Ok(name) if sanitize(name.as_str()).contains("__") => {
                let message = format!("`{name}` becomes `{}` in exposed names", sanitize(name.as_str()));
                self.report(
                    Diagnostic::new(Code::BadServerName, written.at, message)
                        .help("`__` separates server and tool there; leave out the `.` beside the `_`"),
                );
                None
            }
            Ok(name) => Some(Spanned::new(name, written.at)),
            Err(error) => {
                let mut diagnostic = Diagnostic::new(Code::BadServerName, written.at, error.to_string());
                if let NameError::Empty = error {
                    diagnostic = diagnostic.help("give it a name, or leave `name` out to have one derived");
                } else if let Some(nearest) = ServerName::nearest(&written.value) {
                    diagnostic = diagnostic.help(format!("for instance `{nearest}`"));
                }
                self.report(diagnostic);
                None
            }
        }
    }

    /// Takes a name; a second taker is an error that shows both places.
    pub(super) fn claim(&mut self, names: &mut Names, name: &Spanned<ServerName>, naming: &Naming) {
        if let Some(first) = names.place(&name.value) {
            self.report(
                Diagnostic::new(Code::DuplicateServer, name.at, format!("two servers are called `{}`", name.value))
                    .label("again here")
                    .related(first, "first here")
                    .help("rename one of them"),
            );
            return;
        }
        names.taken.insert(name.value.clone(), name.at);
        if !naming.separates_servers() {
            return;
        }
        let exposed = sanitize(name.value.as_str());
        if let Some(other) = names.exposed.get(&exposed) {
            let message = format!("`{}` and `{}` both become `{exposed}` in exposed names", other.value, name.value);
            self.report(
                Diagnostic::new(Code::ServerNamesCollide, name.at, message)
                    .related(other.at, "the other one")
                    .help("characters other than letters, digits, `_` and `-` become `_` there; rename one of them"),
            );
        } else {
            names.exposed.insert(exposed, name.clone());
        }
    }

    /// A name for an entry that has none: from its package, its program or its host.
    pub(super) fn derived_name(
        &mut self,
        entry: &Spanned<ServerEntry>,
        names: &mut Names,
        naming: &Naming,
    ) -> Option<Spanned<ServerName>> {
        let Some(name) = derive(&entry.value) else {
            if self.is_troubled(entry.at) {
                return None;
            }
            self.report(
                Diagnostic::new(Code::MissingKey, entry.at, "this server has no `name`, and none can be derived")
                    .help("add `name:`"),
            );
            return None;
        };
        if let Some(other) = names.place(&name) {
            self.report(
                Diagnostic::new(
                    Code::DuplicateServer,
                    entry.at,
                    format!("this server has no `name`, and the derived one, `{name}`, is taken"),
                )
                .related(other, "taken here")
                .help("add `name:`"),
            );
            return None;
        }
        self.report(
            Diagnostic::new(Code::MissingName, entry.at, format!("this server has no `name`; it is called `{name}`"))
                .help(format!("add `name: {name}`, so that it keeps it when its launch changes")),
        );
        let name = Spanned::new(name, entry.at);
        self.claim(names, &name, naming);
        Some(name)
    }
}

/// The name that an entry's launch suggests.
pub(crate) fn derive(entry: &ServerEntry) -> Option<ServerName> {
    if let Some(url) = &entry.url {
        let host = url.value.split_once("://")?.1.split(['/', '?', '#', ':']).next()?;
        let labels: Vec<_> = host.split('.').filter(|label| !matches!(*label, "mcp" | "www" | "api")).collect();
        // `mcp.linear.app` → linear; a bare host keeps its own name.
        return ServerName::nearest(labels.get(labels.len().saturating_sub(2)).or(labels.first())?);
    }
    let command = entry.command.as_ref()?.value.as_str();
    let program = command.rsplit(['/', '\\']).next().unwrap_or(command);
    let mut args = entry.args.iter().flat_map(|args| &args.value).map(|arg| arg.value.0.as_str());
    let launchers = [
        "npx", "uvx", "bunx", "pnpx", "node", "python", "python3", "uv", "deno", "bun", "docker", "podman", "sh",
        "bash", "cmd", "go", "pipx", "ruby", "java", "dotnet",
    ];
    if !launchers.contains(&program.trim_end_matches(".exe").trim_end_matches(".cmd")) {
        return ServerName::nearest(plain(program));
    }
    let words = ["run", "exec", "dlx", "-m", "tool", "x", "-y", "--yes", "-c", "/c", "npx", "uvx"];
    let package = args.find(|arg| !arg.starts_with('-') && !words.contains(arg) && !arg.contains("${"))?;
    ServerName::nearest(plain(package))
}

/// What a package, image or script is about: without scope, version, ending and the words every server has.
fn plain(package: &str) -> &str {
    let base = package.rsplit(['/', '\\']).next().unwrap_or(package);
    let base = base.split("==").next().unwrap_or(base);
    let base = base.find('@').filter(|at| *at > 0).map_or(base, |at| &base[..at]);
    let base = base.split(':').next().unwrap_or(base);
    let base = [".py", ".js", ".mjs", ".ts", ".exe", ".jar"].iter().find_map(|e| base.strip_suffix(e)).unwrap_or(base);
    let words = ["mcp-server-", "server-", "mcp-"];
    let base = words.iter().find_map(|word| base.strip_prefix(word)).unwrap_or(base);
    ["-mcp-server", "-server", "-mcp"].iter().find_map(|word| base.strip_suffix(word)).unwrap_or(base)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Text;

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
    fn names_come_from_package_program_and_host() {
        assert_eq!(derived("npx", &["-y", "@modelcontextprotocol/server-filesystem@1.2", "/data"]), "filesystem");
        assert_eq!(derived("uvx", &["mcp-server-git==2026.1.1"]), "git");
        assert_eq!(derived("python", &["examples/mcp/echo_server.py"]), "echo_server");
        assert_eq!(derived("/opt/bin/weather-mcp", &[]), "weather");
        assert_eq!(derived("cmd", &["/c", "npx", "-y", "@playwright/mcp@latest"]), "mcp");
        assert_eq!(derived("npx", &["-y"]), "-");
        assert_eq!(from_url("https://mcp.linear.app/mcp"), "linear");
        assert_eq!(from_url("http://localhost:3000/mcp"), "localhost");
        assert_eq!(from_url("https://example.com/mcp"), "example");
    }
}
