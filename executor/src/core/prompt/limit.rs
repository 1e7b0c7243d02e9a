//! The most a block may cost, with the means to measure it.

use mcplan_compiler::plan::Budget;
use mcplan_compiler::prompt_template::Room;

use crate::core::tokens::{CountTokens, NoTokens, TOKEN_MAX_BYTES, counter};

/// A budget that can be held against a text.
#[derive(Clone, Copy)]
pub enum Limit<'a> {
    /// Unicode scalar values.
    Chars(usize),
    /// Tokens, as counted by this.
    Tokens(usize, &'a dyn CountTokens),
}

impl Limit<'static> {
    /// The limit that the plan sets. A budget in tokens loads the vocabulary: call it where blocking is allowed.
    ///
    /// # Errors
    /// When the budget is in tokens and this build can't count them.
    pub fn of(budget: Budget) -> Result<Self, NoTokens> {
        match budget {
            Budget::Chars(chars) => Ok(Self::Chars(chars)),
            Budget::Tokens(tokens) => counter().map(|counter| Self::Tokens(tokens, counter)),
        }
    }
}

impl<'a> Limit<'a> {
    /// Half of it, in the same unit.
    pub(in crate::core) fn half(&self) -> Limit<'a> {
        match *self {
            Self::Chars(amount) => Limit::Chars(amount / 2),
            Self::Tokens(amount, counter) => Limit::Tokens(amount / 2, counter),
        }
    }

    /// The number, in its own unit.
    pub fn amount(&self) -> usize {
        match *self {
            Self::Chars(amount) | Self::Tokens(amount, _) => amount,
        }
    }

    /// Whether `text` is within it.
    pub fn holds(&self, text: &str) -> bool {
        // Neither a character nor a token is less than a byte, so a short text needs no count.
        text.len() <= self.amount()
            || match *self {
                Self::Chars(amount) => text.chars().count() <= amount,
                Self::Tokens(amount, counter) => {
                    text.len() <= amount.saturating_mul(TOKEN_MAX_BYTES) && counter.count(text) <= amount
                }
            }
    }

    /// How far a rendering is worth following: what goes beyond can't be within the limit.
    pub(super) fn room(&self) -> Room {
        match *self {
            Self::Chars(amount) => Room::Chars(amount),
            Self::Tokens(amount, _) => Room::Bytes(amount.saturating_mul(TOKEN_MAX_BYTES)),
        }
    }

    /// About how many characters it is worth.
    pub(super) fn about_chars(&self) -> usize {
        match *self {
            Self::Chars(amount) => amount,
            Self::Tokens(amount, _) => amount.saturating_mul(4),
        }
    }
}

impl std::fmt::Debug for Limit<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Chars(amount) => write!(f, "{amount} characters"),
            Self::Tokens(amount, _) => write!(f, "{amount} tokens"),
        }
    }
}
