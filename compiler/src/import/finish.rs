//! What was read of an entry → an entry of ours: one transport, texts of our language, no secrets.

use super::draft::Draft;
use super::field::{self, Transport};
use super::find::Client;
use super::input::variable_name;
use super::reference::{self, Around};
use super::secrets::Secrets;
use super::{Note, NoteKind};
use crate::edit::Value;
use crate::interpolate::{Part, Reference, Template};
use crate::name::ServerName;

/// An entry as it is put together.
#[derive(Default)]
struct Built {
    entry: Vec<(String, Value)>,
    /// Keys that were put twice.
    twice: Vec<String>,
}

impl Built {
    /// Adds a key; maps under one key become one map.
    fn put(&mut self, key: &str, value: Value) {
        match (self.entry.iter_mut().find(|(other, _)| other == key), value) {
            (None, value) => self.entry.push((key.to_owned(), value)),
            (Some((_, Value::Map(there))), Value::Map(more)) => {
                let known = |name: &String| there.iter().any(|(other, _)| other == name);
                let (twice, new): (Vec<_>, Vec<_>) = more.into_iter().partition(|(name, _)| known(name));
                there.extend(new);
                self.twice.extend(twice.into_iter().map(|(name, _)| format!("{key}.{name}")));
            }
            (Some(_), _) => self.twice.push(key.to_owned()),
        }
    }

    /// Adds a map of texts, unless it is empty.
    fn put_texts(&mut self, key: &str, texts: Vec<(String, String)>) {
        for (name, text) in texts {
            self.put(key, Value::Map(vec![(name, Value::Text(text))]));
        }
    }
}

impl Draft<'_> {
    /// The entry of ours.
    ///
    /// # Errors
    /// When it says neither how the server is started nor where it is.
    pub(super) fn finish(mut self, name: &ServerName, secrets: &mut Secrets) -> Result<(Value, Vec<Note>), String> {
        let transport = self.decide()?;
        self.drop_other_side(transport);
        let server = variable_name(name.as_str()).unwrap_or_default();
        let mut built = Built::default();
        built.put("name", Value::text(name.as_str()));
        if let Some(description) = self.description.take().filter(|text| !text.trim().is_empty()) {
            built.put("description", Value::Text(description));
        }
        let inferred = match transport {
            Transport::Stdio | Transport::StreamableHttp | Transport::Remote => true,
            Transport::Sse => false,
            Transport::Websocket => self.url.as_deref().is_some_and(|url| url.starts_with("ws")),
        };
        if !inferred || self.own && self.named_transport {
            built.put("transport", Value::text(transport.word()));
        }
        match transport {
            Transport::Stdio => self.local(&server, secrets, &mut built),
            _ => self.remote(&server, secrets, &mut built),
        }
        self.settings(&mut built);
        let at = self.at("entry");
        let Built { entry, twice } = built;
        twice.into_iter().for_each(|key| self.lost(at, format!("`{key}` is said twice; one of the two counts")));
        self.notes.sort_by_key(|note| note.line);
        Ok((Value::Map(entry), self.notes))
    }

    fn local(&mut self, server: &str, secrets: &mut Secrets, built: &mut Built) {
        let env = std::mem::take(&mut self.env).into_iter().map(|(key, text)| {
            let text = self.ours_of("env", text, Where::default());
            let mut said = Vec::new();
            let text = secrets.env(server, &key, text, &mut said);
            self.say("env", said);
            (key, text)
        });
        let env: Vec<_> = env.collect();
        if let Some(command) = self.command.take() {
            let shell = field::shell_from(&command, &self.args);
            let command = self.ours_of("command", command, Where { env: &env, ..Where::default() });
            built.put("command", Value::Text(command));
            let args = std::mem::take(&mut self.args).into_iter().enumerate().map(|(index, arg)| {
                let shell = shell.is_some_and(|from| index >= from);
                self.ours_of("args", arg, Where { env: &env, shell, ..Where::default() })
            });
            let args: Vec<_> = args.collect();
            let mut said = Vec::new();
            let args = secrets.args(server, args, &mut said);
            self.say("args", said);
            if !args.is_empty() {
                built.put("args", Value::texts(args));
            }
        }
        built.put_texts("env", env);
        if let Some(cwd) = self.cwd.take() {
            let cwd = self.ours_of("cwd", cwd, Where { cwd: true, ..Where::default() });
            built.put("cwd", Value::Text(cwd));
        }
    }

    fn remote(&mut self, server: &str, secrets: &mut Secrets, built: &mut Built) {
        let Some(url) = self.url.take() else { return };
        let url = self.ours_of("url", url, Where { url: true, ..Where::default() });
        let mut said = Vec::new();
        built.put("url", Value::Text(secrets.address("`url`", server, url, &mut said)));
        self.say("url", said);
        let headers = std::mem::take(&mut self.headers).into_iter().map(|(key, text)| {
            let text = self.ours_of("headers", text, Where { url: true, ..Where::default() });
            let mut said = Vec::new();
            let text = secrets.header(server, &key, text, &mut said);
            self.say("headers", said);
            (key, text)
        });
        let headers: Vec<_> = headers.collect();
        built.put_texts("headers", headers);
    }

    /// What is no part of a launch.
    fn settings(&mut self, built: &mut Built) {
        if self.enabled == Some(false) {
            built.put("enabled", Value::Bool(false));
        }
        if let Some(names) = self.include.take() {
            built.put("tools", Value::Map(vec![("include".to_owned(), Value::texts(names))]));
        }
        if !self.exclude.is_empty() {
            let names = Value::texts(std::mem::take(&mut self.exclude));
            built.put("tools", Value::Map(vec![("exclude".to_owned(), names)]));
        }
        for limit in std::mem::take(&mut self.limits) {
            built.put(limit.key, Value::Number(limit.seconds));
        }
        for (key, value) in std::mem::take(&mut self.ours) {
            if value != Value::Null {
                built.put(&key, value);
            }
        }
    }

    /// `command: npx -y x` and `cmd /c npx` become a program and its arguments.
    pub(super) fn take_apart(&mut self) {
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
