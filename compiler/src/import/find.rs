//! Where in a foreign tree the servers are.

use std::collections::BTreeMap;

use super::input::Input;
use super::read::Format;
use super::tree::{Entry, Foreign};
use crate::diagnostic::shown;

/// A server in a foreign file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found<'f> {
    /// The key it stands under, or its own name.
    pub name: Option<&'f str>,
    /// What it says.
    pub node: &'f Foreign,
    /// First byte of it.
    pub at: usize,
    /// Whether the strings in it are of our language already.
    pub own: bool,
    /// Whether the client keeps it but doesn't start it, by a list outside of the entry.
    pub parked: bool,
}

/// All of them, and what holds for all.
#[derive(Debug)]
pub(super) struct FoundAll<'f> {
    pub servers: Vec<Found<'f>>,
    /// The paths that they stood under.
    pub places: Vec<String>,
    /// What the client asks its user for.
    pub inputs: BTreeMap<String, Input>,
    /// How the client counts `timeout`.
    pub client: Client,
}

/// What the shape of a file says about the client that reads it; only where clients disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Client {
    /// `extensions`: timeouts in seconds.
    Goose,
    /// `mcp` as a map of servers: the timeout is that of connecting, in milliseconds.
    OpenCode,
    /// TOML: speaks stdio and streamable HTTP only.
    Codex,
    /// All others.
    Other,
}

impl FoundAll<'_> {
    /// Why there is nothing.
    pub(super) fn nothing(&self) -> String {
        match self.places.as_slice() {
            [] => "no MCP server in this file: nothing in it has a command or a URL to connect to".to_owned(),
            [first, ..] => format!("no MCP server in this file: `{}` is empty", shown(first)),
        }
    }
}

/// Looks for servers under every name that a client uses for their place; without one, in the tree itself.
pub(super) fn find(root: &Foreign, format: Format) -> FoundAll<'_> {
    let inputs = root.get("inputs").or_else(|| root.get("mcp")?.get("inputs"));
    let mut all =
        FoundAll { servers: Vec::new(), places: Vec::new(), inputs: Input::all(inputs), client: Client::Other };
    all.walk(root, "", format);
    if all.places.is_empty() {
        all.bare(root);
    }
    if format == Format::Toml {
        all.client = Client::Codex;
    }
    all.park(root);
    all
}

impl<'f> FoundAll<'f> {
    fn walk(&mut self, node: &'f Foreign, path: &str, format: Format) {
        for item in node.items() {
            self.walk(item, path, format);
        }
        for entry in node.entries() {
            let here = if path.is_empty() { entry.key.clone() } else { format!("{path}.{}", entry.key) };
            match container(entry, path) {
                Some(Container { client, own }) => {
                    self.client = client.unwrap_or(self.client);
                    self.places.push(here);
                    self.take(&entry.value, own && format != Format::Toml);
                }
                None => self.walk(&entry.value, &here, format),
            }
        }
    }

    fn take(&mut self, container: &'f Foreign, own: bool) {
        for item in container.items() {
            self.servers.push(match wrapped(item) {
                Some(entry) => of(entry, false),
                None => Found { name: own_name(item), node: item, at: item.at, own, parked: false },
            });
        }
        for entry in container.entries() {
            let comment = entry.key.starts_with(['_', '$', '/']) && !entry.value.is_map();
            if !comment {
                self.servers.push(of(entry, false));
            }
        }
    }

    /// A map of servers, one server, or a list, with nothing around.
    fn bare(&mut self, root: &'f Foreign) {
        if looks_like_server(root) {
            self.servers.push(Found { name: own_name(root), node: root, at: root.at, own: false, parked: false });
        } else if root.items().iter().any(|item| looks_like_server(item) || wrapped(item).is_some()) {
            self.take(root, false);
        } else if root.entries().iter().any(|entry| looks_like_server(&entry.value)) {
            let servers = root.entries().iter().filter(|entry| entry.value.is_map());
            self.servers.extend(servers.map(|entry| of(entry, false)));
        }
    }

    /// Gemini names the servers that may run, or may not, outside of the entries.
    fn park(&mut self, root: &Foreign) {
        let list = |key: &str| root.get("mcp").and_then(|mcp| mcp.get(key)).filter(|list| list.is_list());
        let names = |list: &Foreign, name: &str| list.items().iter().any(|item| item.text() == Some(name));
        let (allowed, excluded) = (list("allowed"), list("excluded"));
        for server in &mut self.servers {
            let Some(name) = server.name else { continue };
            server.parked =
                allowed.is_some_and(|list| !names(list, name)) || excluded.is_some_and(|list| names(list, name));
        }
    }
}

/// `{ "github": { … } }` as an item of a list.
fn wrapped(item: &Foreign) -> Option<&Entry> {
    match item.entries() {
        [only] if looks_like_server(&only.value) && !looks_like_server(item) => Some(only),
        _ => None,
    }
}

fn of(entry: &Entry, own: bool) -> Found<'_> {
    Found { name: Some(&entry.key), node: &entry.value, at: entry.at, own, parked: false }
}

fn own_name(item: &Foreign) -> Option<&str> {
    let named = item.get("template").filter(|template| template.is_map()).unwrap_or(item);
    ["name", "id"].iter().find_map(|key| named.get(key)?.string()).filter(|name| !name.is_empty())
}

struct Container {
    client: Option<Client>,
    own: bool,
}

/// Whether servers stand under this key, which itself stands at `path`.
fn container(entry: &Entry, path: &str) -> Option<Container> {
    let value = &entry.value;
    let top = path.is_empty();
    // Settings have keys such as `mcp.servers` and `cline.mcpServers`.
    let (parent, key) = entry.key.rsplit_once('.').unwrap_or((path.rsplit('.').next().unwrap_or_default(), &entry.key));
    let folded: String = key.chars().filter(|c| c.is_ascii_alphanumeric()).collect::<String>().to_ascii_lowercase();
    let maps = value.entries().iter().any(|entry| entry.value.is_map()) || value.items().iter().any(Foreign::is_map);
    let empty = top && (value.is_empty() || value.is_map() || value.is_list());
    let servers = value.entries().iter().map(|entry| &entry.value).chain(value.items()).any(looks_like_server);
    let plain = Some(Container { client: None, own: false });
    match folded.as_str() {
        "mcpservers" if maps || empty => Some(Container { client: None, own: key == "mcp_servers" && value.is_list() }),
        "contextservers" if maps || empty => plain,
        "servers" if parent == "mcp" && (maps || value.is_empty()) => {
            Some(Container { client: None, own: path == "mcp" && value.is_list() })
        }
        "servers" if top && (servers || empty && value.is_empty()) => plain,
        "servers" if servers => plain,
        "mcp" if top && servers => Some(Container { client: Some(Client::OpenCode), own: false }),
        "extensions" if top && servers => Some(Container { client: Some(Client::Goose), own: false }),
        "targets" | "registry" | "backends" if servers => plain,
        _ => None,
    }
}

/// Whether a map says how a server is started or where it is.
pub(super) fn looks_like_server(node: &Foreign) -> bool {
    if !node.is_map() {
        return false;
    }
    let text = |key: &str| node.get(key).is_some_and(|value| value.string().is_some());
    let map = |key: &str| node.get(key).is_some_and(Foreign::is_map);
    let starts = node.get("command").or_else(|| node.get("cmd")).is_some_and(|value| !value.is_empty());
    let says = ["serverUrl", "server_url", "httpUrl", "http_url", "baseUrl", "base_url", "sseUrl", "uri"];
    let kind = ["type", "transport", "transportType"].iter().find_map(|key| node.get(key)?.string());
    let spoken = kind.is_some_and(|kind| super::field::transport(kind).is_some());
    starts
        || says.iter().any(|key| text(key))
        || text("url") && (spoken || kind.is_none())
        || (text("url") || text("endpoint")) && kind.is_some_and(|kind| kind.contains("mcp"))
        || spoken && kind != Some("http")
        || ["stdio", "sse", "http", "streamable_http", "streamableHttp"]
            .iter()
            .any(|key| map(key) && node.entries().len() < 9)
        || text("image") && kind == Some("server")
        || map("remote") && kind == Some("remote")
        || map("template") && node.get("template").is_some_and(looks_like_server)
        || map("mcp") && node.get("mcp").is_some_and(|mcp| mcp.get("host").is_some() || mcp.get("url").is_some())
}
