//! The `<AVAILABLE_MCP_TOOLS>` block: as much about the deferred tools as the budget allows, and never more.
//!
//! Levels of detail are tried from the top: full descriptions, descriptions cut to one shared length, names only, some
//! of the names, counts. Whatever is returned was itself measured against the budget, so it holds for any template. The
//! same tools give the same bytes, in whatever order they come.

mod limit;
mod text;
mod values;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use mcplan_compiler::prompt_template::{RenderError, Template, TemplateError};
use minijinja::{Value, context};
use serde::Serialize;

pub use limit::Limit;
pub use text::clean;
pub(super) use text::name as shown_name;
use values::{Length, Tool, Tools};

/// How a block is made: everything but the tools.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// What renders it.
    pub template: &'a Template,
    /// The most it may cost.
    pub limit: Limit<'a>,
    /// Longest description when descriptions are cut, in characters.
    pub max_description_chars: usize,
    /// Shortest description worth showing, in characters.
    pub min_description_chars: usize,
    /// The exposed name of the tool that searches.
    pub search_tool: &'a str,
    /// The exposed name of the tool that calls.
    pub call_tool: &'a str,
}

/// A deferred tool, as the server and the plan name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown<'a> {
    /// The exposed name.
    pub name: &'a str,
    /// The server that owns it.
    pub server: &'a str,
    /// The name for people.
    pub title: Option<&'a str>,
    /// What the server says of it; untrusted.
    pub description: &'a str,
}

/// A server that may have deferred tools. Their order is the order of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLine<'a> {
    /// Its name in the plan.
    pub name: &'a str,
    /// What it is for.
    pub description: Option<&'a str>,
}

/// The level of detail that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// There is nothing to show: no deferred tool.
    Empty,
    /// Every description in full.
    Full,
    /// Descriptions cut to this many characters.
    Cut(usize),
    /// Names without descriptions.
    Names,
    /// Some of the names.
    SomeNames,
    /// How many tools each server has.
    Counts,
    /// Not even counts fit, so there is no text (`block-over-budget`).
    OverBudget,
}

/// A finished block and what is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered {
    /// The text; empty when there is nothing to show or no room.
    pub text: String,
    /// The level of detail.
    pub mode: Mode,
    /// Exposed names that are shown, in the order of the block.
    pub included: Vec<String>,
    /// Those of `included` that are shown with less than their whole description.
    pub truncated: Vec<String>,
    /// Exposed names that are only counted.
    pub omitted: Vec<String>,
    /// Unicode scalar values of `text`.
    pub chars: usize,
    /// Why the template gave nothing, when it failed rather than being too long.
    pub failure: Option<TemplateError>,
}

impl Block<'_> {
    /// Renders what is deferred. Without a tool the text is empty.
    pub fn render(&self, tools: &[Shown<'_>], servers: &[ServerLine<'_>]) -> Rendered {
        self.render_with(tools, servers, "")
    }

    /// The same with `suffix` on lines of its own behind it, inside the budget. Where nothing of the block fits beside
    /// it the suffix stands alone, and where that doesn't fit either the text is empty.
    pub(super) fn render_with(&self, tools: &[Shown<'_>], servers: &[ServerLine<'_>], suffix: &str) -> Rendered {
        let layout = Layout::new(tools, servers);
        let mut attempts = Attempts { block: self, layout: &layout, suffix, failure: None };
        if tools.is_empty() {
            let text = if self.limit.holds(suffix) { suffix.to_owned() } else { String::new() };
            return layout.rendered(text, Mode::Empty, &Detail::COUNTS, None);
        }
        if let Some((text, mode, detail)) = attempts.best() {
            return layout.rendered(text, mode, &detail, None);
        }
        let failure = attempts.failure;
        let text = if self.limit.holds(suffix) { suffix.to_owned() } else { String::new() };
        layout.rendered(text, Mode::OverBudget, &Detail::COUNTS, failure)
    }
}

/// The tools of a block in its order, ready to be shown.
struct Layout {
    /// In order: servers as they were given, within a server by name.
    tools: Arc<Vec<Tool>>,
    /// Exposed names as they came, in the same order.
    names: Vec<String>,
    servers: Vec<Server>,
    /// Indexes of `tools` in the order in which names get their place: each server in turn gives its next.
    turns: Vec<usize>,
}

struct Server {
    name: Arc<str>,
    description: String,
    /// How many tools it has; they are neighbours in the layout.
    count: usize,
}

impl Layout {
    fn new(tools: &[Shown<'_>], servers: &[ServerLine<'_>]) -> Self {
        let order: BTreeMap<&str, usize> =
            servers.iter().enumerate().rev().map(|(index, server)| (server.name, index)).collect();
        let mut sorted: Vec<&Shown<'_>> = tools.iter().collect();
        // A server that isn't among `servers` comes last, by name.
        let place = |tool: &Shown<'_>| order.get(tool.server).copied().unwrap_or(usize::MAX);
        sorted.sort_by(|a, b| (place(a), a.server, a.name).cmp(&(place(b), b.server, b.name)));
        let mut layout = Self { tools: Arc::default(), names: Vec::new(), servers: Vec::new(), turns: Vec::new() };
        let mut turns = Vec::with_capacity(sorted.len());
        let mut prepared = Vec::with_capacity(sorted.len());
        for (index, group) in sorted.chunk_by(|a, b| a.server == b.server).enumerate() {
            let server: Arc<str> = shown_name(group[0].server).into();
            for (turn, tool) in group.iter().enumerate() {
                turns.push((turn, index, prepared.len()));
                layout.names.push(tool.name.to_owned());
                prepared.push(Tool {
                    name: shown_name(tool.name).into(),
                    server: server.clone(),
                    title: clean(tool.title.unwrap_or_default()),
                    description: clean(tool.description),
                });
            }
            let described = order.get(group[0].server).and_then(|at| servers[*at].description);
            layout.servers.push(Server {
                name: server,
                description: clean(described.unwrap_or_default()),
                count: group.len(),
            });
        }
        turns.sort_unstable();
        layout.turns = turns.into_iter().map(|(_, _, index)| index).collect();
        layout.tools = Arc::new(prepared);
        layout
    }

    /// Indexes of the first `count` tools by turns, in the order of the block.
    fn first(&self, count: usize) -> Vec<usize> {
        let mut shown = self.turns[..count.min(self.turns.len())].to_vec();
        shown.sort_unstable();
        shown
    }

    /// How long the descriptions of servers may be so that together they take no more than `chars`.
    fn server_length(&self, chars: usize, lengths: RangeInclusive<usize>) -> Length {
        let sizes: Vec<usize> = self.servers.iter().map(|server| server.description.chars().count()).collect();
        largest(lengths, |length| (sizes.iter().map(|size| *size.min(&length)).sum::<usize>() <= chars).then_some(()))
            .map_or(Length::Nothing, |(length, ())| Length::Cut(length))
    }

    fn rendered(&self, text: String, mode: Mode, detail: &Detail, failure: Option<TemplateError>) -> Rendered {
        let shown = self.first(detail.count);
        let names = |indexes: &mut dyn Iterator<Item = usize>| indexes.map(|at| self.names[at].clone()).collect();
        // The title is what stands for a description that is missing.
        let is_short = |at: &usize| {
            let tool = &self.tools[*at];
            detail.tools.shortens(if tool.description.is_empty() { &tool.title } else { &tool.description })
        };
        Rendered {
            chars: text.chars().count(),
            text,
            mode,
            included: names(&mut shown.iter().copied()),
            truncated: names(&mut shown.iter().copied().filter(is_short)),
            omitted: names(&mut (0..self.names.len()).filter(|at| shown.binary_search(at).is_err())),
            failure,
        }
    }
}

/// What one attempt shows.
#[derive(Clone, Copy, Debug)]
struct Detail {
    /// Of each tool.
    tools: Length,
    /// Of each server.
    servers: Length,
    /// How many tools.
    count: usize,
}

impl Detail {
    const COUNTS: Self = Self { tools: Length::Nothing, servers: Length::Nothing, count: 0 };
}

/// Renders one level after the other until one fits.
struct Attempts<'a> {
    block: &'a Block<'a>,
    layout: &'a Layout,
    suffix: &'a str,
    failure: Option<TemplateError>,
}

impl Attempts<'_> {
    /// The most detailed text that fits.
    fn best(&mut self) -> Option<(String, Mode, Detail)> {
        let count = self.layout.tools.len();
        let full = Detail { tools: Length::Full, servers: Length::Full, count };
        if let Some(text) = self.attempt(full) {
            return Some((text, Mode::Full, full));
        }
        let lengths = self.block.min_description_chars..=self.block.max_description_chars;
        let cut = |length| Detail { tools: Length::Cut(length), servers: Length::Cut(length), count };
        if let Some((length, text)) = largest(lengths.clone(), |length| self.attempt(cut(length))) {
            return Some((text, Mode::Cut(length), cut(length)));
        }
        // Below this level what the servers are for may take a quarter of the block, and goes where it is in the way.
        let described = self.layout.server_length(self.block.limit.about_chars() / 4, lengths);
        let names = |servers| Detail { tools: Length::Nothing, servers, count };
        self.level(&[names(described), names(Length::Nothing)], Mode::Names)
            .or_else(|| self.some_names(described))
            .or_else(|| self.some_names(Length::Nothing))
            .or_else(|| self.level(&[Detail { servers: described, ..Detail::COUNTS }, Detail::COUNTS], Mode::Counts))
    }

    fn level(&mut self, details: &[Detail], mode: Mode) -> Option<(String, Mode, Detail)> {
        details.iter().find_map(|detail| self.attempt(*detail).map(|text| (text, mode, *detail)))
    }

    fn some_names(&mut self, servers: Length) -> Option<(String, Mode, Detail)> {
        let detail = |count| Detail { tools: Length::Nothing, servers, count };
        let all = self.layout.tools.len();
        let (mut count, mut text) = largest(1..=all - 1, |count| self.attempt(detail(count)))?;
        // A server whose last name finds its place loses its line about more, so one name more can take less room.
        for more in count + 1..all.min(count + 1 + NEARBY) {
            if let Some(longer) = self.attempt(detail(more)) {
                (count, text) = (more, longer);
            }
        }
        Some((text, Mode::SomeNames, detail(count)))
    }

    /// The text with that much detail, if it is within the budget.
    fn attempt(&mut self, detail: Detail) -> Option<String> {
        let block = self.block;
        match block.template.render(self.values(detail), block.limit.room()) {
            Ok(mut text) => {
                if !self.suffix.is_empty() {
                    if !text.is_empty() && !text.ends_with('\n') {
                        text.push('\n');
                    }
                    text.push_str(self.suffix);
                }
                block.limit.holds(&text).then_some(text)
            }
            Err(RenderError::TooLong) => None,
            Err(RenderError::Failed(error)) => {
                self.failure.get_or_insert(error);
                None
            }
        }
    }

    fn values(&self, detail: Detail) -> Value {
        let layout = self.layout;
        let shown = layout.first(detail.count);
        let (mut servers, mut omitted) = (Vec::new(), Vec::new());
        let mut start = 0;
        for server in &layout.servers {
            let end = start + server.count;
            let count = shown.partition_point(|at| *at < end) - shown.partition_point(|at| *at < start);
            start = end;
            servers.push(context! {
                name => server.name.clone(),
                description => detail.servers.of(&server.description),
                tool_count => server.count,
                shown => count,
            });
            if count < server.count {
                omitted.push(context! { server => server.name.clone(), count => server.count - count });
            }
        }
        context! {
            tools => Value::from_object(Tools { all: layout.tools.clone(), shown, length: detail.tools }),
            servers,
            omitted,
            total => layout.tools.len(),
            budget => self.block.limit.amount(),
            search_tool => self.block.search_tool,
            call_tool => self.block.call_tool,
        }
    }
}

/// How many further names are tried one by one behind the number that was found by halving.
const NEARBY: usize = 8;

/// The largest number of `range` that `attempt` takes, with what it gave. Exact where taking one number means taking
/// every smaller one; elsewhere it is a number that was taken all the same.
pub(super) fn largest<T>(
    range: RangeInclusive<usize>,
    mut attempt: impl FnMut(usize) -> Option<T>,
) -> Option<(usize, T)> {
    let (mut low, mut high) = range.into_inner();
    let mut best = None;
    while low <= high {
        let middle = low + (high - low) / 2;
        match attempt(middle) {
            Some(taken) => {
                best = Some((middle, taken));
                low = middle + 1;
            }
            None if middle == 0 => break,
            None => high = middle - 1,
        }
    }
    best
}

#[cfg(test)]
mod tests;
