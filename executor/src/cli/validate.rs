//! `mcplan validate`: compiles, offline, runs nothing.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use mcplan_compiler::code::Code;
use mcplan_compiler::config::Config;
use mcplan_compiler::diagnostic::{self, Diagnostic, Severity};
use mcplan_compiler::lint::locked::{Locked, Target};
use mcplan_compiler::lock::Lock;
use mcplan_compiler::plan::Plan;
use mcplan_compiler::{Compilation, json, lint, render};
use serde_json::{Value, json};

use super::disk::home;
use super::project::{Project, Which};
use super::report::{self, CouldNot, Count, Outcome, counted};
use crate::core::catalog::Listing;
use crate::runtime::process;

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
    /// Also check that each variable is set and each command is there, on this machine
    #[arg(long)]
    env: bool,
    /// Hold the locked tools against what a provider or host takes
    #[arg(long, value_enum)]
    target: Option<TargetArgument>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TargetArgument {
    Anthropic,
    Openai,
    Cursor,
    /// Nothing but the specification
    Spec,
}

impl From<TargetArgument> for Target {
    fn from(argument: TargetArgument) -> Self {
        match argument {
            TargetArgument::Anthropic => Self::Anthropic,
            TargetArgument::Openai => Self::OpenAi,
            TargetArgument::Cursor => Self::Cursor,
            TargetArgument::Spec => Self::Spec,
        }
    }
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
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let projects = if self.files.is_empty() {
            vec![Project::find(which)?]
        } else {
            let files = which.config.iter().chain(&self.files);
            files.map(|file| project_of(file, which)).collect()
        };
        let checked: Vec<_> = projects.into_iter().map(|project| self.check(project)).collect();
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

    fn check(&self, mut project: Project) -> Checked {
        let path = project.config.display().to_string();
        let mut compilation = match self.compile(&mut project) {
            Ok(compilation) => compilation,
            Err(problem) => {
                let summary = format!("error: {problem}");
                return Checked { path, outcome: Outcome::CouldNotFindOut, summary, found: Err(problem) };
            }
        };
        self.add_lints(&project, &mut compilation);
        if self.deny_warnings {
            deny_warnings(&mut compilation);
        }
        let count = Count::of(&compilation.diagnostics, self.deny_warnings);
        let outcome = if count.errors > 0 { Outcome::DoesNotHold } else { Outcome::Fine };
        let servers = compilation.plan.as_ref().map_or(0, |plan| plan.servers.len());
        let servers = counted(servers, "server");
        let shown = project.shown();
        let summary = match (&compilation.plan, count) {
            (Some(_), Count { errors: 0, warnings: 0 }) => format!("{shown}: ok, {servers}"),
            (Some(_), Count { errors: 0, .. }) => format!("{shown}: ok, {servers}, {count}"),
            _ => format!("{shown}: {count}"),
        };
        Checked { path, outcome, summary, found: Ok(compilation) }
    }
}

impl Validate {
    /// A file that holds nothing but what a fragment may hold is one: what it names may be declared elsewhere. A lock
    /// beside it tells that it is none, and what plugins brought, but a lock may be of yesterday: what is wrong only by
    /// what it tells is no more than a warning.
    fn compile(&self, project: &mut Project) -> Result<Compilation, CouldNot> {
        let mut alone = project.compile_alone()?;
        if alone.is_fragment {
            project.fragment = true;
            alone = project.compile_alone()?;
        }
        if alone.plan.is_none() || !matches!(project.read_lock(), Ok(Some(_))) {
            return Ok(alone);
        }
        project.fragment = false;
        let mut locked = project.compile()?;
        for error in locked.diagnostics.iter_mut().filter(|found| found.is_error()) {
            error.severity = Severity::Warning;
        }
        locked.plan = locked.plan.or(alone.plan);
        Ok(locked)
    }

    /// What the machine (`--env`) and the lock tell. A lock that is missing or broken tells nothing.
    fn add_lints(&self, project: &Project, compilation: &mut Compilation) {
        let Some(config) = &compilation.config else { return };
        let mut found = Vec::new();
        if self.env {
            found.extend(lint::environment::lints(
                config,
                &compilation.fragments,
                &ThisMachine::new(&project.directory),
            ));
        }
        if let (Some(plan), Ok(Some(lock))) = (&compilation.plan, project.read_lock()) {
            let locked =
                Locked { config, fragments: &compilation.fragments, plan, lock: &lock, places: &compilation.places };
            found.extend(locked.lints(self.target.map(Target::from)));
            found.extend(over_budget(config, plan, &lock));
        }
        compilation.diagnostics.extend(found);
        diagnostic::sort(&mut compilation.diagnostics);
    }
}

/// How many tools the block has no room for, when the servers that are locked are still those of the plan.
fn over_budget(config: &Config, plan: &Plan, lock: &Lock) -> Option<Diagnostic> {
    let listings = lock.baseline(plan).map(|(name, server)| (name.clone(), Listing::from(server))).collect();
    let block = super::snapshot(plan, &listings).ok()?.block();
    let omitted = block.omitted.len();
    if omitted == 0 {
        return None;
    }
    let budget = config.prompt.as_ref().and_then(|prompt| prompt.budget.as_ref().map(|budget| budget.at));
    let old = config.progressive_mcp.as_ref().map(|old| old.at);
    let first = config.mcp_servers.iter().flatten().map(|entry| entry.at).next();
    let at = budget.or(old).or(first)?;
    let named: Vec<_> = block.omitted.iter().take(OMITTED_SHOWN).map(|name| format!("`{name}`")).collect();
    let more = if omitted > OMITTED_SHOWN { format!(" and {} more", omitted - OMITTED_SHOWN) } else { String::new() };
    let total = omitted + block.included.len();
    Some(
        Diagnostic::new(
            Code::ListingOverBudget,
            at,
            format!("the block has no room for {omitted} of {total} deferred tools"),
        )
        .help(format!("left out: {}{more}; search finds them all the same", named.join(", "))),
    )
}

/// How many of the tools without room are named.
const OMITTED_SHOWN: usize = 5;

/// `X.PROFILE.yml` beside `X.yml` is checked laid over it; any other file by itself.
fn project_of(file: &Path, which: &Which) -> Project {
    let is_yaml = file.extension().is_some_and(|ending| ending == "yml" || ending == "yaml");
    let stem = file.file_stem().map(Path::new).filter(|_| is_yaml && which.profile.is_none());
    // The profile's name is an argument's, so that there is none for what is no UTF-8.
    if let Some((stem, own)) = stem.and_then(|stem| Some((stem.file_stem()?, stem.extension()?.to_str()?))) {
        let mut name = stem.to_owned();
        name.push(".");
        name.push(file.extension().unwrap_or_default());
        let base = file.with_file_name(name);
        if base.exists() {
            return Project::new(base, Some(own.to_owned()), which.host_keys);
        }
    }
    which.project(file.to_owned())
}

/// What this machine has.
struct ThisMachine<'a> {
    directory: &'a Path,
    path: Option<String>,
}

impl<'a> ThisMachine<'a> {
    fn new(directory: &'a Path) -> Self {
        Self { directory, path: std::env::var("PATH").ok() }
    }
}

impl lint::environment::Machine for ThisMachine<'_> {
    fn variable(&self, name: &str) -> Option<bool> {
        std::env::var_os(name).map(|value| !value.is_empty())
    }

    fn has_command(&self, program: &str) -> bool {
        // The executor starts its own binary under that name.
        program == "mcplan"
            || process::resolve(&home(program).to_string_lossy(), self.path.as_deref(), self.directory).is_ok()
    }

    fn has_file(&self, path: &str) -> bool {
        std::fs::File::open(self.directory.join(home(path))).is_ok()
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
