//! What a test expects × what an agent sees → whether it holds, and what came instead.
//!
//! Decides nothing of its own: search, list, gate and block are asked as an agent's session asks them.

use mcplan_compiler::expectation::{Decision, What};

use super::catalog::{CatalogTool, Hidden};
use super::prompt::Rendered;
use super::search::{Hit, LIMIT};
use super::snapshot::{Snapshot, Standing};
use super::tokens::{self, NoTokens};

/// What came of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Whether what was expected came.
    pub holds: bool,
    /// What came.
    pub came: Came,
}

/// What came.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    /// Of a search: what it found, best first, as far as anyone may ask for it.
    Search(Vec<Found>),
    /// Of a question about one tool: how it stands.
    Tool(Standing),
    /// Of one about the block: the block, and what is wrong with it.
    Block {
        /// The block.
        block: Rendered,
        /// Everything that isn't as expected.
        wrong: Vec<Wrong>,
    },
}

/// A tool that a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Its exposed name.
    pub name: String,
    /// Whether the query names it.
    pub exact: bool,
    /// How well the rest of the query fits; comparable within one search only.
    pub score: f32,
}

/// What isn't as expected of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// More characters than this.
    Chars(usize),
    /// More tokens than this.
    Tokens {
        /// The most there may be.
        limit: usize,
        /// How many there are.
        are: usize,
    },
    /// This text isn't in it.
    Lacks(String),
    /// This text is in it.
    Holds(String),
}

/// Whether `what` holds of what an agent sees; `seen` is narrowed to it.
///
/// # Errors
/// When tokens are to be counted and this build can't.
pub fn check(seen: &Snapshot, what: &What) -> Result<Checked, NoTokens> {
    Ok(match what {
        What::Search { query, tool, top } => {
            // Further down than a test may ask for, so that it can be told where the tool stands.
            let hits = seen.catalog.search(std::slice::from_ref(query), None, *LIMIT.end());
            let found = |(tool, hit): (&CatalogTool, Hit)| Found {
                name: tool.exposed.to_string(),
                exact: hit.exact,
                score: hit.score,
            };
            let hits: Vec<_> = hits.into_iter().map(found).collect();
            Checked { holds: hits.iter().take(*top).any(|hit| hit.name == *tool), came: Came::Search(hits) }
        }
        What::Call { tool, expect } => tool_stands(seen, tool, |standing| decision(standing) == *expect),
        What::Listed { tool, expect } => tool_stands(seen, tool, |standing| (*standing == Standing::Listed) == *expect),
        What::Deferred { tool, expect } => {
            tool_stands(seen, tool, |standing| (*standing == Standing::Deferred) == *expect)
        }
        What::Block { max_chars, max_tokens, contains, omits } => {
            let block = seen.block();
            let mut wrong = Vec::new();
            wrong.extend(max_chars.filter(|limit| block.chars > *limit).map(Wrong::Chars));
            if let Some(limit) = *max_tokens {
                let are = tokens::counter()?.count(&block.text);
                wrong.extend((are > limit).then_some(Wrong::Tokens { limit, are }));
            }
            let holds = |text: &&String| block.text.contains(text.as_str());
            wrong.extend(contains.iter().filter(|text| !holds(text)).cloned().map(Wrong::Lacks));
            wrong.extend(omits.iter().filter(holds).cloned().map(Wrong::Holds));
            Checked { holds: wrong.is_empty(), came: Came::Block { block, wrong } }
        }
    })
}

fn tool_stands(seen: &Snapshot, tool: &str, holds: impl Fn(&Standing) -> bool) -> Checked {
    let standing = seen.standing(tool);
    // Hidden only until its server is locked again, which proves nothing.
    let is_known = !matches!(standing, Standing::Hidden(_, Hidden::NoText));
    Checked { holds: is_known && holds(&standing), came: Came::Tool(standing) }
}

/// How the gate decides a call of a tool that stands like this.
pub fn decision(standing: &Standing) -> Decision {
    match standing {
        Standing::Listed | Standing::Deferred => Decision::Allowed,
        Standing::Hidden(_, why) if why.is_denial() => Decision::Denied,
        Standing::Hidden(..) | Standing::Unknown => Decision::Hidden,
    }
}
