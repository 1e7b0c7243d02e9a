//! Where a project's files are: the config, what it names, its lock.

use std::path::{Path, PathBuf};

use mcplan_compiler::lock::{Lock, LockError};
use mcplan_compiler::source::{ReadError, Sources};
use mcplan_compiler::{Compilation, compile};

use super::report::{self, CouldNot};

/// The names that are looked for when none is given.
const DEFAULTS: [&str; 2] = ["config.yml", "mcplan.yml"];

/// A config and what lies beside it.
#[derive(Clone, Debug)]
pub(super) struct Project {
    /// The config as the user named it.
    pub config: PathBuf,
    /// The directory that its relative paths are relative to.
    pub directory: PathBuf,
    /// Where its lock is.
    pub lock: PathBuf,
}

impl Project {
    /// The project of a config.
    pub(super) fn new(config: PathBuf) -> Self {
        let directory = crate::runtime::executor::directory_of(&config);
        let lock = config.with_extension("lock.json");
        Self { config, directory, lock }
    }

    /// The project of `-c`, else of `./config.yml`, else of `./mcplan.yml`.
    ///
    /// # Errors
    /// When none is there.
    pub(super) fn find(config: Option<PathBuf>) -> Result<Self, CouldNot> {
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
    pub(super) fn compile(&self) -> Result<Compilation, CouldNot> {
        let path = self.config.display().to_string();
        self.compile_as(None).map_err(|error| CouldNot::new(format!("{path} can't be read: {error}")))
    }

    /// Compiles the config as it would be with another text.
    ///
    /// # Errors
    /// When there is no text and the file can't be read.
    pub(super) fn compile_as(&self, text: Option<&str>) -> Result<Compilation, ReadError> {
        let path = self.config.display().to_string();
        compile(&path, &DiskSources { main: &self.config, directory: &self.directory, edited: text })
    }

    /// The files of a compilation as the lock names them: relative to the config's directory.
    pub(super) fn sources(&self, compilation: &Compilation) -> Vec<String> {
        let name = self.config.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        std::iter::once(name).chain(compilation.files.iter().skip(1).cloned()).collect()
    }

    /// Reads the lock, if there is one.
    ///
    /// # Errors
    /// When it can't be read or isn't a lock of this version.
    pub(super) fn read_lock(&self) -> Result<Option<Lock>, LockProblem> {
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
    pub(super) fn need_lock(&self) -> Result<Lock, CouldNot> {
        match self.read_lock() {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(CouldNot::new(format!("no lock here ({}): run 'mcplan lock'", self.lock.display()))),
            Err(problem) => Err(CouldNot::new(problem.to_string())),
        }
    }
}

impl Project {
    /// Says so when the config compiles to another plan than the lock's.
    pub(super) fn warn_if_stale(&self, lock: &Lock) {
        let Ok(compilation) = self.compile() else { return };
        let sources = self.sources(&compilation);
        let fits = compilation.plan.as_ref().is_some_and(|plan| lock.check(plan, &sources).is_empty());
        if !fits {
            report::warning(format_args!(
                "lock-stale: {} doesn't fit {} any more; this shows what is locked",
                self.lock.display(),
                self.config.display()
            ));
        }
    }

    /// Writes the lock, whole or not at all; whether it wasn't the same already.
    ///
    /// # Errors
    /// When it can't be written.
    pub(super) fn write_lock(&self, lock: &Lock) -> Result<bool, CouldNot> {
        let failed =
            |error: std::io::Error| CouldNot::new(format!("{} can't be written: {error}", self.lock.display()));
        let text = lock.text();
        // Two at once: one waits for the other, and neither file is ever half of each.
        let guard_path = self.directory.join(format!(".{}.writing", file_name(&self.lock)));
        let guard = std::fs::File::create(&guard_path).map_err(failed)?;
        guard.lock().map_err(failed)?;
        let written = self.replace_lock(&text).map_err(failed);
        let _left_behind = std::fs::remove_file(&guard_path);
        written
    }

    fn replace_lock(&self, text: &str) -> std::io::Result<bool> {
        if std::fs::read(&self.lock).is_ok_and(|old| old == text.as_bytes()) {
            return Ok(false);
        }
        // A lock that is a symlink stays one.
        let target = self.lock.canonicalize().unwrap_or_else(|_| self.lock.clone());
        let whole = target.with_file_name(format!(".{}.{}", file_name(&target), std::process::id()));
        std::fs::write(&whole, text)?;
        std::fs::rename(&whole, &target)?;
        Ok(true)
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// A lock that is there and can't be used.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}: {reason}", path.display())]
pub(super) struct LockProblem {
    path: PathBuf,
    reason: String,
}

/// Files on disk: the config by its own path, everything else relative to its directory.
struct DiskSources<'a> {
    main: &'a Path,
    directory: &'a Path,
    /// What to read instead of the config's own text.
    edited: Option<&'a str>,
}

impl Sources for DiskSources<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        if let Some(text) = self.edited.filter(|_| Path::new(path) == self.main) {
            return Ok(text.as_bytes().to_vec());
        }
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
