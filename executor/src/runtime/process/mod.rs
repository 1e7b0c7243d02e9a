//! Child processes and everything they start: spawned into a group of their own, stopped by a ladder that ends in
//! SIGKILL, and no descendant forgotten.
//!
//! What differs between systems is one type, `platform::Family`: the processes that belong to one child. It knows the
//! tree as far as it could be seen; what it can't tell apart from another server's processes waits for [`sweep`] at the
//! executor's end.

pub mod guard;
mod stderr;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(all(unix, not(target_os = "linux")))]
#[path = "unix.rs"]
mod platform;
#[cfg(windows)]
#[path = "windows.rs"]
mod platform;
#[cfg(target_os = "linux")]
use linux as platform;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::Instant;

use super::signals;

pub use platform::{Reaper, kill_group, sweep};
pub use stderr::{LINE_MAX, TAIL_MAX, Tail, Throttle, follow};

/// How long a server has after its stdin closed, and after each signal.
const LADDER: [(Step, Duration); 3] = [
    (Step::CloseStdin, Duration::from_millis(100)),
    (Step::Interrupt, Duration::from_millis(100)),
    (Step::Terminate, Duration::from_millis(600)),
];
/// How long the kernel may take to bury what was killed.
const BURIAL: Duration = Duration::from_secs(1);

/// A rung of the shutdown ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    CloseStdin,
    Interrupt,
    Terminate,
}

/// A program to start, with nothing left to look up.
pub struct Command {
    /// The file, as [`resolve`] found it.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment.
    pub environment: BTreeMap<String, String>,
    /// Where it starts.
    pub directory: PathBuf,
}

/// No such program.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", message(.program, .searched.as_deref()))]
pub struct NotFound {
    /// As it was asked for.
    pub program: String,
    /// The PATH that was searched; `None` for a program given as a path, or without any PATH.
    pub searched: Option<String>,
}

fn message(program: &str, searched: Option<&str>) -> String {
    match searched {
        Some(path) => format!(
            "the command `{program}` was not found on the server's PATH ({path}); install it, or give its full path"
        ),
        None if program.contains('/') => format!("the command `{program}` is not there, or is not executable"),
        None => format!("the command `{program}` was not found: the server has no PATH; set one in its `env`"),
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// Its exit status, if it ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit status {code}"),
            (None, Some(signal)) => write!(f, "{}", platform::signal_name(signal)),
            (None, None) => f.write_str("no exit status"),
        }
    }
}

impl From<std::process::ExitStatus> for Exit {
    fn from(status: std::process::ExitStatus) -> Self {
        #[cfg(unix)]
        let signal = std::os::unix::process::ExitStatusExt::signal(&status);
        #[cfg(not(unix))]
        let signal = None;
        Self { code: status.code(), signal }
    }
}

/// Finds a program: a name on `path`, the child's own; something with a slash from `directory`.
///
/// # Errors
/// When there is none, with the PATH that was searched.
pub fn resolve(program: &str, path: Option<&str>, directory: &Path) -> Result<PathBuf, NotFound> {
    let is_path = program.contains('/') || (cfg!(windows) && program.contains('\\'));
    let searched = path.filter(|_| !is_path);
    which::which_in(program, path, directory)
        .map_err(|_| NotFound { program: program.to_owned(), searched: searched.map(str::to_owned) })
}

/// A running child. Dropping it kills it and what it started, at once and without waiting.
#[derive(Debug)]
pub struct Child {
    handle: tokio::process::Child,
    family: platform::Family,
    exit: Option<Exit>,
    ended: bool,
}

/// The ends of a child's standard streams.
#[derive(Debug)]
pub struct Pipes {
    /// What we say.
    pub stdin: ChildStdin,
    /// What it says.
    pub stdout: ChildStdout,
    /// What it complains about.
    pub stderr: ChildStderr,
}

/// Held while a child is started and while descendants are looked for: until its program runs, a child holds copies of
/// all our pipes, and would be taken for an orphan that another server left behind.
fn spawning() -> MutexGuard<'static, ()> {
    static SPAWNING: Mutex<()> = Mutex::new(());
    SPAWNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts `command` in a process group of its own, all three streams piped.
///
/// # Errors
/// The system's.
pub async fn spawn(command: &Arc<Command>) -> std::io::Result<(Child, Pipes)> {
    let command = command.clone();
    // The thread that starts a process stands still until its program runs, which takes a while where every core has
    // something to do. Calls and lists go on meanwhile.
    tokio::task::spawn_blocking(move || spawn_and_wait(&command)).await.map_err(std::io::Error::other)?
}

fn spawn_and_wait(command: &Command) -> std::io::Result<(Child, Pipes)> {
    let mut builder = tokio::process::Command::new(&command.program);
    builder
        .args(&command.args)
        .env_clear()
        .envs(&command.environment)
        .current_dir(&command.directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    platform::isolate(&mut builder);
    // A child begins with the mask of the thread that starts it.
    signals::let_in();
    let _spawning = spawning();
    let mut handle = builder.spawn()?;
    let gone = || std::io::Error::other("the child has no pipes");
    let pipes = Pipes {
        stdin: handle.stdin.take().ok_or_else(gone)?,
        stdout: handle.stdout.take().ok_or_else(gone)?,
        stderr: handle.stderr.take().ok_or_else(gone)?,
    };
    let family = platform::Family::of(handle.id().ok_or_else(gone)?, &pipes);
    Ok((Child { handle, family, exit: None, ended: false }, pipes))
}

impl Child {
    /// The process id, which is its group's too.
    pub fn pid(&self) -> u32 {
        self.family.leader()
    }

    /// Waits for the child's own end. May be dropped and called again.
    pub async fn wait(&mut self) -> Exit {
        if let Some(exit) = self.exit {
            return exit;
        }
        let exit = self.handle.wait().await.map_or(Exit { code: None, signal: None }, Exit::from);
        self.exit = Some(exit);
        exit
    }

    /// Looks at what the child has started by now, so that it is known when its parent is gone.
    pub fn look(&mut self) {
        self.family.learn();
    }

    /// Ends the child and all that it started. Its stdin must have been closed by the one who owns it.
    ///
    /// 100 ms for the closed stdin, SIGINT and 100 ms, SIGTERM and 600 ms, then SIGKILL for the group and every
    /// descendant that is known, also when the child itself went early. `deadline` shortens the waits and never skips
    /// the SIGKILL.
    pub async fn shutdown(&mut self, deadline: Instant) -> Exit {
        for (step, grace) in LADDER {
            self.family.look();
            if self.exit.is_some() {
                break;
            }
            self.family.send(step);
            let until = deadline.min(Instant::now() + grace);
            let _ = tokio::time::timeout_at(until, self.wait()).await;
        }
        self.bury().await
    }

    /// SIGKILL until nobody is left.
    async fn bury(&mut self) -> Exit {
        let until = Instant::now() + BURIAL;
        if self.exit.is_none() {
            self.family.kill();
            let _ = self.handle.start_kill();
            let _ = tokio::time::timeout_at(until, self.wait()).await;
        }
        self.family.resign();
        // What the killed ones left behind comes to us only now, so look, kill and count once more.
        while self.family.kill() > 0 && Instant::now() < until {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.end();
        self.exit.unwrap_or(Exit { code: None, signal: None })
    }

    fn end(&mut self) {
        if !std::mem::replace(&mut self.ended, true) {
            self.family.forget();
        }
    }
}

/// The longest that dropping a child holds up its thread, in milliseconds.
const BLINK_MS: u32 = 50;

impl Drop for Child {
    fn drop(&mut self) {
        if !self.ended {
            self.family.kill();
            // What it owned must be free for whoever comes next. A killed process goes within a millisecond or so.
            for _ in 0..BLINK_MS {
                if !matches!(self.handle.try_wait(), Ok(None)) {
                    break;
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            self.end();
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
