//! Parser events → [`Document`]: anchors, aliases, merge keys, tags, duplicate keys.
//!
//! Time and memory are bounded by the size of the file and by two budgets: nesting, and what aliases may add. An alias
//! is weighed before it is copied, so a bomb costs nothing.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, StrInput, StructureStyle, Tag, options};

use super::alias::{Anchor, Weight};
use super::entries::Entries;
use super::look_alike::{Strange, glued, joined_lines, no_space};
use super::scalar::{self, Inner};
use super::tag::is_plain_tag;
use super::{Document, Entry, Kind, MAX_DEPTH, Node, syntax};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, shown};
use crate::source::{SourceId, Span};

/// Reading on would be meaningless; the reason is among the diagnostics.
pub(super) struct Stop;

pub(super) type Step<T> = Result<T, Stop>;

pub(super) fn build(id: SourceId, text: &str) -> (Option<Document>, Vec<Diagnostic>) {
    // Our own limit on nesting comes first, so that there is one wording; the parser's only guard its own memory.
    let options = options! {
        emit_comments: false,
        emit_anchor_events: true,
        emit_unresolved_aliases: true,
        flow_nesting_limit: MAX_DEPTH + 2,
        block_nesting_limit: MAX_DEPTH + 2,
    };
    let parser = Parser::new_from_str_with_options(text, options);
    let mut builder = Builder {
        id,
        text,
        parser,
        anchors: HashMap::new(),
        names: BTreeMap::new(),
        spent: Weight::default(),
        context: syntax::Context::default(),
        depth: 0,
        diagnostics: Vec::new(),
    };
    let document = builder.document().ok().flatten();
    (document, builder.diagnostics)
}

pub(super) struct Builder<'s> {
    pub(super) id: SourceId,
    pub(super) text: &'s str,
    parser: Parser<'s, StrInput<'s>>,
    pub(super) anchors: HashMap<usize, Anchor>,
    /// Names seen so far, for "did you mean".
    pub(super) names: BTreeMap<String, usize>,
    /// What anchors and aliases have copied.
    pub(super) spent: Weight,
    context: syntax::Context,
    pub(super) depth: usize,
    diagnostics: Vec<Diagnostic>,
}

/// Where a collection ends: with its last entry, or with its closing bracket.
struct Ends {
    last: usize,
    closed: usize,
}

impl<'s> Builder<'s> {
    pub(super) fn span(&self, range: Range<usize>) -> Span {
        Span::new(self.id, range)
    }

    pub(super) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// The next event and the bytes it covers.
    pub(super) fn next(&mut self) -> Step<(Event<'s>, Range<usize>, Option<usize>)> {
        match self.parser.next() {
            Some(Ok((event, span))) => {
                let range = span.byte_range().unwrap_or(self.text.len()..self.text.len());
                let tag = span.tag_start().and_then(|mark| mark.byte_offset());
                Ok((event, range, tag))
            }
            Some(Err(error)) => {
                let problem = syntax::reword(&error, self.text, self.id, &self.context);
                // The parser may stumble over what was told already.
                if self.diagnostics.iter().all(|told| told.primary.at != problem.primary.at) {
                    self.report(problem);
                }
                Err(Stop)
            }
            None => Ok((Event::StreamEnd, self.text.len()..self.text.len(), None)),
        }
    }

    fn document(&mut self) -> Step<Option<Document>> {
        loop {
            match self.next()? {
                (Event::StreamStart, ..) => {}
                (Event::DocumentStart(..), ..) => break,
                _ => return Ok(self.empty()),
            }
        }
        let (event, range, tag) = self.next()?;
        let root = self.node(event, range, tag)?;
        // The rest of a first document is its end; what follows is only looked at to say that it is too much.
        let several = loop {
            match self.next()? {
                (Event::DocumentStart(..), range, _) => {
                    self.second_document(range);
                    break true;
                }
                (Event::StreamEnd, ..) => break false,
                _ => {}
            }
        };
        if matches!(root.kind, Kind::Null) {
            // With a second document "the file is empty" would be odd.
            return Ok(if several { None } else { self.empty() });
        }
        Ok(Some(Document { root }))
    }

    fn empty(&mut self) -> Option<Document> {
        let (message, label) = if self.text.trim().is_empty() {
            ("the file is empty", "")
        } else {
            ("the file holds nothing", "only comments or empty values")
        };
        let at = self.span(0..self.text.lines().next().map_or(0, str::len));
        self.report(
            Diagnostic::new(Code::EmptyFile, at, message)
                .label(label)
                .help("write at least one key, or remove the file"),
        );
        None
    }

    fn second_document(&mut self, range: Range<usize>) {
        let at = self.span(range);
        self.report(
            Diagnostic::new(Code::SeveralDocuments, at, "a second YAML document starts in this file")
                .label("here")
                .help("one file holds one document: put what follows into the first, or into a file of its own"),
        );
    }

    fn node(&mut self, event: Event<'s>, range: Range<usize>, tag_at: Option<usize>) -> Step<Node> {
        let at = self.span(range.clone());
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.context.scalar = range.clone();
                let tag = tag.map(|tag| (tag.into_owned(), tag_at.unwrap_or(range.start)));
                let node = self.scalar(&text, style, range, tag.as_ref())?;
                self.anchored(anchor, node)
            }
            Event::SequenceStart(style, anchor, tag) => {
                let tag = tag.map(|tag| (tag.into_owned(), tag_at.unwrap_or(range.start)));
                self.collection(range, style, anchor, tag.as_ref(), "seq", Self::list)
            }
            Event::MappingStart(style, anchor, tag) => {
                let tag = tag.map(|tag| (tag.into_owned(), tag_at.unwrap_or(range.start)));
                self.collection(range, style, anchor, tag.as_ref(), "map", Self::map)
            }
            Event::Alias(anchor) => self.alias(anchor, at),
            Event::UnresolvedAlias(name) => {
                self.unknown_alias(&name, at);
                Ok(Node::new(at, Kind::Reported))
            }
            other => {
                let message = format!("the YAML parser sent {other:?} where a value was due");
                self.report(Diagnostic::new(Code::Internal, at, message));
                Err(Stop)
            }
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        range: Range<usize>,
        tag: Option<&(Tag, usize)>,
    ) -> Step<Node> {
        let range = range.start..range.start + self.text[range.clone()].trim_end_matches([' ', '\t', '\r', '\n']).len();
        let plain = style == ScalarStyle::Plain;
        if plain && let Some(strange) = Strange::of(self.text, range.start, &self.text[range.clone()]) {
            let problem = strange.diagnostic(self.span(range.clone()), text);
            self.report(problem);
            // What was meant is looked at like any other text.
            return match strange.meant {
                Some(meant) => Ok(Node::new(self.span(range), scalar::resolve(meant))),
                None => Err(Stop),
            };
        }
        // Nothing at all comes as a `~` of no length.
        let kind = if plain && range.is_empty() {
            Kind::Null
        } else if plain {
            scalar::resolve(text.to_owned())
        } else {
            Kind::String(text.to_owned())
        };
        let kind = match tag {
            Some(tag) => self.tagged_scalar(kind, text, range.clone(), tag),
            None => kind,
        };
        let inner = Inner::of(self.text, &range, text, style);
        Ok(Node { inner, ..Node::new(self.span(range), kind) })
    }

    fn collection(
        &mut self,
        range: Range<usize>,
        style: StructureStyle,
        anchor: usize,
        tag: Option<&(Tag, usize)>,
        core: &str,
        fill: fn(&mut Self) -> Step<(Kind, Ends)>,
    ) -> Step<Node> {
        if self.depth == MAX_DEPTH {
            return self.too_deep(range.start..range.end.max((range.start + 1).min(self.text.len())));
        }
        let name = self.define(anchor)?;
        let flow = style == StructureStyle::Flow;
        if flow {
            self.context.open.push(range.start);
        }
        self.depth += 1;
        let (mut kind, ends) = fill(self)?;
        self.depth -= 1;
        if flow {
            self.context.open.pop();
        }
        // The parser ends a block where the next token starts; we end it where its last entry does.
        let end = if flow { ends.closed } else { ends.last };
        if let Some((tag, start)) = tag
            && tag.core_suffix() != Some(core)
            && !is_plain_tag(tag)
        {
            self.unknown_tag(tag, *start, None);
            kind = Kind::Reported;
        }
        let node = Node::new(self.span(range.start..end.max(range.start)), kind);
        Ok(self.finish(name, node))
    }

    pub(super) fn too_deep<T>(&mut self, range: Range<usize>) -> Step<T> {
        let at = self.span(range);
        let message = format!("lists and maps are nested deeper than {MAX_DEPTH} levels");
        self.report(
            Diagnostic::new(Code::TooDeep, at, message).label("too deep").help("no config needs more than ten levels"),
        );
        Err(Stop)
    }

    fn list(&mut self) -> Step<(Kind, Ends)> {
        let mut items = Vec::new();
        let mut last = 0;
        loop {
            match self.next()? {
                (Event::SequenceEnd, range, _) => return Ok((Kind::List(items), Ends { last, closed: range.end })),
                (event, range, tag) => {
                    let item = self.node(event, range, tag)?;
                    last = item.at.end;
                    // A list inside of brackets is one in brackets.
                    let joined = (!self.context.open.is_empty()).then(|| joined_lines(self.text, &item)).flatten();
                    joined.into_iter().for_each(|found| self.report(found));
                    items.push(item);
                }
            }
        }
    }

    fn map(&mut self) -> Step<(Kind, Ends)> {
        let mut map = Entries::default();
        let mut last = 0;
        let mut merges: Option<(Span, Node)> = None;
        let mut refused = false;
        loop {
            let (event, range, tag) = self.next()?;
            if matches!(event, Event::MappingEnd) {
                if let Some((key_at, value)) = merges {
                    self.merge(&mut map, key_at, value);
                }
                // `{{ name }}` was hardly meant as a map: that its key is none has been said.
                let nothing_left = refused && map.entries.is_empty();
                let kind = if nothing_left { Kind::Reported } else { Kind::Map(map.entries) };
                return Ok((kind, Ends { last, closed: range.end }));
            }
            let is_merge = matches!(&event, Event::Scalar(text, ScalarStyle::Plain, _, None) if text == "<<");
            let key = self.node(event, range, tag)?;
            self.context.key = key.at.range();
            let (event, range, tag) = self.next()?;
            let value = self.node(event, range, tag)?;
            let (key, value) = self.unglued(key, value);
            last = value.at.end.max(key.at.end);
            if is_merge {
                match &merges {
                    Some((first, _)) => self.duplicate("<<", key.at, *first, "list the maps in one: `<<: [*a, *b]`"),
                    None => merges = Some((key.at, value)),
                }
            } else if let Some(text) = self.key(&key) {
                match map.insert(Entry { key: text, key_at: key.at, written: None, value }) {
                    Ok(()) => {}
                    Err((again, first)) => {
                        self.duplicate(&again.key, again.key_at, first, "remove one of the two, or rename it");
                    }
                }
            } else {
                refused = true;
            }
        }
    }

    /// `{name:a}` is a key with nothing behind it, and was meant as a key and its value.
    fn unglued(&mut self, key: Node, value: Node) -> (Node, Node) {
        let nothing = matches!(value.kind, Kind::Null) && value.at.start == value.at.end;
        let written = &self.text[key.at.range()];
        let split = glued(written).zip(no_space(written, key.at)).filter(|_| nothing && !self.context.open.is_empty());
        let Some((colon, problem)) = split else { return (key, value) };
        let (name, rest) = written.split_at(colon);
        let (name, rest) = (name.trim_end_matches(':').to_owned(), rest.trim().to_owned());
        self.report(problem);
        let name_at = Span { end: key.at.start + name.len(), ..key.at };
        let value_at = Span { start: key.at.start + colon, ..key.at };
        (Node::new(name_at, Kind::String(name)), Node::new(value_at, scalar::resolve(rest)))
    }

    /// The text of a key: numbers and truth values are keys as they are written.
    fn key(&mut self, key: &Node) -> Option<String> {
        if let Some(text) = key.text() {
            return Some(text.to_owned());
        }
        let what = match key.kind {
            Kind::Reported => return None,
            Kind::Null => "nothing",
            Kind::List(_) => "a list",
            _ => "a map",
        };
        // `${X}` without quotes in a place for keys is a flow map, and so is `{{ name }}`.
        let help = if matches!(key.kind, Kind::Map(_)) {
            "put the text in quotes if the braces belong to it"
        } else {
            "write a text before the colon"
        };
        let at = if key.at.start == key.at.end {
            let end = self.text[key.at.start..].chars().next().map_or(0, char::len_utf8);
            Span { end: key.at.start + end, ..key.at }
        } else {
            key.at
        };
        self.report(
            Diagnostic::new(Code::KeyNotText, at, format!("a key has to be a text, this is {what}")).help(help),
        );
        None
    }

    fn duplicate(&mut self, key: &str, at: Span, first: Span, help: &str) {
        self.report(
            Diagnostic::new(Code::DuplicateKey, at, format!("the key `{}` stands twice in one map", shown(key)))
                .label("written again here")
                .related(first, "first written here")
                .help(help),
        );
    }

    /// Adds what `<<` brings: explicit keys win, then the first map of a list.
    fn merge(&mut self, map: &mut Entries, key_at: Span, value: Node) {
        let maps = match value.kind {
            Kind::List(items) => items,
            _ => vec![value],
        };
        for node in maps {
            match node.kind {
                Kind::Map(entries) => entries.into_iter().for_each(|entry| drop(map.insert(entry))),
                Kind::Reported => {}
                _ => {
                    let at = if node.at.start == node.at.end { key_at } else { node.at };
                    self.report(
                        Diagnostic::new(Code::BadMerge, at, "`<<` takes a map, or a list of maps")
                            .label(format!("this is {}", node.what()))
                            .help("name an anchor that stands before a map: `<<: *defaults`"),
                    );
                }
            }
        }
    }
}
