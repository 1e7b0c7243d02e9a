//! Other Unix systems: the process group is all that is known.
//!
//! There is no subreaper here, so a descendant that left its group with setsid lives on; the documentation says so.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::{Pipes, Step, guard};

/// Groups of children that live.
static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// A child and its group.
#[derive(Debug)]
pub(super) struct Family {
    leader: i32,
}

/// Puts the child into a group of its own.
pub(super) fn isolate(builder: &mut tokio::process::Command) {
    builder.process_group(0);
}

/// Kills a whole group whose leader hasn't been waited for yet.
pub fn kill_group(leader: u32) {
    if let Ok(leader) = i32::try_from(leader) {
        let _gone = killpg(Pid::from_raw(leader), Signal::SIGKILL);
    }
}

/// The words for a process that a signal ended.
pub(super) fn signal_name(signal: i32) -> String {
    let name = Signal::try_from(signal).map_or_else(|_| format!("signal {signal}"), |signal| signal.to_string());
    format!("killed by {name}")
}

impl Family {
    pub(super) fn of(leader: u32, _: &Pipes) -> Self {
        let leader = i32::try_from(leader).unwrap_or(i32::MAX);
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).insert(leader);
        guard::tell(guard::Told::Started(leader));
        Self { leader }
    }

    pub(super) fn leader(&self) -> u32 {
        self.leader.unsigned_abs()
    }

    pub(super) fn learn(&mut self) {}

    pub(super) fn look(&mut self) {}

    pub(super) fn send(&self, step: Step) {
        let signal = match step {
            Step::CloseStdin => return,
            Step::Interrupt => Signal::SIGINT,
            Step::Terminate => Signal::SIGTERM,
        };
        let _ = killpg(Pid::from_raw(self.leader), signal);
    }

    /// SIGKILL for the group. Who of it still lived can't be told from zombies, so the answer is always nobody.
    pub(super) fn kill(&mut self) -> usize {
        let _ = killpg(Pid::from_raw(self.leader), Signal::SIGKILL);
        0
    }

    /// Nobody's orphans are told apart here.
    pub(super) fn resign(&mut self) {}

    pub(super) fn forget(&mut self) {
        GROUPS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.leader);
        guard::tell(guard::Told::Ended(self.leader));
    }
}

/// Kills every group that was started and has not been stopped. Gives how many processes are left, as far as known.
pub fn sweep(_: Duration) -> usize {
    for group in std::mem::take(&mut *GROUPS.lock().unwrap_or_else(PoisonError::into_inner)) {
        let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
    }
    0
}

/// Nobody's orphans come to us.
#[derive(Debug, Default)]
pub struct Reaper;

impl Reaper {
    /// There is nothing to take.
    pub fn reap(&mut self, _now: std::time::Instant, _is_ours: impl Fn(i32) -> bool) {}
}
