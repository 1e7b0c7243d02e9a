//! Words by which other clients say what an entry says here. An entry pasted from one of them is then told our word,
//! and the rest of it is looked at in the same run.

use std::collections::HashMap;

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::document::{Document, Node};

/// Our key for a foreign one.
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

/// Says our word where `diagnostics` hold an unknown key of an entry that is known from elsewhere.
pub fn explain(document: &Document, diagnostics: &mut [Diagnostic]) {
    let open = |d: &&mut Diagnostic| d.code == Code::UnknownKey && d.meant.is_none();
    let mut unknown: HashMap<_, _> = diagnostics.iter_mut().filter(open).map(|d| (d.primary.at, d)).collect();
    if unknown.is_empty() {
        return;
    }
    let own = document.root.get("mcp_servers");
    let shared = document.root.get("mcp").and_then(|mcp| mcp.get("servers"));
    for entry in own.into_iter().chain(shared).flat_map(Node::items) {
        for field in entry.entries() {
            let Some(diagnostic) = unknown.get_mut(&field.key_at) else { continue };
            let word = field.key.to_ascii_lowercase().replace(['_', '-'], "");
            let of =
                |table: &[(&str, &'static str)]| table.iter().find(|(known, _)| *known == word).map(|(_, ours)| *ours);
            if let Some(ours) = of(KEYS) {
                if entry.get(ours).is_none() {
                    diagnostic.primary.text = format!("`{ours}` is the word here");
                    diagnostic.meant = Some(ours.to_owned());
                } else {
                    diagnostic.primary.text = format!("`{ours}` says it already");
                }
                diagnostic.help = None;
            } else if let Some(advice) = of(ADVICE) {
                diagnostic.help = Some(advice.to_owned());
            }
        }
    }
}
