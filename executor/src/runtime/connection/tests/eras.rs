//! Which era a server speaks, and what differs in the new one; over in-memory streams and over HTTP.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;

use super::*;

const DISCOVERED: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},
    "instructions":"be brief","ttlMs":0,"cacheScope":"private",
    "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"new","version":"2"}}}"#;
const LIST: &str = r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[{"name":"x","inputSchema":{"type":"object"}}]}"#;

fn probe() -> Start {
    Start::Discover(Duration::from_secs(2))
}

fn line(text: &str) -> String {
    mcplan_compiler::json::compact(text)
}

fn says_who_asks(message: &Value) {
    let meta = &message["params"]["_meta"];
    assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], "2026-07-28", "{message}");
    assert_eq!(meta["io.modelcontextprotocol/clientInfo"]["name"], "mcplan", "{message}");
    assert!(meta["io.modelcontextprotocol/clientCapabilities"]["elicitation"].is_object(), "{message}");
}

#[tokio::test(start_paused = true)]
async fn a_server_of_the_new_era_is_never_initialized() {
    let server = fake_server(json!({}));
    let (attempt, mut fake, _events) = dial_from(&server, probe());
    let script = async {
        let asked = fake.expect("server/discover").await;
        says_who_asks(&asked);
        fake.answer(&asked, &line(DISCOVERED)).await;
        let asked = fake.expect("tools/list").await;
        says_who_asks(&asked);
        fake.answer(&asked, LIST).await;
        fake
    };
    let (outcome, mut fake) = tokio::join!(attempt, script);
    let (connection, observed) = outcome.unwrap();
    let introduction = &observed.introduction;
    assert_eq!(
        (&*introduction.protocol_version, &*introduction.name, &*introduction.version),
        ("2026-07-28", "new", "2")
    );
    assert_eq!(introduction.instructions.as_deref(), Some("be brief"));
    assert_eq!(observed.tools.len(), 1);
    let script = async {
        let asked = fake.expect("tools/call").await;
        says_who_asks(&asked);
        assert!(asked["params"]["_meta"]["progressToken"].is_number());
        fake.answer(&asked, ODD).await;
    };
    let call = tool_call("x", json!({}));
    let (result, ()) = tokio::join!(connection.send(&call, Client::default()), script);
    assert_eq!(result.unwrap().get(), ODD);
}

#[tokio::test(start_paused = true)]
async fn whatever_is_no_answer_of_the_new_era_means_the_older_one() {
    let server = fake_server(json!({}));
    let error = |code: i32, data: Value| json!({"code": code, "message": "no", "data": data});
    let answers = [
        json!({"error": error(-32601, Value::Null)}),
        json!({"error": error(-32602, Value::Null)}),
        json!({"error": error(-32000, Value::Null)}),
        json!({"error": error(-32022, json!({"supported": ["2025-11-25", "2025-06-18"]}))}),
        json!({"error": error(-32022, Value::Null)}),
        json!({"result": {}}),
        json!({"result": {"tools": []}}),
        json!({"result": {"supportedVersions": ["2025-06-18"], "capabilities": {}}}),
    ];
    for answer in answers {
        for with_id in [true, false] {
            let is_error = answer.get("error").is_some();
            let (attempt, mut fake, _events) = dial_from(&server, probe());
            let script = async {
                let asked = fake.expect("server/discover").await;
                let mut said = answer.clone();
                said["jsonrpc"] = json!("2.0");
                said["id"] = if with_id || !is_error { asked["id"].clone() } else { Value::Null };
                fake.say(&said.to_string()).await;
                fake.shake_hands("{}").await
            };
            let (outcome, initialize) = tokio::join!(attempt, script);
            assert_eq!(outcome.unwrap().1.introduction.protocol_version, "2025-11-25", "{answer}");
            assert!(initialize["params"].get("_meta").is_none(), "{initialize}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn silence_is_waited_for_two_seconds_and_an_answer_that_comes_late_is_let_be() {
    let server = fake_server(json!({}));
    for late in ["result", "error", "error without id"] {
        let (attempt, mut fake, _events) = dial_from(&server, probe());
        let began = Instant::now();
        let script = async {
            let asked = fake.expect("server/discover").await;
            let initialize = fake.expect("initialize").await;
            assert_eq!(began.elapsed().as_secs(), 2);
            match late {
                "result" => fake.answer(&asked, &line(DISCOVERED)).await,
                "error" => fake.fail(&asked, -32601, "no such method").await,
                _ => fake.say(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no"}}"#).await,
            }
            fake.say(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#).await;
            assert_eq!(fake.next().await["result"], json!({}));
            let result =
                r#"{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"n","version":"1"}}"#;
            fake.answer(&initialize, result).await;
            fake.expect("notifications/initialized").await;
        };
        let (outcome, ()) = tokio::join!(attempt, script);
        assert_eq!(outcome.unwrap().1.introduction.protocol_version, "2024-11-05", "{late}");
    }
}

/// A slow start: it finds both questions waiting, answers the first and refuses the second.
#[tokio::test(start_paused = true)]
async fn a_server_that_answers_late_and_then_refuses_initialize_is_of_the_new_era() {
    let server = fake_server(json!({}));
    let (attempt, mut fake, _events) = dial_from(&server, probe());
    let script = async {
        let asked = fake.expect("server/discover").await;
        let initialize = fake.expect("initialize").await;
        fake.answer(&asked, &line(DISCOVERED)).await;
        fake.fail(&initialize, -32022, "the initialize handshake is not accepted").await;
        let asked = fake.expect("tools/list").await;
        says_who_asks(&asked);
        fake.answer(&asked, LIST).await;
    };
    let (outcome, ()) = tokio::join!(attempt, script);
    assert_eq!(outcome.unwrap().1.introduction.protocol_version, "2026-07-28");
}

#[tokio::test(start_paused = true)]
async fn a_server_of_a_later_era_or_with_demands_is_told_as_such() {
    let server = fake_server(json!({}));
    for (answer, expected) in [
        (
            json!({"result": {"supportedVersions": ["2027-01-01"], "capabilities": {}}}),
            "answered with protocol version `2027-01-01`",
        ),
        (
            json!({"error": {"code": -32022, "message": "no", "data": {"supported": ["2027-01-01", "2028-01-01"]}}}),
            "protocol version `2027-01-01, 2028-01-01`",
        ),
        (
            json!({"error": {"code": -32021, "message": "sampling, hunter2-secret"}}),
            "refused to initialize: sampling, ${TOKEN} (code -32021)",
        ),
    ] {
        let (attempt, mut fake, _events) = dial_from(&server, probe());
        let script = async {
            let asked = fake.expect("server/discover").await;
            let mut said = answer.clone();
            said["jsonrpc"] = json!("2.0");
            said["id"] = asked["id"].clone();
            fake.say(&said.to_string()).await;
            fake
        };
        let (outcome, _fake) = tokio::join!(attempt, script);
        let error = outcome.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn sampling_is_offered_where_the_entry_says_so_in_both_eras() {
    for start in [Start::Initialize, probe()] {
        for sampling in [false, true] {
            let mut server = fake_server(json!({}));
            server.sampling = sampling;
            let (attempt, mut fake, _events) = dial_from(&server, start);
            let script = async {
                let asked = fake.next().await;
                let capabilities = match start {
                    Start::Initialize => &asked["params"]["capabilities"],
                    Start::Discover(_) => &asked["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"],
                };
                assert!(capabilities["roots"].is_object() && capabilities["elicitation"].is_object(), "{asked}");
                assert_eq!(capabilities.get("sampling").is_some(), sampling, "{asked}");
            };
            tokio::select! { _ = attempt => panic!(), () = script => {} }
        }
    }
}

/// A server over HTTP, of the new era or of none.
#[derive(Clone)]
struct Newer {
    shared: Arc<Shared>,
}

struct Shared {
    /// Headers and body of every message.
    seen: Mutex<Vec<(axum::http::HeaderMap, Value)>>,
    /// What `server/discover` is answered, instead of the usual: status and body; 0 is silence.
    discover: Mutex<Option<(u16, &'static str)>>,
    initialized: AtomicUsize,
    tools: &'static str,
}

impl Newer {
    async fn start(tools: &'static str) -> (Self, Server, tokio::task::AbortHandle) {
        let (seen, discover, initialized) = (Mutex::default(), Mutex::default(), AtomicUsize::new(0));
        let newer = Self { shared: Arc::new(Shared { seen, discover, initialized, tools }) };
        let app = Router::new().fallback(serve).with_state(newer.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        let launch = json!({"transport": "streamable_http", "url": url, "headers": {}});
        (newer, server(launch, json!({"timeout_seconds": 2.0})), task.abort_handle())
    }

    fn methods(&self) -> Vec<String> {
        let seen = self.shared.seen.lock().unwrap();
        seen.iter().map(|(_, message)| message["method"].as_str().unwrap_or_default().to_owned()).collect()
    }
}

async fn serve(State(Newer { shared }): State<Newer>, request: Request) -> Response {
    assert_eq!(request.method(), "POST", "no stream and no session to end in the new era");
    let headers = request.headers().clone();
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap();
    shared.seen.lock().unwrap().push((headers, message.clone()));
    let respond = |status: u16, body: String| {
        let response = Response::builder().status(status).header("content-type", "application/json");
        response.body(Body::from(body)).unwrap()
    };
    let instead = *shared.discover.lock().unwrap();
    let result = match (message["method"].as_str().unwrap(), instead) {
        ("server/discover", Some((0, _))) => std::future::pending().await,
        ("server/discover", Some((status, body))) => return respond(status, body.to_owned()),
        ("server/discover", None) => DISCOVERED,
        ("initialize", Some(_)) => {
            shared.initialized.fetch_add(1, Ordering::SeqCst);
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"old","version":"1"}}"#
        }
        ("initialize", None) => {
            return respond(
                404,
                r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"no such method"}}"#.to_owned(),
            );
        }
        ("notifications/initialized", _) => return respond(202, String::new()),
        ("tools/list", _) => shared.tools,
        ("tools/call", _) => ODD,
        other => panic!("{other:?}"),
    };
    respond(200, format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]))
}

async fn dial_http(server: &Server, era: Option<Era>) -> Outcome {
    let (events, _received) = mpsc::channel(64);
    let terms = Terms { era, ..Terms::default() };
    connect(server, &Context::new(BTreeMap::new(), "/"), &terms, events).await
}

#[tokio::test]
async fn over_http_the_new_era_has_its_headers_and_no_session() {
    let tools = r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","tools":[
        {"name":"übersetze","inputSchema":{"type":"object","properties":{"to":{"type":"string","x-mcp-header":"Target"}}}},
        {"name":"bad","inputSchema":{"type":"object","properties":{"to":{"type":"number","x-mcp-header":"Target"}}}}]}"#;
    let (newer, server, task) = Newer::start(tools).await;
    let (connection, observed) = dial_http(&server, None).await.unwrap();
    assert_eq!(observed.tools.len(), 1);
    assert_eq!(observed.quarantined[0].name, "bad");
    assert!(observed.quarantined[0].reason.contains("no string, integer or boolean"), "{:?}", observed.quarantined);
    let call = tool_call("übersetze", json!({"to": "Straße"}));
    assert_eq!(connection.send(&call, Client::default()).await.unwrap().get(), ODD);
    connection.close(Instant::now() + Duration::from_secs(2)).await;
    let seen = newer.shared.seen.lock().unwrap();
    let header = |at: usize, name: &str| seen[at].0.get(name).map(|value| value.to_str().unwrap().to_owned());
    for (at, method) in ["server/discover", "tools/list", "tools/call"].into_iter().enumerate() {
        says_who_asks(&seen[at].1);
        assert_eq!(header(at, "mcp-method").as_deref(), Some(method));
        assert_eq!(header(at, "mcp-protocol-version").as_deref(), Some("2026-07-28"));
        assert_eq!(header(at, "mcp-session-id"), None);
    }
    assert_eq!(header(2, "mcp-name").as_deref(), Some("=?base64?w7xiZXJzZXR6ZQ==?="));
    assert_eq!(header(2, "mcp-param-target").as_deref(), Some("=?base64?U3RyYcOfZQ==?="));
    assert_eq!(seen.len(), 3, "nothing else was sent");
    task.abort();
}

#[tokio::test]
async fn whatever_an_older_server_answers_over_http_it_is_initialized() {
    let refusal =
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Bad Request: Server not initialized"}}"#;
    let answers = [
        (400, refusal),
        (400, "no"),
        (404, ""),
        (405, ""),
        (406, ""),
        (500, "oops"),
        (200, "{\"hello\":1}"),
        (202, ""),
        (0, ""),
        (400, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no","data":{"supported":["2025-11-25"]}}}"#),
    ];
    for answer in answers {
        let (newer, server, task) = Newer::start(LIST).await;
        *newer.shared.discover.lock().unwrap() = Some(answer);
        let (connection, observed) = dial_http(&server, None).await.unwrap();
        assert_eq!(observed.introduction.protocol_version, "2025-11-25", "{answer:?}");
        let call = tool_call("x", json!({}));
        assert_eq!(connection.send(&call, Client::default()).await.unwrap().get(), ODD);
        let seen = newer.shared.seen.lock().unwrap();
        let (headers, message) = seen.last().unwrap();
        assert!(
            headers.get("mcp-method").is_none()
                && message["params"]["_meta"].get("io.modelcontextprotocol/protocolVersion").is_none(),
            "{message}"
        );
        task.abort();
    }
}

#[tokio::test]
async fn what_is_known_is_not_asked_and_what_was_wrong_is_asked_again() {
    let (newer, server, task) = Newer::start(LIST).await;
    *newer.shared.discover.lock().unwrap() = Some((404, ""));
    dial_http(&server, Some(Era::Session)).await.unwrap();
    assert_eq!(newer.methods()[..2], ["initialize", "notifications/initialized"], "no question");
    newer.shared.seen.lock().unwrap().clear();
    let observed = dial_http(&server, Some(Era::Stateless)).await.unwrap().1;
    assert_eq!(observed.introduction.protocol_version, "2025-11-25");
    assert_eq!(newer.methods()[..2], ["server/discover", "initialize"]);

    // The server has been replaced by one of the new era.
    *newer.shared.discover.lock().unwrap() = None;
    newer.shared.seen.lock().unwrap().clear();
    let observed = dial_http(&server, Some(Era::Session)).await.unwrap().1;
    assert_eq!(observed.introduction.protocol_version, "2026-07-28");
    assert_eq!(newer.methods(), ["initialize", "server/discover", "tools/list"]);
    task.abort();
}

#[tokio::test(start_paused = true)]
async fn changed_lists_are_heard_through_a_subscription_that_is_opened_again() {
    let server = fake_server(json!({}));
    let (attempt, mut fake, mut events) = dial_from(&server, probe());
    let discovered = line(DISCOVERED).replace(r#""tools":{}"#, r#""tools":{"listChanged":true},"prompts":{}"#);
    let acknowledge = |asked: &Value| {
        json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
            "notifications": {"toolsListChanged": true}, "_meta": {"io.modelcontextprotocol/subscriptionId": asked["id"]}}})
    };
    let script = async {
        let asked = fake.expect("server/discover").await;
        fake.answer(&asked, &discovered).await;
        let listen = fake.expect("subscriptions/listen").await;
        says_who_asks(&listen);
        assert_eq!(listen["params"]["notifications"], json!({"toolsListChanged": true}));
        fake.say(&acknowledge(&listen).to_string()).await;
        let asked = fake.expect("tools/list").await;
        fake.answer(&asked, LIST).await;
        let asked = fake.expect("prompts/list").await;
        fake.answer(&asked, r#"{"prompts":[]}"#).await;
        (fake, listen)
    };
    let (outcome, (mut fake, listen)) = tokio::join!(attempt, script);
    let (_connection, _) = outcome.unwrap();
    let notice = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed",
        "params": {"_meta": {"io.modelcontextprotocol/subscriptionId": listen["id"]}}});
    fake.say(&notice.to_string()).await;
    assert_eq!(events.recv().await, Some(Event::ListChanged(Kind::Tools)));
    // The subscription ends; whatever changed meanwhile was not told.
    fake.answer(&listen, r#"{"resultType":"complete"}"#).await;
    let listen = fake.expect("subscriptions/listen").await;
    fake.say(&acknowledge(&listen).to_string()).await;
    assert_eq!(events.recv().await, Some(Event::ListChanged(Kind::Tools)));
    // A server that doesn't know subscriptions isn't asked for ever.
    fake.answer(&listen, r#"{"resultType":"complete"}"#).await;
    let listen = fake.expect("subscriptions/listen").await;
    fake.fail(&listen, -32601, "no such method").await;
    let more = tokio::time::timeout(Duration::from_secs(600), fake.next()).await;
    assert!(more.is_err(), "{more:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_server_asks_back_is_declined_in_the_next_round() {
    let server = fake_server(json!({}));
    let (attempt, mut fake, _events) = dial_from(&server, probe());
    let script = async {
        let asked = fake.expect("server/discover").await;
        fake.answer(&asked, &line(DISCOVERED)).await;
        let asked = fake.expect("tools/list").await;
        fake.answer(&asked, LIST).await;
        fake
    };
    let (outcome, mut fake) = tokio::join!(attempt, script);
    let (connection, _) = outcome.unwrap();
    let asks = r#"{"resultType":"input_required","requestState":"s","inputRequests":{"k":{"method":"elicitation/create","params":{}}}}"#;
    let call = tool_call("x", json!({"n": 1}));
    let script = async {
        let first = fake.expect("tools/call").await;
        fake.answer(&first, asks).await;
        let second = fake.expect("tools/call").await;
        assert_ne!(second["id"], first["id"]);
        assert_eq!(second["params"]["arguments"], json!({"n": 1}));
        assert_eq!(second["params"]["requestState"], "s");
        assert_eq!(second["params"]["inputResponses"]["k"]["action"], "decline");
        fake.answer(&second, ODD).await;
    };
    let (result, ()) = tokio::join!(connection.send(&call, Client::default()), script);
    assert_eq!(result.unwrap().get(), ODD);
    let script = async {
        for _ in 0..10 {
            let asked = fake.expect("tools/call").await;
            fake.answer(&asked, asks).await;
        }
    };
    let (result, ()) = tokio::join!(connection.send(&call, Client::default()), script);
    assert!(result.unwrap_err().to_string().contains("asked back 10 times"));
}
