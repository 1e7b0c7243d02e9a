//! `mcplan lock`: asks the servers, writes what was decided and what they said; or compares.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use clap::Args;
use mcplan_compiler::Compilation;
use mcplan_compiler::lock::{Lock, Made, make};
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::Plan;

use super::project::{Project, Which};
use super::report::{self, CouldNot, Outcome, counted};
use super::with_servers;
use crate::runtime::connection::{ConnectError, Context};
use crate::runtime::observe::observe;
use crate::runtime::places::Places;

/// Write config.lock.json: what was decided, and what each server says of its tools
#[derive(Debug, Args)]
pub(super) struct LockCommand {
    /// Write nothing: exit 0 when the lock fits the config, 1 when it doesn't
    #[arg(long, conflicts_with_all = ["offline", "allow_missing", "server"])]
    check: bool,
    /// Start nothing: write the plan and keep what is locked of the servers
    #[arg(long, conflicts_with = "server")]
    offline: bool,
    /// Ask only this server again
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
        let (compiled, plugins_failed) = if self.check || self.offline {
            (project.compile()?, Vec::new())
        } else {
            project.compile_and_run_plugins()?
        };
        plugins_failed.iter().for_each(report::error);
        let compilation = match report::plan(compiled) {
            Ok(compilation) => compilation,
            // A config with errors can't be compared with anything.
            Err(_) if self.check => return Ok(Outcome::CouldNotFindOut),
            Err(outcome) => return Ok(outcome),
        };
        let sources = project.sources(&compilation);
        let Some(plan) = compilation.plan.clone() else { return Ok(Outcome::DoesNotHold) };
        if self.check {
            return check(&project, &plan, &sources);
        }
        report::warnings(&compilation).iter().for_each(report::note);
        let outcome = self.write(&project, &compilation, plan, sources)?;
        Ok(if plugins_failed.is_empty() { outcome } else { outcome.max(Outcome::DoesNotHold) })
    }

    fn write(
        &self,
        project: &Project,
        compilation: &Compilation,
        plan: Plan,
        sources: Vec<String>,
    ) -> anyhow::Result<Outcome> {
        debug_assert!(compilation.plan.is_some());
        // A lock that can't be read is no base to build on, but it is no reason to stop either.
        let old = project.read_lock().unwrap_or_else(|problem| {
            report::warning(format_args!("{problem}; it is made anew"));
            None
        });
        let context = Context::of_process(&project.directory);
        let names = self.to_ask(&plan, &context)?;
        let results = if names.is_empty() { BTreeMap::new() } else { ask(&context, &plan, &names)? };
        let (mut reached, mut failed) = (BTreeMap::new(), Vec::new());
        let places = Places::of_machine(&project.directory);
        for (name, result) in results {
            match result {
                Ok(observed) => {
                    reached.insert(name.clone(), without_places(&name, observed, &places));
                }
                Err(error) => failed.push((name, error)),
            }
        }
        let made = make(plan, sources, reached, old.as_ref());
        let written = project.write_lock(&made.lock)?;
        self.tell(project, &made, &failed, written);
        let required = failed.iter().any(|(name, _)| made.lock.plan.server(name.as_str()).is_some_and(|s| s.required));
        Ok(if failed.is_empty() || self.allow_missing && !required { Outcome::Fine } else { Outcome::DoesNotHold })
    }

    /// The servers to start: those that a run would start here.
    fn to_ask(&self, plan: &Plan, context: &Context) -> Result<Vec<ServerName>, CouldNot> {
        if self.offline || !plan.enabled {
            return Ok(Vec::new());
        }
        let Some(only) = &self.server else {
            let mut names = Vec::new();
            for server in plan.servers.iter().filter(|server| server.enabled) {
                match context.unmet(server) {
                    Some(variable) => report::note(format_args!(
                        "{}: not asked, because `when` needs the variable {variable}, which is not set",
                        server.name
                    )),
                    None => names.push(server.name.clone()),
                }
            }
            return Ok(names);
        };
        match plan.server(only) {
            Some(server) if server.enabled => match context.unmet(server) {
                Some(variable) => Err(CouldNot::new(format!(
                    "the server `{only}` is not started: its `when` needs the variable {variable}, which is not set"
                ))),
                None => Ok(vec![server.name.clone()]),
            },
            Some(_) => Err(CouldNot::new(format!("the server `{only}` is not enabled"))),
            None => {
                let known: Vec<_> = plan.servers.iter().map(|server| server.name.as_str()).collect();
                Err(CouldNot::new(format!("there is no server `{only}`; the servers are {}", known.join(", "))))
            }
        }
    }

    fn tell(&self, project: &Project, made: &Made, failed: &[(ServerName, ConnectError)], written: bool) {
        for (name, error) in failed {
            report::error(format_args!("{name}: {error}"));
        }
        for name in made.kept.iter().filter(|name| failed.iter().any(|(failed, _)| failed == *name)) {
            report::note(format_args!("{name}: kept as it was locked before"));
        }
        if !made.missing.is_empty() {
            let names: Vec<_> = made.missing.iter().map(ServerName::as_str).collect();
            let (whose, them) = if names.len() == 1 { ("its", "it") } else { ("their", "them") };
            report::note(format_args!(
                "not in the catalog: {}; {whose} tools are unknown until 'mcplan lock' reaches {them}",
                names.join(", ")
            ));
        }
        let mut textless: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for (server, tool) in &made.without_text {
            textless.entry(server).or_default().push(tool.as_str());
        }
        for (server, tools) in textless {
            report::note(format_args!(
                "{server}: included now, without a locked text: {}; lock this server again",
                tools.join(", ")
            ));
        }
        let tools: usize = made.lock.catalog.values().map(|server| server.tools.0.len()).sum();
        let path = project.lock.display();
        let what = format!("{}, {}", counted(made.lock.catalog.len(), "server"), counted(tools, "tool"));
        report::result(if written {
            format!("wrote {path}: {what}\n")
        } else {
            format!("{path} is unchanged: {what}\n")
        });
        let size = made.lock.text().len();
        if size > LARGE_BYTES {
            let mut largest: Vec<_> = made
                .lock
                .catalog
                .iter()
                .map(|(name, server)| (mcplan_compiler::json::text(server).len(), name))
                .collect();
            largest.sort_by(|a, b| b.cmp(a));
            let largest: Vec<_> =
                largest.iter().take(3).map(|(size, name)| format!("{name} {} KiB", size / 1024)).collect();
            report::warning(format_args!(
                "the lock has {} KiB, and a Kubernetes ConfigMap holds 1024; the largest servers are {}",
                size / 1024,
                largest.join(", ")
            ));
        }
    }
}

/// From this size on the lock may not fit a ConfigMap.
const LARGE_BYTES: usize = 900 * 1024;

fn ask(
    context: &Context,
    plan: &Plan,
    names: &[ServerName],
) -> anyhow::Result<BTreeMap<ServerName, Result<Observed, ConnectError>>> {
    let terminal = std::io::stderr().is_terminal();
    let told = |name: &ServerName, result: &Result<Observed, ConnectError>| {
        if terminal && let Ok(observed) = result {
            report::note(format_args!("{name}: {} tools", observed.tools.len()));
        }
        if let Ok(observed) = result {
            observed.warnings.iter().for_each(|warning| report::warning(format_args!("{name}: {warning}")));
            for bad in &observed.quarantined {
                report::warning(format_args!("{name}: the tool {} can't be used: {}", bad.name, bad.reason));
            }
        }
    };
    with_servers(observe(plan, context, names, told))
}

fn without_places(name: &ServerName, mut observed: Observed, places: &Places) -> Observed {
    let changed = places.replace_in(&mut observed);
    if !changed.is_empty() {
        report::note(format_args!("{name}: paths of this machine were replaced by ~ or . in {}", changed.join(", ")));
    }
    observed
}

fn check(project: &Project, plan: &Plan, sources: &[String]) -> anyhow::Result<Outcome> {
    let lock: Lock = project.need_lock()?;
    let drifts = lock.check(plan, sources);
    let path = project.lock.display();
    if drifts.is_empty() {
        report::result(format_args!("{path} fits {}\n", project.config.display()));
        return Ok(Outcome::Fine);
    }
    for drift in &drifts {
        report::result(format_args!("{drift}\n"));
    }
    report::error(format_args!("{path} doesn't fit {}: run 'mcplan lock'", project.config.display()));
    Ok(Outcome::DoesNotHold)
}
