//! What a server is started with: the variables it inherits, and those that its entry needs.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use serde_json::json;
use support::client::{Client, Era};
use support::{Project, config, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

#[test]
fn a_server_inherits_what_its_entry_says_and_no_more() {
    let server = |name: &str, environment: &str| {
        let more = json!({ "environment": environment, "env": { "OWN": "${PLAIN}" }, "defer": false });
        scripted(name, &json!({ "tools": ["environment"] }), more)
    };
    let servers = ["minimal", "filtered", "all"].map(|word| server(word, word));
    let mut unsaid = server("unsaid", "all");
    unsaid.as_object_mut().unwrap().remove("environment");
    let project = Project::new(&config(&[&servers[..], &[unsaid]].concat(), json!({})));
    let mut command = project.command(&["run", "--stdio"]);
    command.envs([("PLAIN", "plain"), ("API_TOKEN", "canary"), ("SSH_AUTH_SOCK", "/agent"), ("LC_ALL", "C")]);
    let mut client = Client::spawn(command, Era::Session);
    client.initialize("2025-11-25");
    for (server, seen) in [
        ("minimal", ["plain", "C", "", "", ""]),
        ("unsaid", ["plain", "C", "", "", ""]),
        ("filtered", ["plain", "C", "plain", "", ""]),
        ("all", ["plain", "C", "plain", "canary", "/agent"]),
    ] {
        for (variable, value) in ["OWN", "LC_ALL", "PLAIN", "API_TOKEN", "SSH_AUTH_SOCK"].into_iter().zip(seen) {
            // What looks like a secret is masked in answers; that it is there at all is what counts.
            let tool = format!("mcp__{server}__environment");
            let got = client.text(&tool, json!({ "name": variable }));
            assert_eq!(got.is_empty(), value.is_empty(), "{server} {variable}: {got}");
            assert!(got == value || got.contains("${"), "{server} {variable}: {got}");
        }
        assert!(!client.text(&format!("mcp__{server}__environment"), json!({ "name": "PATH" })).is_empty());
    }
    client.end();
}

/// In whatever field it stands: that one server isn't started, the variable and the field are named, nothing is sent.
#[test]
fn an_unset_variable_costs_the_one_server_that_needs_it() {
    let good = scripted("good", &json!({ "tools": ["echo"] }), json!({ "defer": false }));
    let project = Project::new("");
    let unset = "${NOT_SET_ANYWHERE}";
    let started = format!("touch {}", project.path("started").display());
    let servers = [
        good,
        json!({ "name": "program", "command": unset }),
        json!({ "name": "inside", "command": format!("/opt/{unset}/bin/server") }),
        json!({ "name": "argument", "command": "sh", "args": ["-c", &started, unset] }),
        json!({ "name": "directory", "command": "sh", "args": ["-c", &started], "cwd": unset }),
        json!({ "name": "variable", "command": "sh", "args": ["-c", &started], "env": { "A": unset } }),
        json!({ "name": "message", "command": "sh", "args": ["-c", &started, "${NOT_SET_ANYWHERE:?ask the bakers}"] }),
        json!({ "name": "address", "url": format!("http://127.0.0.1:9/{unset}") }),
        json!({ "name": "header", "url": "http://127.0.0.1:9/", "headers": { "Authorization": format!("Bearer {unset}") } }),
    ];
    project.write("config.yml", &config(&servers, json!({})));
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.text("mcp__good__echo", json!({ "a": 1 })), r#"{"a":1}"#);
    for (server, field) in [
        ("program", "command"),
        ("inside", "command"),
        ("argument", "args[2]"),
        ("directory", "cwd"),
        ("variable", "env.A"),
        ("message", "args[2]"),
        ("address", "url"),
        ("header", "headers.Authorization"),
    ] {
        let line = client.logged(&format!("server.connect_failed: {server}: "), 0);
        assert!(line.contains("NOT_SET_ANYWHERE") && line.contains(field), "{server}: {line}");
        assert_eq!(line.contains("ask the bakers"), server == "message", "{line}");
    }
    client.end();
    assert!(!project.has("started"), "nothing was started");
}
