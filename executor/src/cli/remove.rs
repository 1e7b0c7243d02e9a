//! `mcplan remove`: one entry less.

use clap::Args;
use mcplan_compiler::edit::{self, Refused};

use super::edited::{Edited, NotMade};
use super::project::Which;
use super::report::{self, Outcome};

/// Remove a server or builtin from the config
#[derive(Debug, Args)]
pub(super) struct Remove {
    /// The entry's name
    name: String,
    /// Write nothing, print the difference
    #[arg(long)]
    dry_run: bool,
}

impl Remove {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let mut edited = match Edited::open(which)? {
            Ok(edited) => edited,
            Err(outcome) => return Ok(outcome),
        };
        let shown = edited.path().display().to_string();
        let what = format!("{shown}: `{}` is not removed", self.name);
        let removed = match edit::remove(edited.text(), &self.name) {
            Ok(removed) => removed,
            Err(why @ Refused::NoEntry { .. }) => {
                match edited.elsewhere(&self.name) {
                    Some(place) => report::error(format_args!("{shown}: no entry `{}` is in it: {place}", self.name)),
                    None => report::error(format_args!("{shown}: {why}")),
                }
                return Ok(Outcome::DoesNotHold);
            }
            Err(why) => {
                NotMade::Refused(why).tell(&what, None);
                return Ok(Outcome::DoesNotHold);
            }
        };
        if let Err(why) = edited.replace(removed.text) {
            why.tell(&what, None);
            return Ok(Outcome::DoesNotHold);
        }
        let outcome = edited.finish(self.dry_run)?;
        if !self.dry_run {
            report::note(format_args!("removed `{}` from `{}` of {shown}", self.name, removed.from));
        }
        Ok(outcome)
    }
}
