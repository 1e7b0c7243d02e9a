//! `config.lock.json`: the plan, and what each server looked like when it was locked.
//!
//! Holds nothing of one machine and no value of a secret. The version is read before the rest, so that a file of a
//! later mcplan gets one clear message. Unknown fields are let be: additions go under `revision`.

mod change;
mod drift;
mod make;
mod notice;
mod read;
pub mod words;

pub use change::{Change, Class, Context, Found, Item, PHRASES, Rule, Verdict, changes, verdict};
pub use drift::{Drift, DriftKind};
pub use make::{Made, make};
pub use notice::Notice;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::marker::PhantomData;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::diagnostic::one_line;
use crate::json;
use crate::name::ServerName;
use crate::observed::{Entry, Introduction, Prompt, ResourceTemplate, Tool};
use crate::plan::{NameTable, Plan, Server};

/// The version that this mcplan writes, and the newest that it reads.
pub const LOCK_VERSION: u32 = 1;
/// Grows with compatible additions.
pub const REVISION: u32 = 0;

/// The whole file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "mcplan lock", extend("$id" = "urn:mcplan:schema:lock:1"))]
pub struct Lock {
    /// Version of the format; read before the rest.
    pub lock_version: u32,
    /// Compatible additions within the version.
    #[serde(default)]
    pub revision: u32,
    /// The files that the plan came from, relative to the lock.
    pub sources: Vec<String>,
    /// Every decision of the compiler.
    pub plan: Plan,
    /// What each server reported, for the servers that were reached.
    #[serde(deserialize_with = "unique")]
    pub catalog: BTreeMap<ServerName, LockedServer>,
}

/// A map in which no key stands twice.
fn unique<'de, D: serde::Deserializer<'de>, V: Deserialize<'de>>(
    deserializer: D,
) -> Result<BTreeMap<ServerName, V>, D::Error> {
    struct Unique<V>(PhantomData<V>);
    impl<'de, V: Deserialize<'de>> serde::de::Visitor<'de> for Unique<V> {
        type Value = BTreeMap<ServerName, V>;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a map of servers")
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
            let mut map = BTreeMap::new();
            while let Some((name, server)) = entries.next_entry::<ServerName, _>()? {
                if map.insert(name.clone(), server).is_some() {
                    return Err(serde::de::Error::custom(format_args!("the server `{name}` is in it twice")));
                }
            }
            Ok(map)
        }
    }
    deserializer.deserialize_map(Unique(PhantomData))
}

/// What one server reported.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LockedServer {
    /// How it introduced itself.
    #[serde(flatten)]
    pub introduction: Introduction,
    /// The tools that pass the filters, whole, in the server's order.
    pub tools: LockedList<Tool>,
    /// The tools that don't: name and digest only.
    pub filtered: Vec<Filtered>,
    /// Its prompts.
    pub prompts: LockedList<Prompt>,
    /// Its resource templates.
    pub resource_templates: LockedList<ResourceTemplate>,
    /// Whether it offers resources; which ones is live data.
    pub resources: bool,
}

/// A list of items, each whole and with its digest. Read from text and checked against the digests in one go. What runs
/// shares them with the lock.
#[derive(Clone, Debug)]
pub struct LockedList<T>(pub Vec<Arc<Entry<T>>>);

impl<T> Default for LockedList<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> LockedList<T> {
    /// The items in order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<T>> {
        self.0.iter().map(|entry| &**entry)
    }
}

impl<T> FromIterator<Entry<T>> for LockedList<T> {
    fn from_iter<I: IntoIterator<Item = Entry<T>>>(entries: I) -> Self {
        Self(entries.into_iter().map(Arc::new).collect())
    }
}

/// A tool that a filter drops.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Filtered {
    /// The tool's own name.
    pub name: String,
    /// Over its canonical form.
    pub digest: String,
}

#[derive(Serialize)]
#[serde(bound = "")]
struct WriteItem<'a, T> {
    digest: &'a str,
    entry: &'a Entry<T>,
}

#[derive(Deserialize)]
#[serde(bound = "T: serde::de::DeserializeOwned")]
struct ReadItem<'a, T> {
    #[serde(borrow)]
    digest: Cow<'a, str>,
    entry: Entry<T>,
}

impl<T> Serialize for LockedList<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter().map(|entry| WriteItem { digest: &entry.digest, entry }))
    }
}

impl<'de, T: serde::de::DeserializeOwned> Deserialize<'de> for LockedList<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let items = Vec::<ReadItem<'de, T>>::deserialize(deserializer)?;
        let mut entries = Vec::with_capacity(items.len());
        for item in items {
            if item.digest != item.entry.digest {
                let start: String = item.entry.raw.get().chars().take(60).collect();
                return Err(serde::de::Error::custom(format_args!("the digest of {start}… doesn't fit its text")));
            }
            entries.push(Arc::new(item.entry));
        }
        Ok(Self(entries))
    }
}

impl<T> JsonSchema for LockedList<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "LockedList".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "array",
            "items": {
                "type": "object",
                "required": ["digest", "entry"],
                "properties": {
                    "digest": { "type": "string", "description": "SHA-256 over the entry with sorted keys.", "pattern": "^sha256:[0-9a-f]{64}$" },
                    "entry": { "type": "object", "description": "What the server said, in its own order and spelling." },
                },
            },
        })
    }
}

/// Why a lock can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Written by a later mcplan.
    #[error(
        "the lock is of version {found}, this mcplan reads up to {LOCK_VERSION}: use a newer mcplan, or lock again"
    )]
    Newer {
        /// Its version.
        found: u64,
    },
    /// Not JSON, cut off, or not a lock.
    #[error(
        "the lock can't be read: {reason} (line {line}, column {column}); lock again, or take it from version control"
    )]
    Broken {
        /// What is wrong.
        reason: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
    },
}

impl Lock {
    /// Reads a lock from its text.
    ///
    /// # Errors
    /// One clear error: a later version, or where it is broken.
    pub fn read(text: &str) -> Result<Self, LockError> {
        Self::read_with(text, |parts, read| (0..parts).for_each(read))
    }

    /// The same, with the parts of a large file read by `every`, which is given how many there are and what reads each of
    /// them by its number, in whatever order and on whatever threads.
    ///
    /// # Errors
    /// As [`Lock::read`].
    pub fn read_with(text: &str, every: impl FnOnce(usize, &(dyn Fn(usize) + Sync))) -> Result<Self, LockError> {
        #[derive(Deserialize)]
        struct Versioned {
            lock_version: u64,
        }
        let broken = |error: serde_json::Error| {
            let whole = error.to_string();
            // The reason may hold text of the file, of any length and with anything in it.
            let reason = whole.rsplit_once(" at line ").map_or(&*whole, |(reason, _)| reason);
            LockError::Broken { reason: one_line(reason, 200).into_owned(), line: error.line(), column: error.column() }
        };
        let at_start = |reason: &str| LockError::Broken { reason: reason.to_owned(), line: 1, column: 1 };
        let version = |found: u64| match found {
            0 => Err(at_start("there is no `lock_version` 0")),
            _ if found > u64::from(LOCK_VERSION) => Err(LockError::Newer { found }),
            _ => Ok(()),
        };
        // Only where something is wrong it is read again, one place after the other, and what else could be the reason is
        // looked for.
        let in_parts = read::in_parts(text, every).map_or_else(|| serde_json::from_str(text), Ok);
        let lock: Self = in_parts.map_err(|error| {
            if let Some(line) = text.lines().position(|line| line.starts_with("<<<<<<< ")) {
                let reason = "version control left the marks of a conflict in it".to_owned();
                return LockError::Broken { reason, line: line + 1, column: 1 };
            }
            if !text.trim_start().is_empty() && !text.trim_start().starts_with('{') {
                return at_start("it is no JSON object");
            }
            match serde_json::from_str(text) {
                Ok(Versioned { lock_version }) => version(lock_version).err().unwrap_or_else(|| broken(error)),
                Err(error) => broken(error),
            }
        })?;
        version(lock.lock_version.into())?;
        match lock.doubled() {
            Some(what) => Err(at_start(&format!("{what} is in it twice"))),
            None => Ok(lock),
        }
    }

    /// What stands in it twice, as after a merge that kept both sides.
    fn doubled(&self) -> Option<String> {
        let mut servers = BTreeSet::new();
        let server = self.plan.servers.iter().find(|server| !servers.insert(&server.name));
        if let Some(server) = server {
            return Some(format!("the server `{}`", server.name));
        }
        self.catalog.iter().find_map(|(name, server)| {
            let mut tools = BTreeSet::new();
            let kept = server.tools.iter().map(|tool| tool.known.name.as_str());
            let tool =
                kept.chain(server.filtered.iter().map(|tool| tool.name.as_str())).find(|tool| !tools.insert(*tool))?;
            Some(format!("the tool `{}` of `{name}`", one_line(tool, 60)))
        })
    }

    /// The text of the file: two-space JSON with our own keys sorted, what servers said in their order, and a final
    /// newline; the same lock, the same bytes.
    pub fn text(&self) -> String {
        let servers: Vec<_> = self
            .catalog
            .iter()
            .map(|(name, server)| format!("{}:{}", json::string(name.as_str()), json::sorted_fields(server)))
            .collect();
        let plan = serde_json::to_value(&self.plan).expect("a plan serializes");
        let fields = format!(
            "{{\"catalog\":{{{}}},\"lock_version\":{},\"plan\":{},\"revision\":{},\"sources\":{}}}",
            servers.join(","),
            self.lock_version,
            json::canonical_of(&plan),
            self.revision,
            json::text(&self.sources),
        );
        json::pretty(&fields)
    }

    /// The names under which the locked tools of enabled servers are exposed, those that a filter drops too.
    pub fn names(&self) -> NameTable {
        let of_server = |server: &'_ Server| {
            let locked = self.catalog.get(server.name.as_str())?;
            let whole = locked.tools.iter().map(|tool| tool.known.name.as_str());
            let names: Vec<_> = whole.chain(locked.filtered.iter().map(|tool| tool.name.as_str())).collect();
            Some(names)
        };
        let active = self.plan.servers.iter().filter(|server| self.plan.enabled && server.enabled);
        let all: Vec<_> = active.filter_map(|server| Some((server, of_server(server)?))).collect();
        let tools = all.iter().flat_map(|(server, names)| names.iter().map(|name| (&server.name, *name)));
        NameTable::build(&self.plan.naming, &self.plan.reserved, tools)
    }

    /// The catalog entries that still speak of the plan's servers: same transport, command, args and url.
    pub fn baseline<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = (&'a ServerName, &'a LockedServer)> {
        self.catalog.iter().filter(|(name, _)| self.is_same(plan, name))
    }

    /// The catalog entry of one server, on the same condition.
    pub fn baseline_of(&self, plan: &Plan, name: &ServerName) -> Option<&LockedServer> {
        self.catalog.get(name).filter(|_| self.is_same(plan, name))
    }

    fn is_same(&self, plan: &Plan, name: &ServerName) -> bool {
        let (was, is) = (self.plan.server(name.as_str()), plan.server(name.as_str()));
        matches!((was, is), (Some(was), Some(is)) if was.launch.identity() == is.launch.identity())
    }
}

#[cfg(test)]
mod tests;
