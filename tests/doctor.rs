//! `mcplan doctor`: every kind of fault with its fix, every warning, and nothing left behind.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::{Project, Ran, config, demo, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

/// A web server that answers everything with this; gives its address. Ends with the test.
fn web(status: &str, content_type: &str, body: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let length = body.len();
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut lines = BufReader::new(&stream);
            let mut length = 0;
            loop {
                let mut line = String::new();
                if lines.read_line(&mut line).unwrap_or(0) == 0 || line == "\r\n" {
                    break;
                }
                if let Some(value) = line.to_lowercase().strip_prefix("content-length: ") {
                    length = value.trim().parse().unwrap();
                }
            }
            // Unread, it would reset the connection before the answer is read.
            let _ = std::io::Read::read_exact(&mut lines, &mut vec![0; length]);
            let _ = (&stream).write_all(answer.as_bytes());
        }
    });
    address.to_string()
}

fn remote(name: &str, address: &str, more: Value) -> Value {
    let mut entry = json!({ "name": name, "url": format!("http://{address}/mcp") });
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

fn shell(name: &str, script: &str, more: Value) -> Value {
    let mut entry = json!({ "name": name, "command": "sh", "args": ["-c", script] });
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

/// The text, for a snapshot.
macro_rules! assert_text {
    ($project:expr, $ran:expr) => {{
        let here = $project.path("").display().to_string();
        let here = regex_of(here.trim_end_matches('/'));
        insta::with_settings!({ filters => vec![
            (&*here, "[DIR]"),
            (r"127\.0\.0\.1:\d+", "[ADDRESS]"),
            (r"\d+\s+(ms|s)\b", "[TIME]"),
            (r"runs /\S*/(\w+)\b", "runs [PATH]/$1"),
            (r"mcplan-demo \S+,", "mcplan-demo [VERSION],"),
        ]}, { insta::assert_snapshot!($ran.shown()) });
    }};
}

/// A path as a pattern that matches it.
fn regex_of(path: &str) -> String {
    path.replace('.', r"\.")
}

#[test]
fn every_kind_of_fault_of_a_process_has_a_fix() {
    let project = Project::new("");
    project.write("not-executable", "");
    let servers = [
        demo("fine", &["--group", "server"], json!({})),
        json!({ "name": "not-installed", "command": "npx", "args": ["-y", "@scope/server"], "env": { "PATH": "/nowhere" } }),
        json!({ "name": "no-such-file", "command": "./not-executable" }),
        shell(
            "unset",
            "exit",
            json!({ "env": { "A": "${NOT_SET_A}", "B": "${NOT_SET_B:?ask Bo for it}", "C": "${file:nowhere}" } }),
        ),
        shell("ends", "echo no flour >&2; echo and no sugar >&2; exit 3", json!({})),
        json!({ "name": "ends-well", "command": "true" }),
        shell(
            "no-package",
            "echo 'npm error 404 Not Found - GET https://packages.example.com/x' >&2; exit 1",
            json!({}),
        ),
        shell("deaf", "echo working >&2; exec sleep 1000", json!({ "timeout_seconds": 0.5 })),
        shell("hangs-up", "exec >&-; exec sleep 1000", json!({})),
        shell(
            "no-mcp",
            "while read -r line; do id=$${line#*id\\\":}; echo \"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":$${id%%[!0-9]*},\\\"result\\\":{\\\"hello\\\":1}}\"; done",
            json!({}),
        ),
        demo("off", &[], json!({ "enabled": false })),
        demo("unmet", &[], json!({ "when": { "env": ["NOT_SET_A"] } })),
    ];
    project.write("config.yml", &config(&servers, json!({})));
    let ran = project.run(&["doctor"]);
    assert_eq!((ran.code, &*ran.err), (1, ""), "{ran:?}");
    assert_text!(project, ran);
    assert!(ran.out.lines().all(|line| line.chars().count() <= 80 || line.contains('/')), "{}", ran.out);
}

#[test]
fn every_kind_of_fault_of_a_remote_server_has_a_fix() {
    let plain = web("200 OK", "text/html", "<html>hello</html>");
    let token = json!({ "headers": { "Authorization": "Bearer ${DOCTOR_TOKEN}" } });
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let servers = [
        remote("no-token", &web("401 Unauthorized", "text/plain", "who are you"), json!({})),
        remote("wrong-token", &web("401 Unauthorized", "text/plain", "no"), token.clone()),
        remote("forbidden", &web("403 Forbidden", "text/plain", "no"), token),
        remote("not-found", &web("404 Not Found", "text/plain", "nothing here"), json!({})),
        remote("not-allowed", &web("405 Method Not Allowed", "text/plain", ""), json!({})),
        remote("broken", &web("500 Internal Server Error", "text/plain", "oops"), json!({})),
        remote("a-page", &plain, json!({})),
        remote("nobody", &nobody, json!({})),
        json!({ "name": "no-tls", "url": format!("https://{plain}/mcp") }),
    ];
    let project = Project::new(&config(&servers, json!({})));
    let mut command = project.command(&["doctor"]);
    let ran = Ran::of(command.env("DOCTOR_TOKEN", "open-sesame-1234").output().unwrap());
    assert_eq!((ran.code, &*ran.err), (1, ""), "{ran:?}");
    assert!(!ran.out.contains("open-sesame"), "{}", ran.out);
    assert_text!(project, ran);
    let json: Value = {
        let mut command = project.command(&["doctor", "--json"]);
        let ran = Ran::of(command.env("DOCTOR_TOKEN", "open-sesame-1234").output().unwrap());
        assert_eq!(ran.code, 1);
        serde_json::from_str(&ran.out).unwrap()
    };
    let classes: Vec<_> =
        json["servers"].as_array().unwrap().iter().map(|server| server["faults"][0]["class"].clone()).collect();
    let same = ["unauthorized", "unauthorized", "unauthorized", "http_status", "http_status", "http_status"];
    assert_eq!(classes[..6], same);
    assert_eq!(classes[7], "unreachable");
}

#[test]
fn what_works_and_could_be_better_is_a_warning() {
    let project = Project::new("");
    let tool = |name: &str, description: &str| {
        json!({ "name": name, "description": description, "inputSchema": { "type": "object" } }).to_string()
    };
    let tools = |description: &str| {
        json!([
            tool("bake", description),
            tool("knead", "kneads\u{200b} dough"),
            json!({ "name": "odd", "inputSchema": [] }).to_string()
        ])
    };
    let script = |description: &str| json!({ "tools": tools(description), "noise": "Welcome to the bakery!" });
    let hidden = scripted("hidden", &json!({ "tools": ["a"] }), json!({ "tools": { "exclude": ["*"] } }));
    let empty = scripted("empty", &json!({ "tools": [] }), json!({}));
    let with = |description: &str| {
        project.write("script", &script(description).to_string());
        let oven = scripted("oven", &json!({}), json!({}));
        let mut oven = oven;
        // The script is read at the start, so that the entry stays the same when it changes.
        oven["args"][1] = json!(format!("SCRIPT=$(cat script); export SCRIPT; {}", oven["args"][1].as_str().unwrap()));
        config(&[oven, hidden.clone(), empty.clone()], json!({ "prompt": { "budget": { "chars": 150 } } }))
    };
    project.write("config.yml", &with("bakes bread"));
    project.lock();
    project.write("config.yml", &with("bakes cakes"));
    let ran = project.run(&["doctor"]);
    assert_eq!((ran.code, &*ran.err), (0, ""), "{ran:?}");
    assert_text!(project, ran);
    let json: Value = serde_json::from_str(&project.run(&["doctor", "--json", "oven"]).out).unwrap();
    assert_eq!(json["servers"].as_array().unwrap().len(), 1);
    let said = &json["servers"][0]["said"];
    assert_eq!(
        (&said["tools"], &said["offered"], &said["protocol_version"]),
        (&json!(2), &json!(2), &json!("2025-11-25"))
    );
    let cost = &json["cost"];
    assert_eq!(
        (&cost["tools"], &cost["outright"], &cost["encoding"]),
        (&json!(2), &said["tokens"], &json!("o200k_base"))
    );
    let steps: Vec<_> =
        json["servers"][0]["steps"].as_array().unwrap().iter().map(|step| step["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["start", "discover", "initialize", "tools"]);
}

/// A lock that refuses the server leaves the agent without it, so that is a fault.
#[test]
fn a_server_that_the_lock_refuses_is_a_fault() {
    let project = Project::new("");
    let tool = |description: &str| {
        json!({ "name": "t", "description": description, "inputSchema": { "type": "object" } }).to_string()
    };
    let entry = scripted("s", &json!({ "tools_file": project.path("tool") }), json!({}));
    project.write("config.yml", &config(&[entry], json!({ "policy": { "on_drift": { "wording": "refuse" } } })));
    project.write("tool", &tool("reads a file"));
    project.lock();
    assert_eq!(project.run(&["doctor"]).code, 0);
    project.write("tool", &tool("reads a whole file"));
    let ran = project.run(&["doctor"]);
    assert_eq!(ran.code, 1, "{ran:?}");
    assert!(ran.out.contains("\n    nothing of it is offered, since it isn't what was locked: "), "{}", ran.out);
    assert!(ran.out.contains("\n    fix: look at it with 'mcplan diff --live', and run 'mcplan lock'"), "{}", ran.out);
}

#[test]
fn a_directory_that_is_not_there_is_a_fault() {
    let project = Project::new(&config(&[json!({ "name": "s", "command": "sh", "cwd": "nowhere" })], json!({})));
    let json: Value = serde_json::from_str(&project.run(&["doctor", "--json"]).out).unwrap();
    let fault = &json["servers"][0]["faults"][0];
    assert_eq!((&fault["class"], &fault["fix"]), (&json!("spawn"), &json!("make the directory, or correct `cwd`")));
    assert!(fault["message"].as_str().unwrap().contains(project.path("nowhere").to_str().unwrap()), "{fault}");
}

#[test]
fn servers_are_chosen_by_name() {
    let servers = [
        demo("one", &["--group", "server"], json!({})),
        demo("off", &[], json!({ "enabled": false })),
        json!({ "name": "broken", "command": "./none" }),
    ];
    let project = Project::new(&config(&servers, json!({})));
    let one = project.run(&["doctor", "one"]);
    assert_eq!((one.code, one.out.contains("broken")), (0, false), "{one:?}");
    let off = project.run(&["doctor", "off"]);
    assert_eq!(off.code, 2, "nothing is known of what was asked about: {off:?}");
    assert!(off.out.starts_with("off: not checked: it is off with `enabled: false`\n"), "{off:?}");
    let unknown = project.run(&["doctor", "one", "x"]);
    assert_eq!((unknown.code, &*unknown.err), (2, "error: there is no server `x`; the servers are one, off, broken\n"));
    assert_eq!((project.run(&["doctor"]).code, project.run(&["doctor", "one", "broken"]).code), (1, 1));
    project.write("config.yml", "mcp_servers: []\n");
    let none = project.run(&["doctor"]);
    assert_eq!((none.code, &*none.out), (0, "no servers\n\n0 servers checked, no fault found\n"));
    project.write("config.yml", "mcp_servers: [{ name: a, comand: x }]\n");
    let wrong = project.run(&["doctor"]);
    assert!(wrong.code == 1 && wrong.err.contains("error[unknown-key]"), "{wrong:?}");
}

#[test]
fn nothing_is_left_behind_not_even_after_an_interrupt() {
    let project = Project::new("");
    let log = |name: &str| project.path(name);
    let ready = scripted("ready", &json!({ "tools": ["a"], "log": log("ready") }), json!({}));
    let deaf = scripted("deaf", &json!({ "deaf": true, "log": log("deaf") }), json!({ "timeout_seconds": 30 }));
    project.write("config.yml", &config(&[ready, deaf], json!({})));
    let mut doctor = project.command(&["doctor"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = |name: &str| {
        let first = project.read_so_far(name).lines().next()?.strip_prefix("start ")?.parse().ok()?;
        Some(Pid::from_raw(first))
    };
    let both = loop {
        // Each look is a process of its own, which is time enough for the others.
        assert_eq!(project.run(&["--version"]).code, 0);
        if let (Some(ready), Some(deaf)) = (pid("ready"), pid("deaf")) {
            break [ready, deaf];
        }
    };
    kill(Pid::from_raw(i32::try_from(doctor.id()).unwrap()), Signal::SIGINT).unwrap();
    assert_eq!(doctor.wait().unwrap().code(), Some(130));
    for server in both {
        assert_eq!(kill(server, None), Err(nix::errno::Errno::ESRCH), "{server} lives on");
    }
}
