//! The guard: a small process that starts the executor as its child and stays behind to clean up.
//!
//! Both are child subreapers, so whatever a server forked, with setsid or a second fork, comes back to one of them:
//!
//! - the executor is killed: its descendants become the guard's, which kills them all and copies the status;
//! - the guard is killed: the kernel sends the executor SIGTERM, because it asked for it with `PR_SET_PDEATHSIG`, and it
//!   shuts down as on any other SIGTERM. (The request belongs to the thread that made it and is answered when the
//!   *thread* that started us ends: both are main threads, which last as long as their processes. A pipe to read would
//!   need a descriptor passed at a number both know, which needs unsafe code, and a thread that reads it.)
//! - both are killed in the same instant: nobody is left, and systemd or the container has to end the whole group.
//!
//! Elsewhere than on Linux there is no subreaper: there the executor tells the guard, over a socket, which process
//! groups it started, and the guard kills these; a descendant that left its group with setsid stays.

use std::ffi::OsString;
use std::process::ExitCode;

#[cfg(doc)]
use crate::runtime::signals::let_in;
#[cfg(target_os = "linux")]
use linux as system;
#[cfg(not(unix))]
use other as system;
#[cfg(all(unix, not(target_os = "linux")))]
use unix as system;

#[cfg(all(unix, not(target_os = "linux")))]
pub(super) use unix::{Told, tell};

/// The guard was gone before the executor could ask to be told: there is nothing to start for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the guard ended before the executor had started")]
pub struct GuardGone;

/// Runs this program once more, with `args`, as the executor, and watches over it to its end.
///
/// To be called from `main` before any thread or runtime exists: signals are blocked for the whole process and read
/// one by one. SIGTERM, SIGINT, SIGHUP and their like are handed on (one that the terminal sent to the whole group
/// isn't sent twice); stdin and stdout are the executor's, untouched. `after` is told the executor's process id once it
/// has ended, in whatever way. Gives the executor's status, 128 + N for signal N.
pub fn run(args: impl IntoIterator<Item = OsString>, after: impl FnOnce(u32)) -> ExitCode {
    system::run(args.into_iter().collect(), after).unwrap_or_else(|error| {
        tracing::error!(%error, "the executor could not be started");
        ExitCode::FAILURE
    })
}

/// Makes this process the executor under a guard, or alone if none started it. To be called from `main`, in its main
/// thread, before any other thread exists. The signals that the guard holds are held here too, until [`let_in`].
///
/// From here on orphans of our descendants come to us, and the end of the guard arrives as SIGTERM.
///
/// # Errors
/// When the guard is gone already.
pub fn adopt() -> Result<(), GuardGone> {
    system::adopt()
}

/// Whether this process was started by a guard.
pub fn is_present() -> bool {
    std::env::var_os(super::super::environment::GUARD).is_some()
}

/// This program's own file, also after an update has replaced it.
fn own_program() -> std::io::Result<std::path::PathBuf> {
    let path = std::env::current_exe()?;
    let alive = std::path::PathBuf::from("/proc/self/exe");
    Ok(if !path.exists() && alive.exists() { alive } else { path })
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{ExitCode, GuardGone, OsString};
    use crate::runtime::environment::GUARD;
    use crate::runtime::memory;
    use crate::runtime::signals::HELD;
    use nix::sys::prctl;
    use nix::sys::signal::{SigSet, Signal, kill};
    use nix::sys::signalfd::{SfdFlags, SignalFd};
    use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
    use nix::unistd::{Pid, getpid, getppid};
    use std::io::IsTerminal as _;
    use std::os::unix::process::CommandExt as _;
    use std::time::Duration;

    /// How long what is killed may take to go.
    const BURIAL: Duration = Duration::from_secs(5);
    /// `si_code` of a signal that the kernel sent, as the terminal does to every process of the foreground group.
    const SI_KERNEL: i32 = 0x80;

    pub(super) fn run(args: Vec<OsString>, after: impl FnOnce(u32)) -> std::io::Result<ExitCode> {
        prctl::set_child_subreaper(true)?;
        // Blocked before the start, so that none falls between it and the first read. The executor begins like this too,
        // and takes them once it listens.
        let watched: SigSet = HELD.into_iter().chain([Signal::SIGCHLD]).collect();
        watched.thread_block()?;
        let signals = SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC)?;
        let mut executor = std::process::Command::new(super::own_program()?);
        executor.args(args).env(GUARD, getpid().to_string());
        // Hosts kill whole process groups, and one SIGKILL must not take both. Where stdin is a terminal the executor
        // has to stay in the group that may read it.
        let apart = !std::io::stdin().is_terminal();
        if apart {
            executor.process_group(0);
        }
        let pid = executor.spawn()?.id();
        memory::give_back();
        let executor = Pid::from_raw(i32::try_from(pid).map_err(std::io::Error::other)?);
        let status = watch(&signals, executor, apart)?;
        after(pid);
        crate::runtime::process::sweep(BURIAL);
        Ok(ExitCode::from(status))
    }

    /// Hands signals on until the executor has ended.
    ///
    /// One that a terminal sent to the whole group has reached an executor of this group already.
    fn watch(signals: &SignalFd, executor: Pid, apart: bool) -> std::io::Result<u8> {
        loop {
            // A child that ended before the first read has left its SIGCHLD pending.
            let Some(info) = signals.read_signal()? else { continue };
            let signal = i32::try_from(info.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            match signal {
                Some(Signal::SIGCHLD) => {
                    if let Some(status) = ended(executor) {
                        return Ok(status);
                    }
                }
                Some(signal) if apart || info.ssi_code != SI_KERNEL => {
                    let _ = kill(executor, signal);
                }
                _ => {}
            }
        }
    }

    /// Waits for every child that has ended; the executor's status, if it was among them.
    fn ended(executor: Pid) -> Option<u8> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == executor => return Some((code & 0xff) as u8),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == executor => return Some(128 + signal as u8),
                Ok(WaitStatus::StillAlive) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    pub(super) fn adopt() -> Result<(), GuardGone> {
        // An old kernel without it still runs servers; then only what is seen in time is killed.
        if let Err(error) = prctl::set_child_subreaper(true) {
            tracing::warn!(%error, "orphans of servers will not come back to us");
        }
        let Some(guard) = std::env::var(GUARD).ok().and_then(|pid| pid.parse().ok()) else { return Ok(()) };
        let _ = prctl::set_pdeathsig(Signal::SIGTERM);
        // The guard may have ended before we asked: then our parent is someone else by now.
        if getppid() == Pid::from_raw(guard) { Ok(()) } else { Err(GuardGone) }
    }
}

#[cfg(not(unix))]
mod other {
    use super::{ExitCode, GuardGone, OsString};

    pub(super) fn run(args: Vec<OsString>, after: impl FnOnce(u32)) -> std::io::Result<ExitCode> {
        let mut executor = std::process::Command::new(super::own_program()?).args(args).spawn()?;
        let status = executor.wait()?;
        after(executor.id());
        Ok(ExitCode::from(u8::try_from(status.code().unwrap_or(1)).unwrap_or(1)))
    }

    pub(super) fn adopt() -> Result<(), GuardGone> {
        Ok(())
    }
}

#[cfg(unix)]
#[cfg_attr(target_os = "linux", allow(dead_code))]
#[path = "guard_unix.rs"]
mod unix;
