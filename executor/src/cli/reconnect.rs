//! `mcplan reconnect`: a server of a running executor is connected anew.

use clap::Args;

use super::ask::{self, OneOf};
use super::project::Which;
use super::report::{self, Outcome};
use super::until_signal;
use crate::serve::control::{Answer, Request};

/// Connect a server of the running executor anew, and say what came of it
#[derive(Debug, Args)]
pub(super) struct Reconnect {
    /// The server
    #[arg(value_name = "NAME")]
    server: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    of: OneOf,
}

impl Reconnect {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let project = ask::project(which)?;
        let request = Request::Reconnect { server: self.server.clone() };
        let server = match until_signal(self.of.ask(&project, &request))?? {
            Answer::Reconnected(server) => server,
            Answer::Refused(why) => {
                report::error(why);
                return Ok(Outcome::DoesNotHold);
            }
            _ => return Err(ask::other_answer().into()),
        };
        if self.json {
            report::result(mcplan_compiler::json::pretty(&serde_json::to_string(&server)?));
        } else if server.is_ready() {
            report::result(format_args!("{}\n", ask::outcome(&server)));
        } else {
            report::error(ask::outcome(&server));
        }
        Ok(ask::judged(&server))
    }
}
