//! A config that a command changes: read once, every change compiled before it counts, written whole or not at all.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use mcplan_compiler::Compilation;
use mcplan_compiler::diagnostic::Diagnostic;
use mcplan_compiler::edit::{self, List, Pasted, Refused, Value};

use super::disk::why;
use super::project::{Project, Which, behind_links};
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
    /// Reads the config of `-c`, or the one that is here. What is no YAML is told of, and how the command ends then is given.
    ///
    /// # Errors
    /// When there is none, or it can't be read.
    pub(super) fn open(which: &Which) -> Result<Result<Self, Outcome>, CouldNot> {
        if let Some(profile) = &which.profile {
            return Err(CouldNot::new(format!(
                "an edit is of one file: leave --profile out, or name the profile's own file with -c (config.{profile}.yml)"
            )));
        }
        let project = Project::find(which)?;
        let shown = project.config.display();
        let bytes = std::fs::read(&project.config).map_err(|error| {
            CouldNot::new(format!("{shown} can't be read: {}; 'mcplan init' makes a new config", why(&error)))
        })?;
        let text = String::from_utf8(bytes).map_err(|_| CouldNot::new(format!("{shown} is not UTF-8")))?;
        let compilation = project.compile()?;
        if edit::names(&text) == Err(Refused::Broken) {
            report::to_stderr(report::no_plan(&compilation, true));
            report::error(format_args!("{shown} has errors and is left as it is: mend them first"));
            return Ok(Err(Outcome::DoesNotHold));
        }
        let old_errors = errors_of(compilation);
        let profiles = profiles_of(&project.config).into_iter().filter_map(|profile| {
            let under = Which { profile: Some(profile), ..which.clone() }.project(project.config.clone());
            let errors = errors_of(under.compile().ok()?);
            Some((under, errors))
        });
        let profiles = profiles.collect();
        Ok(Ok(Self { project, before: text.clone(), text, old_errors, profiles }))
    }

    /// The config as the user named it.
    pub(super) fn path(&self) -> &Path {
        &self.project.config
    }

    /// The text so far.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// An entry as it is added by hand.
    pub(super) fn to_paste(&self, list: List, entry: &Value) -> Pasted {
        edit::to_paste(&self.text, list, entry)
    }

    /// Where an entry stands that isn't written in this file: in a fragment of it, or in a profile.
    pub(super) fn elsewhere(&self, name: &str) -> Option<String> {
        let main = self.project.compile().ok()?;
        let under = self.profiles.iter().filter_map(|(profile, _)| profile.compile().ok());
        let found = std::iter::once(main).chain(under).find_map(|compilation| {
            let at = compilation.places.servers.get(name)?.at;
            let source = compilation.texts.get(at.source);
            Some((source.path.clone(), source.position(at.start)))
        });
        let (path, at) = found?;
        // Fragments are named from the config's directory, the config's own profiles as the config is.
        let file = if Path::new(&path).exists() { PathBuf::from(&path) } else { self.project.directory.join(&path) };
        let command = Which { config: Some(file), ..Which::default() };
        let command = command.project(command.config.clone()?).command(&format!("remove {name}"));
        Some(format!("it stands in {path}:{}:{}, so run '{command}'", at.line, at.column))
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
    ///
    /// An entry that gives errors gives the same ones when it is pasted.
    pub(super) fn tell(&self, what: &str, pasted: Option<Pasted>) {
        match self {
            Self::Refused(why) => {
                report::error(format_args!("{what}: {why}"));
                if let Some(Pasted { text, place }) = pasted {
                    report::note(format_args!("the entry, to paste {place}:"));
                    report::note(text.trim_end_matches('\n'));
                }
            }
            Self::Errors(compilation, errors) => {
                report::to_stderr(report::human(errors, compilation, true));
                report::error(format_args!("{what}: the config would have new errors, so it is left as it is"));
            }
        }
    }
}

/// Replaces the file in one step: a reader sees the old text or the new one. A symlink stays one, permissions stay.
pub(super) fn write_whole(path: &Path, expected: Option<&str>, text: &str) -> std::io::Result<()> {
    let target = behind_links(path);
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
