//! Words and forms by which other clients say what is said here. A file pasted from one of them is told ours, and the
//! rest of it is looked at in the same run.

use std::collections::HashMap;

use crate::code::Code;
use crate::diagnostic::{Diagnostic, closest, shown};
use crate::document::{Document, Kind, Node, map_to_list};

/// What other clients call the whole list.
const SERVERS: &[&str] = &["servers", "mcpservers", "contextservers"];

/// Our key for a foreign one in an entry.
const KEYS: &[(&str, &str)] = &[
    ("type", "transport"),
    ("cmd", "command"),
    ("program", "command"),
    ("arguments", "args"),
    ("envvars", "env"),
    ("envvariables", "env"),
    ("serverurl", "url"),
    ("httpurl", "url"),
    ("baseurl", "url"),
    ("endpoint", "url"),
    ("uri", "url"),
    ("timeout", "timeout_seconds"),
    ("connecttimeout", "timeout_seconds"),
    ("inittimeout", "timeout_seconds"),
    ("workingdirectory", "cwd"),
    ("workdir", "cwd"),
    ("dir", "cwd"),
    ("deferred", "defer"),
];

/// What to write where no key of ours takes the same value.
const ADVICE: &[(&str, &str)] = &[
    ("disabled", "write `enabled: false` for a server that isn't to be connected"),
    ("allowedtools", "write `tools: { include: [ … ] }`"),
    ("enabledtools", "write `tools: { include: [ … ] }`"),
    ("includetools", "write `tools: { include: [ … ] }`"),
    ("disabledtools", "write `tools: { exclude: [ … ] }`"),
    ("excludetools", "write `tools: { exclude: [ … ] }`"),
    ("autoapprove", "remove it: which calls need a confirmation is for the host to decide"),
    ("alwaysallow", "remove it: which calls need a confirmation is for the host to decide"),
    ("trust", "remove it: which calls need a confirmation is for the host to decide"),
    ("requestinit", "write `headers: { … }`"),
    ("bearertoken", "write `headers: { Authorization: \"Bearer ${TOKEN}\" }`"),
    ("bearertokenenvvar", "write `headers: { Authorization: \"Bearer ${NAME}\" }`"),
    ("envfile", "name each variable in `env: { NAME: \"${NAME}\" }`"),
];

/// What only a config of ours holds.
const OURS: &[&str] = &["mcp_servers", "mcp_builtins", "progressive_mcp", "fragments", "policy", "agents"];

/// One error for a file that is no config at all, instead of one for each of its keys.
pub fn other_format(document: &Document, known: &[&str]) -> Option<Diagnostic> {
    let keys = document.root.entries();
    let stray: Vec<_> =
        keys.iter().filter(|entry| !known.contains(&&*entry.key) && !entry.key.starts_with("x-")).collect();
    let about_servers = |key: &str| OURS.contains(&key) || SERVERS.contains(&&*folded(key));
    // A word that is nearly ours is a typing error in a config, and all its problems are worth telling.
    let shared = document.root.get("mcp").and_then(|mcp| mcp.get("servers")).is_some();
    let ours = shared
        || keys.iter().any(|entry| about_servers(&entry.key))
        || stray.iter().any(|entry| closest(&entry.key, known.iter().copied()).is_some());
    if ours || stray.len() < 3 || stray.len() * 2 < keys.len() {
        return None;
    }
    let message = "this isn't a config of mcplan: no key for servers, and most others are unknown";
    Some(
        Diagnostic::new(Code::OtherFormat, stray[0].key_at, message)
            .label(format!("`{}` and {} more keys are unknown here", stray[0].key, stray.len() - 1))
            .help("a client's file: `mcplan import FILE`; a host's with `mcp_servers` in it: give `--host-keys`"),
    )
}

/// Says our word where `diagnostics` hold an unknown key of an entry that is known from elsewhere.
pub fn explain(document: &Document, diagnostics: &mut [Diagnostic]) {
    // What other clients call a thing beats what it looks like.
    let open = |d: &&mut Diagnostic| d.code == Code::UnknownKey;
    let mut unknown: HashMap<_, _> = diagnostics.iter_mut().filter(open).map(|d| (d.primary.at, d)).collect();
    if unknown.is_empty() {
        return;
    }
    let list = document.root.entries().iter().find(|entry| SERVERS.contains(&&*folded(&entry.key)));
    if let Some(list) = list
        && document.root.get("mcp_servers").is_none()
        && let Some(diagnostic) = unknown.get_mut(&list.key_at)
    {
        diagnostic.primary.text = "`mcp_servers` is the word here".to_owned();
        diagnostic.meant = Some("mcp_servers".to_owned());
        let rename = || format!("write `mcp_servers` in place of `{}`", shown(&list.key));
        diagnostic.help = first_by_name(&list.value).or_else(|| Some(rename()));
    }
    let own = document.root.get("mcp_servers");
    let shared = document.root.get("mcp").and_then(|mcp| mcp.get("servers"));
    for entry in own.into_iter().chain(shared).flat_map(Node::items) {
        for field in entry.entries() {
            let Some(diagnostic) = unknown.get_mut(&field.key_at) else { continue };
            let word = folded(&field.key);
            let of =
                |table: &[(&str, &'static str)]| table.iter().find(|(known, _)| *known == word).map(|(_, ours)| *ours);
            if let Some(ours) = of(KEYS) {
                if entry.get(ours).is_none() {
                    diagnostic.primary.text = format!("`{ours}` is the word here");
                    diagnostic.meant = Some(ours.to_owned());
                    let unit = if ours.ends_with("_seconds") { ", in seconds" } else { "" };
                    diagnostic.help = Some(format!("write `{ours}` in place of `{}`{unit}", shown(&field.key)));
                } else {
                    diagnostic.primary.text = format!("`{ours}` says it already");
                    diagnostic.help = Some(format!("remove `{}`", shown(&field.key)));
                }
            } else if let Some(advice) = of(ADVICE) {
                diagnostic.help = Some(advice.to_owned());
            }
        }
    }
}

/// Puts servers that stand under another word or as a map by their names into the list that we read. Both were
/// reported; whether there were any.
pub fn reshape(document: &mut Document, diagnostics: &[Diagnostic]) -> bool {
    let meant = diagnostics.iter().find(|d| d.meant.as_deref() == Some("mcp_servers")).map(|d| d.primary.at);
    let Kind::Map(entries) = &mut document.root.kind else { return false };
    let mut changed = false;
    if !entries.iter().any(|entry| entry.key == "mcp_servers")
        && let Some(entry) = entries.iter_mut().find(|entry| Some(entry.key_at) == meant)
    {
        entry.key = "mcp_servers".to_owned();
        changed = true;
    }
    for entry in entries {
        if entry.key == "mcp_servers" {
            changed |= map_to_list(&mut entry.value, "name");
        } else if entry.key == "mcp"
            && let Kind::Map(fields) = &mut entry.value.kind
        {
            let servers = fields.iter_mut().find(|field| field.key == "servers");
            changed |= servers.is_some_and(|servers| map_to_list(&mut servers.value, "name"));
        }
    }
    changed
}

fn folded(key: &str) -> String {
    key.to_ascii_lowercase().replace(['_', '-'], "")
}

fn first_by_name(servers: &Node) -> Option<String> {
    let first = servers.entries().first()?;
    Some(format!("write each entry as `- name: {}`, with its keys below", shown(&first.key)))
}
