//! What one session has been told and what it has loaded: tools sent in a prompt block, tools promoted.
//!
//! Holds names only; the tools themselves are passed in. A render changes nothing until it is confirmed, so a model
//! call that failed loses nothing, and a promotion never touches text that was sent.

use std::collections::{BTreeMap, BTreeSet};

use mcplan_compiler::json::digest;
use serde::{Deserialize, Serialize};

use crate::core::prompt::{Block, Mode, Rendered, ServerLine, Shown, clean, largest, shown_name};

/// How many renders may wait for their confirmation; older ones are forgotten.
const PENDING_MAX: usize = 16;
const REMOVED_OPEN: &str = "<REMOVED_MCP_TOOLS>";
const REMOVED_CLOSE: &str = "</REMOVED_MCP_TOOLS>";

/// What is kept of a session, as it is written to JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActivationState {
    /// Exposed name → digest of the text it was sent with.
    #[serde(default)]
    pub sent: BTreeMap<String, String>,
    /// Exposed names, the least recently used one first.
    #[serde(default)]
    pub promoted: Vec<String>,
}

/// The tools that one session was told of and those that it has loaded.
#[derive(Clone, Debug)]
pub struct Activation {
    state: ActivationState,
    promote_limit: usize,
    pending: BTreeMap<Token, Covered>,
    last: Token,
}

/// Names one render of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Token(pub u64);

/// What a render told.
#[derive(Clone, Debug)]
struct Covered {
    sent: BTreeMap<String, String>,
    removed: Vec<String>,
}

/// The part of the block that a session hasn't seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delta {
    /// The text, and which tools are in it. Empty when there is nothing new.
    pub rendered: Rendered,
    /// Exposed names that the text says are gone.
    pub removed: Vec<String>,
    /// What to confirm once the model has seen the text.
    pub token: Token,
}

/// What a promotion changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promotion {
    /// Names that are loaded now and weren't before.
    pub added: Vec<String>,
    /// Names that had to leave.
    pub evicted: Vec<String>,
}

impl Promotion {
    /// Whether the session's tool list is another one now.
    pub fn changed(&self) -> bool {
        !self.added.is_empty() || !self.evicted.is_empty()
    }
}

impl Activation {
    /// A session that knows nothing yet and may load up to `promote_limit` tools.
    pub fn new(promote_limit: usize) -> Self {
        Self { state: ActivationState::default(), promote_limit, pending: BTreeMap::new(), last: Token(0) }
    }

    /// A session as it was, and the names of `state` that are no longer `known` and were dropped.
    pub fn restore(state: ActivationState, promote_limit: usize, known: impl Fn(&str) -> bool) -> (Self, Vec<String>) {
        let mut activation = Self::new(promote_limit);
        let mut dropped = BTreeSet::new();
        for (name, digest) in state.sent {
            if known(&name) {
                activation.state.sent.insert(name, digest);
            } else {
                dropped.insert(name);
            }
        }
        // The order says who was used last; a name that stands twice counts where it stands last.
        for name in state.promoted {
            if known(&name) {
                activation.use_now(&name);
            } else {
                dropped.insert(name);
            }
        }
        activation.evict();
        (activation, dropped.into_iter().collect())
    }

    /// What is kept of the session. Renders that wait for a confirmation aren't.
    pub fn snapshot(&self) -> &ActivationState {
        &self.state
    }

    /// The block of what is new in `tools`, the session's deferred tools, and what is gone since it was sent: of the
    /// names that were sent those that aren't `offered` any more.
    ///
    /// The whole text keeps the budget of `block`. Gone names that find no room in it are told by a later delta.
    pub fn delta(
        &mut self,
        block: &Block<'_>,
        tools: &[Shown<'_>],
        servers: &[ServerLine<'_>],
        offered: impl Fn(&str) -> bool,
    ) -> Delta {
        let mut new = BTreeMap::new();
        let mut shown = Vec::new();
        for tool in tools.iter().filter(|tool| !self.is_promoted(tool.name)) {
            let digest = text_digest(tool);
            if self.state.sent.get(tool.name) != Some(&digest) {
                new.insert(tool.name.to_owned(), digest);
                shown.push(*tool);
            }
        }
        let gone: Vec<&str> = self.state.sent.keys().map(String::as_str).filter(|name| !offered(name)).collect();
        let (suffix, mut removed) = removed_text(&gone, block, !shown.is_empty());
        let rendered = block.render_with(&shown, servers, &suffix);
        // What was neither shown nor counted is still to be told.
        if rendered.mode == Mode::OverBudget {
            new.clear();
        }
        if !rendered.text.ends_with(&suffix) {
            removed.clear();
        }
        let token = self.remember(Covered { sent: new, removed: removed.clone() });
        Delta { rendered, removed, token }
    }

    fn remember(&mut self, covered: Covered) -> Token {
        self.last = Token(self.last.0 + 1);
        self.pending.insert(self.last, covered);
        while self.pending.len() > PENDING_MAX {
            self.pending.pop_first();
        }
        self.last
    }

    /// Commits what the render of `token` told. `false` when that render isn't known: confirmed already, or too old.
    pub fn confirm(&mut self, token: Token) -> bool {
        let Some(covered) = self.pending.remove(&token) else { return false };
        for name in covered.removed {
            self.state.sent.remove(&name);
        }
        self.state.sent.extend(covered.sent);
        true
    }

    /// Loads `names`, the best first, and counts it as a use of those that are loaded; the least recently used ones
    /// leave. More than the limit: the first ones.
    pub fn promote<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) -> Promotion {
        let names: Vec<&str> = names.into_iter().take(self.promote_limit).collect();
        let mut added = Vec::new();
        // The best one is to leave last.
        for name in names.into_iter().rev() {
            if self.use_now(name) {
                added.push(name.to_owned());
            }
        }
        added.reverse();
        Promotion { added, evicted: self.evict() }
    }

    /// Whether the session has loaded `name`.
    pub fn is_promoted(&self, name: &str) -> bool {
        self.state.promoted.iter().any(|promoted| promoted == name)
    }

    /// The names that the session has loaded, the least recently used one first.
    pub fn promoted(&self) -> &[String] {
        &self.state.promoted
    }

    /// Puts `name` last; whether it is new.
    fn use_now(&mut self, name: &str) -> bool {
        let before = self.state.promoted.len();
        self.state.promoted.retain(|promoted| promoted != name);
        let is_new = self.state.promoted.len() == before;
        self.state.promoted.push(name.to_owned());
        is_new
    }

    fn evict(&mut self) -> Vec<String> {
        let over = self.state.promoted.len().saturating_sub(self.promote_limit);
        self.state.promoted.drain(..over).collect()
    }
}

/// Digest of what a tool is described with, whole: how much of it a block had room for is no change of the tool.
fn text_digest(tool: &Shown<'_>) -> String {
    digest([tool.server, &clean(tool.title.unwrap_or_default()), &clean(tool.description)].join("\n").as_bytes())
}

/// A line that names as many of `gone` as half the budget takes, all of it when nothing else is to be said.
fn removed_text(gone: &[&str], block: &Block<'_>, beside_others: bool) -> (String, Vec<String>) {
    let room = if beside_others { block.limit.half() } else { block.limit };
    let line = |count: usize| {
        let names: Vec<String> = gone[..count].iter().map(|name| shown_name(name)).collect();
        let text = format!("{REMOVED_OPEN}{}{REMOVED_CLOSE}", names.join(", "));
        room.holds(&text).then_some(text)
    };
    let (named, text) = largest(1..=gone.len(), line).unwrap_or_default();
    (text, gone[..named].iter().map(|name| (*name).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use mcplan_compiler::prompt_template::{BUILTIN, Template};
    use proptest::prelude::*;

    use super::*;
    use crate::core::prompt::Limit;

    struct Desk {
        template: Template,
        budget: usize,
        tools: BTreeMap<String, String>,
    }

    impl Desk {
        fn new(tools: &[(&str, &str)]) -> Self {
            let tools = tools.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
            Self { template: Template::parse(BUILTIN).unwrap(), budget: 2000, tools }
        }

        fn block(&self) -> Block<'_> {
            Block {
                template: &self.template,
                limit: Limit::Chars(self.budget),
                max_description_chars: 250,
                min_description_chars: 20,
                search_tool: "search_mcp_tools",
                call_tool: "call_mcp_tool",
            }
        }

        fn shown(&self) -> Vec<Shown<'_>> {
            let shown = |(name, text)| Shown { name, server: "s", title: None, description: text };
            self.tools.iter().map(|(name, text)| (name.as_str(), text.as_str())).map(shown).collect()
        }

        fn delta(&self, session: &mut Activation) -> Delta {
            let servers = [ServerLine { name: "s", description: None }];
            session.delta(&self.block(), &self.shown(), &servers, |name| self.tools.contains_key(name))
        }
    }

    #[test]
    fn only_what_is_new_is_told_and_only_once_it_is_confirmed() {
        let mut desk = Desk::new(&[("a", "Does a"), ("b", "Does b")]);
        let mut session = Activation::new(5);
        let first = desk.delta(&mut session);
        assert_eq!(first.rendered.included, ["a", "b"]);
        assert_eq!(desk.delta(&mut session).rendered, first.rendered, "the model call failed: nothing is lost");
        assert!(session.confirm(first.token));
        assert!(!session.confirm(first.token), "once");
        assert_eq!(desk.delta(&mut session).rendered.text, "");

        desk.tools.insert("b".to_owned(), "Does b better".to_owned());
        desk.tools.insert("c".to_owned(), "Does c".to_owned());
        let second = desk.delta(&mut session);
        assert_eq!(second.rendered.included, ["b", "c"]);
        session.confirm(second.token);
        assert_eq!(desk.delta(&mut session).rendered.text, "");
    }

    #[test]
    fn a_removed_tool_is_named_once_and_new_when_it_returns() {
        let mut desk = Desk::new(&[("a", "Does a"), ("b", "Does b")]);
        let mut session = Activation::new(5);
        let first = desk.delta(&mut session);
        session.confirm(first.token);
        let gone = desk.tools.remove("a").unwrap();
        desk.tools.insert("c".to_owned(), "Does c".to_owned());
        let second = desk.delta(&mut session);
        insta::assert_snapshot!(second.rendered.text, @r#"
        <AVAILABLE_MCP_TOOLS>
        MCP tools that are not loaded yet (1 in all). search_mcp_tools finds them and shows their parameters; call_mcp_tool calls one by its name.
        [s]
        - c: Does c
        </AVAILABLE_MCP_TOOLS>
        <REMOVED_MCP_TOOLS>a</REMOVED_MCP_TOOLS>
        "#);
        assert_eq!(second.removed, ["a"]);
        assert_eq!(desk.delta(&mut session).removed, ["a"], "not confirmed");
        session.confirm(second.token);
        assert_eq!(desk.delta(&mut session).rendered.text, "");
        desk.tools.insert("a".to_owned(), gone);
        assert_eq!(desk.delta(&mut session).rendered.included, ["a"]);
    }

    #[test]
    fn removed_names_without_room_are_told_later() {
        let names: Vec<String> = (0..100).map(|at| format!("mcp__server__tool_{at:02}")).collect();
        let tools: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "text")).collect();
        let mut desk = Desk::new(&tools);
        let mut session = Activation::new(5);
        let first = desk.delta(&mut session);
        session.confirm(first.token);
        desk.tools.clear();
        desk.budget = 1000;
        let mut told = Vec::new();
        for _ in 0..4 {
            let delta = desk.delta(&mut session);
            assert!(delta.rendered.chars <= 1000);
            session.confirm(delta.token);
            told.extend(delta.removed);
        }
        assert_eq!(told, names, "each of them once");
    }

    #[test]
    fn what_had_no_room_at_all_is_not_sent() {
        let mut desk = Desk::new(&[("a", "Does a")]);
        desk.budget = 20;
        let mut session = Activation::new(5);
        let first = desk.delta(&mut session);
        assert_eq!(first.rendered.mode, Mode::OverBudget);
        session.confirm(first.token);
        desk.budget = 2000;
        assert_eq!(desk.delta(&mut session).rendered.included, ["a"]);
    }

    #[test]
    fn what_was_only_counted_is_sent() {
        let mut desk = Desk::new(&[("aaaaaaaaaaaaaaaaaaaaaa", ""), ("bbbbbbbbbbbbbbbbbbbbb", "")]);
        desk.budget = 220;
        let mut session = Activation::new(5);
        let first = desk.delta(&mut session);
        assert_eq!(first.rendered.mode, Mode::Counts);
        session.confirm(first.token);
        desk.budget = 2000;
        assert_eq!(desk.delta(&mut session).rendered.text, "");
    }

    #[test]
    fn promotion_changes_no_block_that_was_sent_and_leaves_later_deltas() {
        let mut desk = Desk::new(&[("a", "Does a"), ("b", "Does b")]);
        let servers = [ServerLine { name: "s", description: None }];
        let mut session = Activation::new(5);
        let whole = desk.block().render(&desk.shown(), &servers);
        let first = desk.delta(&mut session);
        assert_eq!(first.rendered, whole, "the first delta is the whole block");
        session.confirm(first.token);
        assert!(session.promote(["a"]).changed());
        assert_eq!(desk.block().render(&desk.shown(), &servers), whole);
        assert_eq!(desk.delta(&mut session).rendered.text, "");
        desk.tools.insert("a".to_owned(), "Does a otherwise".to_owned());
        desk.tools.insert("c".to_owned(), "Does c".to_owned());
        assert_eq!(desk.delta(&mut session).rendered.included, ["c"]);
    }

    #[test]
    fn the_least_recently_used_leave() {
        let mut session = Activation::new(3);
        assert_eq!(session.promote(["a", "b", "c"]).added, ["a", "b", "c"]);
        assert!(!session.promote(["c"]).changed());
        let change = session.promote(["d", "a"]);
        assert_eq!((change.added, change.evicted), (vec!["d".to_owned()], vec!["b".to_owned()]));
        assert_eq!(session.promoted(), ["c", "a", "d"]);
        assert_eq!(session.promote(["1", "2", "3", "4"]).added, ["1", "2", "3"], "the best ones");
        assert!(!session.promote(["3", "1"]).changed());
        assert!(!Activation::new(0).promote(["a"]).changed());
    }

    #[test]
    fn a_state_comes_back_without_names_that_are_gone() {
        let desk = Desk::new(&[("a", "Does a"), ("b", "Does b")]);
        let mut session = Activation::new(5);
        let first = desk.delta(&mut session);
        session.confirm(first.token);
        session.promote(["b", "a"]);
        let text = serde_json::to_string(session.snapshot()).unwrap();
        let state: ActivationState = serde_json::from_str(&text).unwrap();
        let (mut same, dropped) = Activation::restore(state.clone(), 5, |_| true);
        assert_eq!((same.snapshot(), dropped), (session.snapshot(), Vec::new()));
        assert_eq!(desk.delta(&mut same).rendered.text, "");
        let (less, dropped) = Activation::restore(state, 5, |name| name != "a");
        assert_eq!(dropped, ["a"]);
        assert_eq!(less.promoted(), ["b"]);
        assert_eq!(serde_json::from_str::<ActivationState>("{}").unwrap(), ActivationState::default());
    }

    #[test]
    fn renders_that_nobody_confirms_are_forgotten() {
        let desk = Desk::new(&[("a", "Does a")]);
        let mut session = Activation::new(5);
        let first = desk.delta(&mut session);
        let later: Vec<Delta> = (0..PENDING_MAX).map(|_| desk.delta(&mut session)).collect();
        assert!(!session.confirm(first.token));
        assert!(session.confirm(later[0].token));
    }

    proptest! {
        #[test]
        fn a_session_hears_of_every_change_once_and_within_the_budget(
            steps in proptest::collection::vec(("[a-e]", "[x-z]", any::<bool>(), any::<bool>()), 1..24),
            budget in 150usize..600,
        ) {
            let mut desk = Desk::new(&[]);
            desk.budget = budget;
            let mut session = Activation::new(2);
            // What the model believes: the names it was told of and not told to be gone.
            let mut believed = BTreeMap::<String, String>::new();
            for (name, text, remove, confirm) in steps {
                if remove {
                    desk.tools.remove(&name);
                } else {
                    desk.tools.insert(name, text);
                }
                let delta = desk.delta(&mut session);
                prop_assert!(delta.rendered.text.chars().count() <= budget);
                if confirm {
                    session.confirm(delta.token);
                    for name in &delta.removed {
                        prop_assert!(believed.remove(name).is_some(), "{name} was never told");
                    }
                    if delta.rendered.mode != Mode::OverBudget {
                        for name in delta.rendered.included.iter().chain(&delta.rendered.omitted) {
                            let now = desk.tools[name].clone();
                            prop_assert_ne!(believed.insert(name.clone(), now.clone()), Some(now), "told twice");
                        }
                    }
                }
            }
            for _ in 0..2 {
                let last = desk.delta(&mut session);
                let told = last.rendered.mode != Mode::OverBudget;
                session.confirm(last.token);
                if told {
                    prop_assert_eq!(desk.delta(&mut session).rendered.included.len(), 0);
                }
            }
        }
    }
}
