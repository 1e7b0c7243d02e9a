//! Streamable HTTP against a small server of our own, on loopback.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::StreamExt as _;

use super::*;

/// What the server answers to a request: status, content type, body.
type Answer = (u16, &'static str, String);

/// A server with sessions, and a hand to reach into its answers.
#[derive(Clone)]
pub(super) struct Remote {
    shared: Arc<Shared>,
}

struct Shared {
    session: AtomicUsize,
    /// Messages by method, in order, with the session they came in.
    seen: Mutex<Vec<(String, String)>>,
    tools: &'static str,
    /// Answers to a method instead of the usual one; `{id}` is filled in.
    instead: Mutex<Vec<(&'static str, Answer)>>,
    headers: Mutex<Vec<String>>,
    /// What the next stream that is opened with GET says; none is offered without.
    stream: Mutex<Option<mpsc::Receiver<String>>>,
}

impl Remote {
    async fn start(tools: &'static str) -> (Self, String, tokio::task::AbortHandle) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp?key=hunter2-secret", listener.local_addr().unwrap());
        let (remote, task) = Self::over(listener, tools);
        (remote, url, task)
    }

    /// On a listener of any kind.
    pub(super) fn over<L>(listener: L, tools: &'static str) -> (Self, tokio::task::AbortHandle)
    where
        L: axum::serve::Listener,
        L::Addr: std::fmt::Debug,
    {
        let shared = Shared {
            session: AtomicUsize::new(1),
            seen: Mutex::default(),
            tools,
            instead: Mutex::default(),
            headers: Mutex::default(),
            stream: Mutex::default(),
        };
        let remote = Self { shared: Arc::new(shared) };
        let app = Router::new().fallback(serve).with_state(remote.clone());
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        (remote, task.abort_handle())
    }

    /// Forgets its sessions, as a restart does.
    fn forget(&self) {
        self.shared.session.fetch_add(1, Ordering::SeqCst);
    }

    fn instead(&self, method: &'static str, status: u16, kind: &'static str, body: &str) {
        self.shared.instead.lock().unwrap().push((method, (status, kind, body.to_owned())));
    }

    fn count(&self, method: &str) -> usize {
        self.shared.seen.lock().unwrap().iter().filter(|(seen, _)| seen == method).count()
    }
}

fn respond(status: u16, kind: &str, body: String, session: Option<usize>) -> Response {
    let mut response = Response::builder().status(status);
    if kind == "hang" {
        let response = response.header("content-type", "text/event-stream");
        return response.body(Body::from_stream(futures::stream::pending::<std::io::Result<String>>())).unwrap();
    }
    if kind == "location" {
        return response.header("location", body).body(Body::empty()).unwrap();
    }
    if !kind.is_empty() {
        response = response.header("content-type", kind);
    }
    if let Some(session) = session {
        response = response.header("mcp-session-id", session.to_string());
    }
    response.body(Body::from(body)).unwrap()
}

async fn serve(State(Remote { shared }): State<Remote>, request: Request) -> Response {
    let given = request.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned()).unwrap_or_default();
    if request.method() == "GET" {
        let Some(mut said) = shared.stream.lock().unwrap().take() else {
            return respond(405, "", String::new(), None);
        };
        let events = futures::stream::poll_fn(move |context| said.poll_recv(context)).map(Ok::<_, std::io::Error>);
        let response = Response::builder().header("content-type", "text/event-stream");
        return response.body(Body::from_stream(events)).unwrap();
    }
    if request.method() == "DELETE" {
        shared.seen.lock().unwrap().push(("DELETE".to_owned(), given));
        return respond(200, "", String::new(), None);
    }
    if let Some(value) = request.headers().get("authorization") {
        shared.headers.lock().unwrap().push(value.to_str().unwrap().to_owned());
    }
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let method = message["method"].as_str().unwrap_or_default().to_owned();
    shared.seen.lock().unwrap().push((method.clone(), given.clone()));
    let session = shared.session.load(Ordering::SeqCst);
    let instead = {
        let mut all = shared.instead.lock().unwrap();
        all.iter().position(|(wanted, _)| *wanted == method).map(|at| all.remove(at).1)
    };
    if let Some((status, kind, body)) = instead {
        return respond(status, kind, body.replace("{id}", &message["id"].to_string()), None);
    }
    if method != "initialize" && given != session.to_string() {
        let lost = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
        return respond(404, "application/json", lost.to_owned(), None);
    }
    let result = match method.as_str() {
        "initialize" => {
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}"#
        }
        "tools/list" => shared.tools,
        "tools/call" => ODD,
        "ping" => "{}",
        _ => return respond(202, "", String::new(), None),
    };
    let text = format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, message["id"]);
    let is_new = (method == "initialize").then_some(session);
    respond(200, "application/json", text, is_new)
}

pub(super) const TOOLS: &str = r#"{"tools":[
    {"name":"write","inputSchema":{"type":"object"},"execution":{"n":1.50}},
    {"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}},
    {"name":"put","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":false,"idempotentHint":true}}]}"#;

fn remote_server(url: &str, headers: Value) -> Server {
    server(json!({"transport": "streamable_http", "url": url, "headers": headers}), json!({"timeout_seconds": 10.0}))
}

async fn dial_http(server: &Server) -> (Outcome, mpsc::Receiver<Event>) {
    let environment = BTreeMap::from([("TOKEN".to_owned(), "token-value".to_owned())]);
    let (events, received) = mpsc::channel(64);
    (connect(server, &Context::new(environment, "/"), &Terms::default(), events).await, received)
}

async fn call(connection: &Connection, tool: &str) -> Result<String, CallError> {
    let call = tool_call(tool, json!({}));
    connection.send(&call, Client::default()).await.map(|text| text.get().to_owned())
}

#[tokio::test]
async fn json_and_event_streams_keep_the_text() {
    let (remote, url, server) = Remote::start(TOOLS).await;
    let plan = remote_server(&url, json!({"Authorization": "Bearer ${TOKEN}"}));
    let (outcome, _events) = dial_http(&plan).await;
    let (connection, observed) = outcome.unwrap();
    assert!(observed.tools[0].raw.get().contains(r#""execution":{"n":1.50}"#));
    assert_eq!(observed.introduction.protocol_version, "2025-06-18");
    assert_eq!(call(&connection, "write").await.unwrap(), ODD);
    assert!(remote.shared.headers.lock().unwrap().iter().all(|value| value == "Bearer token-value"));

    let events = format!(
        "event: message\nid: 1\ndata: {{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}}\n\n\
         data: {{\"jsonrpc\":\"2.0\",\"id\":{{id}},\"result\":{ODD}}}\n\n"
    );
    remote.instead("tools/call", 200, "text/event-stream; charset=utf-8", &events);
    assert_eq!(call(&connection, "write").await.unwrap(), ODD);

    connection.close(Instant::now() + Duration::from_secs(5)).await;
    assert_eq!(remote.count("DELETE"), 1, "the session is closed at the other end");
    server.abort();
}

#[tokio::test]
async fn a_lost_session_is_renewed_once_and_only_harmless_calls_are_repeated() {
    let (remote, url, server) = Remote::start(TOOLS).await;
    let (outcome, mut events) = dial_http(&remote_server(&url, json!({}))).await;
    let (connection, _) = outcome.unwrap();
    remote.forget();
    assert_eq!(call(&connection, "read").await.unwrap(), ODD, "read-only: repeated");
    assert_eq!(remote.count("initialize"), 2);
    assert_eq!(remote.count("tools/call"), 2);
    assert!(matches!(events.recv().await, Some(Event::ListChanged(Kind::Tools))), "it may have changed");

    remote.forget();
    let error = call(&connection, "write").await.unwrap_err();
    assert!(matches!(error, CallError::SessionLost { .. }), "{error}");
    assert!(error.to_string().contains("was not repeated because the tool does not say"), "{error}");
    assert_eq!(remote.count("tools/call"), 3, "sent once");
    assert_eq!(remote.count("initialize"), 3);
    assert_eq!(call(&connection, "write").await.unwrap(), ODD, "the new session works");
    remote.forget();
    assert_eq!(call(&connection, "put").await.unwrap(), ODD, "idempotent: repeated");
    server.abort();
}

/// LIF-03: however many calls find the session gone, one new one is opened for all of them.
#[tokio::test]
async fn many_calls_that_find_their_session_lost_share_a_new_one() {
    let (remote, url, server) = Remote::start(TOOLS).await;
    let (outcome, _events) = dial_http(&remote_server(&url, json!({}))).await;
    let (connection, _) = outcome.unwrap();
    remote.forget();
    let calls = (0..50).map(|_| call(&connection, "read"));
    for result in futures::future::join_all(calls).await {
        assert_eq!(result.unwrap(), ODD);
    }
    assert_eq!(remote.count("initialize"), 2);
    assert!(remote.count("tools/call") <= 100, "{}", remote.count("tools/call"));
    server.abort();
}

#[tokio::test]
async fn other_ways_to_say_that_a_session_is_lost() {
    let ways = [
        (400, -32001, "gone"),
        (401, -32001, "gone"),
        (503, -32001, "gone"),
        (400, -32000, "Bad Request: No valid session ID provided"),
        (400, -32000, "Bad Request: Server not initialized"),
        (400, 32600, "Session terminated"),
    ];
    for (status, code, message) in ways {
        let (remote, url, server) = Remote::start(TOOLS).await;
        let (outcome, _events) = dial_http(&remote_server(&url, json!({}))).await;
        let (connection, _) = outcome.unwrap();
        let lost = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": message}}).to_string();
        remote.instead("tools/call", status, "application/json", &lost);
        assert_eq!(call(&connection, "read").await.unwrap(), ODD, "{message}");
        assert_eq!(remote.count("initialize"), 2);
        server.abort();
    }
    // Errors of the same kind that have nothing to do with a session are the server's answer, once.
    let (remote, url, server) = Remote::start(TOOLS).await;
    let (outcome, _events) = dial_http(&remote_server(&url, json!({}))).await;
    let (connection, _) = outcome.unwrap();
    let wrong = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "no flour"}}).to_string();
    remote.instead("tools/call", 400, "application/json", &wrong);
    let error = call(&connection, "read").await.unwrap_err();
    assert!(matches!(&error, CallError::Server { code: -32600, message, .. } if message == "no flour"), "{error}");
    assert_eq!((remote.count("initialize"), remote.count("tools/call")), (1, 1));
    server.abort();
}

#[tokio::test]
async fn a_session_that_cannot_be_renewed_is_said_to_be_lost_and_is_asked_for_once() {
    let (remote, url, server) = Remote::start(TOOLS).await;
    let (outcome, _events) = dial_http(&remote_server(&url, json!({}))).await;
    let (connection, _) = outcome.unwrap();
    remote.forget();
    remote.instead("initialize", 503, "text/plain", "starting");
    let error = call(&connection, "write").await.unwrap_err();
    assert!(matches!(error, CallError::SessionLost { renewed: false, .. }), "{error}");
    assert!(error.to_string().contains("a new one could not be opened, and the call was not repeated"), "{error}");
    assert_eq!((remote.count("initialize"), remote.count("tools/call")), (2, 1));
    // A server that answers 404 whatever the session is isn't asked again and again.
    for _ in 0..2 {
        remote.instead("tools/call", 404, "text/plain", "nothing here");
    }
    let error = call(&connection, "read").await.unwrap_err().to_string();
    assert!(error.contains("it does not know the session, also not a new one"), "{error}");
    assert_eq!((remote.count("initialize"), remote.count("tools/call")), (3, 3));
    assert_eq!(call(&connection, "write").await.unwrap(), ODD);
    server.abort();
}

#[tokio::test]
async fn an_answer_that_goes_with_its_session_is_not_asked_for_again() {
    let (remote, url, server) = Remote::start(TOOLS).await;
    let (outcome, _events) = dial_http(&remote_server(&url, json!({}))).await;
    let (connection, _) = outcome.unwrap();
    remote.instead("tools/call", 200, "hang", "");
    let slow = {
        let connection = connection.clone();
        tokio::spawn(async move { call(&connection, "write").await })
    };
    while remote.count("tools/call") == 0 {
        tokio::task::yield_now().await;
    }
    remote.forget();
    assert_eq!(call(&connection, "read").await.unwrap(), ODD);
    let error = slow.await.unwrap().unwrap_err();
    assert!(matches!(error, CallError::SessionLost { renewed: true, .. }), "{error}");
    server.abort();
}

#[tokio::test]
async fn an_answers_stream_that_ends_early_is_told_at_once() {
    let (remote, url, server) = Remote::start(TOOLS).await;
    let (outcome, _events) = dial_http(&remote_server(&url, json!({}))).await;
    let (connection, _) = outcome.unwrap();
    remote.instead("tools/call", 200, "text/event-stream", ": nothing\n\n");
    let began = std::time::Instant::now();
    let error = call(&connection, "write").await.unwrap_err().to_string();
    assert!(error.contains("broke off before its answer came: it ended the stream of its answer"), "{error}");
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
    assert_eq!(call(&connection, "write").await.unwrap(), ODD);
    server.abort();
}

#[tokio::test]
async fn wrong_credentials_name_header_and_variable_and_never_the_value() {
    let (remote, url, server) = Remote::start(TOOLS).await;
    remote.instead("initialize", 401, "application/json", r#"{"error":"bad token token-value"}"#);
    let plan = remote_server(&url, json!({"Authorization": "Bearer ${TOKEN}", "X-Team": "core"}));
    let error = dial_http(&plan).await.0.unwrap_err();
    assert_eq!(
        error.to_string(),
        "server `fake` answered HTTP 401: it does not accept the header `Authorization` (from `${TOKEN}`), the header `X-Team`"
    );
    remote.instead("initialize", 403, "", "");
    let error = dial_http(&remote_server(&url, json!({}))).await.0.unwrap_err();
    assert!(error.to_string().contains("no header was sent"), "{error}");
    server.abort();
}

#[tokio::test]
async fn every_other_refusal_shows_its_status_and_no_secret() {
    let (remote, url, server) = Remote::start(TOOLS).await;
    let plan = remote_server(&url, json!({"Authorization": "Bearer ${TOKEN}"}));
    let cases = [
        (500, "text/html", "<h1>oops\n token-value</h1>", "answered HTTP 500: <h1>oops ${TOKEN}</h1>"),
        (302, "", "", "answered HTTP 302"),
        (404, "text/plain", "nothing here", "answered HTTP 404: nothing here"),
        (200, "text/html", "<html>", "the answer's content type is text/html"),
        (200, "application/json", "{\"a\":", "the answer is no MCP message: {\"a\":"),
    ];
    for (status, kind, body, expected) in cases {
        remote.instead("initialize", status, kind, body);
        let error = dial_http(&plan).await.0.unwrap_err();
        let text = format!("{error} {error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!text.contains("token-value") && !text.contains("hunter2"), "{text}");
    }
    server.abort();
}

#[tokio::test]
async fn nobody_there_and_bad_urls() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    drop(listener);
    let error = dial_http(&remote_server(&url, json!({}))).await.0.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().contains("Connection refused"), "{error}");
    for (url, expected) in [("nowhere", "no absolute URL"), ("ftp://x/", "http:// or https://")] {
        let error = dial_http(&remote_server(url, json!({}))).await.0.unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    let error = dial_http(&remote_server("http://127.0.0.1:1/", json!({"A b": "x"}))).await.0.unwrap_err();
    assert!(matches!(error, ConnectError::Header(_)), "{error}");
}

#[tokio::test]
async fn what_a_server_says_by_itself_is_heard() {
    let (remote, url, server) = Remote::start(TOOLS).await;
    let (say, said) = mpsc::channel(4);
    *remote.shared.stream.lock().unwrap() = Some(said);
    let (outcome, mut events) = dial_http(&remote_server(&url, json!({}))).await;
    let (connection, _) = outcome.unwrap();
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}"#;
    say.send(format!("data: {notice}\n\n")).await.unwrap();
    assert_eq!(events.recv().await, Some(Event::ListChanged(Kind::Prompts)));
    // The end of the stream is not the end of the server.
    drop(say);
    assert_eq!(call(&connection, "write").await.unwrap(), ODD);
    server.abort();
}

#[tokio::test]
async fn an_answer_over_the_limit_fails_its_call_alone() {
    let (remote, url, server) = Remote::start(TOOLS).await;
    let (outcome, _events) = dial_http(&remote_server(&url, json!({}))).await;
    let (connection, _) = outcome.unwrap();
    let long = format!(r#"{{"jsonrpc":"2.0","id":{{id}},"result":{{"t":"{}"}}}}"#, "x".repeat(17 << 20));
    remote.instead("tools/call", 200, "application/json", &long);
    let error = call(&connection, "write").await.unwrap_err();
    assert!(matches!(error, CallError::TooLong { .. }), "{error}");
    let event = long.replacen('{', "data: {", 1) + "\n\n";
    remote.instead("tools/call", 200, "text/event-stream", &event);
    let error = call(&connection, "write").await.unwrap_err();
    assert!(matches!(error, CallError::TooLong { .. }), "{error}");
    assert_eq!(call(&connection, "write").await.unwrap(), ODD);
    server.abort();
}

#[tokio::test]
async fn redirects_are_followed_within_the_origin_only() {
    let (remote, url, server) = Remote::start(TOOLS).await;
    let (outcome, _events) = dial_http(&remote_server(&url, json!({}))).await;
    let (connection, _) = outcome.unwrap();
    remote.instead("tools/call", 307, "location", "/mcp");
    assert_eq!(call(&connection, "write").await.unwrap(), ODD, "with its body and its session");
    assert_eq!(remote.count("tools/call"), 2);
    remote.instead("tools/call", 308, "location", "https://elsewhere.example/mcp?key=hunter2-secret");
    let error = call(&connection, "write").await.unwrap_err().to_string();
    assert!(error.contains("a redirect to https://elsewhere.example/mcp, which is not followed because"), "{error}");
    server.abort();
}

#[tokio::test]
async fn tls_where_there_is_none_is_told_in_plain_words() {
    let (_remote, url, server) = Remote::start(TOOLS).await;
    let error = dial_http(&remote_server(&url.replace("http://", "https://"), json!({}))).await.0.unwrap_err();
    let expected = "server `fake` can't be reached: it does not speak TLS there; if it is a server without it, its `url` starts with `http://` or `ws://`";
    assert_eq!(error.to_string(), expected);
    server.abort();
}

#[tokio::test]
async fn a_server_that_is_gone_ends_the_connection() {
    let (_remote, url, server) = Remote::start(TOOLS).await;
    let (outcome, mut events) = dial_http(&remote_server(&url, json!({}))).await;
    let (connection, _) = outcome.unwrap();
    server.abort();
    // A kept-alive connection may still answer or break once; after that nobody listens.
    while !matches!(call(&connection, "write").await, Err(CallError::Lost { .. })) {}
    let closed = loop {
        if let Event::Closed(closed) = events.recv().await.unwrap() {
            break closed;
        }
    };
    assert!(closed.reason.starts_with("the server can't be reached: "), "{}", closed.reason);
}
