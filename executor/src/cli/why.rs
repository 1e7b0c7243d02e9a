//! The lock as agents see it, with the places of the config of now: what `explain` and `test` tell reasons from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use mcplan_compiler::Compilation;
use mcplan_compiler::diagnostic::all_close;
use mcplan_compiler::lock::Lock;
use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::{NameTable, Plan, Server, tool_strings};
use mcplan_compiler::source::Span;
use serde_json::{Value, json};

use super::project::Project;
use super::report::CouldNot;
use super::{listings, snapshot};
use crate::core::caller::Caller;
use crate::core::catalog::{self, Listing};
use crate::core::decisions::{Decided, Subject};
use crate::core::snapshot::Snapshot;

/// A lock, put together.
pub(super) struct Why<'a> {
    listings: BTreeMap<ServerName, Listing>,
    names: NameTable,
    whole: Snapshot,
    /// The config as it is now, for places.
    pub compilation: &'a Compilation,
    /// Whose lock it is.
    pub project: &'a Project,
}

/// A tool as its server names it.
pub(super) type Owned = (ServerName, String);

impl<'a> Why<'a> {
    /// Of what is locked, decided by `plan`.
    ///
    /// # Errors
    /// When the plan's block can't be made by this build.
    pub(super) fn new(
        project: &'a Project,
        lock: &Lock,
        plan: &Plan,
        compilation: &'a Compilation,
    ) -> Result<Self, CouldNot> {
        let listings = listings(lock);
        let names = catalog::names(plan, &listings);
        Ok(Self { whole: snapshot(plan, &listings)?, listings, names, compilation, project })
    }

    /// The plan that decides.
    pub(super) fn plan(&self) -> &Plan {
        &self.whole.plan
    }

    /// What one caller sees.
    pub(super) fn seen_by(&self, caller: &Caller) -> Snapshot {
        let narrowed = self.whole.catalog.narrowed(&self.whole.plan, caller);
        self.whole.with_catalog(narrowed.into())
    }

    /// Every decision about a tool that [`Why::find`] found; `unmet` tells what a server's `when` lacks here.
    pub(super) fn decided<'s>(
        &'s self,
        (server, tool): &Owned,
        caller: &Caller,
        seen: &Snapshot,
        unmet: impl Fn(&'s Server) -> Option<&'s str>,
    ) -> Option<Decided> {
        let (server, listing) = (self.plan().server(server.as_str())?, self.listings.get(server)?);
        let subject = Subject { server, listing, tool, unmet: unmet(server) };
        Some(Decided::about(subject, caller, seen, &self.names))
    }

    /// The locked tools of that name, exposed or in one of the forms that patterns are tried against; in config order.
    pub(super) fn find(&self, written: &str) -> Vec<Owned> {
        self.all().filter(|owned| self.spellings(owned).iter().any(|name| name == written)).collect()
    }

    /// The locked tools whose names are close to it, at most `limit`, the closest first.
    pub(super) fn close(&self, written: &str, limit: usize) -> Vec<Owned> {
        let mut names = BTreeMap::<String, Vec<Owned>>::new();
        for owned in self.all() {
            for name in self.spellings(&owned) {
                names.entry(name).or_default().push(owned.clone());
            }
        }
        let mut found: Vec<&str> = all_close(written, names.keys().map(String::as_str));
        // A name that was given in part is no typing error, and meant all the same.
        let part = |name: &&String| written.len() >= SHORTEST_PART && name.contains(written);
        found.extend(names.keys().filter(part).map(String::as_str));
        let mut seen = BTreeSet::new();
        let tools = found.into_iter().flat_map(|name| names[name].clone()).filter(|owned| seen.insert(owned.clone()));
        tools.take(limit).collect()
    }

    fn all(&self) -> impl Iterator<Item = Owned> {
        let listed = self.plan().servers.iter().filter_map(|server| Some((server, self.listings.get(&server.name)?)));
        listed.flat_map(|(server, listing)| listing.names().map(|tool| (server.name.clone(), tool.to_owned())))
    }

    fn spellings(&self, (server, tool): &Owned) -> Vec<String> {
        let exposed = self.names.exposed(server, tool).map(ToString::to_string);
        let unbound = self.names.unbound().find(|(owner, raw, _)| *owner == server && raw == tool);
        let unbound = unbound.map(|(.., name)| name.to_owned());
        exposed.into_iter().chain(unbound).chain(tool_strings(server, tool)).collect()
    }

    /// The servers of the plan of which nothing is locked.
    pub(super) fn unlocked(&self) -> impl Iterator<Item = &Server> {
        self.plan().servers.iter().filter(|server| !self.listings.contains_key(&server.name))
    }

    /// A place as it is shown.
    pub(super) fn place(&self, at: Span) -> Place {
        let source = self.compilation.texts.get(at.source);
        let position = source.position(at.start);
        Place { file: source.path.clone(), line: position.line, column: position.column }
    }
}

/// Shortest part of a name that is looked for inside of names.
const SHORTEST_PART: usize = 4;

/// Where something is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub file: String,
    pub line: usize,
    pub column: usize,
}

impl Place {
    pub(super) fn as_json(&self) -> Value {
        json!({ "file": self.file, "line": self.line, "column": self.column })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}
