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

    /// Loads `names`, the best first; the least recently used ones leave. More than the limit: the first ones.
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

    /// Counts a use of `name`, if it is promoted.
    pub fn touch(&mut self, name: &str) {
        if self.is_promoted(name) {
            self.use_now(name);
        }
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
