//! HTTP with server-sent events against a small server of our own, on loopback.

use std::sync::Mutex;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::StreamExt as _;

use super::*;

/// A server whose stream is `/sse` and whose messages go to what the stream names.
#[derive(Clone)]
struct Older {
    shared: Arc<Shared>,
}

struct Shared {
    /// What the stream says first, instead of the usual endpoint.
    first: Mutex<Option<String>>,
    /// What is answered to GET or POST instead of the usual; with the address of a redirect.
    instead: Mutex<Vec<(&'static str, u16, String)>>,
    /// Into the stream that is open.
    say: Mutex<Option<mpsc::Sender<String>>>,
    /// Messages that were taken.
    seen: Mutex<Vec<Value>>,
    authorized: Mutex<Vec<bool>>,
    tools: Mutex<String>,
}

impl Older {
    async fn start() -> (Self, String, tokio::task::AbortHandle) {
        let shared = Shared {
            first: Mutex::default(),
            instead: Mutex::default(),
            say: Mutex::default(),
            seen: Mutex::default(),
            authorized: Mutex::default(),
            tools: Mutex::new(r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#.to_owned()),
        };
        let older = Self { shared: Arc::new(shared) };
        let app = Router::new().fallback(serve).with_state(older.clone());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/sse?key=hunter2-secret", listener.local_addr().unwrap());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (older, url, task.abort_handle())
    }

    fn instead(&self, method: &'static str, status: u16, text: &str) {
        self.shared.instead.lock().unwrap().push((method, status, text.to_owned()));
    }

    /// Waits for a message of this method.
    async fn taken(&self, method: &str) -> Value {
        loop {
            let found = self.shared.seen.lock().unwrap().iter().find(|seen| seen["method"] == method).cloned();
            match found {
                Some(message) => return message,
                None => tokio::task::yield_now().await,
            }
        }
    }

    async fn say(&self, text: String) {
        let say = self.shared.say.lock().unwrap().clone().unwrap();
        say.send(text).await.unwrap();
    }
}

async fn serve(State(older): State<Older>, request: Request) -> Response {
    let shared = &older.shared;
    let method = request.method().to_string();
    let authorized = request.headers().get("authorization").is_some_and(|value| value == "Bearer token-value");
    shared.authorized.lock().unwrap().push(authorized);
    let instead = {
        let mut all = shared.instead.lock().unwrap();
        all.iter().position(|(wanted, ..)| *wanted == method).map(|at| all.remove(at))
    };
    if let Some((_, status, text)) = instead {
        let response = Response::builder().status(status);
        return match status {
            300..=399 => response.header("location", text).body(Body::empty()).unwrap(),
            _ => response.header("content-type", "text/plain").body(Body::from(text)).unwrap(),
        };
    }
    if method == "GET" {
        let (say, mut said) = mpsc::channel(64);
        let first = shared.first.lock().unwrap().take();
        say.try_send(first.unwrap_or_else(|| "event: endpoint\ndata: /messages?session=1\n\n".to_owned())).unwrap();
        *shared.say.lock().unwrap() = Some(say);
        let events = futures::stream::poll_fn(move |context| said.poll_recv(context)).map(Ok::<_, std::io::Error>);
        let response = Response::builder().header("content-type", "text/event-stream; charset=utf-8");
        return response.body(Body::from_stream(events)).unwrap();
    }
    assert_eq!(request.uri().to_string(), "/messages?session=1");
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let asked = message["method"].as_str().unwrap_or_default().to_owned();
    shared.seen.lock().unwrap().push(message.clone());
    let result = match asked.as_str() {
        "initialize" => {
            r#"{"protocolVersion":"2024-11-05","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}"#
                .to_owned()
        }
        "tools/list" => shared.tools.lock().unwrap().clone(),
        "tools/call" if message["params"]["name"] == "echo" => ODD.to_owned(),
        "ping" => "{}".to_owned(),
        _ => String::new(),
    };
    if !result.is_empty() {
        older
            .say(format!(
                "event: message\r\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\r\n\r\n",
                message["id"]
            ))
            .await;
    }
    Response::builder().status(202).body(Body::from("Accepted")).unwrap()
}

fn older_server(url: &str, headers: Value) -> Server {
    server(json!({"transport": "sse", "url": url, "headers": headers}), json!({"timeout_seconds": 10.0}))
}

async fn dial_sse(url: &str) -> (Outcome, mpsc::Receiver<Event>) {
    let environment = BTreeMap::from([("TOKEN".to_owned(), "token-value".to_owned())]);
    let (events, received) = mpsc::channel(64);
    let server = older_server(url, json!({"Authorization": "Bearer ${TOKEN}"}));
    (connect(&server, &Context::new(environment, "/"), &Terms::default(), events).await, received)
}

async fn call(connection: &Connection, tool: &str) -> Result<String, CallError> {
    let call = tool_call(tool, json!({}));
    connection.send(&call, Client::default()).await.map(|text| text.get().to_owned())
}

#[tokio::test]
async fn messages_go_to_the_endpoint_and_answers_come_from_the_stream() {
    let (older, url, server) = Older::start().await;
    let (outcome, mut events) = dial_sse(&url).await;
    let (connection, observed) = outcome.unwrap();
    assert_eq!(observed.introduction.protocol_version, "2024-11-05");
    assert_eq!(observed.tools[0].known.name, "echo");
    assert_eq!(call(&connection, "echo").await.unwrap(), ODD);
    assert!(older.shared.authorized.lock().unwrap().iter().all(|sent| *sent), "headers go with GET and POST");

    older.say("data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n\n".to_owned()).await;
    assert_eq!(events.recv().await, Some(Event::ListChanged(Kind::Tools)));
    older.say("event: endpoint\ndata: http://elsewhere.example/\n\ndata: hello token-value\n\n".to_owned()).await;
    let skipped = "something that is no MCP message was skipped: hello ${TOKEN}".to_owned();
    assert_eq!(events.recv().await, Some(Event::Warning(skipped)));
    assert_eq!(call(&connection, "echo").await.unwrap(), ODD, "the endpoint stays");

    connection.close(Instant::now() + Duration::from_secs(5)).await;
    let stream = older.shared.say.lock().unwrap().clone().unwrap();
    // The server sees it when it next looks.
    stream.closed().await;
    server.abort();
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_at_the_server() {
    let (older, url, server) = Older::start().await;
    let (outcome, _events) = dial_sse(&url).await;
    let (connection, _) = outcome.unwrap();
    let cancel = CancellationToken::new();
    let caller = Client { cancel: cancel.clone(), ..Client::default() };
    let slow = tool_call("slow", json!({}));
    let stop = async {
        older.taken("tools/call").await;
        cancel.cancel();
    };
    let (result, ()) = tokio::join!(connection.send(&slow, caller), stop);
    assert!(matches!(result, Err(CallError::Cancelled { .. })), "{result:?}");
    let cancelled = older.taken("notifications/cancelled").await;
    assert_eq!(cancelled["params"]["requestId"], older.taken("tools/call").await["id"]);
    server.abort();
}

#[tokio::test]
async fn the_end_of_the_stream_is_the_end_of_the_connection() {
    let (older, url, server) = Older::start().await;
    let (outcome, mut events) = dial_sse(&url).await;
    let (connection, _) = outcome.unwrap();
    let slow = tool_call("slow", json!({}));
    let script = async {
        older.taken("tools/call").await;
        *older.shared.say.lock().unwrap() = None;
    };
    let (result, ()) = tokio::join!(connection.send(&slow, Client::default()), script);
    let lost = "the connection to server `fake` was lost before it answered: the server ended the event stream";
    assert_eq!(result.unwrap_err().to_string(), lost);
    let Some(Event::Closed(closed)) = events.recv().await else { panic!() };
    assert_eq!(closed.reason, "the server ended the event stream");
    server.abort();
}

#[tokio::test]
async fn a_forgotten_session_ends_the_connection() {
    let (older, url, server) = Older::start().await;
    let (outcome, mut events) = dial_sse(&url).await;
    let (connection, _) = outcome.unwrap();
    older.instead("POST", 404, "Could not find session");
    let error = call(&connection, "echo").await.unwrap_err();
    assert!(matches!(&error, CallError::Lost { .. }), "{error}");
    assert!(error.to_string().contains("has forgotten the session"), "{error}");
    let Some(Event::Closed(closed)) = events.recv().await else { panic!() };
    assert!(closed.reason.contains("has forgotten the session"), "{}", closed.reason);
    server.abort();
}

#[tokio::test]
async fn other_refusals_of_a_message_cost_its_call_alone() {
    let (older, url, server) = Older::start().await;
    let (outcome, _events) = dial_sse(&url).await;
    let (connection, _) = outcome.unwrap();
    for (status, expected) in [
        (500, "HTTP 500: no token ${TOKEN}; the fault is at its end"),
        (503, "it is not available now"),
        (401, "it wants other credentials"),
    ] {
        older.instead("POST", status, "no token token-value");
        let error = call(&connection, "echo").await.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("token-value"), "{error}");
    }
    assert_eq!(call(&connection, "echo").await.unwrap(), ODD);
    server.abort();
}

#[tokio::test]
async fn an_answer_over_the_limit_fails_its_call_alone() {
    let (older, url, server) = Older::start().await;
    let (outcome, _events) = dial_sse(&url).await;
    let (connection, _) = outcome.unwrap();
    let slow = tool_call("slow", json!({}));
    let script = async {
        let id = older.taken("tools/call").await["id"].clone();
        older.say("data: {\"result\":{\"t\":\"".to_owned()).await;
        for _ in 0..17 {
            older.say("x".repeat(1 << 20)).await;
        }
        older.say(format!("\"}},\"id\":{id}}}\n\n")).await;
    };
    let (result, ()) = tokio::join!(connection.send(&slow, Client::default()), script);
    assert!(matches!(result, Err(CallError::TooLong { .. })), "{result:?}");
    assert_eq!(call(&connection, "echo").await.unwrap(), ODD);
    server.abort();
}

#[tokio::test]
async fn why_there_is_no_stream_is_told_in_plain_words() {
    let (older, url, server) = Older::start().await;
    let cases = [
        (401, "", "it does not accept the header `Authorization` (from `${TOKEN}`)"),
        (
            404,
            "nope",
            "HTTP 404: nope; it offers no event stream there: see `url`; a newer server needs `transport: streamable_http`",
        ),
        (405, "", "a newer server needs `transport: streamable_http`"),
        (502, "", "HTTP 502; it is not available now"),
        (200, "hello", "the answer's content type is text/plain, not text/event-stream"),
        (302, "/other?key=hunter2-secret", "content type"),
        (
            307,
            "https://elsewhere.example/sse?key=hunter2-secret",
            "HTTP 307, a redirect to https://elsewhere.example/sse, which is not followed because headers would go to another origin",
        ),
    ];
    for (status, text, expected) in cases {
        older.instead("GET", status, text);
        if expected == "content type" {
            // Within the origin it is followed; here it leads to a refusal.
            older.instead("GET", 200, "hello");
        }
        let error = dial_sse(&url).await.0.unwrap_err();
        let all = format!("{error} {error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!all.contains("token-value") && !all.contains("hunter2"), "{all}");
    }
    let cases = [
        (
            "event: endpoint\ndata: http://elsewhere.example/m?k=hunter2-secret\n\n",
            "at another origin, to which nothing is sent: http://elsewhere.example/m",
        ),
        ("event: endpoint\ndata: http://[\n\n", "is no address"),
    ];
    for (first, expected) in cases {
        *older.shared.first.lock().unwrap() = Some(first.to_owned());
        let error = dial_sse(&url).await.0.unwrap_err().to_string();
        assert!(error.contains(expected) && !error.contains("hunter2"), "{error}");
    }
    server.abort();
}

#[tokio::test]
async fn a_redirect_within_the_origin_is_followed_with_its_body() {
    let (older, url, server) = Older::start().await;
    older.instead("GET", 301, "/sse");
    let (outcome, _events) = dial_sse(&url).await;
    let (connection, _) = outcome.unwrap();
    older.instead("POST", 308, "/messages?session=1");
    assert_eq!(call(&connection, "echo").await.unwrap(), ODD);
    older.instead("POST", 303, "/elsewhere?k=hunter2-secret");
    let error = call(&connection, "echo").await.unwrap_err().to_string();
    assert!(
        error.contains("HTTP 303, a redirect to http://127.0.0.1:")
            && error.contains("/elsewhere, which is not followed; write that address into `url`"),
        "{error}"
    );
    for _ in 0..6 {
        older.instead("POST", 307, "/messages?session=1");
    }
    let error = call(&connection, "echo").await.unwrap_err().to_string();
    assert!(error.contains("more than 5 redirects in a row"), "{error}");
    server.abort();
}

#[tokio::test]
async fn a_stream_that_names_no_endpoint_costs_the_time_to_connect() {
    let (older, url, server) = Older::start().await;
    *older.shared.first.lock().unwrap() = Some(": nothing yet\n\n".to_owned());
    let mut plan = older_server(&url, json!({}));
    plan.limits.timeout_seconds = 0.2;
    let (events, _received) = mpsc::channel(64);
    let error =
        connect(&plan, &Context::new(BTreeMap::new(), "/"), &Terms::default(), events).await.unwrap_err().to_string();
    assert!(error.contains("it timed out while opening the connection"), "{error}");
    server.abort();
}
