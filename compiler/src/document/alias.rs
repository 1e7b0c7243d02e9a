//! Anchors and aliases: `&name` and `*name`.
//!
//! An alias is a copy, so its inside can be told apart from the anchor's. It is weighed before it is copied: a file that
//! would grow out of all proportion is refused at once and never built.

use granit_parser::Event;

use super::build::{Builder, Step, Stop};
use super::scalar::Inner;
use super::{Kind, MAX_ALIAS_BYTES, MAX_ALIAS_NODES, MAX_DEPTH, Node};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, closest, shown};
use crate::source::Span;

/// A named node, whole once its end was read.
pub(super) struct Anchor {
    at: Span,
    node: Option<(Node, Weight)>,
}

/// What it takes to copy a node: values, bytes of text, levels of nesting.
#[derive(Clone, Copy, Default)]
pub(super) struct Weight {
    nodes: usize,
    bytes: usize,
    depth: usize,
}

impl Weight {
    fn of(node: &Node) -> Self {
        let mut weight = Self { nodes: 1, bytes: node.text().map_or(0, str::len), depth: 0 };
        for item in node.items() {
            weight.add_child(Self::of(item));
        }
        for entry in node.entries() {
            weight.bytes += entry.key.len();
            weight.add_child(Self::of(&entry.value));
        }
        if matches!(node.kind, Kind::List(_) | Kind::Map(_)) {
            weight.depth += 1;
        }
        weight
    }

    fn add_child(&mut self, child: Self) {
        self.nodes += child.nodes;
        self.bytes += child.bytes;
        self.depth = self.depth.max(child.depth);
    }
}

impl Builder<'_> {
    /// Reads the definition that follows the event of an anchored node.
    pub(super) fn define(&mut self, anchor: usize) -> Step<Option<usize>> {
        if anchor == 0 {
            return Ok(None);
        }
        let (event, range, _) = self.next()?;
        if let Event::Anchor(id, name) = event {
            self.names.insert(name.into_owned(), id);
            self.anchors.insert(id, Anchor { at: self.span(range), node: None });
        }
        Ok(Some(anchor))
    }

    pub(super) fn anchored(&mut self, anchor: usize, node: Node) -> Step<Node> {
        let name = self.define(anchor)?;
        if let (Some(anchor), true) = (name, matches!(node.kind, Kind::Null) && node.at.start == node.at.end)
            && let Some(at) = self.anchors.get(&anchor).map(|anchor| anchor.at)
        {
            let written = shown(&self.text[at.range()]);
            self.report(
                Diagnostic::new(
                    Code::MissingValue,
                    at,
                    format!("`{written}` names a value, and there is none after it"),
                )
                .label("no value follows")
                .help(format!("put it in quotes if it is the value: `\"{written}\"`")),
            );
            return Ok(self.finish(name, Node { kind: Kind::Reported, ..node }));
        }
        Ok(self.finish(name, node))
    }

    pub(super) fn finish(&mut self, anchor: Option<usize>, node: Node) -> Node {
        if let Some(anchor) = anchor.and_then(|id| self.anchors.get_mut(&id)) {
            let weight = Weight::of(&node);
            // Not kept where keeping alone would break the budget: a use of it then breaks the budget too.
            let fits = self.spent.nodes + weight.nodes <= MAX_ALIAS_NODES
                && self.spent.bytes + weight.bytes <= MAX_ALIAS_BYTES;
            let kept = if fits { node.clone() } else { Node::new(node.at, Kind::Reported) };
            if fits {
                self.spent.nodes += weight.nodes;
                self.spent.bytes += weight.bytes;
            }
            anchor.node = Some((kept, weight));
        }
        node
    }

    pub(super) fn alias(&mut self, id: usize, at: Span) -> Step<Node> {
        let Some(anchor) = self.anchors.get(&id) else {
            self.unknown_alias(&self.text[at.range()], at);
            return Ok(Node::new(at, Kind::Reported));
        };
        let Some((node, weight)) = &anchor.node else {
            let anchor_at = anchor.at;
            let name = shown(&self.text[at.range()]);
            self.report(
                Diagnostic::new(Code::UnknownAlias, at, format!("the alias `{name}` stands inside what it names"))
                    .related(anchor_at, "named here")
                    .help("a value can't hold itself; write this part out"),
            );
            return Ok(Node::new(at, Kind::Reported));
        };
        let (nodes, bytes) = (self.spent.nodes + weight.nodes, self.spent.bytes + weight.bytes);
        if nodes > MAX_ALIAS_NODES || bytes > MAX_ALIAS_BYTES {
            let problem = Diagnostic::new(Code::AliasBomb, at, "aliases make this file too large to read")
                .label("the limit is reached here")
                .related(anchor.at, "named here")
                .help(format!("aliases may add {MAX_ALIAS_NODES} values or {} MiB of text", MAX_ALIAS_BYTES >> 20));
            self.report(problem);
            return Err(Stop);
        }
        if self.depth + weight.depth > MAX_DEPTH {
            return self.too_deep(at.range());
        }
        let mut node = node.clone();
        arrive(&mut node, at);
        node.at = at;
        node.inner = Inner::Whole;
        self.spent.nodes = nodes;
        self.spent.bytes = bytes;
        Ok(node)
    }

    pub(super) fn unknown_alias(&mut self, name: &str, at: Span) {
        let written = shown(&self.text[at.range()]);
        let diagnostic = match closest(name, self.names.keys().map(String::as_str)) {
            Some(known) => Diagnostic::new(Code::UnknownAlias, at, format!("nothing is named `&{}`", shown(name)))
                .label(format!("did you mean `*{known}`?"))
                .help(format!("put it in quotes if it is a text: `\"{written}\"`")),
            None => Diagnostic::new(
                Code::UnknownAlias,
                at,
                format!(
                    "`{written}` starts with `*`, which is an alias in YAML, and nothing is named `&{}`",
                    shown(name)
                ),
            )
            .label("put this in quotes")
            .help(format!("write `\"{written}\"`")),
        };
        self.report(diagnostic);
    }
}

/// Marks a copied node, and all in it, with the alias that brought it.
fn arrive(node: &mut Node, alias: Span) {
    node.via = Some(alias);
    match &mut node.kind {
        Kind::List(items) => items.iter_mut().for_each(|item| arrive(item, alias)),
        Kind::Map(entries) => entries.iter_mut().for_each(|entry| arrive(&mut entry.value, alias)),
        _ => {}
    }
}
