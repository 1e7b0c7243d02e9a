//! `mcplan lock`: the same bytes wherever and however it is made, whole whatever happens, and clear when it can't be.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use serde_json::{Value, json};
use support::{Project, Ran, config, mcplan, release, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

const LOCK: &str = "config.lock.json";

fn two(first: Value, second: Value) -> String {
    config(&[scripted("one", &first, json!({})), scripted("two", &second, json!({}))], json!({}))
}

#[test]
fn locking_twice_changes_nothing_from_anywhere() {
    let project = Project::new(&two(json!({ "tools": ["b", "a"] }), json!({ "tools": ["c"] })));
    let first = project.run(&["lock"]);
    assert_eq!((first.code, &*first.out), (0, "wrote config.lock.json: 2 servers, 3 tools\n"), "{first:?}");
    let lock = project.read(LOCK);
    let modified = std::fs::metadata(project.path(LOCK)).unwrap().modified().unwrap();
    let second = project.run(&["lock"]);
    assert_eq!((second.code, &*second.out), (0, "config.lock.json is unchanged: 2 servers, 3 tools\n"), "{second:?}");
    // From elsewhere, by an absolute and by a relative path.
    let config = project.path("config.yml");
    let elsewhere = Ran::of(mcplan(&["lock", "-c"]).arg(&config).current_dir("/").output().unwrap());
    assert!(elsewhere.out.ends_with("is unchanged: 2 servers, 3 tools\n"), "{elsewhere:?}");
    let parent = config.parent().unwrap();
    let relative = format!("{}/config.yml", parent.file_name().unwrap().to_str().unwrap());
    let above = mcplan(&["lock", "-c", &relative]).current_dir(parent.parent().unwrap()).output().unwrap();
    assert!(Ran::of(above).out.ends_with("is unchanged: 2 servers, 3 tools\n"));
    assert_eq!(project.read(LOCK), lock);
    assert_eq!(std::fs::metadata(project.path(LOCK)).unwrap().modified().unwrap(), modified, "not even written");
    // The whole project somewhere else, with Windows line ends, made anew.
    let moved = Project::new(&project.read("config.yml").replace('\n', "\r\n"));
    assert_eq!(moved.lock(), lock);
    assert!(lock.ends_with("}\n") && lock.contains("\n  \"lock_version\": 1,\n"), "{lock}");
}

#[test]
fn order_of_keys_spelling_and_order_of_connecting_show_nowhere() {
    let project = Project::new("");
    let (a, b) = (project.pipe("a"), project.pipe("b"));
    let entry =
        |name: &str, gate: &std::path::Path| scripted(name, &json!({ "tools": ["x", "y"], "gate": gate }), json!({}));
    let plain =
        json!({ "mcp_servers": [entry("one", &a), entry("two", &b)], "mcp": { "denylist": ["q"], "defer": true } });
    let reversed = |value: &Value| -> Value {
        let Value::Object(map) = value else { unreachable!() };
        Value::Object(map.iter().rev().map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    let mut shuffled = reversed(&plain);
    for entry in shuffled["mcp_servers"].as_array_mut().unwrap() {
        *entry = reversed(entry);
    }
    let mut locks = Vec::new();
    for (text, order) in [(&plain, [&a, &b]), (&shuffled, [&b, &a])] {
        project.write("config.yml", &format!("# not the same text\n{text}"));
        let child = project.command(&["lock"]).stdout(std::process::Stdio::piped()).spawn().unwrap();
        order.iter().for_each(|gate| release(gate));
        assert_eq!(child.wait_with_output().unwrap().status.code(), Some(0));
        locks.push(project.read(LOCK));
        std::fs::remove_file(project.path(LOCK)).unwrap();
    }
    assert_eq!(locks[0], locks[1]);
}

#[test]
fn many_at_once_leave_one_whole_file_and_nothing_else() {
    let project = Project::new(&two(json!({ "tools": ["a"] }), json!({ "many": 50 })));
    let children: Vec<_> =
        (0..6).map(|_| project.command(&["lock", "-q"]).stdout(std::process::Stdio::null()).spawn().unwrap()).collect();
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    let lock = project.read(LOCK);
    assert_eq!(project.run(&["lock"]).out, "config.lock.json is unchanged: 2 servers, 51 tools\n");
    assert_eq!(project.read(LOCK), lock);
    let mut left: Vec<_> =
        std::fs::read_dir(project.path("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["config.lock.json", "config.yml"]);
}

/// A lock that lies elsewhere, before it was ever written.
#[test]
fn a_link_to_no_file_yet_is_written_through() {
    let project = Project::new(&two(json!({ "tools": ["a"] }), json!({ "tools": ["b"] })));
    std::os::unix::fs::symlink("locks/here.json", project.path(LOCK)).unwrap();
    let nowhere = project.run(&["lock", "-q"]);
    assert_eq!(nowhere.code, 2, "{nowhere:?}");
    assert_eq!(
        nowhere.err,
        "error: config.lock.json can't be written: it is a link to locks/here.json, whose directory isn't there; make that \
         directory, or remove the link\n"
    );
    std::fs::create_dir(project.path("locks")).unwrap();
    let written = project.run(&["lock", "-q"]);
    assert_eq!(written.code, 0, "{written:?}");
    assert!(std::fs::symlink_metadata(project.path(LOCK)).unwrap().is_symlink());
    assert_eq!(project.read("locks/here.json"), project.read(LOCK));
    assert_eq!(project.run(&["lock", "--check"]).code, 0);
}

/// Whoever reads meanwhile sees one lock or the other, never a part of both.
#[test]
fn a_lock_is_replaced_whole() {
    let script = json!({ "tools": ["a"], "tools_file": "tool.json" });
    let project = Project::new(&config(&[scripted("s", &script, json!({}))], json!({})));
    let tool = |words: &str| {
        json!({ "name": "b", "description": words.repeat(20_000), "inputSchema": { "type": "object" } }).to_string()
    };
    let mut whole = std::collections::BTreeSet::new();
    for words in ["one ", "another "] {
        project.write("tool.json", &tool(words));
        whole.insert(project.lock());
    }
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut reads = 0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                assert!(whole.contains(&project.read(LOCK)), "a lock that was never written");
                reads += 1;
            }
            reads
        });
        for words in ["one ", "another ", "one "] {
            project.replace("tool.json", &tool(words));
            let both: Vec<_> = (0..2)
                .map(|_| project.command(&["lock", "-q"]).stdout(std::process::Stdio::null()).spawn().unwrap())
                .collect();
            both.into_iter().for_each(|mut child| assert!(child.wait().unwrap().success()));
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
}

#[test]
fn a_server_that_cannot_be_reached_is_kept_or_dropped_and_said() {
    let fine = json!({ "tools": ["a", "b"] });
    let project = Project::new(&two(fine.clone(), fine.clone()));
    let lock = project.lock();
    // The launch is the same, the environment isn't: what was locked is kept.
    let broken = json!({ "exit": 3, "stderr": "no flour" });
    project.write("config.yml", &two(fine.clone(), broken.clone()));
    let kept = project.run(&["lock"]);
    assert_eq!(kept.code, 1);
    assert_eq!(
        kept.err,
        "error: two: server `two` ended (exit status 3) while waiting for the answer to `initialize`; its last words: no flour\n\
         two: kept as it was locked before\n"
    );
    let tools =
        |lock: &str, server: &str| serde_json::from_str::<Value>(lock).unwrap()["catalog"][server]["tools"].clone();
    assert_eq!(tools(&project.read(LOCK), "two"), tools(&lock, "two"));
    assert_eq!(project.run(&["lock", "--allow-missing"]).code, 0);
    // Another launch: it is another server, so nothing of it is known.
    project.write("config.yml", &two(fine.clone(), broken).replace("\"name\": \"two\"", "\"name\": \"three\""));
    let dropped = project.run(&["lock"]);
    assert_eq!((dropped.code, &*dropped.out), (1, "wrote config.lock.json: 1 server, 2 tools\n"), "{dropped:?}");
    assert!(
        dropped.err.contains("not in the catalog: three; its tools are unknown until 'mcplan lock' reaches it\n"),
        "{dropped:?}"
    );
    assert_eq!(tools(&project.read(LOCK), "three"), Value::Null);
    // A required one isn't allowed to be missing.
    let required = scripted("r", &json!({ "exit": 1 }), json!({ "required": true }));
    project.write("config.yml", &config(&[required], json!({})));
    assert_eq!(project.run(&["lock", "--allow-missing"]).code, 1);
}

#[test]
fn a_server_whose_condition_is_unmet_is_not_started() {
    let project = Project::new("");
    let script = json!({ "tools": ["a"], "log": project.path("log") });
    let when = json!({ "when": { "env": ["MCPLAN_TEST_NEVER_SET"] } });
    project.write("config.yml", &config(&[scripted("s", &script, when)], json!({})));
    let ran = project.run(&["lock"]);
    assert_eq!((ran.code, &*ran.out), (0, "wrote config.lock.json: 0 servers, 0 tools\n"), "{ran:?}");
    assert!(ran.err.contains("MCPLAN_TEST_NEVER_SET, which is not set"), "{ran:?}");
    let one = project.run(&["lock", "--server", "s"]);
    assert!(one.code == 2 && one.err.contains("the server `s` is not started"), "{one:?}");
    assert!(!project.has("log"), "nothing was started");
}

#[test]
fn offline_starts_nothing_and_says_what_is_missing() {
    let project = Project::new("");
    let script = json!({ "tools": ["a", "b"], "log": project.path("log") });
    let with = |tools: Value| config(&[scripted("s", &script, json!({ "tools": tools }))], json!({}));
    project.write("config.yml", &with(json!({ "exclude": ["b"] })));
    let empty = project.run(&["lock", "--offline"]);
    assert_eq!((empty.code, &*empty.out), (0, "wrote config.lock.json: 0 servers, 0 tools\n"), "{empty:?}");
    assert_eq!(empty.err, "not in the catalog: s; its tools are unknown until 'mcplan lock' reaches it\n");
    assert!(!project.has("log"), "nothing was started");
    project.lock();
    let started = project.read("log");
    project.write("config.yml", &with(json!({})));
    let offline = project.run(&["lock", "--offline"]);
    assert_eq!((offline.code, &*offline.out), (0, "wrote config.lock.json: 1 server, 1 tool\n"), "{offline:?}");
    assert_eq!(offline.err, "s: included now, without a locked text: b; run 'mcplan lock --server s'\n");
    assert_eq!(project.read("log"), started);
    assert_eq!(project.run(&["lock"]).out, "wrote config.lock.json: 1 server, 2 tools\n");
}

#[test]
fn one_server_is_asked_again_alone() {
    let project = Project::new("");
    let script = |name: &str, tools: Value| json!({ "tools": tools, "log": project.path(name) });
    project.write("config.yml", &two(script("log1", json!(["a"])), script("log2", json!(["b"]))));
    project.lock();
    let before = project.read("log1");
    project.write("config.yml", &two(script("log1", json!(["a", "a2"])), script("log2", json!(["b", "b2"]))));
    let ran = project.run(&["lock", "--server", "two"]);
    assert_eq!((ran.code, &*ran.out), (0, "wrote config.lock.json: 2 servers, 3 tools\n"), "{ran:?}");
    assert_eq!(project.read("log1"), before);
    let unknown = project.run(&["lock", "--server", "tow"]);
    assert_eq!((unknown.code, &*unknown.err), (2, "error: there is no server `tow`; the servers are one, two\n"));
}

#[test]
fn check_says_whether_it_fits_and_writes_nothing() {
    let script = json!({ "tools": ["a"] });
    let with = |more: Value| config(&[scripted("s", &script, json!({}))], more);
    let project = Project::new(&with(json!({})));
    let none = project.run(&["lock", "--check"]);
    assert_eq!((none.code, &*none.err), (2, "error: no lock here (config.lock.json): run 'mcplan lock'\n"));
    let lock = project.lock();
    let fits = project.run(&["lock", "--check"]);
    assert_eq!((fits.code, &*fits.out, &*fits.err), (0, "config.lock.json fits config.yml\n", ""));
    project.write("config.yml", &with(json!({ "mcp": { "denylist": ["a"] }, "prompt": { "budget": { "chars": 9 } } })));
    let moved = project.run(&["lock", "--check"]);
    assert_eq!(moved.code, 1);
    assert_eq!(moved.err, "error: config.lock.json doesn't fit config.yml: run 'mcplan lock'\n");
    insta::assert_snapshot!(moved.out, @r#"
    denylist: locked [], now ["a"]
    prompt.budget.chars: locked 2000, now 9
    "#);
    project.write("config.yml", "mcp_servers: [\n");
    assert_eq!(project.run(&["lock", "--check"]).code, 2);
    assert_eq!(project.read(LOCK), lock);
}

/// Each command that reads the lock says the same clear thing of one that it can't use.
#[test]
fn a_lock_that_cannot_be_used_is_one_clear_error_everywhere() {
    let project = Project::new(&config(&[scripted("s", &json!({ "tools": ["a"] }), json!({}))], json!({})));
    let lock = project.lock();
    let newer = lock.replace("\"lock_version\": 1", "\"lock_version\": 2");
    let tampered = lock.replace("does a", "does b");
    let none = lock.replace("\"lock_version\": 1", "\"lock_version\": 0");
    // As a merge leaves it that kept both sides.
    let edited = |edit: &dyn Fn(&mut Value)| {
        let mut value: Value = serde_json::from_str(&lock).unwrap();
        edit(&mut value);
        value.to_string()
    };
    let double = |list: &mut Value| {
        let list = list.as_array_mut().unwrap();
        list.push(list[0].clone());
    };
    let twice = edited(&|lock| double(&mut lock["catalog"]["s"]["tools"]));
    let server_twice = edited(&|lock| double(&mut lock["plan"]["servers"]));
    for (text, says) in [
        (&lock[..lock.len() / 2], "config.lock.json: the lock can't be read: EOF while parsing"),
        ("", "config.lock.json: the lock can't be read: EOF while parsing"),
        (
            "<<<<<<< HEAD\n",
            "config.lock.json: the lock can't be read: version control left the marks of a conflict in it (line 1, column 1); lock again, or take it from version control",
        ),
        ("[1]", "config.lock.json: the lock can't be read: it is no JSON object"),
        (&none, "config.lock.json: the lock can't be read: there is no `lock_version` 0"),
        (&twice, "config.lock.json: the lock can't be read: the tool `a` of `s` is in it twice"),
        (&server_twice, "config.lock.json: the lock can't be read: the server `s` is in it twice"),
        ("{}", "config.lock.json: the lock can't be read: missing field `lock_version`"),
        (
            &newer,
            "config.lock.json: the lock is of version 2, this mcplan reads up to 1: use a newer mcplan, or lock again",
        ),
        (&tampered, "doesn't fit its text"),
    ] {
        project.write(LOCK, text);
        for args in [
            &["render"][..],
            &["render", "--check", "x"],
            &["search", "a"],
            &["lock", "--check"],
            &["run", "--stdio"],
            &["call", "mcp__s__a"],
        ] {
            let ran = project.run(args);
            assert_eq!((ran.code, &*ran.out), (2, ""), "{args:?} {ran:?}");
            assert!(
                ran.err.starts_with("error: ") && ran.err.contains(says) && ran.err.lines().count() == 1,
                "{args:?}: {}",
                ran.err
            );
        }
        // What is to be kept of it would be lost, and what a later mcplan wrote too.
        for args in [&["lock", "--offline"][..], &["lock", "--server", "s"], &["lock"]] {
            if args.len() > 1 || text == newer {
                let ran = project.run(args);
                assert_eq!((ran.code, project.read(LOCK).as_str()), (2, text), "{args:?} {ran:?}");
            }
        }
        if text == newer {
            continue;
        }
        // Locking again mends it.
        let again = project.run(&["lock"]);
        assert_eq!(again.code, 0);
        assert!(again.err.contains("it is made anew"), "{again:?}");
        assert_eq!(project.read(LOCK), lock);
    }
}

#[test]
fn paths_of_this_machine_are_not_locked() {
    let project = Project::new("");
    let home = Project::new("");
    let (here, home) = (project.path("config.yml"), home.path("config.yml"));
    let (here, home) = (here.parent().unwrap().display(), home.parent().unwrap().display());
    let tool = json!({ "name": "read", "description": format!("reads {here}/notes and {home}/x"), "inputSchema": { "type": "object" } });
    let script = json!({ "tools": [tool.to_string()], "instructions": format!("in {here}") });
    project.write("config.yml", &config(&[scripted("s", &script, json!({}))], json!({})));
    let ran = Ran::of(project.command(&["lock"]).env("HOME", home.to_string()).output().unwrap());
    assert_eq!(ran.code, 0);
    assert_eq!(ran.err, "s: paths of this machine were replaced by ~ or . in the instructions, the tool read\n");
    let lock: Value = serde_json::from_str(&project.read(LOCK)).unwrap();
    let catalog = &lock["catalog"]["s"];
    assert_eq!(catalog["tools"][0]["entry"]["description"], "reads ./notes and ~/x");
    assert_eq!(catalog["instructions"], "in .");
}

#[test]
fn what_cannot_be_locked_is_said_and_the_rest_is_locked() {
    let huge = json!({ "name": "huge", "description": "x".repeat(1_000_000), "inputSchema": { "type": "object" } })
        .to_string();
    let file = Project::new("");
    file.write("tools.json", &huge);
    // Too long for a variable, so the server reads it.
    let script = json!({ "tools_file": file.path("tools.json"), "tools": ["fine"] });
    let project = Project::new(&config(&[scripted("s", &script, json!({}))], json!({})));
    let ran = project.run(&["lock"]);
    assert_eq!((ran.code, &*ran.out), (0, "wrote config.lock.json: 1 server, 1 tool\n"), "{ran:?}");
    assert!(ran.err.starts_with("warning: s: the tool huge is left out: 10000"), "{ran:?}");
}

#[test]
fn a_config_with_errors_is_not_locked() {
    let project = Project::new("mcp_servers: [{ name: s, command: x, wrong: 1 }]\n");
    let ran = project.run(&["lock"]);
    assert_eq!((ran.code, &*ran.out), (1, ""));
    assert!(ran.err.ends_with("error: 1 error\n"), "{ran:?}");
    assert!(!project.has(LOCK));
}
