//! What must hold of a locked plan: the entries of `tests:`, typed.

use crate::source::Span;

/// One entry of `tests:`.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// Where it is written.
    pub at: Span,
    /// As which agent.
    pub agent: String,
    /// What must hold.
    pub what: What,
}

/// What must hold.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// A search finds a tool among the first.
    Search {
        /// The query.
        query: String,
        /// The tool's exposed name.
        tool: String,
        /// Among the first how many, 1 to 50.
        top: usize,
    },
    /// The gate decides so.
    Call {
        /// The tool's exposed name.
        tool: String,
        /// How.
        expect: Decision,
    },
    /// The tool is in the list from the start, or isn't.
    Listed {
        /// The tool's exposed name.
        tool: String,
        /// Whether it is.
        expect: bool,
    },
    /// The tool is found by search instead, or isn't.
    Deferred {
        /// The tool's exposed name.
        tool: String,
        /// Whether it is.
        expect: bool,
    },
    /// The prompt block is like this.
    Block {
        /// Characters, at most.
        max_chars: Option<usize>,
        /// Tokens, at most.
        max_tokens: Option<usize>,
        /// Texts that must be in it.
        contains: Vec<String>,
        /// Texts that must not.
        omits: Vec<String>,
    },
}

/// How the gate decides a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It may be made.
    Allowed,
    /// Policy denies it.
    Denied,
    /// A filter, the denylist or the agent's list hides the tool, or there is none.
    Hidden,
}
