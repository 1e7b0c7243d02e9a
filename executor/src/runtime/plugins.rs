//! Runs the programs of `plugins:`: the config goes in, the servers that should run come out. A plugin that fails costs
//! only its own servers.

use std::collections::BTreeMap;
use std::io::{Read, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::{Environment, Plugin};
use secrecy::ExposeSecret as _;

use super::connection::Context;
use super::environment::of_child;
use super::process;
use super::secrets::{self, Mask, SecretError};
use super::signals;

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
    #[error("it can't be run: {0}")]
    Failed(String),
    /// It took too long.
    #[error("it didn't end within {} s and was stopped", .0.as_secs_f64())]
    TimedOut(Duration),
    /// It ended with an error.
    #[error("{status}{stderr}")]
    Ended {
        /// Exit status or signal, in words.
        status: String,
        /// The end of what it complained about.
        stderr: String,
    },
    /// It printed more than is taken.
    #[error("it printed more than {OUTPUT_MAX} bytes")]
    TooMuch,
}

/// Runs each plugin with `config` on its stdin, all at the same time; blocks until all have ended, or for `patience`.
pub fn run(
    plugins: &[Plugin],
    config: &str,
    context: &Context,
    patience: Duration,
) -> BTreeMap<ServerName, Result<String, PluginError>> {
    std::thread::scope(|scope| {
        let running: Vec<_> = plugins
            .iter()
            .map(|plugin| (plugin, scope.spawn(move || run_one(plugin, config, context, patience))))
            .collect();
        let ended = running.into_iter().map(|(plugin, thread)| {
            let result =
                thread.join().unwrap_or_else(|_| Err(PluginError::Failed("it crashed mcplan's thread".to_owned())));
            (plugin.name.clone(), result)
        });
        ended.collect()
    })
}

fn run_one(plugin: &Plugin, config: &str, context: &Context, patience: Duration) -> Result<String, PluginError> {
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
    speak(command, config, &mask, patience)
}

/// Gives `config` to the program and takes what it prints, each in a thread, so that neither can block the other. A
/// program that has closed its output and goes on, or that leaves others behind that hold it open, isn't waited for.
fn speak(mut command: Command, config: &str, mask: &Mask, patience: Duration) -> Result<String, PluginError> {
    let failed = |error: std::io::Error| PluginError::Failed(mask.apply(&error.to_string()).into_owned());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let until = Instant::now() + patience;
    signals::let_in();
    let mut child = command.spawn().map_err(failed)?;
    let leader = child.id();
    if let Some(mut stdin) = child.stdin.take() {
        let config = config.to_owned();
        // A plugin that doesn't read its input is fine.
        in_thread(move || stdin.write_all(config.as_bytes()));
    }
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let printed = in_thread(move || read(stdout, OUTPUT_MAX + 1));
    let complaints = in_thread(move || read(stderr, OUTPUT_MAX));
    let left = || until.saturating_duration_since(Instant::now());
    let printed = match printed.recv_timeout(left()) {
        Ok(Ok(printed)) if printed.len() as u64 <= OUTPUT_MAX => Ok(printed),
        Ok(Ok(_)) => Err(PluginError::TooMuch),
        Ok(Err(error)) => Err(failed(error)),
        Err(_) => Err(PluginError::TimedOut(patience)),
    };
    if printed.is_err() {
        process::kill_group(leader);
    }
    let ended = in_thread(move || child.wait());
    let printed = printed?;
    let Ok(status) = ended.recv_timeout(left()) else {
        process::kill_group(leader);
        return Err(PluginError::TimedOut(patience));
    };
    let status = status.map_err(failed)?;
    if !status.success() {
        let complaints = complaints.recv_timeout(left()).ok().and_then(Result::ok).unwrap_or_default();
        let text = String::from_utf8_lossy(&complaints);
        let text = mask.apply(text.trim()).into_owned();
        let shown: String = text.chars().rev().take(STDERR_SHOWN).collect::<Vec<_>>().into_iter().rev().collect();
        let stderr = if shown.is_empty() { String::new() } else { format!(": {shown}") };
        return Err(PluginError::Ended { status: process::Exit::from(status).to_string(), stderr });
    }
    let printed = String::from_utf8(printed)
        .map_err(|_| PluginError::Failed("it printed something that is not UTF-8".to_owned()))?;
    // It is locked. What it hands on of its own secrets becomes the reference again, which its servers can use as well.
    Ok(mask.of_secrets().apply(&printed).into_owned())
}

/// Does what may block in a thread of its own; what comes of it can be waited for as long as one likes.
fn in_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        // Nobody listens any more when it took too long.
        let _late = sender.send(work());
    });
    receiver
}

fn read(pipe: Option<impl Read>, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    pipe.map_or(Ok(0), |pipe| pipe.take(most).read_to_end(&mut bytes))?;
    Ok(bytes)
}

#[cfg(all(test, unix))]
mod tests {
    use mcplan_compiler::plan::Plan;
    use mcplan_compiler::source::MemorySources;

    use super::*;

    fn plugins(config: &str) -> Plan {
        let files = MemorySources([("config.yml".to_owned(), config.as_bytes().to_vec())].into());
        mcplan_compiler::compile("config.yml", &files).expect("it can be read").plan.expect("it compiles")
    }

    fn run_all(config: &str, patience: Duration) -> Vec<String> {
        let context = Context::of_process(std::path::Path::new(""));
        let ended = run(&plugins(config).plugins, "{}", &context, patience);
        ended.into_values().map(|result| result.unwrap_or_else(|error| error.to_string())).collect()
    }

    /// Each in its own way: one prints nothing, one has closed its output, one leaves another behind that holds it open.
    #[test]
    fn a_plugin_that_does_not_end_in_time_is_stopped() {
        let stay = "tail -f /dev/null";
        let config = format!(
            "plugins:\n  - {{ name: a, command: [sh, -c, '{stay}'] }}\n  \
             - {{ name: b, command: [sh, -c, 'exec > /dev/null; {stay}'] }}\n  \
             - {{ name: c, command: [sh, -c, '({stay}) & echo done'] }}\n"
        );
        let patience = Duration::from_millis(50);
        assert_eq!(run_all(&config, patience), ["it didn't end within 0.05 s and was stopped"; 3]);
    }

    #[test]
    fn how_it_failed_is_said() {
        let config = "plugins:\n  - { name: a, command: [sh, -c, 'echo no token >&2; exit 3'] }\n  \
                      - { name: b, command: [no-such-plugin] }\n  \
                      - { name: c, command: [sh, -c, 'kill -KILL $$$$'] }\n  - { name: d, command: [cat] }\n  \
                      - { name: e, command: [printf, '\\377'] }\n  - { name: f, command: ['${NO_SUCH_VARIABLE_HERE}'] }\n";
        let said = run_all(config, PATIENCE);
        assert_eq!(said[0], "exit status 3: no token");
        assert!(said[1].contains("no-such-plugin"), "{said:?}");
        assert_eq!((&*said[2], &*said[3]), ("killed by SIGKILL", "{}"));
        assert!(said[4].contains("not UTF-8") && said[5].contains("NO_SUCH_VARIABLE_HERE"), "{said:?}");
    }
}
