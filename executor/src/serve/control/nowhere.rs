//! Where there are no control sockets: each question is answered with that.

use std::io;
use std::time::Duration;

use tokio::io::DuplexStream;

use super::message::{Answer, Request};
use super::{ControlError, Key};

/// Never opened.
#[derive(Debug)]
pub(super) enum Listener {}

impl Listener {
    pub(super) fn open(_: &Key, _: u32) -> Result<Self, ControlError> {
        Err(ControlError::Unavailable)
    }

    pub(super) async fn accept(&self) -> io::Result<DuplexStream> {
        match *self {}
    }
}

/// Never found.
#[derive(Debug)]
pub struct Running {
    /// Its process id.
    pub pid: u32,
    never: Listener,
}

impl Running {
    /// Asks.
    ///
    /// # Errors
    /// Never, since there is nobody to ask.
    pub async fn ask(self, _: &Request, _: Option<Duration>) -> Result<Answer, ControlError> {
        match self.never {}
    }
}

/// The executors that run for a config.
///
/// # Errors
/// Always.
pub async fn find(_: &Key) -> Result<Vec<Running>, ControlError> {
    Err(ControlError::Unavailable)
}

/// Removes the socket of a process that could not do it itself.
pub fn forget(_: u32) {}
