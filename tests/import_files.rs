//! `import` over a directory of real files: how much comes in whole, with reported losses, or not, and why.
//!
//! `MCPLAN_CLIENT_CONFIGS=DIR cargo test -p mcplan-compiler --test import_files -- --nocapture` prints the figures; with
//! `MCPLAN_CLIENT_CONFIGS_VERBOSE=1` every note too. Without a directory there is nothing to read and nothing to say.

#![expect(clippy::unwrap_used, reason = "an integration test that prints figures")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use mcplan_compiler::edit::{List, Value, add, remove};
use mcplan_compiler::import::{Imported, import};

fn files(directory: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, out);
        } else if path.file_name().is_none_or(|name| name != "index.json") {
            out.push(path);
        }
    }
}

/// What came of one file, in a word.
fn outcome(imported: &Imported) -> &'static str {
    match (imported.servers.is_empty(), imported.problems.is_empty(), imported.has_losses()) {
        (true, ..) => "nothing",
        (false, false, _) => "some",
        (false, true, true) => "losses",
        (false, true, false) => "whole",
    }
}

#[test]
fn every_file_comes_in_or_says_why() {
    let Some(directory) = std::env::var_os("MCPLAN_CLIENT_CONFIGS").map(PathBuf::from) else {
        println!("MCPLAN_CLIENT_CONFIGS names no directory of client configs: nothing was read");
        return;
    };
    let verbose = std::env::var_os("MCPLAN_CLIENT_CONFIGS_VERBOSE").is_some();
    let mut all = Vec::new();
    files(&directory, &mut all);
    assert!(!all.is_empty(), "{} holds no files", directory.display());
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut servers = 0;
    for path in &all {
        let shown = path.strip_prefix(&directory).unwrap().display().to_string();
        let bytes = std::fs::read(path).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        // Half a file is read too, or says why not.
        for cut in (0..text.len()).step_by((text.len() / 40).max(1)).filter(|cut| text.is_char_boundary(*cut)) {
            let half = import(&text[..cut], &shown, None);
            assert!(!half.servers.is_empty() || !half.problems.is_empty(), "{shown} up to byte {cut}");
        }
        let lone = import(&text, &shown, None);
        let needs_name = lone.servers.is_empty() && lone.problems.iter().any(|problem| problem.text.contains("--name"));
        let imported = if needs_name { import(&text, &shown, Some("named")) } else { lone };
        assert!(
            !imported.servers.is_empty() || !imported.problems.is_empty(),
            "{shown}: neither a server nor a reason"
        );
        let word = outcome(&imported);
        *counts.entry(word).or_default() += 1;
        servers += imported.servers.len();
        if verbose || matches!(word, "nothing" | "some") {
            println!("{shown}: {word}, {} servers from {:?}", imported.servers.len(), imported.places);
            imported.problems.iter().for_each(|problem| println!("    {}: {}", problem.line, problem.text));
        }
        let mut config = String::new();
        for server in &imported.servers {
            config = add(&config, List::Servers, &server.entry).unwrap_or_else(|why| panic!("{shown}: {why}"));
        }
        if verbose {
            let notes = imported.servers.iter().flat_map(|server| &server.notes).chain(&imported.notes);
            notes.for_each(|note| println!("    {}: {:?}: {}", note.line, note.kind, note.text));
            println!("{}", config.lines().map(|line| format!("        {line}\n")).collect::<String>());
        }
        // Our own entries come in as they are.
        let again = import(&config, "config.yml", None);
        let entries =
            |imported: &Imported| imported.servers.iter().map(|server| server.entry.clone()).collect::<Vec<_>>();
        if !config.is_empty() {
            assert_eq!(entries(&again), entries(&imported), "{shown}\n{config}");
        }
    }
    println!("{} files, {servers} servers: {counts:?}", all.len());
}

/// Real YAML, whatever it is for, is edited without touching another byte, or refused.
#[test]
fn real_yaml_is_edited_in_one_place() {
    let Some(directory) = std::env::var_os("MCPLAN_CLIENT_CONFIGS").map(PathBuf::from) else {
        println!("MCPLAN_CLIENT_CONFIGS names no directory of client configs: nothing was edited");
        return;
    };
    let mut all = Vec::new();
    files(&directory, &mut all);
    let (mut edited, mut refused) = (0, 0);
    let entry = Value::Map(vec![
        ("name".to_owned(), Value::text("one-more")),
        ("command".to_owned(), Value::text("npx")),
        ("args".to_owned(), Value::texts(["-y", "x@1"])),
    ]);
    for path in all.iter().filter(|path| path.extension().is_some_and(|extension| extension == "yaml")) {
        let text = std::fs::read_to_string(path).unwrap();
        match add(&text, List::Servers, &entry) {
            Ok(new) => {
                edited += 1;
                let same = text.bytes().zip(new.bytes()).take_while(|(a, b)| a == b).count();
                let rest = text.bytes().rev().zip(new.bytes().rev()).take_while(|(a, b)| a == b).count();
                assert!(same + rest + " []".len() >= text.len(), "{}\n{new}", path.display());
                let back = remove(&new, "one-more").unwrap();
                assert_eq!(back.entry, entry);
                let made = "mcp_servers: []";
                let plain = |text: &str| text.replace(made, "").trim_end().to_owned();
                assert_eq!(plain(&back.text), plain(&text), "{}", path.display());
            }
            Err(why) => {
                refused += 1;
                println!("{}: {why}", path.strip_prefix(&directory).unwrap().display());
            }
        }
    }
    println!("{edited} edited, {refused} refused");
}
