//! `mcplan reload`: a running executor reads its files now.

use clap::Args;

use super::ask::{self, OneOf};
use super::project::Which;
use super::report::{self, Outcome};
use super::until_signal;
use crate::core::status::ServerStatus;
use crate::event::short;
use crate::serve::control::{Answer, Reload, ReloadOutcome, Request};

/// Have the running executor read its files now, and say what came of it
#[derive(Debug, Args)]
pub(super) struct ReloadCommand {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    of: OneOf,
}

impl ReloadCommand {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let project = ask::project(which)?;
        let Answer::Reload(reload) = until_signal(self.of.ask(&project, &Request::Reload))?? else {
            return Err(ask::other_answer().into());
        };
        if self.json {
            report::result(mcplan_compiler::json::pretty(&serde_json::to_string(&reload)?));
        } else {
            print(&reload);
        }
        let servers = reload.servers.iter().map(judged).max().unwrap_or(Outcome::Fine);
        Ok(if reload.outcome == ReloadOutcome::Rejected { Outcome::DoesNotHold } else { servers })
    }
}

/// A server that isn't to be connected here is as the files want it.
fn judged(server: &ServerStatus) -> Outcome {
    match (server.state.as_str(), &server.cause) {
        ("parked" | "unmet", _) | ("configured", Some(_)) => Outcome::Fine,
        _ => ask::judged(server),
    }
}

fn print(reload: &Reload) {
    let plan = format!("generation {}, plan {}", reload.plan.generation, short(&reload.plan.digest));
    match reload.outcome {
        ReloadOutcome::Unchanged => report::result(format_args!("nothing changed: {plan} serves on\n")),
        ReloadOutcome::Rejected => {
            let why = reload.report.as_deref().unwrap_or_default();
            report::note(why.trim_end());
            report::error(format_args!("the files were refused: {plan} serves on"));
        }
        ReloadOutcome::Reloaded => {
            let changes: Vec<_> =
                reload.changes.iter().map(|change| format!("{} {}", change.server, change.change)).collect();
            let changes = if changes.is_empty() { "no server touched".to_owned() } else { changes.join(", ") };
            let (generation, old, new) = (reload.plan.generation, &reload.before.digest, &reload.plan.digest);
            report::result(format_args!("generation {generation}, plan {} → {}: {changes}\n", short(old), short(new)));
            for server in &reload.servers {
                if judged(server) == Outcome::Fine {
                    report::result(format_args!("{}\n", ask::outcome(server)));
                } else {
                    report::error(ask::outcome(server));
                }
            }
        }
    }
    reload.warnings.iter().for_each(report::warning);
}
