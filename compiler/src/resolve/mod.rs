//! Config → Plan: every default filled in, every name checked, every pattern and template compiled.
//!
//! One pass per file. A pass reports and goes on; something already reported silences what follows from it. There is a
//! plan exactly when there is no error.

mod launch;
mod limits;
mod names;
mod prompt;
mod servers;
mod text;

use crate::code::Code;
use crate::config::Config;
use crate::diagnostic::Diagnostic;
use crate::pattern::Pattern;
use crate::plan::{Concurrency, Environment, Naming, Plan};
use crate::source::{SourceMap, Sources, Span, Spanned};

pub(crate) use names::derive as derive_name;

/// What the passes share: the texts that were read, and what was found so far.
pub struct Resolver<'a> {
    texts: &'a SourceMap,
    files: &'a dyn Sources,
    diagnostics: Vec<Diagnostic>,
    read: Vec<String>,
    /// Where an error was reported before: what is missing there may be what was refused.
    troubled: Vec<Span>,
}

/// A plan, if there is one, and everything that was found on the way.
#[derive(Debug)]
pub struct Resolved {
    /// `None` when anything was an error.
    pub plan: Option<Plan>,
    /// Unsorted.
    pub diagnostics: Vec<Diagnostic>,
    /// Files that were read besides the config, as the config names them.
    pub read: Vec<String>,
}

/// Decides everything that `config` leaves open. `earlier` is what was found before: it silences what follows from it.
pub fn resolve(config: &Config, texts: &SourceMap, files: &dyn Sources, earlier: &[Diagnostic]) -> Resolved {
    let troubled = earlier.iter().filter(|d| d.is_error()).map(|d| d.primary.at).collect();
    let mut resolver = Resolver { texts, files, diagnostics: Vec::new(), read: Vec::new(), troubled };
    let plan = resolver.plan(config);
    let failed = resolver.diagnostics.iter().any(Diagnostic::is_error);
    Resolved { plan: (!failed).then_some(plan), diagnostics: resolver.diagnostics, read: resolver.read }
}

impl Resolver<'_> {
    fn plan(&mut self, config: &Config) -> Plan {
        let mcp = config.mcp.clone().unwrap_or_default();
        let naming = self.naming(&mcp);
        let servers = self.servers(config, &mcp, &naming);
        let declared = !servers.is_empty();
        Plan {
            enabled: mcp.enabled.unwrap_or(declared),
            servers,
            denylist: patterns(mcp.denylist.as_deref()),
            naming,
            concurrency: Concurrency {
                stdio: mcp.concurrency.as_ref().and_then(|c| c.stdio).unwrap_or(3) as usize,
                remote: mcp.concurrency.as_ref().and_then(|c| c.remote).unwrap_or(20) as usize,
            },
            prompt: self.prompt(config),
        }
    }

    fn naming(&mut self, mcp: &crate::config::Mcp) -> Naming {
        let pattern = mcp.naming.as_ref().map_or("mcp__{server}__{tool}", |naming| &naming.value).to_owned();
        if let Some(written) = &mcp.naming {
            self.check_naming(written);
        }
        Naming { pattern, limit: mcp.name_limit.as_ref().map_or(64, |limit| limit.value as usize) }
    }

    fn check_naming(&mut self, written: &Spanned<String>) {
        let pattern = &written.value;
        let without = pattern.replacen("{tool}", "", 1).replacen("{server}", "", 1);
        if pattern.matches("{tool}").count() != 1 {
            let message = format!("the naming pattern `{pattern}` must hold `{{tool}}` once");
            self.report(
                Diagnostic::new(Code::BadNaming, written.at, message)
                    .help("write `mcp__{server}__{tool}`, `{server}__{tool}` or `{tool}`"),
            );
        } else if let Some(odd) = without.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))) {
            let message = format!("the naming pattern `{pattern}` can't hold `{odd}`");
            self.report(
                Diagnostic::new(Code::BadNaming, written.at, message)
                    .help("besides `{server}` and `{tool}` only letters, digits, `_` and `-` can be in a tool's name"),
            );
        } else if !pattern.contains("{server}") {
            let message = format!("the naming pattern `{pattern}` doesn't tell servers apart");
            self.report(
                Diagnostic::new(Code::NamingWithoutServer, written.at, message)
                    .help("where two servers have a tool of one name, the later one's gets a hash at its end"),
            );
        }
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Whether something inside of `entry` was refused, so that what is missing there is no news.
    fn is_troubled(&self, entry: Span) -> bool {
        let inside = |at: &Span| at.source == entry.source && entry.start <= at.start && at.end <= entry.end;
        self.troubled.iter().any(inside)
    }

    /// The part of the file that `range` of a scalar's value stands on: exact where the scalar is written as it means,
    /// the whole scalar where quoting or folding changed it.
    fn inside(&self, scalar: Span, value: &str, range: std::ops::Range<usize>) -> Span {
        let written = self.texts.get(scalar.source).text.get(scalar.range()).unwrap_or_default();
        let quote = usize::from(written.starts_with(['"', '\'']));
        match written.get(quote..written.len().saturating_sub(quote)) {
            Some(inner) if inner == value => {
                let start = scalar.start + quote;
                Span { source: scalar.source, start: start + range.start, end: start + range.end }
            }
            _ => scalar,
        }
    }
}

/// Compiles a list of patterns.
fn patterns(written: Option<&[Spanned<String>]>) -> Vec<Pattern> {
    written.unwrap_or_default().iter().map(|pattern| Pattern::new(&*pattern.value)).collect()
}

/// The default of `mcp.environment`.
fn default_environment(mcp: &crate::config::Mcp) -> Environment {
    mcp.environment.unwrap_or_default()
}
