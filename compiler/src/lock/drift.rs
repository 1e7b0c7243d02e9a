//! Why a lock no longer fits its config, each reason as data.

use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde_json::Value;

use super::Lock;
use crate::plan::Plan;

/// One difference between the locked plan and the plan of now.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Drift {
    /// What differs: `servers.github.args[1]`, `denylist`, `prompt.budget`.
    pub at: String,
    /// What the lock says; `None` where it says nothing.
    pub locked: Option<Value>,
    /// What the config says; `None` where it says nothing.
    pub found: Option<Value>,
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.locked, &self.found) {
            (Some(locked), Some(found)) => write!(f, "{}: locked {}, now {}", self.at, short(locked), short(found)),
            (Some(_), None) if is_server(&self.at) => write!(f, "{}: locked, no longer in the config", self.at),
            (None, Some(_)) if is_server(&self.at) => write!(f, "{}: in the config, not locked", self.at),
            (Some(locked), None) => write!(f, "{}: locked {}, now not there", self.at, short(locked)),
            (None, Some(found)) => write!(f, "{}: not locked, now {}", self.at, short(found)),
            (None, None) => f.write_str(&self.at),
        }
    }
}

fn is_server(at: &str) -> bool {
    at.strip_prefix("servers.").is_some_and(|name| !name.contains(['[', ' ']) && !name.contains(": "))
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
        let mut drifts = Vec::new();
        compare("sources", &serde_json::json!(self.sources), &serde_json::json!(sources), &mut drifts);
        let (mut locked, mut found) = (value(&self.plan), value(plan));
        let (locked_servers, found_servers) = (take_servers(&mut locked), take_servers(&mut found));
        let names: BTreeSet<_> = locked_servers.iter().chain(&found_servers).map(|(name, _)| name.clone()).collect();
        for name in names {
            let find = |servers: &[(String, Value)]| {
                servers.iter().find(|(other, _)| *other == name).map(|(_, server)| server.clone())
            };
            let at = format!("servers.{name}");
            match (find(&locked_servers), find(&found_servers)) {
                (Some(locked), Some(found)) => compare(&at, &locked, &found, &mut drifts),
                (locked, found) => drifts.push(Drift { at, locked, found }),
            }
        }
        let order = |mine: &[(String, Value)], other: &[(String, Value)]| -> Vec<String> {
            mine.iter().filter(|(name, _)| other.iter().any(|(o, _)| o == name)).map(|(name, _)| name.clone()).collect()
        };
        let (was, is) = (order(&locked_servers, &found_servers), order(&found_servers, &locked_servers));
        if was != is {
            drifts.push(Drift { at: "order of servers".to_owned(), locked: Some(was.into()), found: Some(is.into()) });
        }
        compare("", &locked, &found, &mut drifts);
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

fn compare(at: &str, locked: &Value, found: &Value, drifts: &mut Vec<Drift>) {
    if locked == found {
        return;
    }
    match (locked, found) {
        (Value::Object(was), Value::Object(is)) => {
            let keys: BTreeSet<_> = was.keys().chain(is.keys()).collect();
            for key in keys {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                match (was.get(key), is.get(key)) {
                    (Some(was), Some(is)) => compare(&at, was, is, drifts),
                    (locked, found) => drifts.push(Drift { at, locked: locked.cloned(), found: found.cloned() }),
                }
            }
        }
        (Value::Array(was), Value::Array(is)) if was.len() == is.len() => {
            for (index, (was, is)) in was.iter().zip(is).enumerate() {
                compare(&format!("{at}[{index}]"), was, is, drifts);
            }
        }
        _ => drifts.push(Drift { at: at.to_owned(), locked: Some(locked.clone()), found: Some(found.clone()) }),
    }
}
