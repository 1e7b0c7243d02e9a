//! What came of one test, in words.

use mcplan_compiler::diagnostic::one_line;
use mcplan_compiler::expectation::{Decision, Expectation, What};
use mcplan_compiler::plan::{LEAD, OWN_TOOLS};
use serde_json::{Value, json};

use crate::cli::report::CouldNot;
use crate::cli::why::{Place, Why};
use crate::cli::words::Teller;
use crate::core::caller::Caller;
use crate::core::decisions::{About, Conclusion, Decided, Ruling};
use crate::core::expect::{self, Came, Found, Wrong};
use crate::core::prompt::{Mode, Rendered};
use crate::core::snapshot::{Snapshot, Standing};
use crate::core::tokens::ENCODING;

/// What came of one test.
pub(super) struct TestResult {
    /// Where it is written.
    pub place: Place,
    /// As whom.
    pub agent: String,
    /// What should hold, as a sentence.
    pub what: String,
    /// Whether it does.
    pub holds: bool,
    /// What came instead and why, line by line. Of a test that holds: what is odd all the same.
    pub why: Vec<String>,
}

impl TestResult {
    /// What should hold, and for whom where that isn't plain.
    pub(super) fn title(&self) -> String {
        if self.agent == LEAD { self.what.clone() } else { format!("{}: {}", self.agent, self.what) }
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "place": self.place.as_json(),
            "agent": self.agent,
            "test": self.what,
            "passed": self.holds,
            "why": self.why,
        })
    }
}

/// One agent, to whom tests are put.
pub(super) struct Subject<'a> {
    why: &'a Why<'a>,
    caller: Caller,
    seen: Snapshot,
}

/// Fewest and most hits of a search that a failure shows, whatever the test asks for.
const HITS: std::ops::RangeInclusive<usize> = 3..=10;
/// Most names that are shown in place of one that there isn't.
const CLOSE: usize = 3;
/// Lines of a block that a failure shows, and characters of a line.
const BLOCK_LINES: usize = 4;
const LINE_CHARS: usize = 100;
/// Characters before a text that a block shouldn't hold.
const BEFORE: usize = 30;

impl<'a> Subject<'a> {
    /// The agent of that name, in no session.
    pub(super) fn new(why: &'a Why<'a>, agent: &str) -> Self {
        let caller = Caller { agent: agent.to_owned(), ..Caller::lead() };
        Self { seen: why.seen_by(&caller), caller, why }
    }

    /// Runs one test.
    ///
    /// # Errors
    /// When this build can't do what it asks for.
    pub(super) fn result(&self, test: &Expectation) -> Result<TestResult, CouldNot> {
        let checked = expect::check(&self.seen, &test.what).map_err(|error| CouldNot::new(error.to_string()))?;
        let mut why = match (&checked.came, &test.what) {
            (came, What::Call { expect: Decision::Hidden, .. }) if checked.holds => {
                // Likely a typing error, and it would pass for ever.
                let is_nowhere = *came == Came::Tool(Standing::Unknown);
                is_nowhere.then(|| "no server has such a tool".to_owned()).into_iter().collect()
            }
            _ if checked.holds => Vec::new(),
            (Came::Search(hits), What::Search { tool, top, .. }) => self.search(hits, tool, *top),
            (Came::Block { block, wrong }, _) => block_is(block, wrong),
            (_, What::Call { tool, expect }) => vec![self.called(tool, *expect)],
            (_, What::Listed { tool, .. } | What::Deferred { tool, .. }) => vec![self.stands(tool)],
            // Each kind of test gives its own kind of result.
            (Came::Search(_) | Came::Tool(_), _) => Vec::new(),
        };
        if !checked.holds && !self.why.plan().agents.contains_key(&self.caller.agent) {
            why.insert(0, format!("the lock knows no agent `{}`", self.caller.agent));
        }
        Ok(TestResult {
            place: self.why.place(test.at),
            agent: test.agent.clone(),
            what: sentence(&test.what),
            holds: checked.holds,
            why,
        })
    }

    fn decided(&self, tool: &str) -> Option<Decided> {
        let all = self.why.find(tool);
        let decided = all.iter().filter_map(|owned| self.why.decided(owned, &self.caller, &self.seen, |_| None));
        decided.into_iter().find(|decided| decided.exposed == tool && !OWN_TOOLS.contains(&tool))
    }

    fn teller<'b>(&'b self, decided: &'b Decided) -> Teller<'b> {
        Teller { why: self.why, caller: &self.caller, decided }
    }

    /// How a tool stands, and why.
    fn stands(&self, tool: &str) -> String {
        match (self.decided(tool), self.seen.standing(tool)) {
            (Some(decided), _) => {
                let reason = self.teller(&decided).reason();
                match decided.decisive().about {
                    About::Text => format!("what becomes of it isn't known: {reason}"),
                    _ => format!("it is {}: {reason}", decided.conclusion.word()),
                }
            }
            (None, Standing::Unknown) => format!("no server has such a tool{}", self.close(tool)),
            (None, _) => "it is one of mcplan's own tools".to_owned(),
        }
    }

    /// The names that were probably meant, and what became of each.
    fn close(&self, tool: &str) -> String {
        let close = self.why.close(tool, CLOSE);
        let decided = close.iter().filter_map(|owned| self.why.decided(owned, &self.caller, &self.seen, |_| None));
        let named: Vec<_> = decided.map(|close| format!("{} ({})", close.exposed, close.conclusion.word())).collect();
        if named.is_empty() { String::new() } else { format!("; close to it: {}", named.join(", ")) }
    }

    fn called(&self, tool: &str, expect: Decision) -> String {
        let Some(decided) = self.decided(tool) else { return self.stands(tool) };
        if !matches!(decided.conclusion, Conclusion::Listed | Conclusion::Deferred) {
            return self.stands(tool);
        }
        if expect == Decision::Hidden {
            return "it is allowed: no filter, denylist or list of the agent takes it away".to_owned();
        }
        let teller = self.teller(&decided);
        let rulings = decided.decisions.iter().filter_map(|decision| match &decision.about {
            About::Policy(ruling) | About::AgentPolicy(ruling) => Some((ruling, teller.tell(decision))),
            _ => None,
        });
        let because: Vec<_> = rulings
            .filter(|(ruling, _)| **ruling != Ruling::Default)
            .map(|(_, told)| format!("{}{}", told.text, told.bracket()))
            .collect();
        format!(
            "it is allowed: {}",
            if because.is_empty() { "no rule denies it".to_owned() } else { because.join("; ") }
        )
    }

    fn search(&self, hits: &[Found], tool: &str, top: usize) -> Vec<String> {
        let found = hits.iter().position(|hit| hit.name == tool);
        let mut lines = vec![match (found, self.seen.standing(tool)) {
            (Some(at), _) => format!("it is number {} of {}", at + 1, hits.len()),
            (None, Standing::Listed | Standing::Deferred) if hits.is_empty() => "nothing is found".to_owned(),
            (None, Standing::Listed | Standing::Deferred) => {
                format!("it isn't among the {} that are found", hits.len())
            }
            (None, _) => self.stands(tool),
        }];
        let first = top.clamp(*HITS.start(), *HITS.end());
        let shown = hits.iter().enumerate().filter(|(at, _)| *at < first || Some(*at) == found);
        lines.extend(shown.map(|(at, hit)| {
            let named = if hit.exact { "named, " } else { "" };
            format!("{:>3}. {} ({named}score {:.2})", at + 1, hit.name, hit.score)
        }));
        lines
    }
}

/// What should hold.
fn sentence(what: &What) -> String {
    let quoted = |text: &str| format!("\"{}\"", one_line(text, LINE_CHARS));
    let name = |tool: &str| one_line(tool, LINE_CHARS).into_owned();
    match what {
        What::Search { query, tool, top: 1 } => format!("search {} finds {} first", quoted(query), name(tool)),
        What::Search { query, tool, top } => {
            format!("search {} finds {} among the first {top}", quoted(query), name(tool))
        }
        What::Call { tool, expect } => format!("call {} is {}", name(tool), word(*expect)),
        What::Listed { tool, expect } => format!("{} {} listed", name(tool), if *expect { "is" } else { "isn't" }),
        What::Deferred { tool, expect } => format!("{} {} deferred", name(tool), if *expect { "is" } else { "isn't" }),
        What::Block { max_chars, max_tokens, contains, omits } => {
            let chars = max_chars.map(|most| format!("at most {most} characters"));
            let tokens = max_tokens.map(|most| format!("at most {most} tokens"));
            let with = contains.iter().map(|text| format!("with {}", quoted(text)));
            let without = omits.iter().map(|text| format!("without {}", quoted(text)));
            let all: Vec<_> = chars.into_iter().chain(tokens).chain(with).chain(without).collect();
            if all.is_empty() { "block".to_owned() } else { format!("block {}", all.join(", ")) }
        }
    }
}

fn word(decision: Decision) -> &'static str {
    match decision {
        Decision::Allowed => "allowed",
        Decision::Denied => "denied",
        Decision::Hidden => "hidden",
    }
}

/// What is wrong with a block, and what it is like.
fn block_is(block: &Rendered, wrong: &[Wrong]) -> Vec<String> {
    let mut lines: Vec<_> = wrong
        .iter()
        .map(|wrong| match wrong {
            Wrong::Chars(limit) => format!("it has {} characters, {} too many", block.chars, block.chars - limit),
            Wrong::Tokens { limit, are } => format!("it has {are} tokens of {ENCODING}, {} too many", are - limit),
            Wrong::Lacks(text) => format!("it lacks \"{}\"", one_line(text, LINE_CHARS)),
            Wrong::Holds(text) => format!("it has \"{}\": {}", one_line(text, LINE_CHARS), around(&block.text, text)),
        })
        .collect();
    let (shown, all) = (block.included.len(), block.included.len() + block.omitted.len());
    lines.push(match block.mode {
        Mode::Empty => "it is empty, because no tool is deferred".to_owned(),
        Mode::OverBudget => match &block.failure {
            Some(failure) => format!("it is empty, because the template fails: {failure}"),
            None => "it is empty, because not even counts fit the budget".to_owned(),
        },
        Mode::Full => format!("it shows all {all} tools with their descriptions"),
        Mode::Cut(chars) => format!("it shows all {all} tools with descriptions of at most {chars} characters"),
        Mode::Names => format!("it shows the names of all {all} tools"),
        Mode::SomeNames => format!("it shows the names of {shown} of {all} tools"),
        Mode::Counts => format!("it counts {all} tools and names none"),
    });
    let text = block.text.lines();
    lines.extend(text.clone().take(BLOCK_LINES).map(|line| format!("  {}", one_line(line, LINE_CHARS))));
    if text.count() > BLOCK_LINES {
        lines.push("  …".to_owned());
    }
    lines
}

/// A piece of `block` with `text` in it.
fn around(block: &str, text: &str) -> String {
    let Some(at) = block.find(text) else { return String::new() };
    let before = block[..at].char_indices().rev().take_while(|(_, c)| *c != '\n').take(BEFORE);
    let start = before.last().map_or(at, |(start, _)| start);
    let cut = if block[..start].ends_with('\n') || start == 0 { "" } else { "…" };
    let line = block[start..].split_at(at - start + text.len());
    let rest = line.1.lines().next().unwrap_or_default();
    format!("{cut}{}", one_line(&format!("{}{rest}", line.0), LINE_CHARS))
}
