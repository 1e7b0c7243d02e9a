//! What only a lock can tell: patterns that match nothing, tools that a model's provider refuses, texts that hide something.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::code::Code;
use crate::config::Config;
use crate::diagnostic::{Diagnostic, closest, shown};
use crate::hidden::hidden_places;
use crate::json;
use crate::lock::{Lock, LockedServer};
use crate::name::ServerName;
use crate::pattern::Pattern;
use crate::places::Places;
use crate::plan::{NameTable, OWN_TOOLS, Plan, Server, tool_strings};
use crate::resolve::Fragment;
use crate::source::{Span, Spanned};

/// From this many tools on, a server that isn't deferred is worth a word.
const MANY_TOOLS: usize = 20;

/// A model provider or host, by what it refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Anthropic's API.
    Anthropic,
    /// OpenAI's API.
    OpenAi,
    /// The Cursor editor.
    Cursor,
    /// Nothing but the specification.
    Spec,
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Anthropic => "Anthropic's API",
            Self::OpenAi => "OpenAI's API",
            Self::Cursor => "Cursor",
            Self::Spec => "the specification",
        }
    }

    /// Longest name of a tool, in characters.
    fn name_limit(self) -> usize {
        match self {
            Self::Anthropic | Self::OpenAi => 64,
            Self::Cursor => 60,
            Self::Spec => 128,
        }
    }

    /// Whether a parameter may be called so. Names of tools need no such check: ours have only what everybody takes.
    fn takes_parameter(self, name: &str) -> bool {
        let taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
        self != Self::Anthropic || (1..=64).contains(&name.len()) && name.chars().all(taken)
    }

    /// Whether a schema may have `anyOf` and the like at its top.
    fn takes_top_level_unions(self) -> bool {
        matches!(self, Self::Cursor | Self::Spec)
    }
}

/// What is looked at together.
#[derive(Clone, Copy, Debug)]
pub struct Locked<'a> {
    /// As written.
    pub config: &'a Config,
    /// What it takes in, as written.
    pub fragments: &'a [Fragment],
    /// As decided.
    pub plan: &'a Plan,
    /// As locked. It may be stale: what it says of a server counts only while that server is launched the same.
    pub lock: &'a Lock,
    /// Where what the plan says is written.
    pub places: &'a Places,
}

impl Locked<'_> {
    /// Everything that the lock tells of the config.
    pub fn lints(&self, target: Option<Target>) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        let known: BTreeMap<&ServerName, &LockedServer> = self.lock.baseline(self.plan).collect();
        // A server that isn't locked could have any tool.
        let all_known = self.plan.servers.iter().all(|server| !server.enabled || known.contains_key(&server.name));
        self.filters(&known, &mut found);
        if all_known {
            self.shared_patterns(&known, &mut found);
            self.tests(&known, &mut found);
        }
        let table = self.names(&known, |server| self.plan.enabled && server.enabled);
        found.extend(self.large_lock());
        for server in &self.plan.servers {
            if let (Some(locked), Some(at)) = (known.get(&server.name), self.places.server(&server.name)) {
                large(server, locked, at, &mut found);
                hidden(server, locked, at, &mut found);
                if let Some(target) = target {
                    self.refused(target, &table, (server, locked), at, &mut found);
                }
            }
        }
        found
    }

    /// A lock that may not fit where locks are kept; the largest server is the one to look at.
    fn large_lock(&self) -> Option<Diagnostic> {
        let message = too_large(self.lock)?;
        let largest = sizes(self.lock).into_iter().find_map(|(_, name)| self.places.server(name))?;
        Some(
            Diagnostic::new(Code::LargeLock, largest, message).help(
                "narrow `tools.include` of the largest: what a filter drops is locked by its name and digest alone",
            ),
        )
    }

    /// The config and its fragments.
    fn configs(&self) -> impl Iterator<Item = &Config> {
        std::iter::once(self.config).chain(self.fragments.iter().map(|fragment| &fragment.config))
    }

    fn filters(&self, known: &BTreeMap<&ServerName, &LockedServer>, found: &mut Vec<Diagnostic>) {
        let entries = self.configs().flat_map(|config| config.mcp_servers.iter().flatten());
        let nested = self.config.mcp.iter().flat_map(|mcp| mcp.servers.iter().flatten());
        let written = entries
            .chain(nested)
            .filter_map(|entry| Some((entry.value.name.as_ref()?.value.as_str(), entry.value.tools.as_ref()?)));
        let builtins = self.configs().flat_map(|config| config.mcp_builtins.iter().flatten());
        let builtins = builtins.filter_map(|builtin| {
            let overrides = &builtin.value.0;
            Some((overrides.r#as.as_ref().unwrap_or(&overrides.name).value.as_str(), overrides.tools.as_ref()?))
        });
        for (name, tools) in written.chain(builtins) {
            let Some((name, locked)) = known.iter().find(|(known, _)| known.as_str() == name) else { continue };
            let names = tool_names(locked);
            for pattern in tools.patterns() {
                let matches = |tool: &&str| matches(pattern, name, tool);
                if !names.iter().any(matches) {
                    found.push(nothing(pattern, &format!("no tool of `{name}`"), names.iter().copied()));
                }
            }
        }
    }

    fn shared_patterns(&self, known: &BTreeMap<&ServerName, &LockedServer>, found: &mut Vec<Diagnostic>) {
        let sections = self.configs().filter_map(|config| config.mcp.as_ref());
        let denylist = sections.flat_map(|mcp| mcp.denylist.iter().flatten());
        let agents = self.config.agents.iter().flatten().flat_map(|(_, agent)| agent.value.tools.iter().flatten());
        let all: Vec<(&ServerName, &str)> =
            known.iter().flat_map(|(name, locked)| tool_names(locked).into_iter().map(|tool| (*name, tool))).collect();
        let namespaced: Vec<String> = all.iter().map(|(server, tool)| tool_strings(server, tool)[2].clone()).collect();
        for pattern in denylist.chain(agents) {
            if !all.iter().any(|(server, tool)| matches(pattern, server, tool)) {
                found.push(nothing(pattern, "no tool of any server", namespaced.iter().map(String::as_str)));
            }
        }
    }

    fn tests(&self, known: &BTreeMap<&ServerName, &LockedServer>, found: &mut Vec<Diagnostic>) {
        let table = self.names(known, |_| true);
        for test in self.configs().flat_map(|config| config.tests.iter().flatten()) {
            let test = &test.value;
            let found_by = test.expect.as_ref().and_then(|expect| {
                let tool = expect.value.get("tool").and_then(Value::as_str)?;
                Some(Spanned::new(tool.to_owned(), expect.at))
            });
            let searched = test.search.as_ref().and(found_by);
            // A tool that is expected to be hidden may be one that doesn't exist.
            let hidden = test.expect.as_ref().is_some_and(|expect| expect.value == "hidden");
            let called = test.call.clone().filter(|_| !hidden);
            for tool in [called, test.listed.clone(), test.deferred.clone(), searched].into_iter().flatten() {
                if table.owner(&tool.value).is_none() && !OWN_TOOLS.contains(&&*tool.value) {
                    let names = table.iter().map(|(name, ..)| name.as_str());
                    let mut diagnostic =
                        Diagnostic::new(Code::UnknownTool, tool.at, format!("the lock knows no tool `{}`", tool.value));
                    if let Some(close) = closest(&tool.value, names) {
                        diagnostic = diagnostic.meant(close);
                    }
                    found.push(diagnostic.help("tests name tools as agents call them; 'mcplan search' finds them"));
                }
            }
        }
    }

    /// The names under which the locked tools of some servers are exposed now, those that a filter drops too.
    fn names(&self, known: &BTreeMap<&ServerName, &LockedServer>, among: impl Fn(&Server) -> bool) -> NameTable {
        let servers = self.plan.servers.iter().filter(|server| among(server));
        let servers = servers.filter_map(|server| Some((&server.name, *known.get(&server.name)?)));
        let tools = servers.flat_map(|(name, locked)| tool_names(locked).into_iter().map(move |tool| (name, tool)));
        NameTable::build(&self.plan.naming, &self.plan.reserved, tools)
    }

    fn refused(
        &self,
        target: Target,
        table: &NameTable,
        (server, locked): (&Server, &LockedServer),
        at: Span,
        found: &mut Vec<Diagnostic>,
    ) {
        let who = target.name();
        for tool in locked.tools.iter() {
            let Some(exposed) = table.exposed(&server.name, &tool.known.name) else { continue };
            let length = exposed.as_str().chars().count() + self.plan.serve.host_prefix;
            if length > target.name_limit() {
                let limit = target.name_limit();
                found.push(
                    Diagnostic::new(
                        Code::TargetRefuses,
                        at,
                        format!("{who} refuses the name `{exposed}`: {length} characters, the limit is {limit}"),
                    )
                    .help(format!("set `mcp.name_limit: {limit}`, or a shorter `mcp.naming`")),
                );
            }
            let schema = tool.input_schema();
            let parameters = schema.get("properties").and_then(Value::as_object);
            if let Some(name) = parameters.and_then(|all| all.keys().find(|name| !target.takes_parameter(name))) {
                let (shown, length) = (shown(name), name.chars().count());
                found.push(
                    Diagnostic::new(
                        Code::TargetRefuses,
                        at,
                        format!("{who} refuses `{exposed}`: its parameter `{shown}`, of {length} characters, isn't 1 to 64 of `A-Z a-z 0-9 . _ -`"),
                    )
                    .help("exclude the tool, or defer it and have it called through call_mcp_tool"),
                );
            }
            if !target.takes_top_level_unions()
                && let Some(word) = ["anyOf", "oneOf", "allOf"].iter().find(|word| schema.get(**word).is_some())
            {
                found.push(
                    Diagnostic::new(
                        Code::TargetRefuses,
                        at,
                        format!("{who} refuses `{exposed}`: its input schema has `{word}` at the top"),
                    )
                    .help("exclude the tool, or defer it and have it called through call_mcp_tool"),
                );
            }
        }
    }
}

/// From this size on a lock may not fit a ConfigMap.
const LARGE_BYTES: usize = 900 * 1024;
/// How many of the largest servers are named.
const LARGEST_SHOWN: usize = 3;

/// What to say of a lock that is very large.
pub fn too_large(lock: &Lock) -> Option<String> {
    let size = lock.text().len();
    let largest = || {
        let largest = sizes(lock).into_iter().take(LARGEST_SHOWN);
        largest.map(|(size, name)| format!("{name} {} KiB", size / 1024)).collect::<Vec<_>>().join(", ")
    };
    (size > LARGE_BYTES).then(|| {
        format!(
            "the lock has {} KiB, and a Kubernetes ConfigMap holds 1024; the largest servers are {}",
            size / 1024,
            largest()
        )
    })
}

/// Bytes that each server takes in the lock, the largest first.
fn sizes(lock: &Lock) -> Vec<(usize, &ServerName)> {
    let mut sizes: Vec<_> = lock.catalog.iter().map(|(name, server)| (json::text(server).len(), name)).collect();
    sizes.sort_by(|a, b| b.cmp(a));
    sizes
}

fn tool_names(locked: &LockedServer) -> Vec<&str> {
    let whole = locked.tools.iter().map(|tool| tool.known.name.as_str());
    whole.chain(locked.filtered.iter().map(|tool| tool.name.as_str())).collect()
}

fn matches(pattern: &Spanned<String>, server: &ServerName, tool: &str) -> bool {
    let compiled = Pattern::new(&*pattern.value);
    tool_strings(server, tool).iter().any(|text| compiled.matches(text))
}

fn nothing<'a>(pattern: &Spanned<String>, who: &str, names: impl Iterator<Item = &'a str>) -> Diagnostic {
    let diagnostic = Diagnostic::new(Code::MatchesNothing, pattern.at, format!("{who} matches `{}`", pattern.value))
        .help("compare with 'mcplan search'; the server may have renamed the tool");
    match closest(&pattern.value, names) {
        Some(close) => diagnostic.meant(close),
        None => diagnostic,
    }
}

fn large(server: &Server, locked: &LockedServer, at: Span, found: &mut Vec<Diagnostic>) {
    let count = locked.tools.0.len();
    if server.defer || count < MANY_TOOLS {
        return;
    }
    let bytes: usize = locked.tools.iter().map(|tool| tool.raw.get().len()).sum();
    let message =
        format!("`{}` loads {count} tools outright, {} kB in every request", server.name, bytes.div_ceil(1000));
    found.push(
        Diagnostic::new(Code::LargeAndNotDeferred, at, message)
            .help("set `defer: true` and name the few that are always needed in `tools.always`"),
    );
}

fn hidden(server: &Server, locked: &LockedServer, at: Span, found: &mut Vec<Diagnostic>) {
    let LockedServer { introduction, tools, prompts, resource_templates, .. } = locked;
    let places = hidden_places(introduction, tools.iter(), prompts.iter(), resource_templates.iter());
    if !places.is_empty() {
        let message = format!("`{}` has characters that can't be seen in {}", server.name, places.join(", "));
        found.push(
            Diagnostic::new(Code::HiddenCharacters, at, message)
                .help("they can carry instructions that no reviewer sees; the prompt block leaves them out, the tool list does not"),
        );
    }
}
