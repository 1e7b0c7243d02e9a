//! Where a project's files are: the config, what it names, its lock.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use mcplan_compiler::include::profile_path;
use mcplan_compiler::lock::{Lock, LockError, Notice};
use mcplan_compiler::source::ReadError;
use mcplan_compiler::{Compilation, Options, compile_with};

use super::cores::on_all_cores;
use super::disk::{DiskSources, home};
use super::report::{self, CouldNot};
use crate::runtime::connection::Context;
use crate::runtime::plugins;
use crate::serve::control::Key;

/// What plugins printed, by their names, or why one gave nothing.
type Outputs = BTreeMap<String, Result<String, String>>;

/// The names that are looked for when none is given.
const DEFAULTS: [&str; 2] = ["config.yml", "mcplan.yml"];

/// Which config a command is about.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Which {
    /// The config [default: ./config.yml, then ./mcplan.yml]
    #[arg(short, long, global = true, value_name = "FILE", help_heading = super::COMMON)]
    pub config: Option<PathBuf>,
    /// Lay config.NAME.yml over config.yml
    #[arg(long, global = true, value_name = "NAME", value_parser = profile_name, help_heading = super::COMMON)]
    pub profile: Option<String>,
    /// The config is another program's: let its own keys be
    #[arg(long, global = true, help_heading = super::COMMON)]
    pub host_keys: bool,
}

impl Which {
    /// The project of a config, as all configs are asked for.
    pub(super) fn project(&self, config: PathBuf) -> Project {
        Project::new(config, self.profile.clone(), self.host_keys)
    }
}

/// A profile's name is a part of two files' names, and no path.
fn profile_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.is_empty() || text.starts_with('.') || !text.chars().all(fits) {
        return Err(
            "a profile is named by letters, digits, `-`, `_` and `.`, as in `prod` for config.prod.yml".to_owned()
        );
    }
    Ok(text.to_owned())
}

/// A config and what lies beside it.
#[derive(Clone, Debug)]
pub(super) struct Project {
    /// The config as the user named it.
    pub config: PathBuf,
    /// The directory that its relative paths are relative to.
    pub directory: PathBuf,
    /// Where its lock is.
    pub lock: PathBuf,
    /// What is laid over it.
    profile: Option<String>,
    /// The file is another program's.
    host_keys: bool,
    /// The file is checked as a fragment.
    pub fragment: bool,
    /// Whether the user named the config: what is found without that needs no naming in advice either.
    named: bool,
}

impl Project {
    /// The project of a config.
    pub(super) fn new(config: PathBuf, profile: Option<String>, host_keys: bool) -> Self {
        let directory = crate::runtime::executor::directory_of(&config);
        let lock = match &profile {
            Some(profile) => config.with_extension(format!("{profile}.lock.json")),
            None => config.with_extension("lock.json"),
        };
        Self { config, directory, lock, profile, host_keys, fragment: false, named: true }
    }

    /// The project of `-c`, else of `./config.yml`, else of `./mcplan.yml`.
    ///
    /// # Errors
    /// When none is there.
    pub(super) fn find(which: &Which) -> Result<Self, CouldNot> {
        if let Some(config) = &which.config {
            return Ok(which.project(config.clone()));
        }
        match DEFAULTS.iter().map(Path::new).find(|path| path.exists()) {
            Some(path) => Ok(Self { named: false, ..which.project(path.to_owned()) }),
            None => Err(CouldNot::new(format!(
                "there is no {} here; name a config with -c FILE, or make one with 'mcplan init'",
                DEFAULTS.join(" and no ")
            ))),
        }
    }

    /// The same by where its lock is, since only that is read.
    ///
    /// # Errors
    /// When none is there.
    pub(super) fn find_locked(which: &Which) -> Result<Self, CouldNot> {
        if let Some(config) = &which.config {
            return Ok(which.project(config.clone()));
        }
        let mut here = DEFAULTS.iter().map(|path| Self { named: false, ..which.project(PathBuf::from(path)) });
        here.find(|project| project.lock.exists()).map_or_else(|| Self::find(which), Ok)
    }

    /// What is laid over the config.
    pub(super) fn profile(&self) -> Option<&str> {
        self.profile.as_deref()
    }

    /// A command about this project, to be pasted: with what the user said of which config is meant.
    pub(super) fn command(&self, command: &str) -> String {
        let mut line = format!("mcplan {command}");
        if self.named {
            line += &format!(" -c {}", word(&self.config.display().to_string()));
        }
        if let Some(profile) = &self.profile {
            line += &format!(" --profile {profile}");
        }
        if self.host_keys {
            line += " --host-keys";
        }
        line
    }

    /// What its executors are found by.
    pub(super) fn key(&self) -> Key {
        Key::of(&self.config, self.profile())
    }

    /// The config as it is told apart in reports.
    pub(super) fn shown(&self) -> String {
        match &self.profile {
            Some(profile) => format!("{} with profile {profile}", self.config.display()),
            None => self.config.display().to_string(),
        }
    }

    /// Compiles the config; what plugins printed is taken from the lock, if there is one.
    ///
    /// # Errors
    /// When it can't be read.
    pub(super) fn compile(&self) -> Result<Compilation, CouldNot> {
        self.compile_as(None).map_err(|error| self.unreadable(&error))
    }

    /// Compiles the config with nothing of the lock: what its plugins bring isn't known.
    ///
    /// # Errors
    /// When it can't be read.
    pub(super) fn compile_alone(&self) -> Result<Compilation, CouldNot> {
        self.compile_with(Outputs::new())
    }

    /// What the plugins printed when the lock was written.
    fn locked_outputs(&self) -> Outputs {
        let locked = self.read_lock().ok().flatten();
        let outputs = locked.iter().flat_map(|lock| &lock.plan.plugins);
        outputs
            .filter_map(|plugin| Some((plugin.name.to_string(), Ok(plugin.output.as_ref()?.text().to_owned()))))
            .collect()
    }

    /// Compiles the config after its plugins were run. A plugin that fails costs only its own servers.
    ///
    /// # Errors
    /// When the config can't be read.
    pub(super) fn compile_and_run_plugins(&self) -> Result<Compilation, CouldNot> {
        let first = self.compile_alone()?;
        let (Some(plan), Some(config)) = (&first.plan, &first.for_plugins) else { return Ok(first) };
        if plan.plugins.is_empty() {
            return Ok(first);
        }
        let context = Context::of_process(&self.directory);
        let outputs = plugins::run(&plan.plugins, config, &context, plugins::PATIENCE).into_iter();
        let outputs = outputs.map(|(name, output)| (name.to_string(), output.map_err(|error| error.to_string())));
        self.compile_with(outputs.collect())
    }

    fn compile_with(&self, plugins: Outputs) -> Result<Compilation, CouldNot> {
        self.compile_text(None, plugins).map_err(|error| self.unreadable(&error))
    }

    fn unreadable(&self, error: &ReadError) -> CouldNot {
        let named = self.named();
        // The config is read before its profile.
        CouldNot::new(match (&self.profile, std::fs::File::open(&named[0].1)) {
            (Some(profile), Ok(_)) => format!("{}, the profile `{profile}`, can't be read: {error}", named[1].0),
            _ => format!("{} can't be read: {error}", named[0].0),
        })
    }

    /// Compiles the config as it would be with another text.
    ///
    /// # Errors
    /// When there is no text and the file can't be read.
    pub(super) fn compile_as(&self, text: Option<&str>) -> Result<Compilation, ReadError> {
        let alone = self.compile_text(text, Outputs::new())?;
        // A lock is large; without plugins nothing in it is of interest here.
        if alone.for_plugins.is_none() { Ok(alone) } else { self.compile_text(text, self.locked_outputs()) }
    }

    fn compile_text(&self, text: Option<&str>, plugins: Outputs) -> Result<Compilation, ReadError> {
        let options =
            Options { profile: self.profile.clone(), host_keys: self.host_keys, fragment: self.fragment, plugins };
        let files = DiskSources { named: self.named(), directory: &self.directory, edited: text };
        compile_with(&files.named[0].0, &files, &options)
    }

    /// The files that aren't relative to the directory but named as the user did: the config, then its profile. Each as
    /// it is shown, which may lose something of a path that is no UTF-8, and as it is opened.
    fn named(&self) -> Vec<(String, PathBuf)> {
        let main = self.config.display().to_string();
        let profile = self.profile.as_ref().map(|profile| {
            let mut name = self.config.file_stem().unwrap_or_default().to_owned();
            name.push(format!(".{profile}"));
            if let Some(ending) = self.config.extension() {
                name.push(".");
                name.push(ending);
            }
            (profile_path(&main, profile), self.config.with_file_name(name))
        });
        std::iter::once((main, self.config.clone())).chain(profile).collect()
    }

    /// The files of a compilation as the lock names them: relative to the config's directory.
    pub(super) fn sources(&self, compilation: &Compilation) -> Vec<String> {
        // The main file and its profile are named as the user did, all others already relative to them.
        let beside = 1 + usize::from(self.profile.is_some());
        let names = compilation.files.iter().enumerate();
        names.map(|(at, path)| if at < beside { file_name(Path::new(path)) } else { path.clone() }).collect()
    }

    /// The files of a compilation besides the main file, where they are, and where others would be looked for.
    pub(super) fn files(&self, compilation: &Compilation) -> Vec<PathBuf> {
        let named = self.named();
        let profile = named.iter().skip(1).map(|(_, path)| path.clone());
        let others = compilation.files.iter().skip(named.len()).chain(&compilation.patterns);
        profile.chain(others.map(|file| self.directory.join(home(file)))).collect()
    }

    /// Reads the lock, if there is one.
    ///
    /// # Errors
    /// When it can't be read or isn't a lock of this version.
    pub(super) fn read_lock(&self) -> Result<Option<Lock>, LockProblem> {
        read_lock_file(&self.lock)
    }

    /// Reads the lock that a command can't do without.
    ///
    /// # Errors
    /// When there is none, or it can't be used.
    pub(super) fn need_lock(&self) -> Result<Lock, CouldNot> {
        match self.read_lock() {
            Ok(Some(lock)) => Ok(lock),
            Ok(None) => Err(CouldNot::new(self.no_lock())),
            Err(problem) => Err(CouldNot::new(problem.to_string())),
        }
    }
}

impl Project {
    /// Whether the config compiles to the plan that is locked.
    pub(super) fn fits(&self, compilation: &Compilation, lock: &Lock) -> bool {
        let sources = self.sources(compilation);
        compilation.plan.as_ref().is_some_and(|plan| lock.check(plan, &sources).is_empty())
    }

    /// Says so when the config compiles to another plan than the lock's.
    pub(super) fn warn_if_stale(&self, lock: &Lock) {
        let Ok(compilation) = self.compile() else { return };
        if !self.fits(&compilation, lock) {
            self.warn_that_stale();
        }
    }

    /// Says that what is shown is older than the config.
    pub(super) fn warn_that_stale(&self) {
        let (lock, config) = (self.lock.display(), self.config.display());
        report::warning(format_args!(
            "{}: {lock} doesn't fit {config} any more; this shows what is locked",
            Notice::Stale
        ));
    }

    /// That there is no lock, and what makes one.
    pub(super) fn no_lock(&self) -> String {
        format!("no lock here ({}): run '{}'", self.lock.display(), self.command("lock"))
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
        // A lock that is a symlink stays one, also where it leads to a file that is yet to be written.
        let target = behind_links(&self.lock);
        if let Some(directory) = target.parent()
            && target != self.lock
            && !directory.as_os_str().is_empty()
            && !directory.exists()
        {
            return Err(std::io::Error::other(format!(
                "it is a link to {}, whose directory isn't there; make that directory, or remove the link",
                target.display()
            )));
        }
        let whole = target.with_file_name(format!(".{}.{}", file_name(&target), std::process::id()));
        std::fs::write(&whole, text)?;
        std::fs::rename(&whole, &target)?;
        Ok(true)
    }
}

/// Reads a lock, if there is one.
///
/// # Errors
/// When it can't be read or isn't a lock of this version.
pub(super) fn read_lock_file(path: &Path) -> Result<Option<Lock>, LockProblem> {
    let problem = |reason: String, is_newer| LockProblem { path: path.to_owned(), reason, is_newer };
    match std::fs::read_to_string(path) {
        Ok(text) => Lock::read_with(&text, on_all_cores)
            .map(Some)
            .map_err(|error| problem(error.to_string(), matches!(error, LockError::Newer { .. }))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(problem(error.to_string(), false)),
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
    /// A later mcplan wrote it.
    pub(super) is_newer: bool,
}

/// The file that a path leads to, whether it is there or not.
pub(super) fn behind_links(path: &Path) -> PathBuf {
    let mut target = path.to_owned();
    // Links may lead in a circle; what is opened then says so.
    for _ in 0..40 {
        let Ok(link) = std::fs::read_link(&target) else { break };
        target = target.parent().map_or_else(|| link.clone(), |directory| directory.join(&link));
    }
    target
}

/// A word as a shell takes it.
pub(super) fn word(text: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_-./~:@%+=,".contains(c) || cfg!(windows) && c == '\\';
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    let escaped = text.chars().flat_map(|c| matches!(c, '"' | '$' | '`' | '\\').then_some('\\').into_iter().chain([c]));
    format!("\"{}\"", escaped.collect::<String>())
}
