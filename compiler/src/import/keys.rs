//! What each key of a foreign entry means. A key is understood, or it is reported: none falls through.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::draft::Draft;
use super::field::{self, Transport};
use super::find::Client;
use super::tree::{Entry, Foreign, Kind};
use super::{NoteKind, time};
use crate::config::ServerEntry;
use crate::edit::Value;
use crate::name::is_variable_name;

/// The keys of one of our entries.
static OURS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let schema = schemars::schema_for!(ServerEntry).to_value();
    schema["properties"].as_object().map(|keys| keys.keys().cloned().collect()).unwrap_or_default()
});

impl Draft<'_> {
    /// Reads all keys of a map.
    pub(super) fn map(&mut self, node: &Foreign) {
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        let entries = node.entries();
        for (index, entry) in entries.iter().enumerate() {
            seen.insert(&entry.key, index);
        }
        for (index, entry) in entries.iter().enumerate() {
            // Clients take the last of two equal keys.
            if seen.get(entry.key.as_str()) != Some(&index) {
                self.lost(entry.at, format!("`{}` stands twice; the last one counts", entry.key));
            } else if !self.wrapper(entry) {
                self.field(entry);
            }
        }
    }

    /// Maps around the real fields: `stdio: { … }`, `transport: { type, … }`, `command: { path, args }`.
    fn wrapper(&mut self, entry: &Entry) -> bool {
        if !entry.value.is_map() || entry.value.is_empty() {
            return false;
        }
        match entry.key.as_str() {
            "template" | "transport" | "connection" | "launch" | "requestInit" | "request_init" | "requestOptions" => {
                self.map(&entry.value)
            }
            "command" => {
                for inner in entry.value.entries() {
                    match inner.key.as_str() {
                        "path" | "command" => self.command(&inner.value),
                        _ => self.field(inner),
                    }
                }
            }
            "mcp" => {
                self.transport = Some(Transport::StreamableHttp);
                for inner in entry.value.entries() {
                    match inner.key.as_str() {
                        "host" => self.url = inner.value.text().map(str::to_owned),
                        _ => self.field(inner),
                    }
                }
            }
            key if field::transport(key).is_some() => {
                self.transport = field::transport(key);
                self.map(&entry.value);
            }
            _ => return false,
        }
        true
    }

    fn field(&mut self, entry: &Entry) {
        let Entry { key, at, value } = entry;
        let folded: String = key.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
        if self.own && self.ours(key, value) {
            return;
        }
        match folded.as_str() {
            "name" | "id" => self.other_name(key, *at, value),
            "inputs" => {}
            "description" | "desc" if value.string().is_some() => self.description = value.string().map(str::to_owned),
            "type" | "transport" | "transporttype" | "protocol" => self.transport(key, *at, value),
            "command" | "cmd" | "program" | "executable" => self.command(value),
            "args" | "arguments" => self.args(key, *at, value),
            "env" | "envs" | "environment" | "envvars" | "envkeys" | "environmentvariables" => {
                self.variables(key, *at, value);
            }
            "cwd" | "workingdirectory" | "workingdir" | "workdir" | "directory" | "dir" => {
                self.place("cwd", *at);
                self.cwd = value.text().map(str::to_owned).filter(|text| !text.is_empty());
            }
            "url" | "serverurl" | "httpurl" | "baseurl" | "uri" | "endpoint" | "sseurl" | "wsurl" => {
                self.address(&folded, key, *at, value);
            }
            "headers" | "httpheaders" | "requestheaders" => self.headers_of(key, *at, value, |value| value),
            "envhttpheaders" => self.headers_of(key, *at, value, |name| format!("${{{name}}}")),
            "bearertokenenvvar" => match value.string().filter(|text| !text.is_empty()) {
                Some(name) => self.header("Authorization", format!("Bearer ${{{name}}}")),
                None => self.lost(*at, format!("`{key}` names no variable")),
            },
            "auth" | "authentication" => self.auth(key, *at, value),
            "enabled" | "isactive" | "active" | "isenabled" => self.switch(key, *at, value, false),
            "disabled" | "isdisabled" => self.switch(key, *at, value, true),
            "tools" | "includetools" | "allowedtools" | "enabledtools" | "availabletools" | "toolfilter" => {
                self.kept_tools(key, *at, value);
            }
            "excludetools" | "disabledtools" | "deniedtools" | "blockedtools" => match field::texts(value) {
                Some(names) => self.exclude.extend(names),
                None => self.lost(*at, format!("`{key}` is no list of names")),
            },
            "required" if matches!(value.kind, Kind::Bool(_)) => {
                if matches!(value.kind, Kind::Bool(true)) {
                    self.ours.push(("required".to_owned(), Value::Bool(true)));
                }
            }
            _ => self.rest(key, &folded, *at, value),
        }
    }

    /// Keys that are no part of a launch.
    fn rest(&mut self, key: &str, folded: &str, at: usize, value: &Foreign) {
        match time::limit(key, folded, value, self.client) {
            Some(Ok((limit, (kind, text)))) => {
                self.note(at, kind, text);
                self.limits.push(limit);
                return;
            }
            Some(Err(_)) if value.is_empty() => return,
            Some(Err(text)) => return self.lost(at, text),
            None => {}
        }
        if value.is_empty() {
            return;
        }
        let off = matches!(value.kind, Kind::Bool(false));
        match folded {
            "autoapprove"
            | "alwaysallow"
            | "trust"
            | "trusted"
            | "autoallow"
            | "defaulttoolsapprovalmode"
            | "approval"
            | "toolapproval" => {
                if !off {
                    self.lost(
                        at,
                        format!(
                            "`{key}` says what the client may do unasked; mcplan has `policy` for what may be called"
                        ),
                    );
                }
            }
            "envfile" | "dotenv" | "envfiles" => {
                let file =
                    value.text().map(|file| format!(" ({})", crate::diagnostic::shown(file))).unwrap_or_default();
                self.lost(at, format!("`{key}`{file} isn't read; set its variables where mcplan runs"));
            }
            "oauth" | "authprovidertype" | "oauthscopes" | "scopes" | "oauthresource" | "authorization" => {
                self.lost(
                    at,
                    format!("`{key}`: logging in by OAuth isn't imported; give the server a token in `headers`"),
                );
            }
            "source" if value.string() == Some("custom") => {}
            _ => self.lost(at, format!("`{}` has no counterpart", crate::diagnostic::shown(key))),
        }
    }

    /// Keys of our own language; whether it was one.
    fn ours(&mut self, key: &str, value: &Foreign) -> bool {
        const READ: [&str; 8] = ["name", "description", "command", "args", "env", "cwd", "url", "headers"];
        match key {
            "tool_filter" => self.include = field::texts(value),
            "call_timeout" | "tool_timeout_seconds" => {
                self.ours.push(("call_timeout_seconds".to_owned(), plain(value)));
            }
            key if READ.contains(&key) => return false,
            "transport" => {
                let known = value.string().and_then(field::transport);
                self.transport = known;
                self.named_transport = known.is_some();
                return known.is_some();
            }
            key if OURS.contains(key) => self.ours.push((key.to_owned(), plain(value))),
            _ => return false,
        }
        true
    }

    fn other_name(&mut self, key: &str, at: usize, value: &Foreign) {
        let Some(text) = value.text() else { return };
        if self.name.is_none() {
            self.name = Some(text.to_owned());
        } else if self.name.as_deref() != Some(text) {
            self.lost(at, format!("`{key}: {}` is another name for it", crate::diagnostic::shown(text)));
        }
    }

    fn transport(&mut self, key: &str, at: usize, value: &Foreign) {
        let Some(word) = value.string().filter(|word| !word.is_empty()) else { return };
        self.place("transport", at);
        match field::transport(word) {
            Some(transport) => {
                self.transport = Some(transport);
                self.named_transport = true;
            }
            None => {
                let word = crate::diagnostic::shown(word).into_owned();
                self.odd_transport = Some(word.clone());
                self.lost(
                    at,
                    format!("`{key}: {word}` is no transport of MCP; how it is reached is taken from the rest"),
                );
            }
        }
    }

    pub(super) fn command(&mut self, value: &Foreign) {
        self.place("command", value.at);
        if let Kind::List(items) = &value.kind {
            let mut words = items.iter().filter_map(Foreign::text).map(str::to_owned);
            self.command = words.next().map(|word| word.trim().to_owned()).filter(|word| !word.is_empty());
            let words: Vec<_> = words.collect();
            self.args.splice(0..0, words);
        } else {
            // Blanks around a program's name are never part of it.
            self.command = value.text().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        }
    }

    fn args(&mut self, key: &str, at: usize, value: &Foreign) {
        self.place("args", at);
        match &value.kind {
            Kind::Text(text) if text.contains(char::is_whitespace) => match field::split(text) {
                Some(words) => {
                    self.note(at, NoteKind::Changed, format!("`{key}` is split into {} words", words.len()));
                    self.args.extend(words);
                }
                None => self.lost(at, format!("`{key}` has a quote that isn't closed")),
            },
            _ => match field::texts(value) {
                Some(words) => self.args.extend(words),
                None => self.lost(at, format!("`{key}` is no list of words")),
            },
        }
    }

    pub(super) fn variables(&mut self, key: &str, at: usize, value: &Foreign) {
        self.place("env", at);
        for pair in field::pairs(value, '=') {
            match pair {
                Ok((name, Some(value))) => self.variable(key, at, &name, value),
                Ok((name, None)) if !is_variable_name(&name) => self.variable(key, at, &name, String::new()),
                Ok((name, None)) => {
                    let reference = format!("${{{name}}}");
                    self.note(
                        at,
                        NoteKind::Set(name.clone()),
                        format!("`{key}` hands `{name}` on; set it where mcplan runs"),
                    );
                    self.env.push((name, reference));
                }
                Err(what) => self.lost(at, format!("`{}` in `{key}` is no text", crate::diagnostic::shown(&what))),
            }
        }
        if value.string().is_some_and(|text| !text.is_empty()) {
            self.lost(at, format!("`{key}` is no map"));
        }
    }

    /// Sets a variable of the process, if it can have that name.
    pub(super) fn variable(&mut self, key: &str, at: usize, name: &str, value: String) {
        if is_variable_name(name) {
            self.env.push((name.to_owned(), value));
        } else {
            // What follows a `=` may be a secret.
            let name = crate::diagnostic::shown(name.split_inclusive('=').next().unwrap_or_default()).into_owned();
            self.lost(at, format!("`{name}` in `{key}` can't be the name of a variable"));
        }
    }

    fn address(&mut self, folded: &str, key: &str, at: usize, value: &Foreign) {
        let Some(text) = value.string().filter(|text| !text.is_empty()) else {
            if !value.is_empty() {
                self.lost(at, format!("`{key}` is no text"));
            }
            return;
        };
        if self.url.is_some() {
            return self.lost(at, format!("`{key}` is a second address"));
        }
        self.place("url", at);
        self.url = Some(text.trim().to_owned());
        let implied = match folded {
            "httpurl" => Some(Transport::StreamableHttp),
            "sseurl" => Some(Transport::Sse),
            "wsurl" => Some(Transport::Websocket),
            _ => None,
        };
        self.transport = self.transport.or(implied);
    }

    pub(super) fn headers_of(&mut self, key: &str, at: usize, value: &Foreign, as_value: impl Fn(String) -> String) {
        self.place("headers", at);
        for pair in field::pairs(value, ':') {
            match pair {
                Ok((name, Some(value))) => self.header(&name, as_value(value)),
                Ok((name, None)) => {
                    self.lost(at, format!("`{}` in `{key}` has no value", crate::diagnostic::shown(&name)))
                }
                Err(what) => self.lost(at, format!("`{}` in `{key}` is no text", crate::diagnostic::shown(&what))),
            }
        }
    }

    fn header(&mut self, name: &str, value: String) {
        self.headers.push((name.to_owned(), value));
    }

    /// `auth` in the forms that come down to a header; all others are reported.
    fn auth(&mut self, key: &str, at: usize, value: &Foreign) {
        if value.is_empty() || value.string() == Some("none") {
            return;
        }
        let text = |names: &[&str]| names.iter().find_map(|name| value.get(name)?.string());
        if let Some(headers) = value.get("headers") {
            return self.headers_of("auth.headers", at, headers, |value| value);
        }
        let credential = text(&["credential_ref"]).and_then(|text| text.strip_prefix("env://"));
        let secret = credential.map(|name| format!("${{{name}}}"));
        let secret = secret
            .or_else(|| text(&["token", "bearer", "bearer_token", "value", "api_key", "apiKey"]).map(str::to_owned));
        let method = text(&["method", "type"]).unwrap_or_default().to_ascii_lowercase();
        let in_header = text(&["location"]).is_none_or(|location| location == "header");
        match secret {
            Some(secret) if in_header && !method.contains("oauth") && method != "basic" => {
                let named = text(&["name", "header", "header_name"]);
                let bearer = method == "bearer" || named.is_none();
                let prefix = text(&["prefix"]).unwrap_or(if bearer { "Bearer " } else { "" });
                self.header(named.unwrap_or("Authorization"), format!("{prefix}{secret}"));
            }
            _ => self
                .lost(at, format!("`{key}`: this way to log in isn't imported; give the server a token in `headers`")),
        }
    }

    fn switch(&mut self, key: &str, at: usize, value: &Foreign, off: bool) {
        match field::truth(value) {
            Some(value) if value == off => self.enabled = Some(false),
            // On is what every entry is.
            Some(_) => {}
            None if value.is_empty() => {}
            None => self.lost(at, format!("`{key}` is neither true nor false")),
        }
    }

    fn kept_tools(&mut self, key: &str, at: usize, value: &Foreign) {
        match field::texts(value) {
            // Codex takes an empty list at its word; all others leave it in their files and offer everything.
            Some(names) if names.is_empty() && self.client != Client::Codex => {}
            Some(names) if names.iter().any(|name| name == "*") => {}
            Some(names) => {
                self.note(
                    at,
                    NoteKind::Changed,
                    format!("`{key}` is written `tools.include`: only these tools remain"),
                );
                self.include = Some(names);
            }
            None => self.lost(at, format!("`{key}` is no list of names")),
        }
    }
}

/// A value as it is.
fn plain(value: &Foreign) -> Value {
    match &value.kind {
        Kind::Null => Value::Null,
        Kind::Bool(value) => Value::Bool(*value),
        Kind::Number(text) => Value::Number(text.clone()),
        Kind::Text(text) => Value::Text(text.clone()),
        Kind::List(items) => Value::List(items.iter().map(plain).collect()),
        Kind::Map(entries) => {
            Value::Map(entries.iter().map(|entry| (entry.key.clone(), plain(&entry.value))).collect())
        }
    }
}
