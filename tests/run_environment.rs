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

/// The published list to the letter, and what its own entry declares: nothing that another server is given, nothing of ours.
#[cfg(target_os = "linux")]
#[test]
fn a_server_has_the_listed_variables_and_its_own() {
    const LISTED: [&str; 27] = [
        "ALL_PROXY",
        "HOME",
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "LANG",
        "LC_ALL",
        "LC_TIME",
        "LOGNAME",
        "NODE_EXTRA_CA_CERTS",
        "NO_PROXY",
        "NPM_CONFIG_CACHE",
        "NPM_CONFIG_REGISTRY",
        "PATH",
        "SHELL",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "UV_CACHE_DIR",
        "UV_INDEX_URL",
        "XDG_CONFIG_HOME",
        "all_proxy",
        "http_proxy",
        "https_proxy",
        "no_proxy",
    ];
    let own = env!("CARGO_BIN_EXE_mcplan");
    let server = |name: &str, key: &str| {
        let tell = format!("tr '\\0' '\\n' </proc/$$$$/environ >{name}.seen; exec \"$0\" demo-server");
        json!({ "name": name, "command": "sh", "args": ["-c", tell, own], "env": { key: format!("${{{key}}}") } })
    };
    let project = Project::new(&config(&[server("one", "ONE_KEY"), server("other", "OTHER_KEY")], json!({})));
    let mut command = project.command(&["run", "--stdio"]);
    let (path, runtime) = (std::env::var("PATH").unwrap(), project.path("runtime"));
    command.env_clear().envs(LISTED.map(|name| (name, ""))).envs([("PATH", &*path), ("TMPDIR", "/tmp")]);
    command.env("XDG_RUNTIME_DIR", runtime);
    for unlisted in ["ONE_KEY", "OTHER_KEY", "GITHUB_TOKEN", "PWD", "LD_PRELOAD_OF_NO_USE", "PYTHONPATH", "RUST_LOG"] {
        command.env(unlisted, "of-no-concern");
    }
    let mut client = Client::spawn(command, Era::Session);
    client.initialize("2025-11-25");
    client.names();
    client.end();
    for (name, key) in [("one", "ONE_KEY"), ("other", "OTHER_KEY")] {
        let seen = project.read(&format!("{name}.seen"));
        let mut seen: Vec<_> = seen.lines().map(|line| line.split_once('=').unwrap().0).collect();
        seen.sort_unstable();
        let mut expected = [&LISTED[..], &[key]].concat();
        expected.sort_unstable();
        assert_eq!(seen, expected, "{name}");
    }
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
