//! One foreign entry: first read key by key, then put together as an entry of ours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::field::{self, Transport};
use super::find::{Client, Found, FoundAll};
use super::reference::{self, Around, Input};
use super::secrets::Secrets;
use super::tree::{Entry, Foreign, Kind};
use super::{Note, NoteKind, docker, time};
use crate::config::{ServerEntry, Text};
use crate::edit::Value;
use crate::interpolate::{Part, Reference, Template};
use crate::name::ServerName;
use crate::source::{Source, Span, Spanned};

/// What was read of an entry. Texts are as the client wrote them.
pub(super) struct Draft<'s> {
    source: &'s Source,
    own: bool,
    client: Client,
    inputs: BTreeMap<String, Input>,
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    /// The transport, as named or as a key implies it.
    pub(super) transport: Option<Transport>,
    /// The word that named it, where the entry has one.
    named_transport: bool,
    /// The word, where it names no transport.
    odd_transport: Option<String>,
    pub(super) command: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: Option<String>,
    pub(super) url: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    enabled: Option<bool>,
    include: Option<Vec<String>>,
    exclude: Vec<String>,
    limits: Vec<time::Limit>,
    /// Keys of our language, as they are.
    ours: Vec<(String, Value)>,
    places: Vec<(&'static str, usize)>,
    notes: Vec<Note>,
}

/// The keys of one of our entries.
static OURS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let schema = schemars::schema_for!(ServerEntry).to_value();
    schema["properties"].as_object().map(|keys| keys.keys().cloned().collect()).unwrap_or_default()
});

/// The variables that an entry takes from outside: those in the values it sets, and elsewhere those it doesn't set.
pub(super) fn variables_from_outside(node: &Foreign) -> Vec<String> {
    let env = node.get("env").map(Foreign::entries).unwrap_or_default();
    let set: BTreeSet<_> = env.iter().map(|entry| entry.key.as_str()).collect();
    let mut all = Vec::new();
    for entry in node.entries() {
        let own = entry.key == "env";
        entry.value.each_text(&mut |text| {
            let names = reference::variables(text).into_iter();
            all.extend(names.filter(|name| own || !set.contains(name.as_str())));
        });
    }
    all
}

impl<'s> Draft<'s> {
    /// Reads an entry.
    ///
    /// # Errors
    /// When it is no entry at all.
    pub(super) fn read(source: &'s Source, found: &Found<'_>, all: &FoundAll<'_>) -> Result<Self, String> {
        if !found.node.is_map() {
            return Err(format!("a server is a map, this is {}", found.node.what()));
        }
        let mut inputs = all.inputs.clone();
        inputs.extend(Input::all(found.node.get("inputs")));
        let mut draft = Self {
            source,
            own: found.own,
            client: all.client,
            inputs,
            name: found.name.map(str::to_owned),
            description: None,
            transport: None,
            named_transport: false,
            odd_transport: None,
            command: None,
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            url: None,
            headers: Vec::new(),
            enabled: None,
            include: None,
            exclude: Vec::new(),
            limits: Vec::new(),
            ours: Vec::new(),
            places: vec![("entry", found.at)],
            notes: Vec::new(),
        };
        if found.parked {
            draft.enabled = Some(false);
            draft.note(found.at, NoteKind::Changed, "the client's own lists keep it from starting: `enabled: false`");
        }
        if docker::is_image(found.node) {
            docker::read(&mut draft, found.node);
        } else {
            draft.map(found.node);
        }
        Ok(draft)
    }

    pub(super) fn note(&mut self, at: usize, kind: NoteKind, text: impl Into<String>) {
        let line = self.source.position(at).line;
        self.notes.push(Note { kind, line, text: text.into() });
    }

    pub(super) fn lost(&mut self, at: usize, text: impl Into<String>) {
        self.note(at, NoteKind::Lost, text);
    }

    fn map(&mut self, node: &Foreign) {
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

    fn place(&mut self, field: &'static str, at: usize) {
        self.places.push((field, at));
    }

    fn at(&self, field: &str) -> usize {
        self.places.iter().rev().find(|(name, _)| *name == field).map_or(0, |(_, at)| *at)
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
            self.command = words.next();
            let words: Vec<_> = words.collect();
            self.args.splice(0..0, words);
        } else {
            self.command = value.text().map(str::to_owned).filter(|text| !text.trim().is_empty());
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
                Ok((name, _)) if name.is_empty() || name.contains(['=', ' ', '$', '{', '\0']) => {
                    let name = crate::diagnostic::shown(&name).into_owned();
                    self.lost(at, format!("`{name}` in `{key}` can't be the name of a variable"));
                }
                Ok((name, Some(value))) => self.env.push((name, value)),
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
            Some(names) if names.is_empty() || names.iter().any(|name| name == "*") => {}
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

impl Draft<'_> {
    /// The name that the launch suggests.
    pub(super) fn derived_name(&self) -> Option<String> {
        let text = |text: &String| Spanned::new(text.clone(), Span::default());
        let args = self.args.iter().map(|arg| Spanned::new(Text(arg.clone()), Span::default())).collect();
        let entry = ServerEntry {
            command: self.command.as_ref().map(text),
            args: Some(Spanned::new(args, Span::default())),
            url: self.url.as_ref().map(text),
            ..ServerEntry::default()
        };
        crate::resolve::derive_name(&entry).map(|name| name.to_string())
    }

    /// The entry of ours.
    ///
    /// # Errors
    /// When it says neither how the server is started nor where it is.
    pub(super) fn finish(mut self, name: &ServerName, secrets: &mut Secrets) -> Result<(Value, Vec<Note>), String> {
        self.take_apart();
        let transport = self.decide()?;
        self.drop_other_side(transport);
        let server = reference::variable_name(name.as_str()).unwrap_or_default();
        let mut entry = vec![("name".to_owned(), Value::text(name.as_str()))];
        let mut lost = Vec::new();
        let mut put = |key: &str, value: Value| entry.push((key.to_owned(), value));
        if let Some(description) = self.description.take().filter(|text| !text.trim().is_empty()) {
            put("description", Value::Text(description));
        }
        let inferred = match transport {
            Transport::Stdio => true,
            Transport::StreamableHttp | Transport::Remote => true,
            Transport::Sse => false,
            Transport::Websocket => self.url.as_deref().is_some_and(|url| url.starts_with("ws")),
        };
        if !inferred || self.own && self.named_transport {
            put("transport", Value::text(transport.word()));
        }
        let env: Vec<_> = std::mem::take(&mut self.env);
        let env: Vec<_> = env
            .into_iter()
            .map(|(key, text)| {
                let text = self.ours_of("env", text, Where::default());
                let mut said = Vec::new();
                let text = secrets.env(&server, &key, text, &mut said);
                self.say("env", said);
                (key, text)
            })
            .collect();
        if transport == Transport::Stdio {
            if let Some(command) = self.command.take() {
                let shell = field::shell_from(&command, &self.args);
                let command = self.ours_of("command", command, Where { env: &env, ..Where::default() });
                put("command", Value::Text(command));
                let args = std::mem::take(&mut self.args).into_iter().enumerate().map(|(index, arg)| {
                    let shell = shell.is_some_and(|from| index >= from);
                    self.ours_of("args", arg, Where { env: &env, shell, ..Where::default() })
                });
                let args: Vec<_> = args.collect();
                let mut said = Vec::new();
                let args = secrets.args(&server, args, &mut said);
                self.say("args", said);
                if !args.is_empty() {
                    put("args", Value::texts(args));
                }
            }
            if !env.is_empty() {
                put("env", Value::Map(env.into_iter().map(|(key, text)| (key, Value::Text(text))).collect()));
            }
            if let Some(cwd) = self.cwd.take() {
                put("cwd", Value::Text(self.ours_of("cwd", cwd, Where { cwd: true, ..Where::default() })));
            }
        } else if let Some(url) = self.url.take() {
            let url = self.ours_of("url", url, Where { url: true, ..Where::default() });
            let mut said = Vec::new();
            put("url", Value::Text(secrets.address("`url`", &server, url, &mut said)));
            self.say("url", said);
            let headers = std::mem::take(&mut self.headers).into_iter().map(|(key, text)| {
                let text = self.ours_of("headers", text, Where { url: true, ..Where::default() });
                let mut said = Vec::new();
                let text = secrets.header(&server, &key, text, &mut said);
                self.say("headers", said);
                (key, Value::Text(text))
            });
            let headers: Vec<_> = headers.collect();
            if !headers.is_empty() {
                put("headers", Value::Map(headers));
            }
        }
        if self.enabled == Some(false) {
            put("enabled", Value::Bool(false));
        }
        if self.include.is_some() || !self.exclude.is_empty() {
            let mut tools = Vec::new();
            tools.extend(self.include.take().map(|names| ("include".to_owned(), Value::texts(names))));
            if !self.exclude.is_empty() {
                tools.push(("exclude".to_owned(), Value::texts(std::mem::take(&mut self.exclude))));
            }
            put("tools", Value::Map(tools));
        }
        for limit in std::mem::take(&mut self.limits) {
            put(limit.key, Value::Number(limit.seconds));
        }
        for (key, value) in std::mem::take(&mut self.ours) {
            match (entry.iter_mut().find(|(other, _)| *other == key), value) {
                (_, Value::Null) => {}
                (None, value) => entry.push((key, value)),
                (Some((_, Value::Map(there))), Value::Map(more)) => {
                    let known = |name: &String| there.iter().any(|(other, _)| other == name);
                    let (twice, new): (Vec<_>, Vec<_>) = more.into_iter().partition(|(name, _)| known(name));
                    there.extend(new);
                    lost.extend(twice.into_iter().map(|(name, _)| format!("{key}.{name}")));
                }
                (Some(_), _) => lost.push(key),
            }
        }
        let at = self.at("entry");
        lost.into_iter().for_each(|key| self.lost(at, format!("`{key}` is said twice; one of the two counts")));
        self.notes.sort_by_key(|note| note.line);
        Ok((Value::Map(entry), self.notes))
    }

    /// `command: npx -y x` and `cmd /c npx` become a program and its arguments.
    fn take_apart(&mut self) {
        let Some(command) = self.command.clone().filter(|_| !self.own) else { return };
        let at = self.at("command");
        if let Some(mut words) = field::command_line(&command) {
            let program = words.remove(0);
            let program_shown = crate::diagnostic::shown(&program);
            let text = format!("`command` is split: `{program_shown}` is started, the rest are its arguments");
            self.note(at, NoteKind::Changed, text);
            self.args.splice(0..0, words);
            self.command = Some(program);
        }
        let is_cmd = self.command.as_deref().is_some_and(|command| field::program(command) == "cmd");
        let for_shell = |word: &String| word.contains(['&', '|', '<', '>', '^', '"']);
        if is_cmd
            && let [flag, program, rest @ ..] = self.args.as_slice()
            && flag.eq_ignore_ascii_case("/c")
            && !program.contains([' ', '%'])
            && !for_shell(program)
            && !rest.iter().any(for_shell)
        {
            let text = format!(
                "`cmd /c {}` is started as `{}`, on every system",
                crate::diagnostic::shown(program),
                crate::diagnostic::shown(program)
            );
            let (program, rest) = (program.clone(), rest.to_vec());
            self.note(at, NoteKind::Changed, text);
            self.command = Some(program);
            self.args = rest;
        }
    }

    fn decide(&mut self) -> Result<Transport, String> {
        let of_url = self.url.as_deref().map(Transport::of_url);
        // In our language a path says nothing about the transport, and Codex speaks only one.
        let certain = self.own || self.client == Client::Codex;
        let of_url = of_url.map(|way| if certain && way == Transport::Sse { Transport::StreamableHttp } else { way });
        let at = self.at("transport");
        match (self.transport, self.command.is_some(), of_url) {
            (_, false, None) => Err(match self.transport {
                Some(named) if named != Transport::Stdio => {
                    format!("it is said to be reached over {}, and there is no URL", named.word())
                }
                _ => match &self.odd_transport {
                    Some(word) => format!("it has neither a command nor a URL, and `{word}` is no transport of MCP"),
                    None => "it has neither a command nor a URL".to_owned(),
                },
            }),
            (Some(Transport::Stdio) | None, true, _) => Ok(Transport::Stdio),
            (Some(Transport::Stdio), false, Some(of_url)) => {
                self.note(
                    at,
                    NoteKind::Changed,
                    format!("it has a URL and no command: `transport: {}`", of_url.word()),
                );
                Ok(of_url)
            }
            (Some(named), true, None) => {
                self.note(
                    at,
                    NoteKind::Changed,
                    format!("it has a command and no URL, so it is no {} server but stdio", named.word()),
                );
                Ok(Transport::Stdio)
            }
            (Some(Transport::Remote) | None, _, Some(of_url)) => {
                if of_url == Transport::Sse {
                    self.note(self.at("url"), NoteKind::Changed, "the address ends in `/sse`: `transport: sse`");
                }
                Ok(of_url)
            }
            (Some(named), _, Some(_)) => Ok(named),
        }
    }

    /// Fields that the transport doesn't take.
    fn drop_other_side(&mut self, transport: Transport) {
        let remote = transport != Transport::Stdio;
        let full = |texts: bool| !texts;
        let mut lost: Vec<(&'static str, &'static str)> = Vec::new();
        if remote {
            let who = "a remote server starts no process";
            lost.extend(self.command.take().map(|_| ("command", who)));
            lost.extend(full(self.args.is_empty()).then_some(("args", who)));
            lost.extend(full(self.env.is_empty()).then_some(("env", who)));
            lost.extend(self.cwd.take().map(|_| ("cwd", who)));
            self.args.clear();
            self.env.clear();
        } else {
            lost.extend(self.url.take().map(|_| ("url", "a local server has no address")));
            lost.extend(full(self.headers.is_empty()).then_some(("headers", "a local server takes no headers")));
            self.headers.clear();
        }
        for (field, why) in lost {
            self.lost(self.at(field), format!("`{field}` is left out: {why}"));
        }
    }

    fn say(&mut self, field: &str, said: Vec<(NoteKind, String)>) {
        let at = self.at(field);
        said.into_iter().for_each(|(kind, text)| self.note(at, kind, text));
    }

    /// A text in our language.
    fn ours_of(&mut self, field: &'static str, text: String, place: Where<'_>) -> String {
        if self.own {
            return text;
        }
        let around = Around {
            inputs: &self.inputs,
            shell: place.shell,
            url: place.url,
            beside_config: !place.url && (place.cwd || self.cwd.is_none()),
        };
        let converted = reference::convert(&text, around);
        self.say(field, converted.said);
        inline(&converted.text, place.env, place.shell)
    }
}

/// Where a text stands.
#[derive(Clone, Copy, Default)]
struct Where<'e> {
    /// What the entry sets for its process.
    env: &'e [(String, String)],
    shell: bool,
    url: bool,
    cwd: bool,
}

/// A variable that the entry itself sets is put in, since some clients, and some programs, look there; a shell does
/// that by itself.
fn inline(text: &str, env: &[(String, String)], shell: bool) -> String {
    let set = |reference: &Reference| {
        let name = reference.variable()?;
        env.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    };
    let template = Template::parse(text).0;
    if !template.references().any(|reference| set(reference).is_some()) {
        return text.to_owned();
    }
    let parts = template.parts();
    let text = parts.iter().enumerate().map(|(index, part)| match part {
        Part::Text(text) => reference::literal(text, index + 1 < parts.len()),
        Part::Reference(reference) => match set(reference) {
            Some(_) if shell => format!("${reference}"),
            Some(value) => value.to_owned(),
            None => reference.to_string(),
        },
    });
    text.collect()
}
