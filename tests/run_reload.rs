//! Hot reload through real files: every way in which files change, and what happens to servers and calls meanwhile.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::path::Path;

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

/// A config whose one server lists what this filter leaves of `a`, `b` and `pid`.
fn including(tools: &[&str]) -> String {
    let entry = eager(json!({ "tools": { "include": tools } }));
    config(&[scripted("s", &json!({ "tools": ["a", "b", "pid"] }), entry)], json!({}))
}

fn reloaded(client: &Client, generation: u64) -> String {
    client.logged(&format!("plan.reloaded: generation {generation},"), 0)
}

/// How often the plan changed, which must be as often as expected.
fn count(log: &str, event: &str) -> usize {
    log.lines().filter(|line| line.contains(event)).count()
}

fn touch(path: &Path) {
    let file = std::fs::File::options().append(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now()).unwrap();
}

#[test]
fn each_way_of_writing_is_one_reload_and_a_touch_is_none() {
    let project = Project::new(&including(&["a"]));
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), ["mcp__s__a"]);
    let main = project.path("config.yml");
    touch(&main);
    // As editors do: a new file in the old one's place.
    project.replace("config.yml", &including(&["b"]));
    assert!(reloaded(&client, 2).ends_with("no server touched"));
    client.notice("notifications/tools/list_changed");
    assert_eq!(client.names(), ["mcp__s__b"]);
    touch(&main);
    // In place.
    project.write("config.yml", &including(&["a", "b"]));
    reloaded(&client, 3);
    assert_eq!(client.names_when(|names| names.len() == 2), ["mcp__s__a", "mcp__s__b"]);
    // A comment is no change.
    project.write("config.yml", &format!("# hello\n{}", including(&["a", "b"])));
    // Deleted and made again.
    std::fs::remove_file(&main).unwrap();
    project.write("config.yml", &including(&["pid"]));
    reloaded(&client, 4);
    assert_eq!(client.names_when(|names| names.len() == 1), ["mcp__s__pid"]);
    let log = client.end();
    assert_eq!(count(&log, "plan.reloaded"), 3, "{log}");
    assert_eq!(count(&log, "server.connected"), 1, "{log}");
}

/// REL-02: the link is retargeted, to a directory that nobody watches yet.
#[test]
fn a_retargeted_link_is_noticed_and_its_new_target_followed() {
    let project = Project::new("");
    for (name, tools) in [("one", ["a"]), ("two", ["b"])] {
        std::fs::create_dir(project.path(name)).unwrap();
        project.write(&format!("{name}/real.yml"), &including(&tools));
    }
    let main = project.path("config.yml");
    std::fs::remove_file(&main).unwrap();
    std::os::unix::fs::symlink("one/real.yml", &main).unwrap();
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), ["mcp__s__a"]);
    std::os::unix::fs::symlink("two/real.yml", project.path("link")).unwrap();
    std::fs::rename(project.path("link"), &main).unwrap();
    reloaded(&client, 2);
    assert_eq!(client.names_when(|names| names == ["mcp__s__b"]).len(), 1);
    project.write("two/real.yml", &including(&["a", "b"]));
    reloaded(&client, 3);
    assert_eq!(client.names_when(|names| names.len() == 2).len(), 2);
    assert_eq!(count(&client.end(), "plan.reloaded"), 2);
}

/// How Kubernetes swaps a ConfigMap: files are links into `..data`, which is a link to a directory that is replaced.
#[test]
fn a_swapped_config_map_is_one_reload() {
    let project = Project::new("");
    std::fs::remove_file(project.path("config.yml")).unwrap();
    let swap = |name: &str, tools: &[&str]| {
        std::fs::create_dir(project.path(name)).unwrap();
        project.write(&format!("{name}/config.yml"), &including(tools));
        std::os::unix::fs::symlink(name, project.path("..data_tmp")).unwrap();
        std::fs::rename(project.path("..data_tmp"), project.path("..data")).unwrap();
    };
    swap("..1", &["a"]);
    std::os::unix::fs::symlink("..data/config.yml", project.path("config.yml")).unwrap();
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), ["mcp__s__a"]);
    for (number, tools) in [(2, &["b"][..]), (3, &["a", "b"]), (4, &["pid"])] {
        swap(&format!("..{number}"), tools);
        std::fs::remove_dir_all(project.path(&format!("..{}", number - 1))).unwrap();
        reloaded(&client, number);
        assert_eq!(client.names_when(|names| names.len() == tools.len()).len(), tools.len());
    }
    let log = client.end();
    assert_eq!(count(&log, "plan.reloaded"), 3, "{log}");
    assert_eq!(count(&log, "plan.rejected"), 0, "{log}");
}

/// REL-03: a file that doesn't compile changes nothing, and is reported once.
#[test]
fn half_a_file_an_empty_one_and_a_wrong_one_change_nothing() {
    let project = Project::new(&including(&["a", "pid"]));
    let mut client = Client::start(&project, &[]);
    let pid = client.text("mcp__s__pid", json!({}));
    let whole = including(&["b", "pid"]);
    let mut mark = client.mark();
    for (text, report) in [
        (&whole[..whole.len() / 2], "error["),
        ("", "error[empty-file]"),
        ("mcp_servers: [{ name: s, command: x, wrong: 1 }]\n", "unknown-key"),
    ] {
        project.write("config.yml", text);
        client.logged("plan.rejected: the old plan serves on", mark);
        client.logged(report, mark);
        // Once more the same is no news.
        touch(&project.path("config.yml"));
        assert_eq!(client.text("mcp__s__pid", json!({})), pid);
        assert_eq!(client.names(), ["mcp__s__a", "mcp__s__pid"]);
        mark = client.mark();
    }
    std::fs::remove_file(project.path("config.yml")).unwrap();
    client.logged("config.yml can't be read", mark);
    project.write("config.yml", &whole);
    reloaded(&client, 2);
    assert_eq!(client.names_when(|names| names[0] == "mcp__s__b").len(), 2);
    assert_eq!(client.text("mcp__s__pid", json!({})), pid);
    let log = client.end();
    assert_eq!(count(&log, "plan.rejected"), 4, "{log}");
    assert_eq!(count(&log, "plan.reloaded"), 1, "{log}");
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
        while !project.read(server).contains(r#""wait""#) {
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

#[test]
fn a_call_in_flight_that_the_new_plan_denies_is_stopped() {
    let project = Project::new("");
    let script = json!({ "tools": ["never", "pid"], "log": project.path("log") });
    let with = |more| config(&[scripted("s", &script, eager(json!({})))], more);
    project.write("config.yml", &with(json!({})));
    let mut client = Client::start(&project, &[]);
    let pid = client.text("mcp__s__pid", json!({}));
    let id = client.send("tools/call", json!({ "name": "mcp__s__never" }));
    while !project.read("log").contains(r#""never""#) {
        client.request("ping", json!({}));
    }
    project.replace("config.yml", &with(json!({ "mcp": { "denylist": ["never"] } })));
    let answer = client.answer(id);
    assert_eq!(answer["result"]["content"][0]["text"], "stopped: a new plan no longer offers this tool");
    assert_eq!(
        client.error("tools/call", json!({ "name": "mcp__s__never" }))["message"],
        "unknown tool: mcp__s__never"
    );
    while !project.read("log").contains("notifications/cancelled") {
        client.request("ping", json!({}));
    }
    assert_eq!(client.text("mcp__s__pid", json!({})), pid, "the server was not restarted");
    client.end();
}

#[test]
fn a_changed_template_changes_the_block() {
    let entry = scripted("s", &json!({ "tools": ["a"] }), json!({}));
    let project = Project::new(&config(&[entry], json!({ "prompt": { "template": "block.j2" } })));
    project.write("block.j2", "first: {{ total }}");
    let mut client = Client::stateless(&project, &[]);
    client.names();
    client.text("search_mcp_tools", json!({ "query": "a" }));
    assert_eq!(client.request("server/discover", json!({}))["instructions"], "first: 1");
    project.write("block.j2", "second: {{ nothing_of_that_name }}");
    client.logged("plan.rejected", 0);
    client.logged("nothing_of_that_name", 0);
    assert_eq!(client.request("server/discover", json!({}))["instructions"], "first: 1");
    project.write("block.j2", "");
    client.logged("block.j2 is empty", 0);
    project.write("block.j2", "second: {{ total }}");
    reloaded(&client, 2);
    assert_eq!(client.request("server/discover", json!({}))["instructions"], "second: 1");
    client.end();
}

#[test]
fn a_changed_server_that_does_not_start_is_failed_with_the_cause() {
    let project = Project::new("");
    let with = |script: Value| config(&[scripted("s", &script, eager(json!({})))], json!({}));
    project.write("config.yml", &with(json!({ "tools": ["pid"] })));
    let mut client = Client::start(&project, &[]);
    let pid = client.text("mcp__s__pid", json!({}));
    project.replace("config.yml", &with(json!({ "exit": 3, "stderr": "no such oven" })));
    client.logged("server.connect_failed: s: ", 0);
    let mut told = client.call("mcp__s__pid", json!({}))["content"][0]["text"].clone();
    while told == pid.as_str() {
        told = client.call("mcp__s__pid", json!({}))["content"][0]["text"].clone();
    }
    let told = told.as_str().unwrap();
    assert!(told.starts_with("the server s is failed: ") && told.contains("no such oven"), "{told}");
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

/// A new lock counts without a restart: what it says of a server that is down is listed.
#[test]
fn a_new_lock_is_followed_too() {
    let project = Project::new("");
    let with = |script: Value| config(&[scripted("s", &script, eager(json!({})))], json!({}));
    project.write("config.yml", &with(json!({ "tools": ["a"] })));
    let lock = project.lock();
    std::fs::remove_file(project.path("config.lock.json")).unwrap();
    project.write("config.yml", &with(json!({ "exit": 1 })));
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), [] as [&str; 0]);
    project.replace("config.lock.json", &lock[..lock.len() / 2]);
    client.logged("plan.rejected", 0);
    client.logged("the lock can't be read", 0);
    project.replace("config.lock.json", &lock);
    assert!(reloaded(&client, 2).ends_with("no server touched"));
    client.logged("lock-stale: ", 0);
    assert_eq!(client.names_when(|names| names.len() == 1), ["mcp__s__a"]);
    client.end();
}

#[test]
fn without_a_watch_only_sighup_reads_the_files() {
    let project = Project::new(&including(&["a"]));
    let mut client = Client::start(&project, &["--no-watch"]);
    assert_eq!(client.names(), ["mcp__s__a"]);
    project.replace("config.yml", "mcp_servers: {\n");
    client.signal(Signal::SIGHUP);
    client.logged("plan.rejected", 0);
    let mark = client.mark();
    // Asked again, it says so again.
    client.signal(Signal::SIGHUP);
    client.logged("plan.rejected", mark);
    project.replace("config.yml", &including(&["b"]));
    client.signal(Signal::SIGHUP);
    reloaded(&client, 2);
    assert_eq!(client.names_when(|names| names == ["mcp__s__b"]).len(), 1);
    client.end();
}

/// A directory in which something else is written all the time still gets its reload.
#[test]
fn a_busy_directory_does_not_hold_up_a_reload() {
    let project = Project::new(&including(&["a"]));
    let mut client = Client::start(&project, &[]);
    client.names();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let noisy = project.path("noise.log");
    let writer = std::thread::spawn(move || {
        // The wait is the noise's rhythm, nothing waits for it.
        while stopped.recv_timeout(std::time::Duration::from_millis(20)).is_err() {
            std::fs::write(&noisy, "x").unwrap();
        }
    });
    project.replace("config.yml", &including(&["b"]));
    reloaded(&client, 2);
    stop.send(()).unwrap();
    writer.join().unwrap();
    client.end();
}

/// 200 reloads under concurrent calls: none is lost, none is made twice, and what didn't change keeps running.
#[test]
fn two_hundred_reloads_lose_no_call() {
    const ROUNDS: u64 = 200;
    let project = Project::new("");
    let with = |round: u64| {
        let log = |name: &str| json!({ "tools": ["echo", "pid", "x"], "log": project.path(name) });
        let filter = json!({ "tools": { "exclude": if round % 2 == 0 { vec!["x"] } else { vec![] } } });
        let mut servers = vec![scripted("same", &log("same"), eager(filter))];
        // Every tenth round another one, with calls in flight.
        let changed = json!({ "env": { "ROUND": (round / 10).to_string() } });
        servers.push(scripted("changed", &log("changed"), eager(changed)));
        if round % 3 == 0 {
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
