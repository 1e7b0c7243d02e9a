//! Compiles every folder of `tests/compile` and compares what comes out with the files in it.
//!
//! ```text
//! tests/compile/ok/NAME/config.yml    compiles: plan.json, and report.txt when there are warnings or notes
//! tests/compile/err/NAME/config.yml   doesn't: report.txt, the whole text that a user sees
//! ```
//!
//! A config may name other files of its folder. After a wanted change run `UPDATE=1 cargo test --test compile` and read
//! the difference in git, which leaves the bytes of these files alone (`.gitattributes`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use mcplan_compiler::code::Code;
use mcplan_compiler::plan::Plan;
use mcplan_compiler::render::{self, Human};
use mcplan_compiler::source::{MemorySources, ReadError, Sources};
use mcplan_compiler::{Compilation, compile, json};

/// The files of one case.
struct Folder(PathBuf);

impl Sources for Folder {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        fs::read(self.0.join(path)).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ReadError::Missing,
            _ => ReadError::Failed(error.to_string()),
        })
    }
}

fn cases(kind: &str) -> Vec<Folder> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/compile").join(kind);
    let entries = fs::read_dir(&root).unwrap_or_else(|error| panic!("{}: {error}", root.display()));
    let mut folders: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    folders.sort();
    assert!(folders.len() > 20, "{} holds the cases", root.display());
    folders.into_iter().map(Folder).collect()
}

impl Folder {
    fn compile(&self) -> Compilation {
        compile("config.yml", self).unwrap_or_else(|error| panic!("{}/config.yml: {error}", self.0.display()))
    }

    /// Compares `text` with a file of the case, which isn't there when the text is empty.
    fn check(&self, file: &str, text: &str, wrong: &mut Vec<String>) {
        let path = self.0.join(file);
        let expected = fs::read_to_string(&path).unwrap_or_default();
        if expected == text {
            return;
        }
        if std::env::var_os("UPDATE").is_some() {
            if text.is_empty() { fs::remove_file(&path) } else { fs::write(&path, text) }.expect("the file is ours");
            return;
        }
        let at = expected.lines().zip(text.lines()).take_while(|(old, new)| old == new).count();
        let line = |text: &str| text.lines().nth(at).unwrap_or("(end)").to_owned();
        wrong.push(format!(
            "{}, line {}:\n  expected {}\n  found    {}\n--- all of it\n{text}---",
            path.display(),
            at + 1,
            line(&expected),
            line(text)
        ));
    }
}

fn report(compilation: &Compilation) -> String {
    render::human(&compilation.diagnostics, &compilation.texts, Human::default())
}

fn finish(wrong: &[String]) {
    assert!(wrong.is_empty(), "{}\nrun with UPDATE=1 if this is what it should be", wrong.join("\n"));
}

#[test]
fn what_compiles_gives_its_plan() {
    let mut wrong = Vec::new();
    for case in cases("ok") {
        let compilation = case.compile();
        let Some(plan) = &compilation.plan else {
            wrong.push(format!("{} doesn't compile:\n{}", case.0.display(), report(&compilation)));
            continue;
        };
        let text = plan.text();
        case.check("plan.json", &json::pretty(&text), &mut wrong);
        case.check("report.txt", &report(&compilation), &mut wrong);
        let again: Plan = serde_json::from_str(&text).expect("a plan reads its own text");
        assert_eq!((&again, again.text()), (plan, text), "{}: read back", case.0.display());
    }
    finish(&wrong);
}

#[test]
fn what_does_not_compile_says_why() {
    let mut wrong = Vec::new();
    for case in cases("err") {
        let compilation = case.compile();
        if compilation.plan.is_some() {
            wrong.push(format!("{} compiles:\n{}", case.0.display(), report(&compilation)));
        }
        case.check("report.txt", &report(&compilation), &mut wrong);
    }
    finish(&wrong);
}
