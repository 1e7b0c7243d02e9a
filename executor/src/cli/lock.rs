//! `mcplan lock`: asks the servers, writes what was decided and what they said; or compares.

use std::collections::BTreeMap;

use clap::Args;
use mcplan_compiler::diagnostic::one_line;
use mcplan_compiler::lint::locked::too_large;
use mcplan_compiler::lock::{Change, Context, Drift, Found, Lock, Made, changes, make};
use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::Plan;
use serde_json::{Map, Value, json};

use super::asked::Asked;
use super::project::{Project, Which};
use super::report::{self, CouldNot, Outcome, counted};
use crate::runtime::connection::ConnectError;

/// Write config.lock.json: what was decided, and what each server says of its tools
#[derive(Debug, Args)]
pub(super) struct LockCommand {
    /// Write nothing: exit 0 when the lock fits the config, 1 when it doesn't
    #[arg(long, conflicts_with_all = ["offline", "allow_missing", "server"])]
    check: bool,
    /// With --check: also ask the servers whether they still say what is locked
    #[arg(long, requires = "check")]
    live: bool,
    /// With --check: print JSON
    #[arg(long, requires = "check")]
    json: bool,
    /// Start nothing: write the plan and keep what is locked of the servers
    #[arg(long, conflicts_with = "server")]
    offline: bool,
    /// Ask only this server again, also which revisions of the protocol it speaks
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
    /// Exit 0 although a server can't be reached
    #[arg(long)]
    allow_missing: bool,
}

impl LockCommand {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let project = Project::find(which)?;
        // What is only compared or kept is as it was locked; nothing is run for it.
        let compiled = if self.check && !self.live || self.offline {
            project.compile()?
        } else {
            project.compile_and_run_plugins()?
        };
        report::plugins_failed(&compiled);
        let compilation = match report::plan(compiled) {
            Ok(compilation) => compilation,
            // A config with errors can't be compared with anything.
            Err(_) if self.check => return Ok(Outcome::CouldNotFindOut),
            Err(outcome) => return Ok(outcome),
        };
        let sources = project.sources(&compilation);
        let Some(plan) = compilation.plan.clone() else { return Ok(Outcome::DoesNotHold) };
        if self.check {
            let lock: Lock = project.need_lock()?;
            let asked = if self.live { Asked::of(&project, &plan, Some(&lock), None)? } else { Asked::default() };
            let differences = Differences::of(&lock, &plan, &sources, asked);
            if self.json {
                report::result(mcplan_compiler::json::pretty(&differences.json().to_string()));
            } else {
                differences.print(&project);
            }
            return Ok(differences.outcome());
        }
        report::warnings(&compilation).iter().for_each(report::note);
        let outcome = self.write(&project, plan, sources)?;
        Ok(if compilation.plugins_failed.is_empty() { outcome } else { outcome.max(Outcome::DoesNotHold) })
    }

    fn write(&self, project: &Project, plan: Plan, sources: Vec<String>) -> anyhow::Result<Outcome> {
        // A lock that can't be read is no base to build on. Where it is to be built on, or where a later mcplan wrote it,
        // that is a reason to stop: what is in it would be lost.
        let old = match project.read_lock() {
            Ok(old) => old,
            Err(problem) if self.offline || self.server.is_some() || problem.is_newer => {
                return Err(CouldNot::new(problem.to_string()).into());
            }
            Err(problem) => {
                report::warning(format_args!("{problem}; it is made anew"));
                None
            }
        };
        // Who asks one server by name wants to know anew how it speaks.
        let only = self.server.as_deref();
        let known = old.as_ref().filter(|_| only.is_none());
        let asked = if self.offline { Asked::default() } else { Asked::of(project, &plan, known, only)? };
        asked.tell_failed();
        let Asked { reached, failed } = asked;
        let made = make(plan, sources, reached, old.as_ref());
        let written = project.write_lock(&made.lock)?;
        tell(project, &made, &failed, written);
        let required = failed.iter().any(|(name, _)| made.lock.plan.server(name.as_str()).is_some_and(|s| s.required));
        Ok(if failed.is_empty() || self.allow_missing && !required { Outcome::Fine } else { Outcome::DoesNotHold })
    }
}

/// Prints what a person should know of a new lock.
fn tell(project: &Project, made: &Made, failed: &[(ServerName, ConnectError)], written: bool) {
    for name in made.kept.iter().filter(|name| failed.iter().any(|(failed, _)| failed == *name)) {
        report::note(format_args!("{name}: kept as it was locked before"));
    }
    if !made.missing.is_empty() {
        let names: Vec<_> = made.missing.iter().map(ServerName::as_str).collect();
        let (whose, them) = if names.len() == 1 { ("its", "it") } else { ("their", "them") };
        report::note(format_args!(
            "not in the catalog: {}; {whose} tools are unknown until '{}' reaches {them}",
            names.join(", "),
            project.command("lock")
        ));
    }
    tell_without_text(project, made);
    for (name, change) in &made.suspicious {
        report::warning(format_args!("{name}: {change}; it is locked now, so look at it before you commit it"));
    }
    for (name, pinned, said) in &made.other_version {
        report::warning(format_args!(
            "{name}: its launch pins the version {pinned}, and the server says that it is {}; see that it is what you mean",
            one_line(said, 60)
        ));
    }
    let tools: usize = made.lock.catalog.values().map(|server| server.tools.0.len()).sum();
    let path = project.lock.display();
    let what = format!("{}, {}", counted(made.lock.catalog.len(), "server"), counted(tools, "tool"));
    report::result(if written { format!("wrote {path}: {what}\n") } else { format!("{path} is unchanged: {what}\n") });
    too_large(&made.lock).iter().for_each(report::warning);
}

/// Names the tools that pass the filters and of which only the name is locked.
pub(super) fn tell_without_text(project: &Project, made: &Made) {
    let mut textless: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (server, tool) in &made.without_text {
        textless.entry(server).or_default().push(tool.as_str());
    }
    for (server, tools) in textless {
        report::note(format_args!(
            "{server}: included now, without a locked text: {}; run '{}'",
            tools.join(", "),
            project.command(&format!("lock --server {server}"))
        ));
    }
}

/// How a lock differs from what there is now.
struct Differences {
    /// Between what is locked and what the config compiles to.
    plan: Vec<Drift>,
    /// Enabled servers of which nothing is locked.
    not_locked: Vec<ServerName>,
    /// Those of them that answer.
    answering: Vec<ServerName>,
    /// Between what is locked of servers and what they say, when they were asked.
    servers: Vec<(ServerName, Vec<Change>)>,
    /// The servers that can't be reached.
    unreached: Vec<(ServerName, String)>,
}

impl Differences {
    /// Compares; the servers are `asked` or not.
    fn of(lock: &Lock, plan: &Plan, sources: &[String], asked: Asked) -> Self {
        let names = lock.names();
        let changed = asked.reached.iter().filter_map(|(name, observed)| {
            let locked = lock.baseline_of(plan, name)?;
            let found = Found::observed(plan, plan.server(name.as_str())?, observed);
            Some((name.clone(), changes(locked, &found, &Context { server: name, names: &names })))
        });
        // A server that was never reached has no entry; one whose launch changed is told of by the plan.
        let enabled = plan.servers.iter().filter(|server| plan.enabled && server.enabled).map(|server| &server.name);
        let not_locked: Vec<_> = enabled
            .filter(|name| !lock.catalog.contains_key(*name) && lock.plan.server(name.as_str()).is_some())
            .cloned()
            .collect();
        Self {
            plan: lock.check(plan, sources),
            answering: not_locked.iter().filter(|name| asked.reached.contains_key(*name)).cloned().collect(),
            not_locked,
            servers: changed.filter(|(_, changes)| !changes.is_empty()).collect(),
            unreached: asked.failed.into_iter().map(|(name, error)| (name, error.to_string())).collect(),
        }
    }

    fn outcome(&self) -> Outcome {
        if !self.plan.is_empty() || !self.answering.is_empty() || !self.servers.is_empty() {
            Outcome::DoesNotHold
        } else if !self.unreached.is_empty() {
            Outcome::CouldNotFindOut
        } else {
            Outcome::Fine
        }
    }

    fn print(&self, project: &Project) {
        let (lock, config) = (project.lock.display(), project.config.display());
        self.plan.iter().for_each(|drift| report::result(format_args!("{drift}\n")));
        let silent: Vec<_> = self.not_locked.iter().filter(|name| !self.answering.contains(name)).collect();
        if !silent.is_empty() {
            let names: Vec<_> = silent.iter().map(|name| name.as_str()).collect();
            report::warning(format_args!("nothing is locked of {}", names.join(", ")));
        }
        for name in &self.answering {
            report::result(format_args!("{name}: it answers, and nothing of it is locked\n"));
        }
        for (server, changes) in &self.servers {
            changes.iter().for_each(|change| report::result(format_args!("{server}: {change}\n")));
        }
        for (name, error) in &self.unreached {
            report::error(format_args!("{name}: {error}"));
        }
        match self.outcome() {
            Outcome::Fine => report::result(format_args!("{lock} fits {config}\n")),
            Outcome::DoesNotHold if self.plan.is_empty() => {
                report::error(format_args!(
                    "{lock} isn't what the servers say: look at it with '{}', then run '{}'",
                    project.command("diff --live"),
                    project.command("lock")
                ));
            }
            Outcome::DoesNotHold => {
                report::error(format_args!("{lock} doesn't fit {config}: run '{}'", project.command("lock")));
            }
            Outcome::CouldNotFindOut => {
                report::error(format_args!("{lock} fits {config}; not every server could be asked"))
            }
        }
    }

    fn json(&self) -> Value {
        let servers: Map<_, _> =
            self.servers.iter().map(|(name, changes)| (name.to_string(), json!(changes))).collect();
        let unreached: Map<_, _> =
            self.unreached.iter().map(|(name, error)| (name.to_string(), json!(error))).collect();
        json!({ "fits": self.outcome() == Outcome::Fine, "plan": self.plan, "not_locked": self.not_locked, "servers": servers, "unreached": unreached })
    }
}
