//! The whole way from paths to a plan: read, parse, merge, decode, resolve.

use std::collections::{BTreeMap, HashSet};
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::code::Code;
use crate::config::spelling::SPELLINGS;
use crate::config::{Config, Plugin, ServerEntry, foreign};
use crate::decode::{self, CompiledSchema, schema_of};
use crate::diagnostic::{self, Diagnostic, one_line, shown};
use crate::document::{self, Document, Rename};
use crate::expectation::Expectation;
use crate::include;
use crate::pattern::Pattern;
use crate::places::Places;
use crate::plan::Plan;
use crate::resolve::{Fragment, Inputs, PluginOutput, resolve, unusable_output};
use crate::schema;
use crate::source::{ReadError, SourceId, SourceMap, Sources, Span, Spanned};

/// How a config is compiled.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Lays `NAME.PROFILE.yml` over the config.
    pub profile: Option<String>,
    /// The file is another program's: its own keys are let be.
    pub host_keys: bool,
    /// The file is a fragment by itself: what it names may be declared elsewhere.
    pub fragment: bool,
    /// What plugins printed, by the plugin's name, or why one gave nothing.
    pub plugins: BTreeMap<String, Result<String, String>>,
}

/// What compiling one config gave.
#[derive(Debug)]
pub struct Compilation {
    /// The plan; `None` when anything was an error.
    pub plan: Option<Plan>,
    /// What must hold of it.
    pub tests: Vec<Expectation>,
    /// The config as written, merged, as far as it could be read: for lints that need places.
    pub config: Option<Config>,
    /// Its fragments, as written.
    pub fragments: Vec<Fragment>,
    /// Where what the plan says is written.
    pub places: Places,
    /// Everything that was found, sorted by place.
    pub diagnostics: Vec<Diagnostic>,
    /// What went wrong with plugins: each failure costs only its own servers. Warnings, not among the others; sorted.
    pub plugins_failed: Vec<Diagnostic>,
    /// The texts that the diagnostics point into.
    pub texts: SourceMap,
    /// The files that were read, or could not be, as the config names them, itself first.
    pub files: Vec<String>,
    /// Where fragments were looked for by a pattern, as `more/*.yml`: a file that comes there may be one.
    pub patterns: Vec<String>,
    /// The config as JSON, references unresolved, for plugins; only where there are any.
    pub for_plugins: Option<String>,
    /// Whether the file holds nothing but what a fragment may hold.
    pub is_fragment: bool,
}

/// Compiles the config at `path`.
///
/// # Errors
/// Only when that file can't be read at all; everything that is wrong in it is among the diagnostics.
pub fn compile(path: &str, files: &dyn Sources) -> Result<Compilation, ReadError> {
    compile_with(path, files, &Options::default())
}

/// Compiles the config at `path`, with a profile, for another program's file, or with what plugins printed.
///
/// # Errors
/// Only when that file or its profile can't be read at all.
pub fn compile_with(path: &str, files: &dyn Sources, options: &Options) -> Result<Compilation, ReadError> {
    let mut compiler = Compiler {
        files,
        texts: SourceMap::default(),
        diagnostics: Vec::new(),
        plugins_failed: Vec::new(),
        read: Vec::new(),
        patterns: Vec::new(),
        directory: directory(path).to_owned(),
    };
    let mut main = compiler.document(path, path)?;
    let other = main.as_ref().filter(|_| !options.host_keys);
    if let Some(other) = other.and_then(|document| foreign::other_format(document, &include::TOP_LEVEL)) {
        compiler.diagnostics.push(other);
        main = None;
    }
    if let Some(main) = &mut main {
        compiler.host(main, options.host_keys);
    }
    if let Some(profile) = &options.profile {
        let path = include::profile_path(path, profile);
        if let (Some(main), Some(mut over)) = (&mut main, compiler.document(&path, &path)?) {
            compiler.host(&mut over, options.host_keys);
            compiler.diagnostics.extend(include::overlay(main, over));
        }
    }
    let has_plugins = main.as_ref().is_some_and(|document| document.root.get("plugins").is_some());
    let for_plugins = main.as_ref().filter(|_| has_plugins).map(|document| decode::to_json(&document.root).to_string());
    let is_fragment = main.as_ref().is_some_and(include::looks_like_fragment);
    let config = main.and_then(|document| compiler.decode(document, schema_of_config(), &["mcp_builtins[]"]));
    let mut plan = None;
    let mut tests = Vec::new();
    let mut places = Places::default();
    let (mut kept, mut fragments) = (None, Vec::new());
    if let Some(main) = config {
        let read = compiler.fragments(path, &main);
        let plugins = compiler.plugin_outputs(&main, options);
        let inputs = Inputs { main, fragments: read, plugins, alone: options.fragment };
        let resolved = resolve(&inputs, &mut compiler.texts, files, &compiler.diagnostics);
        compiler.read.extend(resolved.read);
        compiler.diagnostics.extend(resolved.diagnostics);
        compiler.plugins_failed.extend(resolved.plugins_failed);
        plan = resolved.plan.filter(|_| !compiler.diagnostics.iter().any(Diagnostic::is_error));
        tests = resolved.tests;
        places = resolved.places;
        kept = Some(inputs.main);
        fragments = inputs.fragments;
    }
    diagnostic::sort(&mut compiler.diagnostics);
    diagnostic::sort(&mut compiler.plugins_failed);
    Ok(Compilation {
        plan,
        tests,
        config: kept,
        fragments,
        places,
        diagnostics: compiler.diagnostics,
        plugins_failed: compiler.plugins_failed,
        texts: compiler.texts,
        files: compiler.read,
        patterns: compiler.patterns,
        for_plugins,
        is_fragment,
    })
}

/// What the steps share.
struct Compiler<'a> {
    files: &'a dyn Sources,
    texts: SourceMap,
    diagnostics: Vec<Diagnostic>,
    plugins_failed: Vec<Diagnostic>,
    read: Vec<String>,
    patterns: Vec<String>,
    /// Of the main file, as the user wrote its path; for showing.
    directory: String,
}

/// What a plugin prints.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Printed {
    servers: Vec<Spanned<ServerEntry>>,
}

impl Compiler<'_> {
    /// Reads and parses a file; `None` when its text is nothing to go on with. `shown` is its path in messages.
    fn document(&mut self, path: &str, shown: &str) -> Result<Option<Document>, ReadError> {
        // Whoever follows the files has to notice when one that is missing comes.
        self.read.push(path.to_owned());
        let bytes = self.files.read(path)?;
        Ok(self.parse(shown, &bytes, SPELLINGS).1)
    }

    fn parse(&mut self, shown: &str, bytes: &[u8], spellings: &[Rename]) -> (SourceId, Option<Document>) {
        let (id, document, found) = document::load(&mut self.texts, shown, bytes);
        self.diagnostics.extend(found);
        let document = document.map(|mut document| {
            self.diagnostics.extend(document::rename(&mut document, spellings));
            document
        });
        (id, document)
    }

    /// Puts what another program keeps in the file aside; in a file of our own, says what would only be read there.
    fn host(&mut self, document: &mut Document, host_keys: bool) {
        if host_keys {
            self.diagnostics.extend(include::put_host_keys_aside(document));
        } else {
            let help =
                "give `--host-keys` if this is another program's file; else move what is below it to the top level";
            self.diagnostics.extend(include::unread_section(document, help));
        }
    }

    /// Document → typed. There is a value as soon as there is something to decode: what the schema refused is left out,
    /// so that the rest can be resolved and every mistake is reported in one run.
    fn decode<T: for<'de> Deserialize<'de>>(
        &mut self,
        mut document: Document,
        schema: Result<&CompiledSchema, &String>,
        names: &[&str],
    ) -> Option<T> {
        let failed = self.diagnostics.iter().any(Diagnostic::is_error);
        match schema {
            Ok(schema) => {
                let mut refused = check(&document, schema);
                if foreign::reshape(&mut document, &refused) {
                    // What was under it is looked at in this run too.
                    self.diagnostics.append(&mut refused);
                    self.diagnostics.extend(document::rename(&mut document, SPELLINGS));
                    refused = check(&document, schema);
                }
                decode::mend(&mut document, schema, &refused);
                let said: HashSet<_> = self.diagnostics.iter().map(|known| (known.code, known.primary.at)).collect();
                self.diagnostics.extend(refused.into_iter().filter(|new| !said.contains(&(new.code, new.primary.at))));
            }
            Err(reason) => {
                let at = Span { end: document.root.at.start, ..document.root.at };
                self.diagnostics.push(Diagnostic::new(Code::Internal, at, reason.clone()));
            }
        }
        for list in names {
            document::name_to_map(&mut document, list, "name");
        }
        match decode::decode(&document.root) {
            Ok(value) => Some(value),
            Err(problem) => {
                // After another error this one says nothing new.
                if !failed && !self.diagnostics.iter().any(Diagnostic::is_error) {
                    self.diagnostics.push(*problem);
                }
                None
            }
        }
    }

    /// Reads the fragments that the config names, each once, in the order of their names.
    fn fragments(&mut self, main: &str, config: &Config) -> Vec<Fragment> {
        let mut fragments = Vec::new();
        let mut seen: Vec<String> = Vec::new();
        for written in config.fragments.iter().flatten() {
            for path in self.expand(written, main) {
                if self.files.same(&path, main) {
                    self.diagnostics.push(
                        Diagnostic::new(Code::FragmentCycle, written.at, format!("`{path}` is this very file"))
                            .help("a file can't be a fragment of itself; narrow the pattern"),
                    );
                    continue;
                }
                if seen.iter().any(|other| self.files.same(other, &path)) {
                    continue;
                }
                seen.push(path.clone());
                fragments.extend(self.fragment(&path, written.at));
            }
        }
        fragments
    }

    fn fragment(&mut self, path: &str, at: Span) -> Option<Fragment> {
        let shown = if self.directory.is_empty() { path.to_owned() } else { format!("{}/{path}", self.directory) };
        let document = match self.document(path, &shown) {
            Ok(document) => document?,
            Err(error) => {
                let message = format!("the fragment `{path}` can't be read: {error}");
                self.diagnostics.push(
                    Diagnostic::new(Code::UnreadableFile, at, message)
                        .help("the path is relative to the file that names it"),
                );
                return None;
            }
        };
        let mut document = document;
        let help = "move what is below it to the top level: a fragment is read as a file of our own";
        self.diagnostics.extend(include::unread_section(&document, help));
        self.diagnostics.extend(include::as_fragment(&mut document));
        let config = self.decode(document, schema_of_config(), &["mcp_builtins[]"])?;
        Some(Fragment { config, directory: directory(path).to_owned() })
    }

    /// The files that a path or glob means. A literal path is itself, whether it is there or not; a glob means no profile of
    /// the main file.
    fn expand(&mut self, written: &Spanned<String>, main: &str) -> Vec<String> {
        let text = written.value.trim_start_matches("./");
        if text.trim().is_empty() {
            self.diagnostics.push(
                Diagnostic::new(Code::OutOfRange, written.at, "a path in `fragments` is empty")
                    .help("write the path of a file or a glob, or remove it"),
            );
            return Vec::new();
        }
        if !text.contains(['*', '?', '[']) {
            return vec![text.to_owned()];
        }
        if let Some((_, flaw)) = Pattern::flaw(text) {
            let message = format!("`{}` is no pattern: {flaw}", shown(text));
            self.diagnostics.push(Diagnostic::new(Code::BadPattern, written.at, message).help(flaw.remedy(text)));
            return Vec::new();
        }
        let mut found = vec![String::new()];
        for segment in text.split('/') {
            let pattern = Pattern::new(segment);
            let mut next = Vec::new();
            for base in &found {
                let joined = |name: &str| if base.is_empty() { name.to_owned() } else { format!("{base}/{name}") };
                if pattern.is_literal() {
                    next.push(joined(segment));
                    continue;
                }
                self.patterns.push(joined(segment));
                if let Ok(names) = self.files.list(base) {
                    // A leading dot is only matched by one that is written, as in every shell.
                    let visible = |name: &&String| !name.starts_with('.') || segment.starts_with('.');
                    next.extend(
                        names.iter().filter(visible).filter(|name| pattern.matches(name)).map(|name| joined(name)),
                    );
                }
            }
            found = next;
        }
        let matched = found.len();
        found.retain(|path| !include::is_profile(main, path));
        found.sort();
        if found.is_empty() {
            let (what, help) = if matched > 0 {
                (
                    "no file but profiles of this one",
                    "a profile is laid over the config with `--profile`; it is no fragment",
                )
            } else {
                ("no file", "compare it with the directory of this file; `*` stays within one directory")
            };
            let message = format!("{what} matches `{}`", shown(text));
            self.diagnostics.push(Diagnostic::new(Code::MatchesNothing, written.at, message).help(help));
        }
        found
    }

    fn plugin_outputs(&mut self, config: &Config, options: &Options) -> BTreeMap<String, PluginOutput> {
        let mut outputs = BTreeMap::new();
        // A second plugin of that name is an error of its own.
        let mut heard = HashSet::new();
        for plugin in config.plugins.iter().flatten() {
            let name = &plugin.value.name.value;
            let text = match options.plugins.get(name).filter(|_| heard.insert(name.clone())) {
                None => continue,
                Some(Ok(text)) => text,
                Some(Err(reason)) => {
                    self.plugins_failed.push(failed_plugin(&plugin.value, reason));
                    continue;
                }
            };
            if text.trim().is_empty() {
                outputs.insert(name.clone(), PluginOutput { text: text.clone(), servers: Vec::new() });
                continue;
            }
            let before = self.diagnostics.len();
            let (_, document) = self.parse(&format!("(output of plugin {name})"), text.as_bytes(), PLUGIN_SPELLINGS);
            let printed = document.and_then(|document| self.decode::<Printed>(document, schema_of_printed(), &[]));
            if self.diagnostics[before..].iter().any(Diagnostic::is_error) {
                let found = self.diagnostics.split_off(before);
                self.plugins_failed.extend(unusable_output(&plugin.value, found));
                continue;
            }
            if let Some(printed) = printed {
                outputs.insert(name.clone(), PluginOutput { text: text.clone(), servers: printed.servers });
            }
        }
        outputs
    }
}

/// Longest reason that is shown, in characters.
const REASON_SHOWN: usize = 600;

fn failed_plugin(plugin: &Plugin, reason: &str) -> Diagnostic {
    let message = format!("the plugin `{}` failed: {}", plugin.name.value, one_line(reason, REASON_SHOWN));
    Diagnostic::new(Code::PluginFailed, plugin.name.at, message)
        .help("its servers are left out; `mcplan explain plugin-failed` says how a plugin is run")
}

/// What the schema refuses, in words that know other clients.
fn check(document: &Document, schema: &CompiledSchema) -> Vec<Diagnostic> {
    let mut refused = decode::check(document, schema);
    foreign::explain(document, &mut refused);
    refused
}

/// The older spellings of an entry, where a plugin prints it.
const PLUGIN_SPELLINGS: &[Rename] = &[
    Rename { at: "servers[]", from: "tool_filter", to: "tools.include" },
    Rename { at: "servers[]", from: "auth.headers", to: "headers" },
    Rename { at: "servers[]", from: "call_timeout", to: "call_timeout_seconds" },
    Rename { at: "servers[]", from: "tool_timeout_seconds", to: "call_timeout_seconds" },
    Rename { at: "servers[]", from: "persistent", to: "persistent_sessions" },
];

fn schema_of_config() -> Result<&'static CompiledSchema, &'static String> {
    static SCHEMA: LazyLock<Result<CompiledSchema, String>> =
        LazyLock::new(|| CompiledSchema::new(schema::checked_config()));
    SCHEMA.as_ref()
}

fn schema_of_printed() -> Result<&'static CompiledSchema, &'static String> {
    static SCHEMA: LazyLock<Result<CompiledSchema, String>> =
        LazyLock::new(|| CompiledSchema::new(schema_of::<Printed>()));
    SCHEMA.as_ref()
}

/// The directory of a path; empty for none.
fn directory(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(directory, _)| directory)
}
