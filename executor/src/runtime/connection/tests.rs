//! Protocol behaviour over in-memory streams, with the clock paused; HTTP and processes have files of their own.

use std::collections::BTreeMap;
use std::time::Duration;

use super::attend::Attended;
use super::call::Client;
use super::establish::Trial;
use super::handshake::Start;
use super::open::over_streams;
use super::*;
use crate::core::gate::Call;
use mcplan_compiler::plan::{Launch, Server};
use serde_json::{Map, Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf, duplex, split,
};

mod eras;
mod http;
#[cfg(unix)]
mod process;
mod pulse;
mod sse;
mod tls;
mod websocket;

pub(super) fn server(launch: Value, limits: Value) -> Server {
    let mut all = json!({
        "name": "fake", "description": null, "origin": "config", "defer": true, "enabled": true, "required": false,
        "tools": {"include": null, "exclude": [], "always": []}, "when_env": [], "replace": "swap", "workspaces": [], "sampling": false, "persistent_sessions": true, "connect": "eager", "idle_stop_seconds": 0.0,
        "reconnect": {"attempts": 1, "initial_seconds": 1.0, "max_seconds": 1.0, "jitter_seconds": 0.0},
        "limits": {"timeout_seconds": 20.0, "request_timeout_seconds": 60.0, "call_timeout_seconds": 120.0,
                   "idle_timeout_seconds": 0.0, "max_result_chars": 0},
    });
    for (key, value) in launch.as_object().unwrap() {
        all[key] = value.clone();
    }
    for (key, value) in limits.as_object().unwrap() {
        all["limits"][key] = value.clone();
    }
    serde_json::from_value(all).unwrap()
}

fn fake_server(limits: Value) -> Server {
    let launch = json!({"transport": "stdio", "command": "fake", "args": [], "env": {}, "cwd": ".",
                        "environment": "minimal", "restart": "never"});
    server(launch, limits)
}

pub(super) fn tool_call(tool: &str, arguments: Value) -> Call {
    Call {
        input: serde_json::Map::new(),
        read_only: false,
        server: ServerName::new("fake").unwrap(),
        tool: tool.to_owned(),
        exposed: serde_json::from_value(json!(format!("mcp__fake__{tool}"))).unwrap(),
        arguments: arguments.as_object().unwrap().clone(),
        meta: Map::new(),
    }
}

/// A server that says what a test tells it to.
struct Fake {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Fake {
    async fn next(&mut self) -> Value {
        let line = self.lines.next_line().await.unwrap().expect("the client hung up");
        serde_json::from_str(&line).unwrap()
    }

    async fn expect(&mut self, method: &str) -> Value {
        let message = self.next().await;
        assert_eq!(message["method"], method, "{message}");
        message
    }

    async fn say(&mut self, text: &str) {
        self.writer.write_all(text.as_bytes()).await.unwrap();
        self.writer.write_all(b"\n").await.unwrap();
    }

    async fn answer(&mut self, request: &Value, result: &str) {
        self.say(&format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request["id"])).await;
    }

    async fn fail(&mut self, request: &Value, code: i32, message: &str) {
        let error = json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}});
        self.say(&error.to_string()).await;
    }

    /// Answers `initialize` and takes `initialized`.
    async fn shake_hands(&mut self, capabilities: &str) -> Value {
        let request = self.expect("initialize").await;
        let result = format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"serverInfo":{{"name":"n","version":"1"}},"instructions":"be nice"}}"#
        );
        self.answer(&request, &result).await;
        self.expect("notifications/initialized").await;
        request
    }

    async fn progress(&mut self, call: &Value, progress: u32) {
        let token = &call["params"]["_meta"]["progressToken"];
        assert!(token.is_number() || token.is_string(), "{call}");
        let notice = json!({"jsonrpc": "2.0", "method": "notifications/progress",
                            "params": {"progressToken": token, "progress": progress, "total": 9, "message": "m"}});
        self.say(&notice.to_string()).await;
    }
}

type Outcome = Result<(Connection, Observed), ConnectError>;

/// A connection attempt to a fake of the older era, and the fake.
fn dial(server: &Server) -> (impl Future<Output = Outcome>, Fake, mpsc::Receiver<Event>) {
    dial_from(server, Start::Initialize)
}

/// The same, with a handshake that begins as `start` says.
fn dial_from(server: &Server, start: Start) -> (impl Future<Output = Outcome>, Fake, mpsc::Receiver<Event>) {
    dial_over(server, start, Attended::streams())
}

/// The same, with what is behind the streams.
fn dial_over(
    server: &Server,
    start: Start,
    attended: Attended,
) -> (impl Future<Output = Outcome>, Fake, mpsc::Receiver<Event>) {
    let (ours, theirs) = duplex(1 << 20);
    let (reader, writer) = split(ours);
    let (their_reader, their_writer) = split(theirs);
    let (events, received) = mpsc::channel(64);
    let mask = Mask::new([("${TOKEN}".to_owned(), "hunter2-secret".to_owned())]);
    let limit = Duration::from_secs_f64(server.limits.timeout_seconds);
    let trial = Trial { server, mask, start, deadline: Some(Instant::now() + limit), events };
    let attempt = async move {
        let tried = over_streams(&trial, (reader, writer), attended).await;
        tried.map_err(|not_ready| not_ready.error)
    };
    (attempt, Fake { lines: BufReader::new(their_reader).lines(), writer: their_writer }, received)
}

/// Connected to a fake without any list.
async fn connected(limits: Value) -> (Connection, Fake, mpsc::Receiver<Event>) {
    let server = fake_server(limits);
    let (attempt, mut fake, events) = dial(&server);
    let (outcome, _) = tokio::join!(attempt, fake.shake_hands("{}"));
    let (connection, _) = outcome.unwrap();
    (connection, fake, events)
}

const ODD: &str = r#"{"content":[{"type":"hologram","n":1.50}],"zz":{"b":1,"a":2},"structuredContent":{"x":1e400}}"#;

#[tokio::test(start_paused = true)]
async fn lists_and_results_come_through_as_they_are() {
    let server = fake_server(json!({}));
    let (attempt, mut fake, _events) = dial(&server);
    let script = async {
        let initialize = fake.shake_hands(r#"{"tools":{},"prompts":{},"resources":{}}"#).await;
        assert_eq!(initialize["params"]["protocolVersion"], "2025-11-25");
        let capabilities = &initialize["params"]["capabilities"];
        assert!(capabilities["roots"].is_object() && capabilities["elicitation"].is_object(), "{capabilities}");
        assert!(capabilities.get("sampling").is_none(), "{capabilities}");
        let first = fake.expect("tools/list").await;
        assert!(first["params"].get("cursor").is_none());
        fake.answer(&first, r#"{"tools":[{"name":"a","inputSchema":{"type":"object"},"execution":{"n":1.50}},{"name":"bad","inputSchema":{"type":"string"}}],"nextCursor":"2"}"#).await;
        let second = fake.expect("tools/list").await;
        assert_eq!(second["params"]["cursor"], "2");
        fake.answer(&second, r#"{"tools":[{"name":"b","inputSchema":{"type":"object"}}]}"#).await;
        let prompts = fake.expect("prompts/list").await;
        fake.fail(&prompts, -32601, "no such method").await;
        let templates = fake.expect("resources/templates/list").await;
        fake.answer(&templates, r#"{"resourceTemplates":[{"uriTemplate":"x://{y}","name":"t"},7]}"#).await;
        let resources = fake.expect("resources/list").await;
        fake.answer(&resources, r#"{"resources":[{"uri":"x://1","name":"r"}],"nextCursor":"more"}"#).await;
        let more = fake.expect("resources/list").await;
        assert_eq!(more["params"]["cursor"], "more");
        fake.answer(&more, r#"{"resources":[{"uri":"x://2","name":"r"},{"uri":"x://3","name":"r"}]}"#).await;
        fake
    };
    let (outcome, mut fake) = tokio::join!(attempt, script);
    let (connection, observed) = outcome.unwrap();
    let names: Vec<_> = observed.tools.iter().map(|tool| tool.known.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(observed.tools[0].raw.get().contains(r#""execution":{"n":1.50}"#));
    assert_eq!(observed.quarantined.iter().map(|item| item.name.as_str()).collect::<Vec<_>>(), ["bad", "(no name)"]);
    assert_eq!(observed.resource_templates.len(), 1);
    assert_eq!(observed.resources.len(), 3);
    assert_eq!(observed.introduction.instructions.as_deref(), Some("be nice"));
    assert_eq!(observed.warnings.len(), 1);
    assert!(observed.warnings[0].starts_with("prompts/list failed, so its prompts are unknown: server `fake`"));
    assert_eq!(observed.prompts_unknown.as_ref(), Some(&observed.warnings[0]));
    assert_eq!((&observed.resource_templates_unknown, &observed.resources_unknown), (&None, &None));

    let mut call = tool_call("a", json!({"n": 1, "deep": {"k": [1.5]}}));
    call.meta.insert("traceparent".to_owned(), json!("00-1"));
    let script = async {
        let request = fake.expect("tools/call").await;
        assert_eq!(request["params"]["name"], "a");
        assert_eq!(request["params"]["arguments"], json!({"n": 1, "deep": {"k": [1.5]}}));
        assert_eq!(request["params"]["_meta"]["traceparent"], "00-1");
        fake.answer(&request, ODD).await;
    };
    let (result, ()) = tokio::join!(connection.send(&call, Client::default()), script);
    assert_eq!(result.unwrap().get(), ODD);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_that_never_ends_costs_a_warning() {
    let server = fake_server(json!({}));
    let (attempt, mut fake, _events) = dial(&server);
    let script = async {
        fake.shake_hands(r#"{"tools":{}}"#).await;
        for _ in 0..2 {
            let request = fake.expect("tools/list").await;
            fake.answer(&request, r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":""}"#).await;
        }
    };
    let (outcome, ()) = tokio::join!(attempt, script);
    let observed = outcome.unwrap().1;
    assert_eq!(observed.tools.len(), 1);
    assert_eq!(observed.quarantined, []);
    assert_eq!(
        observed.warnings,
        ["tools/list of server `fake` was stopped: the cursor \"\" came twice; 1 items are kept"]
    );
}

/// Many clients would throw away the whole line, and wait for ever.
#[tokio::test(start_paused = true)]
async fn a_result_that_strict_clients_do_not_read_is_mended_or_told_of() {
    let (connection, mut fake, _events) = connected(json!({})).await;
    let call = tool_call("t", json!({}));
    let deep = format!(r#"{{"content":[],"x":{}{}}}"#, "[".repeat(1000), "]".repeat(1000));
    for (said, told) in [
        (r#"{"text":"cut \ud83d"}"#.to_owned(), Ok(r#"{"text":"cut \ufffd"}"#.to_owned())),
        (
            deep,
            Err("the answer of server `fake` can't be used: it is nested deeper than 120, and clients don't read that"
                .to_owned()),
        ),
    ] {
        let script = async {
            let request = fake.expect("tools/call").await;
            fake.answer(&request, &said).await;
        };
        let (result, ()) = tokio::join!(connection.send(&call, Client::default()), script);
        assert_eq!(result.map(|text| text.into_string()).map_err(|error| error.to_string()), told);
    }
}

/// They may be many, and mustn't cost a server its time to connect.
#[tokio::test(start_paused = true)]
async fn resources_are_read_for_a_quarter_of_the_time_to_connect() {
    let server = fake_server(json!({"timeout_seconds": 30.0}));
    let (attempt, mut fake, _events) = dial(&server);
    let script = async {
        fake.shake_hands(r#"{"resources":{}}"#).await;
        let templates = fake.expect("resources/templates/list").await;
        fake.answer(&templates, r#"{"resourceTemplates":[]}"#).await;
        for page in 1..=3 {
            let resources = fake.expect("resources/list").await;
            tokio::time::sleep(Duration::from_millis(2_400)).await;
            let result = format!(r#"{{"resources":[{{"uri":"x://{page}","name":"r"}}],"nextCursor":"{page}"}}"#);
            fake.answer(&resources, &result).await;
        }
        fake.expect("resources/list").await;
        fake.expect("notifications/cancelled").await;
    };
    let (outcome, ()) = tokio::join!(attempt, script);
    let (_connection, observed) = outcome.unwrap();
    assert_eq!((observed.resources.len(), observed.resources_unknown), (3, None));
    assert_eq!(
        observed.warnings,
        [
            "resources/list of server `fake` was stopped: its pages take more than a quarter of `timeout_seconds`; 3 items are kept"
        ]
    );
}

/// A kind that isn't answered costs itself alone.
#[tokio::test(start_paused = true)]
async fn a_list_of_prompts_that_hangs_leaves_the_tools() {
    let server = fake_server(json!({"timeout_seconds": 4.0}));
    let (attempt, mut fake, _events) = dial(&server);
    let script = async {
        fake.shake_hands(r#"{"tools":{},"prompts":{}}"#).await;
        let tools = fake.expect("tools/list").await;
        fake.answer(&tools, r#"{"tools":[{"name":"a","inputSchema":{"type":"object"}}]}"#).await;
        fake.expect("prompts/list").await;
        fake.expect("notifications/cancelled").await;
    };
    let (outcome, ()) = tokio::join!(attempt, script);
    let (_connection, observed) = outcome.unwrap();
    assert_eq!(observed.tools.len(), 1);
    let why = observed.prompts_unknown.unwrap();
    assert!(why.ends_with("no answer in 1 s, a quarter of `timeout_seconds`"), "{why}");
}

/// What is no list is no answer, and a client would only say that it can't be read.
#[tokio::test]
async fn a_result_without_its_list_is_no_result() {
    use crate::core::catalog::{Catalog, Listing};
    use crate::core::gate::{Asked, gate_prompt};
    let (connection, mut fake, _events) = connected(json!({})).await;
    let plan = crate::core::catalog::tests::plan("mcp_servers: [{ name: fake, command: x }]");
    let prompt = mcplan_compiler::observed::Entry::parse(r#"{"name":"p"}"#).unwrap();
    let listing = Listing { prompts: vec![Arc::new(prompt)], ..Listing::default() };
    let catalog = Catalog::build(&plan, &[(ServerName::new("fake").unwrap(), listing)].into());
    let asked = Asked { name: "mcp__fake__p".to_owned(), ..Asked::default() };
    let allowed = gate_prompt(&catalog, asked).unwrap();
    for (result, told) in [
        (r#"{"messages":[]}"#, None),
        ("{}", Some("its result of prompts/get has no list `messages`")),
        (r#"{"messages":"nope"}"#, Some("its result of prompts/get has no list `messages`")),
    ] {
        let script = async {
            let request = fake.expect("prompts/get").await;
            fake.answer(&request, result).await;
        };
        let (answer, ()) = tokio::join!(connection.ask(&allowed, Client::default()), script);
        match told {
            None => assert_eq!(answer.unwrap().get(), result),
            Some(told) => assert!(answer.unwrap_err().to_string().contains(told)),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn progress_keeps_a_call_alive_and_arrives_in_order() {
    let (connection, mut fake, _events) = connected(json!({"idle_timeout_seconds": 5.0})).await;
    let (sender, mut progress) = mpsc::channel(128);
    let script = async {
        let request = fake.expect("tools/call").await;
        for step in 1..=80 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            fake.progress(&request, step).await;
        }
        fake.answer(&request, "{}").await;
    };
    let caller = Client { progress: Some(sender), ..Client::default() };
    let call = tool_call("slow", json!({}));
    let (result, ()) = tokio::join!(connection.send(&call, caller), script);
    assert_eq!(result.unwrap().get(), "{}");
    for step in 1..=80 {
        let expected = Progress { progress: f64::from(step), total: Some(9.0), message: Some("m".to_owned()) };
        assert_eq!(progress.try_recv().unwrap(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn each_limit_says_its_name_and_stops_the_server_too() {
    let (connection, mut fake, _events) = connected(json!({"idle_timeout_seconds": 5.0})).await;
    let call = tool_call("slow", json!({}));
    let started = Instant::now();
    let (result, request) = tokio::join!(connection.send(&call, Client::default()), fake.expect("tools/call"));
    assert_eq!(started.elapsed().as_secs(), 5);
    assert_eq!(
        result.unwrap_err().to_string(),
        "server `fake` gave neither answer nor progress within 5 s, so the call was stopped; raise `idle_timeout_seconds` for this server if it needs longer"
    );
    let cancelled = fake.expect("notifications/cancelled").await;
    assert_eq!(cancelled["params"], json!({"requestId": request["id"], "reason": "idle_timeout_seconds"}));

    let script = async {
        let request = fake.expect("tools/call").await;
        for step in 1..40 {
            tokio::time::sleep(Duration::from_secs(4)).await;
            fake.progress(&request, step).await;
        }
    };
    let started = Instant::now();
    let result =
        tokio::select! { result = connection.send(&call, Client::default()) => result, () = script => panic!() };
    assert_eq!(started.elapsed().as_secs(), 120);
    assert!(matches!(result, Err(CallError::TimedOut { limit: Limit::Call, .. })), "{result:?}");
    assert_eq!(fake.expect("notifications/cancelled").await["params"]["reason"], "call_timeout_seconds");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_read_is_busy_before_our_memory_is_full() {
    let (connection, _fake, _events) = connected(json!({})).await;
    let call = tool_call("slow", json!({ "text": "x".repeat(8 << 20) }));
    let calls = (0..10).map(|_| connection.send(&call, Client::default()));
    let mut calls: futures::stream::FuturesUnordered<_> = calls.collect();
    let first = futures::StreamExt::next(&mut calls).await.unwrap();
    assert_eq!(
        first.unwrap_err().to_string(),
        "server `fake` is busy: it does not read what it is sent; 64 MiB wait for it; the call was not sent"
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_stops_or_goes_away_cancels() {
    let (connection, mut fake, _events) = connected(json!({})).await;
    let call = tool_call("slow", json!({}));
    let cancel = CancellationToken::new();
    let caller = Client { cancel: cancel.clone(), ..Client::default() };
    let script = async {
        let request = fake.expect("tools/call").await;
        cancel.cancel();
        request
    };
    let (result, request) = tokio::join!(connection.send(&call, caller), script);
    assert!(matches!(result, Err(CallError::Cancelled { .. })));
    assert_eq!(fake.expect("notifications/cancelled").await["params"]["requestId"], request["id"]);

    let request = {
        let sending = connection.send(&call, Client::default());
        tokio::select! { _ = sending => panic!("no answer was given"), request = fake.expect("tools/call") => request }
    };
    assert_eq!(fake.expect("notifications/cancelled").await["params"]["requestId"], request["id"]);
}

#[tokio::test(start_paused = true)]
async fn a_servers_error_is_passed_on_without_secrets() {
    let (connection, mut fake, _events) = connected(json!({})).await;
    let script = async {
        let request = fake.expect("tools/call").await;
        let error = json!({"jsonrpc": "2.0", "id": request["id"],
                           "error": {"code": -32042, "message": "no: hunter2-secret", "data": {"k": 1}}});
        fake.say(&error.to_string()).await;
    };
    let call = tool_call("x", json!({}));
    let (result, ()) = tokio::join!(connection.send(&call, Client::default()), script);
    let expected = CallError::Server {
        server: ServerName::new("fake").unwrap(),
        code: -32042,
        message: "no: ${TOKEN}".to_owned(),
        data: Some(json!({"k": 1})),
    };
    assert_eq!(result.unwrap_err(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_connection_lost_in_a_call_is_told_at_once() {
    let (connection, mut fake, mut events) = connected(json!({})).await;
    let script = async {
        fake.expect("tools/call").await;
        drop(fake);
    };
    let (call, started) = (tool_call("x", json!({})), Instant::now());
    let (result, ()) = tokio::join!(connection.send(&call, Client::default()), script);
    assert!(started.elapsed() < Duration::from_millis(10), "{:?}", started.elapsed());
    assert_eq!(
        result.unwrap_err().to_string(),
        "the connection to server `fake` was lost before it answered: the server closed the connection"
    );
    let Some(Event::Closed(closed)) = events.recv().await else { panic!() };
    assert!(!closed.asked);
    assert_eq!(connection.ended().map(|closed| closed.reason.as_str()), Some("the server closed the connection"));
    let after = connection.send(&call, Client::default()).await;
    assert!(matches!(after, Err(CallError::Lost { .. })), "{after:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_is_answered() {
    let (_connection, mut fake, _events) = connected(json!({})).await;
    fake.say(r#"{"jsonrpc":"2.0","id":"r","method":"roots/list"}"#).await;
    assert_eq!(fake.next().await["result"], json!({"roots": []}));
    fake.say(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#).await;
    assert_eq!(fake.next().await["result"], json!({}));
    fake.say(r#"{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}"#).await;
    let declined = fake.next().await;
    assert_eq!(declined["result"]["action"], "decline", "{declined}");
    assert!(declined["result"]["_meta"]["mcplan/reason"].is_string());
    fake.say(r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#)
        .await;
    assert_eq!(fake.next().await["error"]["code"], -32601);
    fake.say(r#"{"jsonrpc":"2.0","id":"u","method":"no/such"}"#).await;
    assert_eq!(fake.next().await["error"]["code"], -32601);
}

#[tokio::test(start_paused = true)]
async fn changed_lists_are_told_and_can_be_fetched_again() {
    let server = fake_server(json!({}));
    let (attempt, mut fake, mut events) = dial(&server);
    let list = |name: &str| format!(r#"{{"tools":[{{"name":"{name}","inputSchema":{{"type":"object"}}}}]}}"#);
    let script = async {
        fake.shake_hands(r#"{"tools":{"listChanged":true}}"#).await;
        let request = fake.expect("tools/list").await;
        fake.answer(&request, &list("old")).await;
        fake
    };
    let (outcome, mut fake) = tokio::join!(attempt, script);
    let (connection, _) = outcome.unwrap();
    fake.say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#).await;
    assert_eq!(events.recv().await, Some(Event::ListChanged(Kind::Tools)));
    let script = async {
        let request = fake.expect("tools/list").await;
        fake.answer(&request, &list("new")).await;
    };
    let (observed, ()) = tokio::join!(connection.observe(), script);
    assert_eq!(observed.unwrap().tools[0].known.name, "new");
}

#[tokio::test(start_paused = true)]
async fn noise_between_messages_is_told_masked() {
    let (_connection, mut fake, mut events) = connected(json!({})).await;
    fake.say("Server ready with hunter2-secret").await;
    assert_eq!(events.recv().await, Some(Event::Noise("Server ready with ${TOKEN}".to_owned())));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_not_ready_in_time_is_told_where_it_hung() {
    let server = fake_server(json!({"timeout_seconds": 3.0}));
    let (attempt, _fake, _events) = dial(&server);
    assert_eq!(
        attempt.await.unwrap_err().to_string(),
        "server `fake` was not ready within 3 s: it timed out while waiting for the answer to `initialize`; if it needs longer, raise its `timeout_seconds`"
    );
    let (attempt, mut fake, _events) = dial(&server);
    let (outcome, _) = tokio::join!(attempt, fake.shake_hands(r#"{"tools":{}}"#));
    assert!(matches!(outcome, Err(ConnectError::TimedOut { step: Step::Tools, .. })), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_hangs_is_empty_when_its_own_limit_is_lower() {
    let server = fake_server(json!({"request_timeout_seconds": 2.0}));
    let (attempt, mut fake, _events) = dial(&server);
    let (outcome, _) = tokio::join!(attempt, fake.shake_hands(r#"{"tools":{}}"#));
    let observed = outcome.unwrap().1;
    assert!(observed.warnings[0].contains("raise `request_timeout_seconds`"), "{:?}", observed.warnings);
}

#[tokio::test(start_paused = true)]
async fn unknown_versions_and_refusals_have_their_own_words() {
    let server = fake_server(json!({}));
    for version in ["1999-01-01", "2026-07-28", ""] {
        let (attempt, mut fake, _events) = dial(&server);
        let script = async {
            let request = fake.expect("initialize").await;
            let result =
                json!({"protocolVersion": version, "capabilities": {}, "serverInfo": {"name": "n", "version": "1"}});
            fake.answer(&request, &result.to_string()).await;
            fake
        };
        let (outcome, _fake) = tokio::join!(attempt, script);
        assert!(
            matches!(&outcome, Err(ConnectError::Version { version: found, .. }) if found == version),
            "{outcome:?}"
        );
    }
    let (attempt, mut fake, _events) = dial(&server);
    let script = async {
        let request = fake.expect("initialize").await;
        fake.fail(&request, -32000, "licence of hunter2-secret expired").await;
    };
    let (outcome, ()) = tokio::join!(attempt, script);
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "server `fake` refused to initialize: licence of ${TOKEN} expired (code -32000)"
    );
    let (attempt, mut fake, _events) = dial(&server);
    let script = async {
        let request = fake.expect("initialize").await;
        fake.answer(&request, "{\"hello\":1}").await;
        fake
    };
    let (outcome, _fake) = tokio::join!(attempt, script);
    assert_eq!(
        outcome.unwrap_err().to_string(),
        "server `fake` doesn't keep to the protocol in its answer to `initialize`: `protocolVersion` is missing, `capabilities` is missing, `serverInfo` is missing; use another version of it, or tell those who make it"
    );
}

#[tokio::test(start_paused = true)]
async fn closing_ends_everything_and_dropping_does_too() {
    let (connection, mut fake, mut events) = connected(json!({})).await;
    connection.close(Instant::now() + Duration::from_secs(1)).await;
    assert_eq!(fake.lines.next_line().await.unwrap(), None);
    assert!(matches!(events.recv().await, Some(Event::Closed(closed)) if closed.asked));
    let (connection, mut fake, _events) = connected(json!({})).await;
    let clone = connection.clone();
    drop(connection);
    drop(clone);
    assert_eq!(fake.lines.next_line().await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn many_calls_at_once_each_get_their_own_answer() {
    let (connection, mut fake, _events) = connected(json!({})).await;
    let script = async {
        let mut requests = Vec::new();
        for _ in 0..200 {
            requests.push(fake.expect("tools/call").await);
        }
        for request in requests.iter().rev() {
            let result = format!("{{\"n\":{}}}", request["params"]["arguments"]["n"]);
            fake.answer(request, &result).await;
        }
    };
    let calls: Vec<_> = (0..200).map(|n| tool_call("x", json!({"n": n}))).collect();
    let all = futures::future::join_all(calls.iter().map(|call| connection.send(call, Client::default())));
    let (results, ()) = tokio::join!(all, script);
    for (n, result) in results.into_iter().enumerate() {
        assert_eq!(result.unwrap().get(), format!("{{\"n\":{n}}}"));
    }
}

#[tokio::test(start_paused = true)]
async fn secrets_are_hidden_in_texts_and_what_is_named_by_one_is_left_out() {
    let server = fake_server(json!({}));
    let (attempt, mut fake, _events) = dial(&server);
    let script = async {
        fake.shake_hands(r#"{"tools":{}}"#).await;
        let list = fake.expect("tools/list").await;
        fake.answer(&list, r#"{"tools":[{"name":"get","description":"of hunter2-secret","inputSchema":{"type":"object"}},{"name":"get_hunter2-secret","inputSchema":{"type":"object"}},{"name":"key","inputSchema":{"type":"object","properties":{"hunter2-secret":{}}}},{"name":"enum","inputSchema":{"type":"object","properties":{"x":{"enum":["hunter2-secret"]}}}}]}"#).await;
        fake
    };
    let (outcome, mut fake) = tokio::join!(attempt, script);
    let (connection, observed) = outcome.unwrap();
    let raw: Vec<_> = observed.tools.iter().map(|tool| tool.raw.get()).collect();
    assert_eq!(raw, [r#"{"name":"get","description":"of ${TOKEN}","inputSchema":{"type":"object"}}"#]);
    assert_eq!(observed.warnings, ["the value of a secret was hidden in the tool get"]);
    let apart: Vec<_> = observed.quarantined.iter().map(|bad| (bad.name.as_str(), bad.reason.as_str())).collect();
    let reason = "its name or its schema holds the value of ${TOKEN}";
    assert_eq!(apart, [("get_${TOKEN}", reason), ("key", reason), ("enum", reason)]);
    let call = tool_call("get", json!({}));
    let script = async {
        let request = fake.expect("tools/call").await;
        let error = json!({"code": -1, "message": "m", "data": {"why": ["hunter2-secret", 1.5]}});
        fake.say(&json!({"jsonrpc": "2.0", "id": request["id"], "error": error}).to_string()).await;
    };
    let (result, ()) = tokio::join!(connection.send(&call, Client::default()), script);
    let CallError::Server { data, .. } = result.unwrap_err() else { panic!() };
    assert_eq!(data, Some(json!({"why": ["${TOKEN}", 1.5]})));
}

#[tokio::test(start_paused = true)]
async fn tools_that_cannot_be_listed_are_unknown_and_not_none() {
    let server = fake_server(json!({}));
    let (attempt, mut fake, _events) = dial(&server);
    let script = async {
        fake.shake_hands(r#"{"tools":{}}"#).await;
        let list = fake.expect("tools/list").await;
        fake.answer(
            &list,
            r#"{"tools":[{"name":"a","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}"#,
        )
        .await;
        fake
    };
    let (outcome, mut fake) = tokio::join!(attempt, script);
    let (connection, observed) = outcome.unwrap();
    assert_eq!(observed.tools_unknown, None);
    let script = async {
        let list = fake.expect("tools/list").await;
        fake.fail(&list, -32603, "out of cheese").await;
    };
    let (observed, ()) = tokio::join!(connection.observe(), script);
    let unknown = observed.unwrap().tools_unknown.unwrap();
    assert!(unknown.starts_with("tools/list failed") && unknown.contains("out of cheese"), "{unknown}");
    assert!(connection.inner.is_repeatable("a"), "what was known of the tools stays known");
}
