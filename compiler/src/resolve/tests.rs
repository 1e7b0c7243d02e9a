//! `tests:` → typed expectations. What they expect of a lock is checked elsewhere; here only that each makes sense.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::code::Code;
use crate::config::{self, Config};
use crate::diagnostic::Diagnostic;
use crate::expectation::{Decision, Expectation, What};
use crate::plan::{Agent, LEAD, Naming, Server};
use crate::source::{Span, Spanned};

use super::Resolver;

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
                self.expectation(expect.at, "a `block` test has its limits in `block` and takes no `expect`");
                return None;
            }
            let texts =
                |list: &Option<Vec<Spanned<String>>>| list.iter().flatten().map(|text| text.value.clone()).collect();
            return Some(What::Block {
                max_chars: block.value.max_chars.map(|n| n as usize),
                max_tokens: block.value.max_tokens.map(|n| n.0 as usize),
                contains: texts(&block.value.contains),
                omits: texts(&block.value.omits),
            });
        }
        let Some(expect) = expect else {
            if !self.is_troubled(at) {
                self.expectation(at, "this test doesn't say what to expect: it has no `expect`");
            }
            return None;
        };
        if let Some(query) = &test.search {
            let tool = expect.value.get("tool").and_then(Value::as_str);
            let top = expect.value.get("top").map_or(Some(1), Value::as_u64);
            return match (tool, top.filter(|top| (1..=50).contains(top))) {
                (Some(tool), Some(top)) => {
                    Some(What::Search { query: query.value.clone(), tool: tool.to_owned(), top: top as usize })
                }
                _ => {
                    self.expectation(
                        expect.at,
                        "a `search` test expects `{ tool: NAME, top: N }`, with N from 1 to 50",
                    );
                    None
                }
            };
        }
        if let Some(tool) = &test.call {
            let decision = match expect.value.as_str() {
                Some("allowed") => Decision::Allowed,
                Some("denied") => Decision::Denied,
                Some("hidden") => Decision::Hidden,
                _ => {
                    self.expectation(expect.at, "a `call` test expects `allowed`, `denied` or `hidden`");
                    return None;
                }
            };
            return Some(What::Call { tool: tool.value.clone(), expect: decision });
        }
        let Some(truth) = expect.value.as_bool() else {
            self.expectation(expect.at, "this test expects `true` or `false`");
            return None;
        };
        match (&test.listed, &test.deferred) {
            (Some(tool), _) => Some(What::Listed { tool: tool.value.clone(), expect: truth }),
            (_, Some(tool)) => Some(What::Deferred { tool: tool.value.clone(), expect: truth }),
            _ => None,
        }
    }

    fn expectation(&mut self, at: Span, message: &str) {
        self.report(Diagnostic::new(Code::BadTest, at, message));
    }
}
