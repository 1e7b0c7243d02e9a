//! An MCP server that does what a script says: the test binary itself, started again as one ignored test.
//!
//! The script is a JSON object in the variable `SCRIPT`:
//!
//! - `tools`: names of tools, or whole tools as JSON texts; `many`: that many further tools `t0000`…
//! - `tools_of_environment`: a tool for each variable, named as the variable and its value
//! - `tools_file`: a file with the JSON text of one more
//! - `replay`: a file with what a real server answered: `serverInfo`, `instructions`, `tools`, `prompts`,
//!   `resourceTemplates`; said again byte for byte
//! - `log`: a file that gets a line for each message received, after `start PID`
//! - `gate`: a named pipe to wait for before `initialize` is answered
//! - `list_gate`: the same before the first `tools/list` is answered
//! - `upon_list`: announce a change after every `tools/list`
//! - `instructions`, `stderr`, `noise`: texts to say
//! - `deaf`: never answer anything
//! - `leak`: names of variables whose values are said wherever a server can say anything
//! - `owns`: a file that only one may hold; the log says `taken` when another one does
//! - `exit`: end with this status at once
//! - `offers`: what else it has: `prompts` and `resources` and `templates`, names, URIs and URI templates, or whole items as JSON texts
//! - `offers_file`: a file with the JSON of that
//! - `result`: the JSON text of what every unknown tool answers
//! - `at`: faults by method, see [`fault`]; `at_file`: a file with the JSON of that
//!
//! Some tools do something: see [`Server::act`].

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::fault::{self, Act, Fault, Replies, text_result};

/// Runs as a server if a script says so; as an ordinary test it does nothing.
pub fn main() {
    let Ok(script) = std::env::var("SCRIPT") else { return };
    run(serde_json::from_str(&script).unwrap(), "/dev/fd/3");
}

/// Runs as a server that does what `script` says and talks on the file `out`.
pub fn run(mut script: Value, out: &str) {
    if let Some(names) = script["leak"].as_array() {
        let values: Vec<_> = names.iter().map(|name| std::env::var(name.as_str().unwrap()).unwrap()).collect();
        let all = values.join(" and ");
        for place in ["noise", "stderr", "instructions"] {
            script[place] = json!(format!("{place} says {all}"));
        }
        let tool = |name: &str| json!({ "name": name, "description": format!("knows {all}"), "inputSchema": { "type": "object", "default": { "k": all } } });
        script["tools"] = json!([
            tool("leak").to_string(),
            tool("refuse").to_string(),
            tool(&format!("get {all}")).to_string(),
            json!({ "name": "key", "inputSchema": { "type": "object", "properties": { all.clone(): {} } } })
                .to_string(),
            json!({ "name": "enum", "inputSchema": { "type": "object", "properties": { "x": { "enum": [all] } } } })
                .to_string(),
            json!({ "name": "meta", "_meta": { "name": all, "uri": all }, "inputSchema": { "type": "object" } })
                .to_string(),
            json!({ "name": all, "inputSchema": [] }).to_string()
        ]);
        script["all"] = json!(all);
    }
    for (file, key) in [("offers_file", "offers"), ("at_file", "at")] {
        if let Some(path) = script[file].as_str() {
            script[key] = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        }
    }
    let out = std::fs::OpenOptions::new().write(true).open(out).unwrap();
    Server { out: Arc::new(Mutex::new(out)), tools: tools(&script), script, replies: Arc::default() }.serve();
    std::process::exit(0);
}

fn tools(script: &Value) -> Vec<String> {
    let named = script["tools"].as_array().into_iter().flatten().map(|tool| {
        let text = tool.as_str().unwrap();
        if text.starts_with('{') { text.to_owned() } else { tool_text(text) }
    });
    let many = script["many"].as_u64().unwrap_or(0);
    let replayed = Replay::of(script).map(|replay| replay.tools).unwrap_or_default();
    let file = script["tools_file"].as_str().map(|path| std::fs::read_to_string(path).unwrap());
    let environment = std::env::vars().filter(|_| script["tools_of_environment"] == true);
    named
        .chain(file)
        .chain(environment.map(|(name, value)| tool_text(&format!("{name}={value}"))))
        .chain(replayed.iter().map(|item| Replay::line(item)))
        .chain((0..many).map(|number| tool_text(&format!("t{number:04}"))))
        .collect()
}

/// What a real server answered.
#[derive(serde::Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Replay {
    server_info: Option<Box<RawValue>>,
    instructions: Option<Box<RawValue>>,
    tools: Vec<Box<RawValue>>,
    prompts: Vec<Box<RawValue>>,
    resource_templates: Vec<Box<RawValue>>,
}

impl Replay {
    fn of(script: &Value) -> Option<Self> {
        let text = std::fs::read_to_string(script["replay"].as_str()?).unwrap();
        Some(serde_json::from_str(&text).unwrap())
    }

    fn text(items: &[Box<RawValue>]) -> String {
        let items: Vec<_> = items.iter().map(|item| Self::line(item)).collect();
        format!("[{}]", items.join(","))
    }

    /// On one line, as a message must be: no string of JSON has a line break in it.
    fn line(item: &RawValue) -> String {
        item.get().replace(['\n', '\r'], " ")
    }
}

fn tool_text(name: &str) -> String {
    json!({ "name": name, "description": format!("does {name}"), "inputSchema": { "type": "object" } }).to_string()
}

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// Where it talks to.
type Out = Arc<Mutex<dyn Write + Send>>;

struct Server {
    out: Out,
    script: Value,
    tools: Vec<String>,
    replies: Arc<Replies>,
}

fn say(out: &Mutex<dyn Write + Send>, text: &str) {
    // Whoever doesn't listen any more will end us soon.
    let _ = writeln!(out.lock().unwrap(), "{text}");
}

fn answer(out: &Mutex<dyn Write + Send>, id: &Value, result: &str) {
    say(out, &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
}

impl Server {
    fn log(&self, line: &str) {
        if let Some(path) = self.script["log"].as_str() {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            // In one piece: servers that start at once write to the same file.
            file.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
    }

    fn serve(mut self) {
        self.log(&format!("start {}", std::process::id()));
        let owned = self.script["owns"].as_str().map(|path| File::create(path).unwrap());
        if owned.as_ref().is_some_and(|file| file.try_lock().is_err()) {
            self.log("taken");
        }
        if let Some(text) = self.script["stderr"].as_str() {
            let _ = writeln!(std::io::stderr(), "{text}");
        }
        if let Some(text) = self.script["noise"].as_str() {
            say(&self.out, text);
        }
        if let Some(code) = self.script["exit"].as_i64() {
            std::process::exit(i32::try_from(code).unwrap());
        }
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            let message: Value = serde_json::from_str(&line).unwrap();
            self.log(&line);
            if self.script["deaf"] == true || self.replies.take(&message) {
                continue;
            }
            match fault::of(&self.script["at"], &message) {
                Some(fault) => self.fail(fault, &message),
                None => self.take(&message),
            }
        }
        self.log("end of input");
    }

    /// Does `fault` in place of what would be right.
    fn fail(&mut self, fault: Fault, message: &Value) {
        let said = Arc::new(Mutex::new(Vec::new()));
        let out = std::mem::replace(&mut self.out, said.clone());
        self.take(message);
        self.out = out.clone();
        let right = Some(said.lock().unwrap().trim_ascii().to_vec()).filter(|said| !said.is_empty());
        let acts = fault::acts(fault, message, right, &self.replies);
        // A call is slow beside others; whatever else comes has to wait for what is before it.
        if message["method"] == "tools/call" && !matches!(acts[0], Act::Stop | Act::CloseIn | Act::CloseOut) {
            std::thread::spawn(move || acts.into_iter().for_each(|act| carry_out(act, &out)));
        } else {
            acts.into_iter().for_each(|act| carry_out(act, &out));
        }
    }

    fn take(&mut self, message: &Value) {
        let (id, method) = (&message["id"], message["method"].as_str().unwrap_or_default());
        match method {
            "initialize" => {
                if let Some(gate) = self.script["gate"].as_str() {
                    wait_for(gate);
                }
                let mut result = json!({
                    "protocolVersion": "2025-11-25", "capabilities": { "tools": { "listChanged": true } },
                    "serverInfo": { "name": "scripted", "version": "1" }, "instructions": self.script["instructions"],
                });
                if self.script["offers"].is_object() {
                    result["capabilities"]["prompts"] = json!({ "listChanged": true });
                    result["capabilities"]["resources"] = json!({ "listChanged": true });
                }
                if let Some(replay) = Replay::of(&self.script) {
                    let value = |raw: &Option<Box<RawValue>>| {
                        raw.as_ref().map(|raw| serde_json::from_str::<Value>(raw.get()).unwrap())
                    };
                    result["instructions"] = value(&replay.instructions).unwrap_or_default();
                    result["serverInfo"] = value(&replay.server_info).unwrap_or_else(|| result["serverInfo"].clone());
                    result["capabilities"] =
                        json!({ "tools": { "listChanged": true }, "prompts": {}, "resources": {} });
                }
                answer(&self.out, id, &result.to_string());
            }
            "tools/list" => {
                if let Some(gate) = self.script["list_gate"].take().as_str() {
                    wait_for(gate);
                }
                answer(&self.out, id, &format!(r#"{{"tools":[{}]}}"#, self.tools.join(",")));
                if self.script["upon_list"] == true {
                    say(&self.out, CHANGED);
                }
            }
            "prompts/list" | "resources/list" | "resources/templates/list" if self.script["offers"].is_object() => {
                let (key, field) = match method {
                    "prompts/list" => ("prompts", "name"),
                    "resources/list" => ("resources", "uri"),
                    _ => ("resourceTemplates", "uriTemplate"),
                };
                let items = &self.script["offers"][if key == "resourceTemplates" { "templates" } else { key }];
                let items = items.as_array().into_iter().flatten().map(|item| match item.as_str().unwrap() {
                    text if text.starts_with('{') => text.to_owned(),
                    name => json!({ "name": "n", field: name, "description": format!("is {name}") }).to_string(),
                });
                answer(&self.out, id, &format!(r#"{{"{key}":[{}]}}"#, items.collect::<Vec<_>>().join(",")));
            }
            "prompts/get" => {
                let said =
                    format!("{} {}", message["params"]["name"].as_str().unwrap(), message["params"]["arguments"]);
                let said = json!({ "role": "user", "content": { "type": "text", "text": said } });
                answer(&self.out, id, &format!(r#"{{"x-more":1.50,"messages":[{said}]}}"#));
            }
            "resources/read" if message["params"]["uri"].as_str().is_some_and(|uri| uri.contains("missing")) => {
                let error =
                    json!({ "code": -32002, "message": "it is gone", "data": { "uri": message["params"]["uri"] } });
                say(&self.out, &json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
            }
            "resources/read" => {
                let uri = &message["params"]["uri"];
                let name = self.script["name"].as_str().unwrap_or("someone");
                answer(
                    &self.out,
                    id,
                    &format!(r#"{{"contents":[{{"uri":{uri},"text":"{name} has it","x-more":1.50}}]}}"#),
                );
            }
            "prompts/list" if self.script.get("replay").is_some() => {
                let prompts = Replay::of(&self.script).unwrap_or_default().prompts;
                answer(&self.out, id, &format!(r#"{{"prompts":{}}}"#, Replay::text(&prompts)));
            }
            "resources/list" if self.script.get("replay").is_some() => answer(&self.out, id, r#"{"resources":[]}"#),
            "resources/templates/list" if self.script.get("replay").is_some() => {
                let templates = Replay::of(&self.script).unwrap_or_default().resource_templates;
                answer(&self.out, id, &format!(r#"{{"resourceTemplates":{}}}"#, Replay::text(&templates)));
            }
            "tools/call" => {
                let name = message["params"]["name"].as_str().unwrap().to_owned();
                self.act(&name, id, &message["params"]);
            }
            _ if id.is_null() => {}
            // An answer that nobody waits for.
            "" => {}
            _ => say(
                &self.out,
                &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": "no such method" } })
                    .to_string(),
            ),
        }
    }

    fn act(&mut self, name: &str, id: &Value, params: &Value) {
        let arguments = &params["arguments"];
        let out = self.out.clone();
        match name {
            "pid" => answer(&out, id, &text_result(&std::process::id().to_string())),
            "echo" | "fault" => answer(&out, id, &text_result(&arguments.to_string())),
            // Ends in the middle of the call.
            "die" => {
                let _ = writeln!(std::io::stderr(), "out of flour");
                std::process::exit(7);
            }
            "never" => {}
            "fail" => answer(&out, id, &json!({ "isError": true, "content": [{ "type": "text", "text": arguments["say"] }] }).to_string()),
            // Waits for a named pipe, beside other calls.
            "wait" => {
                let (gate, id) = (arguments["gate"].as_str().unwrap().to_owned(), id.clone());
                std::thread::spawn(move || {
                    wait_for(&gate);
                    answer(&out, &id, &text_result("let go"));
                });
            }
            "count" => {
                for number in 1..=arguments["to"].as_u64().unwrap() {
                    let progress = json!({ "progressToken": params["_meta"]["progressToken"], "progress": number, "message": format!("at {number}") });
                    say(&out, &json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": progress }).to_string());
                }
                answer(&out, id, &text_result("counted"));
            }
            "set" => {
                self.script["at"] = arguments["at"].clone();
                answer(&out, id, &text_result("set"));
            }
            // Another list, and a word of it.
            "become" => {
                if let Some(offers) = arguments.get("offers") {
                    self.script["offers"] = offers.clone();
                    for kind in ["prompts", "resources"] {
                        let notice = json!({ "jsonrpc": "2.0", "method": format!("notifications/{kind}/list_changed") });
                        say(&out, &notice.to_string());
                    }
                    return answer(&out, id, &text_result("changed"));
                }
                self.tools = tools(arguments);
                for _ in 0..arguments["notices"].as_u64().unwrap_or(1) {
                    say(&out, CHANGED);
                }
                answer(&out, id, &text_result("changed"));
            }
            "environment" => answer(&out, id, &text_result(&std::env::var(arguments["name"].as_str().unwrap()).unwrap_or_default())),
            "leak" => {
                let all = self.script["all"].as_str().unwrap();
                let _ = writeln!(std::io::stderr(), "again {all}");
                say(&out, all);
                answer(&out, id, &text_result(all));
            }
            "refuse" if self.script.get("all").is_some() => {
                let error = json!({ "code": -32001, "message": format!("refused: {}", self.script["all"]), "data": self.script["all"] });
                say(&out, &json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string());
            }
            "refuse" => say(
                &out,
                &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32050, "message": arguments["say"], "data": 1.5 } })
                    .to_string(),
            ),
            "say" => {
                let text = arguments["text"].as_str().unwrap();
                let _ = writeln!(std::io::stderr(), "{text}");
                say(&out, text);
                answer(&out, id, &text_result(text));
            }
            _ => {
                let result = self.script["result"].as_str().map_or_else(|| text_result(&format!("{name} done")), str::to_owned);
                answer(&out, id, &result);
            }
        }
    }
}

fn carry_out(act: Act, out: &Out) {
    match act {
        Act::Say(mut line) => {
            line.push(b'\n');
            let _ = out.lock().unwrap().write_all(&line);
        }
        Act::Half(line) => {
            let _ = out.lock().unwrap().write_all(&line[..line.len() / 2]);
            std::process::exit(7);
        }
        Act::Wait(time) => std::thread::sleep(time),
        Act::Reply(id, reply) => {
            let reply = reply.blocking_recv().unwrap();
            answer(out, &id, &text_result(&fault::reply_text(&reply)));
        }
        Act::End(words) => {
            let _ = writeln!(std::io::stderr(), "{words}");
            std::process::exit(7);
        }
        Act::Stop => park(),
        // Whoever writes to it is told, and nobody reads.
        Act::CloseIn => {
            nix::unistd::close(0).unwrap();
            park();
        }
        Act::CloseOut => {
            let _silenced = out.lock().unwrap();
            let pipe = |fd: i32| std::fs::read_link(format!("/dev/fd/{fd}")).ok();
            let (talk, all) = (pipe(3), (1..64).filter(|fd| pipe(*fd).is_some()));
            all.filter(|fd| pipe(*fd) == talk).for_each(|fd| nix::unistd::close(fd).unwrap());
            park();
        }
        #[expect(clippy::zombie_processes, reason = "it is there to outlive us")]
        Act::Grandchild(id) => {
            let start = r#"trap "" INT TERM HUP; echo $$; exec sleep 1000 >/dev/null 2>&1 </dev/null"#;
            let child = Command::new("setsid").args(["sh", "-c", start]).stdout(Stdio::piped()).spawn().unwrap();
            let mut pid = String::new();
            BufReader::new(child.stdout.unwrap()).read_line(&mut pid).unwrap();
            answer(out, &id, &text_result(pid.trim()));
        }
        // No process has sessions, and an HTTP status is of no use here.
        Act::Restart | Act::Nothing | Act::Status(..) | Act::RetryAfter(..) => {}
    }
}

fn park() -> ! {
    loop {
        std::thread::park();
    }
}

/// Opening a pipe to read waits for one who opens it to write.
fn wait_for(pipe: &str) {
    drop(File::open(pipe).unwrap());
}
