//! The control socket: how `mcplan status`, `reconnect`, `reload` and `call` reach a running executor.
//!
//! Every executor opens one, for its own user only, named after its config and its process. What is said on it is a
//! request and an answer, one line of JSON each, then the connection is over. Where the socket lies and how it is
//! guarded is the platform's; what is asked and answered is the same everywhere.

mod answer;
mod line;
mod message;
#[cfg(not(unix))]
#[path = "nowhere.rs"]
mod platform;
#[cfg(unix)]
#[path = "socket.rs"]
mod platform;
mod serve;

use std::path::{Path, PathBuf};

pub use answer::{Control, Identity};
pub use message::{Answer, CallRequest, Change, ProcessStatus, RejectedStatus, Reload, ReloadOutcome, Request, Status};
pub use platform::{Running, find, forget};
pub use serve::{Serving, start};

/// What sockets of one config have in common: a hash of the path of the config and its profile. The same config is the
/// same from whichever directory it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Of a config, which needn't be there, and what is laid over it.
    pub fn of(config: &Path, profile: Option<&str>) -> Self {
        let mut path = absolute(config).into_os_string().into_encoded_bytes();
        path.push(0);
        path.extend(profile.unwrap_or_default().bytes());
        let digest = mcplan_compiler::json::digest(&path);
        let hex = digest.strip_prefix("sha256:").unwrap_or(&digest);
        Self(hex.chars().take(16).collect())
    }
}

/// A config's path from the root. Links of its directory are followed, so that every way there is the same. The file's
/// own isn't: it may be retargeted while it is served, as in a Kubernetes volume.
pub fn absolute(config: &Path) -> PathBuf {
    let directory = crate::runtime::executor::directory_of(config);
    match (directory.canonicalize(), config.file_name()) {
        (Ok(directory), Some(name)) => directory.join(name),
        _ => std::path::absolute(config).unwrap_or_else(|_| config.to_owned()),
    }
}

/// Why an executor can't be reached, or can't be reachable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// This system has none.
    #[error("control sockets are not available on this system")]
    Unavailable,
    /// A directory that others may have put something into.
    #[error("{} can't be trusted with a control socket: {why}", .directory.display())]
    Untrusted {
        /// Which.
        directory: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The socket can't be made.
    #[error("no control socket can be opened at {}: {cause}", .path.display())]
    Open {
        /// Where.
        path: PathBuf,
        /// The system's words.
        cause: String,
    },
    /// It went away.
    #[error("the executor (process {pid}) ended before it answered")]
    Ended {
        /// Its process id.
        pid: u32,
    },
    /// It doesn't answer.
    #[error("the executor (process {pid}) did not answer within {seconds} s")]
    Silent {
        /// Its process id.
        pid: u32,
        /// How long was waited.
        seconds: u64,
    },
    /// Its answer isn't one.
    #[error("the answer of the executor (process {pid}) can't be read: {cause}; is it another version of mcplan?")]
    Answer {
        /// Its process id.
        pid: u32,
        /// What is wrong.
        cause: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_the_config_s_and_the_profile_s() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("below");
        std::fs::create_dir(&below).unwrap();
        let (config, around) = (directory.path().join("config.yml"), below.join("../config.yml"));
        let key = Key::of(&config, None);
        assert_eq!(key, Key::of(&around, None), "there is no file, and it is the same all the same");
        std::fs::write(&config, "").unwrap();
        assert_eq!(key, Key::of(&config, None));
        assert_ne!(key, Key::of(&directory.path().join("mcplan.yml"), None));
        assert_ne!(key, Key::of(&config, Some("prod")));
        assert_eq!(key.0.len(), 16);
    }
}
