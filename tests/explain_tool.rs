//! `mcplan explain TOOL`: every kind of decision, with the file and line where it is written.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use serde_json::Value;
use support::{Project, Ran};

const CONFIG: &str = "\
fragments: [teams/*.yml]
mcp_servers:
  - name: notes
    command: mcplan
    args: [demo-server, --group, notes]
    tools:
      include:
        - '*_note'
        - list_notes
        - read_note
      exclude:
        - re*_note
      always: [list_*]
  - { name: shelf, command: mcplan, args: [demo-server, --group, notes], enabled: true }
  - name: waits
    command: mcplan
    args: [demo-server, --group, server]
    when: { env: [MCPLAN_TEST_WAITS] }
  - name: far
    command: mcplan
    args: [demo-server, --group, server]
    workspaces: [/nowhere/**]
  - { name: deep.blue, command: mcplan, args: [demo-server, --group, server] }
mcp_builtins:
  - name: memory
    as: box
    tools: { exclude: [count_to] }
mcp:
  name_limit: 30
  denylist:
    - mcp__notes__delete_*
  reserved: [mcp__far__count_to]
policy:
  read_only: true
  deny: ['mcp:call:notes:append_*']
  allow:
    - mcp:call:notes:write_*
    - mcp:call:box:*
agents:
  guest:
    tools:
      - notes__*
    policy:
      deny: [mcp:call:notes:write_note]
";

const FRAGMENT: &str = "\
mcp_servers:
  - name: data
    command: mcplan
    args: [demo-server, --group, 'notes,server']
    tools:
      exclude: [echo]
    defer: false
mcp:
  denylist: [data__count_to]
policy:
  deny:
    - mcp:call:data:write_*
";

/// What is to be explained, as whom.
const ASKED: [(&str, &str); 19] = [
    ("mcp__notes__write_note", "lead"),
    ("mcp__notes__write_note", "guest"),
    ("mcp__notes__list_notes", "guest"),
    ("mcp__notes__search_notes", "lead"),
    ("mcp__notes__rename_note", "lead"),
    ("notes__read_note", "lead"),
    ("mcp__notes__delete_note", "lead"),
    ("mcp__notes__append_to_note", "lead"),
    ("mcp__shelf__read_note", "lead"),
    ("mcp__waits__echo", "lead"),
    ("mcp__far__echo", "lead"),
    ("mcp__far__count_to", "lead"),
    ("mcp__deep.blue__set_tool_visible", "lead"),
    ("box__count_to", "lead"),
    ("box__echo", "lead"),
    ("data__echo", "lead"),
    ("data__count_to", "lead"),
    ("data__write_note", "lead"),
    ("data__list_notes", "lead"),
];

/// Everything is locked, then `shelf` is put away.
fn project() -> Project {
    let project = Project::new(CONFIG);
    for directory in ["teams", "bin"] {
        std::fs::create_dir(project.path(directory)).unwrap();
    }
    project.write("teams/data.yml", FRAGMENT);
    // What the builtin is started with.
    project.write("bin/npx", &format!("#!/bin/sh\nexec {} demo-server --group server\n", env!("CARGO_BIN_EXE_mcplan")));
    std::fs::set_permissions(project.path("bin/npx"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let locked = run(command(&project, &["lock", "-q"]).env("MCPLAN_TEST_WAITS", "1"));
    assert_eq!(locked.code, 0, "{locked:?}");
    project.write("config.yml", &CONFIG.replace("enabled: true", "enabled: false"));
    let locked = run(&mut command(&project, &["lock", "-q", "--offline"]));
    assert_eq!(locked.code, 0, "{locked:?}");
    project
}

fn command(project: &Project, args: &[&str]) -> Command {
    let mut command = project.command(args);
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", project.path("bin").display())).env_remove("MCPLAN_TEST_WAITS");
    command
}

fn run(command: &mut Command) -> Ran {
    Ran::of(command.stdin(Stdio::null()).output().unwrap())
}

/// Explains in a session without a workspace of its own.
fn explain(project: &Project, args: &[&str]) -> Ran {
    run(&mut command(project, &[&["explain", "--workspace", "/"], args].concat()))
}

#[test]
fn every_decision_has_its_file_and_line() {
    let project = project();
    let mut all = String::new();
    for (tool, agent) in ASKED {
        let ran = explain(&project, &[tool, "--agent", agent]);
        assert_eq!((ran.code, &*ran.err), (0, ""), "{tool} {agent}");
        let _ = writeln!(all, "{}", ran.out);
    }
    insta::assert_snapshot!(all);
}

/// What depends on where one is.
#[test]
fn a_variable_and_a_workspace_decide_too() {
    let project = project();
    let set = run(command(&project, &["explain", "mcp__waits__echo"]).env("MCPLAN_TEST_WAITS", "1"));
    assert!(set.out.contains("when         `when` needs MCPLAN_TEST_WAITS, set here (config.yml:18)"), "{set:?}");
    assert!(set.out.starts_with("mcp__waits__echo is deferred: "), "{set:?}");
    let here = project.path("").display().to_string();
    let here = here.trim_end_matches('/');
    project.write("config.yml", &project.read("config.yml").replace("/nowhere/**", here));
    assert_eq!(run(&mut command(&project, &["lock", "-q", "--offline"])).code, 0);
    let within = run(&mut command(&project, &["explain", "mcp__far__echo"]));
    assert!(
        within.out.contains(&format!("workspace    only under `{here}`, and {here} is (config.yml:22)")),
        "{within:?}"
    );
    let without = explain(&project, &["mcp__far__echo"]);
    assert!(
        without.out.contains(&format!("! workspace    only under `{here}`, and / isn't (config.yml:22)")),
        "{without:?}"
    );
}

#[test]
fn a_bare_name_is_that_of_every_server() {
    let project = project();
    let ran = explain(&project, &["echo", "--json"]);
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    let tools = json["tools"].as_array().unwrap();
    let servers: Vec<_> = tools.iter().map(|tool| tool["server"].as_str().unwrap()).collect();
    assert_eq!(servers, ["waits", "far", "deep.blue", "box", "data"], "{json}");
    assert_eq!(tools[4]["place"]["file"], "teams/data.yml");
    assert_eq!(tools[4]["place"]["line"], 6);
    insta::assert_snapshot!(explain(&project, &["data__echo", "--json"]).out);
}

#[test]
fn a_name_that_no_tool_has_is_told_its_neighbours() {
    let project = project();
    insta::assert_snapshot!(explain(&project, &["delete_nite"]).shown());
    insta::assert_snapshot!(explain(&project, &["zzz"]).shown());
    let json: Value = serde_json::from_str(&explain(&project, &["delete_nite", "--json"]).out).unwrap();
    assert_eq!(
        (&json["tools"], &json["close"][0]["conclusion"]),
        (&Value::Array(Vec::new()), &"hidden".into()),
        "{json}"
    );
    let code = explain(&project, &["unpined"]);
    assert!(code.code == 1 && code.err.contains("as a word of reports: did you mean 'unpinned'?"), "{code:?}");
    let ours = explain(&project, &["search_mcp_tools"]);
    assert_eq!((ours.code, &*ours.err), (0, ""), "{ours:?}");
    assert!(ours.out.starts_with("search_mcp_tools is one of mcplan's own tools"), "{ours:?}");
}

#[test]
fn what_is_missing_is_said() {
    let project = project();
    let agent = explain(&project, &["echo", "--agent", "nobody"]);
    assert_eq!((agent.code, &*agent.err), (2, "error: there is no agent `nobody`; the agents are guest, lead\n"));
    std::fs::remove_file(project.path("config.lock.json")).unwrap();
    let unlocked = explain(&project, &["echo"]);
    assert_eq!((unlocked.code, &*unlocked.err), (2, "error: no lock here (config.lock.json): run 'mcplan lock'\n"));
    assert_eq!(explain(&project, &["unpinned"]).code, 0, "a code needs no lock");
}

/// The lock decides; what it holds and the config no longer has is told apart from what nobody wrote.
#[test]
fn a_config_that_moved_on_is_said() {
    let project = project();
    project.write("config.yml", &project.read("config.yml").replace("mcp__notes__delete_*", "mcp__notes__rename_*"));
    insta::assert_snapshot!(explain(&project, &["mcp__notes__delete_note"]).shown());
    // Nothing of a config that can't be read has a place.
    project.write("config.yml", "mcp_servers: [\n");
    let broken = explain(&project, &["mcp__notes__delete_note"]);
    assert!(broken.code == 0 && broken.err.starts_with("warning: lock-stale: "), "{broken:?}");
    assert!(
        broken.out.contains("! denylist     `mcp__notes__delete_*` drops it (locked, no longer in the config)"),
        "{broken:?}"
    );
}

#[test]
fn a_profile_decides_with_its_own_file() {
    let project = Project::new("mcp_servers: [{ name: d, command: mcplan, args: [demo-server, --group, notes] }]\n");
    project.write(
        "config.prod.yml",
        "mcp_servers:\n  - name: d\n    tools:\n      exclude: [delete_note]\npolicy: { default: deny }\n",
    );
    let locked = project.run(&["lock", "-q", "--profile", "prod"]);
    assert_eq!(locked.code, 0, "{locked:?}");
    for (tool, reason) in [
        ("delete_note", "hidden: `tools.exclude` drops it with `delete_note` (config.prod.yml:4)"),
        ("read_note", "denied: policy denies by default, and no `allow` rule names it (config.prod.yml:5)"),
    ] {
        let ran = project.run(&["explain", tool, "--profile", "prod"]);
        assert!(ran.code == 0 && ran.out.starts_with(&format!("mcp__d__{tool} is {reason}\n")), "{ran:?}");
    }
}
