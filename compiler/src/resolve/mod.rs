//! Config → Plan: every default filled in, every name checked, every pattern and template compiled.
//!
//! One pass per file. A pass reports and goes on; something already reported silences what follows from it. There is a
//! plan exactly when there is no error.

mod derive;
mod effect;
mod launch;
mod limits;
mod names;
mod plugins;
mod policy;
mod prompt;
mod serve;
mod servers;
mod tests;
mod text;
mod url;

use std::collections::{BTreeMap, BTreeSet};

use crate::code::Code;
use crate::config::{Config, ServerEntry};
use crate::diagnostic::{Diagnostic, Severity, shown};
use crate::expectation::Expectation;
use crate::pattern::{Flaw, Pattern};
use crate::places::Places;
use crate::plan::{Concurrency, Digested, Naming, Plan};
use crate::source::{SourceMap, Sources, Span, Spanned};

pub(crate) use derive::derive as derive_name;
pub(crate) use launch::rebased;
pub(crate) use plugins::unusable_output;

/// What is resolved: the main file with its profile, and what adds servers to it.
#[derive(Debug, Default)]
pub struct Inputs {
    /// The main file, a profile already laid over it.
    pub main: Config,
    /// The fragments in order.
    pub fragments: Vec<Fragment>,
    /// What plugins printed, by the plugin's name.
    pub plugins: BTreeMap<String, PluginOutput>,
    /// Whether this is a fragment by itself: what it names may be declared elsewhere.
    pub alone: bool,
}

/// A fragment.
#[derive(Debug)]
pub struct Fragment {
    /// What it holds.
    pub config: Config,
    /// Its directory, relative to the main file's; empty for the same.
    pub directory: String,
}

/// What a plugin printed.
#[derive(Debug)]
pub struct PluginOutput {
    /// As it stands.
    pub text: String,
    /// Its servers.
    pub servers: Vec<Spanned<ServerEntry>>,
}

/// What the passes share: the texts that were read, and what was found so far.
pub struct Resolver<'a> {
    texts: &'a mut SourceMap,
    files: &'a dyn Sources,
    diagnostics: Vec<Diagnostic>,
    plugins_failed: Vec<Diagnostic>,
    read: Vec<String>,
    /// Where an error was reported before, sorted: what is missing there may be what was refused.
    troubled: Vec<Span>,
    plugins: &'a BTreeMap<String, PluginOutput>,
    /// Names of plugins whose output turned out to be wrong.
    unusable_plugins: BTreeSet<String>,
    /// Directory of the file that is being resolved, relative to the main file's.
    directory: String,
    /// Names that may exist without being known here: plugins weren't run, or this is a fragment by itself.
    open_world: bool,
    /// Names of servers that were declared and couldn't be resolved.
    unresolved_names: BTreeSet<String>,
    places: Places,
}

/// A plan, if there is one, and everything that was found on the way.
#[derive(Debug)]
pub struct Resolved {
    /// `None` when anything was an error.
    pub plan: Option<Plan>,
    /// What must hold of it.
    pub tests: Vec<Expectation>,
    /// Where what it says is written.
    pub places: Places,
    /// Unsorted.
    pub diagnostics: Vec<Diagnostic>,
    /// What is wrong with the servers of plugins: warnings, since it costs only these.
    pub plugins_failed: Vec<Diagnostic>,
    /// Files that were read besides the config, as the config names them.
    pub read: Vec<String>,
}

/// Decides everything that the config leaves open. Files that diagnostics point into are added to `texts`. `earlier` is
/// what was found before: it silences what follows from it.
pub fn resolve(inputs: &Inputs, texts: &mut SourceMap, files: &dyn Sources, earlier: &[Diagnostic]) -> Resolved {
    let mut troubled: Vec<_> = earlier.iter().filter(|d| d.is_error()).map(|d| d.primary.at).collect();
    troubled.sort_unstable();
    let declared = inputs.main.plugins.iter().flatten();
    let unheard = declared.clone().any(|plugin| !inputs.plugins.contains_key(&plugin.value.name.value));
    let mut resolver = Resolver {
        texts,
        files,
        diagnostics: Vec::new(),
        plugins_failed: Vec::new(),
        read: Vec::new(),
        troubled,
        plugins: &inputs.plugins,
        unusable_plugins: BTreeSet::new(),
        directory: String::new(),
        open_world: unheard || inputs.alone,
        unresolved_names: BTreeSet::new(),
        places: Places::default(),
    };
    let (plan, tests) = resolver.plan(inputs);
    let failed = resolver.diagnostics.iter().any(Diagnostic::is_error);
    Resolved {
        plan: (!failed).then_some(plan),
        tests,
        places: resolver.places,
        diagnostics: resolver.diagnostics,
        plugins_failed: resolver.plugins_failed,
        read: resolver.read,
    }
}

impl Resolver<'_> {
    fn plan(&mut self, inputs: &Inputs) -> (Plan, Vec<Expectation>) {
        let config = &inputs.main;
        let mcp = config.mcp.clone().unwrap_or_default();
        let naming = self.naming(config, &mcp);
        let servers = self.servers(inputs, &mcp, &naming);
        self.check_boundaries(&mcp, &naming, &servers);
        let fragments = || inputs.fragments.iter().map(|fragment| &fragment.config);
        self.places.add_sections(config, fragments());
        let denylist: Vec<_> = mcp
            .denylist
            .iter()
            .flatten()
            .chain(
                fragments().filter_map(|fragment| fragment.mcp.as_ref()).flat_map(|mcp| mcp.denylist.iter().flatten()),
            )
            .cloned()
            .collect();
        for pattern in &denylist {
            self.check_namespaced(pattern, &servers);
        }
        self.check_filters(inputs, &mcp, &servers);
        let agents = self.agents(config, &servers);
        let mut policy = self.policy(config, &servers);
        for fragment in fragments() {
            policy.deny.extend(self.policy(fragment, &servers).deny);
        }
        let mut tests = self.tests(config, &agents, &servers, &naming);
        for fragment in fragments() {
            tests.extend(self.tests(fragment, &agents, &servers, &naming));
        }
        let plan = Plan {
            enabled: servers.iter().any(|server| server.enabled) || value(&mcp.enabled).unwrap_or(!servers.is_empty()),
            servers,
            denylist: self.patterns(Some(&denylist)),
            reserved: mcp.reserved.iter().flatten().map(|name| self.reserved(name)).collect(),
            ca_bundle: mcp.ca_bundle.as_ref().map(|path| self.path(path, "mcp.ca_bundle")),
            policy,
            serve: self.serve(config, &agents),
            agents,
            naming,
            concurrency: Concurrency {
                stdio: mcp.concurrency.as_ref().and_then(|c| c.stdio).unwrap_or(3) as usize,
                remote: mcp.concurrency.as_ref().and_then(|c| c.remote).unwrap_or(20) as usize,
            },
            prompt: self.prompt(config),
            search: Self::search(config),
            skills: config.skills.iter().flatten().map(|path| self.path(path, "skills")).collect(),
            plugins: self.plugins(config),
        };
        (plan, tests)
    }

    /// An error about a name that may be declared where we can't look is only worth a note.
    fn softened(&self, mut diagnostic: Diagnostic) -> Diagnostic {
        if self.open_world {
            diagnostic.severity = Severity::Note;
        }
        diagnostic
    }

    fn plugin_output(&self, name: &str) -> Option<Digested> {
        let output = self.plugins.get(name).filter(|_| !self.unusable_plugins.contains(name));
        output.map(|output| Digested::new(output.text.clone()))
    }

    fn naming(&mut self, config: &Config, mcp: &crate::config::Mcp) -> Naming {
        let pattern = mcp.naming.as_ref().map_or("mcp__{server}__{tool}", |naming| &naming.value).to_owned();
        if let Some(written) = &mcp.naming {
            self.check_naming(written);
        }
        let limit = mcp.name_limit.as_ref().map_or(64, |limit| limit.value as usize);
        let Some(prefix) = config.serve.as_ref().and_then(|serve| serve.host_prefix.as_ref()) else {
            return Naming { pattern, limit };
        };
        let left = limit.saturating_sub(prefix.value as usize);
        if left < SHORTEST_LIMIT {
            let message = format!("a prefix of {} leaves {left} of {limit} characters for a name", prefix.value);
            self.report(Diagnostic::new(Code::OutOfRange, prefix.at, message).help(format!(
                "at least {SHORTEST_LIMIT} have to be left; raise `mcp.name_limit` if the client takes longer names"
            )));
        }
        Naming { pattern, limit: left.max(SHORTEST_LIMIT) }
    }

    fn check_naming(&mut self, written: &Spanned<String>) {
        let pattern = &written.value;
        let without = pattern.replacen("{tool}", "", 1).replacen("{server}", "", 1);
        if pattern.is_empty() {
            let message = "an empty naming pattern leaves tools without names";
            self.report(
                Diagnostic::new(Code::BadNaming, written.at, message)
                    .help("write `mcp__{server}__{tool}`, `{server}__{tool}` or `{tool}`"),
            );
            return;
        }
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

    /// Compiles a list of patterns; one that nobody would mean as it works is an error.
    fn patterns(&mut self, written: Option<&[Spanned<String>]>) -> Vec<Pattern> {
        let written = written.unwrap_or_default();
        for pattern in written {
            if let Some((range, flaw)) = Pattern::flaw(&pattern.value) {
                let at = self.inside(pattern.at, &pattern.value, range);
                let message = match flaw {
                    Flaw::Empty => flaw.to_string(),
                    _ => format!("`{}` is no pattern: {flaw}", shown(&pattern.value)),
                };
                self.report(Diagnostic::new(Code::BadPattern, at, message).help(flaw.remedy(&pattern.value)));
            }
        }
        written.iter().map(|pattern| Pattern::new(&*pattern.value)).collect()
    }

    /// A name of the host's: whole, unlike everything beside it.
    fn reserved(&mut self, written: &Spanned<String>) -> String {
        let name = &written.value;
        self.check_plain(written, "mcp.reserved");
        if name.trim().is_empty() || name.contains(['*', '?', '[']) {
            let message = match name.trim() {
                "" => "an empty name reserves nothing".to_owned(),
                name => format!("`{}` reserves nothing: `reserved` takes whole names, no patterns", shown(name)),
            };
            self.report(
                Diagnostic::new(Code::BadPattern, written.at, message)
                    .help("write the name of a tool of the host's, such as `read_file`, or remove it"),
            );
        }
        name.clone()
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
        let quote = usize::from(written.starts_with(['"', '\'']));
        if written.get(quote..written.len().saturating_sub(quote)) == Some(value) {
            let start = scalar.start + quote;
            return Span { source: scalar.source, start: start + range.start, end: start + range.end };
        }
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

/// Fewest characters that a limit on names may leave; a suffix alone takes seven.
const SHORTEST_LIMIT: usize = 16;

/// What is written, without its place.
fn value<T: Copy>(written: &Option<Spanned<T>>) -> Option<T> {
    written.as_ref().map(|written| written.value)
}
