//! `mcplan init`: a config to start from.

use std::path::PathBuf;

use clap::Args;

use super::project::Which;
use super::report::{self, CouldNot, Outcome};

/// The text of a new config.
const STARTER: &str = include_str!("starter.yml");

/// Write a commented config.yml to start from
#[derive(Debug, Args)]
pub(super) struct Init {}

impl Init {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        use std::io::Write as _;
        let named = which.config.is_some();
        let path = which.config.clone().unwrap_or_else(|| PathBuf::from("config.yml"));
        // A second config beside the first would only be confusing.
        let others = ["config.yml", "mcplan.yml"].map(PathBuf::from);
        let there = others.into_iter().filter(|_| !named).chain([path.clone()]).find(|path| path.exists());
        if let Some(there) = there {
            report::error(format_args!("{} is there already; it is left as it is", there.display()));
            return Ok(Outcome::DoesNotHold);
        }
        let failed = |error: std::io::Error| CouldNot::new(format!("{} can't be written: {error}", path.display()));
        let mut file = std::fs::File::create_new(&path).map_err(failed)?;
        file.write_all(STARTER.as_bytes()).map_err(failed)?;
        report::note(format_args!("wrote {}; 'mcplan add' and 'mcplan import' put servers into it", path.display()));
        Ok(Outcome::Fine)
    }
}
