//! What `mcplan run` doesn't do: start with half of a policy, or send a reference where its value was meant.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::io::ErrorKind;
use std::net::TcpListener;

use serde_json::json;
use support::client::{Client, Era};
use support::{Project, config, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

#[test]
fn with_one_bad_rule_among_good_ones_nothing_starts() {
    let project = Project::new("");
    let server = scripted("s", &json!({ "tools": ["echo"], "log": project.path("log") }), json!({}));
    for policy in [
        json!({ "deny": ["mcp:call:s:drop_*", "mcp:cal:s:echo", "mcp:call:s:wipe"] }),
        json!({ "default": "deny", "allow": ["mcp:call:s:echo", "call:s:echo"] }),
    ] {
        project.write("config.yml", &config(std::slice::from_ref(&server), json!({ "policy": policy })));
        let (status, log) = Client::connect(&project, &[], Era::Session).ended();
        assert_eq!(status.code(), Some(1), "{log}");
        assert!(log.contains("error[bad-rule]") && log.contains("config.yml:"), "{log}");
        assert!(!project.has("log"), "a server was started: {}", project.read_so_far("log"));
    }
}

#[test]
fn a_reference_without_its_value_is_named_and_never_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let project = Project::new("");
    let path = format!("http://{address}/mcp?key=${{MCPLAN_TEST_NEVER_SET}}");
    let servers = [
        scripted("good", &json!({ "tools": ["echo"] }), json!({})),
        json!({ "name": "header", "url": format!("http://{address}/mcp"),
                "headers": { "Authorization": "Bearer ${MCPLAN_TEST_NEVER_SET}" } }),
        json!({ "name": "path", "url": path }),
        scripted("dir", &json!({ "log": project.path("log") }), json!({ "cwd": "${MCPLAN_TEST_NEVER_SET}/x" })),
        scripted(
            "told",
            &json!({ "log": project.path("log") }),
            json!({ "env": { "KEY": "${MCPLAN_TEST_NEVER_SET:?ask the platform team}" } }),
        ),
    ];
    project.write("config.yml", &config(&servers, json!({ "mcp": { "defer": false } })));
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.text("mcp__good__echo", json!({ "a": 1 })), r#"{"a":1}"#);
    for (server, field, why) in [
        ("header", "headers.Authorization", "MCPLAN_TEST_NEVER_SET"),
        ("path", "url", "MCPLAN_TEST_NEVER_SET"),
        ("dir", "cwd", "MCPLAN_TEST_NEVER_SET"),
        ("told", "env.KEY", "ask the platform team"),
    ] {
        let line = client.logged(&format!("server.connect_failed: {server}: "), 0);
        assert!(line.contains(&format!("`{field}`")) && line.contains(why), "{server}: {line}");
    }
    client.end();
    assert!(!project.has("log"), "a process was started: {}", project.read_so_far("log"));
    assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "something was sent");
}
