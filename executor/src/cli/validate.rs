//! `mcplan validate`: compiles, offline, runs nothing.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mcplan_compiler::diagnostic::Severity;
use mcplan_compiler::{Compilation, json, render};
use serde_json::{Value, json};

use super::project::Project;
use super::report::{self, CouldNot, Count, Outcome};

/// Check configs: every mistake in one run, offline, nothing is started.
#[derive(Debug, Args)]
pub(super) struct Validate {
    /// The configs to check [default: ./config.yml, then ./mcplan.yml]
    files: Vec<PathBuf>,
    /// How to print what was found: for people, as JSON, as SARIF 2.1.0, as annotations of GitHub Actions
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
    /// Fail on warnings too
    #[arg(long)]
    deny_warnings: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Human,
    Json,
    Sarif,
    Github,
}

/// What one file gave.
struct Checked {
    path: String,
    outcome: Outcome,
    summary: String,
    found: Result<Compilation, CouldNot>,
}

impl Validate {
    pub(super) fn run(&self, config: Option<PathBuf>) -> anyhow::Result<Outcome> {
        let files = match (self.files.is_empty(), config) {
            (true, config) => vec![Project::find(config)?.config],
            (false, None) => self.files.clone(),
            (false, Some(config)) => [vec![config], self.files.clone()].concat(),
        };
        let checked: Vec<_> = files.into_iter().map(|file| self.check(Project::new(file))).collect();
        let root = std::env::current_dir().ok().map(|root| root.display().to_string());
        let all = || checked.iter().map(Checked::as_rendered).collect::<Vec<_>>();
        match self.format {
            Format::Human => checked.iter().for_each(print_human),
            Format::Json => report::result(json_report(&checked)),
            Format::Sarif => report::result(json::pretty(&render::sarif(&all(), root.as_deref()).to_string())),
            Format::Github => report::result(render::github(&all(), root.as_deref())),
        }
        Ok(checked.iter().map(|file| file.outcome).max().unwrap_or(Outcome::Fine))
    }

    fn check(&self, project: Project) -> Checked {
        let path = project.config.display().to_string();
        let mut compilation = match project.compile() {
            Ok(compilation) => compilation,
            Err(problem) => {
                let summary = format!("error: {problem}");
                return Checked { path, outcome: Outcome::CouldNotFindOut, summary, found: Err(problem) };
            }
        };
        if self.deny_warnings {
            deny_warnings(&mut compilation);
        }
        let count = Count::of(&compilation.diagnostics, self.deny_warnings);
        let outcome = if count.errors > 0 { Outcome::DoesNotHold } else { Outcome::Fine };
        let servers = compilation.plan.as_ref().map_or(0, |plan| plan.servers.len());
        let summary = match (&compilation.plan, count) {
            (Some(_), Count { errors: 0, warnings: 0 }) => format!("{path}: ok, {}", plural(servers)),
            (Some(_), Count { errors: 0, .. }) => format!("{path}: ok, {}, {count}", plural(servers)),
            _ => format!("{path}: {count}"),
        };
        Checked { path, outcome, summary, found: Ok(compilation) }
    }
}

/// Makes every warning an error, in whatever form it is printed.
fn deny_warnings(compilation: &mut Compilation) {
    for diagnostic in compilation.diagnostics.iter_mut().filter(|found| found.severity == Severity::Warning) {
        diagnostic.severity = Severity::Error;
    }
}

impl Checked {
    fn as_rendered(&self) -> render::Checked<'_> {
        match &self.found {
            Ok(compilation) => {
                render::Checked::Read { diagnostics: &compilation.diagnostics, texts: &compilation.texts }
            }
            Err(problem) => render::Checked::Unreadable { path: &self.path, reason: problem.as_str() },
        }
    }

    fn as_json(&self) -> Value {
        match &self.found {
            Ok(compilation) => {
                let mut json = render::json(&compilation.diagnostics, &compilation.texts);
                json["path"] = self.path.as_str().into();
                json
            }
            Err(problem) => json!({
                "path": self.path,
                "unreadable": problem.to_string(),
                "diagnostics": [],
                "errors": 0,
                "warnings": 0,
            }),
        }
    }
}

fn plural(servers: usize) -> String {
    format!("{servers} server{}", if servers == 1 { "" } else { "s" })
}

/// The report of a file goes to stderr when something is wrong with it, its one line to stdout when not.
fn print_human(file: &Checked) {
    if let Ok(compilation) = &file.found {
        report::diagnostics(compilation);
    }
    match file.outcome {
        Outcome::Fine => report::result(format_args!("{}\n", file.summary)),
        _ => report::note(&file.summary),
    }
}

/// One document for all files.
fn json_report(checked: &[Checked]) -> String {
    let files: Vec<_> = checked.iter().map(Checked::as_json).collect();
    let sum = |key: &str| files.iter().filter_map(|file| file[key].as_u64()).sum::<u64>();
    let (errors, warnings) = (sum("errors"), sum("warnings"));
    json::pretty(&json!({ "files": files, "errors": errors, "warnings": warnings }).to_string())
}
