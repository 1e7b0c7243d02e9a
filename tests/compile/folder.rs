//! The folders beside this file: what is in one, and how what comes out is compared with it.

use std::fs;
use std::path::{Path, PathBuf};

use mcplan_compiler::render::{self, Human};
use mcplan_compiler::source::{ReadError, Sources};
use mcplan_compiler::{Compilation, compile};

/// The files of one case.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Sources for Folder {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        fs::read(self.0.join(path)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ReadError::Missing,
            _ => ReadError::Failed(error.to_string()),
        })
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
    /// Compiles its `config.yml`.
    pub(crate) fn compile(&self) -> Compilation {
        compile("config.yml", self).unwrap_or_else(|error| panic!("{}/config.yml: {error}", self.0.display()))
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
