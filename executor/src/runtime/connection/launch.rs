//! What is run for a stdio server: the program where a child would find it, its arguments, environment and directory.

use std::collections::BTreeMap;
use std::path::PathBuf;

use mcplan_compiler::plan::{Launch, Server};
use secrecy::{ExposeSecret as _, SecretString};

use super::Context;
use super::error::ConnectError;
use crate::runtime::environment;
use crate::runtime::process;
use crate::runtime::secrets::{self, Mask, Sources};

/// A stdio launch with its values.
pub(super) struct Resolved<'a> {
    pub(super) command: &'a SecretString,
    pub(super) args: &'a [SecretString],
    pub(super) env: &'a BTreeMap<String, SecretString>,
    pub(super) cwd: &'a PathBuf,
}

/// What is run.
///
/// # Errors
/// When the program or the directory isn't there.
pub(super) fn command_of(
    server: &Server,
    context: &Context,
    mask: &Mask,
    resolved: &Resolved<'_>,
) -> Result<process::Command, ConnectError> {
    let Launch::Stdio(stdio) = &server.launch else {
        return Err(ConnectError::Spawn { server: server.name.clone(), cause: "it has no command".to_owned() });
    };
    let exposed = |secret: &SecretString| secret.expose_secret().to_owned();
    let declared = resolved.env.iter().map(|(name, value)| (name.clone(), exposed(value))).collect();
    let environment = environment::of_child(stdio.environment, context.sources().environment, declared);
    if !resolved.cwd.is_dir() {
        let directory = mask.apply(&resolved.cwd.display().to_string()).into_owned();
        return Err(ConnectError::Directory { server: server.name.clone(), directory });
    }
    let path = environment.get("PATH").map(String::as_str);
    let program = find(resolved.command.expose_secret(), path, context.sources()).map_err(|mut cause| {
        cause.program = mask.apply(&cause.program).into_owned();
        cause.searched = cause.searched.map(|path| mask.apply(&path).into_owned());
        ConnectError::NotFound { server: server.name.clone(), cause }
    })?;
    let args = resolved.args.iter().map(exposed).collect();
    Ok(process::Command { program, args, environment, directory: resolved.cwd.clone() })
}

/// The program: our own for the name of our own binary, else as the child would find it.
fn find(command: &str, path: Option<&str>, sources: Sources<'_>) -> Result<PathBuf, process::NotFound> {
    let own = std::env::current_exe().ok().filter(|own| own.file_stem() == Some("mcplan".as_ref()));
    match own {
        Some(own) if command == "mcplan" => Ok(own),
        _ => {
            let command = if command.starts_with("~/") {
                secrets::absolute(command, sources).display().to_string()
            } else {
                command.to_owned()
            };
            process::resolve(&command, path, sources.directory)
        }
    }
}
