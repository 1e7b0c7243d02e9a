//! `policy:` and `agents:` → compiled rules. A rule that can't be read is an error, and nothing starts: never a part of a set.

use std::collections::{BTreeMap, BTreeSet};

use crate::code::Code;
use crate::config::policy::AgentPolicy;
use crate::config::{self, Config, Verdict};
use crate::diagnostic::{Diagnostic, Severity, closest, shown};
use crate::name::ServerName;
use crate::pattern::{Flaw, Pattern};
use crate::plan::{Agent, LEAD, OnDrift, Policy, Rule, RuleError, Server, Verb};
use crate::source::Spanned;

use super::{Resolver, value};

const RULES: &str =
    "rules are `mcp:call:SERVER:TOOL`, `mcp:invoke:SERVER:PROMPT`, `mcp:read:SERVER:URI` and `mcp:list:SERVER`";

impl Resolver<'_> {
    pub(super) fn policy(&mut self, config: &Config, servers: &[Server]) -> Policy {
        let written = config.policy.clone().unwrap_or_default();
        let on_drift = written.on_drift.clone().unwrap_or_default();
        let part = AgentPolicy {
            default: written.default,
            deny: written.deny,
            allow: written.allow,
            read_only: written.read_only,
        };
        let defaults = OnDrift::default();
        Policy {
            on_drift: OnDrift {
                cosmetic: on_drift.cosmetic.unwrap_or(defaults.cosmetic),
                additive: on_drift.additive.unwrap_or(defaults.additive),
                wording: on_drift.wording.unwrap_or(defaults.wording),
                breaking: on_drift.breaking.unwrap_or(defaults.breaking),
                suspicious: on_drift.suspicious.unwrap_or(defaults.suspicious),
            },
            ..self.rules(&part, servers)
        }
    }

    fn rules(&mut self, written: &AgentPolicy, servers: &[Server]) -> Policy {
        let default = value(&written.default).unwrap_or_default();
        let read_only = written.read_only.as_ref().is_some_and(|read_only| read_only.value);
        let deny = self.rule_list(written.deny.as_deref(), servers);
        let allowed = written.allow.as_deref().unwrap_or_default();
        let allow = self.rule_list(Some(allowed), servers);
        self.check_effects(&deny, &allow, default, read_only);
        if let Some(written) = written.default.as_ref().filter(|default| default.value == Verdict::Deny)
            && allowed.is_empty()
            && !servers.is_empty()
        {
            self.report(
                Diagnostic::new(
                    Code::NothingAllowed,
                    written.at,
                    "everything is denied by default, and no rule of `allow` names an exception",
                )
                .help("write what is allowed into `allow`, such as `mcp:call:SERVER:TOOL`, or remove `default: deny`"),
            );
        }
        let bare = |rules: Vec<Spanned<Rule>>| rules.into_iter().map(|rule| rule.value).collect();
        Policy { default, deny: bare(deny), allow: bare(allow), read_only, on_drift: OnDrift::default() }
    }

    fn rule_list(&mut self, written: Option<&[Spanned<String>]>, servers: &[Server]) -> Vec<Spanned<Rule>> {
        let mut rules = Vec::new();
        for text in written.unwrap_or_default() {
            match Rule::parse(&text.value) {
                Ok(rule) => {
                    self.check_rule_server(text, &rule, servers);
                    if rule.verb() == Verb::Read
                        && let Some((start, _)) = text.value.match_indices(':').nth(2)
                    {
                        self.check_uri(text, start + 1);
                    }
                    rules.push(Spanned::new(rule, text.at));
                }
                Err(error) => {
                    let help = match &error {
                        RuleError::Pattern(part, flaw) => flaw.remedy(part),
                        RuleError::Blank if !text.value.trim().is_empty() => {
                            format!("write `{}`", shown(text.value.trim()))
                        }
                        _ => RULES.to_owned(),
                    };
                    let message = match text.value.as_str() {
                        blank if blank.trim().is_empty() => "an empty text is no rule".to_owned(),
                        text => format!("`{}` is no rule: {error}", shown(text)),
                    };
                    self.report(Diagnostic::new(Code::BadRule, text.at, message).help(help));
                }
            }
        }
        rules
    }

    /// A server that isn't there: an error where it is named, a lint where a pattern finds none.
    fn check_rule_server(&mut self, text: &Spanned<String>, rule: &Rule, servers: &[Server]) {
        let pattern = rule.server();
        let names = servers.iter().map(|server| server.name.as_str());
        // One that is declared and couldn't be resolved is there too.
        if names.chain(self.unresolved_names.iter().map(String::as_str)).any(|name| pattern.matches(name)) {
            return;
        }
        if pattern.is_literal() {
            let start = "mcp:".len() + text.value["mcp:".len()..].find(':').map_or(0, |at| at + 1);
            let at = self.inside(text.at, &text.value, start..start + pattern.as_str().len());
            self.unknown_server(&Spanned::new(pattern.as_str().to_owned(), at), servers);
        } else {
            let message = format!("the rule `{}` has no effect: no server matches `{pattern}`", text.value);
            self.report(self.softened(
                Diagnostic::new(Code::RuleWithoutEffect, text.at, message).help("remove it, or mend the pattern"),
            ));
        }
    }

    /// A name that should be a server's and isn't.
    pub(super) fn unknown_server(&mut self, written: &Spanned<String>, servers: &[Server]) {
        if self.unresolved_names.contains(&written.value) {
            // The server is there, and something else is wrong with it, which has been said.
            return;
        }
        let names = servers.iter().map(|server| server.name.as_str());
        let mut said = BTreeSet::new();
        // A name that two servers claim is said once.
        let names = names.chain(self.unresolved_names.iter().map(String::as_str)).filter(|name| said.insert(*name));
        let names: Vec<_> = names.collect();
        let message = format!("there is no server `{}`", shown(&written.value));
        let mut diagnostic = Diagnostic::new(Code::UnknownServer, written.at, message);
        if let Some(close) = closest(&written.value, names.iter().copied()) {
            diagnostic = diagnostic.meant(close);
        }
        let known = if names.is_empty() {
            "no server is declared".to_owned()
        } else {
            format!("the servers are {}", names.join(", "))
        };
        let more = if self.open_world { "; a plugin, or the main file of a fragment, may have it" } else { "" };
        self.report(self.softened(diagnostic.help(known + more)));
    }

    pub(super) fn agents(&mut self, config: &Config, servers: &[Server]) -> BTreeMap<String, Agent> {
        let mut agents = BTreeMap::new();
        for (name, written) in config.agents.iter().flatten() {
            if ServerName::new(&*name.value).is_err() {
                let message = match name.value.as_str() {
                    "" => "an agent has to have a name".to_owned(),
                    name => format!("`{}` can't be the name of an agent", shown(name)),
                };
                self.report(
                    Diagnostic::new(Code::BadAgentName, name.at, message)
                        .help("an agent's name follows the rules of a server's: letters, digits, `.`, `_` and `-`"),
                );
                continue;
            }
            agents.insert(name.value.clone(), self.agent(&name.value, &written.value, servers));
        }
        agents.entry(LEAD.to_owned()).or_insert_with(Agent::unlimited);
        agents
    }

    fn agent(&mut self, name: &str, written: &config::Agent, servers: &[Server]) -> Agent {
        for pattern in written.tools.iter().chain(&written.prompts).flatten() {
            self.check_namespaced(pattern, servers);
        }
        for pattern in written.resources.iter().flatten() {
            self.check_resource_pattern(pattern, servers);
        }
        // Only `lead` sees what it doesn't list.
        let all = name == LEAD;
        let mut list = |patterns_of: &Option<Vec<Spanned<String>>>| match patterns_of {
            None if all => None,
            other => Some(self.patterns(other.as_deref())),
        };
        let (tools, prompts) = (list(&written.tools), list(&written.prompts));
        let resources = match &written.resources {
            None if all => None,
            other => Some(other.iter().flatten().map(|pattern| pattern.value.clone()).collect()),
        };
        Agent {
            tools,
            prompts,
            resources,
            policy: written.policy.as_ref().map(|policy| self.rules(policy, servers)).unwrap_or_default(),
        }
    }

    fn check_resource_pattern(&mut self, written: &Spanned<String>, servers: &[Server]) {
        let parts = written.value.split_once(':').filter(|(server, uri)| !server.is_empty() && !uri.is_empty());
        let Some((server, _)) = parts else {
            let message = format!("`{}` is no pattern of resources", shown(&written.value));
            self.report(
                Diagnostic::new(Code::BadResourcePattern, written.at, message)
                    .help("write `SERVER:URI`, for instance `docs:file:///docs/**`"),
            );
            return;
        };
        let text = &*written.value;
        let flaw = match text.contains("${") {
            true => Some(Flaw::Variable),
            false => (text.trim() != text).then_some(Flaw::Blank),
        };
        if let Some(flaw) = flaw {
            let message = format!("`{}` is no pattern of resources: {flaw}", shown(text));
            self.report(Diagnostic::new(Code::BadResourcePattern, written.at, message).help(flaw.remedy(text)));
            return;
        }
        if server.contains(['*', '?']) || servers.iter().any(|known| known.name.as_str() == server) {
            return self.check_uri(written, server.len() + 1);
        }
        let at = self.inside(written.at, &written.value, 0..server.len());
        self.unknown_server(&Spanned::new(server.to_owned(), at), servers);
    }

    /// A pattern in a namespaced form whose server isn't there.
    pub(super) fn check_namespaced(&mut self, written: &Spanned<String>, servers: &[Server]) {
        let known = || servers.iter().map(|server| server.name.as_str());
        let Some(range) = strange_server(&written.value, known()) else {
            self.check_short_form(written, servers);
            return;
        };
        let server = written.value[range.clone()].to_owned();
        let at = self.inside(written.at, &written.value, range);
        self.unknown_server(&Spanned::new(server, at), servers);
    }
}

impl Resolver<'_> {
    /// A pattern of the form `SERVER__TOOL` whose server isn't there. Some server's tool may be called so itself, so this
    /// is no error, and only a word that is nearly a server's name is taken for a mistake.
    fn check_short_form(&mut self, written: &Spanned<String>, servers: &[Server]) {
        let Some(range) = short_server(&written.value) else { return };
        let server = &written.value[range.clone()];
        let names: Vec<_> = servers.iter().map(|server| server.name.as_str()).collect();
        if names.contains(&server) || self.unresolved_names.contains(server) {
            return;
        }
        let message =
            format!("there is no server `{server}`, so this matches only tools that are called so themselves");
        let at = self.inside(written.at, &written.value, range.clone());
        let mut diagnostic = Diagnostic::new(Code::UnknownServer, at, message);
        diagnostic.severity = Severity::Note;
        if let Some(close) = closest(server, names.iter().copied()) {
            diagnostic = diagnostic.meant(close);
            diagnostic.severity = Severity::Warning;
        }
        self.report(self.softened(diagnostic.help("the forms are `TOOL`, `SERVER__TOOL` and `mcp__SERVER__TOOL`")));
    }
}

/// Where a pattern of the form `SERVER__TOOL` names its server.
fn short_server(pattern: &str) -> Option<std::ops::Range<usize>> {
    if pattern.starts_with("mcp__") || Pattern::flaw(pattern).is_some() {
        return None;
    }
    let literal = &pattern[..pattern.find(['*', '?', '[']).unwrap_or(pattern.len())];
    let (server, _) = literal.split_once("__")?;
    ServerName::new(server).is_ok().then_some(0..server.len())
}

/// Where a pattern of the form `mcp__SERVER__TOOL` names a server that is none of `known`. Nothing is split: each server's
/// own prefix is tried.
pub(super) fn strange_server<'a>(
    pattern: &str,
    mut known: impl Iterator<Item = &'a str>,
) -> Option<std::ops::Range<usize>> {
    let start = "mcp__".len();
    let after = pattern.strip_prefix("mcp__").filter(|_| Pattern::flaw(pattern).is_none())?;
    let end = after.find(['*', '?', '[']).unwrap_or(after.len());
    let literal = &after[..end];
    let fits = |name: &str| {
        let prefix = format!("{name}__");
        literal.starts_with(&prefix) || end < after.len() && prefix.starts_with(literal)
    };
    // Where the separator is plain to see, the part before it was meant as the server.
    (!known.any(fits)).then(|| start..start + literal.split("__").next().unwrap_or(literal).len())
}
