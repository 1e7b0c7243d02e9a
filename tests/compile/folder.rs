//! The folders beside this file: how one is compiled, and how what comes out is compared with it. `tests/compile.rs`
//! says what may be in one.

#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use mcplan_compiler::document::{self, Kind, Node};
use mcplan_compiler::lint::environment;
use mcplan_compiler::lint::locked::{Locked, Target};
use mcplan_compiler::lock::{Lock, make};
use mcplan_compiler::observed::{Entry, Observed};
use mcplan_compiler::plan::{Plan, Server};
use mcplan_compiler::render::{self, Human};
use mcplan_compiler::source::{ReadError, SourceMap, Sources};
use mcplan_compiler::{Compilation, Options, compile_with, diagnostic};
use serde_json::Value;
use serde_json::value::to_raw_value;

/// The file that is compiled.
pub(crate) const CONFIG: &str = "config.yml";

/// The files of one case.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Sources for Folder {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        let mut bytes = fs::read(self.0.join(path)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ReadError::Missing,
            _ => ReadError::Failed(error.to_string()),
        })?;
        if let (CONFIG, Some(size)) = (path, self.text("size")) {
            bytes.resize(size.trim().parse().expect("a number of bytes"), b'#');
        }
        Ok(bytes)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>, ReadError> {
        let entries = fs::read_dir(self.0.join(directory)).map_err(|_| ReadError::Missing)?;
        Ok(entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect())
    }
}

/// Every case of a kind, `ok` or `err`, in order of its name.
pub(crate) fn cases(kind: &str) -> Vec<Folder> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/compile").join(kind);
    let entries = fs::read_dir(&root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
    let mut folders: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    folders.sort();
    assert!(folders.len() > 20, "{} holds the cases", root.display());
    folders.into_iter().map(Folder).collect()
}

impl Folder {
    /// The text of a file that may be there.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.0.join(name)).ok()
    }

    /// Whether a file is there.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.join(name).exists()
    }

    /// What stands in the files `NAME.json` of a directory that may be there, by name.
    fn by_name(&self, directory: &str) -> Vec<(String, String)> {
        let files = fs::read_dir(self.0.join(directory)).into_iter().flatten().map(|entry| entry.expect("an entry"));
        let named = files.map(|file| {
            let name = file.path().file_stem().expect("a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(file.path()).expect("UTF-8"))
        });
        named.collect()
    }

    /// Compiles its config, with what the other files of the folder say of it.
    pub(crate) fn compile(&self) -> Compilation {
        let options = Options {
            profile: self.has("config.prod.yml").then(|| "prod".to_owned()),
            host_keys: self.has("host-keys"),
            fragment: self.has("fragment"),
            plugins: self.outputs(),
        };
        let mut compilation =
            compile_with(CONFIG, self, &options).unwrap_or_else(|error| panic!("{}: {error}", self.0.display()));
        let mut found = Vec::new();
        if let (Some(machine), Some(config)) = (self.machine(), &compilation.config) {
            found.extend(environment::lints(config, &compilation.fragments, &machine));
        }
        if let (Some(plan), Some(config)) = (&compilation.plan, &compilation.config)
            && let Some(lock) = self.lock(plan)
        {
            let locked =
                Locked { config, fragments: &compilation.fragments, plan, lock: &lock, places: &compilation.places };
            found.extend(locked.lints(self.target()));
        }
        compilation.diagnostics.append(&mut compilation.plugins_failed);
        compilation.diagnostics.extend(found);
        diagnostic::sort(&mut compilation.diagnostics);
        compilation
    }

    /// What plugins printed, or why they failed.
    fn outputs(&self) -> BTreeMap<String, Result<String, String>> {
        let printed = self.by_name("printed").into_iter().map(|(name, text)| (name, Ok(text)));
        let failed = self.by_name("failed").into_iter().map(|(name, reason)| (name, Err(reason.trim().to_owned())));
        printed.chain(failed).collect()
    }

    /// The lock of `plan`, when the folder says what servers reported.
    pub(crate) fn lock(&self, plan: &Plan) -> Option<Lock> {
        let said: BTreeMap<_, _> = self.by_name("locked").into_iter().collect();
        let padding = self.text("padding").map_or(0, |size| size.trim().parse().expect("a number of characters"));
        let observed = |server: &Server| {
            let mut observed = observed(said.get(server.name.as_str())?);
            observed.introduction.instructions.as_mut().into_iter().for_each(|text| text.extend(vec!['.'; padding]));
            Some((server.name.clone(), observed))
        };
        let all = plan.servers.iter().filter_map(observed).collect();
        self.has("locked").then(|| make(plan.clone(), vec![CONFIG.to_owned()], all, None).lock)
    }

    /// The machine that the folder describes.
    pub(crate) fn machine(&self) -> Option<Machine> {
        self.text("machine.json").map(|text| Machine(serde_json::from_str(&text).expect("JSON")))
    }

    fn target(&self) -> Option<Target> {
        self.text("target").map(|word| match word.trim() {
            "anthropic" => Target::Anthropic,
            "openai" => Target::OpenAi,
            "cursor" => Target::Cursor,
            "spec" => Target::Spec,
            other => panic!("no target {other}"),
        })
    }
}

/// `{"variables": {…}, "commands": […], "files": […]}`.
pub(crate) struct Machine(pub(crate) Value);

impl environment::Machine for Machine {
    fn variable(&self, name: &str) -> Option<bool> {
        self.0["variables"].get(name).map(|value| value != "")
    }

    fn has_command(&self, program: &str) -> bool {
        self.0["commands"].as_array().is_some_and(|known| known.iter().any(|known| known == program))
    }

    fn has_file(&self, path: &str) -> bool {
        self.0["files"].as_array().is_some_and(|known| known.iter().any(|known| known == path))
    }
}

/// What a server said: `{"instructions": …, "tools": […], "prompts": […], "resource_templates": […]}`.
fn observed(text: &str) -> Observed {
    let said: Value = serde_json::from_str(text).expect("JSON");
    let mut observed = Observed::default();
    observed.introduction.instructions = said["instructions"].as_str().map(str::to_owned);
    let tools = said["tools"].as_array().cloned().unwrap_or_default();
    let tools: Vec<_> = tools.iter().map(|tool| to_raw_value(tool).expect("JSON")).collect();
    observed.add_tools(tools.iter().map(|tool| &**tool));
    let prompts = said["prompts"].as_array().cloned().unwrap_or_default();
    let templates = said["resource_templates"].as_array().cloned().unwrap_or_default();
    observed.resource_templates =
        templates.iter().map(|template| Entry::parse(&template.to_string()).expect("a template")).collect();
    observed.prompts = prompts.iter().map(|prompt| Entry::parse(&prompt.to_string()).expect("a prompt")).collect();
    assert_eq!(observed.quarantined, [], "every tool is usable");
    observed
}

/// A config as an editor sees it: the written values, as JSON.
pub(crate) fn written(case: &Folder) -> Option<Value> {
    let bytes = case.read(CONFIG).expect("a case has a config");
    let (_, document, _) = document::load(&mut SourceMap::default(), CONFIG, &bytes);
    document.map(|document| json(&document.root))
}

fn json(node: &Node) -> Value {
    match &node.kind {
        Kind::Null | Kind::Reported => Value::Null,
        Kind::Bool(truth, _) => Value::Bool(*truth),
        Kind::Number(text) => serde_json::from_str(text).unwrap_or_else(|_| panic!("{text} isn't a number of JSON")),
        Kind::String(text) => Value::String(text.clone()),
        Kind::List(items) => items.iter().map(json).collect(),
        Kind::Map(entries) => entries.iter().map(|entry| (entry.key.clone(), json(&entry.value))).collect(),
    }
}

/// What a user reads.
pub(crate) fn report(compilation: &Compilation) -> String {
    render::human(&compilation.diagnostics, &compilation.texts, Human::default())
}

/// Compares `text` with a file, which isn't there when the text is empty; with `UPDATE` set it writes it instead.
pub(crate) fn check(path: &Path, text: &str, wrong: &mut Vec<String>) {
    let expected = fs::read_to_string(path).unwrap_or_default();
    if expected == text {
        return;
    }
    if std::env::var_os("UPDATE").is_some() {
        if text.is_empty() { fs::remove_file(path) } else { fs::write(path, text) }.expect("the file can be written");
        return;
    }
    let at = expected.lines().zip(text.lines()).take_while(|(old, new)| old == new).count();
    let line = |text: &str| text.lines().nth(at).unwrap_or("(end)").to_owned();
    wrong.push(format!(
        "{}, line {}:\n  expected {}\n  found    {}",
        path.display(),
        at + 1,
        line(&expected),
        line(text)
    ));
}

/// Fails with everything that differed.
pub(crate) fn finish(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}\nif this is what it should be, run again with UPDATE=1", wrong.join("\n"));
}
