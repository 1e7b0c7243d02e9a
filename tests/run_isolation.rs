//! One server's trouble is its own: dead, slow, silent and strange servers beside good ones, and what a caller is told.

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

fn project(servers: &[Value]) -> Project {
    Project::new(&config(servers, json!({})))
}

fn starts(project: &Project, log: &str) -> Vec<String> {
    project.read_so_far(log).lines().filter_map(|line| line.strip_prefix("start ")).map(str::to_owned).collect()
}

#[test]
fn initialize_is_answered_and_good_servers_work_while_others_fail_hang_or_are_not_there() {
    let servers = [
        scripted("good", &json!({ "tools": ["echo"] }), eager(json!({}))),
        scripted("dead", &json!({ "exit": 3, "stderr": "cannot find the moon" }), eager(json!({}))),
        scripted("deaf", &json!({ "deaf": true }), eager(json!({ "timeout_seconds": 1 }))),
        json!({ "name": "absent", "command": "no-such-program-anywhere" }),
        json!({ "name": "closed", "url": "http://127.0.0.1:9/mcp", "reconnect": { "attempts": 1, "initial_seconds": 0.1, "jitter_seconds": 0 } }),
        scripted("unset", &json!({}), json!({ "env": { "X": "${NOT_SET_ANYWHERE}" } })),
    ];
    let project = project(&servers);
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.text("mcp__good__echo", json!({ "a": 1 })), r#"{"a":1}"#);
    let names = client.names();
    assert_eq!(names, ["search_mcp_tools", "call_mcp_tool", "mcp__good__echo"]);
    for (server, cause) in [
        ("dead", "ended (exit status 3)"),
        ("dead", "cannot find the moon"),
        ("deaf", "was not ready within 1 s"),
        ("absent", "no-such-program-anywhere"),
        ("closed", "Connection refused"),
        ("unset", "NOT_SET_ANYWHERE"),
    ] {
        let line = client.logged(&format!("server.connect_failed: {server}: "), 0);
        assert!(line.contains(cause), "{server}: {line}");
    }
    client.end();
}

/// Boot doesn't wait: initialize and calls of others are answered while a server is held at its handshake.
#[test]
fn a_slow_server_is_waited_for_by_a_list_and_by_its_own_calls_alone() {
    let project = Project::new("");
    let gate = project.pipe("gate");
    let servers = [
        scripted("slow", &json!({ "tools": ["echo"], "gate": gate }), eager(json!({}))),
        scripted("fast", &json!({ "tools": ["echo"] }), eager(json!({}))),
    ];
    project.write("config.yml", &config(&servers, json!({})));
    let mut client = Client::start(&project, &[]);
    client.logged("server.connected: fast", 0);
    assert_eq!(client.text("mcp__fast__echo", json!({ "now": 1 })), r#"{"now":1}"#);
    let list = client.send("tools/list", json!({}));
    let call = client.send("tools/call", json!({ "name": "mcp__slow__echo", "arguments": { "x": 2 } }));
    client.request("ping", json!({}));
    assert_eq!(client.waiting(), 0, "both wait");
    release(&gate);
    let called = client.answer(call);
    assert_eq!(called["result"]["content"][0]["text"], r#"{"x":2}"#, "{called}\n{}", client.log());
    let list = client.answer(list);
    assert_eq!(list["result"]["tools"].as_array().unwrap().len(), 2, "config order, not order of arrival: {list}");
    assert_eq!(list["result"]["tools"][0]["name"], "mcp__slow__echo");
    client.end();
}

/// Clients that list once: the first list waits, at most `timeout_seconds`; then nothing waits.
#[test]
fn a_list_waits_no_longer_than_the_server_may_take_and_only_once() {
    let project = Project::new("");
    let gate = project.pipe("gate");
    // One after the other they would take 8 × 2 s; a list may take 2.
    let mut servers: Vec<_> = (0..8)
        .map(|number| {
            scripted(&format!("deaf{number}"), &json!({ "deaf": true }), eager(json!({ "timeout_seconds": 2 })))
        })
        .collect();
    servers.push(scripted("late", &json!({ "tools": ["echo"], "gate": gate }), eager(json!({ "timeout_seconds": 2 }))));
    let more = json!({ "mcp": { "concurrency": { "stdio": 1 } } });
    project.write("config.yml", &config(&servers, more));
    let mut client = Client::start(&project, &[]);
    let began = std::time::Instant::now();
    assert_eq!(client.names(), [] as [&str; 0]);
    assert!(began.elapsed().as_secs_f64() < 6.0, "{:?}", began.elapsed());
    let again = std::time::Instant::now();
    assert_eq!(client.names(), [] as [&str; 0]);
    assert!(again.elapsed().as_secs_f64() < 1.0, "{:?}", again.elapsed());
    let log = client.end();
    assert!(!log.contains("server.connected"), "{log}");
}

/// One attempt is waited for: a server that comes back in an hour keeps nobody from listing.
#[test]
fn a_list_waits_for_no_second_attempt() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let later = json!({ "initial_seconds": 3600, "max_seconds": 3600 });
    let servers = [
        json!({ "name": "web", "url": format!("http://{closed}/mcp"), "timeout_seconds": 600, "reconnect": later }),
        scripted("good", &json!({ "tools": ["echo"] }), eager(json!({}))),
    ];
    let project = project(&servers);
    let mut client = Client::start(&project, &[]);
    assert!(client.names().contains(&"mcp__good__echo".to_owned()));
    client.logged("server.reconnecting: web: attempt 2 in ", 0);
    client.end();
}

#[test]
fn a_server_that_dies_in_a_call_is_named_with_its_last_words() {
    let servers = [
        scripted("oven", &json!({ "tools": ["die", "echo"] }), eager(json!({}))),
        scripted("other", &json!({ "tools": ["pid"] }), eager(json!({}))),
    ];
    let project = project(&servers);
    let mut client = Client::start(&project, &[]);
    let pid = client.text("mcp__other__pid", json!({}));
    let told = client.failure("mcp__oven__die", json!({}));
    assert!(told.contains("oven") && told.contains("exit status 7") && told.contains("out of flour"), "{told}");
    client.logged("server.disconnected: oven: ", 0);
    // Down until a person acts: the list stays the same, a call says why.
    let told = client.failure("mcp__oven__echo", json!({}));
    assert!(told.starts_with("the server oven is failed: the process ended (exit status 7)"), "{told}");
    assert!(told.contains("out of flour"), "{told}");
    assert_eq!(client.names(), ["mcp__oven__die", "mcp__oven__echo", "mcp__other__pid"]);
    assert_eq!(client.text("mcp__other__pid", json!({})), pid);
    client.end();
}

#[test]
fn on_call_starts_a_dead_server_again_for_whoever_calls() {
    let project = Project::new("");
    let script = json!({ "tools": ["die", "pid"], "log": project.path("log") });
    // A neighbour that comes and goes changes the view all the time, which is nobody else's business.
    let busy = json!({ "name": "busy", "url": "http://127.0.0.1:9/mcp",
                       "reconnect": { "attempts": 0, "initial_seconds": 0.01, "max_seconds": 0.01, "jitter_seconds": 0 } });
    let servers = [scripted("s", &script, eager(json!({ "restart": "on_call" }))), busy];
    project.write("config.yml", &config(&servers, json!({})));
    let mut client = Client::start(&project, &[]);
    let mut pids = vec![client.text("mcp__s__pid", json!({}))];
    for _ in 0..10 {
        let mark = client.mark();
        client.failure("mcp__s__die", json!({}));
        client.logged("server.connect_failed: s: ", mark);
        let calls: Vec<_> =
            (0..5).map(|_| client.send("tools/call", json!({ "name": "mcp__s__pid", "arguments": {} }))).collect();
        let answers: Vec<_> =
            calls.into_iter().map(|id| client.answer(id)["result"]["content"][0]["text"].clone()).collect();
        assert!(answers.iter().all(|answer| *answer == answers[0]), "one process for all: {answers:?}");
        pids.push(answers[0].as_str().unwrap().to_owned());
    }
    client.end();
    assert_eq!(starts(&project, "log"), pids);
}

#[test]
fn on_failure_and_required_come_back_by_themselves() {
    for more in [json!({ "restart": "on_failure" }), json!({ "required": true })] {
        let project = Project::new("");
        let (entry, backoff) =
            (eager(more), json!({ "mcp": { "reconnect": { "initial_seconds": 0.05, "jitter_seconds": 0 } } }));
        let script = json!({ "tools": ["die", "pid"], "log": project.path("log") });
        project.write("config.yml", &config(&[scripted("s", &script, entry)], backoff));
        let mut client = Client::start(&project, &[]);
        let first = client.text("mcp__s__pid", json!({}));
        let mark = client.mark();
        client.failure("mcp__s__die", json!({}));
        client.logged("server.reconnecting: s: attempt 2 in 0.1 s", mark);
        client.logged("server.connected: s", mark);
        let mut again = client.call("mcp__s__pid", json!({}))["content"][0]["text"].clone();
        while again.as_str().unwrap().starts_with("the server s is down and will be tried again: ") {
            again = client.call("mcp__s__pid", json!({}))["content"][0]["text"].clone();
        }
        assert!(again != first && again.as_str().unwrap().parse::<u32>().is_ok(), "{again}");
        client.end();
    }
}

/// LIF-05: which limit fired, and how to raise it.
#[test]
fn a_call_that_takes_too_long_says_which_limit_it_was() {
    let servers = [
        scripted("total", &json!({ "tools": ["never"] }), eager(json!({ "call_timeout_seconds": 0.2 }))),
        scripted("idle", &json!({ "tools": ["never"] }), eager(json!({ "idle_timeout_seconds": 0.2 }))),
    ];
    let project = project(&servers);
    let mut client = Client::start(&project, &[]);
    assert!(client.failure("mcp__total__never", json!({})).contains("call_timeout_seconds"));
    assert!(client.failure("mcp__idle__never", json!({})).contains("idle_timeout_seconds"));
    client.end();
}

/// With a lock, the list is there before anything is connected, and is the same bytes afterwards.
#[test]
fn a_locked_list_needs_no_connection_and_keeps_its_bytes() {
    let project = Project::new("");
    // Paths of this machine are locked as `~` and `.`, and compared so too.
    let description = format!("reads files of {} (1.50)", project.path("config.yml").parent().unwrap().display());
    let odd = json!({ "name": "odd", "description": description, "inputSchema": { "type": "object" } }).to_string();
    let spelled = odd.replace(r#"{"name":"odd","#, r#"{ "x": 1.50, "name" : "odd","#);
    let gate = project.pipe("gate");
    let with = |tools: Value, gated: bool| {
        let script = if gated { json!({ "tools": tools, "gate": gate }) } else { json!({ "tools": tools }) };
        config(
            &[scripted("s", &script, eager(json!({}))), scripted("t", &json!({ "tools": ["echo"] }), eager(json!({})))],
            json!({}),
        )
    };
    project.write("config.yml", &with(json!([spelled, "echo"]), false));
    project.lock();
    assert!(project.read("config.lock.json").contains("reads files of . (1.50)"));
    // The same server, spelled and ordered otherwise, held at its handshake.
    project.write("config.yml", &with(json!(["echo", odd.replace(r#"{"name""#, r#"{"x":1.5,"name""#)]), true));
    let mut client = Client::start(&project, &[]);
    let mut list = || {
        let id = client.send("tools/list", json!({}));
        client.raw_answer(id).replacen(&format!("\"id\":{id}"), "", 1)
    };
    let before = list();
    assert!(before.contains(r#"{"x":1.50,"name":"mcp__s__odd","description":"reads files of . (1.50)""#), "{before}");
    release(&gate);
    client.logged("server.connected: s", 0);
    client.logged("server.connected: t", 0);
    assert_eq!(client.text("mcp__s__echo", json!({})), "{}");
    let id = client.send("tools/list", json!({}));
    assert_eq!(client.raw_answer(id).replacen(&format!("\"id\":{id}"), "", 1), before);
    assert_eq!(client.notices("notifications/tools/list_changed"), 0);
    client.end();
}

/// TS-06: the same bytes whichever server connects first.
#[test]
fn the_order_of_connecting_shows_nowhere() {
    let project = Project::new("");
    let (a, b) = (project.pipe("a"), project.pipe("b"));
    let server = |name: &str, gate: &std::path::Path| {
        scripted(name, &json!({ "tools": ["z", "a", "same"], "gate": gate }), eager(json!({})))
    };
    let more = json!({ "mcp": { "naming": "{tool}" } });
    project.write("config.yml", &config(&[server("one", &a), server("two", &b)], more));
    let mut seen = Vec::new();
    for order in [[("one", &a), ("two", &b)], [("two", &b), ("one", &a)]] {
        let mut client = Client::start(&project, &[]);
        for (name, gate) in order {
            release(gate);
            client.logged(&format!("server.connected: {name}"), 0);
        }
        seen.push(client.tools());
        client.end();
    }
    assert_eq!(seen[0], seen[1]);
    assert_eq!(seen[0].len(), 6);
}

/// NAM-05: a name never changes its owner, so it isn't given before it is known whose it is.
#[test]
fn a_plain_name_waits_for_the_server_that_comes_first() {
    let project = Project::new("");
    let gate = project.pipe("gate");
    let says = |text: &str| json!({ "content": [{ "type": "text", "text": text }] }).to_string();
    let first = json!({ "tools": ["same", "a"], "gate": gate, "result": says("of one") });
    let second = json!({ "tools": ["same", "b"], "result": says("of two") });
    let servers = [scripted("one", &first, eager(json!({}))), scripted("two", &second, eager(json!({})))];
    project.write("config.yml", &config(&servers, json!({ "mcp": { "naming": "{tool}" } })));
    let mut client = Client::start(&project, &[]);
    client.logged("server.connected: two", 0);
    // Not known yet whose `same` is: the call waits, and is not the second one's.
    let asked = client.send("tools/call", json!({ "name": "same" }));
    release(&gate);
    assert_eq!(client.answer(asked)["result"]["content"][0]["text"], "of one");
    let names = client.names_when(|names| names.len() == 4);
    let other = names.iter().find(|name| name.starts_with("same_")).unwrap();
    assert_eq!(client.text(other, json!({})), "of two", "{names:?}");
    client.end();
}

#[test]
fn one_bad_tool_is_left_out_alone() {
    let bad = [
        r#"{"name":"string","inputSchema":{"type":"string"}}"#,
        r#"{"name":"null","inputSchema":null}"#,
        r#"{"name":"network","inputSchema":{"type":"object","properties":{"a":{"$$ref":"http://127.0.0.1:9/s"}}}}"#,
        r#"{"inputSchema":{"type":"object"}}"#,
        r#"{"name":"echo","description":"a second one","inputSchema":{"type":"object"}}"#,
        r#"{"name":"list","inputSchema":[]}"#,
        r#"{"name":"nothing"}"#,
    ];
    let deep = format!(
        r#"{{"name":"deep","inputSchema":{{"type":"object","allOf":{}1{}}}}}"#,
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let tools: Vec<_> = ["echo", &deep].into_iter().chain(bad).collect();
    let project = project(&[scripted("s", &json!({ "tools": tools }), eager(json!({})))]);
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), ["mcp__s__echo"]);
    assert_eq!(client.text("mcp__s__echo", json!({})), "{}");
    let log = client.end();
    for reason in [
        "s: string: the root type",
        "s: null: the schema must",
        "s: network: a $ref",
        "s: (no name): missing field",
        "s: echo: the server lists this name twice",
        "s: list: the schema must",
        "s: nothing: ",
        "s: deep: ",
    ] {
        assert!(log.contains(&format!("tool.quarantined: {reason}")), "{reason}\n{log}");
    }
}

/// A tool that turns bad while it runs is told of like one that was bad from the start.
#[test]
fn a_tool_that_turns_bad_is_reported_when_the_list_is_read_again() {
    let project = project(&[scripted("s", &json!({ "tools": ["become", "x"] }), eager(json!({})))]);
    let mut client = Client::start(&project, &[]);
    client.names();
    client.text("mcp__s__become", json!({ "tools": ["become", r#"{"name":"x","inputSchema":[]}"#] }));
    client.logged("tool.quarantined: s: x: the schema must be an object", 0);
    assert_eq!(client.names_when(|names| names.len() == 1), ["mcp__s__become"]);
    client.end();
}

#[test]
fn noise_and_stderr_are_told_and_the_server_works() {
    let script = json!({ "tools": ["echo"], "noise": "Welcome!\u{1b}[2J to 1.0", "stderr": "warming up" });
    let project = project(&[scripted("s", &script, eager(json!({})))]);
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.text("mcp__s__echo", json!({})), "{}");
    client.logged("s: text on stdout that is no MCP message was skipped: Welcome!", 0);
    let line = client.logged("warming up", 0);
    assert!(line.contains("server=s"), "it says whose: {line}");
    let log = client.end();
    assert!(!log.contains('\u{1b}'), "what servers say can't drive a terminal: {log:?}");
}

#[test]
fn a_log_may_be_json_line_by_line() {
    let script = json!({ "tools": ["die"], "noise": "two\u{1b}[2J words", "stderr": "warming \"up\"" });
    let project = project(&[scripted("s", &script, eager(json!({})))]);
    let mut client = Client::start(&project, &["--log-format", "json"]);
    client.failure("mcp__s__die", json!({}));
    project.write("config.yml", "mcp_servers: 7");
    client.logged("plan.rejected", 0);
    let log = client.end();
    let lines: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let find = |text: &str| {
        let told = |line: &&Value| line["fields"]["message"].as_str().unwrap().contains(text);
        lines.iter().find(told).unwrap_or_else(|| panic!("{text}: {log}"))
    };
    assert!(lines.iter().all(|line| line["timestamp"].is_string()), "{log}");
    for (text, level) in
        [("server.connected: s", "INFO"), ("server.disconnected: s", "WARN"), ("plan.rejected: the old plan", "WARN")]
    {
        assert_eq!(find(text)["level"], level, "{text}");
    }
    assert_eq!(find("warming \"up\"")["fields"]["server"], "s");
}

#[test]
fn a_server_whose_variable_is_missing_is_not_started_and_shows_nothing() {
    let project = Project::new("");
    let script = json!({ "tools": ["echo"], "log": project.path("log") });
    let servers = [
        scripted("s", &script, eager(json!({ "when": { "env": ["MCPLAN_TEST_WANTED"] } }))),
        scripted("off", &script, eager(json!({ "enabled": false }))),
    ];
    project.write("config.yml", &config(&servers, json!({})));
    let mut wanted = project.command(&["lock"]);
    let locked = support::Ran::of(wanted.env("MCPLAN_TEST_WANTED", "1").output().unwrap());
    assert_eq!(locked.code, 0, "{locked:?}");
    std::fs::remove_file(project.path("log")).unwrap();
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), [] as [&str; 0]);
    let error = client.error("tools/call", json!({ "name": "mcp__s__echo", "arguments": {} }));
    assert_eq!(error["message"], "unknown tool: mcp__s__echo");
    client.end();
    assert!(!project.has("log"), "nothing was started");
}

#[test]
fn no_server_at_all_is_a_working_plan() {
    for text in ["mcp_servers: []\n", "mcp: { enabled: false }\nmcp_servers: [{ name: a, command: nothing }]\n"] {
        let project = Project::new(text);
        let mut client = Client::start(&project, &[]);
        assert_eq!(client.names(), [] as [&str; 0], "{text}");
        client.end();
    }
}

/// LIF: everything ends with the client, and with SIGTERM, whatever is going on.
#[test]
fn the_end_of_the_client_and_sigterm_end_everything() {
    use nix::sys::signal::Signal;
    for signal in [None, Some(Signal::SIGTERM), Some(Signal::SIGINT)] {
        let project = Project::new("");
        let gate = project.pipe("gate");
        let stubborn = "trap '' INT TERM HUP; echo start $$$$ > stubborn; while :; do sleep 1000; done";
        let servers = [
            scripted("busy", &json!({ "tools": ["never"], "log": project.path("busy") }), eager(json!({}))),
            scripted("held", &json!({ "gate": gate, "log": project.path("held") }), eager(json!({}))),
            scripted("deaf", &json!({ "deaf": true, "log": project.path("deaf") }), eager(json!({}))),
            json!({ "name": "stubborn", "command": "sh", "args": ["-c", stubborn] }),
        ];
        project.write("config.yml", &config(&servers, json!({})));
        let mut client = Client::start(&project, &[]);
        client.send("tools/call", json!({ "name": "mcp__busy__never", "arguments": {} }));
        let ready = || ["busy", "held", "deaf", "stubborn"].iter().all(|log| !starts(&project, log).is_empty());
        while !ready() {
            client.request("ping", json!({}));
        }
        let began = std::time::Instant::now();
        match signal {
            None => client.hang_up(),
            Some(signal) => client.signal(signal),
        }
        // Comes back only when no process holds our pipes any more: all descendants are gone.
        let (status, log) = client.ended();
        assert!(status.success(), "{signal:?}: {status}\n{log}");
        // Five seconds at the most, and what a busy machine takes.
        assert!(began.elapsed().as_secs() < 7, "{signal:?}: {:?}\n{log}", began.elapsed());
        // Of which a call in flight has half; whoever has hung up waits for none.
        let had_time = began.elapsed() >= std::time::Duration::from_millis(2400);
        assert!(had_time || signal.is_none(), "{signal:?}: {:?}\n{log}", began.elapsed());
        let busy = project.read("busy");
        assert!(busy.ends_with("end of input\n"), "it could leave by itself after {signal:?}: {busy}");
        for log in ["busy", "held", "deaf", "stubborn"] {
            for pid in starts(&project, log) {
                assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists(), "{log} lives after {signal:?}");
            }
        }
    }
}

#[test]
fn a_log_that_nobody_reads_stops_neither_calls_nor_the_end() {
    let project = project(&[scripted("good", &json!({ "tools": ["echo"] }), eager(json!({})))]);
    let unread = project.pipe("unread");
    let _reader = std::fs::File::options().read(true).write(true).open(&unread).unwrap();
    let plain = project.command(&["run", "--stdio"]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", r#"exec "$@" 2>unread"#, "sh"]).arg(plain.get_program()).args(plain.get_args());
    command.current_dir(plain.get_current_dir().unwrap());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let mut client = Client::spawn(command, support::client::Era::Session);
    client.initialize("2025-11-25");
    // Each of these is told in a line: many times what a pipe holds.
    for _ in 0..2_000 {
        client.error("tools/call", json!({ "name": "mcp__nobody__knows" }));
    }
    assert_eq!(client.text("mcp__good__echo", json!({ "a": 1 })), r#"{"a":1}"#);
    client.hang_up();
    assert!(client.ended().0.success());
}
