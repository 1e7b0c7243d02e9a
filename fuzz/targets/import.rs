//! A client's file of whatever kind, with and without `--name`: servers or a reason, never a panic, the same each time. What
//! comes in is written in our language, comes in again as it is, and goes out to each client and back.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use mcplan_compiler::code::Code;
use mcplan_compiler::compile;
use mcplan_compiler::edit::{List, add};
use mcplan_compiler::import::export::{Client, executor, servers};
use mcplan_compiler::import::{Imported, ImportedServer, import};
use mcplan_compiler::plan::Plan;
use mcplan_compiler::source::MemorySources;

/// Reads a text and holds what came of it against what is promised whatever the text is.
fn read(text: &str, name: Option<&str>) -> Imported {
    let imported = import(text, "input", name);
    assert_eq!(imported, import(text, "input", name));
    assert!(!imported.servers.is_empty() || !imported.problems.is_empty(), "neither a server nor a reason");
    let notes = imported.servers.iter().flat_map(|server| &server.notes).chain(&imported.notes);
    let said = notes.map(|note| (note.line, &note.text));
    for (line, said) in said.chain(imported.problems.iter().map(|problem| (problem.line, &problem.text))) {
        assert!((1..=text.matches('\n').count() + 1).contains(&line), "{line}: {said}");
        assert!(!said.is_empty() && !said.contains(char::is_control), "{said:?}");
    }
    imported
}

fn config(servers: &[ImportedServer]) -> String {
    servers.iter().fold(String::new(), |text, server| {
        add(&text, List::Servers, &server.entry).unwrap_or_else(|why| panic!("{why}: {:?}", server.entry))
    })
}

/// What no entry that comes in may have, whatever it came from. A wrong value, or a wrong key of a config of ours, is reported
/// when the entry is put into the config.
const NEVER: [Code; 11] = [
    Code::Internal,
    Code::Syntax,
    Code::SeveralDocuments,
    Code::UnknownAlias,
    Code::UnknownTag,
    Code::BadMerge,
    Code::DuplicateKey,
    Code::KeyNotText,
    Code::BadServerName,
    Code::DuplicateServer,
    Code::ServerNamesCollide,
];

/// The plan, unless a value in it is wrong. Whatever is written, it is written in our language.
fn plan(config: &str) -> Option<Plan> {
    let files = MemorySources(BTreeMap::from([("config.yml".to_owned(), config.as_bytes().to_vec())]));
    let compilation = compile("config.yml", &files).expect("it is there");
    for error in compilation.diagnostics.iter().filter(|diagnostic| diagnostic.is_error()) {
        assert!(!NEVER.contains(&error.code), "{config}\n{error:?}");
    }
    compilation.plan
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let imported = read(&text, None);
    let named = read(&text, Some("mine"));
    assert!(named.servers.len() <= 1, "one name is for one server");
    assert!(named.servers.iter().all(|server| server.name.as_str() == "mine"));
    for servers_in in [&imported.servers, &named.servers] {
        if servers_in.is_empty() {
            continue;
        }
        let text = config(servers_in);
        let Some(plan) = plan(&text) else { continue };
        let again = read(&text, None);
        assert_eq!(again.problems, [], "{text}");
        let entries = |servers: &[ImportedServer]| servers.iter().map(|one| one.entry.clone()).collect::<Vec<_>>();
        assert_eq!(entries(&again.servers), entries(servers_in), "{text}");
        for client in Client::ALL {
            let exported = servers(client, &plan);
            let left_out = exported.notes.iter().filter(|note| note.contains("` is left out: ")).count();
            let back = read(&exported.text, None);
            assert!(back.servers.len() + left_out >= plan.servers.len(), "{exported:?}\n{back:?}");
            executor(client, &["mcplan".to_owned(), "run".to_owned()], &plan);
        }
    }
});
