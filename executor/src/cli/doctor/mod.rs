//! `mcplan doctor`: starts each server as a run would, and tells what is wrong with it and what to do.

mod checked;
mod fix;
mod text;

use std::collections::BTreeMap;
use std::io::IsTerminal as _;

use clap::Args;
use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::Server;
use serde::Serialize;

use super::project::{Project, Which};
use super::report::{self, CouldNot, Outcome};
use super::run::{or_outcome, program};
use super::{everywhere, snapshot, with_servers};
use crate::core::caller::Caller;
use crate::core::prompt::Rendered;
use crate::core::session::{DisclosureSetting, Session};
use crate::core::snapshot::Snapshot;
use crate::core::tokens::{self, CountTokens};
use crate::runtime::connection::{self, ConnectError, Context};
use crate::runtime::observe::{Probed, probe};
use crate::runtime::program::Program;
use checked::{Checked, Verdict};

/// Start each server as a run would, and say what is wrong with it and what to do
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Only these servers
    #[arg(value_name = "NAME")]
    servers: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Checkup {
    /// In config order.
    servers: Vec<Checked>,
    /// What the tools of the servers that answered cost.
    cost: Option<Cost>,
    /// Of all of them together.
    warnings: Vec<String>,
}

/// Tokens.
#[derive(Debug, Serialize)]
struct Cost {
    /// How many tools are offered.
    tools: usize,
    /// When all of them are listed.
    outright: usize,
    /// Of the list that an agent gets at first, our own tools included.
    list: usize,
    /// Of the block of deferred tools.
    block: usize,
    encoding: &'static str,
}

impl Doctor {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let project = Project::find(which)?;
        let program = match or_outcome(program(&project, project.compile()?))? {
            Ok(program) => program,
            Err(outcome) => return Ok(outcome),
        };
        let wanted = self.wanted(&program)?;
        let context = Context::of_process(&project.directory);
        let patients: Vec<_> = wanted.iter().map(|server| Patient::of(&program, &context, server)).collect();
        let ready = patients.iter().filter(|patient| matches!(patient.state, Before::Ready(_)));
        let names: Vec<_> = ready.map(|patient| patient.server.name.clone()).collect();
        let probed = with_servers(probe(&program.plan, &context, &names, tell))?;
        let checkup = Checkup::of(&project, &program, patients, probed)?;
        if self.json {
            report::result(mcplan_compiler::json::pretty(&serde_json::to_string(&checkup)?));
        } else {
            report::result(text::text(&checkup));
        }
        let has = |verdict| checkup.servers.iter().any(|checked| checked.outcome == verdict);
        Ok(match (has(Verdict::Fault), has(Verdict::Skipped) && !self.servers.is_empty()) {
            (true, _) => Outcome::DoesNotHold,
            // Of one that was asked about by name nothing is known.
            (false, true) => Outcome::CouldNotFindOut,
            (false, false) => Outcome::Fine,
        })
    }

    /// The servers that are asked about.
    fn wanted<'a>(&self, program: &'a Program) -> Result<Vec<&'a Server>, CouldNot> {
        let all = &program.plan.servers;
        if let Some(unknown) = self.servers.iter().find(|name| program.plan.server(name).is_none()) {
            let known: Vec<_> = all.iter().map(|server| server.name.as_str()).collect();
            return Err(CouldNot::new(format!("there is no server `{unknown}`; the servers are {}", known.join(", "))));
        }
        let is_wanted =
            |server: &&Server| self.servers.is_empty() || self.servers.iter().any(|name| name == server.name.as_str());
        Ok(all.iter().filter(is_wanted).collect())
    }
}

/// A server, as far as it can be judged without starting it.
struct Patient<'a> {
    server: &'a Server,
    state: Before,
}

enum Before {
    /// It is left alone, and why.
    Skipped(String),
    /// It can't even be started.
    Broken(Vec<ConnectError>),
    /// Its variables are set and its program is there.
    Ready(Option<String>),
}

impl<'a> Patient<'a> {
    fn of(program: &Program, context: &Context, server: &'a Server) -> Self {
        let state = if !program.plan.enabled {
            Before::Skipped("all servers are off with `mcp.enabled: false`".to_owned())
        } else if !server.enabled {
            Before::Skipped("it is off with `enabled: false`".to_owned())
        } else if let Some(variable) = context.unmet(server) {
            Before::Skipped(format!("its `when` needs the variable {variable}, which is not set"))
        } else {
            // All that is missing, since each has to be mended.
            let missing = connection::missing(server, context);
            match connection::program(server, context) {
                Ok(program) => Before::Ready(program),
                Err(_) if !missing.is_empty() => Before::Broken(missing),
                Err(error) => Before::Broken(vec![error]),
            }
        };
        Self { server, state }
    }
}

impl Checkup {
    fn of(
        project: &Project,
        program: &Program,
        patients: Vec<Patient<'_>>,
        mut probed: BTreeMap<ServerName, Probed>,
    ) -> Result<Self, CouldNot> {
        let (mut servers, mut listings) = (Vec::new(), BTreeMap::new());
        for Patient { server, state } in patients {
            let checked = match (state, probed.remove(&server.name)) {
                (Before::Skipped(why), _) => Checked::skipped(server, why),
                (Before::Broken(errors), _) => Checked::broken(server, &errors),
                (Before::Ready(_), None) => Checked::skipped(server, "it was not asked".to_owned()),
                (Before::Ready(path), Some(probed)) => {
                    let mut checked = Checked::probed(server, path, &probed);
                    if let Ok(said) = &probed.result {
                        let heard = program.hear(server, said, &program.as_locked(said), None);
                        checked.judged(project, &heard.told);
                        listings.insert(server.name.clone(), heard.listing);
                    }
                    checked
                }
            };
            servers.push(checked);
        }
        let snapshot = snapshot(&everywhere(&program.plan), &listings)?;
        let counter = tokens::counter().ok();
        for checked in &mut servers {
            let own = snapshot.catalog.tools().iter().filter(|tool| tool.server.as_str() == checked.name);
            let tokens = counter.map(|counter| own.clone().map(|tool| counter.count(&tool.text)).sum());
            checked.offers(own.count(), tokens);
        }
        let block = snapshot.block();
        let cost = counter.filter(|_| !listings.is_empty()).map(|counter| Cost::of(&snapshot, &block, counter));
        Ok(Self { servers, cost, warnings: over_budget(&block).into_iter().collect() })
    }
}

impl Cost {
    fn of(snapshot: &Snapshot, block: &Rendered, counter: &dyn CountTokens) -> Self {
        let tools = snapshot.catalog.tools();
        let mode = DisclosureSetting::from(snapshot.plan.serve.disclosure).for_client(false);
        let list = Session::new(Caller::lead(), 0).listed(snapshot, mode, false);
        Self {
            tools: tools.len(),
            outright: tools.iter().map(|tool| counter.count(&tool.text)).sum(),
            list: list.iter().map(|tool| counter.count(tool)).sum(),
            block: counter.count(&block.text),
            encoding: tokens::ENCODING,
        }
    }
}

/// How many tools the block has no room for.
fn over_budget(block: &Rendered) -> Option<String> {
    let omitted = block.omitted.len();
    let total = omitted + block.included.len();
    (omitted > 0).then(|| {
        format!(
            "the block has no room for {omitted} of {total} deferred tools, which only search finds; raise `prompt.budget`"
        )
    })
}

/// What is said of a server as soon as it has answered.
fn tell(name: &ServerName, probed: &Probed) {
    if std::io::stderr().is_terminal() {
        let how = if probed.result.is_ok() { "answers" } else { "has a fault" };
        report::note(format_args!("{name}: {how}"));
    }
}
