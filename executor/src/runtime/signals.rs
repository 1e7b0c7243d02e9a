//! What the system tells a running executor: stop, or read the files again.
//!
//! What it says before anybody listens must neither end us nor be lost, so signals are blocked from the first line of
//! `main` until they are listened to: they wait in the kernel meanwhile.

use std::io;

#[cfg(unix)]
use nix::sys::signal::{SigSet, Signal};

/// What the guard hands on to the executor, and what both hold until somebody listens.
#[cfg(unix)]
pub(super) const HELD: [Signal; 6] =
    [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT, Signal::SIGUSR1, Signal::SIGUSR2];

/// Has signals wait, for this thread and those that it starts. To be called before any other thread exists.
pub fn hold() {
    #[cfg(unix)]
    let _ = HELD.into_iter().collect::<SigSet>().thread_block();
}

/// Lets this thread, and whatever program it starts, have all signals: also those that whoever started us had blocked.
pub fn let_in() {
    #[cfg(unix)]
    let _ = SigSet::empty().thread_set_mask();
}

/// The signals of this process. Several may listen; each hears all.
pub struct Signals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
    #[cfg(unix)]
    hangup: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system gives no handler.
    pub fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for SIGTERM or SIGINT; gives the exit code of a process that ended by it.
    pub async fn stop(&mut self) -> u8 {
        tokio::select! {
            _ = self.terminate.recv() => 128 + 15,
            _ = self.interrupt.recv() => 128 + 2,
        }
    }

    /// Waits for SIGHUP.
    pub async fn reload(&mut self) {
        if self.hangup.recv().await.is_none() {
            std::future::pending().await
        }
    }
}

#[cfg(not(unix))]
impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// Never here.
    pub fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    /// Waits for Ctrl-C; gives the exit code of a process that ended by it.
    pub async fn stop(&mut self) -> u8 {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        128 + 2
    }

    /// There is no such signal here.
    pub async fn reload(&mut self) {
        std::future::pending().await
    }
}
