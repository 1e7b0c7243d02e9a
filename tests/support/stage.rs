//! A running executor with one healthy server and the same faulty one over each transport, and what is to be known of
//! it: its processes, its state.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};

use super::client::{Client, Era};
use super::remote::{Kind, Remote};
use super::{DEADLINE, Project, config, merge, scripted};

/// Over what the faulty server is spoken to, and how it is named.
pub const WAYS: [&str; 5] = ["stdio", "http", "stateless", "sse", "ws"];

/// The tools of a faulty server.
const TOOLS: [&str; 5] = ["fault", "set", "echo", "pid", "become"];

/// Everything of a test.
pub struct Stage {
    pub project: Project,
    pub remotes: Vec<(&'static str, Remote)>,
    pub client: Client,
    servers: Vec<Value>,
}

impl Stage {
    /// With faults by method for the faulty servers, by way and with `more` in their entries.
    pub fn new(ways: &[&'static str], at: &Value, more: &Value) -> Self {
        let stage = Self::bare(ways, at, more);
        stage.fill();
        stage
    }

    /// The same, while the config still names none of them.
    pub fn bare(ways: &[&'static str], at: &Value, more: &Value) -> Self {
        let project = Project::new("");
        let remotes: Vec<_> =
            ways.iter().filter_map(|way| Some((*way, Remote::with(kind(way)?, &TOOLS, at.clone())))).collect();
        let mut servers = vec![scripted("good", &json!({ "tools": TOOLS }), json!({ "defer": false }))];
        let mut own = json!({ "defer": false, "call_timeout_seconds": 1.5 });
        merge(&mut own, more.clone());
        if ways.contains(&"stdio") {
            let script = json!({ "tools": TOOLS, "at": at, "log": project.path("stdio.log") });
            servers.push(scripted("stdio", &script, own.clone()));
        }
        servers.extend(remotes.iter().map(|(way, remote)| {
            let mut more = own.clone();
            // Those that come back do so when they are told to.
            more["reconnect"] = json!({ "initial_seconds": 60, "max_seconds": 60, "jitter_seconds": 0 });
            remote.entry(way, more)
        }));
        project.write("config.yml", &config(&[], json!({})));
        let mut command = project.command(&["run", "--stdio"]);
        command.env("TEAM", "bakers");
        let mut client = Client::spawn(command, Era::Session);
        client.initialize("2025-11-25");
        Self { project, remotes, client, servers }
    }

    /// Has all servers in the config, and waits until they are taken in.
    pub fn fill(&self) {
        self.holds(&self.servers);
    }

    /// Has none any more.
    pub fn clear(&self) {
        self.holds(&[]);
    }

    /// A server that can't be connected is taken in too.
    fn holds(&self, servers: &[Value]) {
        self.project.replace("config.yml", &config(servers, json!({})));
        let ran = self.project.run(&["reload"]);
        assert_ne!(ran.code, 2, "{ran:?}\n{}", self.client.log());
    }

    /// Writes the config again: with these further keys of the file, and so that a server is another one than before.
    pub fn rewrite(&mut self, more: &Value, changed: Option<&str>, round: usize) {
        if let Some(server) = self.servers.iter_mut().find(|server| server["name"].as_str() == changed) {
            let key = if changed == Some("stdio") { "env" } else { "headers" };
            server[key]["X_ROUND"] = json!(round.to_string());
        }
        self.project.replace("config.yml", &config(&self.servers, more.clone()));
    }

    /// Waits until a server has this state, and the cause behind it after a colon.
    pub fn becomes(&self, name: &str, state: &str) {
        becomes(&self.project, &self.client, name, state);
    }

    /// Connects a server anew.
    pub fn reconnect(&self, name: &str) {
        let ran = self.project.run(&["reconnect", name]);
        assert_eq!(ran.code, 0, "{ran:?}\n{}", self.client.log());
    }

    /// Sends a call of a server's tool.
    pub fn send(&mut self, server: &str, tool: &str, arguments: Value) -> u64 {
        self.client.send("tools/call", json!({ "name": format!("mcp__{server}__{tool}"), "arguments": arguments }))
    }

    /// The text of a call's result, and whether it failed.
    pub fn told(&mut self, id: u64) -> (String, bool) {
        let answer = self.client.answer(id);
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        match text {
            Some(text) => (text.to_owned(), result["isError"] == true),
            None => (answer.to_string(), answer.get("error").is_some()),
        }
    }

    /// Ends it, and looks whether anything that it started lives on; gives its log.
    pub fn end(self) -> String {
        let all = descendants(self.client.pid());
        let log = self.client.end();
        let left: Vec<_> = all.into_iter().filter(|pid| lives(*pid)).collect();
        assert!(left.is_empty(), "{left:?} live on\n{log}");
        log
    }
}

/// The whole of `mcplan status --json`.
pub fn status(project: &Project) -> Value {
    let ran = project.run(&["status", "--json"]);
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

/// One server of it.
pub fn of(status: &Value, name: &str) -> Value {
    let servers = status["mcp"]["servers"].as_array().unwrap();
    servers.iter().find(|server| server["name"] == name).unwrap_or_else(|| panic!("{name}: {status}")).clone()
}

/// Its state, the cause behind a colon, and its warnings.
pub fn shown(server: &Value) -> String {
    let cause = server["cause"].as_str().map(|cause| format!(": {cause}")).unwrap_or_default();
    let warnings = server["warnings"].as_array().unwrap().iter().map(|text| format!("; {}", text.as_str().unwrap()));
    format!("{}{cause}{}", server["state"].as_str().unwrap(), warnings.collect::<String>())
}

/// Waits until a server has this state, as [`shown`] tells it and with `…` for any text.
pub fn becomes(project: &Project, client: &Client, name: &str, state: &str) {
    let until = std::time::Instant::now() + DEADLINE;
    loop {
        let now = shown(&of(&status(project), name));
        if says(&now, state) {
            return;
        }
        assert!(std::time::Instant::now() < until, "{name} is {now}, not {state}\n{}", client.log());
    }
}

/// Whether a text holds the pieces of another one between its `…`, in order.
pub fn says(text: &str, pieces: &str) -> bool {
    let mut rest = Some(text);
    for piece in pieces.split('…') {
        rest = rest.and_then(|rest| rest.split_once(piece)).map(|(_, rest)| rest);
    }
    rest.is_some()
}

/// The kind of remote server behind a way, if it isn't a process.
pub fn kind(way: &str) -> Option<Kind> {
    Some(match way {
        "http" => Kind::Session,
        "stateless" => Kind::Stateless,
        "sse" => Kind::Sse,
        "ws" => Kind::Websocket,
        _ => return None,
    })
}

/// State and parent of a process.
fn stat(pid: i32) -> Option<(char, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

/// A zombie counts as dead: whoever adopted it may not look after it.
pub fn lives(pid: i32) -> bool {
    stat(pid).is_some_and(|(state, _)| !matches!(state, 'Z' | 'X'))
}

/// Every process that has this one among its ancestors, without zombies.
pub fn descendants(of: i32) -> Vec<i32> {
    let pids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let parents: HashMap<i32, i32> = pids.filter_map(|pid| Some((pid, stat(pid)?.1))).collect();
    let is_below =
        |pid: &i32| std::iter::successors(parents.get(pid), |parent| parents.get(parent)).any(|parent| *parent == of);
    parents.keys().filter(|pid| is_below(pid) && lives(**pid)).copied().collect()
}

/// The file handles of a process, counted by what they are: `socket to stdio`, `pipe`, `[eventfd]`. Connections to a
/// remote server have its name.
pub fn handles(pid: i32, remotes: &[(&'static str, Remote)]) -> BTreeMap<String, usize> {
    let mut sockets = HashMap::new();
    let tcp = std::fs::read_to_string(format!("/proc/{pid}/net/tcp")).unwrap();
    for line in tcp.lines().skip(1) {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let port = u16::from_str_radix(fields[2].rsplit_once(':').unwrap().1, 16).unwrap();
        let name = remotes.iter().find(|(_, remote)| remote.port() == port).map_or("others", |(name, _)| *name);
        sockets.insert(format!("socket:[{}]", fields[9]), format!("connection to {name}"));
    }
    let mut handles = BTreeMap::new();
    for handle in std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap() {
        // One that was closed since it was listed is none.
        let Ok(target) = std::fs::read_link(handle.unwrap().path()) else { continue };
        let target = target.display().to_string();
        let kind = sockets.get(&target).cloned().unwrap_or_else(|| {
            target
                .strip_prefix("anon_inode:")
                .or(target.split_once(":[").map(|(kind, _)| kind))
                .unwrap_or(&target)
                .into()
        });
        *handles.entry(kind).or_default() += 1;
    }
    handles
}
