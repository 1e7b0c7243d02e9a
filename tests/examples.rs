//! What the READMEs show is what happens: every `$ mcplan …` line in a console block is run, its output compared.
//!
//! `UPDATE=1 cargo test -p mcplan-executor --test examples` writes the real output into the files. Commands that need
//! the npm registry are run only with `MCPLAN_TEST_NPM=1`, as the checks before a merge do.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A shell line as a newcomer types it, from the repository's root.
fn shell(line: &str) -> String {
    let binaries = Path::new(env!("CARGO_BIN_EXE_mcplan")).parent().expect("a binary lies in a directory");
    let path = std::env::var("PATH").expect("tests have a PATH");
    let output = Command::new("sh")
        .args(["-c", &format!("{line} 2>&1")])
        .current_dir(root())
        .env("PATH", format!("{}:{path}", binaries.display()))
        .env_remove("RUST_LOG")
        .output()
        .expect("sh is there");
    String::from_utf8(output.stdout).expect("output is UTF-8")
}

/// The text with the output under each command of its console blocks made anew.
fn rerun(text: &str, wanted: impl Fn(&str) -> bool) -> String {
    let mut out = String::new();
    let mut lines = text.lines().peekable();
    let mut in_console = false;
    while let Some(line) = lines.next() {
        let _ = writeln!(out, "{line}");
        if line.starts_with("```") {
            in_console = line == "```console";
        }
        let Some(command) = line.strip_prefix("$ ").filter(|_| in_console) else { continue };
        let mut old = String::new();
        while let Some(next) = lines.next_if(|next| !next.starts_with("```") && !next.starts_with("$ ")) {
            let _ = writeln!(old, "{next}");
        }
        if wanted(command) {
            let fresh = shell(command);
            out.push_str(fresh.trim_end());
            out.push_str(if fresh.trim().is_empty() { "" } else { "\n" });
        } else {
            out.push_str(&old);
        }
    }
    out
}

fn check(readme: &str, wanted: impl Fn(&str) -> bool) {
    let path = root().join(readme);
    let text = std::fs::read_to_string(&path).expect("the README is there").replace("\r\n", "\n");
    let now = rerun(&text, wanted);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, now).expect("the README can be written");
        return;
    }
    let difference =
        similar::TextDiff::from_lines(&text, &now).unified_diff().header(readme, "what happens").to_string();
    assert_eq!(text, now, "\n{difference}");
}

fn is_mcplan(command: &str) -> bool {
    command.starts_with("mcplan ")
}

#[test]
fn quickstart() {
    check("examples/quickstart/README.md", is_mcplan);
}

#[test]
fn echo() {
    check("examples/echo/README.md", is_mcplan);
}

#[test]
fn everything() {
    let npm = std::env::var_os("MCPLAN_TEST_NPM").is_some();
    check("examples/everything/README.md", |command| {
        is_mcplan(command) && (npm || !command.starts_with("mcplan call"))
    });
}

#[test]
fn the_readme() {
    check("README.md", is_mcplan);
}

/// Every example's lock fits its config and its block is the committed one.
#[test]
fn every_example_is_locked_and_its_block_committed() {
    let examples = std::fs::read_dir(root().join("examples")).expect("examples are there");
    let mut seen = 0;
    for example in examples.map(|example| example.expect("a directory entry").path()).filter(|path| path.is_dir()) {
        let config = example.join("config.yml");
        for arguments in [&["validate", "--deny-warnings"][..], &["lock", "--check"], &["render", "--check"]] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_mcplan"));
            command.arg("-c").arg(&config).args(arguments);
            if arguments == ["render", "--check"] {
                command.arg(example.join("prompt.txt"));
            }
            let output = command.output().expect("mcplan runs");
            assert!(output.status.success(), "{}: {arguments:?}\n{output:?}", example.display());
        }
        seen += 1;
    }
    assert!(seen >= 3, "only {seen} examples");
}
