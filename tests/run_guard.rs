//! Nothing survives `mcplan run`, however it ends: its guard and its executor clean up behind one another.

#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use nix::sys::signal::{SigSet, Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use support::client::{Client, Era};
use support::{Project, config, mcplan, release};

/// Leaves the group, loses its parents, lets go of every pipe, ignores all that can be ignored; then serves.
const HOSTILE: &str = r#"
trap '' INT TERM HUP
away='trap "" INT TERM HUP; echo $$ >>pids; exec sleep 1000 </dev/null >/dev/null 2>&1'
setsid sh -c "$away" &
(setsid sh -c "$away" &)
(sh -c "$away" &)
sh -c "$away" &
while [ "$(wc -l <pids)" -lt 4 ]; do :; done
exec "$0" demo-server
"#;

fn hostile() -> (Project, Client, Vec<i32>) {
    hostile_by(|_| ())
}

fn hostile_by(start: impl FnOnce(&mut std::process::Command)) -> (Project, Client, Vec<i32>) {
    let server = json!({ "name": "h", "command": "sh", "args": ["-c", HOSTILE.replace("$$", "$$$$"), env!("CARGO_BIN_EXE_mcplan")], "defer": false });
    let project = Project::new(&config(&[server], json!({})));
    project.write("pids", "");
    let mut command = project.command(&["run", "--stdio"]);
    start(&mut command);
    let mut client = Client::spawn(command, Era::Session);
    client.initialize("2025-11-25");
    assert_eq!(client.text("mcp__h__echo", json!({ "text": "up" })), "up");
    let pids: Vec<_> = project.read("pids").lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(pids.len(), 4);
    assert!(pids.iter().all(|pid| lives(*pid)));
    (project, client, pids)
}

/// A zombie counts as dead: whoever adopted it may not look after it.
fn lives(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| !rest.trim_start().starts_with(['Z', 'X']))
}

/// The one child of the guard.
fn executor(guard: i32) -> Pid {
    let children = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let parent: i32 = stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()?;
        (parent == guard).then_some(pid)
    });
    let children: Vec<_> = children.collect();
    let [executor] = children[..] else { panic!("{children:?}") };
    Pid::from_raw(executor)
}

#[test]
fn nothing_survives_the_end_of_the_client() {
    let (_project, mut client, pids) = hostile();
    client.hang_up();
    let (status, log) = client.ended();
    assert!(status.success(), "{status}\n{log}");
    assert!(pids.iter().all(|pid| !lives(*pid)));
}

#[test]
fn nothing_survives_sigterm() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let (_project, client, pids) = hostile();
        client.signal(signal);
        let (status, log) = client.ended();
        assert!(status.success(), "{status}\n{log}");
        assert!(pids.iter().all(|pid| !lives(*pid)));
    }
}

#[test]
fn nothing_survives_a_killed_executor() {
    let (_project, client, pids) = hostile();
    kill(executor(client.pid()), Signal::SIGKILL).unwrap();
    let (status, log) = client.ended();
    assert_eq!(status.code(), Some(128 + 9), "{log}");
    assert!(pids.iter().all(|pid| !lives(*pid)));
}

#[test]
fn nothing_survives_a_killed_process_group() {
    use std::os::unix::process::CommandExt as _;
    let (_project, client, pids) = hostile_by(|command| {
        command.process_group(0);
    });
    nix::sys::signal::killpg(Pid::from_raw(client.pid()), Signal::SIGKILL).unwrap();
    client.ended();
    assert!(pids.iter().all(|pid| !lives(*pid)));
}

#[test]
fn nothing_survives_a_killed_guard() {
    let (_project, client, pids) = hostile();
    let executor = executor(client.pid());
    client.signal(Signal::SIGKILL);
    // Ends with the last holder of our pipes, which is the executor.
    client.ended();
    assert!(!lives(executor.as_raw()) || pids.iter().all(|pid| !lives(*pid)));
    assert!(pids.iter().all(|pid| !lives(*pid)));
}

#[test]
fn without_a_guard_there_is_one_process_and_the_same_end() {
    let server = json!({ "name": "d", "command": "mcplan", "args": ["demo-server"] });
    let project = Project::new(&config(&[server], json!({})));
    let mut client = Client::start(&project, &["--no-guard"]);
    client.names();
    let server = executor(client.pid());
    client.signal(Signal::SIGTERM);
    let (status, log) = client.ended();
    assert!(status.success(), "{status}\n{log}");
    assert!(!lives(server.as_raw()));
}

/// `lock` and `call` have no guard, but a Ctrl-C or a SIGTERM takes what they started with them.
#[test]
fn an_interrupted_lock_or_call_leaves_nothing() {
    let server: Value = json!({ "name": "h", "command": "sh", "args": ["-c", format!("echo $$$$ >>pids; echo go >told; {}", "exec sleep 1000"), "x"] });
    for (command, code) in [(&["lock"][..], 143), (&["call", "mcp__h__x"], 143)] {
        let project = Project::new(&config(std::slice::from_ref(&server), json!({})));
        let told = project.pipe("told");
        let child = mcplan(command)
            .current_dir(project.path(""))
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .spawn();
        let mut child = child.unwrap();
        // Comes back when the server is there.
        assert_eq!(std::fs::read_to_string(told).unwrap(), "go\n");
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGTERM).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{command:?}");
        let pid = project.read("pids").trim().parse().unwrap();
        assert!(!lives(pid), "{command:?}");
    }
}

/// What only the start needs, of which there is much, doesn't stay resident: a second later both processes have let go
/// of most of their code, and serve on.
#[test]
fn what_the_start_needed_is_given_back() {
    let server =
        json!({ "name": "h", "command": env!("CARGO_BIN_EXE_mcplan"), "args": ["demo-server"], "defer": false });
    let project = Project::new(&config(&[server], json!({})));
    let mut client = Client::spawn(project.command(&["run", "--stdio"]), support::client::Era::Session);
    client.initialize("2025-11-25");
    assert_eq!(client.text("mcp__h__echo", json!({ "text": "up" })), "up");
    let guard = client.pid();
    for pid in [guard, executor(guard).as_raw()] {
        let field = |name: &str| -> u64 {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim().trim_end_matches(" kB").parse().unwrap()
        };
        let (began, most) = (std::time::Instant::now(), field("VmHWM:"));
        while field("RssFile:") > most / 2 {
            assert!(began.elapsed().as_secs() < 20, "{} kB of {most} kB", field("RssFile:"));
            std::thread::yield_now();
        }
    }
    assert_eq!(client.text("mcp__h__echo", json!({ "text": "still up" })), "still up");
}

/// With and without a guard.
const BOTH: [&[&str]; 2] = [&[], &["--no-guard"]];

/// Starts it and sends it a signal at once. Nobody can be safe before their own first instruction, so it is blocked until
/// then by who starts it.
fn struck(project: &Project, args: &[&str], signal: Signal) -> Client {
    let held = SigSet::from(signal);
    held.thread_block().unwrap();
    let client = Client::connect(project, args, Era::Session);
    client.signal(signal);
    held.thread_unblock().unwrap();
    client
}

#[test]
fn a_hangup_at_the_very_start_is_no_end() {
    let project = Project::new(&config(&[support::demo("d", &["--group", "text"], json!({}))], json!({})));
    for args in [BOTH; 12].concat() {
        let mut client = struck(&project, args, Signal::SIGHUP);
        client.initialize("2025-11-25");
        assert!(!client.names().is_empty());
        client.end();
    }
}

/// From the first line of `main` on, and all the way until it serves.
#[test]
fn hangups_while_it_starts_are_no_end() {
    let project = Project::new(&config(&[support::demo("d", &["--group", "text"], json!({}))], json!({})));
    for args in [BOTH; 4].concat() {
        let mut client = Client::connect(&project, args, Era::Session);
        let pid = client.pid();
        while !takes(pid, Signal::SIGHUP) {}
        let serves = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !serves.load(std::sync::atomic::Ordering::Relaxed) {
                    // One that has ended is noticed by who waits for its answer.
                    let _gone = kill(Pid::from_raw(pid), Signal::SIGHUP);
                    std::thread::yield_now();
                }
            });
            let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| client.initialize("2025-11-25")));
            serves.store(true, std::sync::atomic::Ordering::Relaxed);
            answered.unwrap();
        });
        assert!(!client.names().is_empty());
        client.end();
    }
}

/// Whether a signal is blocked or has a handler.
fn takes(pid: i32, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let (blocked, caught) = (mask(&status, "SigBlk"), mask(&status, "SigCgt"));
    (blocked | caught) & (1 << (signal as i32 - 1)) != 0
}

fn mask(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":")).unwrap();
    // Those from 32 on are the C library's own.
    u64::from_str_radix(line.trim(), 16).unwrap() & 0x7fff_ffff
}

#[test]
fn sigterm_at_the_very_start_is_a_clean_end() {
    let project = Project::new(&config(&[support::demo("d", &[], json!({}))], json!({})));
    for args in [BOTH; 6].concat() {
        let client = struck(&project, args, Signal::SIGTERM);
        let (status, log) = client.ended();
        assert!(status.success(), "{status}\n{log}");
    }
}

/// A config whose plugin says when it runs, and ends when it is let go.
fn with_plugin(project: &Project, more: Value) -> String {
    let plugin = "echo $$$$ >began; cat let-go >/dev/null; grep Sig /proc/self/status >plugin; echo '{\"servers\":[]}'";
    let mut keys = json!({ "plugins": [{ "name": "p", "command": ["sh", "-c", plugin] }] });
    keys.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    for pipe in ["began", "let-go"] {
        if !project.has(pipe) {
            project.pipe(pipe);
        }
    }
    config(&[], keys)
}

/// What is said on a named pipe.
fn heard(project: &Project, pipe: &str) -> String {
    let (path, (sender, said)) = (project.path(pipe), std::sync::mpsc::channel());
    std::thread::spawn(move || sender.send(std::fs::read_to_string(path)));
    said.recv_timeout(support::DEADLINE).unwrap_or_else(|_| panic!("nothing on {pipe}")).unwrap()
}

#[test]
fn a_hangup_while_the_files_are_read_has_them_read_again() {
    for args in BOTH {
        let project = Project::new("");
        project.write("config.yml", &with_plugin(&project, json!({})));
        let mut client = Client::connect(&project, &[args, &["--no-watch"]].concat(), Era::Session);
        heard(&project, "began");
        client.signal(Signal::SIGHUP);
        release(&project.path("let-go"));
        // Nobody watches, so this is for the signal alone.
        heard(&project, "began");
        release(&project.path("let-go"));
        client.initialize("2025-11-25");
        client.end();
    }
}

#[test]
fn sigterm_while_the_files_are_read_is_a_clean_end() {
    for args in BOTH {
        let project = Project::new("");
        project.write("config.yml", &with_plugin(&project, json!({})));
        let client = Client::connect(&project, args, Era::Session);
        let plugin = heard(&project, "began").trim().parse().unwrap();
        client.signal(Signal::SIGTERM);
        let (status, log) = client.ended();
        assert!(status.success(), "{status}\n{log}");
        assert!(!lives(plugin));
    }
}

/// What is held at the start, or by who starts us, is held for nobody else; and the guard's handles are its own.
#[test]
fn servers_and_plugins_have_all_signals_and_no_handle_of_ours() {
    let script = "grep Sig /proc/self/status >signals; ls -l /proc/self/fd >handles; echo >told; exec cat";
    let server = json!({ "name": "s", "command": "sh", "args": ["-c", script] });
    for args in BOTH {
        let project = Project::new("");
        let plugin = with_plugin(&project, json!({ "mcp_servers": [server] }));
        project.write("config.yml", &plugin);
        project.pipe("told");
        let held = SigSet::from(Signal::SIGUSR1);
        held.thread_block().unwrap();
        let client = Client::connect(&project, args, Era::Session);
        held.thread_unblock().unwrap();
        heard(&project, "began");
        release(&project.path("let-go"));
        heard(&project, "told");
        for file in ["signals", "plugin"] {
            let status = project.read(file);
            assert_eq!((mask(&status, "SigBlk"), mask(&status, "SigIgn")), (0, 0), "{file} {args:?}: {status}");
        }
        // Whatever else there is has come from who started the test.
        let handles = project.read("handles");
        assert!(!handles.contains("anon_inode:"), "{args:?}: {handles}");
        client.end();
    }
}
