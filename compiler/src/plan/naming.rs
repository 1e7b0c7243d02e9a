//! How a tool is called downstream: the pattern filled in, odd characters replaced, made unique, cut to the limit.
//!
//! Names are looked up in a [`NameTable`], never split. The same plan and the same lists give the same names,
//! whatever connected first.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::name::ServerName;

/// The tools that mcplan serves itself; a server's tool can't take their names.
pub const OWN_TOOLS: [&str; 4] = ["search_mcp_tools", "call_mcp_tool", "mcp_resources_list", "mcp_resources_read"];

/// The pattern of exposed names and its limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Naming {
    /// `mcp__{server}__{tool}`, `{server}__{tool}`, `{tool}` or any pattern that holds `{tool}`.
    pub pattern: String,
    /// Longest exposed name, in characters.
    pub limit: usize,
}

/// The name under which an agent sees a tool.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ExposedName(String);

impl ExposedName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExposedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ExposedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::borrow::Borrow<str> for ExposedName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// `text` with every character outside `A-Za-z0-9_-` replaced by `_`.
pub fn sanitize(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

/// Characters of a [`suffix`].
const SUFFIX: usize = 7;

/// `_` and six hex digits that depend on nothing but server and tool.
pub fn suffix(server: &ServerName, tool: &str) -> String {
    let digest = Sha256::new().chain_update(server.as_str()).chain_update([0]).chain_update(tool).finalize();
    format!("_{}", crate::json::hex(&digest[..3]))
}

impl Naming {
    /// Whether the pattern keeps the tools of different servers apart.
    pub fn separates_servers(&self) -> bool {
        self.pattern.contains("{server}")
    }

    fn fill(&self, server: &ServerName, tool: &str) -> String {
        // Both placeholders are found in the pattern itself, so a tool called `{server}` stays a tool's name.
        let mut out = String::new();
        let mut rest = self.pattern.as_str();
        while let Some(at) = rest.find('{') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("{server}") {
                out.push_str(server.as_str());
                rest = after;
            } else if let Some(after) = rest.strip_prefix("{tool}") {
                out.push_str(tool);
                rest = after;
            } else {
                out.push('{');
                rest = &rest[1..];
            }
        }
        out.push_str(rest);
        out
    }

    /// Whether some tool of `server` may be called `exposed`. Nothing is split: the pattern is filled in up to the tool.
    pub fn may_be_of(&self, exposed: &str, server: &ServerName) -> bool {
        let Some((head, _)) = self.pattern.split_once("{tool}") else { return false };
        let head = sanitize(&head.replace("{server}", server.as_str()));
        // A name at the limit may have been cut before the tool, to make room for the suffix.
        let kept = self.limit.saturating_sub(SUFFIX);
        exposed.starts_with(&head)
            || exposed.len() == self.limit && exposed.get(..kept).is_some_and(|cut| head.starts_with(cut))
    }

    /// Whether the pattern separates server and tool by less than `__`, which no server's name holds, so that another
    /// server's tool can have the name that the pattern gives.
    fn is_ambiguous(&self) -> bool {
        self.separator().is_some_and(|separator| !separator.contains("__"))
    }

    /// What stands between server and tool.
    fn separator(&self) -> Option<&str> {
        let (server, tool) = (self.pattern.find("{server}")?, self.pattern.find("{tool}")?);
        let range = if server < tool { server + "{server}".len()..tool } else { tool + "{tool}".len()..server };
        self.pattern.get(range)
    }

    /// Whether the pattern could call tools of another server like those of this one: the separator is in this name too,
    /// and what stands before it could be a server's name. That shorter one keeps what the pattern gives, and the tools
    /// of this server get a suffix, whether the other one is there or not: so no server renames the tools of another.
    pub fn shares_names(&self, server: &ServerName) -> bool {
        let (Some(separator), Some(at)) = (self.separator(), self.pattern.find("{server}")) else { return false };
        let name = sanitize(server.as_str());
        let server_first = self.pattern.find("{tool}").is_some_and(|tool| at < tool);
        let whole = if server_first { format!("{name}{separator}") } else { format!("{separator}{name}") };
        let ends_well = |name: &str| {
            let edge = if server_first { name.chars().next_back() } else { name.chars().next() };
            edge.is_some_and(|edge| edge.is_ascii_alphanumeric())
        };
        (1..name.len()).any(|cut| {
            if server_first {
                ends_well(&name[..cut]) && whole[cut..].starts_with(separator)
            } else {
                ends_well(&name[cut..]) && whole[..separator.len() + cut].ends_with(separator)
            }
        })
    }

    /// Whether the name that the pattern gives may be another server's, now or later: it looks like one with a suffix,
    /// or the server shares its names.
    fn may_be_shared(&self, server: &ServerName, name: &str) -> bool {
        let is_suffix = |end: &str| {
            end.strip_prefix('_')
                .is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)))
        };
        let end = name.len().checked_sub(SUFFIX).and_then(|at| name.get(at..));
        self.is_ambiguous() && (self.shares_names(server) || end.is_some_and(is_suffix))
    }

    /// `name` with the suffix of its owner, the head cut so that the whole keeps the limit.
    fn suffixed(&self, name: &str, server: &ServerName, tool: &str) -> String {
        let suffix = suffix(server, tool);
        // Sanitised, so a character is a byte.
        let head = &name[..name.len().min(self.limit.saturating_sub(SUFFIX))];
        format!("{head}{suffix}")
    }
}

/// Why a tool isn't called what the pattern says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameChange<'a> {
    /// It is.
    None,
    /// Characters that a name can't hold became `_`.
    Characters,
    /// That would have so many characters, more than the limit: it is cut and ends in a hash.
    Length(usize),
    /// Another server's tool could be called the same, as short as the separator is: it ends in a hash.
    Shared,
    /// Another tool's name is the same: it ends in a hash. Whose it is, unless all of them end in one.
    Taken(Option<(&'a ServerName, &'a str)>),
}

/// Exposed name to owner and back, built once for a set of lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameTable {
    owners: BTreeMap<ExposedName, (ServerName, String)>,
    names: BTreeMap<ServerName, BTreeMap<String, ExposedName>>,
    unbound: BTreeMap<(ServerName, String), String>,
    reserved: BTreeSet<String>,
}

impl NameTable {
    /// Names every tool of `tools`, which come in config order of their servers; within a server order is free.
    ///
    /// A tool whose finished name is one of our own tools, or one of `reserved`, the host's, is not bound.
    pub fn build<'a>(
        naming: &Naming,
        reserved: &[String],
        tools: impl IntoIterator<Item = (&'a ServerName, &'a str)>,
    ) -> Self {
        let mut per_server: Vec<(&ServerName, BTreeSet<&str>)> = Vec::new();
        for (server, tool) in tools {
            match per_server.iter_mut().find(|(name, _)| *name == server) {
                Some((_, set)) => {
                    set.insert(tool);
                }
                None => per_server.push((server, BTreeSet::from([tool]))),
            }
        }
        let mut table = Self { reserved: reserved.iter().cloned().collect(), ..Self::default() };
        for (server, tools) in per_server {
            table.add_server(naming, server, &tools);
        }
        table
    }

    fn add_server(&mut self, naming: &Naming, server: &ServerName, tools: &BTreeSet<&str>) {
        let names: Vec<_> = tools
            .iter()
            .map(|tool| {
                let filled = naming.fill(server, tool);
                let name = sanitize(&filled);
                let fits = name.len() <= naming.limit && !naming.may_be_shared(server, &name);
                (*tool, filled == name, fits, name)
            })
            .collect();
        let mut count = BTreeMap::<&str, usize>::new();
        for (.., name) in &names {
            *count.entry(name).or_default() += 1;
        }
        // A tool that needed no change has the first right to its name; then those that were changed, by raw name.
        for (tool, same, fits, name) in &names {
            if *same && *fits {
                self.bind(naming, server, tool, name.clone());
            }
        }
        for (tool, same, fits, name) in &names {
            if !(*same && *fits) {
                let plain = count[name.as_str()] == 1 && *fits;
                let name = if plain { name.clone() } else { naming.suffixed(name, server, tool) };
                self.bind(naming, server, tool, name);
            }
        }
    }

    fn bind(&mut self, naming: &Naming, server: &ServerName, tool: &str, mut name: String) {
        if self.owners.contains_key(name.as_str()) {
            name = naming.suffixed(&name, server, tool);
        }
        let key = (server.clone(), tool.to_owned());
        if OWN_TOOLS.contains(&name.as_str()) || self.reserved.contains(&name) {
            self.unbound.insert(key, name);
            return;
        }
        match self.owners.entry(ExposedName(name)) {
            Entry::Vacant(free) => {
                let name = free.key().clone();
                free.insert(key);
                match self.names.get_mut(server) {
                    Some(names) => names.insert(tool.to_owned(), name),
                    None => self.names.entry(server.clone()).or_default().insert(tool.to_owned(), name),
                };
            }
            // A suffixed name that is taken all the same (a tool chosen to hit it) is left out rather than bound to two.
            Entry::Occupied(taken) => {
                self.unbound.insert(key, taken.key().0.clone());
            }
        }
    }

    /// Who owns an exposed name: the server and the tool's own name.
    pub fn owner(&self, exposed: &str) -> Option<(&ServerName, &str)> {
        self.owners.get(exposed).map(|(server, tool)| (server, tool.as_str()))
    }

    /// The exposed name of a server's tool.
    pub fn exposed(&self, server: &ServerName, tool: &str) -> Option<&ExposedName> {
        self.names.get(server)?.get(tool)
    }

    /// What had to be done to the pattern's own name for a tool to get the name it has, or would have had.
    pub fn change(&self, naming: &Naming, server: &ServerName, tool: &str) -> Option<NameChange<'_>> {
        let unbound = || self.unbound.get(&(server.clone(), tool.to_owned())).map(String::as_str);
        let name = self.exposed(server, tool).map(ExposedName::as_str).or_else(unbound)?;
        let filled = naming.fill(server, tool);
        let plain = sanitize(&filled);
        Some(if name == filled {
            NameChange::None
        } else if name == plain {
            NameChange::Characters
        } else if plain.len() > naming.limit {
            NameChange::Length(plain.len())
        } else if naming.may_be_shared(server, &plain) {
            NameChange::Shared
        } else {
            NameChange::Taken(self.owner(&plain))
        })
    }

    /// Tools that got no name, with the name they would have had.
    pub fn unbound(&self) -> impl Iterator<Item = (&ServerName, &str, &str)> {
        self.unbound.iter().map(|((server, tool), name)| (server, tool.as_str(), name.as_str()))
    }

    /// All bound names in order.
    pub fn iter(&self) -> impl Iterator<Item = (&ExposedName, &ServerName, &str)> {
        self.owners.iter().map(|(name, (server, tool))| (name, server, tool.as_str()))
    }
}

#[cfg(test)]
mod tests;
