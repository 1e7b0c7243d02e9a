//! The command line as a user meets it: whole outputs, exit codes, streams.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};
use support::{Project, Ran, config, demo, mcplan, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

const COMMANDS: [&str; 15] = [
    "validate",
    "lock",
    "render",
    "search",
    "test",
    "explain",
    "run",
    "call",
    "doctor",
    "status",
    "reconnect",
    "reload",
    "builtins",
    "schema",
    "completions",
];

fn bakery() -> Project {
    let entry =
        demo("d", &["--group", "server,notes"], json!({ "tools": { "exclude": ["delete_note"], "always": ["echo"] } }));
    Project::new(&config(&[entry], json!({ "mcp": { "denylist": ["mcp__d__count_to"] } })))
}

#[test]
fn help_of_every_command() {
    let mut all = Ran::of(mcplan(&["--help"]).output().unwrap()).out;
    for command in COMMANDS {
        let ran = Ran::of(mcplan(&[command, "--help"]).output().unwrap());
        assert_eq!((ran.code, &*ran.err), (0, ""), "{command}");
        assert!(ran.out.lines().all(|line| line.chars().count() <= 100), "{}", ran.out);
        all += &format!("\n======== {command}\n{}", ran.out);
    }
    insta::assert_snapshot!(all);
    let version = Ran::of(mcplan(&["--version"]).output().unwrap());
    assert_eq!(version.out, format!("mcplan {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn wrong_usage_is_exit_2_on_stderr() {
    let project = bakery();
    project.lock();
    for args in [
        &[][..],
        &["nonsense"],
        &["lock", "--chekc"],
        &["lock", "--check", "--offline"],
        &["validate", "--profile", "a/b"],
        &["lock", "--profile", ""],
        &["run"],
        &["run", "--stdio", "--no-watch", "--watch", "poll"],
        &["search"],
        &["search", "x", "--limit", "many"],
        &["search", "x", "--limit", "0"],
        &["search", "x", "--limit", "51"],
        &["call"],
        &["call", "mcp__d__echo", "{", "more"],
        &["-q", "-v", "validate"],
        &["schema", "nothing"],
        &["completions", "tcsh"],
    ] {
        let ran = project.run(args);
        assert_eq!((ran.code, &*ran.out), (2, ""), "{args:?} {ran:?}");
        assert!(!ran.err.is_empty(), "{args:?}");
    }
    assert!(project.run(&["lock", "--chekc"]).err.contains("a similar argument exists: '--check'"));
}

#[test]
fn no_config_is_said_by_every_command_that_needs_one() {
    let nowhere = tempfile::tempdir().unwrap();
    for args in [
        &["validate"][..],
        &["lock"],
        &["lock", "--check"],
        &["render"],
        &["search", "x"],
        &["test"],
        &["explain", "some_tool"],
        &["run", "--stdio"],
        &["call", "x"],
        &["doctor"],
        &["status"],
        &["reconnect", "x"],
        &["reload"],
    ] {
        let ran = Ran::of(mcplan(args).current_dir(nowhere.path()).stdin(Stdio::null()).output().unwrap());
        assert_eq!((ran.code, &*ran.out), (2, ""), "{args:?}");
        assert_eq!(
            ran.err,
            "error: there is no config.yml and no mcplan.yml here; name a config with -c FILE, or make one with 'mcplan init'\n",
            "{args:?}"
        );
    }
    for args in [
        &["lock", "-c", "no.yml"][..],
        &["run", "--stdio", "-c", "no.yml"],
        &["call", "x", "-c", "no.yml"],
        &["validate", "no.yml"],
    ] {
        let ran = Ran::of(mcplan(args).current_dir(nowhere.path()).output().unwrap());
        assert_eq!((ran.code, &*ran.err), (2, "error: no.yml can't be read: no such file\n"), "{args:?}");
    }
    std::fs::write(nowhere.path().join("some.yml"), "mcp_servers: []\n").unwrap();
    for (config, said) in [
        ("some.yml", "some.prod.yml, the profile `prod`, can't be read: no such file"),
        ("no.yml", "no.yml can't be read: no such file"),
    ] {
        let args = ["validate", "--profile", "prod", "-c", config];
        let ran = Ran::of(mcplan(&args).current_dir(nowhere.path()).output().unwrap());
        assert_eq!((ran.code, ran.err), (2, format!("error: {said}\n")));
    }
    let directory = Ran::of(mcplan(&["validate", "-c", "."]).current_dir(nowhere.path()).output().unwrap());
    assert_eq!((directory.code, &*directory.err), (2, "error: . can't be read: it is a directory\n"));
}

#[test]
fn without_a_lock_offline_commands_say_how_to_get_one() {
    let project = bakery();
    for args in [
        &["render"][..],
        &["render", "--json"],
        &["search", "note"],
        &["test"],
        &["explain", "echo"],
        &["lock", "--check"],
    ] {
        let ran = project.run(args);
        assert_eq!((ran.code, &*ran.out), (2, ""), "{args:?}");
        assert_eq!(ran.err, "error: no lock here (config.lock.json): run 'mcplan lock'\n", "{args:?}");
    }
}

/// What is advised can be pasted: it is about the config that was asked about, and not about the one that lies here.
#[test]
fn advice_names_the_config_and_the_profile() {
    let project = bakery();
    for (file, profiled) in
        [("my.yml", "my.prod.yml"), ("my own.yml", "my own.prod.yml"), ("config.yml", "config.prod.yml")]
    {
        project.write(file, &project.read("config.yml"));
        project.write(profiled, "x-nothing: 0\n");
    }
    for (args, command) in [
        (&["-c", "my.yml"][..], "mcplan lock -c my.yml"),
        (&["-c", "my own.yml", "--profile", "prod"], "mcplan lock -c \"my own.yml\" --profile prod"),
        (&["--profile", "prod", "--host-keys"], "mcplan lock --profile prod --host-keys"),
    ] {
        for verb in [&["render"][..], &["run", "--stdio", "--locked"]] {
            let ran = project.run(&[verb, args].concat());
            assert!(ran.err.contains(&format!("run '{command}'\n")), "{verb:?} {args:?}: {ran:?}");
        }
    }
    assert_eq!(project.run(&["lock", "-q", "-c", "my.yml"]).code, 0);
    project.write("my.yml", "mcp_servers: [{ name: other, command: mcplan }]\n");
    let stale = project.run(&["lock", "--check", "-c", "my.yml"]);
    assert!(stale.err.ends_with("my.lock.json doesn't fit my.yml: run 'mcplan lock -c my.yml'\n"), "{stale:?}");
}

/// Taken for none, it would hide every server that is bound to one.
#[test]
fn a_workspace_that_is_not_there_is_wrong_usage() {
    let project = bakery();
    for args in [&["explain", "echo", "--workspace"][..], &["run", "--stdio", "--workspace"]] {
        for (directory, why) in [("nowhere", "there is no such directory"), ("config.yml", "it is no directory")] {
            let ran = project.run(&[args, &[directory]].concat());
            let expected = format!("error: invalid value '{directory}' for '--workspace <DIR>': {why}\n");
            assert!(ran.code == 2 && ran.err.starts_with(&expected), "{ran:?}");
        }
    }
}

#[test]
fn validate_reports_every_file_and_exits_with_the_worst() {
    let project = bakery();
    project.write("wrong.yml", "mcp_servers:\n  - { name: a, comand: x }\n  - { name: a, command: y }\n");
    project.write("warns.yml", "mcp_servers:\n  - { name: a, command: x, env: { API_TOKEN: abcdefghij0123456789 } }\n");
    insta::assert_snapshot!(project.run(&["validate", "config.yml", "warns.yml", "wrong.yml", "none.yml"]).shown());
    for (args, code) in [
        (&["validate"][..], 0),
        (&["validate", "warns.yml"], 0),
        (&["validate", "warns.yml", "--deny-warnings"], 1),
        (&["validate", "config.yml", "wrong.yml"], 1),
        (&["validate", "none.yml", "wrong.yml", "config.yml"], 2),
        (&["validate", "-c", "wrong.yml"], 1),
    ] {
        assert_eq!(project.run(args).code, code, "{args:?}");
    }
    let ran = project.run(&["validate", "--format", "json", "config.yml", "wrong.yml", "none.yml"]);
    assert_eq!((ran.code, &*ran.err), (2, ""));
    let report: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(report["files"].as_array().unwrap().len(), 3);
    insta::assert_snapshot!(ran.out);
}

#[test]
fn render_prints_compares_and_counts() {
    let project = bakery();
    project.lock();
    let rendered = project.run(&["render"]);
    assert_eq!((rendered.code, &*rendered.err), (0, ""));
    insta::assert_snapshot!(rendered.out);
    project.write("prompt.txt", &rendered.out);
    let beside = project.run(&["render", "--check"]);
    assert_eq!((beside.code, &*beside.out), (0, "prompt.txt is what the agent sees\n"));
    project.write("block.txt", &rendered.out);
    let same = project.run(&["render", "--check", "block.txt"]);
    assert_eq!((same.code, &*same.out, &*same.err), (0, "block.txt is what the agent sees\n", ""));
    project.write("block.txt", &rendered.out.replace('\n', "\r\n"));
    assert_eq!(project.run(&["render", "--check", "block.txt"]).code, 0);
    project.write("block.txt", &rendered.out.replacen("note", "paper", 1));
    insta::assert_snapshot!(project.run(&["render", "--check", "block.txt"]).shown());
    let none = project.run(&["render", "--check", "none.txt"]);
    assert_eq!(none.code, 2);
    assert!(none.err.ends_with("; make it with 'mcplan render > none.txt'\n"), "{none:?}");
    let json: Value = serde_json::from_str(&project.run(&["render", "--json"]).out).unwrap();
    assert_eq!(json["text"].as_str().unwrap().trim_end(), rendered.out.trim_end());
    assert_eq!(json["chars"].as_u64().unwrap() as usize, json["text"].as_str().unwrap().chars().count());
    assert!(json["tokens"].as_u64().unwrap() > 10 && json["tokens_encoding"] == "o200k_base", "{json}");
    assert!(json["included"].as_array().unwrap().iter().all(|name| rendered.out.contains(name.as_str().unwrap())));
}

#[test]
fn search_shows_what_an_agent_would_find() {
    let project = bakery();
    project.lock();
    insta::assert_snapshot!(project.run(&["search", "write", "a", "note"]).shown());
    insta::assert_snapshot!(project.run(&["search", "delete_note", "--json"]).out);
    let none = project.run(&["search", "quantum"]);
    assert_eq!((none.code, &*none.out, &*none.err), (0, "", "no tool found; servers: d\n"));
    let one = project.run(&["search", "note", "--limit", "1"]);
    assert_eq!(one.out.lines().filter(|line| !line.starts_with(' ')).count(), 1);
    let server = project.run(&["search", "note", "--server", "nope"]);
    assert_eq!((server.code, &*server.err), (2, "error: there is no server `nope`; the servers are d\n"));
}

/// `lead` is an agent like any other where it is declared; a workspace is a session's, and there is none.
#[test]
fn the_lead_is_shown_what_it_sees_wherever_it_works() {
    let servers = [
        demo("d", &["--group", "notes"], json!({})),
        demo("w", &["--group", "math"], json!({ "workspaces": ["/nowhere/**"] })),
    ];
    let more = json!({ "agents": { "lead": { "tools": ["d__read_*", "w__*"] } } });
    let project = Project::new(&config(&servers, more));
    project.lock();
    for args in [&["render"][..], &["render", "--agent", "lead"]] {
        let block = project.run(args).out;
        let seen =
            ["d__read_note", "w__calculate", "d__write_note"].map(|name| block.contains(&format!("mcp__{name}")));
        assert_eq!(seen, [true, true, false], "{block}");
    }
    assert!(!project.run(&["search", "write a note"]).out.contains("mcp__d__write_note"));
}

#[test]
fn a_stale_lock_is_said_and_what_is_locked_is_shown() {
    let project = bakery();
    project.lock();
    let fresh = project.run(&["render"]);
    project.write("config.yml", &project.read("config.yml").replace("delete_note", "add_note"));
    for args in [&["render"][..], &["search", "note"]] {
        let ran = project.run(args);
        assert_eq!(ran.code, 0);
        assert_eq!(
            ran.err,
            "warning: lock-stale: config.lock.json doesn't fit config.yml any more; this shows what is locked\n"
        );
    }
    assert_eq!(project.run(&["render"]).out, fresh.out);
}

#[test]
fn call_prints_results_and_says_why_there_is_none() {
    let script = json!({ "tools": ["echo", "fail", "refuse", "die", "mixed", "hidden"], "result": r#"{"content":[{"type":"text","text":"one\n"},{"type":"image","data":"AA==","mimeType":"image/png"}],"structuredContent":{"n":1.50}}"# });
    let entry = scripted("s", &script, json!({ "tools": { "exclude": ["hidden"] } }));
    let project = Project::new(&config(&[entry], json!({})));
    for locked in [false, true] {
        if locked {
            project.lock();
        }
        let call = |args: &[&str]| {
            let ran = project.run(&[&["call", "-q"], args].concat());
            (ran.code, ran.out, ran.err)
        };
        let said = |code: i32, out: &str, err: &str| (code, out.to_owned(), err.to_owned());
        assert_eq!(call(&["mcp__s__echo", r#"{"a": 1.5, "é": "\u00e9"}"#]), said(0, "{\"a\":1.5,\"é\":\"é\"}\n", ""));
        assert_eq!(call(&["mcp__s__mixed"]), said(0, "one\n[image; --json shows it]\n", ""));
        let (code, out, _) = call(&["mcp__s__mixed", "--json"]);
        assert!(code == 0 && out.contains("\"n\": 1.50") && out.ends_with("}\n"), "{out}");
        assert_eq!(call(&["mcp__s__fail", r#"{"say":"no flour"}"#]), said(1, "no flour\n", ""));
        let (code, out, err) = call(&["mcp__s__refuse", r#"{"say":"not today"}"#]);
        assert!(code == 1 && out.is_empty() && err.contains("not today"), "{err}");
        let (code, out, err) = call(&["mcp__s__die"]);
        assert!(code == 1 && out.is_empty() && err.contains("out of flour"), "{err}");
        assert_eq!(
            call(&["mcp__s__hidden"]),
            said(1, "", "error: unknown tool: mcp__s__hidden: s has it, but `tools.exclude` drops it with `hidden`\n")
        );
        assert_eq!(
            call(&["nope"]),
            said(1, "", "error: unknown tool: nope; 'mcplan search' finds tools by name and by what they do\n")
        );
        for wrong in ["{", "[1]", "text", ""] {
            let (code, out, err) = call(&["mcp__s__echo", wrong]);
            assert!(
                code == 2 && out.is_empty() && err.starts_with("error: the arguments are no JSON object: "),
                "{wrong}: {err}"
            );
        }
        let mut child = project
            .command(&["call", "-q", "mcp__s__echo", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(b"{\"from\": \"stdin\"}\n").unwrap();
        assert_eq!(Ran::of(child.wait_with_output().unwrap()).out, "{\"from\":\"stdin\"}\n");
    }
}

/// The policy of now counts, not the one that was locked.
#[test]
fn call_obeys_the_config_although_the_lock_is_older() {
    let project = Project::new("");
    let script = json!({ "tools": ["a", "b"], "log": project.path("log") });
    let with = |exclude: &str, more: &[Value]| {
        let mut servers = vec![scripted("s", &script, json!({ "tools": { "exclude": [exclude] } }))];
        servers.extend_from_slice(more);
        config(&servers, json!({}))
    };
    project.write("config.yml", &with("b", &[]));
    project.lock();
    project.write("config.yml", &with("a", &[]));
    std::fs::remove_file(project.path("log")).unwrap();
    let denied = project.run(&["call", "mcp__s__a", "-qq"]);
    assert_eq!((denied.code, &*denied.out), (1, ""), "{denied:?}");
    assert!(denied.err.contains("`tools.exclude` drops it with `a`"), "{denied:?}");
    assert!(!project.has("log"), "nothing was started");
    // A server that isn't locked yet is asked.
    project.write("config.yml", &with("a", &[scripted("new", &json!({ "tools": ["x"] }), json!({}))]));
    let new = project.run(&["call", "mcp__new__x", "-qq"]);
    assert_eq!((new.code, &*new.out), (0, "x done\n"), "{new:?}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let script = json!({ "many": 2000 });
    let project = Project::new(&config(&[scripted("s", &script, json!({}))], json!({})));
    project.lock();
    for args in [
        &["search", "t0001", "--json", "--limit", "50"][..],
        &["schema", "config"],
        &["completions", "bash"],
        &["validate", "--format", "json"],
    ] {
        let mut child = project.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut err = String::new();
        child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.wait().unwrap().code(), &*err), (Some(0), ""), "{args:?}");
    }
    // Nor is a closed stderr.
    project.write("wrong.yml", "mcp_servers: [{ name: a, comand: x }]\n");
    let mut child = project.command(&["validate", "wrong.yml"]).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_result_that_cannot_be_written_is_an_error() {
    let Ok(full) = std::fs::File::options().write(true).open("/dev/full") else { return };
    let ran = Ran::of(mcplan(&["schema", "config"]).stdout(full).output().unwrap());
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(ran.err.starts_with("error: the result can't be written: "), "{ran:?}");
}

#[test]
fn completions_for_every_shell_name_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ran = Ran::of(mcplan(&["completions", shell]).output().unwrap());
        assert_eq!((ran.code, &*ran.err), (0, ""), "{shell}");
        assert!(COMMANDS.iter().all(|command| ran.out.contains(command)), "{shell}");
    }
}

#[test]
fn colour_only_where_it_is_wanted() {
    let project = Project::new("mcp_servers: [{ name: a, comand: x }]\n");
    let piped = project.run(&["validate"]);
    assert!(!piped.err.contains('\u{1b}'), "{piped:?}");
    let always = project.run(&["--color", "always", "validate"]);
    assert!(always.err.contains('\u{1b}'), "{always:?}");
    let mut logs = project.command(&["run", "--stdio"]);
    assert!(!Ran::of(logs.stdin(Stdio::null()).output().unwrap()).err.contains('\u{1b}'));
}

#[test]
fn builtins_and_schemas_are_data() {
    let json: Value = serde_json::from_str(&Ran::of(mcplan(&["builtins", "--json"]).output().unwrap()).out).unwrap();
    let names: Vec<_> = json.as_array().unwrap().iter().map(|builtin| builtin["name"].as_str().unwrap()).collect();
    let text = Ran::of(mcplan(&["builtins"]).output().unwrap()).out;
    assert!(!names.is_empty() && names.iter().all(|name| text.contains(&format!("{name}: "))), "{text}");
    // Each with its pinned package behind the program that has to be on PATH, its variables, licence and documentation.
    for builtin in json.as_array().unwrap() {
        let word = |key: &str| builtin[key].as_str().unwrap_or_else(|| panic!("{key} of {builtin}"));
        let own = text.split("\n").skip_while(|line| !line.starts_with(&format!("{}: ", word("name"))));
        let own: Vec<_> = own.enumerate().take_while(|(at, line)| *at == 0 || line.starts_with("    ")).collect();
        let own = own.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
        assert!(["npx", "uvx"].contains(&word("command")), "{builtin}");
        assert!(own.contains(&format!("\n    {} ", word("command"))) && own.contains(word("version")), "{own}");
        assert!(word("documentation").starts_with("https://") && !word("licence").is_empty(), "{builtin}");
        assert!(own.contains(&format!("\n    {}, {}", word("licence"), word("documentation"))), "{own}");
        for variable in builtin["env"].as_object().unwrap().keys() {
            assert!(
                own.lines().any(|line| line.starts_with("    needs ") && line.contains(variable.as_str())),
                "{own}"
            );
        }
        assert_eq!(own.contains("\n    archived: "), builtin["archived"].is_string(), "{own}");
    }
    for of in ["config", "lock"] {
        let schema: Value = serde_json::from_str(&Ran::of(mcplan(&["schema", of]).output().unwrap()).out).unwrap();
        assert!(schema["properties"].is_object());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_file_without_end_and_a_full_stderr_have_an_exit_code() {
    let project = bakery();
    let endless = project.run(&["validate", "/dev/zero"]);
    assert!(endless.code == 1 && endless.err.contains("longer than the limit"), "{endless:?}");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let told = project.command(&["validate", "none.yml"]).stderr(full).status().unwrap();
    assert_eq!(told.code(), Some(2));
}

/// Other commands than `validate` say how many warnings there are, once.
#[test]
fn warnings_are_counted_and_errors_shown_by_commands_that_do_something_else() {
    let unpinned =
        "mcp_servers:\n  - { name: a, command: npx, args: [-y, x] }\n  - { name: b, command: uvx, args: [y] }\n";
    let project = Project::new(unpinned);
    let ran = project.run(&["lock", "--offline"]);
    assert_eq!(
        (ran.code, &*ran.err),
        (
            0,
            "2 warnings in config.yml: run 'mcplan validate'\n\
             not in the catalog: a, b; their tools are unknown until 'mcplan lock' reaches them\n"
        )
    );
    let checked = project.run(&["validate"]);
    assert_eq!((checked.code, checked.err.matches("warning[unpinned]").count()), (0, 2), "{checked:?}");
    project.write("config.yml", &format!("{unpinned}  - {{ name: c, comand: x }}\n"));
    for args in [&["lock"][..], &["lock", "--check"], &["call", "mcp__a__x"], &["export", "--to", "cursor"]] {
        let refused = project.run(args);
        assert!(refused.code > 0 && refused.err.contains("error[unknown-key]: unknown key `comand`"), "{refused:?}");
        assert!(!refused.err.contains("unpinned"), "{refused:?}");
        assert!(
            refused.err.ends_with("\n2 warnings in config.yml: run 'mcplan validate'\nerror: 1 error\n"),
            "{refused:?}"
        );
    }
}

/// Where the system allows such names.
#[cfg(target_os = "linux")]
#[test]
fn a_path_that_is_no_utf_8_is_opened_and_shown_as_far_as_it_can_be() {
    use std::os::unix::ffi::OsStrExt as _;
    let project = Project::new("");
    let name = std::ffi::OsStr::from_bytes;
    let write = |path: &[u8], text: &str| std::fs::write(project.path("").join(name(path)), text).unwrap();
    let entry = |server: &str| config(&[demo(server, &["--group", "server"], json!({}))], json!({}));
    let run = |args: &[&[u8]]| Ran::of(project.command(&[]).args(args.iter().map(|arg| name(arg))).output().unwrap());
    write(b"caf\xe9.yml", &entry("a"));
    write(b"caf\xe9.prod.yml", &entry("b"));
    let checked = run(&[b"validate", b"caf\xe9.yml", b"caf\xe9.prod.yml"]);
    assert_eq!(
        (checked.code, &*checked.out),
        (0, "caf\u{fffd}.yml: ok, 1 server\ncaf\u{fffd}.yml with profile prod: ok, 2 servers\n")
    );
    for more in [&[][..], &[&b"--profile"[..], b"prod"]] {
        let with = |args: &[&'static [u8]]| run(&[args, &[b"-c", b"caf\xe9.yml"], more].concat());
        assert_eq!(with(&[b"lock"]).code, 0);
        assert_eq!(with(&[b"lock", b"--check"]).code, 0);
        assert_eq!(with(&[b"call", b"mcp__a__echo", b"{\"text\":\"hi\"}"]).out, "hi\n");
    }
    let export = run(&[b"export", b"--to", b"cursor", b"-c", b"caf\xe9.yml"]);
    assert_eq!((export.code, &*export.out), (2, ""));
    assert!(export.err.contains("caf\u{fffd}.yml, whose path is not UTF-8; rename it"), "{export:?}");
    let missing = run(&[b"validate", b"th\xe9.yml"]);
    assert_eq!((missing.code, &*missing.err), (2, "error: th\u{fffd}.yml can't be read: no such file\n"));
    // Fragments and templates lie beside the config, whatever its directory is called.
    let directory = project.path("").join(name(b"d\xff"));
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("config.yml"), "fragments: [f.yml]\nprompt: { template: t.j2 }\n").unwrap();
    std::fs::write(directory.join("f.yml"), entry("c")).unwrap();
    std::fs::write(directory.join("t.j2"), "{% if no %}").unwrap();
    let broken = run(&[b"validate", b"d\xff/config.yml"]);
    assert_eq!(broken.code, 1);
    assert!(broken.err.contains("--> d\u{fffd}/t.j2:1:"), "{broken:?}");
    std::fs::write(directory.join("t.j2"), "{{ total }}").unwrap();
    assert_eq!(run(&[b"lock", b"-c", b"d\xff/config.yml"]).code, 0);
    assert_eq!(run(&[b"lock", b"--check", b"-c", b"d\xff/config.yml"]).code, 0);
}
