//! A server with faults, and an executor with one server, both run by the test binary itself under another name.

use std::io::{BufRead as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use mcplan_executor::runtime::connection::{Context, Event, Terms, connect};
use mcplan_executor::runtime::process::{self, guard};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};

/// Runs as what `args` say.
pub fn run(args: &[String]) -> ExitCode {
    match args[0].as_str() {
        "serve" => serve(args.get(1).map_or("", String::as_str)),
        "guard" => guard::run(["fault", "executor"].map(Into::into), |_| {}),
        "executor" => executor(),
        other => panic!("no such role: {other}"),
    }
}

/// A server entry that runs this binary as a server with `fault`.
pub fn faulty(fault: &str, limits: Value) -> mcplan_compiler::plan::Server {
    let own = std::env::current_exe().unwrap();
    server(own.to_str().unwrap(), &["fault", "serve", fault], limits)
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

fn say(message: &Value) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{message}").unwrap();
    out.flush().unwrap();
}

/// Speaks MCP on stdin and stdout, but for `fault`.
fn serve(fault: &str) -> ExitCode {
    match fault {
        "exit-at-start" => {
            eprintln!("cannot find the moon");
            return ExitCode::from(3);
        }
        "hang" => loop {
            std::thread::park();
        },
        "banner" => println!("Welcome to FaultServer 1.0!\n  listening…\n{{\"level\":\"info\"}}"),
        _ => {}
    }
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let message: Value = serde_json::from_str(&line).unwrap();
        let method = message["method"].as_str().unwrap_or_default();
        if fault.strip_prefix("exit-at-") == Some(method) {
            eprintln!("gone at {method}");
            return ExitCode::from(4);
        }
        if fault.strip_prefix("hang-at-") == Some(method) {
            continue;
        }
        if message.get("id").is_none() {
            continue;
        }
        let result = match method {
            "initialize" => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                   "serverInfo": {"name": "fault", "version": "1"}}),
            "tools/list" => tools(fault, &message),
            _ => json!({}),
        };
        say(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
    }
    ExitCode::SUCCESS
}

fn tools(fault: &str, message: &Value) -> Value {
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    match fault {
        "environment" => {
            let tools: Vec<_> = std::env::vars().map(|(name, value)| tool(&format!("{name}={value}"))).collect();
            json!({ "tools": tools })
        }
        "huge" => json!({"tools": [tool(&"x".repeat(17 << 20))]}),
        "endless" => {
            let page: u64 = message["params"]["cursor"].as_str().map_or(0, |cursor| cursor.parse().unwrap());
            json!({"tools": [tool(&format!("t{page}"))], "nextCursor": (page + 1).to_string()})
        }
        _ => json!({"tools": [tool("one")]}),
    }
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
