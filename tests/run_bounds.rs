//! What is bounded: servers that connect at a time, calls in flight, and how often a server's lists are read.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use serde_json::{Value, json};
use support::client::Client;
use support::{Project, config, release, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

fn eager(more: Value) -> Value {
    let mut entry = json!({ "defer": false });
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

/// A slot is held until `initialize` is answered, so with one slot nobody starts before the one before has said hello.
#[test]
fn only_so_many_servers_are_connected_at_a_time() {
    let project = Project::new("");
    let log = project.path("log");
    let servers: Vec<_> = (0..4)
        .map(|number| scripted(&format!("s{number}"), &json!({ "tools": ["x"], "log": log }), eager(json!({}))))
        .collect();
    project.write("config.yml", &config(&servers, json!({ "mcp": { "concurrency": { "stdio": 1 } } })));
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names().len(), 4);
    // Without what comes when all of it ends.
    let log = project.read("log");
    client.end();
    let steps = log.lines().map(|line| if line.starts_with("start ") { "start" } else { line });
    let steps: Vec<_> = steps.filter(|line| *line == "start" || line.contains(r#""initialize""#)).collect();
    let one_by_one = steps.chunks(2).all(|pair| pair[0] == "start" && pair[1].contains("initialize"));
    assert!(one_by_one && steps.len() == 8, "{log}");
}

/// What is slow to list its tools costs only itself.
#[test]
fn a_server_that_lists_slowly_keeps_nobody_from_starting() {
    let project = Project::new("");
    let gate = project.pipe("gate");
    let servers = [
        scripted("slow", &json!({ "tools": ["echo"], "list_gate": gate }), eager(json!({}))),
        scripted("next", &json!({ "tools": ["echo"] }), eager(json!({}))),
    ];
    project.write("config.yml", &config(&servers, json!({ "mcp": { "concurrency": { "stdio": 1 } } })));
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.text("mcp__next__echo", json!({})), "{}");
    assert!(!client.log().contains("server.connected: slow"), "{}", client.log());
    release(&gate);
    assert_eq!(client.text("mcp__slow__echo", json!({})), "{}");
    client.end();
}

/// Its clock starts when it is its turn, however long the others took.
#[test]
fn waiting_for_a_slot_is_not_held_against_a_server() {
    let mut servers: Vec<_> = (0..3)
        .map(|number| {
            scripted(&format!("deaf{number}"), &json!({ "deaf": true }), eager(json!({ "timeout_seconds": 1 })))
        })
        .collect();
    servers.push(scripted("last", &json!({ "tools": ["echo"] }), eager(json!({ "timeout_seconds": 2 }))));
    let project = Project::new(&config(&servers, json!({ "mcp": { "concurrency": { "stdio": 1 } } })));
    let client = Client::start(&project, &[]);
    for deaf in ["deaf0", "deaf1", "deaf2"] {
        client.logged(&format!("server.connect_failed: {deaf}: "), 0);
    }
    client.logged("server.connected: last", 0);
    assert!(!client.log().contains("server.connect_failed: last"), "{}", client.log());
    client.end();
}

#[test]
fn a_session_has_so_many_calls_in_flight_and_is_told_when_there_are_more() {
    let project = Project::new("");
    let gate = project.pipe("gate");
    let script = json!({ "tools": ["wait", "echo"], "log": project.path("log") });
    project.write("config.yml", &config(&[scripted("s", &script, eager(json!({})))], json!({})));
    let mut client = Client::start(&project, &[]);
    let calls: Vec<_> = (0..128)
        .map(|_| client.send("tools/call", json!({ "name": "mcp__s__wait", "arguments": { "gate": gate } })))
        .collect();
    while project.read_so_far("log").matches(r#""wait""#).count() < 128 {
        client.request("ping", json!({}));
    }
    let told = client.failure("mcp__s__echo", json!({}));
    assert_eq!(told, "this session has 128 calls in flight, which is the most; try again when some of them have ended");
    // Whoever holds the pipe open to write lets all of them go, those too that come to it later.
    let open = std::fs::OpenOptions::new().write(true).open(&gate).unwrap();
    for id in calls {
        assert_eq!(client.answer(id)["result"]["content"][0]["text"], "let go");
    }
    drop(open);
    assert_eq!(client.text("mcp__s__echo", json!({})), "{}");
    client.end();
}

/// A server that announces a change whenever its lists were read would be read without end.
#[test]
fn a_server_that_announces_a_change_after_every_list_is_read_ever_more_slowly() {
    let project = Project::new("");
    let restless = json!({ "tools": ["pid"], "log": project.path("log"), "upon_list": true });
    let lazy = json!({ "defer": false, "connect": "lazy", "idle_stop_seconds": 0.5 });
    let servers = [scripted("s", &restless, eager(json!({}))), scripted("clock", &json!({ "tools": ["pid"] }), lazy)];
    project.write("config.yml", &config(&servers, json!({})));
    let mut client = Client::start(&project, &[]);
    client.text("mcp__s__pid", json!({}));
    // Some seconds pass.
    for _ in 0..4 {
        let mark = client.mark();
        client.text("mcp__clock__pid", json!({}));
        client.logged("server.disconnected: clock: stopped after 0.5 s", mark);
    }
    let lists = project.read("log").matches("tools/list").count();
    assert!((3..12).contains(&lists), "{lists} readings in two seconds or more");
    client.text("mcp__s__pid", json!({}));
    client.end();
}

/// However fast a server writes to stderr: each line is in the log, or among those that are told to be left out.
#[test]
fn every_line_of_stderr_is_logged_or_counted() {
    let project = Project::new("");
    let flood: Vec<_> = (0..5000).map(|number| format!("flood {number}")).collect();
    let server = scripted("s", &json!({ "tools": ["x"], "stderr": flood.join("\n") }), eager(json!({})));
    project.write("config.yml", &config(&[server], json!({})));
    let client = Client::start(&project, &[]);
    // Told though the server goes on and says nothing more.
    client.logged("left out)", 0);
    let log = client.end();
    let lines = log.lines().filter(|line| line.contains("flood ")).count();
    let left_out = log.lines().filter_map(|line| line.split_once(" left out)")?.0.rsplit_once('(')?.1.split_once(' '));
    let left_out: usize = left_out.map(|(number, _)| number.parse::<usize>().unwrap()).sum();
    assert!(lines <= 200, "{lines}");
    assert_eq!(lines + left_out, 5000, "{log}");
}
