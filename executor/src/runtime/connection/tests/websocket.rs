//! Websockets against a small server of our own, on loopback.

use futures::{SinkExt as _, StreamExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::server::{ErrorResponse, Request, Response};
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::{WebSocketStream, accept_hdr_async};

use super::*;

/// The server's end of one websocket.
struct Peer(WebSocketStream<TcpStream>);

/// Listens; gives the address of a config.
async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("ws://{}/mcp?key=hunter2-secret", listener.local_addr().unwrap());
    (listener, url)
}

#[allow(clippy::result_large_err, reason = "the callback's type is the crate's")]
async fn accept(listener: &TcpListener) -> Peer {
    let (stream, _) = listener.accept().await.unwrap();
    let look = |request: &Request, mut response: Response| -> Result<Response, ErrorResponse> {
        assert_eq!(request.uri().to_string(), "/mcp?key=hunter2-secret");
        assert_eq!(request.headers()["authorization"], "Bearer token-value");
        assert_eq!(request.headers()["sec-websocket-protocol"], "mcp");
        response.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
        Ok(response)
    };
    Peer(accept_hdr_async(stream, look).await.unwrap())
}

impl Peer {
    async fn next(&mut self) -> Message {
        self.0.next().await.expect("the client hung up").unwrap()
    }

    async fn expect(&mut self, method: &str) -> Value {
        let frame = self.next().await.into_text().unwrap();
        assert!(!frame.contains('\n'), "one message on one line a frame: {frame}");
        let message: Value = serde_json::from_str(&frame).unwrap();
        assert_eq!(message["method"], method, "{message}");
        message
    }

    async fn say(&mut self, text: impl Into<String>) {
        self.0.send(Message::text(text.into())).await.unwrap();
    }

    async fn answer(&mut self, request: &Value, result: &str) {
        self.say(format!(r#"{{"jsonrpc":"2.0","id":{},"result":{result}}}"#, request["id"])).await;
    }

    async fn shake_hands(&mut self) {
        let request = self.expect("initialize").await;
        self.answer(
            &request,
            r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}"#,
        )
        .await;
        self.expect("notifications/initialized").await;
        let request = self.expect("tools/list").await;
        self.answer(&request, r#"{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}"#).await;
    }
}

async fn dial(url: &str) -> (Outcome, mpsc::Receiver<Event>) {
    dial_as(url, Some(Era::Session)).await
}

async fn dial_as(url: &str, era: Option<Era>) -> (Outcome, mpsc::Receiver<Event>) {
    let environment = BTreeMap::from([("TOKEN".to_owned(), "token-value".to_owned())]);
    let (events, received) = mpsc::channel(64);
    let launch = json!({"transport": "websocket", "url": url, "headers": {"Authorization": "Bearer ${TOKEN}"}});
    let server = server(launch, json!({"timeout_seconds": 10.0}));
    let terms = Terms { era, ..Terms::default() };
    (connect(&server, &Context::new(environment, "/"), &terms, events).await, received)
}

async fn connected() -> (Connection, mpsc::Receiver<Event>, Peer) {
    let (listener, url) = listen().await;
    let serve = async {
        let mut peer = accept(&listener).await;
        peer.shake_hands().await;
        peer
    };
    let ((outcome, events), peer) = tokio::join!(dial(&url), serve);
    let (connection, observed) = outcome.unwrap();
    assert_eq!(observed.tools.len(), 1);
    (connection, events, peer)
}

async fn call(connection: &Connection) -> Result<String, CallError> {
    let call = tool_call("x", json!({}));
    connection.send(&call, Client::default()).await.map(|text| text.get().to_owned())
}

#[tokio::test]
async fn a_message_is_a_frame_and_pings_are_answered() {
    let (connection, mut events, mut peer) = connected().await;
    let script = async {
        let request = peer.expect("tools/call").await;
        peer.0.send(Message::Ping("are you there".into())).await.unwrap();
        assert_eq!(peer.next().await, Message::Pong("are you there".into()));
        peer.answer(&request, ODD).await;
    };
    let (result, ()) = tokio::join!(call(&connection), script);
    assert_eq!(result.unwrap(), ODD);

    // As a server writes that keeps the line breaks of stdio, and one that sends bytes.
    let notice = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    peer.say(format!("{notice}\nhello token-value\n")).await;
    let first = events.recv().await.unwrap();
    let second = events.recv().await.unwrap();
    let skipped = Event::Warning("something that is no MCP message was skipped: hello ${TOKEN}".to_owned());
    assert!([&first, &second].contains(&&skipped), "{first:?} {second:?}");
    assert!([&first, &second].contains(&&Event::ListChanged(Kind::Tools)), "{first:?} {second:?}");
    peer.0.send(Message::binary(notice.replace("tools", "prompts").into_bytes())).await.unwrap();
    assert_eq!(events.recv().await, Some(Event::ListChanged(Kind::Prompts)));

    let close = connection.close(Instant::now() + Duration::from_secs(5));
    let ((), farewell) = tokio::join!(close, peer.next());
    assert!(
        matches!(farewell, Message::Close(Some(CloseFrame { code, .. })) if u16::from(code) == 1000),
        "{farewell:?}"
    );
}

#[tokio::test]
async fn a_call_that_is_given_up_is_cancelled_at_the_server() {
    let (connection, _events, mut peer) = connected().await;
    let cancel = CancellationToken::new();
    let caller = Client { cancel: cancel.clone(), ..Client::default() };
    let slow = tool_call("x", json!({}));
    let script = async {
        let request = peer.expect("tools/call").await;
        cancel.cancel();
        let cancelled = peer.expect("notifications/cancelled").await;
        assert_eq!(cancelled["params"]["requestId"], request["id"]);
    };
    let (result, ()) = tokio::join!(connection.send(&slow, caller), script);
    assert!(matches!(result, Err(CallError::Cancelled { .. })), "{result:?}");
}

#[tokio::test]
async fn a_farewell_and_a_break_are_the_end_with_their_reason() {
    let (connection, mut events, mut peer) = connected().await;
    let script = async {
        peer.expect("tools/call").await;
        let frame = CloseFrame { code: 1012.into(), reason: "new token-value".into() };
        peer.0.send(Message::Close(Some(frame))).await.unwrap();
    };
    let (result, ()) = tokio::join!(call(&connection), script);
    let reason = "the server closed the websocket with code 1012, it restarts: new ${TOKEN}";
    assert!(result.unwrap_err().to_string().ends_with(reason));
    let Some(Event::Closed(closed)) = events.recv().await else { panic!() };
    assert_eq!(closed.reason, reason);

    let (_connection, mut events, peer) = connected().await;
    drop(peer);
    let Some(Event::Closed(closed)) = events.recv().await else { panic!() };
    assert_eq!(closed.reason, "the server ended the connection without closing the websocket");
}

#[tokio::test]
async fn a_message_over_the_limit_fails_its_call_alone_and_one_over_all_limits_ends_the_connection() {
    let (connection, mut events, mut peer) = connected().await;
    let script = async {
        for megabytes in [17, 65] {
            let request = peer.expect("tools/call").await;
            // The client may be gone before all of it is written.
            let long = format!(r#"{{"id":{},"result":"{}"}}"#, request["id"], "x".repeat(megabytes << 20));
            let _gone = peer.0.send(Message::text(long)).await;
        }
    };
    let calls =
        async { [call(&connection).await, call(&connection).await].map(|result| result.unwrap_err().to_string()) };
    let ([first, second], ()) = tokio::join!(calls, script);
    assert_eq!(first, "the answer of server `fake` is longer than 16 MiB, so it was thrown away");
    assert!(matches!(events.recv().await, Some(Event::Warning(text)) if text.contains("was thrown away")));
    assert!(
        second.contains("the server sent a message of") && second.contains("more than 67108864 are not taken"),
        "{second}"
    );
    let Some(Event::Closed(_)) = events.recv().await else { panic!() };
}

#[tokio::test]
async fn why_there_is_no_websocket_is_told_in_plain_words() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let cases = [
        (
            "HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n",
            "it does not accept the header `Authorization` (from `${TOKEN}`)",
        ),
        (
            "HTTP/1.1 404 No\r\ncontent-length: 4\r\n\r\nnope",
            "HTTP 404: nope; it does not switch to a websocket there: see `url` and `transport`",
        ),
        ("HTTP/1.1 200 Yes\r\ncontent-length: 0\r\n\r\n", "it does not switch to a websocket there"),
        (
            "HTTP/1.1 302 No\r\nlocation: https://elsewhere.example/x\r\ncontent-length: 0\r\n\r\n",
            "a redirect to https://elsewhere.example/x, which is not followed",
        ),
        (
            "HTTP/1.1 101 Yes\r\nconnection: upgrade\r\nupgrade: websocket\r\nsec-websocket-accept: guess\r\n\r\n",
            "not to the websocket that was asked for",
        ),
        ("\x15\x03\x01\x00\x02\x02\x28", "its `url` starts with `https://` or `wss://`"),
    ];
    for (text, expected) in cases {
        let (listener, url) = listen().await;
        let serve = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(text.as_bytes()).await.unwrap();
            stream
        };
        let ((outcome, _events), _stream) = tokio::join!(dial(&url), serve);
        let error = outcome.unwrap_err();
        let all = format!("{error} {error:?}");
        assert!(error.to_string().contains(expected), "{error}");
        assert!(!all.contains("token-value") && !all.contains("hunter2"), "{all}");
    }
    let (listener, url) = listen().await;
    let error = dial(&url.replace("ws://", "http://")).await.0.unwrap_err().to_string();
    assert!(error.contains("it must start with ws:// or wss://"), "{error}");
    drop(listener);
    let error = dial(&url).await.0.unwrap_err();
    assert!(matches!(error, ConnectError::Unreachable { .. }), "{error:?}");
}

#[tokio::test]
async fn a_server_that_leaves_over_the_question_for_its_era_is_connected_once_more() {
    let (listener, url) = listen().await;
    let serve = async {
        let mut first = accept(&listener).await;
        first.expect("server/discover").await;
        drop(first);
        let mut second = accept(&listener).await;
        second.shake_hands().await;
        second
    };
    let ((outcome, _events), _peer) = tokio::join!(dial_as(&url, None), serve);
    assert_eq!(outcome.unwrap().1.introduction.protocol_version, "2025-11-25");
}
