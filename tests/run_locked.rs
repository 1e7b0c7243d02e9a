//! `run --locked` and `run --frozen`: what decides, what is hidden, and what each file's change does.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::process::Stdio;

use serde_json::json;
use support::client::Client;
use support::{Project, Ran, config, demo, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

/// A config with a server that lists `a`, `become` and what is in `tool.json`, of which `include` is kept.
fn including(include: &[&str]) -> String {
    let script = json!({ "tools": ["a", "become"], "tools_file": "tool.json" });
    config(&[scripted("s", &script, json!({ "defer": false, "tools": { "include": include } }))], json!({}))
}

fn tool(name: &str) -> String {
    json!({ "name": name, "description": format!("does {name}"), "inputSchema": { "type": "object" } }).to_string()
}

fn project() -> Project {
    let project = Project::new(&including(&["*"]));
    project.write("tool.json", &tool("b"));
    project
}

fn run(project: &Project, how: &str) -> Ran {
    Ran::of(project.command(&["run", "--stdio", how]).stdin(Stdio::null()).output().unwrap())
}

#[test]
fn without_a_lock_neither_starts() {
    for how in ["--locked", "--frozen"] {
        let project = project();
        let ran = run(&project, how);
        assert_eq!((ran.code, ran.out.as_str()), (1, ""), "{ran:?}");
        assert_eq!(ran.err, "error: no lock here (config.lock.json): run 'mcplan lock'\n");
    }
}

#[test]
fn a_config_that_moved_on_is_refused_with_every_reason() {
    let project = project();
    project.lock();
    project.write("config.yml", &including(&["a"]));
    let ran = run(&project, "--locked");
    assert_eq!(ran.code, 1, "{ran:?}");
    assert_eq!(
        ran.err,
        "error: config.lock.json doesn't fit config.yml: run 'mcplan lock'\n  \
         servers.s.tools.include[0]: locked \"*\", now \"a\"\n"
    );
    // Without the flag the config decides, and says that the lock is old.
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), ["mcp__s__a"]);
    assert!(client.end().contains("lock-stale: config.lock.json doesn't fit the config any more"));
}

#[test]
fn a_tool_that_is_not_in_the_lock_is_hidden_on_every_route() {
    let project = project();
    project.lock();
    project.write("tool.json", &tool("new"));
    for (how, expected) in [
        ("--locked", vec!["mcp__s__a", "mcp__s__become"]),
        ("--frozen", vec!["mcp__s__a", "mcp__s__become"]),
        ("--no-watch", vec!["mcp__s__a", "mcp__s__become", "mcp__s__new"]),
    ] {
        let mut client = Client::start(&project, &[how]);
        // The locked list is there at once; the server's own word comes with its first connection.
        client.logged("server.connected: s", 0);
        assert_eq!(client.names_when(|names| !names.contains(&"mcp__s__b".to_owned())), expected, "{how}");
        if how != "--no-watch" {
            assert!(
                client.error("tools/call", json!({ "name": "mcp__s__new" }))["message"]
                    .as_str()
                    .unwrap()
                    .contains("unknown tool")
            );
            // One that comes later is no other.
            client.text("mcp__s__become", json!({ "tools": ["a", "become", "later"] }));
            let denied = client.error("tools/call", json!({ "name": "mcp__s__later" }));
            assert!(denied["message"].as_str().unwrap().contains("unknown tool"), "{denied}");
        }
        client.end();
    }
}

#[test]
fn a_reload_that_the_lock_does_not_fit_is_rejected_and_judged_again_with_either_file() {
    let project = project();
    let first = project.lock();
    project.write("config.yml", &including(&["a"]));
    let second = project.lock();
    project.write("config.yml", &including(&["*"]));
    project.replace("config.lock.json", &first);
    let mut client = Client::start(&project, &["--locked"]);
    assert_eq!(client.names(), ["mcp__s__a", "mcp__s__b", "mcp__s__become"]);
    project.replace("config.yml", &including(&["a"]));
    client.logged("plan.rejected: the old plan serves on", 0);
    client.logged("servers.s.tools.include[0]: locked \"*\", now \"a\"", 0);
    assert_eq!(client.names().len(), 3);
    project.replace("config.lock.json", &second);
    client.logged("plan.reloaded: generation 2", 0);
    assert_eq!(client.names_when(|names| names.len() == 1), ["mcp__s__a"]);
    client.end();
}

/// Neither of the two fits the other of before.
#[test]
fn a_config_and_its_lock_that_change_together_are_judged_together() {
    let project = project();
    let pair = |tools: &[&str]| {
        project.write("config.yml", &including(tools));
        (including(tools), project.lock())
    };
    let (pairs, first) = ([pair(&["a"]), pair(&["b"])], pair(&["*"]));
    assert_eq!(project.read("config.lock.json"), first.1);
    let mut client = Client::start(&project, &["--locked"]);
    assert_eq!(client.names().len(), 3);
    for (number, (config, lock)) in pairs.iter().enumerate() {
        project.replace("config.yml", config);
        project.replace("config.lock.json", lock);
        client.logged(&format!("plan.reloaded: generation {}", number + 2), 0);
    }
    assert_eq!(client.names_when(|names| names.len() == 1), ["mcp__s__b"]);
    let log = client.end();
    assert!(!log.contains("plan.rejected"), "{log}");
}

#[test]
fn frozen_needs_no_config_and_follows_the_lock() {
    let project = project();
    let whole = project.lock();
    project.write("config.yml", &including(&["a"]));
    let narrow = project.lock();
    std::fs::remove_file(project.path("config.yml")).unwrap();
    project.replace("config.lock.json", &whole);
    let mut client = Client::start(&project, &["--frozen"]);
    assert_eq!(client.names(), ["mcp__s__a", "mcp__s__b", "mcp__s__become"]);
    // A config that appears is nobody's business.
    project.write("config.yml", "nonsense: [");
    project.replace("config.lock.json", "{ \"lock_version\": 1 ");
    client.logged("plan.rejected: the old plan serves on", 0);
    project.replace("config.lock.json", &narrow);
    client.logged("plan.reloaded: generation 2", 0);
    assert_eq!(client.names_when(|names| names.len() == 1), ["mcp__s__a"]);
    let log = client.end();
    assert!(!log.contains("nonsense"), "{log}");
}

#[test]
fn locked_uses_what_a_plugin_printed_then_and_runs_it_not() {
    let entry = demo("from-plugin", &[], json!({ "defer": false, "tools": { "include": ["calculate"] } }));
    let project = Project::new("");
    project.write("printed.json", &json!({ "servers": [entry] }).to_string());
    let plugin = json!({ "name": "p", "command": ["sh", "-c", "echo ran >> ran.txt; cat printed.json"] });
    project.write("config.yml", &json!({ "plugins": [plugin] }).to_string());
    let path = std::path::Path::new(env!("CARGO_BIN_EXE_mcplan")).parent().unwrap().display().to_string();
    let with_path = |mut command: std::process::Command| {
        command.env("PATH", format!("{path}:{}", std::env::var("PATH").unwrap()));
        command
    };
    let locked = Ran::of(with_path(project.command(&["lock"])).output().unwrap());
    assert_eq!(locked.code, 0, "{locked:?}");
    let ran = || project.read("ran.txt").lines().count();
    assert_eq!(ran(), 1);
    project.write("printed.json", r#"{ "servers": [] }"#);
    for how in ["--locked", "--frozen"] {
        let command = with_path(project.command(&["run", "--stdio", how]));
        let mut client = Client::spawn(command, support::client::Era::Session);
        client.initialize("2025-11-25");
        assert_eq!(client.names(), ["mcp__from-plugin__calculate"], "{how}");
        client.end();
        assert_eq!(ran(), 1, "{how}");
    }
}

#[test]
fn locked_and_frozen_exclude_each_other() {
    let ran = run(&project(), "--locked");
    assert_eq!(ran.code, 1);
    let both = project().run(&["run", "--stdio", "--locked", "--frozen"]);
    assert_eq!(both.code, 2, "{both:?}");
}
