//! The guard without a subreaper: it kills the process groups that the executor told it of.
//!
//! Compiled and tested on Linux too, where it isn't used.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::GuardGone;
use crate::runtime::environment::GUARD;
use crate::runtime::signals::HELD;

/// What the executor tells the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// A child was started, in a group of this number.
    Started(i32),
    /// That group has been killed.
    Ended(i32),
}

/// The line to the guard.
static LINE: Mutex<Option<UnixStream>> = Mutex::new(None);

/// Tells the guard, if there is one.
pub(crate) fn tell(told: Told) {
    if let Some(line) = LINE.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        let _ = match told {
            Told::Started(group) => writeln!(line, "+{group}"),
            Told::Ended(group) => writeln!(line, "-{group}"),
        };
    }
}

fn read(line: &str) -> Option<Told> {
    let group = line.get(1..)?.parse().ok().filter(|group| *group > 1)?;
    match line.as_bytes().first()? {
        b'+' => Some(Told::Started(group)),
        b'-' => Some(Told::Ended(group)),
        _ => None,
    }
}

/// Keeps the groups that an executor tells of, until it hangs up.
fn listen(stream: UnixStream, groups: &Mutex<BTreeSet<i32>>) {
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let mut groups = groups.lock().unwrap_or_else(PoisonError::into_inner);
        match read(&line) {
            Some(Told::Started(group)) => drop(groups.insert(group)),
            Some(Told::Ended(group)) => drop(groups.remove(&group)),
            None => {}
        }
    }
}

pub(super) fn run(args: Vec<OsString>, after: impl FnOnce(u32)) -> std::io::Result<ExitCode> {
    let watched: SigSet = HELD.into_iter().chain([Signal::SIGCHLD]).collect();
    watched.thread_block()?;
    let directory = std::env::temp_dir().join(format!("mcplan-guard-{}", std::process::id()));
    std::fs::create_dir(&directory)?;
    let socket = directory.join("groups");
    let listener = UnixListener::bind(&socket)?;
    let executor = std::process::Command::new(super::own_program()?).args(args).env(GUARD, &socket).spawn()?;
    let pid = executor.id();
    let executor = Pid::from_raw(i32::try_from(pid).map_err(std::io::Error::other)?);
    let groups = Arc::new(Mutex::new(BTreeSet::new()));
    let heard = groups.clone();
    // Ends with the process: it holds nothing that has to be closed.
    std::thread::spawn(move || {
        if let Ok((stream, _)) = listener.accept() {
            listen(stream, &heard);
        }
    });
    let status = loop {
        match watched.wait()? {
            Signal::SIGCHLD => match waitpid(executor, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(_, code)) => break (code & 0xff) as u8,
                Ok(WaitStatus::Signaled(_, signal, _)) => break 128 + signal as u8,
                _ => {}
            },
            signal => drop(kill(executor, signal)),
        }
    };
    for group in groups.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let _ = killpg(Pid::from_raw(*group), Signal::SIGKILL);
    }
    after(pid);
    let _ = std::fs::remove_dir_all(&directory);
    Ok(ExitCode::from(status))
}

pub(super) fn adopt() -> Result<(), GuardGone> {
    let Some(socket) = std::env::var_os(GUARD) else { return Ok(()) };
    let stream = UnixStream::connect(socket).map_err(|_| GuardGone)?;
    let mut ear = stream.try_clone().map_err(|_| GuardGone)?;
    *LINE.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    // The guard never speaks, so a read comes back only when it is gone. Ends with the process.
    std::thread::spawn(move || {
        let _ = std::io::Read::read(&mut ear, &mut [0]);
        let _ = kill(nix::unistd::getpid(), Signal::SIGTERM);
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_heard_and_forgotten() {
        let (mut speaker, listener) = UnixStream::pair().unwrap();
        let groups = Mutex::new(BTreeSet::new());
        speaker.write_all(b"+12\n+34\n-12\n+1\n+x\n\n?5\n").unwrap();
        drop(speaker);
        listen(listener, &groups);
        assert_eq!(groups.into_inner().unwrap(), BTreeSet::from([34]));
    }
}
