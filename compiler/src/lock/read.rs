//! Reading a lock in parts that don't depend on each other, so that who has more than one thread can use them: an executor
//! that starts again answers its first list no sooner than its lock is read.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Lock, LockedServer, unique};
use crate::name::ServerName;
use crate::plan::Plan;

/// A file of fewer bytes is read before another thread has begun.
const LARGE: usize = 64 * 1024;

/// The file with its larger parts unread.
#[derive(Deserialize)]
struct Parts<'a> {
    lock_version: u32,
    #[serde(default)]
    revision: u32,
    sources: Vec<String>,
    #[serde(borrow)]
    plan: &'a RawValue,
    #[serde(borrow, deserialize_with = "unique")]
    catalog: BTreeMap<ServerName, &'a RawValue>,
}

/// A large lock. `None` when it isn't large, or something is wrong with it, in whatever place.
pub(super) fn in_parts(text: &str, every: impl FnOnce(usize, &(dyn Fn(usize) + Sync))) -> Option<Lock> {
    if text.len() < LARGE {
        return None;
    }
    let Parts { lock_version, revision, sources, plan, catalog } = serde_json::from_str(text).ok()?;
    let plan_read = OnceLock::<Plan>::new();
    let servers: Vec<_> =
        catalog.into_iter().map(|(name, text)| (name, text, OnceLock::<LockedServer>::new())).collect();
    // Each part is read once; were one read twice, both would be the same. The plan first, as it can be the longest.
    every(servers.len() + 1, &|part| {
        let _unread = match part.checked_sub(1) {
            None => serde_json::from_str(plan.get()).ok().map(|read| plan_read.set(read).is_ok()),
            Some(server) => {
                let (_, text, read) = &servers[server];
                serde_json::from_str(text.get()).ok().map(|server| read.set(server).is_ok())
            }
        };
    });
    let catalog = servers.into_iter().map(|(name, _, read)| Some((name, read.into_inner()?))).collect::<Option<_>>()?;
    Some(Lock { lock_version, revision, sources, plan: plan_read.into_inner()?, catalog })
}
