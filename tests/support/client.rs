//! A client at the other end of `mcplan run --stdio`, of either era, that speaks lines and keeps what it hears.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::{Value, json};

use super::{DEADLINE, Project};

/// How a client speaks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Era {
    /// With initialize.
    Session,
    /// 2026-07-28: every request says who asks.
    Stateless,
}

/// Lines of stderr as they come.
#[derive(Default)]
struct Heard {
    lines: Vec<String>,
    ended: bool,
}

/// A running executor and the client's side of its streams.
pub struct Client {
    pub child: Child,
    stdin: Option<ChildStdin>,
    stdout: Receiver<String>,
    /// What came and wasn't asked for yet, whole lines.
    waiting: VecDeque<String>,
    stderr: Arc<(Mutex<Heard>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
    next: u64,
    era: Era,
    /// What it says that it can do.
    pub capabilities: Value,
}

impl Client {
    /// Starts `mcplan run --stdio ARGS` and opens a session with it.
    pub fn start(project: &Project, args: &[&str]) -> Self {
        let mut client = Self::connect(project, args, Era::Session);
        client.initialize("2025-11-25");
        client
    }

    /// Starts it for a client without initialize.
    pub fn stateless(project: &Project, args: &[&str]) -> Self {
        Self::connect(project, args, Era::Stateless)
    }

    /// Starts it and says nothing.
    pub fn connect(project: &Project, args: &[&str], era: Era) -> Self {
        let mut command = project.command(&["run", "--stdio"]);
        command.args(args);
        Self::spawn(command, era)
    }

    /// Starts `command`, which must be an executor.
    pub fn spawn(mut command: std::process::Command, era: Era) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (sender, stdout) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        let read_out = std::thread::spawn(move || {
            for line in out.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let stderr: Arc<(Mutex<Heard>, Condvar)> = Arc::default();
        let (heard, err) = (stderr.clone(), BufReader::new(child.stderr.take().unwrap()));
        let read_err = std::thread::spawn(move || {
            for line in err.lines().map_while(Result::ok) {
                heard.0.lock().unwrap().lines.push(line);
                heard.1.notify_all();
            }
            heard.0.lock().unwrap().ended = true;
            heard.1.notify_all();
        });
        let stdin = child.stdin.take();
        let threads = vec![read_out, read_err];
        Self { child, stdin, stdout, waiting: VecDeque::new(), stderr, threads, next: 0, era, capabilities: json!({}) }
    }

    /// The handshake of the older revisions; gives its result.
    pub fn initialize(&mut self, version: &str) -> Value {
        let params = json!({
            "protocolVersion": version, "capabilities": self.capabilities, "clientInfo": { "name": "test", "version": "1" },
        });
        let result = self.request("initialize", params);
        self.line(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string());
        result
    }

    /// Sends a line as it is.
    pub fn line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        // An executor that is gone is noticed by the next read.
        let _ = stdin.write_all(format!("{line}\n").as_bytes()).and_then(|()| stdin.flush());
    }

    /// Sends a request and gives its id.
    pub fn send(&mut self, method: &str, mut params: Value) -> u64 {
        self.next += 1;
        if self.era == Era::Stateless {
            let meta = json!({
                "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            });
            match params.get_mut("_meta").and_then(Value::as_object_mut) {
                Some(own) => own.extend(meta.as_object().unwrap().clone()),
                None => params["_meta"] = meta,
            }
        }
        let message = json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params });
        self.line(&message.to_string());
        self.next
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        self.line(&json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string());
    }

    fn hear(&mut self, what: &str) -> String {
        match self.stdout.recv_timeout(DEADLINE) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => panic!("no {what} in time; stderr:\n{}", self.log()),
            Err(RecvTimeoutError::Disconnected) => panic!("the executor ended before {what}; stderr:\n{}", self.log()),
        }
    }

    /// The first line, heard already or to come, of which `wanted` holds.
    fn first(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> String {
        let is_wanted = |line: &str| wanted(&serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}")));
        if let Some(at) = self.waiting.iter().position(|line| is_wanted(line)) {
            return self.waiting.remove(at).unwrap();
        }
        loop {
            let line = self.hear(what);
            if is_wanted(&line) {
                return line;
            }
            self.waiting.push_back(line);
        }
    }

    /// The answer to a request, as the text that it is.
    pub fn raw_answer(&mut self, id: u64) -> String {
        self.first(&format!("answer to request {id}"), |message| message["id"] == id)
    }

    /// The next answer with this id, which may be null.
    pub fn answer_to(&mut self, id: &Value) -> Value {
        let line = self.first(&format!("answer to {id}"), |message| {
            message.get("id").unwrap_or(&Value::Null) == id && message.get("method").is_none()
        });
        serde_json::from_str(&line).unwrap()
    }

    pub fn stdin(&mut self) -> &mut ChildStdin {
        self.stdin.as_mut().unwrap()
    }

    /// Lines that came and that nobody asked for.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Sends a text without the end of a line, and hangs up.
    pub fn last_words(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
        self.hang_up();
    }

    /// Whether one of them holds this text.
    pub fn has_heard(&self, text: &str) -> bool {
        self.waiting.iter().any(|line| line.contains(text))
    }

    pub fn answer(&mut self, id: u64) -> Value {
        serde_json::from_str(&self.raw_answer(id)).unwrap()
    }

    /// A request's result.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// A request's error.
    pub fn error(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        let answer = self.answer(id);
        assert!(answer.get("result").is_none(), "{method}: {answer}");
        answer["error"].clone()
    }

    /// The next message of this method that is no answer.
    pub fn notice(&mut self, method: &str) -> Value {
        serde_json::from_str(&self.first(method, |message| message["method"] == method)).unwrap()
    }

    /// Everything of this method that has come so far. A ping before makes "so far" a moment.
    pub fn notices(&mut self, method: &str) -> usize {
        self.request(if self.era == Era::Session { "ping" } else { "server/discover" }, json!({}));
        let is_wanted = |line: &String| serde_json::from_str::<Value>(line).unwrap()["method"] == method;
        let before = self.waiting.len();
        self.waiting.retain(|line| !is_wanted(line));
        before - self.waiting.len()
    }

    pub fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": name, "arguments": arguments }))
    }

    /// The one text of a call that works.
    pub fn text(&mut self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments);
        assert_ne!(result["isError"], true, "{name}: {result}");
        result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
    }

    /// The text of a call that fails.
    pub fn failure(&mut self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments);
        assert_eq!(result["isError"], true, "{name}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Every tool of every page.
    pub fn tools(&mut self) -> Vec<Value> {
        let (mut tools, mut params) = (Vec::new(), json!({}));
        loop {
            let page = self.request("tools/list", params);
            tools.extend(page["tools"].as_array().unwrap().iter().cloned());
            match page.get("nextCursor") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => return tools,
            }
        }
    }

    pub fn names(&mut self) -> Vec<String> {
        self.tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Lists until the list is as wanted, after each change that is announced.
    pub fn names_when(&mut self, wanted: impl Fn(&[String]) -> bool) -> Vec<String> {
        loop {
            let names = self.names();
            if wanted(&names) {
                return names;
            }
            self.notice("notifications/tools/list_changed");
        }
    }

    /// What is on stderr so far.
    pub fn log(&self) -> String {
        self.stderr.0.lock().unwrap().lines.join("\n")
    }

    /// How many lines of stderr there are so far: where a later wait looks from.
    pub fn mark(&self) -> usize {
        self.stderr.0.lock().unwrap().lines.len()
    }

    /// The first line of stderr with `text`, from line `since` on.
    pub fn logged(&self, text: &str, since: usize) -> String {
        let until = Instant::now() + DEADLINE;
        let mut heard = self.stderr.0.lock().unwrap();
        loop {
            if let Some(line) = heard.lines.iter().skip(since).find(|line| line.contains(text)) {
                return line.clone();
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !heard.ended, "nothing with {text:?} on stderr:\n{}", heard.lines.join("\n"));
            heard = self.stderr.1.wait_timeout(heard, left).unwrap().0;
        }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.pid()), signal).unwrap();
    }

    /// Closes our side of stdin.
    pub fn hang_up(&mut self) {
        self.stdin = None;
    }

    /// Waits for the end; gives the status and all that is on stderr.
    pub fn ended(mut self) -> (ExitStatus, String) {
        // The pipes end with the last process that holds them.
        let status = self.child.wait().unwrap();
        for thread in std::mem::take(&mut self.threads) {
            thread.join().unwrap();
        }
        let log = self.log();
        (status, log)
    }

    /// Hangs up, expects a clean end, gives all that is on stderr.
    pub fn end(mut self) -> String {
        self.hang_up();
        let (status, log) = self.ended();
        assert!(status.success(), "{status}\n{log}");
        log
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // A test that failed leaves nothing behind; one that is fine has waited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
