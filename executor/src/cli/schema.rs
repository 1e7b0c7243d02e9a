//! `mcplan schema`: the published JSON schemas.

use clap::{Args, ValueEnum};
use mcplan_compiler::schema;

use super::report::{self, Outcome};

/// Print the JSON schema of a config or a lock
#[derive(Debug, Args)]
pub(super) struct SchemaCommand {
    /// Of which file
    #[arg(value_enum)]
    of: Of,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Of {
    Config,
    Lock,
}

impl SchemaCommand {
    pub(super) fn run(&self) -> anyhow::Result<Outcome> {
        let schema = match self.of {
            Of::Config => schema::config(),
            Of::Lock => schema::lock(),
        };
        report::result(schema::text(&schema));
        Ok(Outcome::Fine)
    }
}
