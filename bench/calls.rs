//! What a call through `mcplan run` costs, over stdio and over HTTP, beside the same call straight to the server, in the same run.
//!
//! `cargo bench -p mcplan-executor --bench calls [-- QUICK]`. Figures of a busy machine are as busy as it is: read the
//! ratio of the two columns, and the CPU time. `README.md` beside this file says what each row is.

#![allow(clippy::print_stdout, clippy::unwrap_used, missing_docs, reason = "its output is its purpose")]

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn main() {
    let arguments: Vec<_> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "serve") {
        return echo::serve(&arguments[at + 1]);
    }
    let quick = arguments.iter().any(|argument| argument.eq_ignore_ascii_case("quick"));
    calls(quick);
    http(quick);
    starts(quick);
    memory(quick);
}

/// The server that is called: reads as little as it must and answers with as many bytes as it is asked for.
mod echo {
    use super::*;

    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        id: Option<&'a RawValue>,
        method: String,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
    }

    #[derive(Deserialize)]
    struct Params {
        arguments: Arguments,
    }

    #[derive(Deserialize)]
    struct Arguments {
        size: usize,
        #[serde(default)]
        delay_ms: u64,
    }

    pub(super) fn serve(name: &str) {
        let (sender, answers) = std::sync::mpsc::channel::<String>();
        let writer = std::thread::spawn(move || {
            let mut out = BufWriter::new(std::io::stdout().lock());
            while let Ok(answer) = answers.recv() {
                let mut next = Some(answer);
                while let Some(answer) = next {
                    out.write_all(answer.as_bytes()).unwrap();
                    next = answers.try_recv().ok();
                }
                if out.flush().is_err() {
                    return;
                }
            }
        });
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let message: Message<'_> = serde_json::from_str(&line).unwrap();
            let Some(id) = message.id.map(ToString::to_string) else { continue };
            let mut delay = 0;
            let result = match message.method.as_str() {
                "initialize" => json!({
                    "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                    "serverInfo": { "name": name, "version": "1" },
                })
                .to_string(),
                "tools/list" => json!({ "tools": tools(name) }).to_string(),
                "tools/call" => {
                    let params: Params = serde_json::from_str(message.params.unwrap().get()).unwrap();
                    delay = params.arguments.delay_ms;
                    result(params.arguments.size)
                }
                _ => "{}".to_owned(),
            };
            let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n");
            if delay == 0 {
                sender.send(answer).unwrap();
            } else {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(delay));
                    let _gone = sender.send(answer);
                });
            }
        }
        drop(sender);
        writer.join().unwrap();
    }

    /// A text of that many bytes with quotes, line breaks and letters beyond ASCII in it.
    fn result(size: usize) -> String {
        let text = "A \"quoted\" wörd and\na line.\n".repeat(size / 28 + 1);
        let mut end = size.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        json!({ "content": [{ "type": "text", "text": text[..end] }] }).to_string()
    }

    fn tools(name: &str) -> Vec<Value> {
        let schema = json!({
            "type": "object", "required": ["size"],
            "properties": {
                "size": { "type": "integer", "description": "Bytes of the answer" },
                "delay_ms": { "type": "integer", "description": "Milliseconds until it comes" },
            },
        });
        let other = |at: usize| {
            json!({
                "name": format!("list_records_{at}"),
                "description": format!("Lists the records of kind {at} of {name}, newest first. {}", "Pages are of fifty. ".repeat(12)),
                "inputSchema": schema,
            })
        };
        let echo = json!({ "name": "echo", "description": "Answers with so many bytes", "inputSchema": schema });
        std::iter::once(echo).chain((1..20).map(other)).collect()
    }
}

/// After which an executor without calls is idle: what only its start needed is given back by then.
const QUIET: Duration = Duration::from_secs(3);
/// The arguments that make it a server on its own pipes.
const STDIO: &[&str] = &["run", "--stdio"];

/// The command that is mcplan in front of that many echo servers, and the directory of its config. A lock is made here,
/// before any clock runs.
fn prepare(servers: usize, lock: bool, run: &[&str]) -> (Command, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let entry = |at: usize| json!({ "name": format!("s{at}"), "command": own, "args": ["serve", format!("s{at}")] });
    let config = json!({
        "mcp": { "defer": false, "max_result_chars": 0 }, "serve": { "disclosure": "all" },
        "mcp_servers": (0..servers).map(entry).collect::<Vec<_>>(),
    });
    std::fs::write(directory.path().join("config.yml"), config.to_string()).unwrap();
    let mcplan = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcplan"));
        command.args(arguments).current_dir(directory.path());
        command
    };
    if lock {
        assert!(mcplan(&["lock", "-q"]).stdout(Stdio::null()).status().unwrap().success());
    }
    (mcplan(run), directory)
}

/// A server at the other end of two pipes.
struct Server {
    child: Child,
    /// Until we hang up.
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    next: u64,
    /// The directory of its config, which must be there as long as it runs.
    _directory: Option<tempfile::TempDir>,
}

impl Server {
    fn start(mut command: Command, directory: Option<tempfile::TempDir>) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::with_capacity(1 << 20, child.stdout.take().unwrap()));
        let mut server = Self { child, stdin, stdout, next: 0, _directory: directory };
        let client = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } });
        server.request("initialize", &client);
        server.write(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        server
    }

    /// The echo server itself.
    fn direct() -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["serve", "s0"]);
        Self::start(command, None)
    }

    fn through(servers: usize) -> Self {
        let (command, directory) = prepare(servers, false, STDIO);
        Self::start(command, Some(directory))
    }

    fn write(&mut self, line: &str) {
        self.stdin.as_mut().unwrap().write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn send(&mut self, method: &str, params: &Value) -> u64 {
        self.next += 1;
        let id = self.next;
        self.write(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#));
        id
    }

    /// The next answer: its id, and how many bytes the line has.
    fn answer(&mut self) -> (u64, String) {
        #[derive(Deserialize)]
        struct Answer {
            id: Option<u64>,
        }
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the server is gone");
            assert!(!line.contains("\"error\":{\"code\"") && !line.contains("\"isError\":true"), "{line}");
            // The id stands in front or at the end of what is large, so the whole is read as loosely as can be.
            if let Some(id) = serde_json::from_str::<Answer>(&line).unwrap().id {
                return (id, line);
            }
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> String {
        let id = self.send(method, params);
        loop {
            let (answered, line) = self.answer();
            if answered == id {
                return line;
            }
        }
    }

    /// CPU time of our processes so far.
    fn cpu(&self) -> Duration {
        cpu(self.child.id())
    }

    /// Resident memory of our processes, in kilobytes.
    fn memory(&self) -> u64 {
        let of = |pid: u32| -> Option<u64> {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().split(' ').next()?.parse().ok()
        };
        processes(self.child.id()).into_iter().filter_map(of).sum()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its end of input ends it, with all that it started.
        drop(self.stdin.take());
        let _status = self.child.wait();
    }
}

fn children(pid: u32) -> Vec<u32> {
    let of_task = |path: std::path::PathBuf| std::fs::read_to_string(path.join("children")).unwrap_or_default();
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let pids: Vec<_> = tasks.map(|task| of_task(task.path())).collect();
    pids.iter().flat_map(|pids| pids.split_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
}

/// A process and those below it that are ours and no servers: the guard, and the executor under it.
fn processes(pid: u32) -> Vec<u32> {
    let ours = children(pid).into_iter().filter(|pid| {
        std::fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|exe| exe == std::path::Path::new(env!("CARGO_BIN_EXE_mcplan")))
    });
    std::iter::once(pid).chain(ours).collect()
}

/// CPU time of these processes so far.
fn cpu(pid: u32) -> Duration {
    let of_thread = |path: std::path::PathBuf| -> Option<u64> {
        std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse().ok()
    };
    let threads = processes(pid).into_iter().flat_map(|pid| {
        std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten().map(|entry| entry.path())
    });
    Duration::from_nanos(threads.filter_map(of_thread).sum())
}

/// A client over HTTP: a connection that is kept, and the session that it speaks in.
struct Http {
    stream: BufReader<TcpStream>,
    address: String,
    session: Option<String>,
}

impl Http {
    fn connect(address: &str, session: Option<String>) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::with_capacity(1 << 20, stream), address: address.to_owned(), session }
    }

    fn post(&mut self, message: &Value) -> Vec<u8> {
        let (body, address) = (message.to_string(), &self.address);
        let session = self.session.as_ref().map(|id| format!("mcp-session-id: {id}\r\n")).unwrap_or_default();
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{session}\r\n",
            body.len()
        );
        self.stream.get_mut().write_all((head + &body).as_bytes()).unwrap();
        let (mut length, mut line) = (0, String::new());
        while self.stream.read_line(&mut line).unwrap() > 2 {
            let (name, value) = line.trim_end().split_once(": ").unwrap_or((&line, ""));
            match name {
                "content-length" => length = value.parse().unwrap(),
                "mcp-session-id" => self.session = Some(value.to_owned()),
                _ => {}
            }
            line.clear();
        }
        let mut answer = vec![0; length];
        self.stream.read_exact(&mut answer).unwrap();
        answer
    }
}

/// The same calls over HTTP, beside those straight to the server over its pipes.
fn http(quick: bool) {
    let (mut command, _directory) = prepare(3, false, &["run", "--listen", "127.0.0.1:0"]);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let address =
        lines.find_map(|line| Some(line.split_once("http://")?.1.trim_end_matches("/mcp").to_owned())).unwrap();
    std::thread::spawn(move || lines.for_each(drop));
    let client = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } });
    let request =
        |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let mut first = Http::connect(&address, None);
    first.post(&request("initialize", client));
    first.post(&request("tools/list", json!({})));
    let mut direct = Server::direct();
    println!("\n| calls over HTTP | direct p50, pipes | through p50 | through /s | CPU a call |");
    println!("|---|---|---|---|---|");
    for (what, size, at_once, calls) in [
        ("100 B, one at a time", 100, 1, 8_000),
        ("10 kB, one at a time", 10_000, 1, 4_000),
        ("1 MB, one at a time", 1_000_000, 1, 100),
        ("100 B, 32 at once", 100, 32, 1_000),
        ("1 MB, 32 at once", 1_000_000, 32, 10),
    ] {
        let each = if quick { calls / 20 + 5 } else { calls };
        let alone = round(&mut direct, "echo", (size, 0), each * at_once, at_once);
        let (before, began) = (cpu(child.id()), Instant::now());
        let workers: Vec<_> = (0..at_once)
            .map(|number| {
                let mut http = Http::connect(&address, first.session.clone());
                std::thread::spawn(move || {
                    let arguments = json!({ "size": size });
                    let call = |at: usize| {
                        let params = json!({ "name": "mcp__s0__echo", "arguments": arguments });
                        json!({ "jsonrpc": "2.0", "id": number * 1_000_000 + at, "method": "tools/call", "params": params })
                    };
                    let latency = |at: usize| {
                        let (call, began) = (call(at), Instant::now());
                        assert!(http.post(&call).len() >= size, "a short answer");
                        began.elapsed()
                    };
                    (2..each + 2).map(latency).collect::<Vec<_>>()
                })
            })
            .collect();
        let mut latencies: Vec<_> = workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect();
        latencies.sort();
        let ours = Round { whole: began.elapsed(), cpu: cpu(child.id()) - before, latencies };
        println!(
            "| {what} | {:.0?} | {:.0?} | {:.0} | {:.0?} |",
            median(&alone),
            median(&ours),
            per_second(&ours),
            ours.cpu / u32::try_from(ours.latencies.len()).unwrap(),
        );
    }
    // The guard hands it on to the executor, which ends the servers.
    let _ended = Command::new("kill").arg(child.id().to_string()).status();
    let _status = child.wait();
}

/// What a round of calls took.
struct Round {
    latencies: Vec<Duration>,
    whole: Duration,
    cpu: Duration,
}

/// Calls `tool` so often, `at_once` of them in flight.
fn round(server: &mut Server, tool: &str, (size, delay_ms): (usize, u64), calls: usize, at_once: usize) -> Round {
    let params = json!({ "name": tool, "arguments": { "size": size, "delay_ms": delay_ms } });
    let (mut sent, mut latencies) = (HashMap::new(), Vec::with_capacity(calls));
    let (cpu, began) = (server.cpu(), Instant::now());
    let mut left = calls;
    while latencies.len() < calls {
        while left > 0 && sent.len() < at_once {
            let now = Instant::now();
            sent.insert(server.send("tools/call", &params), now);
            left -= 1;
        }
        let (id, line) = server.answer();
        assert!(line.len() >= size, "a short answer: {} bytes", line.len());
        if let Some(since) = sent.remove(&id) {
            latencies.push(since.elapsed());
        }
    }
    latencies.sort();
    Round { whole: began.elapsed(), cpu: server.cpu() - cpu, latencies }
}

fn median(round: &Round) -> Duration {
    round.latencies[round.latencies.len() / 2]
}

fn per_second(round: &Round) -> f64 {
    round.latencies.len() as f64 / round.whole.as_secs_f64()
}

fn calls(quick: bool) {
    println!("| calls | direct p50 | through p50 | added | direct /s | through /s | share | CPU a call |");
    println!("|---|---|---|---|---|---|---|---|");
    let (mut direct, mut through) = (Server::direct(), Server::through(3));
    through.request("tools/list", &json!({}));
    for (what, load, at_once, calls) in [
        ("100 B, one at a time", (100, 0), 1, 8_000),
        ("10 kB, one at a time", (10_000, 0), 1, 4_000),
        ("1 MB, one at a time", (1_000_000, 0), 1, 100),
        ("100 B, 32 at once", (100, 0), 32, 60_000),
        ("10 kB, 32 at once", (10_000, 0), 32, 20_000),
        ("1 MB, 32 at once", (1_000_000, 0), 32, 300),
        ("100 B after 20 ms, 32 at once", (100, 20), 32, 3_000),
    ] {
        let calls = if quick { calls / 20 + 5 } else { calls };
        // In turn, so that both meet the same machine; the best of three is the figure least touched by other work.
        let mut best: Option<(Round, Round)> = None;
        for _ in 0..if quick { 1 } else { 3 } {
            let alone = round(&mut direct, "echo", load, calls, at_once);
            let ours = round(&mut through, "mcp__s0__echo", load, calls, at_once);
            if best.as_ref().is_none_or(|(_, before)| ours.whole < before.whole) {
                best = Some((alone, ours));
            }
        }
        let (alone, ours) = best.unwrap();
        println!(
            "| {what} | {:.0?} | {:.0?} | {:.0?} | {:.0} | {:.0} | {:.0} % | {:.0?} |",
            median(&alone),
            median(&ours),
            median(&ours).saturating_sub(median(&alone)),
            per_second(&alone),
            per_second(&ours),
            100.0 * per_second(&ours) / per_second(&alone),
            ours.cpu / u32::try_from(ours.latencies.len()).unwrap(),
        );
    }
}

fn starts(quick: bool) {
    println!("\n| start | first list | each server answered a call |");
    println!("|---|---|---|");
    for (servers, lock) in [(1, false), (10, false), (50, false), (50, true)] {
        let mut best: Option<(Duration, Duration)> = None;
        for _ in 0..if quick { 1 } else { 5 } {
            let prepared = prepare(servers, lock, STDIO);
            let began = Instant::now();
            let mut server = Server::start(prepared.0, Some(prepared.1));
            server.request("tools/list", &json!({}));
            let listed = began.elapsed();
            let call = |at: usize| json!({ "name": format!("mcp__s{at}__echo"), "arguments": { "size": 10 } });
            let mut waiting: std::collections::HashSet<_> =
                (0..servers).map(|at| server.send("tools/call", &call(at))).collect();
            while !waiting.is_empty() {
                waiting.remove(&server.answer().0);
            }
            let called = began.elapsed();
            if best.is_none_or(|(_, before)| called < before) {
                best = Some((listed, called));
            }
        }
        let (listed, called) = best.unwrap();
        let with = if lock { " with a lock" } else { "" };
        println!("| {servers} servers{with} | {listed:.0?} | {called:.0?} |");
    }
}

fn memory(quick: bool) {
    println!("\n| memory of all our processes | |");
    println!("|---|---|");
    let mut server = Server::through(3);
    server.request("tools/list", &json!({}));
    round(&mut server, "mcp__s0__echo", (1_000, 0), 100, 32);
    std::thread::sleep(QUIET);
    println!("| idle, 3 servers | {:.1} MB |", server.memory() as f64 / 1024.0);
    let (first, rest) = if quick { (1_000, 1_000) } else { (10_000, 40_000) };
    round(&mut server, "mcp__s0__echo", (1_000, 0), first, 32);
    let after = server.memory();
    round(&mut server, "mcp__s0__echo", (1_000, 0), rest, 32);
    let grown = server.memory() as f64 - after as f64;
    println!("| from call {first} to {} | {:+.1} MB |", first + rest, grown / 1024.0);
    let mut many = Server::through(50);
    many.request("tools/list", &json!({}));
    std::thread::sleep(QUIET);
    println!("| idle, 50 servers | {:.1} MB |", many.memory() as f64 / 1024.0);
}
