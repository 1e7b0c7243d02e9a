//! `mcplan validate`: compiles, offline, runs nothing.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use mcplan_compiler::render;
use serde_json::{Value, json};

use super::project::Project;
use super::report::{self, CouldNot, Count, Outcome};

/// Check configs: every mistake in one run, offline, nothing is started.
#[derive(Debug, Args)]
pub(super) struct Validate {
    /// The configs to check [default: ./config.yml, then ./mcplan.yml]
    files: Vec<PathBuf>,
    /// How to print what was found
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
}

/// What one file gave.
struct Checked {
    outcome: Outcome,
    report: String,
    summary: String,
    json: Value,
}

impl Validate {
    pub(super) fn run(&self, config: Option<PathBuf>) -> anyhow::Result<Outcome> {
        let files = match (self.files.is_empty(), config) {
            (true, config) => vec![Project::find(config)?.config],
            (false, None) => self.files.clone(),
            (false, Some(config)) => [vec![config], self.files.clone()].concat(),
        };
        let checked: Vec<_> = files.into_iter().map(|file| self.check(Project::new(file))).collect();
        match self.format {
            Format::Human => checked.iter().for_each(print_human),
            Format::Json => report::result(format_args!("{}", json_report(&checked))),
        }
        Ok(checked.iter().map(|file| file.outcome).max().unwrap_or(Outcome::Fine))
    }

    fn check(&self, project: Project) -> Checked {
        let path = project.config.display().to_string();
        let compilation = match project.compile() {
            Ok(compilation) => compilation,
            Err(problem) => return unreadable(path, &problem),
        };
        let count = Count::of(&compilation.diagnostics, self.deny_warnings);
        let outcome = if count.errors > 0 { Outcome::DoesNotHold } else { Outcome::Fine };
        let servers = compilation.plan.as_ref().map_or(0, |plan| plan.servers.len());
        let summary = match (&compilation.plan, count) {
            (Some(_), Count { errors: 0, warnings: 0 }) => format!("{path}: ok, {}", plural(servers)),
            (Some(_), Count { errors: 0, .. }) => format!("{path}: ok, {}, {count}", plural(servers)),
            _ => format!("{path}: {count}"),
        };
        let report = report::human(&compilation.diagnostics, &compilation, true);
        let mut json = render::json(&compilation.diagnostics, &compilation.texts);
        if let Value::Object(json) = &mut json {
            json.insert("path".to_owned(), path.clone().into());
        }
        Checked { outcome, report, summary, json }
    }
}

fn unreadable(path: String, problem: &CouldNot) -> Checked {
    let json =
        json!({ "path": path, "unreadable": problem.to_string(), "diagnostics": [], "errors": 0, "warnings": 0 });
    Checked { outcome: Outcome::CouldNotFindOut, report: String::new(), summary: format!("error: {problem}"), json }
}

fn plural(servers: usize) -> String {
    format!("{servers} server{}", if servers == 1 { "" } else { "s" })
}

/// The report of a file goes to stderr when something is wrong with it, its one line to stdout when not.
fn print_human(file: &Checked) {
    anstream::eprint!("{}", file.report);
    match file.outcome {
        Outcome::Fine => report::result(format_args!("{}\n", file.summary)),
        _ => report::note(&file.summary),
    }
}

/// One document for all files.
fn json_report(checked: &[Checked]) -> String {
    let sum = |key: &str| checked.iter().filter_map(|file| file.json[key].as_u64()).sum::<u64>();
    let report = json!({
        "files": checked.iter().map(|file| &file.json).collect::<Vec<_>>(),
        "errors": sum("errors"),
        "warnings": sum("warnings"),
    });
    mcplan_compiler::json::pretty(&report.to_string())
}
