//! Remote servers of every transport and both eras through the real binary: locked, called, and kept while they change,
//! restart and go away.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::process::Command;

use serde_json::{Value, json};
use support::client::{Client, Era};
use support::remote::{Kind, Remote};
use support::{Project, Ran, config, demo};

fn project(remote: &Remote) -> Project {
    let quick = json!({ "reconnect": { "initial_seconds": 0.01, "jitter_seconds": 0 } });
    Project::new(&config(&[remote.entry("r", json!({ "defer": false }))], json!({ "mcp": quick })))
}

fn with_team(mut command: Command) -> Command {
    command.env("TEAM", "bakers");
    command
}

fn ran(project: &Project, args: &[&str]) -> Ran {
    Ran::of(with_team(project.command(args)).output().unwrap())
}

fn client(project: &Project) -> Client {
    let mut client = Client::spawn(with_team(project.command(&["run", "--stdio"])), Era::Session);
    client.initialize("2025-11-25");
    client
}

fn revision(project: &Project) -> Value {
    let lock: Value = serde_json::from_str(&project.read("config.lock.json")).unwrap();
    lock["catalog"]["r"]["protocol_version"].clone()
}

#[test]
fn every_transport_is_locked_and_called() {
    for kind in Kind::ALL {
        let remote = Remote::start(kind);
        let project = project(&remote);
        let locked = ran(&project, &["lock"]);
        assert_eq!(locked.code, 0, "{kind:?}: {locked:?}");
        assert!(locked.out.contains("1 server, 2 tools"), "{locked:?}");
        assert_eq!(revision(&project), kind.revision());
        let expected = usize::from(matches!(kind, Kind::Session));
        assert_eq!(remote.count("DELETE"), expected, "{kind:?}: a session is ended at the other end too");

        // What is locked is known: nobody is asked which era the server speaks.
        remote.clear();
        let called = ran(&project, &["call", "mcp__r__echo", r#"{"t":[1.5]}"#]);
        assert_eq!((called.code, &*called.out), (0, "{\"t\":[1.5]}\n"), "{kind:?}: {called:?}");
        let expected = if kind == Kind::Stateless { (0, 1) } else { (1, 0) };
        assert_eq!((remote.count("initialize"), remote.count("server/discover")), expected, "{kind:?}");

        let again = ran(&project, &["lock"]);
        assert!(again.code == 0 && again.out.contains("is unchanged"), "{kind:?}: {again:?}");
        let checked = ran(&project, &["lock", "--check", "--live"]);
        assert_eq!(checked.code, 0, "{kind:?}: {checked:?}");
    }
}

#[test]
fn changed_lists_are_heard_over_every_transport() {
    for kind in Kind::ALL {
        let remote = Remote::start(kind);
        let project = project(&remote);
        let mut client = client(&project);
        let names = client.names_when(|names| names.len() >= 2);
        assert_eq!(names, ["mcp__r__become", "mcp__r__echo"], "{kind:?}");
        assert_eq!(client.text("mcp__r__echo", json!({ "n": 1 })), "{\"n\":1}");
        client.text("mcp__r__become", json!({ "tools": ["echo", "other"] }));
        let names = client.names_when(|names| names.iter().any(|name| name.ends_with("other")));
        assert_eq!(names, ["mcp__r__echo", "mcp__r__other"], "{kind:?}");
        client.end();
        assert_eq!(remote.count("DELETE"), usize::from(kind == Kind::Session), "{kind:?}: no session is left open");
    }
}

#[test]
fn a_server_that_was_restarted_is_connected_again() {
    for kind in Kind::ALL {
        let remote = Remote::start(kind);
        let project = project(&remote);
        let mut client = client(&project);
        client.names_when(|names| names.len() >= 2);
        // Else it could be heard only after the mark.
        client.logged("server.connected", 0);
        let mark = client.mark();
        remote.restart();
        match kind {
            // Their stream is the connection, and its end is seen at once.
            Kind::Sse | Kind::Websocket => {
                client.logged("server.disconnected", mark);
                client.logged("server.connected", mark);
                assert_eq!(client.text("mcp__r__echo", json!({})), "{}", "{kind:?}");
            }
            // The tool doesn't say that it may be called twice.
            Kind::Session => {
                let said = client.failure("mcp__r__echo", json!({}));
                assert!(said.contains("has forgotten the session") && said.contains("a new one is open"), "{said}");
                assert_eq!(client.text("mcp__r__echo", json!({})), "{}");
                assert_eq!(remote.count("initialize"), 2);
            }
            // There is no session to lose.
            Kind::Stateless => assert_eq!(client.text("mcp__r__echo", json!({})), "{}"),
        }
        client.end();
    }
}

#[test]
fn an_executor_is_a_server_of_the_new_era_for_another() {
    let project = Project::new("");
    let inner = |groups: &[&str]| {
        let groups: Vec<_> = groups.iter().flat_map(|group| ["--group", *group]).collect();
        config(&[demo("d", &groups, json!({ "defer": false }))], json!({ "mcp": { "naming": "{tool}" } }))
    };
    project.write("inner.yml", &inner(&["dates"]));
    let entry = json!({ "name": "r", "command": "mcplan", "args": ["run", "--stdio", "-c", project.path("inner.yml")],
                        "defer": false });
    project.write("config.yml", &config(&[entry], json!({})));
    project.lock();
    assert_eq!(revision(&project), "2026-07-28");
    let mut client = Client::start(&project, &[]);
    let names = client.names_when(|names| names.iter().any(|name| name.starts_with("mcp__r__")));
    let before = names.len();
    assert!(names.iter().all(|name| name.starts_with("mcp__r__")), "{names:?}");
    // A change in the inner one is heard through a subscription.
    project.replace("inner.yml", &inner(&["dates", "math"]));
    client.names_when(|names| names.len() > before);
    client.end();
}

#[test]
fn certificates_that_cannot_be_read_are_told_before_anything_is_sent() {
    let remote = Remote::start(Kind::Session);
    let servers = [remote.entry("r", json!({}))];
    let project = Project::new(&config(&servers, json!({ "mcp": { "ca_bundle": "certs/ours.pem" } })));
    let ran = ran(&project, &["lock"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(
        ran.err.contains("the certificates of `mcp.ca_bundle` (certs/ours.pem) can't be used: No such file"),
        "{ran:?}"
    );
    assert_eq!(remote.count("initialize") + remote.count("server/discover"), 0);
}
