//! The folders beside this file: what is in one, and how what comes out is compared with it.

use std::fs;
use std::path::{Path, PathBuf};

use mcplan_compiler::lint::environment;
use mcplan_compiler::lint::locked::{Locked, Target};
use mcplan_compiler::lock::make;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::Server;
use mcplan_compiler::render::{self, Human};
use mcplan_compiler::source::{ReadError, Sources};
use mcplan_compiler::{Compilation, Options, compile_with, diagnostic};
use serde_json::Value;
use serde_json::value::to_raw_value;

/// The files of one case.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Sources for Folder {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        fs::read(self.0.join(path)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ReadError::Missing,
            _ => ReadError::Failed(error.to_string()),
        })
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
    /// Compiles its `config.yml`, with what other files of the folder say of it: `config.prod.yml` is laid over it, an
    /// empty `host-keys` or `fragment` says what the file is, `printed/NAME.json` is what plugin NAME printed, and
    /// `locked/NAME.json` is what server NAME said when it was locked, which brings the lints of a lock, for the target
    /// named in `target`; `machine.json` says which variables, commands and files a machine has.
    pub(crate) fn compile(&self) -> Compilation {
        let is_there = |name: &str| self.0.join(name).exists();
        let printed =
            fs::read_dir(self.0.join("printed")).into_iter().flatten().map(|entry| entry.expect("an entry").path());
        let name = |path: &Path| path.file_stem().expect("a name").to_string_lossy().into_owned();
        let options = Options {
            profile: is_there("config.prod.yml").then(|| "prod".to_owned()),
            host_keys: is_there("host-keys"),
            fragment: is_there("fragment"),
            plugins: printed.map(|path| (name(&path), fs::read_to_string(&path).expect("UTF-8"))).collect(),
        };
        let mut compilation = compile_with("config.yml", self, &options)
            .unwrap_or_else(|error| panic!("{}/config.yml: {error}", self.0.display()));
        if let (Ok(text), Some(config)) = (fs::read_to_string(self.0.join("machine.json")), &compilation.config) {
            let machine = Machine(serde_json::from_str(&text).expect("JSON"));
            compilation.diagnostics.extend(environment::lints(config, &compilation.fragments, &machine));
            diagnostic::sort(&mut compilation.diagnostics);
        }
        if is_there("locked") {
            self.lints(&mut compilation);
        }
        compilation
    }

    fn lints(&self, compilation: &mut Compilation) {
        let (Some(plan), Some(config)) = (&compilation.plan, &compilation.config) else { return };
        let said = |server: &Server| {
            let text = fs::read_to_string(self.0.join("locked").join(format!("{}.json", server.name))).ok()?;
            Some((server.name.clone(), observed(&text)))
        };
        let lock = make(plan.clone(), Vec::new(), plan.servers.iter().filter_map(said).collect(), None).lock;
        let locked =
            Locked { config, fragments: &compilation.fragments, plan, lock: &lock, places: &compilation.places };
        let target = fs::read_to_string(self.0.join("target")).ok().map(|word| match word.trim() {
            "anthropic" => Target::Anthropic,
            "cursor" => Target::Cursor,
            other => panic!("no target {other}"),
        });
        compilation.diagnostics.extend(locked.lints(target));
        diagnostic::sort(&mut compilation.diagnostics);
    }
}

/// `{"variables": {…}, "commands": […], "files": […]}`.
struct Machine(Value);

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

/// What a server said: `{"instructions": …, "tools": […]}`.
fn observed(text: &str) -> Observed {
    let said: Value = serde_json::from_str(text).expect("JSON");
    let mut observed = Observed::default();
    observed.introduction.instructions = said["instructions"].as_str().map(str::to_owned);
    let tools = said["tools"].as_array().cloned().unwrap_or_default();
    let tools: Vec<_> = tools.iter().map(|tool| to_raw_value(tool).expect("JSON")).collect();
    observed.add_tools(tools.iter().map(|tool| &**tool));
    assert_eq!(observed.quarantined, [], "every tool is usable");
    observed
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
