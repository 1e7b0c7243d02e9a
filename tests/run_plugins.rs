//! Plugins: what they are given, when they run, and what one that fails costs.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use support::client::Client;
use support::{Project, Ran, config, demo};

/// A config with a server `own` and a plugin `p` that runs `script`.
fn project(script: &str, plugin: Value) -> Project {
    let mut entry = json!({ "name": "p", "command": ["./p"] });
    entry.as_object_mut().unwrap().extend(plugin.as_object().unwrap().clone());
    let own = demo("own", &["--group", "server"], json!({ "defer": false, "env": { "TOKEN": "${CANARY:-none}" } }));
    let project = Project::new(&config(&[own], json!({ "plugins": [entry] })));
    write(&project, script);
    project
}

fn write(project: &Project, script: &str) {
    project.write("p", &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(project.path("p"), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// What a plugin prints for a server with one tool.
fn prints(server: &str) -> String {
    let entry = demo(server, &["--group", "server", "--hide", "count_to"], json!({ "defer": false }));
    format!("echo '{}'", json!({ "servers": [entry] }))
}

fn locked_servers(project: &Project) -> Vec<String> {
    let lock: Value = serde_json::from_str(&project.read("config.lock.json")).unwrap();
    let servers = lock["plan"]["servers"].as_array().unwrap();
    servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_plugin_is_given_the_config_with_its_references_and_few_variables() {
    let script = format!("cat > given.json; env > env.txt; {}", prints("more"));
    let project = project(&script, json!({ "env": { "OWN": "${FOR_THE_PLUGIN}" } }));
    let lock = project
        .command(&["lock"])
        .envs([("CANARY", "7f3a-canary"), ("FOR_THE_PLUGIN", "own value"), ("UNRELATED", "1")])
        .output()
        .unwrap();
    assert_eq!(lock.status.code(), Some(0), "{:?}", Ran::of(lock));
    let given: Value = serde_json::from_str(&project.read("given.json")).unwrap();
    assert_eq!(given["mcp_servers"][0]["env"]["TOKEN"], "${CANARY:-none}");
    assert_eq!(given["plugins"][0]["env"]["OWN"], "${FOR_THE_PLUGIN}");
    let env = project.read("env.txt");
    let names: Vec<_> = env.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name).collect();
    assert!(env.contains("OWN=own value\n") && names.contains(&"PATH"), "{env}");
    for missing in ["CANARY", "FOR_THE_PLUGIN", "UNRELATED"] {
        assert!(!names.contains(&missing), "{env}");
    }
    assert_eq!(locked_servers(&project), ["own", "more"]);
}

#[test]
fn it_runs_at_start_and_on_every_reload_and_nowhere_else() {
    let project = project(&format!("echo run >> runs; {}", prints("a")), json!({}));
    let runs = || project.read_so_far("runs").lines().count();
    project.lock();
    assert_eq!(runs(), 1);
    for args in [&["validate"][..], &["lock", "--check"], &["lock", "--offline"], &["diff"], &["render"]] {
        assert_eq!((project.run(args).code, runs()), (0, 1), "{args:?}");
    }
    for how in ["--locked", "--frozen"] {
        let mut client = Client::start(&project, &[how]);
        client.names_when(|names| names.contains(&"mcp__a__echo".to_owned()));
        client.end();
        assert_eq!(runs(), 1, "{how}");
    }
    let mut client = Client::start(&project, &[]);
    client.names_when(|names| names.contains(&"mcp__a__echo".to_owned()));
    // Once at the start, and once when it is asked for: what was read is watched before, and not read twice.
    assert_eq!(project.run(&["reload"]).code, 0);
    assert_eq!(runs(), 3);
    // What it prints now counts as soon as one of the files is read again, though the config says the same.
    write(&project, &format!("echo run >> runs; {}", prints("b")));
    project.replace("config.yml", &format!("# a comment\n{}", project.read("config.yml")));
    client.names_when(|names| names.contains(&"mcp__b__echo".to_owned()));
    assert!(runs() > 3);
    // One that fails later costs its servers as one that fails at the start.
    write(&project, "echo out of tea >&2; exit 1");
    project.replace("config.yml", &format!("# another\n{}", project.read("config.yml")));
    let names = client.names_when(|names| !names.contains(&"mcp__b__echo".to_owned()));
    assert!(names.contains(&"mcp__own__echo".to_owned()), "{names:?}");
    client.logged("plugin-failed: the plugin `p` failed: exit status 1: out of tea (config.yml:", 0);
    client.end();
}

#[test]
fn a_failure_costs_only_its_own_servers() {
    let failures = [
        ("echo 'no: json: here'", "bad-plugin-output", "(output of plugin p):1:"),
        (r#"echo '{"servers": [{"name": "x", "comand": "y"}]}'"#, "bad-plugin-output", "unknown key `comand`"),
        (r#"echo '{"servers": [{"name": "x"}]}'"#, "bad-plugin-output", "warning[no-transport]"),
        (r#"echo '{"servers": [{"name": "a b", "command": "c"}]}'"#, "bad-plugin-output", "warning[bad-server-name]"),
        ("echo 'no token' >&2; exit 3", "plugin-failed", "the plugin `p` failed: exit status 3: no token"),
        ("kill -KILL $$", "plugin-failed", "the plugin `p` failed: killed by SIGKILL"),
    ];
    for (script, code, said) in failures {
        let project = project(&format!("cat > /dev/null; {script}"), json!({}));
        let lock = project.run(&["lock"]);
        assert_eq!(lock.code, 1, "{script}: {lock:?}");
        assert!(lock.err.contains(&format!("warning[{code}]: ")) && lock.err.contains(said), "{script}: {lock:?}");
        assert!(lock.err.contains(" --> config.yml:"), "{lock:?}");
        assert_eq!(locked_servers(&project), ["own"]);
        // What fails has nothing to do with whether the lock fits the config.
        assert_eq!(project.run(&["lock", "--check"]).code, 0);
        assert_eq!(project.run(&["diff", "--live"]).code, 2);
        let mut client = Client::start(&project, &[]);
        client.names_when(|names| names.contains(&"mcp__own__echo".to_owned()));
        client.logged(&format!("{code}: "), 0);
        client.end();
    }
}

#[test]
fn a_plugin_that_prints_nothing_has_no_server_to_run() {
    for script in ["true", "echo", r#"echo '{"servers": []}'"#] {
        let project = project(script, json!({}));
        project.lock();
        assert_eq!(locked_servers(&project), ["own"], "{script}");
    }
}

/// The server that it would have replaced is there all the same, and names of its other servers are no mistake.
#[test]
fn what_a_failed_plugin_would_have_changed_stays_as_it_is() {
    let script = r#"echo '{"servers": [{"name": "own", "command": "other"}, {"name": "x", "comand": "y"}]}'"#;
    let project = project(script, json!({}));
    project.write(
        "config.yml",
        &project.read("config.yml").replacen('{', r#"{ "mcp": { "denylist": ["mcp__x__*"] },"#, 1),
    );
    let lock = project.run(&["lock"]);
    assert_eq!(lock.code, 1, "{lock:?}");
    let lock: Value = serde_json::from_str(&project.read("config.lock.json")).unwrap();
    assert_eq!(lock["plan"]["servers"][0]["command"], "mcplan", "{lock}");
}

#[test]
fn a_secret_that_a_plugin_hands_on_is_locked_as_its_reference() {
    let entry = demo("more", &["--group", "server"], json!({ "env": { "K": "handed on" } }));
    let printed = json!({ "servers": [entry] }).to_string().replace("handed on", "'$ACC_TOKEN'");
    let project = project(&format!("echo '{printed}'"), json!({ "env": { "ACC_TOKEN": "${ACC_TOKEN}" } }));
    let lock = project.command(&["lock"]).env("ACC_TOKEN", "canary-4b1f-token").output().unwrap();
    assert_eq!(lock.status.code(), Some(0), "{:?}", Ran::of(lock));
    let text = project.read("config.lock.json");
    assert!(!text.contains("canary-4b1f"), "{text}");
    let lock: Value = serde_json::from_str(&text).unwrap();
    let more = lock["plan"]["servers"].as_array().unwrap().iter().find(|server| server["name"] == "more").unwrap();
    assert_eq!(more["env"]["K"], "${ACC_TOKEN}");
}
