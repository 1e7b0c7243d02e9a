//! The only place that prints problems and picks exit codes: 0 fine, 1 what was asked about does not hold, 2 could not
//! find out.

use std::fmt;
use std::process::ExitCode;
use std::sync::OnceLock;

use mcplan_compiler::Compilation;
use mcplan_compiler::diagnostic::{Diagnostic, Severity};
use mcplan_compiler::render::{self, Human};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    /// Fine.
    Fine,
    /// What was asked about does not hold: errors, drift, a failed call.
    DoesNotHold,
    /// Could not find out: bad usage, an unreadable file.
    CouldNotFindOut,
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Fine => Self::SUCCESS,
            Outcome::DoesNotHold => Self::from(1),
            Outcome::CouldNotFindOut => Self::from(2),
        }
    }
}

/// Why a command could not find out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CouldNot(String);

impl CouldNot {
    /// With what is said to the user: one sentence, without a final stop.
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// The sentence.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for CouldNot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CouldNot {}

/// Prints a text to stderr, as it is. Where stderr is full or closed the exit code still says how it went.
pub(super) fn to_stderr(text: impl fmt::Display) {
    use std::io::Write as _;
    let _unwritten = write!(anstream::stderr(), "{text}");
}

/// Prints an error to stderr.
pub(super) fn error(message: impl fmt::Display) {
    to_stderr(format_args!("error: {message}\n"));
}

/// Prints a warning to stderr.
pub(super) fn warning(message: impl fmt::Display) {
    to_stderr(format_args!("warning: {message}\n"));
}

/// Prints something worth knowing to stderr.
pub(super) fn note(message: impl fmt::Display) {
    to_stderr(format_args!("{message}\n"));
}

/// Prints a result to stdout, as it is.
pub(super) fn result(text: impl fmt::Display) {
    use std::io::Write as _;
    let mut out = anstream::stdout();
    match write!(out, "{text}").and_then(|()| out.flush()) {
        // A reader that has seen enough (`| head`) is no error of ours.
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            // One is enough to say.
            let _another = UNWRITTEN.set(error.to_string());
        }
        _ => {}
    }
}

/// Why a result could not be written, which the end of the command tells.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// A signal ended the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interrupted")]
pub(super) struct Interrupted(pub u8);

/// Ends a command.
pub(super) fn finish(result: anyhow::Result<Outcome>) -> ExitCode {
    match (result, UNWRITTEN.get()) {
        (Ok(_), Some(reason)) => {
            error(format_args!("the result can't be written: {reason}"));
            Outcome::CouldNotFindOut.into()
        }
        (Ok(outcome), None) => outcome.into(),
        (Err(problem), _) => match problem.downcast_ref() {
            Some(Interrupted(code)) => ExitCode::from(*code),
            None => {
                error(format_args!("{problem:#}"));
                Outcome::CouldNotFindOut.into()
            }
        },
    }
}

/// Errors, warnings and notes of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Problems that stop a plan.
    pub errors: usize,
    /// Problems that don't.
    pub warnings: usize,
}

impl Count {
    /// Counts; with `deny_warnings` a warning is an error.
    pub(super) fn of(diagnostics: &[Diagnostic], deny_warnings: bool) -> Self {
        let count = |severity| diagnostics.iter().filter(|d| d.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        if deny_warnings { Self { errors: errors + warnings, warnings: 0 } } else { Self { errors, warnings } }
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.errors, self.warnings) {
            (0, warnings) => f.write_str(&counted(warnings, "warning")),
            (errors, 0) => f.write_str(&counted(errors, "error")),
            (errors, warnings) => write!(f, "{} and {}", counted(errors, "error"), counted(warnings, "warning")),
        }
    }
}

/// `1 server`, `2 servers`.
pub(super) fn counted(n: usize, word: &str) -> String {
    format!("{n} {word}{}", if n == 1 { "" } else { "s" })
}

/// Prints everything that was found to stderr for a person.
pub(super) fn diagnostics(compilation: &Compilation) {
    to_stderr(human(&compilation.diagnostics, compilation, true));
}

/// Prints what went wrong with plugins, which costs only their own servers.
pub(super) fn plugins_failed(compilation: &Compilation) {
    to_stderr(human(&compilation.plugins_failed, compilation, true));
}

/// A diagnostic as one line of a log: what it is and where.
pub(super) fn line(diagnostic: &Diagnostic, compilation: &Compilation) -> String {
    let at = diagnostic.primary.at;
    let source = compilation.texts.get(at.source);
    let place = source.position(at.start);
    format!("{}: {} ({}:{}:{})", diagnostic.code, diagnostic.message, source.path, place.line, place.column)
}

/// The diagnostics as a person reads them.
pub(super) fn human(diagnostics: &[Diagnostic], compilation: &Compilation, styled: bool) -> String {
    render::human(diagnostics, &compilation.texts, Human { styled, ..Human::default() })
}

/// Why there is no plan: each error whole, the warnings in one line. Only `validate` shows those too.
pub(super) fn no_plan(compilation: &Compilation, styled: bool) -> String {
    let errors: Vec<_> = compilation.diagnostics.iter().filter(|found| found.is_error()).cloned().collect();
    let warnings = warnings(compilation).map(|line| line + "\n").unwrap_or_default();
    human(&errors, compilation, styled) + &warnings
}

/// How many warnings there are, and how they are seen.
pub(super) fn warnings(compilation: &Compilation) -> Option<String> {
    let Count { warnings, .. } = Count::of(&compilation.diagnostics, false);
    let config = compilation.files.first().map_or("the config", String::as_str);
    (warnings > 0).then(|| format!("{} in {config}: run 'mcplan validate'", Count { errors: 0, warnings }))
}

/// The plan of a compilation; without one its errors are printed.
///
/// # Errors
/// When there is no plan: what was asked about does not hold.
pub(super) fn plan(compilation: Compilation) -> Result<Compilation, Outcome> {
    if compilation.plan.is_some() { Ok(compilation) } else { Err(refused(&compilation)) }
}

/// Prints the problems of a compilation that gives no plan.
pub(super) fn refused(compilation: &Compilation) -> Outcome {
    to_stderr(no_plan(compilation, true));
    error(Count { warnings: 0, ..Count::of(&compilation.diagnostics, false) });
    Outcome::DoesNotHold
}
