//! A server with faults, and an executor with one server, both run by the test binary itself under another name.

use std::process::ExitCode;
use std::time::Duration;

use mcplan_executor::runtime::connection::{Context, Event, Terms, connect};
use mcplan_executor::runtime::process::{self, guard};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

/// Runs as what `args` say.
pub fn run(args: &[String]) -> ExitCode {
    match args[0].as_str() {
        "serve" => {
            let script = args.get(1).map_or_else(|| json!({ "tools": ["one"] }), |script| script.parse().unwrap());
            crate::support::server::run(script, "/dev/fd/1");
            ExitCode::SUCCESS
        }
        "guard" => guard::run(["fault", "executor"].map(Into::into), |_| {}),
        "executor" => executor(),
        other => panic!("no such role: {other}"),
    }
}

/// A server entry that runs this binary as a server that does what `script` says.
pub fn scripted(script: &Value, limits: Value) -> mcplan_compiler::plan::Server {
    let own = std::env::current_exe().unwrap();
    server(own.to_str().unwrap(), &["fault", "serve", &script.to_string()], limits)
}

/// One that has a tool, and these faults by method.
pub fn faulty(at: &Value, limits: Value) -> mcplan_compiler::plan::Server {
    scripted(&json!({ "tools": ["one"], "at": at }), limits)
}

pub fn server(command: &str, args: &[&str], limits: Value) -> mcplan_compiler::plan::Server {
    let mut all = json!({
        "name": "fault", "description": null, "origin": "config", "defer": true, "enabled": true, "required": false,
        "tools": {"include": null, "exclude": [], "always": []}, "when_env": [], "replace": "swap", "workspaces": [],
        "sampling": false, "persistent_sessions": true, "connect": "eager", "idle_stop_seconds": 0.0,
        "reconnect": {"attempts": 1, "initial_seconds": 1.0, "max_seconds": 1.0, "jitter_seconds": 0.0},
        "limits": {"timeout_seconds": 20.0, "request_timeout_seconds": 60.0, "call_timeout_seconds": 0.0,
                   "idle_timeout_seconds": 0.0, "max_result_chars": 0},
        "transport": "stdio", "command": command, "args": args, "env": {}, "cwd": ".", "environment": "minimal",
        "restart": "never",
    });
    for (key, value) in limits.as_object().unwrap() {
        all["limits"][key] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

/// What four hostile grandchildren do: leave the group, lose their parents, let go of every pipe, ignore all that can
/// be ignored.
pub const HOSTILE: &str = r#"
trap '' INT TERM HUP
away='trap "" INT TERM HUP; echo up >&2; exec sleep 1000 </dev/null >/dev/null 2>&1'
setsid sh -c "$away" &
(setsid sh -c "$away" &)
(sh -c "$away" &)
sh -c "$away" &
exec "$0" fault serve
"#;

/// An executor with one server whose launcher leaves four hostile grandchildren.
fn executor() -> ExitCode {
    if guard::adopt().is_err() {
        return ExitCode::from(99);
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let status = runtime.block_on(async {
        let [mut terminated, mut interrupted, mut hung_up] =
            [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()].map(|kind| signal(kind).unwrap());
        let own = std::env::current_exe().unwrap();
        let server = server("sh", &["-c", HOSTILE, own.to_str().unwrap()], json!({}));
        let (events, mut received) = tokio::sync::mpsc::channel(64);
        let (connection, _) = connect(&server, &Context::of_process("/"), &Terms::default(), events).await.unwrap();
        let echo = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).unwrap();
            println!("heard {}", line.trim());
        });
        println!("executor {}", std::process::id());
        let status = loop {
            tokio::select! {
                Some(event) = received.recv() => if let Event::Stderr(line) = event { println!("{line}") },
                _ = terminated.recv() => break 42,
                _ = interrupted.recv() => break 43,
                _ = hung_up.recv() => break 44,
            }
        };
        connection.close(tokio::time::Instant::now() + Duration::from_secs(5)).await;
        echo.abort();
        status
    });
    runtime.shutdown_background();
    process::sweep(Duration::from_secs(5));
    ExitCode::from(status)
}
