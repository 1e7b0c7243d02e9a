//! `mcplan builtins`: the curated catalogue.

use std::fmt::Write as _;

use clap::Args;
use mcplan_compiler::builtins::{Builtin, catalogue};
use serde_json::json;

use super::report::{self, Outcome};

/// List the servers that `mcp_builtins` can name
#[derive(Debug, Args)]
pub(super) struct Builtins {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Builtins {
    pub(super) fn run(&self) -> anyhow::Result<Outcome> {
        if self.json {
            let all: Vec<_> = catalogue().iter().map(|(name, builtin)| as_json(name, builtin)).collect();
            report::result(mcplan_compiler::json::pretty(&json!(all).to_string()));
            return Ok(Outcome::Fine);
        }
        let mut out = String::new();
        for (name, builtin) in catalogue() {
            let args = builtin.launch_args(&builtin.version).join(" ");
            let _ = writeln!(out, "{name}: {}", builtin.description);
            let _ = writeln!(out, "    {} {args}", builtin.runner.command());
            if !builtin.env.is_empty() {
                let names: Vec<_> = builtin.env.keys().map(String::as_str).collect();
                let _ = writeln!(out, "    needs {}", names.join(", "));
            }
            if let Some(instead) = &builtin.archived {
                let _ = writeln!(out, "    archived: {instead}");
            }
            let _ = writeln!(out, "    {}, {}", builtin.licence, builtin.documentation);
        }
        report::result(out);
        Ok(Outcome::Fine)
    }
}

fn as_json(name: &str, builtin: &Builtin) -> serde_json::Value {
    json!({
        "name": name,
        "description": builtin.description,
        "command": builtin.runner.command(),
        "args": builtin.launch_args(&builtin.version),
        "env": builtin.env,
        "version": builtin.version,
        "licence": builtin.licence,
        "documentation": builtin.documentation,
        "archived": builtin.archived,
    })
}
