//! `tests:` → typed expectations. What they expect of a lock is checked elsewhere; here only that each makes sense.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::code::Code;
use crate::config::{self, Config};
use crate::diagnostic::{Diagnostic, closest, shown};
use crate::expectation::{Decision, Expectation, What};
use crate::plan::{Agent, LEAD, Naming, Server};
use crate::source::{Span, Spanned};

use super::Resolver;

const SEARCH_KEYS: [&str; 2] = ["tool", "top"];
const SEARCH_EXPECTS: &str = "write `expect: { tool: NAME, top: N }`, with N from 1 to 50";
const CALL_EXPECTS: &str = "write `expect:` with `allowed`, `denied` or `hidden`";
const TRUTH_EXPECTED: &str = "write `expect: true` or `expect: false`";

impl Resolver<'_> {
    pub(super) fn tests(
        &mut self,
        config: &Config,
        agents: &BTreeMap<String, Agent>,
        servers: &[Server],
        naming: &Naming,
    ) -> Vec<Expectation> {
        let written = config.tests.iter().flatten();
        written.filter_map(|test| self.test(test, agents, servers, naming)).collect()
    }

    fn test(
        &mut self,
        written: &Spanned<config::Test>,
        agents: &BTreeMap<String, Agent>,
        servers: &[Server],
        naming: &Naming,
    ) -> Option<Expectation> {
        let test = &written.value;
        if let Some(agent) = &test.agent {
            self.known_agent(agent, agents);
        }
        let subjects = [
            ("search", test.search.is_some()),
            ("call", test.call.is_some()),
            ("listed", test.listed.is_some()),
            ("deferred", test.deferred.is_some()),
            ("block", test.block.is_some()),
        ];
        let named: Vec<_> = subjects.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        if named.len() != 1 {
            if !(named.is_empty() && self.is_troubled(written.at)) {
                let found = if named.is_empty() { "nothing".to_owned() } else { named.join(" and ") };
                self.report(
                    Diagnostic::new(
                        Code::BadTest,
                        written.at,
                        format!("a test looks at exactly one thing, this one at {found}"),
                    )
                    .help("write one of `search`, `call`, `listed`, `deferred` and `block`"),
                );
            }
            return None;
        }
        for text in [&test.search, &test.call, &test.listed, &test.deferred].into_iter().flatten() {
            if text.value.trim().is_empty() {
                self.expectation(text.at, "this test looks at nothing", "write a query, or the exposed name of a tool");
                return None;
            }
        }
        for tool in [&test.call, &test.listed, &test.deferred].into_iter().flatten() {
            if !servers.iter().any(|server| naming.may_be_of(&tool.value, &server.name)) {
                self.check_namespaced(tool, servers);
            }
        }
        let what = self.what(test, written.at)?;
        let agent = test.agent.as_ref().map_or(LEAD, |agent| &agent.value).to_owned();
        Some(Expectation { at: written.at, agent, what })
    }

    fn what(&mut self, test: &config::Test, at: Span) -> Option<What> {
        let expect = test.expect.as_ref();
        if let Some(block) = &test.block {
            if let Some(expect) = expect {
                let message = "a `block` test takes no `expect`";
                self.expectation(expect.at, message, "remove it; what must hold stands in `block` itself");
                return None;
            }
            let limits = &block.value;
            let says_something = limits.max_chars.is_some()
                || limits.max_tokens.is_some()
                || [&limits.contains, &limits.omits].into_iter().flatten().any(|texts| !texts.is_empty());
            if !says_something && !self.is_troubled(block.at) {
                let help = "write one or more of `max_chars`, `max_tokens`, `contains` and `omits`";
                self.expectation(block.at, "this `block` test holds of every block", help);
            }
            let texts =
                |list: &Option<Vec<Spanned<String>>>| list.iter().flatten().map(|text| text.value.clone()).collect();
            return Some(What::Block {
                max_chars: block.value.max_chars.map(|n| n as usize),
                max_tokens: block.value.max_tokens.map(|n| n as usize),
                contains: texts(&block.value.contains),
                omits: texts(&block.value.omits),
            });
        }
        let Some(expect) = expect else {
            if !self.is_troubled(at) {
                let help = match (&test.search, &test.call) {
                    (Some(_), _) => SEARCH_EXPECTS,
                    (_, Some(_)) => CALL_EXPECTS,
                    _ => TRUTH_EXPECTED,
                };
                self.expectation(at, "this test doesn't say what to expect: it has no `expect`", help);
            }
            return None;
        };
        if let Some(query) = &test.search {
            return self.search_expected(query, expect);
        }
        if let Some(tool) = &test.call {
            let decision = match expect.value.as_str() {
                Some("allowed") => Decision::Allowed,
                Some("denied") => Decision::Denied,
                Some("hidden") => Decision::Hidden,
                _ => {
                    self.expectation(expect.at, "a `call` test expects another word", CALL_EXPECTS);
                    return None;
                }
            };
            return Some(What::Call { tool: tool.value.clone(), expect: decision });
        }
        let Some(truth) = expect.value.as_bool() else {
            self.expectation(expect.at, "this test expects a yes or a no", TRUTH_EXPECTED);
            return None;
        };
        match (&test.listed, &test.deferred) {
            (Some(tool), _) => Some(What::Listed { tool: tool.value.clone(), expect: truth }),
            (_, Some(tool)) => Some(What::Deferred { tool: tool.value.clone(), expect: truth }),
            _ => None,
        }
    }

    fn search_expected(&mut self, query: &Spanned<String>, expect: &Spanned<Value>) -> Option<What> {
        let wrong = "a `search` test expects a tool among the first so many";
        let other = expect.value.as_object().and_then(|map| map.keys().find(|key| !is_search_key(key)));
        if let Some(other) = other {
            let message = format!("unknown key `{}` in what a `search` test expects", shown(other));
            let mut diagnostic = Diagnostic::new(Code::UnknownKey, expect.at, message);
            if let Some(close) = closest(other, SEARCH_KEYS) {
                diagnostic = diagnostic.meant(close);
            }
            self.report(diagnostic.help(SEARCH_EXPECTS));
            return None;
        }
        let tool = expect.value.get("tool").and_then(Value::as_str);
        let top = expect.value.get("top").map_or(Some(1), Value::as_u64);
        match (tool, top.filter(|top| (1..=50).contains(top))) {
            (Some(tool), Some(top)) if !tool.is_empty() => {
                Some(What::Search { query: query.value.clone(), tool: tool.to_owned(), top: top as usize })
            }
            _ => {
                self.expectation(expect.at, wrong, SEARCH_EXPECTS);
                None
            }
        }
    }

    fn expectation(&mut self, at: Span, message: &str, help: &str) {
        self.report(Diagnostic::new(Code::BadTest, at, message).help(help));
    }
}

/// A key that is read, or one that is the user's own.
fn is_search_key(key: &str) -> bool {
    SEARCH_KEYS.contains(&key) || key.starts_with("x-")
}
