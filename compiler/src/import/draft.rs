//! One foreign entry as it was read: fields by meaning, texts as the client wrote them, and what has to be said.

use std::collections::{BTreeMap, BTreeSet};

use super::field::Transport;
use super::find::{Client, Found, FoundAll};
use super::input::Input;
use super::reference;
use super::tree::Foreign;
use super::{Note, NoteKind, docker, time};
use crate::config::{ServerEntry, Text};
use crate::edit::Value;
use crate::source::{Source, Span, Spanned};

/// What was read of an entry. Texts are as the client wrote them.
pub(super) struct Draft<'s> {
    pub(super) source: &'s Source,
    pub(super) own: bool,
    pub(super) client: Client,
    pub(super) inputs: BTreeMap<String, Input>,
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    /// The transport, as named or as a key implies it.
    pub(super) transport: Option<Transport>,
    /// The word that named it, where the entry has one.
    pub(super) named_transport: bool,
    /// The word, where it names no transport.
    pub(super) odd_transport: Option<String>,
    pub(super) command: Option<String>,
    pub(super) args: Vec<String>,
    pub(super) env: Vec<(String, String)>,
    pub(super) cwd: Option<String>,
    pub(super) url: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    pub(super) enabled: Option<bool>,
    pub(super) include: Option<Vec<String>>,
    pub(super) exclude: Vec<String>,
    pub(super) limits: Vec<time::Limit>,
    /// Keys of our language, as they are.
    pub(super) ours: Vec<(String, Value)>,
    pub(super) places: Vec<(&'static str, usize)>,
    pub(super) notes: Vec<Note>,
}

/// The variables that an entry takes from outside: those in the values it sets, and elsewhere those it doesn't set.
pub(super) fn variables_from_outside(node: &Foreign) -> Vec<String> {
    let env = node.get("env").map(Foreign::entries).unwrap_or_default();
    let set: BTreeSet<_> = env.iter().map(|entry| entry.key.as_str()).collect();
    let mut all = Vec::new();
    for entry in node.entries() {
        let own = entry.key == "env";
        entry.value.each_text(&mut |text| {
            let names = reference::variables(text).into_iter();
            all.extend(names.filter(|name| own || !set.contains(name.as_str())));
        });
    }
    all
}

impl<'s> Draft<'s> {
    /// Reads an entry.
    ///
    /// # Errors
    /// When it is no entry at all.
    pub(super) fn read(source: &'s Source, found: &Found<'_>, all: &FoundAll<'_>) -> Result<Self, String> {
        if !found.node.is_map() {
            return Err(format!("a server is a map, this is {}", found.node.what()));
        }
        let mut inputs = all.inputs.clone();
        inputs.extend(Input::all(found.node.get("inputs")));
        let mut draft = Self {
            source,
            own: found.own,
            client: all.client,
            inputs,
            name: found.name.map(str::to_owned),
            description: None,
            transport: None,
            named_transport: false,
            odd_transport: None,
            command: None,
            args: Vec::new(),
            env: Vec::new(),
            cwd: None,
            url: None,
            headers: Vec::new(),
            enabled: None,
            include: None,
            exclude: Vec::new(),
            limits: Vec::new(),
            ours: Vec::new(),
            places: vec![("entry", found.at)],
            notes: Vec::new(),
        };
        if found.parked {
            draft.enabled = Some(false);
            draft.note(found.at, NoteKind::Changed, "the client's own lists keep it from starting: `enabled: false`");
        }
        if docker::is_image(found.node) {
            docker::read(&mut draft, found.node);
        } else {
            draft.map(found.node);
        }
        draft.take_apart();
        Ok(draft)
    }

    pub(super) fn note(&mut self, at: usize, kind: NoteKind, text: impl Into<String>) {
        let line = self.source.position(at).line;
        self.notes.push(Note { kind, line, text: text.into() });
    }

    pub(super) fn lost(&mut self, at: usize, text: impl Into<String>) {
        self.note(at, NoteKind::Lost, text);
    }

    /// Remembers where a field stands.
    pub(super) fn place(&mut self, field: &'static str, at: usize) {
        self.places.push((field, at));
    }

    /// Where a field stands, or the entry.
    pub(super) fn at(&self, field: &str) -> usize {
        let place = self.places.iter().rev().find(|(name, _)| *name == field);
        place.or(self.places.first()).map_or(0, |(_, at)| *at)
    }

    /// The name that the launch suggests.
    pub(super) fn derived_name(&self) -> Option<String> {
        let text = |text: &String| Spanned::new(text.clone(), Span::default());
        let args = self.args.iter().map(|arg| Spanned::new(Text(arg.clone()), Span::default())).collect();
        let entry = ServerEntry {
            command: self.command.as_ref().map(text),
            args: Some(Spanned::new(args, Span::default())),
            url: self.url.as_ref().map(text),
            ..ServerEntry::default()
        };
        crate::resolve::derive_name(&entry).map(|name| name.to_string())
    }
}
