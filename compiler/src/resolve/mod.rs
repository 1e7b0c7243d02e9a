//! Config → Plan: every default filled in, every name checked, every pattern and template compiled.
//!
//! One pass per file. A pass reports and goes on; something already reported silences what follows from it. There is a
//! plan exactly when there is no error.

mod derive;
mod launch;
mod limits;
mod names;
mod prompt;
mod servers;
mod text;

use crate::code::Code;
use crate::config::Config;
use crate::diagnostic::{Diagnostic, shown};
use crate::pattern::Pattern;
use crate::plan::{Concurrency, Environment, Naming, Plan};
use crate::source::{SourceMap, Sources, Span, Spanned};

pub(crate) use derive::derive as derive_name;

/// What the passes share: the texts that were read, and what was found so far.
pub struct Resolver<'a> {
    texts: &'a mut SourceMap,
    files: &'a dyn Sources,
    diagnostics: Vec<Diagnostic>,
    read: Vec<String>,
    /// Where an error was reported before, sorted: what is missing there may be what was refused.
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

/// Decides everything that `config` leaves open. Files that diagnostics point into are added to `texts`. `earlier` is what was found before: it silences what follows from it.
pub fn resolve(config: &Config, texts: &mut SourceMap, files: &dyn Sources, earlier: &[Diagnostic]) -> Resolved {
    let mut troubled: Vec<_> = earlier.iter().filter(|d| d.is_error()).map(|d| d.primary.at).collect();
    troubled.sort_unstable();
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
        let (code, problem, help) = if pattern.matches("{tool}").count() != 1 {
            let help = "write `mcp__{server}__{tool}`, `{server}__{tool}` or `{tool}`";
            (Code::BadNaming, "must hold `{tool}` once".to_owned(), help)
        } else if pattern.matches("{server}").count() > 1 {
            (
                Code::BadNaming,
                "holds `{server}` twice".to_owned(),
                "write `mcp__{server}__{tool}` or `{server}__{tool}`",
            )
        } else if without.contains(['{', '}']) {
            (
                Code::BadNaming,
                "knows only `{server}` and `{tool}`".to_owned(),
                "write everything else as it is to appear",
            )
        } else if let Some(odd) = without.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))) {
            let help = "besides `{server}` and `{tool}` only letters, digits, `_` and `-` can be in a tool's name";
            (Code::BadNaming, format!("can't hold `{}`", odd.escape_debug()), help)
        } else if !pattern.contains("{server}") {
            let help = "where two servers have a tool of one name, the later one's gets a hash at its end";
            (Code::NamingWithoutServer, "doesn't tell servers apart".to_owned(), help)
        } else {
            return;
        };
        let message = format!("the naming pattern `{}` {problem}", shown(pattern));
        self.report(Diagnostic::new(code, written.at, message).help(help));
    }

    fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Whether something inside of `entry` was refused, so that what is missing there is no news.
    fn is_troubled(&self, entry: Span) -> bool {
        let first = self.troubled.partition_point(|at| (at.source, at.start) < (entry.source, entry.start));
        let inside = |at: &Span| at.source == entry.source && at.start <= entry.end;
        self.troubled[first..].iter().take_while(|at| inside(at)).any(|at| at.end <= entry.end)
    }

    /// The part of the file that `range` of a scalar's value stands on: exact where its text is written as it means,
    /// the whole scalar where escapes or folding changed it.
    ///
    /// What is looked for starts with `$`, so that counting those finds it whatever stands around it.
    fn inside(&self, scalar: Span, value: &str, range: std::ops::Range<usize>) -> Span {
        let written = self.texts.get(scalar.source).text.get(scalar.range()).unwrap_or_default();
        let dollars = |text: &str| text.bytes().filter(|byte| *byte == b'$').count();
        let before = dollars(&value[..range.start]);
        let found = written.match_indices('$').nth(before).filter(|_| dollars(written) == dollars(value));
        match found {
            Some((at, _)) if written[at..].starts_with(&value[range.clone()]) => {
                Span { source: scalar.source, start: scalar.start + at, end: scalar.start + at + range.len() }
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
