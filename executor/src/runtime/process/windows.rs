//! Windows: the child itself. A job object, which would hold its descendants too, is still to come.

use std::time::Duration;

use super::{Pipes, Step};

/// A child.
#[derive(Debug)]
pub(super) struct Family {
    leader: u32,
}

/// Nothing to do before the start.
pub(super) fn isolate(_: &mut tokio::process::Command) {}

/// There are no groups here; the handle's owner ends the child.
pub fn kill_group(_: u32) {}

/// No signals here.
pub(super) fn signal_name(signal: i32) -> String {
    format!("killed by signal {signal}")
}

impl Family {
    pub(super) fn of(leader: u32, _: &Pipes) -> Self {
        Self { leader }
    }

    pub(super) fn leader(&self) -> u32 {
        self.leader
    }

    pub(super) fn learn(&mut self) {}

    pub(super) fn look(&mut self) {}

    pub(super) fn send(&self, _: Step) {}

    pub(super) fn kill(&mut self) -> usize {
        0
    }

    /// Nobody's orphans are told apart here.
    pub(super) fn resign(&mut self) {}

    pub(super) fn forget(&mut self) {}
}

/// Children end with their handles.
pub fn sweep(_: Duration) -> usize {
    0
}

/// Nobody's orphans come to us.
#[derive(Debug, Default)]
pub struct Reaper;

impl Reaper {
    /// There is nothing to take.
    pub fn reap(&mut self, _now: std::time::Instant, _is_ours: impl Fn(i32) -> bool) {}
}
