//! Hot reload in numbers: of many servers only the changed one is touched, and many reloads under load lose no call.

#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::collections::{BTreeSet, HashMap, VecDeque};

use serde_json::{Value, json};
use support::client::{Client, Era};
use support::stage::{WAYS, descendants, kind};
use support::{Project, config, demo, remote::Remote, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

fn reloaded(client: &Client, generation: u64) -> String {
    client.logged(&format!("plan.reloaded: generation {generation},"), 0)
}

#[test]
fn of_fifty_servers_one_is_changed_and_the_others_keep_their_processes() {
    let with = |groups: [&str; 50]| {
        let servers: Vec<_> = groups
            .iter()
            .enumerate()
            .map(|(at, group)| demo(&format!("s{at}"), &["--group", group], json!({})))
            .collect();
        config(&servers, json!({}))
    };
    let mut groups = ["dates"; 50];
    let project = Project::new(&with(groups));
    let mut client = Client::start(&project, &[]);
    client.names();
    // The guard's child is the executor, and the rest are the servers.
    let processes = |client: &Client| descendants(client.pid()).into_iter().collect::<BTreeSet<_>>();
    let before = processes(&client);
    assert_eq!(before.len(), 51);
    groups[17] = "math";
    project.replace("config.yml", &with(groups));
    assert!(reloaded(&client, 2).contains("s17"), "{}", client.log());
    client.logged("server.disconnected: s17: ", 0);
    let ran = project.run(&["reload"]);
    assert!(ran.code == 0 && ran.out.starts_with("nothing changed"), "{ran:?}");
    assert!(client.text("mcp__s17__calculate", json!({ "expression": "6*7" })).contains("42"));
    let mut after = processes(&client);
    while after.len() != 51 {
        // The old one of the two is on its way out.
        client.request("ping", json!({}));
        after = processes(&client);
    }
    assert_eq!((before.difference(&after).count(), after.difference(&before).count()), (1, 1));
    assert_eq!(client.end().matches("server.connected: ").count(), 51);
}

/// Calls in flight over a reload at the most; a round adds fifteen.
const FLIGHT: usize = 100;

/// Each call has a number that no other one has, and every server notes what it serves.
#[test]
fn reloads_under_load_lose_and_double_no_call() {
    let rounds: u64 = std::env::var("MCPLAN_RELOADS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(25);
    let project = Project::new("");
    let remotes: Vec<_> = WAYS
        .iter()
        .filter_map(|way| Some((*way, Remote::with(kind(way)?, &["echo", "fault", "x"], json!({})))))
        .collect();
    let with = |round: u64| {
        // In turn they are changed, and filtered otherwise, which touches no connection.
        let of = |at: u64| {
            let exclude: &[&str] = if (round + at).is_multiple_of(2) { &["x"] } else { &[] };
            json!({ "defer": false, "tools": { "exclude": exclude } })
        };
        let mut servers: Vec<Value> = remotes
            .iter()
            .zip(0..)
            .map(|((way, remote), at)| {
                let mut more = of(at);
                more["headers"] = json!({ "X-Round": ((round + at) / 4).to_string() });
                remote.entry(way, more)
            })
            .collect();
        let mut more = of(9);
        more["env"] = json!({ "ROUND": round.div_ceil(4).to_string() });
        servers.push(scripted("stdio", &json!({ "tools": ["echo", "fault", "x"], "log": project.path("log") }), more));
        config(&servers, json!({}))
    };
    project.write("config.yml", &with(0));
    let mut command = project.command(&["run", "--stdio", "--no-watch"]);
    command.env("TEAM", "bakers");
    let mut client = Client::spawn(command, Era::Session);
    client.initialize("2025-11-25");
    client.names();
    let (mut calls, mut told) = (VecDeque::new(), HashMap::new());
    let mut land = |client: &mut Client, (id, way, nonce): (u64, &'static str, String)| {
        let answer = client.answer(id);
        let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned();
        told.insert((way, nonce), (text, answer["result"]["isError"] == true));
    };
    for round in 1..=rounds {
        for way in WAYS {
            for part in 0..3 {
                let nonce = format!("{way}-{round}-{part}.");
                // The last one is still on its way when the reload comes.
                let (tool, late) = if part < 2 { ("echo", 0) } else { ("fault", 100) };
                let arguments = json!({ "nonce": nonce, "do": { "late": late } });
                let id =
                    client.send("tools/call", json!({ "name": format!("mcp__{way}__{tool}"), "arguments": arguments }));
                calls.push_back((id, way, nonce));
            }
        }
        project.replace("config.yml", &with(round));
        client.signal(nix::sys::signal::Signal::SIGHUP);
        reloaded(&client, round + 1);
        // A session may have so many in flight.
        while calls.len() > FLIGHT {
            land(&mut client, calls.pop_front().unwrap());
        }
    }
    calls.into_iter().for_each(|call| land(&mut client, call));
    client.request("ping", json!({}));
    assert!(!client.has_heard("\"result\""), "a second answer");
    let log = client.end();
    assert!(!log.contains("panicked"), "{log}");
    let served: HashMap<&str, String> = remotes
        .iter()
        .map(|(way, remote)| (*way, remote.seen("tools/call").iter().map(Value::to_string).collect()))
        .chain([("stdio", project.read("log"))])
        .collect();
    for ((way, nonce), (text, is_error)) in told {
        let times = served[way].matches(&nonce).count();
        assert!(times == 1 && !is_error && text.contains(&nonce), "{nonce}, made {times} times: {text}\n{log}");
    }
}
