//! Imports go one way, and what is pure stays pure: the rules of ARCHITECTURE.md that a compiler can't hold.
//!
//! ```text
//! cli → runtime, serve → core → compiler
//! ```
//!
//! A rule reads every path that a file names, imports in braces taken apart; comments and texts don't count. Each rule
//! is also tried on code that breaks it.

use std::fs;
use std::path::{Path, PathBuf};

/// What a part of the tree may not name.
struct Rule {
    /// Said when it is broken.
    why: &'static str,
    /// The crate's sources, from the repository.
    sources: &'static str,
    /// Files and directories below it that the rule is about; empty is all of it.
    only: &'static [&'static str],
    /// Files and directories that it leaves out.
    except: &'static [&'static str],
    /// Beginnings of paths, or ends of them after `…`.
    forbidden: &'static [&'static str],
}

const RULES: &[Rule] = &[
    Rule {
        why: "compiling is pure: no network, no process, no environment, no clock, no files but through `Sources`",
        sources: "compiler/src",
        only: &[],
        except: &[],
        forbidden: &[
            "std::fs",
            "std::net",
            "std::env",
            "std::process",
            "std::thread",
            "std::time::SystemTime",
            "std::time::Instant",
            "tokio",
            "reqwest",
            "rmcp",
            "mcplan_executor",
        ],
    },
    Rule {
        why: "core has no IO and asks no clock: time and ids come in, effects go out as values",
        sources: "executor/src",
        only: &["core"],
        except: &[],
        forbidden: &[
            "crate::cli",
            "crate::runtime",
            "crate::serve",
            "crate::demo",
            "tokio",
            "tokio_util",
            "futures",
            "reqwest",
            "rmcp",
            "std::fs",
            "std::net",
            "std::env",
            "std::process",
            "std::thread",
            "…Instant::now",
            "…SystemTime::now",
        ],
    },
    Rule {
        why: "runtime keeps servers connected and knows nobody who asks",
        sources: "executor/src",
        only: &["runtime"],
        except: &[],
        forbidden: &["crate::cli", "crate::serve"],
    },
    Rule {
        why: "nobody imports the command line",
        sources: "executor/src",
        only: &[],
        except: &["cli", "main.rs"],
        forbidden: &["crate::cli", "mcplan_executor::cli", "clap"],
    },
    Rule {
        why: "the protocol crate is known at the edge and nowhere else",
        sources: "executor/src",
        only: &[],
        // `run` hands rmcp's own pipes for standard input and output to the server.
        except: &["runtime/transport", "runtime/connection", "serve/mcp", "cli/run.rs"],
        forbidden: &["rmcp"],
    },
];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every `.rs` file below `directory`, with its path from there.
fn sources(directory: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(next) = open.pop() {
        let entries = fs::read_dir(&next).unwrap_or_else(|error| panic!("{}: {error}", next.display()));
        for path in entries.map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(directory).expect("it is below").to_string_lossy().replace('\\', "/");
                files.push((name, fs::read_to_string(&path).expect("sources are UTF-8")));
            }
        }
    }
    files.sort();
    assert!(files.len() > 10, "{} holds sources", directory.display());
    files
}

impl Rule {
    fn is_about(&self, file: &str) -> bool {
        let below = |part: &&str| file == *part || file.strip_prefix(*part).is_some_and(|rest| rest.starts_with('/'));
        (self.only.is_empty() || self.only.iter().any(below)) && !self.except.iter().any(below)
    }

    /// The forbidden paths that a file names.
    fn broken(&self, file: &str, text: &str) -> Vec<String> {
        if !self.is_about(file) {
            return Vec::new();
        }
        let forbids = |path: &str| {
            self.forbidden.iter().any(|forbidden| match forbidden.strip_prefix('…') {
                Some(end) => path.ends_with(end),
                None => path.strip_prefix(forbidden).is_some_and(|rest| rest.is_empty() || rest.starts_with("::")),
            })
        };
        paths(file, text).into_iter().filter(|path| forbids(path)).collect()
    }
}

/// The code without comments, texts and characters.
fn code(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let skipped = match c {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |end| end + 2),
            'r' | 'b' if raw_text(rest).is_some() && !ends_in_word(&out) => raw_text(rest).unwrap_or(1),
            '"' => 1 + quoted(&rest[1..], '"'),
            // A lifetime has no second quote.
            '\'' if rest[1..].starts_with('\\') || rest.chars().nth(2) == Some('\'') => 1 + quoted(&rest[1..], '\''),
            _ => 0,
        };
        if skipped == 0 {
            out.push(c);
            rest = &rest[c.len_utf8()..];
        } else {
            out.push(' ');
            rest = &rest[skipped..];
        }
    }
    out
}

fn ends_in_word(text: &str) -> bool {
    text.ends_with(|c: char| c == '_' || c.is_alphanumeric())
}

/// The length of a text up to and with its closing quote.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of a raw text that starts here: `r"…"`, `r#"…"#`, `br"…"`.
fn raw_text(text: &str) -> Option<usize> {
    let body = text.strip_prefix('b').unwrap_or(text).strip_prefix('r')?;
    let hashes = body.len() - body.trim_start_matches('#').len();
    let inner = body[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - inner.len();
    Some(inner.find(&end).map_or(text.len(), |found| start + found + end.len()))
}

/// Every path that a file names, from its crate's root on where it is relative: `super::supervisor` of
/// `runtime/reload.rs` is `crate::runtime::supervisor`.
fn paths(file: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let mut found = Vec::new();
    let mut prefixes: Vec<String> = Vec::new();
    let mut path = String::new();
    for token in tokens(&code) {
        match token {
            "::" if path.ends_with("::") => {}
            "::" => path.push_str("::"),
            "{" => {
                prefixes.push(if path.ends_with("::") { format!("{}{path}", inside(&prefixes)) } else { String::new() })
            }
            word if ends_in_word(word) && (path.is_empty() || path.ends_with("::")) => {
                path.push_str(word);
                continue;
            }
            _ => {}
        }
        if token == "::" {
            continue;
        }
        if !path.is_empty() {
            found.push(absolute(file, &format!("{}{}", if token == "{" { "" } else { inside(&prefixes) }, path)));
            path.clear();
        }
        match token {
            "}" => drop(prefixes.pop()),
            word if ends_in_word(word) => path.push_str(word),
            _ => {}
        }
    }
    found
}

fn inside(prefixes: &[String]) -> &str {
    prefixes.last().map_or("", String::as_str)
}

fn tokens(code: &str) -> Vec<&str> {
    let word = |c: char| c == '_' || c.is_alphanumeric();
    let mut tokens = Vec::new();
    let mut rest = code.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            c if word(c) => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            ':' if rest.starts_with("::") => 2,
            c => c.len_utf8(),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

fn absolute(file: &str, path: &str) -> String {
    let mut module: Vec<_> = file.trim_end_matches(".rs").split('/').collect();
    if matches!(module.last(), Some(&"mod" | &"lib" | &"main")) {
        module.pop();
    }
    let mut words: Vec<_> = path.trim_start_matches("::").split("::").collect();
    let relative = matches!(words.first(), Some(&"self" | &"super"));
    while let Some(first) = words.first() {
        match *first {
            "super" => drop(module.pop()),
            "self" => {}
            _ => break,
        }
        words.remove(0);
    }
    let mut all = if relative { [vec!["crate"], module].concat() } else { Vec::new() };
    all.extend(words);
    all.join("::")
}

#[test]
fn every_rule_holds() {
    for rule in RULES {
        for (file, text) in sources(&repository().join(rule.sources)) {
            let broken = rule.broken(&file, &text);
            assert!(broken.is_empty(), "{}/{file} names {}: {}", rule.sources, broken.join(", "), rule.why);
        }
    }
}

#[test]
fn every_rule_can_be_broken() {
    let breaks = |rule: usize, file: &str, text: &str| !RULES[rule].broken(file, text).is_empty();
    for code in [
        "use std::fs;",
        "use std::{collections::BTreeMap, fs::{self, File}};",
        "fn now() { std::time::Instant::now(); }",
        "use std::time::{Duration, SystemTime};",
        "let x = \"a\"; let home = std::env::var('\\''.to_string());",
        "use tokio::sync::mpsc;",
        "fn f<'a>(x: &'a str) -> ::std::net::TcpStream {}",
    ] {
        assert!(breaks(0, "lint.rs", code), "{code}");
    }
    for code in [
        "// use std::fs;",
        "/* std::fs */ let fs = \"std::fs::read\";",
        "let raw = r#\"use \"std::fs\"; \"#;",
        "use std::time::Duration; use crate::fs::read; mod tokio_like {}",
        "let quote = '\"'; // std::env",
    ] {
        assert!(!breaks(0, "lint.rs", code), "{code}");
    }
    assert!(breaks(1, "core/gate.rs", "use crate::{event::Event, runtime::view::View};"));
    assert!(breaks(1, "core/prompt/mod.rs", "use super::super::serve::mcp;"));
    assert!(breaks(1, "core/gate.rs", "let now = Instant::now();"));
    assert!(!breaks(1, "core/gate.rs", "use super::catalog::Catalog; fn on(now: Instant) {}"));
    assert!(!breaks(1, "runtime/view.rs", "use tokio::sync::watch;"));
    assert!(breaks(2, "runtime/view.rs", "use crate::serve::mcp::serve;"));
    assert!(breaks(3, "runtime/view.rs", "crate::cli::report::error(1);"));
    assert!(breaks(3, "serve/mod.rs", "use super::cli;"));
    assert!(!breaks(3, "cli/run.rs", "use super::report; use crate::cli::project;"));
    assert!(breaks(4, "runtime/server.rs", "use rmcp::model::Tool;"));
    assert!(!breaks(4, "runtime/transport/http.rs", "use rmcp::model::Tool;"));
}

/// The keys of `[[test]]` tables are paths; a file that no manifest names is never compiled.
#[test]
fn every_integration_test_is_named_in_a_manifest() {
    let manifests: Vec<_> = ["compiler", "executor"]
        .map(|member| fs::read_to_string(repository().join(member).join("Cargo.toml")).expect("a manifest"))
        .into();
    let tests = fs::read_dir(repository().join("tests")).expect("the tests");
    let mut seen = 0;
    for path in tests.map(|entry| entry.expect("an entry").path()) {
        if path.extension().is_some_and(|extension| extension == "rs") {
            let name = path.file_name().expect("a file").to_string_lossy();
            let line = format!("path = \"../tests/{name}\"");
            assert!(manifests.iter().any(|manifest| manifest.contains(&line)), "no manifest has {line}");
            seen += 1;
        }
    }
    assert!(seen >= 3, "{seen} tests were found");
}

/// What the compiler needs must not bring a runtime or a network with it.
#[test]
fn the_compiler_depends_on_nothing_that_does_io() {
    let lock = fs::read_to_string(repository().join("Cargo.lock")).expect("a lock");
    let packages: Vec<_> = lock.split("[[package]]").skip(1).collect();
    let field = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(&format!("{key} = \"")))?;
        Some(line.trim_end_matches('"').to_owned())
    };
    let needs = |name: &str| -> Vec<String> {
        let package = packages.iter().find(|package| field(package, "name").as_deref() == Some(name));
        let listed = package.and_then(|package| package.split_once("dependencies = [")).map_or("", |(_, list)| list);
        let names = listed.lines().filter_map(|line| line.trim().strip_prefix('"'));
        names.filter_map(|line| line.split([' ', '"']).next()).map(str::to_owned).collect()
    };
    let manifest = fs::read_to_string(repository().join("compiler/Cargo.toml")).expect("a manifest");
    let (_, direct) = manifest.split_once("[dependencies]").expect("the compiler has dependencies");
    let direct = direct.split("\n[").next().unwrap_or_default();
    let mut open: Vec<String> = direct
        .lines()
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    assert!(open.len() > 5, "{open:?}");
    let mut seen = std::collections::BTreeSet::new();
    while let Some(name) = open.pop() {
        for forbidden in ["tokio", "reqwest", "rmcp", "hyper", "mio", "rustls"] {
            assert_ne!(name, forbidden, "the compiler depends on it");
        }
        if seen.insert(name.clone()) {
            open.extend(needs(&name));
        }
    }
    assert!(seen.contains("serde_json") && seen.len() > 20, "{seen:?}");
}
