//! A remote server in the test's own process, of each transport and era. It lists named tools; `echo` gives its arguments
//! back, `become` lists others from then on and says so, `ask` wants an answer before it gives a result (2026-07-28),
//! `fault` and `set` do what [`fault`] says.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::sync::mpsc::unbounded_channel;
use tokio_tungstenite::tungstenite::Message;

use super::fault::{self, Act, Replies};
use super::stream::{Piece, Said, Say, events, half, respond};

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// HTTP with server-sent events, 2024-11-05.
    Sse,
    /// A websocket.
    Websocket,
    /// Streamable HTTP with sessions.
    Session,
    /// Streamable HTTP without initialize, 2026-07-28.
    Stateless,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Sse, Self::Websocket, Self::Session, Self::Stateless];

    pub fn transport(self) -> &'static str {
        match self {
            Self::Sse => "sse",
            Self::Websocket => "websocket",
            Self::Session | Self::Stateless => "streamable_http",
        }
    }

    pub fn revision(self) -> &'static str {
        match self {
            Self::Sse => "2024-11-05",
            Self::Websocket | Self::Session => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }
}

/// A stream that a client holds open: what is said on it, and which subscription or session it is.
struct Open {
    say: Say,
    subscription: Value,
}

struct Shared {
    kind: Kind,
    seen: Mutex<Vec<Value>>,
    tools: Mutex<Vec<String>>,
    open: Mutex<Vec<Open>>,
    session: Mutex<u64>,
    /// Faults by method.
    at: Mutex<Value>,
    replies: Replies,
    streams: AtomicU64,
}

/// A running server; it ends with this.
pub struct Remote {
    shared: Arc<Shared>,
    address: SocketAddr,
    // Dropped last: the tasks end with it.
    _runtime: tokio::runtime::Runtime,
}

impl Remote {
    pub fn start(kind: Kind) -> Self {
        Self::with(kind, &["echo", "become"], json!({}))
    }

    /// With these tools, and faults by method.
    pub fn with(kind: Kind, tools: &[&str], at: Value) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let shared = Arc::new(Shared {
            kind,
            seen: Mutex::default(),
            tools: Mutex::new(tools.iter().map(|tool| (*tool).to_owned()).collect()),
            open: Mutex::default(),
            session: Mutex::new(1),
            at: Mutex::new(at),
            replies: Replies::default(),
            streams: AtomicU64::default(),
        });
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        match kind {
            Kind::Websocket => drop(runtime.spawn(sockets(listener, shared.clone()))),
            _ => {
                let app = Router::new().fallback(serve).with_state(shared.clone());
                drop(runtime.spawn(async move { axum::serve(listener, app).await.unwrap() }));
            }
        }
        Self { shared, address, _runtime: runtime }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// A server entry; `more` is merged into it.
    pub fn entry(&self, name: &str, more: Value) -> Value {
        let kind = self.shared.kind;
        let scheme = if kind == Kind::Websocket { "ws" } else { "http" };
        let url = format!("{scheme}://{}/mcp", self.address);
        let mut entry =
            json!({ "name": name, "transport": kind.transport(), "url": url, "headers": { "X-Team": "${TEAM}" } });
        super::merge(&mut entry, more);
        entry
    }

    /// Has these tools from now on, without a word.
    pub fn lists(&self, tools: &[&str]) {
        *self.shared.tools.lock().unwrap() = tools.iter().map(|tool| (*tool).to_owned()).collect();
    }

    /// How many messages of this method came.
    pub fn count(&self, method: &str) -> usize {
        self.shared.seen.lock().unwrap().iter().filter(|message| message["method"] == method).count()
    }

    /// Forgets what came.
    pub fn clear(&self) {
        self.shared.seen.lock().unwrap().clear();
    }

    /// Ends every stream and forgets every session, as a restart does.
    pub fn restart(&self) {
        self.shared.restart();
    }

    /// Faults by method, from now on.
    pub fn set(&self, at: Value) {
        *self.shared.at.lock().unwrap() = at;
    }

    /// The messages of this method that came.
    pub fn seen(&self, method: &str) -> Vec<Value> {
        self.shared.seen.lock().unwrap().iter().filter(|message| message["method"] == method).cloned().collect()
    }
}

impl Shared {
    fn restart(&self) {
        self.open.lock().unwrap().clear();
        *self.session.lock().unwrap() += 1;
    }

    /// What a message leads to.
    fn acts(&self, message: &Value) -> Vec<Act> {
        if self.replies.take(message) {
            return Vec::new();
        }
        let right = self.answer(message).map(|answer| answer.to_string().into_bytes());
        match fault::of(&self.at.lock().unwrap(), message) {
            Some(fault) => fault::acts(fault, message, right, &self.replies),
            None => right.map(Act::Say).into_iter().collect(),
        }
    }

    async fn carry_out(self: Arc<Self>, acts: Vec<Act>, say: Say) {
        for act in acts {
            // One that has hung up hears nothing.
            let _gone = match act {
                Act::Say(message) => say.send(Piece::Whole(message)),
                Act::Half(message) => say.send(Piece::Half(message)).and_then(|()| say.send(Piece::End)),
                Act::End(_) => say.send(Piece::End),
                Act::Wait(time) => {
                    tokio::time::sleep(time).await;
                    Ok(())
                }
                Act::Reply(id, reply) => {
                    let result = fault::text_result(&fault::reply_text(&reply.await.unwrap_or_default()));
                    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
                    say.send(Piece::Whole(answer.into_bytes()))
                }
                Act::Stop | Act::Nothing => std::future::pending().await,
                Act::Restart => {
                    self.restart();
                    Ok(())
                }
                // There is no process.
                Act::Status(..) | Act::RetryAfter(..) | Act::CloseIn | Act::CloseOut | Act::Grandchild(_) => Ok(()),
            };
        }
    }

    fn open(&self, subscription: Value) -> Said {
        let (say, said) = unbounded_channel();
        self.open.lock().unwrap().push(Open { say, subscription });
        said
    }

    /// The answer to a message, if it gets one.
    fn answer(&self, message: &Value) -> Option<Value> {
        self.seen.lock().unwrap().push(message.clone());
        let id = message.get("id")?;
        let asks_anew = message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28";
        let is_stateless = self.kind == Kind::Stateless;
        let unknown = || Err(json!({ "code": -32601, "message": "no such method" }));
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" if !is_stateless => Ok(json!({
                "protocolVersion": self.kind.revision(), "capabilities": { "tools": { "listChanged": true } },
                "serverInfo": { "name": "remote", "version": "1" },
            })),
            "server/discover" if is_stateless => Ok(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "private",
                "capabilities": { "tools": { "listChanged": true } },
                "_meta": { "io.modelcontextprotocol/serverInfo": { "name": "remote", "version": "1" } },
            })),
            "ping" if !is_stateless => Ok(json!({})),
            _ if is_stateless != asks_anew => unknown(),
            "tools/list" => {
                let tool = |name: &String| json!({ "name": name, "inputSchema": { "type": "object" } });
                let tools: Vec<_> = self.tools.lock().unwrap().iter().map(tool).collect();
                Ok(json!({ "tools": tools }))
            }
            "tools/call" => Ok(self.call(&message["params"])),
            _ => unknown(),
        };
        Some(match result {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        })
    }

    fn call(&self, params: &Value) -> Value {
        let arguments = &params["arguments"];
        if params["name"] == "set" {
            *self.at.lock().unwrap() = arguments["at"].clone();
        }
        if params["name"] == "become" {
            let names = arguments["tools"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
            *self.tools.lock().unwrap() = names.collect();
            for open in &*self.open.lock().unwrap() {
                let mut notice = json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                if self.kind == Kind::Stateless {
                    notice["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] = open.subscription.clone();
                }
                // One that has hung up hears nothing.
                let _gone = open.say.send(Piece::Whole(notice.to_string().into_bytes()));
            }
        }
        if params["name"] == "ask" && params.get("inputResponses").is_none() {
            let question = json!({ "method": arguments["method"], "params": arguments["params"] });
            return json!({ "resultType": "input_required", "requestState": "opaque", "inputRequests": { "k": question } });
        }
        let said = params.get("inputResponses").filter(|_| params["requestState"] == "opaque").unwrap_or(arguments);
        json!({ "content": [{ "type": "text", "text": said.to_string() }] })
    }
}

async fn sockets(listener: tokio::net::TcpListener, shared: Arc<Shared>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (shared, mut said) = (shared.clone(), shared.open(Value::Null));
        tokio::spawn(async move {
            let Ok(mut socket) = tokio_tungstenite::accept_async(stream).await else { return };
            let (say, mut answers) = unbounded_channel();
            loop {
                let piece = tokio::select! {
                    frame = socket.next() => match frame {
                        Some(Ok(Message::Text(text))) => {
                            let acts = shared.acts(&serde_json::from_str(&text).unwrap());
                            tokio::spawn(shared.clone().carry_out(acts, say.clone()));
                            continue;
                        }
                        Some(Ok(_)) => continue,
                        _ => return,
                    },
                    answer = answers.recv() => answer,
                    notice = said.recv() => notice,
                };
                // A socket without a farewell.
                let Some(Piece::Whole(text)) = piece else { return };
                let frame =
                    String::from_utf8(text).map_or_else(|error| Message::binary(error.into_bytes()), Message::text);
                if socket.send(frame).await.is_err() {
                    return;
                }
            }
        });
    }
}

/// The answer to a message over streamable HTTP: JSON where that does, else a stream of events.
async fn answered(shared: Arc<Shared>, mut acts: Vec<Act>) -> Response {
    match &mut acts[..] {
        [] => respond(202, String::new()),
        [Act::Status(status, text), ..] => respond(*status, std::mem::take(text)),
        [Act::RetryAfter(status, wait)] => retry_after(*status, wait),
        [Act::Say(message)] => {
            let of_unknown =
                serde_json::from_slice::<Value>(message).is_ok_and(|answer| answer["error"]["code"] == -32601);
            respond(if of_unknown { 404 } else { 200 }, std::mem::take(message))
        }
        [Act::Say(message), Act::Wait(_), Act::Restart] => {
            shared.restart();
            respond(200, std::mem::take(message))
        }
        [Act::Half(message)] => half(message),
        [Act::End(_)] => half(&[]),
        [Act::Stop | Act::Nothing] => std::future::pending().await,
        [Act::CloseIn | Act::CloseOut | Act::Grandchild(_)] => respond(500, "there is no process"),
        _ => {
            let (say, said) = unbounded_channel();
            tokio::spawn(shared.carry_out(acts, say));
            events(String::new(), said)
        }
    }
}

/// With a body as those have it who speak JSON-RPC whatever happens.
fn retry_after(status: u16, wait: &str) -> Response {
    let mut response = respond(status, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"later"}}"#);
    response.headers_mut().insert("retry-after", wait.parse().unwrap());
    response
}

async fn serve(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    assert_eq!(request.headers()["x-team"], "bakers");
    let session = shared.session.lock().unwrap().to_string();
    match (request.method().as_str(), shared.kind) {
        ("GET", Kind::Sse) => {
            let own = format!("session={session}-{}", shared.streams.fetch_add(1, Ordering::Relaxed));
            let endpoint = format!("event: endpoint\ndata: /messages?{own}\n\n");
            return events(endpoint, shared.open(json!(own)));
        }
        ("GET", Kind::Session) => return events(": hello\n\n".to_owned(), shared.open(Value::Null)),
        ("DELETE", _) => {
            shared.seen.lock().unwrap().push(json!({ "method": "DELETE" }));
            return respond(200, String::new());
        }
        ("POST", _) => {}
        _ => return respond(405, String::new()),
    }
    let given = request.headers().get("mcp-session-id").map(|id| id.to_str().unwrap().to_owned());
    let of_stream = request.uri().query().map(str::to_owned);
    let method = request.headers().get("mcp-method").map(|method| method.to_str().unwrap().to_owned());
    let body = axum::body::to_bytes(request.into_body(), usize::MAX).await.unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap();
    let is_first = message["method"] == "initialize" || message["method"] == "server/discover";
    match shared.kind {
        Kind::Sse => {
            let say = shared
                .open
                .lock()
                .unwrap()
                .iter()
                .find_map(|open| (open.subscription.as_str() == of_stream.as_deref()).then(|| open.say.clone()));
            let Some(say) = say else { return respond(404, "no such session") };
            let acts = shared.acts(&message);
            match acts.first() {
                Some(Act::Status(status, text)) => return respond(*status, text.clone()),
                Some(Act::RetryAfter(status, wait)) => return retry_after(*status, wait),
                _ => {}
            }
            tokio::spawn(shared.carry_out(acts, say));
            return respond(202, String::new());
        }
        Kind::Session if !is_first && given.as_deref() != Some(&*session) => return respond(404, String::new()),
        Kind::Stateless => {
            assert_eq!(given, None);
            if message["method"] != "initialize" {
                assert_eq!(method.as_deref(), message["method"].as_str());
            }
            if message["method"] == "subscriptions/listen" {
                shared.seen.lock().unwrap().push(message.clone());
                let acknowledged = json!({ "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
                    "notifications": message["params"]["notifications"],
                    "_meta": { "io.modelcontextprotocol/subscriptionId": message["id"] } } });
                return events(format!("data: {acknowledged}\n\n"), shared.open(message["id"].clone()));
            }
        }
        _ => {}
    }
    let acts = shared.acts(&message);
    let mut response = answered(shared.clone(), acts).await;
    if message["method"] == "initialize" && shared.kind == Kind::Session {
        response.headers_mut().insert("mcp-session-id", session.parse().unwrap());
    }
    response
}
