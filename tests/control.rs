//! The control socket and what is asked through it: `status`, `reconnect`, `reload` and `call` by a running executor.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::client::{Client, Era};
use support::{Project, Ran, config, demo, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

fn json_of(ran: &Ran) -> Value {
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// Fails as long as there is no file `flour`, then serves notes.
fn baker(project: &Project) -> Value {
    project
        .write("bake", "if [ -f flour ]; then exec \"$0\" demo-server --group notes; fi; echo no flour >&2; exit 3\n");
    json!({ "name": "baker", "command": "sh", "args": ["-c", ". ./bake", env!("CARGO_BIN_EXE_mcplan")] })
}

#[test]
fn status_shows_every_server_and_what_is_wrong() {
    let project = Project::new("");
    let odd = json!({ "name": "odd", "inputSchema": [] }).to_string();
    let script = json!({ "tools": ["bake", "taken", odd], "stderr": "the key is open-sesame-1234" });
    let servers = [
        scripted("oven", &script, json!({ "env": { "KEY": "${OVEN_KEY}" } })),
        baker(&project),
        demo("parked", &[], json!({ "enabled": false })),
        demo("unmet", &[], json!({ "when": { "env": ["NO_SUCH_VARIABLE"] } })),
    ];
    project.write("config.yml", &config(&servers, json!({ "mcp": { "reserved": ["mcp__oven__taken"] } })));
    let mut command = project.command(&["run", "--stdio"]);
    command.env("OVEN_KEY", "open-sesame-1234");
    let mut client = Client::spawn(command, Era::Session);
    client.initialize("2025-11-25");
    client.names();
    let ran = project.run(&["status", "-v"]);
    assert_eq!((ran.code, &*ran.err), (1, ""), "a server has failed: {ran:?}");
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80 || line.starts_with('/')), "{}", ran.out);
    assert!(!ran.out.contains("open-sesame"), "{}", ran.out);
    let here = project.path("").display().to_string();
    let here = here.trim_end_matches('/').to_owned();
    insta::with_settings!({ filters => vec![
        (&*here, "[DIR]"),
        (r"process \d+", "process [PID]"),
        (r"plan [0-9a-f]{12}", "plan [DIGEST]"),
        (r" +\d+ (ms|s)\b *", " [TIME] "),
        (r" +FOR", " FOR"),
    ]}, { insta::assert_snapshot!(ran.out) });
    assert!(!project.run(&["status"]).out.contains("stderr: "));

    let status = json_of(&project.run(&["status", "--json"]));
    assert_eq!(status["config"], project.path("config.yml").to_str().unwrap());
    assert_eq!(status["process"]["agent"], "lead");
    assert!((1..1000).contains(&status["process"]["tasks"].as_u64().unwrap()), "{status}");
    assert_eq!(status["plan"]["generation"], 1);
    assert_eq!((&status["plan"]["locked"], &status["plan"]["frozen"]), (&json!(false), &json!(false)));
    assert!(status["plan"]["digest"].as_str().unwrap().starts_with("sha256:"));
    assert_eq!((&status["mcp"]["enabled"], &status["mcp"]["tool_count"]), (&json!(true), &json!(1)));
    let of = |name: &str| {
        let servers = status["mcp"]["servers"].as_array().unwrap();
        servers.iter().find(|server| server["name"] == name).unwrap().clone()
    };
    let states: Vec<_> = ["oven", "baker", "parked", "unmet"].iter().map(|name| of(name)["state"].clone()).collect();
    assert_eq!(states, ["ready", "failed", "parked", "unmet"]);
    assert_eq!(of("oven")["quarantined"][0]["tool"], "odd");
    assert_eq!(of("oven")["reserved"], json!(["mcp__oven__taken"]));
    assert_eq!(of("oven")["stderr"], json!(["the key is ${OVEN_KEY}"]));
    assert_eq!(of("baker")["stderr"], json!(["no flour", "no flour"]));
    assert!(of("baker")["since"].as_f64().unwrap() >= 0.0);
    assert_eq!(status["rejected"], Value::Null);
    client.end();
}

/// What a flood leaves out of the log is not left out of what is kept.
#[test]
fn status_keeps_the_last_that_a_server_wrote_however_fast() {
    let flood = "i=0; while [ $$i -lt 3000 ]; do echo line $$i; i=$$((i+1)); done >&2; exec \"$0\" demo-server";
    let server = json!({ "name": "s", "command": "sh", "args": ["-c", flood, env!("CARGO_BIN_EXE_mcplan")] });
    let project = Project::new(&config(&[server], json!({})));
    let client = Client::start(&project, &[]);
    client.logged("server.connected: s", 0);
    let status = json_of(&project.run(&["status", "--json"]));
    let stderr = status["mcp"]["servers"][0]["stderr"].as_array().unwrap();
    assert_eq!(stderr.last().unwrap(), "line 2999");
    client.end();
}

/// What a lock makes of a server is told too, long after the log has scrolled away.
#[test]
fn status_tells_of_drift_and_of_what_is_locked() {
    let project = Project::new("");
    let tool = |description: &str| {
        json!({ "name": "t", "description": description, "inputSchema": { "type": "object" } }).to_string()
    };
    let with = |script: Value, more: Value| {
        config(&[scripted("s", &json!({ "tools_file": project.path("tool"), "tools": script }), json!({}))], more)
    };
    project.write("tool", &tool("reads a file"));
    project.write("config.yml", &with(json!(["u"]), json!({ "policy": { "on_drift": { "wording": "warn" } } })));
    project.lock();
    project.write("tool", &tool("reads a whole file"));
    let mut client = Client::start(&project, &["--locked"]);
    client.names();
    client.logged("server.drifted", 0);
    let ran = project.run(&["status"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    assert!(ran.out.contains(", locked, 2 tools\n") && ran.out.contains("\n    drifted: tool `t`: "), "{}", ran.out);
    client.end();
    project.write("config.yml", &with(json!(["u"]), json!({ "policy": { "on_drift": { "wording": "refuse" } } })));
    assert_eq!(project.run(&["lock", "--offline"]).code, 0);
    std::fs::remove_file(project.path("config.yml")).unwrap();
    let mut client = Client::start(&project, &["--frozen"]);
    client.names();
    client.logged("server.refused", 0);
    let status = json_of(&project.run(&["status", "--json"]));
    assert_eq!((&status["plan"]["locked"], &status["plan"]["frozen"]), (&json!(true), &json!(true)));
    let server = &status["mcp"]["servers"][0];
    assert!(server["refused"].as_str().unwrap().contains("other words"), "{server}");
    assert_eq!((&server["tool_count"], &server["hidden_count"]), (&json!(0), &json!(2)));
    client.end();
}

#[test]
fn without_an_executor_each_command_says_how_to_have_one() {
    let project = Project::new(&config(&[], json!({})));
    for args in [&["status"][..], &["reconnect", "s"], &["reload"], &["status", "--json"]] {
        let ran = project.run(args);
        assert_eq!((ran.code, &*ran.out), (2, ""), "{args:?}");
        let start = "'mcplan run --stdio', or start the client that does";
        assert_eq!(ran.err, format!("error: no executor runs for config.yml; start one with {start}\n"), "{args:?}");
    }
    let client = Client::start(&project, &[]);
    let ran = project.run(&["status"]);
    assert!(ran.code == 0 && ran.out.ends_with("\n\nno servers\n"), "{ran:?}");
    // Another profile is another plan.
    let other = project.run(&["status", "--profile", "prod"]);
    assert!(other.code == 2 && other.err.contains("--stdio --profile prod'"), "{other:?}");
    client.end();
    assert_eq!(project.sockets(), [] as [&str; 0], "an executor that ends takes its socket away");
    assert_eq!(project.run(&["status"]).code, 2);
}

#[test]
fn the_same_config_is_found_from_everywhere_and_the_socket_is_one_s_own() {
    let project = Project::new(&config(&[], json!({})));
    std::fs::create_dir(project.path("below")).unwrap();
    std::os::unix::fs::symlink(project.path(""), project.path("below/link")).unwrap();
    let client = Client::start(&project, &["-c", "./below/../config.yml"]);
    for path in ["config.yml", "below/link/config.yml", project.path("config.yml").to_str().unwrap()] {
        assert_eq!(project.run(&["status", "-c", path]).code, 0, "{path}");
    }
    let socket = project.socket();
    let mode = |path: &std::path::Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    client.end();
}

#[test]
fn of_several_executors_one_is_chosen() {
    let project = Project::new(&config(&[demo("d", &["--group", "server"], json!({}))], json!({})));
    let clients = [Client::start(&project, &[]), Client::start(&project, &["--agent", "lead"])];
    let ran = project.run(&["status"]);
    assert_eq!((ran.code, &*ran.out), (2, ""));
    let lines: Vec<_> = ran.err.lines().collect();
    assert_eq!(lines[0], "error: 2 executors run for config.yml; choose one with --pid");
    let pids: Vec<_> = lines[1..].iter().map(|line| line.trim().split(':').next().unwrap()).collect();
    assert_eq!(pids.len(), 2, "{ran:?}");
    let here = project.path("");
    let here = here.to_str().unwrap().trim_end_matches('/');
    assert!(lines[1..].iter().all(|line| line.contains(&format!(": serves lead in {here}, for "))), "{ran:?}");
    for pid in pids {
        let status = json_of(&project.run(&["status", "--json", "--pid", pid]));
        assert_eq!(status["process"]["pid"].to_string(), pid);
    }
    let none = project.run(&["status", "--pid", "1"]);
    assert_eq!((none.code, &*none.err), (2, "error: no executor with the process id 1 runs for config.yml\n"));
    // For a call it makes no difference which.
    assert_eq!(project.run(&["call", "mcp__d__echo", r#"{"text":"hi"}"#]).out, "hi\n");
    clients.into_iter().for_each(|client| drop(client.end()));
}

#[test]
fn reconnect_tells_what_came_of_it() {
    let project = Project::new("");
    let servers = [baker(&project), demo("parked", &[], json!({ "enabled": false }))];
    project.write("config.yml", &config(&servers, json!({})));
    let mut client = Client::start(&project, &[]);
    client.logged("server.connect_failed: baker", 0);
    let failed = project.run(&["reconnect", "baker"]);
    assert_eq!((failed.code, &*failed.out), (1, ""));
    let cause =
        "server `baker` ended (exit status 3) while waiting for the answer to `initialize`; its last words: no flour";
    assert_eq!(failed.err, format!("error: baker: failed: {cause}\n"));
    project.write("flour", "");
    let ready = project.run(&["reconnect", "baker"]);
    assert_eq!((ready.code, &*ready.out, &*ready.err), (0, "baker: ready, 7 tools\n", ""));
    assert_eq!(client.names_when(|names| names.len() == 2), ["search_mcp_tools", "call_mcp_tool"]);
    client.text("mcp__baker__write_note", json!({ "name": "n", "text": "x" }));
    // Ready already: it is started anew all the same.
    let again = project.run(&["reconnect", "baker", "--json"]);
    assert_eq!((again.code, &json_of(&again)["state"]), (0, &json!("ready")));
    assert!(
        client.call("mcp__baker__read_note", json!({ "name": "n" }))["isError"] == true,
        "a new process knows no note"
    );
    std::fs::remove_file(project.path("flour")).unwrap();
    assert_eq!(project.run(&["reconnect", "baker"]).code, 1);
    let parked = project.run(&["reconnect", "parked"]);
    assert_eq!(
        (parked.code, &*parked.err),
        (1, "error: parked: not connected, because it is disabled in the config\n")
    );
    let unknown = project.run(&["reconnect", "x"]);
    assert_eq!((unknown.code, &*unknown.err), (2, "error: there is no server `x`; the servers are baker, parked\n"));
    client.end();
}

/// A server that comes back by itself has failed once, and that is said at once.
#[test]
fn reconnect_does_not_wait_for_later_attempts() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let entry = json!({ "name": "web", "url": format!("http://{closed}/mcp"), "reconnect": { "initial_seconds": 3600, "max_seconds": 3600 } });
    let project = Project::new(&config(&[entry], json!({})));
    let client = Client::start(&project, &[]);
    let ran = project.run(&["reconnect", "web"]);
    assert!(
        ran.code == 1 && ran.err.starts_with("error: web: not ready, tried again soon: server `web` can't be reached"),
        "{ran:?}"
    );
    assert_eq!(project.run(&["status"]).code, 0, "it isn't given up");
    client.end();
}

#[test]
fn reload_swaps_waits_and_reports() {
    let project = Project::new("");
    let baker = baker(&project);
    let notes = demo("notes", &["--group", "notes"], json!({}));
    let math = |more: Value| demo("math", &["--group", "math"], more);
    project.write("config.yml", &config(&[notes.clone(), math(json!({}))], json!({})));
    let mut client = Client::start(&project, &["--no-watch"]);
    client.names();
    let same = project.run(&["reload"]);
    assert!(same.code == 0 && same.out.starts_with("nothing changed: generation 1, plan "), "{same:?}");
    // Removed, changed and added.
    project.write("flour", "");
    project.write("config.yml", &config(&[math(json!({ "env": { "X": "y" } })), baker.clone()], json!({})));
    let changed = project.run(&["reload"]);
    assert_eq!((changed.code, &*changed.err), (0, ""), "{changed:?}");
    let lines: Vec<_> = changed.out.lines().collect();
    assert!(
        lines[0].starts_with("generation 2, plan ") && lines[0].ends_with(": notes removed, math changed, baker added"),
        "{changed:?}"
    );
    assert_eq!(lines[1..], ["math: ready, 5 tools", "baker: ready, 7 tools"]);
    assert!(same.out.contains(&lines[0]["generation 2, plan ".len()..][..12]), "from the plan before: {changed:?}");
    // Both are there for the client without any more waiting.
    let found = client.text("search_mcp_tools", json!({ "query": "write a note" }));
    assert!(found.contains("mcp__baker__write_note"), "{found}");
    // A filter touches no server.
    project.write(
        "config.yml",
        &config(&[math(json!({ "env": { "X": "y" } })), baker.clone()], json!({ "mcp": { "denylist": ["*_note"] } })),
    );
    let filter = json_of(&project.run(&["reload", "--json"]));
    assert_eq!(
        (&filter["outcome"], &filter["changes"], &filter["plan"]["generation"]),
        (&json!("reloaded"), &json!([]), &json!(3))
    );
    // One that doesn't come up makes it exit 1; one that is switched off is as wanted.
    std::fs::remove_file(project.path("flour")).unwrap();
    let mut worse = baker;
    worse["env"] = json!({ "MORE": "1" });
    project.write("config.yml", &config(&[math(json!({ "enabled": false })), worse], json!({})));
    let failed = project.run(&["reload"]);
    assert_eq!(failed.code, 1, "{failed:?}");
    assert!(
        failed
            .out
            .ends_with(": math changed, baker changed\nmath: not connected, because it is disabled in the config\n"),
        "{failed:?}"
    );
    assert!(
        failed.err.starts_with("error: baker: failed: ") && failed.err.ends_with("its last words: no flour\n"),
        "{failed:?}"
    );
    client.end();
}

#[test]
fn a_file_that_is_refused_is_reported_by_reload_and_by_status() {
    let project = Project::new(&config(&[demo("d", &["--group", "server"], json!({}))], json!({})));
    let mut client = Client::start(&project, &["--no-watch"]);
    client.names();
    project.write("config.yml", "mcp_servers:\n  - { name: d, comand: x }\n");
    for _ in 0..2 {
        let ran = project.run(&["reload"]);
        assert_eq!((ran.code, &*ran.out), (1, ""), "asked again, it says so again");
        assert!(ran.err.starts_with("error[unknown-key]: unknown key `comand`"), "{ran:?}");
        assert!(
            ran.err.contains("\nerror: the files were refused: generation 1, plan ")
                && ran.err.ends_with(" serves on\n"),
            "{ran:?}"
        );
    }
    let status = project.run(&["status"]);
    assert_eq!(status.code, 0, "the old plan serves on");
    assert!(
        status.out.contains("\nthe files were refused ")
            && status.out.contains(" ago, and generation 1 serves on:\nerror[unknown-key]"),
        "{status:?}"
    );
    let json = json_of(&project.run(&["reload", "--json"]));
    assert_eq!(json["outcome"], "rejected");
    assert!(json["report"].as_str().unwrap().contains("did you mean `command`?"));
    project.write("config.yml", &config(&[demo("d", &["--group", "server"], json!({}))], json!({})));
    assert!(project.run(&["reload"]).out.starts_with("nothing changed"));
    assert_eq!(json_of(&project.run(&["status", "--json"]))["rejected"], Value::Null);
    client.end();
}

/// The same words and the same exit code whether an executor runs or not; only the process is another.
#[test]
fn call_is_made_by_the_executor_and_its_result_is_the_same() {
    let script = json!({ "tools": ["echo", "fail", "refuse", "die", "mixed", "hidden", "pid"], "result": r#"{"content":[{"type":"text","text":"one\n"},{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"n":1.50}}"# });
    let entry = scripted("s", &script, json!({ "tools": { "exclude": ["hidden"] }, "restart": "on_call" }));
    let other = demo("d", &["--group", "server"], json!({ "workspaces": ["/nowhere/**"] }));
    let agents = json!({ "agents": { "reader": { "tools": ["s__echo"] } } });
    let project = Project::new(&config(&[entry, other], agents));
    project.lock();
    let calls: [&[&str]; 12] = [
        &["mcp__s__echo", r#"{"a": 1.5, "é": "\u00e9"}"#],
        &["mcp__s__mixed"],
        &["mcp__s__mixed", "--json"],
        &["mcp__s__fail", r#"{"say":"no flour"}"#],
        &["mcp__s__refuse", r#"{"say":"not today"}"#],
        &["mcp__s__hidden"],
        &["nope"],
        &["mcp__s__echo", "--agent", "reader"],
        &["mcp__s__mixed", "--agent", "reader"],
        &["mcp__s__mixed", "--agent", "nobody"],
        &["mcp__d__echo", r#"{"text":"x"}"#],
        &["mcp__s__echo", "["],
    ];
    let all = || {
        calls.map(|args| {
            let ran = project.run(&[&["call", "-q"], args].concat());
            (ran.code, ran.out, ran.err)
        })
    };
    let alone = all();
    let mut client = Client::start(&project, &[]);
    client.names();
    for (args, (alone, through)) in calls.iter().zip(alone.into_iter().zip(all())) {
        assert_eq!(alone, through, "{args:?}");
    }
    let pid = client.text("mcp__s__pid", json!({}));
    assert_eq!(project.run(&["call", "mcp__s__pid"]).out, format!("{pid}\n"), "by the process that serves the client");
    let died = project.run(&["call", "mcp__s__die"]);
    assert!(died.code == 1 && died.err.contains("out of flour"), "{died:?}");
    // What the executor's own plan denies, not what the files say by now.
    client.end();
    assert_ne!(project.run(&["call", "mcp__s__pid"]).out, format!("{pid}\n"));
}

#[test]
fn whoever_hangs_up_takes_the_call_back() {
    let project = Project::new("");
    let script = json!({ "tools": ["never"], "log": project.path("log") });
    project.write("config.yml", &config(&[scripted("s", &script, json!({}))], json!({})));
    let mut client = Client::start(&project, &["-v"]);
    client.names();
    let mut call = project.command(&["call", "mcp__s__never", "-v"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(call.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("the executor with the process id "), "{line}");
    let has = |text: &str| project.read_so_far("log").contains(text);
    // The client's own requests are answered meanwhile, and give the call its time.
    while !has("\"never\"") {
        client.names();
    }
    kill(Pid::from_raw(i32::try_from(call.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(call.wait().unwrap().code(), Some(130));
    while !has("notifications/cancelled") {
        client.names();
    }
    client.end();
}

#[test]
fn a_killed_executor_leaves_no_socket_to_stumble_over() {
    let project = Project::new(&config(&[], json!({})));
    let pid = |project: &Project| {
        let status = json_of(&project.run(&["status", "--json"]));
        Pid::from_raw(status["process"]["pid"].as_i64().unwrap().try_into().unwrap())
    };
    // Its guard removes it.
    let client = Client::start(&project, &[]);
    kill(pid(&project), Signal::SIGKILL).unwrap();
    client.ended();
    assert_eq!(project.sockets(), [] as [&str; 0]);
    // Without one the next who looks does.
    let client = Client::start(&project, &["--no-guard"]);
    client.signal(Signal::SIGKILL);
    client.ended();
    assert_eq!(project.sockets().len(), 1);
    assert_eq!(project.run(&["status"]).code, 2);
    assert_eq!(project.sockets(), [] as [&str; 0]);
    // So does the next executor, of whatever config.
    let client = Client::start(&project, &["--no-guard"]);
    client.signal(Signal::SIGKILL);
    client.ended();
    project.write("other.yml", "mcp_servers: []\n");
    let client = Client::start(&project, &["-c", "other.yml"]);
    assert_eq!(project.sockets().len(), 1);
    client.end();
}

#[test]
fn no_place_for_a_socket_stops_nothing() {
    let project = Project::new(&config(&[demo("d", &["--group", "server"], json!({}))], json!({})));
    let long = project.path(&"x".repeat(120));
    std::fs::create_dir(&long).unwrap();
    let start = |directory: &std::path::Path| {
        let mut command = project.command(&["run", "--stdio"]);
        command.env("XDG_RUNTIME_DIR", directory).env("TMPDIR", directory);
        let mut client = Client::spawn(command, Era::Session);
        client.initialize("2025-11-25");
        client
    };
    let open = project.path("open");
    std::fs::create_dir_all(open.join("mcplan")).unwrap();
    std::fs::set_permissions(open.join("mcplan"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut client = start(&open);
    let warning = client.logged("can't be trusted with a control socket: others may use it (mode 755)", 0);
    assert!(warning.contains("; the control socket is in "), "{warning}");
    client.names();
    client.end();
    // A directory that isn't there yet, in one that nothing can be made in.
    std::fs::write(project.path("file"), "").unwrap();
    let mut client = start(&project.path("file"));
    client.names();
    client.end();
    let mut client = start(&long);
    let warning = client.logged("control-socket: no control socket can be opened at ", 0);
    assert!(warning.ends_with("; status, reconnect, reload and call can't reach this executor"), "{warning}");
    assert_eq!(client.text("mcp__d__echo", json!({ "text": "hi" })), "hi");
    client.end();
}

#[test]
fn what_is_no_request_is_answered_with_a_sentence() {
    let project = Project::new(&config(&[], json!({})));
    let client = Client::start(&project, &[]);
    let ask = |text: &[u8]| {
        let mut stream = UnixStream::connect(project.socket()).unwrap();
        stream.write_all(text).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        serde_json::from_str::<Value>(&answer).unwrap()["message"]["could_not"].as_str().unwrap().to_owned()
    };
    assert!(ask(b"hello\n").starts_with("the executor can't read the request: expected value"));
    assert!(ask(b"{\"version\":1,\"message\":{\"dance\":{}}}\n").contains("unknown variant `dance`"));
    let other = ask(b"{\"version\":9,\"message\":\"status\"}\n");
    assert!(other.ends_with("it is of version 9 of the control protocol, and this mcplan speaks version 1"), "{other}");
    assert!(ask(&[b'x'; (16 << 20) + 1]).ends_with("it is longer than 16777216 bytes"));
    // Someone who only knocks, and someone who says half a word, harm nobody.
    drop(UnixStream::connect(project.socket()).unwrap());
    let mut half = UnixStream::connect(project.socket()).unwrap();
    half.write_all(b"{\"version\"").unwrap();
    assert_eq!(project.run(&["status"]).code, 0);
    client.end();
}
