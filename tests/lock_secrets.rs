//! A secret shows nowhere: not in a lock, not in what any command prints, not in a log at its loudest; not even when a
//! server says it itself in every place that it has.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::process::Command;

use serde_json::json;
use support::client::{Client, Era};
use support::{Project, Ran, config, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

const ENV: &str = "canary-env-5c1d2a";
const FILE: &str = "canary-file-77b0e1";
const HEADER: &str = "canary-header-e0913f";
const CANARIES: [&str; 3] = [ENV, FILE, HEADER];

fn project() -> Project {
    let env = json!({ "A": "${CANARY_TOKEN}", "B": "Bearer ${file:secret.txt}", "C": "${CANARY_TOKEN:-written in the config}" });
    let leaky = scripted("leaky", &json!({ "leak": ["A", "B", "C"] }), json!({ "env": env }));
    let remote = json!({ "name": "remote", "url": "http://127.0.0.1:9/mcp?key=${CANARY_HEADER}", "headers": { "Authorization": "Bearer ${CANARY_HEADER}" },
                         "reconnect": { "attempts": 1, "initial_seconds": 0.1, "jitter_seconds": 0 } });
    let project = Project::new(&config(&[leaky, remote], json!({})));
    project.write("secret.txt", &format!("{FILE}\n"));
    project
}

fn loud(project: &Project, args: &[&str]) -> Command {
    let mut command = project.command(args);
    command
        .env("CANARY_TOKEN", ENV)
        .env("CANARY_HEADER", HEADER)
        .env("RUST_LOG", "trace")
        .env("RUST_BACKTRACE", "full");
    command
}

fn assert_hidden(what: &str, text: &str, canaries: &[&str]) {
    for canary in canaries {
        let at = text.find(canary);
        assert!(at.is_none(), "{what} shows {canary}: {}", &text[at.unwrap().saturating_sub(600)..]);
    }
}

#[test]
fn no_command_shows_a_secret() {
    let project = project();
    let run = |args: &[&str]| {
        let ran = Ran::of(loud(&project, args).output().unwrap());
        let what = format!("mcplan {}", args.join(" "));
        assert_hidden(&what, &ran.err, &CANARIES);
        (what, ran)
    };
    let (what, locked) = run(&["lock", "-vv"]);
    assert_eq!(locked.code, 1, "the remote one can't be reached: {locked:?}");
    assert_hidden(&what, &locked.out, &CANARIES);
    let lock = project.read("config.lock.json");
    assert_hidden("the lock", &lock, &CANARIES);
    assert!(lock.contains("knows ${CANARY_TOKEN} and "), "{lock}");
    // Where it was is said: in a text it is replaced, and what is named by one is left out.
    assert!(locked.err.contains("the value of a secret was hidden in the instructions, the tool leak"), "{locked:?}");
    assert_eq!(locked.err.matches("its name or its schema holds the value of ${").count(), 4, "{locked:?}");
    for args in [
        &["validate", "-vv"][..],
        &["validate", "--env"],
        &["validate", "--env", "--format", "json"],
        &["validate", "--env", "--format", "sarif"],
        &["validate", "--env", "--format", "github"],
        &["export", "--to", "claude-code", "--direct", "-vv"],
        &["export", "--to", "claude-desktop", "--direct"],
        &["export", "--to", "cursor", "--direct"],
        &["export", "--to", "vscode", "--direct"],
        &["export", "--to", "codex", "--direct"],
        &["export", "--to", "codex"],
        &["lock", "--check", "-vv"],
        &["lock", "--check", "--live", "-vv"],
        &["lock", "--check", "--live", "--json"],
        &["diff", "-vv"],
        &["diff", "--live", "-vv"],
        &["diff", "--live", "--format", "json"],
        &["test", "-vv"],
        &["explain", "mcp__leaky__leak"],
        &["explain", "mcp__leaky__key", "--json"],
        &["lock", "--offline", "-vv"],
        &["render", "-vv"],
        &["render", "--json"],
        &["search", "leak", "-vv"],
        &["search", "leak", "--json"],
        &["call", "-vv", "mcp__leaky__refuse"],
        &["call", "-vv", "mcp__leaky__nope"],
        &["call", "-vv", "mcp__remote__x"],
        &["import", "-vv", "--dry-run", "config.lock.json"],
        &["add", "-vv", "--dry-run", "one-more", "--", "x", "${CANARY_TOKEN}"],
        &["remove", "-vv", "--dry-run", "remote"],
    ] {
        let (what, ran) = run(args);
        assert_hidden(&what, &ran.out, &CANARIES);
    }
    // What a called tool answers is the server's own and is what was asked for; the log still doesn't hold it.
    let (_, called) = run(&["call", "-vv", "mcp__leaky__leak"]);
    assert_eq!(called.code, 0, "{called:?}");
    assert!(called.out.contains(ENV), "{called:?}");
}

#[test]
fn a_running_executor_shows_no_secret() {
    for args in [&["-vv"][..], &["-vv", "--log-format", "json"]] {
        let project = project();
        let mut command = loud(&project, &["run", "--stdio"]);
        command.args(args);
        let mut client = Client::spawn(command, Era::Session);
        let initialized = client.initialize("2025-11-25").to_string();
        let listed = json!(client.tools()).to_string();
        let found = client.text("search_mcp_tools", json!({ "query": "leak", "queries": [ENV] }));
        let listed_again = json!(client.tools()).to_string();
        let refused = client.error("tools/call", json!({ "name": "mcp__leaky__refuse" }));
        let called = client.text("mcp__leaky__leak", json!({}));
        assert!(called.contains(ENV));
        client.logged("server.connect_failed: remote", 0);
        let log = client.end();
        for (what, text) in [("initialize", &initialized), ("list", &listed), ("list", &listed_again)] {
            assert_hidden(what, text, &CANARIES);
        }
        assert_hidden("search", &found.replace(&format!("\"{ENV}\""), ""), &CANARIES);
        assert_hidden("the error", refused["message"].as_str().unwrap(), &CANARIES);
        // The query was the client's own; everything else in the log is ours.
        let log: Vec<_> = log.lines().filter(|line| !line.contains("search.queried")).collect();
        assert_hidden("the log", &log.join("\n"), &CANARIES);
    }
}

/// A file of secrets that isn't there, or a variable that isn't set, is named; nothing else of it is told.
#[test]
fn a_missing_secret_is_named() {
    let project = project();
    std::fs::remove_file(project.path("secret.txt")).unwrap();
    let ran = Ran::of(loud(&project, &["lock"]).env_remove("CANARY_HEADER").output().unwrap());
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("secret.txt") && ran.err.contains("CANARY_HEADER"), "{}", ran.err);
    assert_hidden("the report", &ran.err, &CANARIES);
}
