//! Why a lock no longer fits its config, each reason as data.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::Lock;
use crate::plan::Plan;

/// Which part of the config a difference is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftKind {
    /// The files that the plan came from.
    Sources,
    /// A server that is in the config and not locked.
    ServerAdded,
    /// A server that is locked and no longer in the config.
    ServerRemoved,
    /// A field of a server, other than its filter.
    Server,
    /// The order of the servers, which decides who keeps a name.
    ServerOrder,
    /// A filter: `tools` of a server, or the denylist.
    Filter,
    /// What may be done, by whom: `policy` and `agents`.
    Policy,
    /// How tools are called: the pattern, the limit, the host's own names.
    Naming,
    /// The prompt block, other than its template.
    Prompt,
    /// The text of the prompt block's template, or where it is from.
    Template,
    /// A plugin, or what it printed.
    Plugin,
    /// Any other setting.
    Setting,
}

impl DriftKind {
    /// The kind by the field of the plan, for what isn't a server's.
    fn of(at: &str) -> Self {
        let field = at.split(['.', '[']).next().unwrap_or(at);
        match field {
            "sources" => Self::Sources,
            "denylist" => Self::Filter,
            "policy" | "agents" => Self::Policy,
            "naming" | "reserved" => Self::Naming,
            "prompt" if at.starts_with("prompt.template") => Self::Template,
            "prompt" => Self::Prompt,
            "plugins" => Self::Plugin,
            _ => Self::Setting,
        }
    }
}

/// One difference between the locked plan and the plan of now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drift {
    /// Which part it is about.
    pub kind: DriftKind,
    /// What differs: `servers.github.args[1]`, `denylist`, `prompt.budget`.
    pub at: String,
    /// What the lock says; `None` where it says nothing.
    pub locked: Option<Value>,
    /// What the config says; `None` where it says nothing.
    pub found: Option<Value>,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, &self.locked, &self.found) {
            (DriftKind::ServerRemoved, ..) => write!(f, "{}: locked, no longer in the config", self.at),
            (DriftKind::ServerAdded, ..) => write!(f, "{}: in the config, not locked", self.at),
            (_, Some(locked), Some(found)) => {
                write!(f, "{}: locked {}, now {}", self.at, short(locked), short(found))
            }
            (_, Some(locked), None) => write!(f, "{}: locked {}, now not there", self.at, short(locked)),
            (_, None, Some(found)) => write!(f, "{}: not locked, now {}", self.at, short(found)),
            (_, None, None) => f.write_str(&self.at),
        }
    }
}

/// A value as one line of a report.
fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(100) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

impl Lock {
    /// Every difference between what is locked and what `plan` and `sources` say now. Empty: it fits.
    pub fn check(&self, plan: &Plan, sources: &[String]) -> Vec<Drift> {
        // Mostly it fits, and then no field has to be looked at.
        if self.sources == sources && self.plan.text() == plan.text() {
            return Vec::new();
        }
        let mut drifts = Vec::new();
        let by_field = |at: &str| DriftKind::of(at);
        compare("sources", &serde_json::json!(self.sources), &serde_json::json!(sources), &by_field, &mut drifts);
        let (mut locked, mut found) = (value(&self.plan), value(plan));
        let (locked_servers, found_servers) = (take_servers(&mut locked), take_servers(&mut found));
        let names: BTreeSet<_> = locked_servers.iter().chain(&found_servers).map(|(name, _)| name.clone()).collect();
        for name in names {
            let find = |servers: &[(String, Value)]| {
                servers.iter().find(|(other, _)| *other == name).map(|(_, server)| server.clone())
            };
            let at = format!("servers.{name}");
            // A name may hold a point, so the field is what comes after the whole of it.
            let filter = format!("{at}.tools");
            let kind = |at: &str| if at.starts_with(&filter) { DriftKind::Filter } else { DriftKind::Server };
            match (find(&locked_servers), find(&found_servers)) {
                (Some(locked), Some(found)) => compare(&at, &locked, &found, &kind, &mut drifts),
                (locked, found) => {
                    let kind = if locked.is_some() { DriftKind::ServerRemoved } else { DriftKind::ServerAdded };
                    drifts.push(Drift { kind, at, locked, found });
                }
            }
        }
        let order = |mine: &[(String, Value)], other: &[(String, Value)]| -> Vec<String> {
            mine.iter().filter(|(name, _)| other.iter().any(|(o, _)| o == name)).map(|(name, _)| name.clone()).collect()
        };
        let (was, is) = (order(&locked_servers, &found_servers), order(&found_servers, &locked_servers));
        if was != is {
            let (kind, at) = (DriftKind::ServerOrder, "order of servers".to_owned());
            drifts.push(Drift { kind, at, locked: Some(was.into()), found: Some(is.into()) });
        }
        compare("", &locked, &found, &by_field, &mut drifts);
        drifts
    }
}

fn value(plan: &Plan) -> Value {
    serde_json::to_value(plan).expect("a plan serializes")
}

fn take_servers(plan: &mut Value) -> Vec<(String, Value)> {
    let servers = plan.as_object_mut().and_then(|plan| plan.shift_remove("servers"));
    let Some(Value::Array(servers)) = servers else { return Vec::new() };
    servers.into_iter().map(|server| (server["name"].as_str().unwrap_or_default().to_owned(), server)).collect()
}

fn compare(at: &str, locked: &Value, found: &Value, kind: &impl Fn(&str) -> DriftKind, drifts: &mut Vec<Drift>) {
    if locked == found {
        return;
    }
    match (locked, found) {
        (Value::Object(was), Value::Object(is)) => {
            let keys: BTreeSet<_> = was.keys().chain(is.keys()).collect();
            for key in keys {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                match (was.get(key), is.get(key)) {
                    (Some(was), Some(is)) => compare(&at, was, is, kind, drifts),
                    (locked, found) => {
                        let (locked, found) = (locked.cloned(), found.cloned());
                        drifts.push(Drift { kind: kind(&at), at, locked, found });
                    }
                }
            }
        }
        (Value::Array(was), Value::Array(is)) if was.len() == is.len() => {
            for (index, (was, is)) in was.iter().zip(is).enumerate() {
                compare(&format!("{at}[{index}]"), was, is, kind, drifts);
            }
        }
        _ => {
            let (locked, found) = (Some(locked.clone()), Some(found.clone()));
            drifts.push(Drift { kind: kind(at), at: at.to_owned(), locked, found });
        }
    }
}
