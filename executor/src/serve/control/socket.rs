//! Where control sockets lie, and who may use them: a Unix socket in a directory of its user's alone.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::{Pid, geteuid};
use tokio::io::BufReader;
use tokio::net::{UnixListener, UnixStream};

use super::line::{self, LineError};
use super::message::{Answer, Request};
use super::{ControlError, Key};

/// Most bytes of an answer, which may hold a call's result.
const ANSWER_MAX: usize = 64 << 20;
/// How long an executor may take to be there for us.
const KNOCK: Duration = Duration::from_secs(2);

/// The directories in which our sockets may lie, best first.
fn own_directories() -> Vec<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    let temporary = below_temporary(&std::env::temp_dir());
    runtime.map(|path| path.join("mcplan")).into_iter().chain([temporary]).collect()
}

fn below_temporary(directory: &Path) -> PathBuf {
    directory.join(format!("mcplan-{}", geteuid()))
}

/// The directories in which an executor's socket is looked for: the client that started it may have given it less of an
/// environment than we have.
fn directories() -> Vec<PathBuf> {
    let mut all = own_directories();
    let usual = below_temporary(Path::new("/tmp"));
    if !all.contains(&usual) {
        all.push(usual);
    }
    all
}

fn file_name(key: &Key, pid: u32) -> String {
    format!("{}-{pid}.sock", key.0)
}

/// The key and the process id in a file's name, also in one that isn't open yet.
fn parse(name: &str) -> Option<(&str, u32)> {
    let (key, pid) = name.trim_start_matches('.').strip_suffix(".sock")?.split_once('-')?;
    Some((key, pid.parse().ok()?))
}

/// Whether a directory is ours alone, so that nobody else can have put a socket there.
fn trust(directory: &Path) -> Result<(), ControlError> {
    let untrusted = |why: String| ControlError::Untrusted { directory: directory.to_owned(), why };
    let found = std::fs::symlink_metadata(directory).map_err(|error| untrusted(error.to_string()))?;
    let mode = found.mode() & 0o7777;
    if !found.is_dir() {
        Err(untrusted("it is no directory".to_owned()))
    } else if found.uid() != geteuid().as_raw() {
        Err(untrusted(format!("it belongs to the user {}", found.uid())))
    } else if mode & 0o077 != 0 {
        Err(untrusted(format!(
            "others may use it (mode {mode:o}); remove it, or see what is in it and chmod it to 700"
        )))
    } else {
        Ok(())
    }
}

/// An open control socket. It is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    path: PathBuf,
    listener: UnixListener,
}

impl Listener {
    /// Opens one in the first directory that takes it.
    pub(super) fn open(key: &Key, pid: u32) -> Result<Self, ControlError> {
        let mut first = None;
        for directory in own_directories() {
            match Self::open_in(&directory, key, pid) {
                Ok(listener) => {
                    // What isn't there is no news, but what isn't ours may be somebody's doing.
                    if let Some(error @ ControlError::Untrusted { .. }) = first {
                        tracing::warn!("{error}; the control socket is in {} instead", directory.display());
                    }
                    return Ok(listener);
                }
                Err(error) => drop(first.get_or_insert(error)),
            }
        }
        Err(first.unwrap_or(ControlError::Unavailable))
    }

    fn open_in(directory: &Path, key: &Key, pid: u32) -> Result<Self, ControlError> {
        let path = directory.join(file_name(key, pid));
        let failed = |error: io::Error| ControlError::Open { path: path.clone(), cause: error.to_string() };
        // Said by the system only when it is too late: a name that is bound can be renamed to one that can't be used.
        SocketAddr::from_pathname(&path).map_err(failed)?;
        match std::fs::DirBuilder::new().mode(0o700).create(directory) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
            _ => trust(directory)?,
        }
        remove_stale(directory);
        // Under its own name only once it answers, so that nobody takes it for one that is left behind.
        let unready = directory.join(format!(".{}", file_name(key, pid)));
        let _none = std::fs::remove_file(&unready);
        let listener = UnixListener::bind(&unready).map_err(failed)?;
        let ready = std::fs::set_permissions(&unready, std::fs::Permissions::from_mode(0o600))
            .and_then(|()| std::fs::rename(&unready, &path));
        if let Err(error) = ready {
            let _gone = std::fs::remove_file(&unready);
            return Err(failed(error));
        }
        Ok(Self { path, listener })
    }

    /// The next connection of our own user's.
    pub(super) async fn accept(&self) -> io::Result<UnixStream> {
        loop {
            let (stream, _) = self.listener.accept().await?;
            if is_ours(&stream) {
                return Ok(stream);
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.path);
    }
}

/// Whether the process at the other end is our user's. Only root could come this far without being so.
fn is_ours(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == geteuid().as_raw())
}

/// The sockets in a directory, with key and process id.
fn sockets(directory: &Path) -> Vec<(PathBuf, String, u32)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let named = entries.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let (key, pid) = parse(&name)?;
        Some((entry.path(), key.to_owned(), pid))
    });
    named.collect()
}

/// Removes what dead processes have left.
fn remove_stale(directory: &Path) {
    for (path, _, pid) in sockets(directory) {
        // The number may be another process's by now, or mean nothing here when the directory is shared with a
        // container; only one that nobody answers at is stale.
        let is_dead = i32::try_from(pid).is_ok_and(|pid| kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH));
        if is_dead && std::os::unix::net::UnixStream::connect(&path).is_err_and(|error| is_unanswered(&error)) {
            let _gone = std::fs::remove_file(&path);
        }
    }
}

/// Whether a socket can't be answered at any more.
fn is_unanswered(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}

/// Removes the socket of a process that could not do it itself.
pub fn forget(pid: u32) {
    for directory in directories().iter().filter(|directory| trust(directory).is_ok()) {
        for (path, ..) in sockets(directory).into_iter().filter(|(.., of)| *of == pid) {
            let _gone = std::fs::remove_file(path);
        }
    }
}

/// A running executor that can be asked something, once.
#[derive(Debug)]
pub struct Running {
    /// Its process id.
    pub pid: u32,
    stream: UnixStream,
}

/// The executors that run for a config, by process id. Sockets that nobody answers at are removed.
///
/// # Errors
/// When nobody could be found here at all.
pub async fn find(key: &Key) -> Result<Vec<Running>, ControlError> {
    let mut found = Vec::new();
    for directory in directories().iter().filter(|directory| directory.exists()) {
        if let Err(error) = trust(directory) {
            tracing::warn!("{error}");
            continue;
        }
        for (path, _, pid) in sockets(directory).into_iter().filter(|(_, of, _)| *of == key.0) {
            match tokio::time::timeout(KNOCK, UnixStream::connect(&path)).await {
                Ok(Ok(stream)) if is_ours(&stream) => found.push(Running { pid, stream }),
                Ok(Err(error)) if is_unanswered(&error) => {
                    let _gone = std::fs::remove_file(&path);
                }
                Ok(_) | Err(_) => {}
            }
        }
    }
    found.sort_by_key(|running| running.pid);
    Ok(found)
}

impl Running {
    /// Asks. Hanging up, which dropping this does, takes a call back.
    ///
    /// # Errors
    /// When there is no answer, or none within `patience`.
    pub async fn ask(self, request: &Request, patience: Option<Duration>) -> Result<Answer, ControlError> {
        let (pid, mut stream) = (self.pid, BufReader::new(self.stream));
        let asked = async {
            line::write(&mut stream, request).await.map_err(|_| LineError::Ended)?;
            line::read(&mut stream, ANSWER_MAX).await
        };
        let answer = match patience {
            Some(patience) => match tokio::time::timeout(patience, asked).await {
                Ok(answer) => answer,
                Err(_) => return Err(ControlError::Silent { pid, seconds: patience.as_secs() }),
            },
            None => asked.await,
        };
        answer.map_err(|error| match error {
            LineError::Ended => ControlError::Ended { pid },
            error => ControlError::Answer { pid, cause: error.to_string() },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o700)).tempdir().unwrap()
    }

    fn key(name: &str) -> Key {
        Key(name.to_owned())
    }

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<_> = std::fs::read_dir(directory)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_socket_is_its_user_s_alone_and_goes_with_its_listener() {
        let parent = directory();
        let own = parent.path().join("mcplan");
        let listener = Listener::open_in(&own, &key("k"), 7).unwrap();
        assert_eq!(names(&own), ["k-7.sock"]);
        let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().mode() & 0o7777;
        assert_eq!((mode(&own), mode(&own.join("k-7.sock"))), (0o700, 0o600));
        drop(listener);
        assert_eq!(names(&own), [] as [&str; 0]);
    }

    #[tokio::test]
    async fn what_dead_processes_left_is_removed_and_nothing_else() {
        let directory = directory();
        // A number that no process has.
        let dead = i32::MAX as u32;
        let alive = std::process::id();
        let left = |name: String| drop(std::os::unix::net::UnixListener::bind(directory.path().join(name)).unwrap());
        left(file_name(&key("left"), dead));
        left(format!(".{}", file_name(&key("unready"), dead)));
        left(file_name(&key("living"), alive));
        let answered =
            std::os::unix::net::UnixListener::bind(directory.path().join(file_name(&key("there"), dead - 1)));
        std::fs::write(directory.path().join("notes.txt"), "").unwrap();
        let listener = Listener::open_in(directory.path(), &key("k"), 7).unwrap();
        let (alive, there) = (format!("living-{alive}.sock"), format!("there-{}.sock", dead - 1));
        assert_eq!(names(directory.path()), ["k-7.sock", &alive, "notes.txt", &there]);
        drop((listener, answered));
    }

    #[tokio::test]
    async fn a_directory_that_others_may_use_is_not_used() {
        let directory = directory();
        let untrusted = |path: &Path| match Listener::open_in(path, &key("k"), 7) {
            Err(ControlError::Untrusted { why, .. }) => why,
            other => panic!("{other:?}"),
        };
        let open = directory.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(untrusted(&open).starts_with("others may use it (mode 755)"));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(directory.path(), &link).unwrap();
        assert_eq!(untrusted(&link), "it is no directory");
        let file = directory.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(untrusted(&file), "it is no directory");
        if !geteuid().is_root() {
            assert_eq!(untrusted(Path::new("/")), "it belongs to the user 0");
        }
    }

    #[tokio::test]
    async fn a_path_that_is_too_long_for_a_socket_is_said() {
        let directory = directory();
        let long = directory.path().join("x".repeat(100));
        let error = Listener::open_in(&long, &key("k"), 7).unwrap_err().to_string();
        assert!(error.starts_with("no control socket can be opened at /") && error.contains("SUN_LEN"), "{error}");
        assert!(!long.exists());
    }

    #[test]
    fn names_tell_key_and_process() {
        assert_eq!(parse("0af-12.sock"), Some(("0af", 12)));
        assert_eq!(parse(".0af-12.sock"), Some(("0af", 12)));
        for name in ["0af.sock", "0af-x.sock", "0af-12", ""] {
            assert_eq!(parse(name), None, "{name}");
        }
    }
}
