//! The servers asked, for `lock` and for whatever compares with them.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use mcplan_compiler::diagnostic::one_line;
use mcplan_compiler::lock::Lock;
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::Plan;

use super::project::Project;
use super::report::{self, CouldNot};
use super::with_servers;
use crate::runtime::connection::{ConnectError, Context};
use crate::runtime::observe::observe;
use crate::runtime::places::Places;

/// What the servers said.
#[derive(Debug, Default)]
pub(super) struct Asked {
    /// Of those that answered, with places of this machine named as the lock does.
    pub reached: BTreeMap<ServerName, Observed>,
    /// Why not, of those that didn't.
    pub failed: Vec<(ServerName, ConnectError)>,
}

impl Asked {
    /// Starts the servers that a run would start here, or `only` one, and reads all that they list. The revision of the
    /// protocol that one in `lock` speaks is known.
    ///
    /// # Errors
    /// When `only` can't be started.
    pub(super) fn of(project: &Project, plan: &Plan, lock: Option<&Lock>, only: Option<&str>) -> anyhow::Result<Self> {
        let context = Context::of_process(&project.directory);
        let names = if plan.enabled { to_ask(plan, &context, only)? } else { Vec::new() };
        if names.is_empty() {
            return Ok(Self::default());
        }
        let places = Places::of_machine(&project.directory);
        let mut asked = Self::default();
        for (name, result) in with_servers(observe(plan, &context, lock, &names, told))? {
            match result {
                Ok(observed) => {
                    let observed = without_places(&name, observed, &places);
                    asked.reached.insert(name, observed);
                }
                Err(error) => asked.failed.push((name, error)),
            }
        }
        Ok(asked)
    }

    /// Prints why servers can't be reached.
    pub(super) fn tell_failed(&self) {
        self.failed.iter().for_each(|(name, error)| report::error(format_args!("{name}: {error}")));
    }
}

/// What is said of a server as soon as it has answered.
fn told(name: &ServerName, result: &Result<Observed, ConnectError>) {
    let Ok(observed) = result else { return };
    if std::io::stderr().is_terminal() {
        report::note(format_args!("{name}: {} tools", observed.tools.len()));
    }
    // In the server's words, which must not look like a line of ours.
    let warned = observed.warnings.iter().map(|warning| one_line(warning, 1_000));
    warned.for_each(|warning| report::warning(format_args!("{name}: {warning}")));
    for bad in &observed.quarantined {
        let item = if bad.name.is_empty() { "(no name)".into() } else { one_line(&bad.name, 100) };
        report::warning(format_args!("{name}: the tool {item} is left out: {}", one_line(&bad.reason, 1_000)));
    }
}

/// The servers to start: those that a run would start here.
fn to_ask(plan: &Plan, context: &Context, only: Option<&str>) -> Result<Vec<ServerName>, CouldNot> {
    let Some(only) = only else {
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

fn without_places(name: &ServerName, mut observed: Observed, places: &Places) -> Observed {
    let changed = places.replace_in(&mut observed);
    if !changed.is_empty() {
        report::note(format_args!("{name}: paths of this machine were replaced by ~ or . in {}", changed.join(", ")));
    }
    observed
}
