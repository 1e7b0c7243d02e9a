//! What only a machine can tell (`validate --env`): variables that aren't set, commands that aren't there. The answers
//! come in, so that this stays pure.

use crate::builtins::catalogue;
use crate::code::Code;
use crate::config::{BuiltinEntry, Config, Plugin, ServerEntry, Text};
use crate::diagnostic::{Diagnostic, shown};
use crate::interpolate::{Reference, Template};
use crate::resolve::{Fragment, rebased};
use crate::secret::name_looks_secret;
use crate::source::Spanned;

/// What a machine says.
pub trait Machine {
    /// Whether a variable is set; `Some(true)` when to something.
    fn variable(&self, name: &str) -> Option<bool>;
    /// Whether a program is found.
    fn has_command(&self, program: &str) -> bool;
    /// Whether a file that the config names can be read; its path is relative to the main file.
    fn has_file(&self, path: &str) -> bool;
}

/// Everything that this machine lacks for what a config and its fragments start and listen with.
pub fn lints(config: &Config, fragments: &[Fragment], machine: &dyn Machine) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let nested = config.mcp.iter().flat_map(|mcp| mcp.servers.iter().flatten());
    let own: Vec<_> = config.mcp_servers.iter().flatten().chain(nested).collect();
    let is_parked = config.mcp.as_ref().is_some_and(|mcp| is_off(&mcp.enabled));
    if !is_parked {
        for entry in &own {
            lint_entry(&entry.value, "", machine, &mut found);
        }
        for fragment in fragments {
            let replaced = |entry: &ServerEntry| {
                entry.name.is_some() && own.iter().any(|other| other.value.name.as_ref() == entry.name.as_ref())
            };
            for entry in fragment.config.mcp_servers.iter().flatten().filter(|entry| !replaced(&entry.value)) {
                lint_entry(&entry.value, &fragment.directory, machine, &mut found);
            }
        }
        let fragments = fragments.iter().map(|fragment| (&fragment.config, &*fragment.directory));
        for (config, directory) in std::iter::once((config, "")).chain(fragments) {
            for builtin in config.mcp_builtins.iter().flatten() {
                lint_builtin(builtin, directory, machine, &mut found);
            }
        }
    }
    if let Some(bundle) = config.mcp.as_ref().and_then(|mcp| mcp.ca_bundle.as_ref())
        && !machine.has_file(&bundle.value)
    {
        let message = format!("`mcp.ca_bundle` names the file `{}`, which can't be read", shown(&bundle.value));
        found.push(Diagnostic::new(Code::UnreadableFile, bundle.at, message).help(
            "no remote server is reached without it: put the authority's certificates there as PEM; a relative path is \
             relative to the config",
        ));
    }
    for plugin in config.plugins.iter().flatten() {
        lint_plugin(&plugin.value, machine, &mut found);
    }
    let http = config.serve.as_ref().and_then(|serve| serve.http.as_ref());
    for (agent, token) in http.iter().flat_map(|http| http.tokens.iter().flatten()) {
        references(&text(token), &format!("serve.http.tokens.{}", agent.value), "", machine, &mut found);
    }
    if let Some(token) = http.and_then(|http| http.admin_token.as_ref()) {
        references(&text(token), "serve.http.admin_token", "", machine, &mut found);
    }
    found
}

fn lint_builtin(builtin: &Spanned<BuiltinEntry>, directory: &str, machine: &dyn Machine, found: &mut Vec<Diagnostic>) {
    let overrides = &builtin.value.0;
    let Some(known) = catalogue().get(&overrides.name.value).filter(|_| !is_off(&overrides.enabled)) else {
        return;
    };
    let overridden = |key: &String| overrides.env.iter().flatten().any(|(written, _)| written.value == *key);
    let own = known.env.iter().filter(|(key, _)| !overridden(key)).map(|(key, value)| (format!("env.{key}"), value));
    let args = known.args.iter().map(|arg| ("args".to_owned(), arg));
    for (field, text) in own.chain(args) {
        references(&Spanned::new(text.clone(), builtin.at), &field, directory, machine, found);
    }
    for (key, value) in overrides.env.iter().flatten() {
        references(&text(value), &format!("env.{}", key.value), directory, machine, found);
    }
    command(&Spanned::new(known.runner.command().to_owned(), builtin.at), "", machine, found);
}

fn lint_plugin(plugin: &Plugin, machine: &dyn Machine, found: &mut Vec<Diagnostic>) {
    let name = &plugin.name.value;
    for (index, word) in plugin.command.value.iter().enumerate() {
        references(&text(word), &format!("plugins.{name}.command[{index}]"), "", machine, found);
    }
    for (key, value) in plugin.env.iter().flatten() {
        references(&text(value), &format!("plugins.{name}.env.{}", key.value), "", machine, found);
    }
    if let Some(program) = plugin.command.value.first() {
        command(&text(program), "", machine, found);
    }
}

fn text(written: &Spanned<Text>) -> Spanned<String> {
    Spanned::new(written.value.0.clone(), written.at)
}

/// A server whose `when` isn't met needs nothing.
fn is_active(entry: &ServerEntry, machine: &dyn Machine) -> bool {
    let mut needed = entry.when.iter().flat_map(|when| when.env.iter().flatten());
    needed.all(|name| machine.variable(&name.value) == Some(true))
}

/// Whether `false` is written.
fn is_off(written: &Option<Spanned<bool>>) -> bool {
    written.as_ref().is_some_and(|written| !written.value)
}

/// `directory` is that of the file it stands in, relative to the main file's.
fn lint_entry(entry: &ServerEntry, directory: &str, machine: &dyn Machine, found: &mut Vec<Diagnostic>) {
    if is_off(&entry.enabled) || !is_active(entry, machine) {
        return;
    }
    let mut fields: Vec<(String, Spanned<String>)> = Vec::new();
    let single = [("command", &entry.command), ("cwd", &entry.cwd), ("url", &entry.url)];
    fields.extend(single.into_iter().filter_map(|(name, field)| Some((name.to_owned(), field.clone()?))));
    let args = entry.args.iter().flat_map(|args| &args.value).enumerate();
    fields.extend(args.map(|(index, arg)| (format!("args[{index}]"), text(arg))));
    for (kind, map) in [("env", &entry.env), ("headers", &entry.headers)] {
        let pairs = map.iter().flat_map(|map| &map.value);
        fields.extend(pairs.map(|(key, value)| (format!("{kind}.{}", key.value), text(value))));
    }
    for (field, text) in &fields {
        references(text, field, directory, machine, found);
    }
    if let Some(program) = &entry.command {
        command(program, directory, machine, found);
    }
}

fn references(
    written: &Spanned<String>,
    field: &str,
    directory: &str,
    machine: &dyn Machine,
    found: &mut Vec<Diagnostic>,
) {
    for reference in Template::parse(&written.value).0.references() {
        let (message, help) = match reference {
            Reference::Variable(name) if machine.variable(name).is_none() => (
                format!("`{field}` needs the variable `{name}`, which is not set"),
                // A default that is a secret would stand in the file for all to read.
                if name_looks_secret(name) || field.starts_with("serve.") {
                    "set it where mcplan runs".to_owned()
                } else {
                    format!("set it where mcplan runs, or give a default with `${{{name}:-text}}`")
                },
            ),
            Reference::OrError(name, message) if machine.variable(name) != Some(true) => {
                let why = match message.as_str() {
                    "" => ", which is unset or empty".to_owned(),
                    message => format!(": {message}"),
                };
                (format!("`{field}` needs the variable `{name}`{why}"), "set it where mcplan runs".to_owned())
            }
            Reference::File(path) if !machine.has_file(&rebased(directory, path)) => (
                format!("`{field}` needs the file `{path}`, which can't be read"),
                "mount it where mcplan runs; a relative path is relative to the file that says it".to_owned(),
            ),
            _ => continue,
        };
        found.push(Diagnostic::new(Code::UnsetVariable, written.at, message).help(help));
    }
}

fn command(program: &Spanned<String>, directory: &str, machine: &dyn Machine, found: &mut Vec<Diagnostic>) {
    // What a reference stands for is looked at when the server is started.
    if program.value.contains('$') || program.value.trim().is_empty() {
        return;
    }
    // A path is relative to its own file, a bare name to nothing.
    let path = program.value.contains('/').then(|| rebased(directory, &program.value));
    if machine.has_command(path.as_deref().unwrap_or(&program.value)) {
        return;
    }
    let message = format!("the command `{}` was not found on this machine", shown(&program.value));
    found.push(
        Diagnostic::new(Code::CommandNotFound, program.at, message).help("install it, or put its directory on PATH"),
    );
}
