//! What the system tells a running executor: stop, or read the files again.

use std::io;

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
