//! What only a machine can tell (`validate --env`): variables that aren't set, commands that aren't there. The answers
//! come in, so that this stays pure.

use crate::builtins::catalogue;
use crate::code::Code;
use crate::config::{Config, ServerEntry};
use crate::diagnostic::Diagnostic;
use crate::interpolate::{Reference, Template};
use crate::source::Spanned;

/// What a machine says.
pub trait Machine {
    /// Whether a variable is set; `Some(true)` when to something.
    fn variable(&self, name: &str) -> Option<bool>;
    /// Whether a program is found.
    fn has_command(&self, program: &str) -> bool;
    /// Whether a file of `${file:…}` can be read.
    fn has_file(&self, path: &str) -> bool;
}

/// Everything that this machine lacks for the servers of a config.
pub fn lints(config: &Config, machine: &dyn Machine) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let entries = config.mcp_servers.iter().flatten();
    let nested = config.mcp.iter().flat_map(|mcp| mcp.servers.iter().flatten());
    for entry in entries.chain(nested).filter(|entry| entry.value.enabled.as_ref().is_none_or(|enabled| enabled.value))
    {
        if is_active(&entry.value, machine) {
            lint_entry(&entry.value, machine, &mut found);
        }
    }
    for builtin in config
        .mcp_builtins
        .iter()
        .flatten()
        .filter(|builtin| builtin.value.0.enabled.as_ref().is_none_or(|enabled| enabled.value))
    {
        let overrides = &builtin.value.0;
        let Some(known) = catalogue().get(&overrides.name.value) else { continue };
        let overridden = |key: &String| overrides.env.iter().flatten().any(|(written, _)| written.value == *key);
        let own =
            known.env.iter().filter(|(key, _)| !overridden(key)).map(|(key, value)| (format!("env.{key}"), value));
        let args = known.args.iter().map(|arg| ("args".to_owned(), arg));
        for (field, text) in own.chain(args) {
            references(&Spanned::new(text.clone(), builtin.at), &field, machine, &mut found);
        }
        for (key, value) in overrides.env.iter().flatten() {
            references(
                &Spanned::new(value.value.0.clone(), value.at),
                &format!("env.{}", key.value),
                machine,
                &mut found,
            );
        }
        command(&Spanned::new(known.runner.command().to_owned(), builtin.at), machine, &mut found);
    }
    found
}

/// A server whose `when` isn't met needs nothing.
fn is_active(entry: &ServerEntry, machine: &dyn Machine) -> bool {
    let mut needed = entry.when.iter().flat_map(|when| when.env.iter().flatten());
    needed.all(|name| machine.variable(&name.value) == Some(true))
}

fn lint_entry(entry: &ServerEntry, machine: &dyn Machine, found: &mut Vec<Diagnostic>) {
    let mut fields: Vec<(String, Spanned<String>)> = Vec::new();
    let single = [("command", &entry.command), ("cwd", &entry.cwd), ("url", &entry.url)];
    fields.extend(single.into_iter().filter_map(|(name, field)| Some((name.to_owned(), field.clone()?))));
    let args = entry.args.iter().flat_map(|args| &args.value).enumerate();
    fields.extend(args.map(|(index, arg)| (format!("args[{index}]"), Spanned::new(arg.value.0.clone(), arg.at))));
    for (kind, map) in [("env", &entry.env), ("headers", &entry.headers)] {
        let pairs = map.iter().flat_map(|map| &map.value);
        fields.extend(
            pairs.map(|(key, value)| (format!("{kind}.{}", key.value), Spanned::new(value.value.0.clone(), value.at))),
        );
    }
    for (field, text) in &fields {
        references(text, field, machine, found);
    }
    if let Some(program) = &entry.command {
        command(program, machine, found);
    }
}

fn references(written: &Spanned<String>, field: &str, machine: &dyn Machine, found: &mut Vec<Diagnostic>) {
    for reference in Template::parse(&written.value).0.references() {
        let (message, help) = match reference {
            Reference::Variable(name) if machine.variable(name).is_none() => (
                format!("`{field}` needs the variable `{name}`, which is not set"),
                format!("set it where mcplan runs, or give a default with `${{{name}:-text}}`"),
            ),
            Reference::OrError(name, message) if machine.variable(name) != Some(true) => {
                (format!("`{field}` needs the variable `{name}`: {message}"), "set it where mcplan runs".to_owned())
            }
            Reference::File(path) if !machine.has_file(path) => (
                format!("`{field}` needs the file `{path}`, which can't be read"),
                "mount it where mcplan runs; a relative path is relative to the main file".to_owned(),
            ),
            _ => continue,
        };
        found.push(Diagnostic::new(Code::UnsetVariable, written.at, message).help(help));
    }
}

fn command(program: &Spanned<String>, machine: &dyn Machine, found: &mut Vec<Diagnostic>) {
    // What a reference stands for is looked at when the server is started.
    if program.value.contains('$') || machine.has_command(&program.value) {
        return;
    }
    let message = format!("the command `{}` was not found on this machine", program.value);
    found.push(
        Diagnostic::new(Code::CommandNotFound, program.at, message).help("install it, or put its directory on PATH"),
    );
}
