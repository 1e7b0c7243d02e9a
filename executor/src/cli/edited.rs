//! A config that a command changes: read once, every change compiled before it counts, written whole or not at all.

use std::io::Write as _;
use std::path::Path;

use mcplan_compiler::Compilation;
use mcplan_compiler::diagnostic::Diagnostic;
use mcplan_compiler::edit::{self, List, Refused, Value};

use super::project::{Project, Which};
use super::report::{self, CouldNot, Outcome};
use crate::runtime::executor::directory_of;

/// A config and the text that it is to have.
pub(super) struct Edited {
    project: Project,
    /// The text on disk.
    before: String,
    /// The text so far.
    text: String,
    /// Errors that were there already.
    old_errors: Vec<Diagnostic>,
    /// The same config under each profile that lies beside it, and the errors that were there already.
    profiles: Vec<(Project, Vec<Diagnostic>)>,
}

/// Why a change was not made.
pub(super) enum NotMade {
    /// The text can't be edited safely.
    Refused(Refused),
    /// The result has errors that weren't there before.
    Errors(Box<Compilation>, Vec<Diagnostic>),
}

impl Edited {
    /// Reads the config of `-c`, or the one that is here.
    ///
    /// # Errors
    /// When there is none, or it can't be read.
    pub(super) fn open(which: &Which) -> Result<Self, CouldNot> {
        if let Some(profile) = &which.profile {
            return Err(CouldNot::new(format!(
                "an edit is of one file: leave --profile out, or name the profile's own file with -c (config.{profile}.yml)"
            )));
        }
        let project = Project::find(which)?;
        let shown = project.config.display();
        let bytes = std::fs::read(&project.config).map_err(|error| {
            CouldNot::new(format!("{shown} can't be read: {error}; 'mcplan init' makes a new config"))
        })?;
        let text = String::from_utf8(bytes).map_err(|_| CouldNot::new(format!("{shown} is not UTF-8")))?;
        let compilation = project.compile()?;
        let old_errors = errors_of(compilation);
        let profiles = profiles_of(&project.config).into_iter().filter_map(|profile| {
            let under = Which { profile: Some(profile), ..which.clone() }.project(project.config.clone());
            let errors = errors_of(under.compile().ok()?);
            Some((under, errors))
        });
        let profiles = profiles.collect();
        Ok(Self { project, before: text.clone(), text, old_errors, profiles })
    }

    /// The config as the user named it.
    pub(super) fn path(&self) -> &Path {
        &self.project.config
    }

    /// The text so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Adds an entry, if the result compiles.
    pub(super) fn add(&mut self, list: List, entry: &Value) -> Result<(), NotMade> {
        let text = edit::add(&self.text, list, entry).map_err(NotMade::Refused)?;
        self.replace(text)
    }

    /// Takes the new text, if it has no new errors.
    pub(super) fn replace(&mut self, text: String) -> Result<(), NotMade> {
        let Ok(compilation) = self.project.compile_as(Some(&text)) else {
            // The text is at hand, so there is nothing that reading could fail at.
            return Err(NotMade::Refused(Refused::Broken));
        };
        let under =
            self.profiles.iter().filter_map(|(profile, old)| Some((profile.compile_as(Some(&text)).ok()?, old)));
        for (compilation, old_errors) in std::iter::once((compilation, &self.old_errors)).chain(under) {
            let known =
                |new: &Diagnostic| old_errors.iter().any(|old| (old.code, &old.message) == (new.code, &new.message));
            let errors = compilation.diagnostics.iter().filter(|new| new.is_error() && !known(new));
            let errors: Vec<_> = errors.cloned().collect();
            if !errors.is_empty() {
                return Err(NotMade::Errors(Box::new(compilation), errors));
            }
        }
        self.text = text;
        Ok(())
    }

    /// Writes the text, or shows the difference.
    ///
    /// # Errors
    /// When the file can't be written, or has changed since it was read.
    pub(super) fn finish(&self, dry_run: bool) -> Result<Outcome, CouldNot> {
        if dry_run {
            let name = self.path().display().to_string();
            let diff = similar::TextDiff::from_lines(&self.before, &self.text);
            report::result(diff.unified_diff().header(&name, &name));
        } else if self.text != self.before {
            write_whole(self.path(), Some(&self.before), &self.text)
                .map_err(|error| CouldNot::new(format!("{} can't be written: {error}", self.path().display())))?;
        }
        Ok(Outcome::Fine)
    }
}

fn errors_of(compilation: Compilation) -> Vec<Diagnostic> {
    compilation.diagnostics.into_iter().filter(Diagnostic::is_error).collect()
}

/// The names of the profiles that lie beside a config, in order.
fn profiles_of(config: &Path) -> Vec<String> {
    let (Some(stem), Some(ending)) = (config.file_stem(), config.extension()) else { return Vec::new() };
    let (front, back) = (format!("{}.", stem.to_string_lossy()), format!(".{}", ending.to_string_lossy()));
    let files = std::fs::read_dir(directory_of(config)).into_iter().flatten().flatten();
    let mut profiles: Vec<_> = files
        .filter_map(|file| {
            let name = file.file_name().into_string().ok()?;
            let profile = name.strip_prefix(&front)?.strip_suffix(&back)?;
            (!profile.is_empty()).then(|| profile.to_owned())
        })
        .collect();
    profiles.sort();
    profiles
}

impl NotMade {
    /// Says why, and what to paste where the file is edited by hand.
    pub(super) fn tell(&self, what: &str, entry: Option<&Value>) {
        match self {
            Self::Refused(why) => report::error(format_args!("{what}: {why}")),
            Self::Errors(compilation, errors) => {
                report::to_stderr(report::human(errors, compilation, true));
                report::error(format_args!("{what}: the config would have new errors, so it is left as it is"));
            }
        }
        if let Some(entry) = entry {
            report::note("the entry, to paste:");
            report::note(edit::to_paste(entry).trim_end_matches('\n'));
        }
    }
}

/// Replaces the file in one step: a reader sees the old text or the new one. A symlink stays one, permissions stay.
pub(super) fn write_whole(path: &Path, expected: Option<&str>, text: &str) -> std::io::Result<()> {
    let target = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if let Some(expected) = expected
        && std::fs::read(&target)? != expected.as_bytes()
    {
        return Err(std::io::Error::other("it has changed in the meantime"));
    }
    let name = target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let whole = target.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = (|| {
        let mut file = std::fs::File::create(&whole)?;
        if let Ok(old) = std::fs::metadata(&target) {
            file.set_permissions(old.permissions())?;
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&whole, &target)
    })();
    if written.is_err() {
        let _left_behind = std::fs::remove_file(&whole);
    }
    written
}
