//! Where a project's files are: the config, what it names, its lock.

use std::path::{Path, PathBuf};

use mcplan_compiler::lock::{Lock, LockError};
use mcplan_compiler::source::{ReadError, Sources};
use mcplan_compiler::{Compilation, compile};

use super::report::CouldNot;

/// The names that are looked for when none is given.
const DEFAULTS: [&str; 2] = ["config.yml", "mcplan.yml"];

/// A config and what lies beside it.
#[derive(Clone, Debug)]
pub struct Project {
    /// The config as the user named it.
    pub config: PathBuf,
    /// The directory that its relative paths are relative to.
    pub directory: PathBuf,
    /// Where its lock is.
    pub lock: PathBuf,
}

impl Project {
    /// The project of a config.
    pub fn new(config: PathBuf) -> Self {
        let directory = crate::runtime::executor::directory_of(&config);
        let lock = config.with_extension("lock.json");
        Self { config, directory, lock }
    }

    /// The project of `-c`, else of `./config.yml`, else of `./mcplan.yml`.
    ///
    /// # Errors
    /// When none is there.
    pub fn find(config: Option<PathBuf>) -> Result<Self, CouldNot> {
        if let Some(config) = config {
            return Ok(Self::new(config));
        }
        match DEFAULTS.iter().map(Path::new).find(|path| path.exists()) {
            Some(path) => Ok(Self::new(path.to_owned())),
            None => Err(CouldNot::new(format!(
                "there is no {} here; name a config with -c FILE",
                DEFAULTS.join(" and no ")
            ))),
        }
    }

    /// Compiles the config.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn compile(&self) -> Result<Compilation, CouldNot> {
        let path = self.config.display().to_string();
        compile(&path, &DiskSources { main: &self.config, directory: &self.directory })
            .map_err(|error| CouldNot::new(format!("{path} can't be read: {error}")))
    }

    /// The files of a compilation as the lock names them: relative to the config's directory.
    pub fn sources(&self, compilation: &Compilation) -> Vec<String> {
        let name = self.config.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        std::iter::once(name).chain(compilation.files.iter().skip(1).cloned()).collect()
    }

    /// Reads the lock, if there is one.
    ///
    /// # Errors
    /// When it can't be read or isn't a lock of this version.
    pub fn read_lock(&self) -> Result<Option<Lock>, LockProblem> {
        let text = match std::fs::read_to_string(&self.lock) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LockProblem { path: self.lock.clone(), reason: error.to_string() }),
        };
        let problem = |error: LockError| LockProblem { path: self.lock.clone(), reason: error.to_string() };
        Lock::read(&text).map(Some).map_err(problem)
    }

    /// Reads the lock that a command can't do without.
    ///
    /// # Errors
    /// When there is none, or it can't be used.
    pub fn need_lock(&self) -> Result<Lock, CouldNot> {
        match self.read_lock() {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(CouldNot::new(format!("no lock here ({}): run 'mcplan lock'", self.lock.display()))),
            Err(problem) => Err(CouldNot::new(problem.to_string())),
        }
    }
}

/// A lock that is there and can't be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub struct LockProblem {
    path: PathBuf,
    reason: String,
}

/// Files on disk: the config by its own path, everything else relative to its directory.
struct DiskSources<'a> {
    main: &'a Path,
    directory: &'a Path,
}

impl Sources for DiskSources<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let on_disk = if Path::new(path) == self.main { self.main.to_owned() } else { self.directory.join(home(path)) };
        std::fs::read(&on_disk).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ReadError::Missing,
            std::io::ErrorKind::IsADirectory => ReadError::Failed("it is a directory".to_owned()),
            _ => ReadError::Failed(error.to_string()),
        })
    }
}

/// `~/x` below the home directory; everything else as it is.
fn home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}
