//! What a reload does to servers and to calls in flight.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use nix::sys::signal::Signal;
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

fn reloaded(client: &Client, generation: u64) -> String {
    client.logged(&format!("plan.reloaded: generation {generation},"), 0)
}

/// How often the plan changed, which must be as often as expected.
fn count(log: &str, event: &str) -> usize {
    log.lines().filter(|line| line.contains(event)).count()
}

/// REL-01: a call in flight and servers that didn't change are left alone; a new one is usable at once.
#[test]
fn only_what_changed_is_touched_and_calls_finish() {
    let project = Project::new("");
    let (gate, gone_gate) = (project.pipe("gate"), project.pipe("gone-gate"));
    let script = |name: &str| json!({ "tools": ["pid", "wait"], "log": project.path(name) });
    let server = |name: &str, more: Value| scripted(name, &script(name), eager(more));
    project.write(
        "config.yml",
        &config(&[server("same", json!({})), server("gone", json!({})), server("other", json!({}))], json!({})),
    );
    let mut client = Client::start(&project, &[]);
    let same = client.text("mcp__same__pid", json!({}));
    let other = client.text("mcp__other__pid", json!({}));
    let flights = [("same", &gate), ("gone", &gone_gate)].map(|(server, gate)| {
        let id =
            client.send("tools/call", json!({ "name": format!("mcp__{server}__wait"), "arguments": { "gate": gate } }));
        while !project.read_so_far(server).contains(r#""wait""#) {
            client.request("ping", json!({}));
        }
        id
    });
    let new =
        [server("new", json!({})), server("same", json!({})), server("other", json!({ "env": { "CHANGED": "1" } }))];
    project.replace("config.yml", &config(&new, json!({})));
    assert!(reloaded(&client, 2).ends_with("gone removed, new added, other changed"), "{}", reloaded(&client, 2));
    client.text("mcp__new__pid", json!({}));
    assert_eq!(client.text("mcp__same__pid", json!({})), same);
    // The old one serves until the new one is ready.
    while client.text("mcp__other__pid", json!({})) == other {}
    assert_eq!(
        client.error("tools/call", json!({ "name": "mcp__gone__pid" }))["message"],
        "unknown tool: mcp__gone__pid"
    );
    assert!(!project.read("gone").contains("end of input"), "it still has a call");
    for (id, gate) in flights.into_iter().zip([&gate, &gone_gate]) {
        release(gate);
        assert_eq!(client.answer(id)["result"]["content"][0]["text"], "let go");
    }
    // A name that a filter gave up is free again; the order is the config's.
    assert_eq!(client.names()[0], "mcp__new__pid");
    client.end();
    assert!(project.read("gone").ends_with("end of input\n"));
}

/// A reload gives no further slots: the new server waits for the one that is being connected.
#[test]
fn reloads_do_not_add_to_how_many_connect_at_a_time() {
    let project = Project::new("");
    let (gate, log) = (project.pipe("gate"), project.path("log"));
    let held = scripted("held", &json!({ "tools": ["x"], "log": log, "gate": gate }), eager(json!({})));
    let new = scripted("new", &json!({ "tools": ["x"], "log": log }), eager(json!({})));
    let more = json!({ "mcp": { "concurrency": { "stdio": 1 } } });
    project.write("config.yml", &config(std::slice::from_ref(&held), more.clone()));
    let mut client = Client::start(&project, &["--no-watch"]);
    while !project.path("log").exists() {
        client.request("ping", json!({}));
    }
    project.replace("config.yml", &config(&[held, new], more));
    client.signal(Signal::SIGHUP);
    reloaded(&client, 2);
    client.request("ping", json!({}));
    release(&gate);
    client.text("mcp__new__x", json!({}));
    let log = project.read("log");
    let second = log.rmatch_indices("start ").next().unwrap().0;
    assert!(log.find("initialize").unwrap() < second, "{log}");
    client.end();
}

#[test]
fn a_call_in_flight_that_the_new_plan_denies_is_stopped() {
    let project = Project::new("");
    let script = json!({ "tools": ["never", "pid"], "log": project.path("log") });
    let with = |more| config(&[scripted("s", &script, eager(json!({})))], more);
    project.write("config.yml", &with(json!({})));
    let mut client = Client::start(&project, &[]);
    let pid = client.text("mcp__s__pid", json!({}));
    let id = client.send("tools/call", json!({ "name": "mcp__s__never" }));
    while !project.read_so_far("log").contains(r#""never""#) {
        client.request("ping", json!({}));
    }
    project.replace("config.yml", &with(json!({ "mcp": { "denylist": ["never"] } })));
    let answer = client.answer(id);
    assert_eq!(answer["result"]["content"][0]["text"], "stopped: a new plan no longer offers it");
    assert_eq!(
        client.error("tools/call", json!({ "name": "mcp__s__never" }))["message"],
        "unknown tool: mcp__s__never"
    );
    while !project.read_so_far("log").contains("notifications/cancelled") {
        client.request("ping", json!({}));
    }
    assert_eq!(client.text("mcp__s__pid", json!({})), pid, "the server was not restarted");
    client.end();
}

/// What is denied now is denied at once, however long the new process takes.
#[test]
fn the_old_connection_serves_under_the_new_filters_until_the_new_one_is_ready() {
    let project = Project::new("");
    let gate = project.pipe("gate");
    let with = |script: Value, more: Value| config(&[scripted("s", &script, eager(more))], json!({}));
    let log = project.path("log");
    project.write("config.yml", &with(json!({ "tools": ["pid", "x"], "log": log }), json!({})));
    let mut client = Client::start(&project, &[]);
    let pid = client.text("mcp__s__pid", json!({}));
    let new = json!({ "tools": ["pid", "x"], "gate": gate });
    project.replace("config.yml", &with(new, json!({ "tools": { "exclude": ["x"] } })));
    reloaded(&client, 2);
    assert_eq!(client.error("tools/call", json!({ "name": "mcp__s__x" }))["message"], "unknown tool: mcp__s__x");
    assert_eq!(client.names(), ["mcp__s__pid"]);
    assert_eq!(client.text("mcp__s__pid", json!({})), pid);
    release(&gate);
    while client.text("mcp__s__pid", json!({})) == pid {}
    client.end();
    assert!(!project.read("log").contains(r#""name":"x""#), "{}", project.read("log"));
}

#[test]
fn a_changed_server_that_does_not_start_is_failed_with_the_cause() {
    for (script, cause) in [
        (json!({ "exit": 3, "stderr": "no such oven" }), "no such oven"),
        (json!({ "deaf": true }), "was not ready within 1 s"),
    ] {
        does_not_start(&script, cause);
    }
}

fn does_not_start(script: &Value, cause: &str) {
    let project = Project::new("");
    let with = |script: &Value| config(&[scripted("s", script, eager(json!({ "timeout_seconds": 1 })))], json!({}));
    project.write("config.yml", &with(&json!({ "tools": ["pid"], "log": project.path("log") })));
    let mut client = Client::start(&project, &[]);
    let pid = client.text("mcp__s__pid", json!({}));
    project.replace("config.yml", &with(script));
    client.logged("server.connect_failed: s: ", 0);
    let mut told = client.call("mcp__s__pid", json!({}))["content"][0]["text"].clone();
    while told == pid.as_str() {
        told = client.call("mcp__s__pid", json!({}))["content"][0]["text"].clone();
    }
    let told = told.as_str().unwrap();
    assert!(told.starts_with("the server s is failed: ") && told.contains(cause), "{told}");
    // The file is the truth: what it no longer says doesn't run.
    while !project.read("log").ends_with("end of input\n") {
        client.request("ping", json!({}));
    }
    let with = |script: Value| with(&script);
    // Mended, it works again.
    project.replace("config.yml", &with(json!({ "tools": ["pid"], "log": "/dev/null" })));
    client.logged("server.connected: s", client.mark());
    while client.call("mcp__s__pid", json!({}))["isError"] == true {}
    client.end();
}

/// What it owns is free whenever the next one starts.
#[test]
fn stop_first_never_runs_two_at_once() {
    let project = Project::new("");
    let with = |number: u32| {
        let script =
            json!({ "tools": ["pid"], "log": project.path("log"), "owns": project.path("owned"), "number": number });
        config(&[scripted("s", &script, eager(json!({ "replace": "stop_first" })))], json!({}))
    };
    let without = config(&[], json!({}));
    project.write("config.yml", &with(0));
    let mut client = Client::start(&project, &["--no-watch"]);
    client.text("mcp__s__pid", json!({}));
    let mut generation = 1;
    let mut change = |client: &Client, text: &str| {
        project.replace("config.yml", text);
        client.signal(Signal::SIGHUP);
        generation += 1;
        reloaded(client, generation);
    };
    for number in 1..5 {
        change(&client, &with(number));
        client.text("mcp__s__pid", json!({}));
        // Twice in a row, and gone and back.
        change(&client, &with(number + 100));
        change(&client, &with(number + 200));
        change(&client, &without);
        change(&client, &with(number + 300));
        while client.request("tools/list", json!({}))["tools"] == json!([]) {}
        client.text("mcp__s__pid", json!({}));
    }
    client.end();
    let log = project.read("log");
    assert!(!log.contains("taken"), "{log}");
    assert!(log.lines().filter(|line| line.starts_with("start ")).count() >= 9, "{log}");
}

/// 200 reloads under concurrent calls: none is lost, none is made twice, and what didn't change keeps running.
#[test]
fn two_hundred_reloads_lose_no_call() {
    const ROUNDS: u64 = 200;
    let project = Project::new("");
    let with = |round: u64| {
        let log = |name: &str| json!({ "tools": ["echo", "pid", "x"], "log": project.path(name) });
        let filter = json!({ "tools": { "exclude": if round.is_multiple_of(2) { vec!["x"] } else { vec![] } } });
        let mut servers = vec![scripted("same", &log("same"), eager(filter))];
        // Every tenth round another one, with calls in flight.
        let changed = json!({ "env": { "ROUND": (round / 10).to_string() } });
        servers.push(scripted("changed", &log("changed"), eager(changed)));
        if round.is_multiple_of(3) {
            servers.push(json!({ "name": "comes", "command": "mcplan", "args": ["demo-server"], "enabled": false }));
        }
        config(&servers, json!({ "prompt": { "budget": { "chars": 1000 + round } } }))
    };
    project.write("config.yml", &with(0));
    let mut client = Client::start(&project, &["--no-watch"]);
    let pid = client.text("mcp__same__pid", json!({}));
    client.text("mcp__changed__pid", json!({}));
    let mut calls = Vec::new();
    for round in 1..=ROUNDS {
        for server in ["same", "changed"] {
            let arguments = json!({ "call": format!("{server}-{round}") });
            let id =
                client.send("tools/call", json!({ "name": format!("mcp__{server}__echo"), "arguments": arguments }));
            calls.push((id, server, arguments.to_string()));
        }
        project.replace("config.yml", &with(round));
        client.signal(Signal::SIGHUP);
        reloaded(&client, round + 1);
    }
    for (id, _, arguments) in &calls {
        let answer = client.answer(*id);
        assert_eq!(answer["result"]["content"][0]["text"], arguments.as_str(), "{answer}");
    }
    assert_eq!(client.text("mcp__same__pid", json!({})), pid);
    let log = client.end();
    assert!(!log.contains("ERROR") && !log.contains("panic"), "{log}");
    for (_, server, arguments) in &calls {
        let made = project.read(server).lines().filter(|line| line.contains(arguments.as_str())).count();
        assert_eq!(made, 1, "{server} {arguments}");
    }
    assert_eq!(count(&project.read("same"), "start "), 1);
}
