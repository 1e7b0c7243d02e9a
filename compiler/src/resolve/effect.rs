//! Rules and filters that are well formed and change nothing: each is a lint, since something was meant by it.

use crate::code::Code;
use crate::config::{Mcp, ServerEntry, Verdict};
use crate::diagnostic::{Diagnostic, shown};
use crate::plan::{Connect, Rule, Server, Verb, normalize_uri};
use crate::source::{Span, Spanned};

use super::policy::strange_server;
use super::{Inputs, Resolver};

/// More rules than people write; a list of so many is generated, and comparing them would take too long.
const MANY_RULES: usize = 2000;

impl Resolver<'_> {
    /// What denies or allows nothing that isn't denied or allowed without it.
    pub(super) fn check_effects(
        &mut self,
        deny: &[Spanned<Rule>],
        allow: &[Spanned<Rule>],
        default: Verdict,
        read_only: bool,
    ) {
        // Each is held against each.
        if deny.len() + allow.len() > MANY_RULES {
            return;
        }
        for (index, rule) in deny.iter().enumerate() {
            if let Some(other) = covering(deny, index) {
                let why = format!("`{}` denies that too", shown(other.value.as_str()));
                self.without_effect("deny", rule, Some(other), &why, "remove it");
            }
        }
        for (index, rule) in allow.iter().enumerate() {
            if default == Verdict::Allow && !read_only {
                let help = "remove it; `allow` matters under `default: deny` and `read_only: true`";
                self.without_effect("allow", rule, None, "everything is allowed by default", help);
            } else if default == Verdict::Allow && rule.value.verb() != Verb::Call {
                let why = "`read_only` is about calls alone, and all else is allowed by default";
                self.without_effect("allow", rule, None, why, "remove it");
            } else if let Some(other) = deny.iter().find(|other| other.value.covers(&rule.value)) {
                let why = format!("`{}` denies that, and deny always wins", shown(other.value.as_str()));
                self.without_effect(
                    "allow",
                    rule,
                    Some(other),
                    &why,
                    "remove one of the two, or narrow what is denied",
                );
            } else if let Some(other) = covering(allow, index) {
                let why = format!("`{}` allows that too", shown(other.value.as_str()));
                self.without_effect("allow", rule, Some(other), &why, "remove it");
            }
        }
    }

    /// What is written in an entry and changes nothing of its server.
    pub(super) fn check_settings(&mut self, entry: &ServerEntry, connect: Connect) {
        if let Some(globs) = entry.workspaces.as_ref().filter(|globs| globs.value.is_empty()) {
            let message = "an empty list of workspaces binds the server to none: it is there in every session";
            self.report(
                Diagnostic::new(Code::SettingWithoutEffect, globs.at, message)
                    .help("name the workspaces, remove the key, or park the server with `enabled: false`"),
            );
        }
        if let Some(seconds) = entry.idle_stop_seconds.as_ref().filter(|seconds| seconds.value.0 > 0.0)
            && connect != Connect::Lazy
        {
            self.idle_without_effect(seconds.at, "this server isn't connected lazily");
        }
    }

    pub(super) fn idle_without_effect(&mut self, at: Span, why: &str) {
        let message = format!("`idle_stop_seconds` has no effect: {why}");
        self.report(
            Diagnostic::new(Code::SettingWithoutEffect, at, message)
                .help("write `connect: lazy` beside it, or remove it; a server that is connected at the start stays"),
        );
    }

    fn without_effect(
        &mut self,
        kind: &str,
        rule: &Spanned<Rule>,
        other: Option<&Spanned<Rule>>,
        why: &str,
        help: &str,
    ) {
        let message = format!("the {kind} rule `{}` has no effect: {why}", shown(rule.value.as_str()));
        let mut diagnostic = Diagnostic::new(Code::RuleWithoutEffect, rule.at, message).help(help);
        if let Some(other) = other {
            diagnostic = diagnostic.related(other.at, "this one");
        }
        self.report(diagnostic);
    }

    /// The URI from byte `start` of a rule or pattern. URIs are compared in one form only, so that another one never
    /// matches.
    pub(super) fn check_uri(&mut self, written: &Spanned<String>, start: usize) {
        let uri = &written.value[start..];
        let wild = |text: &str| text.contains(['*', '?']);
        let scheme = uri.split_once(':').map(|(scheme, _)| scheme);
        // Where the scheme is left open nothing can be said of the rest.
        if scheme.map_or(wild(uri), wild) {
            return;
        }
        let normal = normalize_uri(uri);
        if normal.as_deref() == Some(uri) {
            return;
        }
        let (message, help) = match (scheme, normal) {
            (Some(_), Some(normal)) => (
                format!("`{}` matches nothing: URIs are compared in their normal form", shown(uri)),
                format!("write `{}`", shown(&normal)),
            ),
            (Some(_), None) => (
                format!("`{}` matches nothing: no such URI is ever read", shown(uri)),
                "write it without encoded slashes, backslashes and control characters".to_owned(),
            ),
            (None, _) => (
                format!("`{}` matches nothing: a URI begins with a scheme", shown(uri)),
                "write the whole URI, such as `file:///docs/**`".to_owned(),
            ),
        };
        let at = self.inside(written.at, &written.value, start..written.value.len());
        self.report(Diagnostic::new(Code::RuleWithoutEffect, at, message).help(help));
    }

    /// A server's own filter that names a tool of another one.
    pub(super) fn check_filters(&mut self, inputs: &Inputs, mcp: &Mcp, servers: &[Server]) {
        let main = &inputs.main;
        let fragments = || inputs.fragments.iter().map(|fragment| &fragment.config);
        let entries = main.mcp_servers.iter().flatten().chain(mcp.servers.iter().flatten());
        let entries = entries.chain(fragments().flat_map(|config| config.mcp_servers.iter().flatten()));
        let builtins = main.mcp_builtins.iter().flatten();
        let builtins = builtins.chain(fragments().flat_map(|config| config.mcp_builtins.iter().flatten()));
        let filters = entries.filter_map(|entry| Some((entry.value.name.as_ref()?, entry.value.tools.as_ref()?)));
        let filters = filters.chain(builtins.filter_map(|builtin| {
            let overrides = &builtin.value.0;
            Some((overrides.r#as.as_ref().unwrap_or(&overrides.name), overrides.tools.as_ref()?))
        }));
        for (name, tools) in filters {
            for pattern in tools.patterns() {
                self.check_filter(&name.value, pattern, servers);
            }
        }
    }

    fn check_filter(&mut self, own: &str, pattern: &Spanned<String>, servers: &[Server]) {
        let Some(range) = strange_server(&pattern.value, std::iter::once(own)) else { return };
        let known = servers.iter().map(|server| server.name.as_str());
        if strange_server(&pattern.value, known).is_some() {
            self.check_namespaced(pattern, servers);
            return;
        }
        let other = pattern.value[range].to_owned();
        let message = format!(
            "`{}` is about tools of `{}`, and this filter about those of `{own}`",
            shown(&pattern.value),
            shown(&other)
        );
        self.report(
            Diagnostic::new(Code::RuleWithoutEffect, pattern.at, message)
                .help(format!("move it to the entry of `{}`, or remove it", shown(&other))),
        );
    }
}

/// Another rule of the list that says as much; of two that say the same, the first.
fn covering(rules: &[Spanned<Rule>], index: usize) -> Option<&Spanned<Rule>> {
    let rule = &rules[index].value;
    let others = rules.iter().enumerate().filter(|(other, _)| *other != index);
    let mut covering =
        others.filter(|(at, other)| other.value.covers(rule) && (*at < index || !rule.covers(&other.value)));
    covering.next().map(|(_, other)| other)
}
