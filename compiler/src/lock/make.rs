//! Plan + what servers reported + the lock before → the new lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Change, Class, Context, Filtered, Found, LOCK_VERSION, Lock, LockedList, LockedServer, REVISION, changes};
use crate::name::ServerName;
use crate::observed::{Entry, Observed, Tool};
use crate::plan::{Plan, Server};

/// A new lock and what a person should know about how it came to be.
#[derive(Clone, Debug)]
pub struct Made {
    /// The lock.
    pub lock: Lock,
    /// Servers that weren't observed and keep what was locked before.
    pub kept: Vec<ServerName>,
    /// Enabled servers that are in the plan and not in the catalog.
    pub missing: Vec<ServerName>,
    /// Tools that pass the filters and whose text isn't known, by server.
    pub without_text: Vec<(ServerName, String)>,
    /// Servers that say to be of another version than their launch pins: the pinned one and theirs.
    pub other_version: Vec<(ServerName, String, String)>,
    /// What servers say otherwise than before in a way that an attack would look like, and what is locked from now on.
    pub suspicious: Vec<(ServerName, Change)>,
}

/// Makes a lock. Where a digest is unchanged, the text of `old` stays, so that locking twice changes nothing.
pub fn make(plan: Plan, sources: Vec<String>, observed: BTreeMap<ServerName, Observed>, old: Option<&Lock>) -> Made {
    let baseline: BTreeMap<_, _> = old.iter().flat_map(|old| old.baseline(&plan)).collect();
    let mut catalog = BTreeMap::new();
    let mut kept = Vec::new();
    let mut missing = Vec::new();
    let mut without_text = Vec::new();
    let mut other_version = Vec::new();
    for server in &plan.servers {
        let name = &server.name;
        let before = baseline.get(name).copied();
        if let (Some(observed), Some(pinned)) = (observed.get(name), server.launch.pinned_version()) {
            let said = observed.introduction.version.trim();
            if !said.is_empty() && said.trim_start_matches('v') != pinned.trim_start_matches('v') {
                other_version.push((name.clone(), pinned, said.to_owned()));
            }
        }
        let locked = match (observed.get(name), before) {
            (Some(observed), before) => lock_server(&plan, server, observed, before),
            (None, Some(before)) => {
                kept.push(name.clone());
                refilter(&plan, server, before, &mut without_text)
            }
            (None, None) => {
                if server.enabled {
                    missing.push(name.clone());
                }
                continue;
            }
        };
        catalog.insert(name.clone(), locked);
    }
    let lock = Lock { lock_version: LOCK_VERSION, revision: REVISION, sources, plan, catalog };
    let names = lock.names();
    let locked_anew = observed.keys().filter_map(|name| Some((name, old?.catalog.get(name)?, lock.catalog.get(name)?)));
    let changed = locked_anew.flat_map(|(name, was, is)| {
        let found = changes(was, &Found::from(is), &Context { server: name, names: &names });
        found.into_iter().filter(|change| change.class() == Class::Suspicious).map(|change| (name.clone(), change))
    });
    let suspicious = changed.collect();
    Made { lock, kept, missing, without_text, other_version, suspicious }
}

fn lock_server(plan: &Plan, server: &Server, observed: &Observed, before: Option<&LockedServer>) -> LockedServer {
    let (tools, dropped): (Vec<_>, Vec<_>) =
        observed.tools.iter().cloned().partition(|tool| plan.keeps(server, &tool.known.name).is_ok());
    let mut filtered: Vec<_> =
        dropped.into_iter().map(|tool| Filtered { name: tool.known.name, digest: tool.digest }).collect();
    filtered.sort();
    let (prompts, templates) = (before.map(|before| &before.prompts), before.map(|before| &before.resource_templates));
    // What a server failed to list stays as it was locked: nothing says that it is gone.
    LockedServer {
        introduction: observed.introduction.clone(),
        tools: settle(tools, before.map(|before| &before.tools)),
        filtered,
        prompts: listed(&observed.prompts, observed.prompts_unknown.is_some(), prompts),
        resource_templates: listed(
            &observed.resource_templates,
            observed.resource_templates_unknown.is_some(),
            templates,
        ),
        resources: match observed.resources_unknown {
            Some(_) => before.is_some_and(|before| before.resources),
            None => !observed.resources.is_empty(),
        },
    }
}

/// The new list, or the old one while the new one isn't known.
fn listed<T: Clone>(new: &[Entry<T>], is_unknown: bool, old: Option<&LockedList<T>>) -> LockedList<T> {
    if is_unknown {
        return old.cloned().unwrap_or_default();
    }
    settle(new.to_vec(), old)
}

/// The new list, in the old list's text and order where nothing but that changed.
fn settle<T: Clone>(new: Vec<Entry<T>>, old: Option<&LockedList<T>>) -> LockedList<T> {
    let Some(LockedList(old)) = old else { return new.into_iter().collect() };
    let text: BTreeMap<_, _> = old.iter().map(|entry| (entry.digest.as_str(), entry)).collect();
    let digests: BTreeSet<_> = new.iter().map(|entry| entry.digest.as_str()).collect();
    if old.len() == new.len() && text.keys().eq(&digests) {
        return LockedList(old.clone());
    }
    let in_old_text =
        |entry: Entry<T>| text.get(entry.digest.as_str()).map_or_else(|| Arc::new(entry), |old| Arc::clone(old));
    LockedList(new.into_iter().map(in_old_text).collect())
}

/// What was locked before, split again by the filters of now.
fn refilter(
    plan: &Plan,
    server: &Server,
    before: &LockedServer,
    without_text: &mut Vec<(ServerName, String)>,
) -> LockedServer {
    let mut locked = before.clone();
    let (tools, dropped): (Vec<_>, Vec<_>) =
        locked.tools.0.into_iter().partition(|tool| plan.keeps(server, &tool.known.name).is_ok());
    locked.tools = LockedList(tools);
    let named = |tool: &Arc<Entry<Tool>>| Filtered { name: tool.known.name.clone(), digest: tool.digest.clone() };
    locked.filtered.extend(dropped.iter().map(named));
    locked.filtered.sort();
    without_text.extend(
        locked
            .filtered
            .iter()
            .filter(|tool| plan.keeps(server, &tool.name).is_ok())
            .map(|tool| (server.name.clone(), tool.name.clone())),
    );
    locked
}
