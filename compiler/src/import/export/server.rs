//! One server of a plan in the words of a client.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::field::Transport;
use super::super::input::variable_name;
use super::Client;
use crate::interpolate::{Part, Reference, Template};
use crate::pattern::Pattern;
use crate::plan::{Launch, Server, Stdio};
use crate::secret::name_looks_secret;

/// A server as the client's file has it; every text is in the client's syntax.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Written {
    pub command: Option<String>,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Codex: variables of its own that it hands on.
    pub handed_on: BTreeSet<String>,
    pub cwd: Option<String>,
    /// `http` or `sse`.
    pub kind: &'static str,
    pub url: Option<String>,
    pub headers: Vec<(String, String)>,
    /// Codex: the variable whose value is the bearer token.
    pub bearer: Option<String>,
    /// Codex: headers whose values are variables.
    pub header_variables: Vec<(String, String)>,
    pub disabled: bool,
    /// Codex: names of tools, and seconds.
    pub include: Option<Vec<String>>,
    pub exclude: Vec<String>,
    pub startup_seconds: Option<f64>,
    pub call_seconds: Option<f64>,
}

/// What is said about a server on the way.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub notes: Vec<String>,
    /// Variables that VS Code asks for.
    pub inputs: BTreeSet<String>,
}

/// Writes a server.
///
/// # Errors
/// Why the client's file can't hold it.
pub(super) fn write(client: Client, server: &Server, said: &mut Said) -> Result<Written, String> {
    let mut written = match &server.launch {
        Launch::Stdio(stdio) => local(client, stdio, said)?,
        remote => self::remote(client, remote, said)?,
    };
    if !server.enabled {
        if client != Client::Codex {
            return Err(format!("it is disabled, and {} has no way to keep it so", client.title()));
        }
        written.disabled = true;
    }
    if client == Client::Codex {
        written.startup_seconds = Some(server.limits.timeout_seconds);
        written.call_seconds = Some(server.limits.call_timeout_seconds).filter(|seconds| *seconds > 0.0);
    }
    filter(client, server, &mut written, said);
    if !server.when_env.is_empty() {
        said.notes.push("`when` is left out: it is always started".to_owned());
    }
    Ok(written)
}

fn filter(client: Client, server: &Server, written: &mut Written, said: &mut Said) {
    let literal = |patterns: &[Pattern]| {
        let names = patterns.iter().map(|pattern| pattern.is_literal().then(|| pattern.as_str().to_owned()));
        names.collect::<Option<Vec<_>>>().filter(|_| client == Client::Codex)
    };
    if let Some(include) = &server.tools.include {
        written.include = literal(include);
        if written.include.is_none() {
            said.notes.push("`tools.include` is left out: all tools are offered".to_owned());
        }
    }
    if !server.tools.exclude.is_empty() {
        match literal(&server.tools.exclude) {
            Some(names) => written.exclude = names,
            None => said.notes.push("`tools.exclude` is left out: all tools are offered".to_owned()),
        }
    }
}

fn local(client: Client, stdio: &Stdio, said: &mut Said) -> Result<Written, String> {
    let mut written = Written { command: Some(text(client, &stdio.command, "command", said)?), ..Written::default() };
    for (index, arg) in stdio.args.iter().enumerate() {
        written.args.push(text(client, arg, &format!("args[{index}]"), said)?);
    }
    for (key, value) in &stdio.env {
        let handed_on = matches!(value.parts(), [Part::Reference(Reference::Variable(name))] if name == key);
        match client {
            Client::Codex if handed_on => {
                written.handed_on.insert(key.clone());
            }
            Client::ClaudeDesktop if value.references().next().is_some() => {
                let note = format!("`env.{key}` is left out: {} fills in no variables", client.title());
                said.notes.push(note);
            }
            _ => written.env.push((key.clone(), text(client, value, &format!("env.{key}"), said)?)),
        }
    }
    if stdio.cwd.as_literal().as_deref() != Some(".") {
        match client {
            Client::Vscode | Client::Codex => written.cwd = Some(text(client, &stdio.cwd, "cwd", said)?),
            _ => said.notes.push(format!("`cwd` is left out: {} has no such key", client.title())),
        }
    }
    Ok(written)
}

fn remote(client: Client, launch: &Launch, said: &mut Said) -> Result<Written, String> {
    let kind = match launch.kind().as_str() {
        "streamable_http" => "http",
        "sse" if client != Client::Codex => "sse",
        other => return Err(format!("{} doesn't speak {other}", client.title())),
    };
    if client == Client::ClaudeDesktop {
        return Err("the file of Claude Desktop takes local servers only; add it as a connector there".to_owned());
    }
    let mut written = Written { kind, ..Written::default() };
    for (field, template) in launch.templates() {
        match field.strip_prefix("headers.") {
            None => written.url = Some(text(client, template, &field, said)?),
            Some(name) if client == Client::Codex => codex_header(&mut written, name, template, said)?,
            Some(name) => written.headers.push((name.to_owned(), text(client, template, &field, said)?)),
        }
    }
    Ok(written)
}

fn codex_header(written: &mut Written, name: &str, value: &Template, said: &mut Said) -> Result<(), String> {
    match value.parts() {
        [Part::Text(scheme), Part::Reference(Reference::Variable(variable))]
            if scheme == "Bearer " && name.eq_ignore_ascii_case("authorization") =>
        {
            written.bearer = Some(variable.clone());
        }
        [Part::Reference(Reference::Variable(variable))] => {
            written.header_variables.push((name.to_owned(), variable.clone()));
        }
        _ => written.headers.push((name.to_owned(), text(Client::Codex, value, &format!("headers.{name}"), said)?)),
    }
    Ok(())
}

/// A text in the client's syntax.
fn text(client: Client, template: &Template, field: &str, said: &mut Said) -> Result<String, String> {
    let mut out = String::new();
    for part in template.parts() {
        match part {
            Part::Text(text) if client.fills_in() && text.contains("${") => {
                return Err(format!("`{field}` holds `${{` as text, and {} would fill it in", client.title()));
            }
            Part::Text(text) => out.push_str(text),
            Part::Reference(reference) => out.push_str(&self::reference(client, reference, field, said)?),
        }
    }
    Ok(out)
}

fn reference(client: Client, reference: &Reference, field: &str, said: &mut Said) -> Result<String, String> {
    let (name, rest) = match reference {
        Reference::File(_) => return Err(format!("`{field}` reads a file, and {} can't", client.title())),
        _ if !client.fills_in() => {
            return Err(format!("`{field}` holds `{reference}`, and {} fills in no variables there", client.title()));
        }
        Reference::Variable(name) => (name, None),
        Reference::OrText(name, text) => (name, Some((text, "default"))),
        Reference::OrError(name, message) => (name, Some((message, "message"))),
    };
    if let (Client::ClaudeCode, Reference::OrText(name, text)) = (client, reference) {
        return Ok(format!("${{{name}:-{text}}}"));
    }
    if let Some((_, what)) = rest {
        said.notes.push(format!("the {what} of `${{{name}}}` in `{field}` is left out; set the variable"));
    }
    Ok(match client {
        Client::ClaudeCode => format!("${{{name}}}"),
        // What VS Code asks for comes back under the same name only when that is written in capitals.
        Client::Vscode if name_looks_secret(name) && variable_name(name).as_ref() == Some(name) => {
            said.inputs.insert(name.clone());
            format!("${{input:{name}}}")
        }
        _ => format!("${{env:{name}}}"),
    })
}

impl Client {
    /// Whether it replaces references in the texts of its file.
    fn fills_in(self) -> bool {
        matches!(self, Self::ClaudeCode | Self::Cursor | Self::Vscode)
    }
}

impl Written {
    /// The entry of a client whose file is JSON.
    pub(super) fn json(&self, client: Client) -> Value {
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        let map = |pairs: &[(String, String)]| pairs.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let typed = matches!(client, Client::ClaudeCode | Client::Vscode);
        if let Some(command) = &self.command {
            if typed {
                put("type", json!("stdio"));
            }
            put("command", json!(command));
            put("args", json!(self.args));
            if !self.env.is_empty() {
                put("env", Value::Object(map(&self.env)));
            }
            if let Some(cwd) = &self.cwd {
                put("cwd", json!(cwd));
            }
        }
        if let Some(url) = &self.url {
            // Where the path would be taken for a hint, the word has to be there.
            if typed || self.kind != Transport::of_url(url).kind() {
                put("type", json!(self.kind));
            }
            put("url", json!(url));
            if !self.headers.is_empty() {
                put("headers", Value::Object(map(&self.headers)));
            }
        }
        Value::Object(entry)
    }
}
