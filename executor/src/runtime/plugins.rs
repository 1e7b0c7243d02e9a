//! Runs the programs of `plugins:`: the config goes in, the servers that should run come out. A plugin that fails costs
//! only its own servers.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::{Environment, Plugin};
use secrecy::ExposeSecret as _;

use super::connection::Context;
use super::environment::of_child;
use super::process;
use super::secrets::{self, Mask, SecretError};

/// How long a plugin may take.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// Most that a plugin may print, in bytes.
const OUTPUT_MAX: u64 = 1024 * 1024;
/// How much of its stderr a message shows, in characters.
const STDERR_SHOWN: usize = 400;

/// Why a plugin gave nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PluginError {
    /// A reference has no value.
    #[error(transparent)]
    Secret(#[from] SecretError),
    /// There is no such program.
    #[error("{0}")]
    NotFound(String),
    /// It couldn't be started or spoken to.
    #[error("the plugin can't be run: {0}")]
    Failed(String),
    /// It took too long.
    #[error("the plugin printed nothing within {} s and was stopped", PATIENCE.as_secs())]
    TimedOut,
    /// It ended with an error.
    #[error("the plugin ended with {status}{stderr}")]
    Ended {
        /// Exit status or signal, in words.
        status: String,
        /// The end of what it complained about.
        stderr: String,
    },
    /// It printed more than is taken.
    #[error("the plugin printed more than {OUTPUT_MAX} bytes")]
    TooMuch,
}

/// Runs each plugin with `config` on its stdin; blocks until all have ended.
pub fn run(plugins: &[Plugin], config: &str, context: &Context) -> BTreeMap<ServerName, Result<String, PluginError>> {
    std::thread::scope(|scope| {
        let running: Vec<_> =
            plugins.iter().map(|plugin| (plugin, scope.spawn(|| run_one(plugin, config, context)))).collect();
        let ended = running.into_iter().map(|(plugin, thread)| {
            let result =
                thread.join().unwrap_or_else(|_| Err(PluginError::Failed("it crashed mcplan's thread".to_owned())));
            (plugin.name.clone(), result)
        });
        ended.collect()
    })
}

fn run_one(plugin: &Plugin, config: &str, context: &Context) -> Result<String, PluginError> {
    let sources = context.sources();
    let (opened, mask) = secrets::open_plugin(plugin, sources)?;
    let declared = opened.env.iter().map(|(name, value)| (name.clone(), value.expose_secret().to_owned())).collect();
    let environment = of_child(Environment::Minimal, sources.environment, declared);
    let mut words = opened.command.iter().map(|word| word.expose_secret().to_owned());
    let program = words.next().unwrap_or_default();
    let program = if program.starts_with("~/") { secrets::absolute(&program, sources) } else { PathBuf::from(program) };
    let path = environment.get("PATH").map(String::as_str);
    let program = process::resolve(&program.display().to_string(), path, sources.directory)
        .map_err(|error| PluginError::NotFound(mask.apply(&error.to_string()).into_owned()))?;
    let mut command = Command::new(program);
    command.args(words).env_clear().envs(environment);
    command.current_dir(if sources.directory.as_os_str().is_empty() { ".".as_ref() } else { sources.directory });
    speak(command, config, &mask)
}

/// Gives `config` to the program and takes what it prints, each in a thread, so that neither can block the other.
fn speak(mut command: Command, config: &str, mask: &Mask) -> Result<String, PluginError> {
    let failed = |error: std::io::Error| PluginError::Failed(mask.apply(&error.to_string()).into_owned());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (told, ended) = mpsc::channel();
    let config = config.to_owned();
    std::thread::spawn(move || {
        if let Some(mut stdin) = stdin {
            // A plugin that doesn't read its input is fine.
            let _closed = stdin.write_all(config.as_bytes());
        }
    });
    let complaints = std::thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(stderr) = stderr {
            let _closed = stderr.take(OUTPUT_MAX).read_to_end(&mut text);
        }
        text
    });
    std::thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.map(|stdout| stdout.take(OUTPUT_MAX + 1).read_to_end(&mut text));
        // Nobody listens any more when it took too long.
        let _late = told.send(read.unwrap_or(Ok(0)).map(|_| text));
    });
    let Ok(printed) = ended.recv_timeout(PATIENCE) else {
        process::kill_group(child.id());
        let _reaped = child.wait();
        return Err(PluginError::TimedOut);
    };
    let printed = printed.map_err(failed)?;
    if printed.len() as u64 > OUTPUT_MAX {
        process::kill_group(child.id());
        let _reaped = child.wait();
        return Err(PluginError::TooMuch);
    }
    let status = child.wait().map_err(failed)?;
    if !status.success() {
        let complaints = complaints.join().unwrap_or_default();
        let text = String::from_utf8_lossy(&complaints);
        let text = mask.apply(text.trim()).into_owned();
        let shown: String = text.chars().rev().take(STDERR_SHOWN).collect::<Vec<_>>().into_iter().rev().collect();
        let stderr = if shown.is_empty() { String::new() } else { format!(": {shown}") };
        return Err(PluginError::Ended { status: process::Exit::from(status).to_string(), stderr });
    }
    let printed = String::from_utf8(printed)
        .map_err(|_| PluginError::Failed("it printed something that is not UTF-8".to_owned()))?;
    // It is locked. What it hands on of its own secrets becomes the reference again, which its servers can use as well.
    Ok(mask.apply(&printed).into_owned())
}
