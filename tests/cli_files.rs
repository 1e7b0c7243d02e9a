//! Which files a command reads, and what they mean to it: another program's, a lock beside, files below home.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::process::Stdio;

use serde_json::{Value, json};
use support::{Project, Ran, config, demo};

/// Another program's file is read by every command, and its `policy` is honoured by all that call.
#[test]
fn every_command_reads_the_file_of_another_program() {
    let entry = demo("d", &["--group", "server,notes"], json!({}));
    let project = Project::new(&format!(
        "model: some-model\nmcp_servers:\n  - {entry}\nx-mcplan:\n  policy: {{ deny: ['mcp:call:d:echo'] }}\n  tests:\n    \
         - {{ call: mcp__d__echo, expect: denied }}\n"
    ));
    project.write("config.prod.yml", "model: larger\nx-mcplan: { policy: { deny: ['mcp:call:d:read_note'] } }\n");
    let run = |args: &[&str]| project.run(&[&["--host-keys"], args].concat());
    let commands: [(&[&str], i32, &str); 9] = [
        (&["validate"], 0, "config.yml: ok, 1 server"),
        (&["lock"], 0, ""),
        (&["lock", "--check"], 0, ""),
        (&["render"], 0, "mcp__d__write_note"),
        (&["search", "write a note"], 0, "mcp__d__write_note"),
        (&["test"], 0, ""),
        (&["explain", "mcp__d__echo"], 0, "mcp:call:d:echo"),
        (&["diff"], 0, ""),
        (&["export", "--to", "cursor"], 0, "\"--host-keys\""),
    ];
    for (args, code, said) in commands {
        let ran = run(args);
        assert!(ran.code == code && ran.out.contains(said) && !ran.err.contains("error"), "{args:?} {ran:?}");
        let refused = project.run(args);
        if !["render", "search", "test", "explain"].contains(&args[0]) {
            assert!(refused.code > 0 && refused.err.contains("error[unknown-key]: unknown key `model`"), "{refused:?}");
            assert!(refused.err.contains("error[host-section]: `policy` under `x-mcplan` is not read"), "{refused:?}");
        }
    }
    let call = |args: &[&str]| run(&[&["call", "-qq"], args].concat());
    let denied = call(&["mcp__d__echo", r#"{"text":"hi"}"#]);
    assert!(denied.code == 1 && denied.err.contains("mcp:call:d:echo"), "{denied:?}");
    assert_eq!(call(&["mcp__d__read_note", r#"{"title":"none"}"#, "--profile", "prod"]).code, 1);
    assert!(call(&["mcp__d__read_note", "{}", "--profile", "prod"]).err.contains("mcp:call:d:read_note"));
    let served = Ran::of(
        project.command(&["run", "--stdio", "--host-keys", "--no-watch"]).stdin(Stdio::null()).output().unwrap(),
    );
    assert_eq!((served.code, &*served.out), (0, ""), "{served:?}");
    assert_eq!(run(&["validate", "config.prod.yml"]).out, "config.yml with profile prod: ok, 1 server\n");
    for args in [&["add", "more", "--", "more-mcp"][..], &["remove", "more"]] {
        let edited = run(args);
        assert_eq!(edited.code, 0, "{args:?} {edited:?}");
        assert_eq!(project.read("config.yml").contains("more-mcp"), args[0] == "add");
    }
    // With nothing else of the host's in it, the section is no key for the user's own use.
    project.write("only.yml", "mcp_servers: []\nx-mcplan: { policy: { deny: ['mcp:call:d:echo'] } }\n");
    for args in [&["validate", "only.yml"][..], &["lock", "-c", "only.yml"], &["call", "x", "-c", "only.yml"]] {
        let refused = project.run(args);
        assert_eq!(refused.code, 1, "{refused:?}");
        assert!(refused.err.contains("give `--host-keys`"), "{refused:?}");
    }
}

/// What only a lock tells is never an error: it may be of yesterday.
#[test]
fn no_lock_makes_validate_fail() {
    let entry = demo("d", &["--group", "server"], json!({}));
    let project = Project::new(&config(&[entry], json!({ "mcp": { "denylist": ["mcp__gone__*"] } })));
    let note = project.run(&["validate"]);
    assert!(note.code == 0 && note.err.contains("note[unknown-server]"), "a fragment by its keys: {note:?}");
    for lock in ["", "{}", "not json", r#"{ "lock_version": 99 }"#] {
        project.write("config.lock.json", lock);
        assert_eq!(project.run(&["validate"]).err, note.err, "{lock}");
    }
    // With a lock it is no fragment, and the name is worth a warning.
    project.write("config.yml", &project.read("config.yml").replace("gone", "d"));
    std::fs::remove_file(project.path("config.lock.json")).unwrap();
    project.lock();
    project.write("config.yml", &project.read("config.yml").replace("mcp__d__", "mcp__gone__"));
    let warned = project.run(&["validate"]);
    assert!(warned.code == 0 && warned.err.contains("warning[unknown-server]"), "{warned:?}");

    // A plugin that printed what no longer goes together with the config.
    let with = |server: &str| {
        let plugin =
            json!({ "name": "p", "command": ["sh", "-c", "echo $PRINTED"], "env": { "PRINTED": "${PRINTED}" } });
        config(
            &[demo(server, &[], json!({ "enabled": false }))],
            json!({ "plugins": [plugin], "policy": { "deny": ["mcp:call:x.y:z"] } }),
        )
    };
    let project = Project::new(&with("d"));
    let printed = r#"{"servers": [{"name": "x.y", "command": "mcplan", "args": ["demo-server"]}]}"#;
    let lock = project.command(&["lock"]).env("PRINTED", printed).output().unwrap();
    assert_eq!(lock.status.code(), Some(0), "{:?}", Ran::of(lock));
    assert!(project.run(&["validate"]).out.starts_with("config.yml: ok, 2 servers"));
    for server in ["x_y", "x"] {
        project.write("config.yml", &with(server));
        let ran = project.run(&["validate"]);
        assert_eq!(ran.code, 0, "{ran:?}");
    }
    project.write("config.yml", &with("d").replace("x.y", "new"));
    let ran = project.run(&["validate"]);
    assert!(ran.code == 0 && ran.err.contains("warning[unknown-server]: there is no server `new`"), "{ran:?}");
}

/// `~` is the home directory wherever a path is written, and no path of this machine gets into the lock.
#[test]
fn home_is_where_templates_and_fragments_may_lie() {
    let home = tempfile::tempdir().unwrap();
    let team = |server: &str| config(&[demo(server, &["--group", "server"], json!({}))], json!({}));
    std::fs::create_dir(home.path().join("teams")).unwrap();
    std::fs::write(home.path().join("teams/a.yml"), team("a")).unwrap();
    std::fs::write(home.path().join("b.yml"), team("b")).unwrap();
    std::fs::write(home.path().join("block.j2"), "{{ total }} tools of home\n").unwrap();
    let project = Project::new("fragments: [~/teams/*.yml, ~/b.yml]\nprompt: { template: ~/block.j2 }\n");
    let run = |args: &[&str]| Ran::of(project.command(args).env("HOME", home.path()).output().unwrap());
    assert_eq!(run(&["validate"]).out, "config.yml: ok, 2 servers\n");
    let locked = run(&["lock"]);
    assert_eq!(locked.code, 0, "{locked:?}");
    let lock = project.read("config.lock.json");
    let sources = serde_json::from_str::<Value>(&lock).unwrap()["sources"].clone();
    assert_eq!(sources, json!(["config.yml", "~/teams/a.yml", "~/b.yml", "~/block.j2"]));
    assert!(!lock.contains(home.path().to_str().unwrap()), "{lock}");
    assert!(run(&["render"]).out.contains("6 tools of home"), "{}", run(&["render"]).out);
    std::fs::write(home.path().join("block.j2"), "{% if %}").unwrap();
    let broken = run(&["validate"]);
    assert!(broken.code == 1 && broken.err.contains("--> ~/block.j2:1:"), "{broken:?}");
}

/// A file that a fragment refers to lies beside the fragment.
#[test]
fn a_reference_to_a_file_is_relative_to_the_file_that_says_it() {
    let fragment = json!({ "mcp_servers": [
        { "name": "a", "command": "sh", "args": ["-c", "printf %s \"$0\" > seen.txt", "${file:secret.txt}"] },
    ] });
    let project = Project::new("fragments: [teams/a.yml]\n");
    std::fs::create_dir(project.path("teams")).unwrap();
    project.write("teams/a.yml", &fragment.to_string());
    let missing = project.run(&["validate", "--env"]);
    assert!(
        missing.code == 1 && missing.err.contains("needs the file `secret.txt`, which can't be read"),
        "{missing:?}"
    );
    project.write("teams/secret.txt", "of the team\n");
    assert_eq!(project.run(&["validate", "--env"]).code, 0);
    assert_eq!(project.run(&["lock"]).code, 1, "the server says nothing");
    assert_eq!(project.read("seen.txt"), "of the team");
}
