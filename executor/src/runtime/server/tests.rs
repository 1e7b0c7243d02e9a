//! A whole executor with a real server at the other end of a websocket, and the clock in the test's hands once it is
//! connected.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::{SinkExt as _, StreamExt as _};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::sync::{broadcast, mpsc};
use tokio_tungstenite::tungstenite::Message;

use crate::core::gate::{Asked, gate};
use crate::core::snapshot::Health;
use crate::event::{Event, stream};
use crate::runtime::connection::{Client, Context};
use crate::runtime::executor::Executor;
use crate::runtime::program::tests::program;

const NOTICE: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
/// A step of the clock, of which there are twenty in a second.
const STEP: Duration = Duration::from_millis(50);

/// Serves one connection: says what it is told to before it answers anything, and counts how often its tools are listed.
async fn serve(listener: TcpListener, mut told: mpsc::UnboundedReceiver<&'static str>, lists: Arc<AtomicUsize>) {
    let (stream, _) = listener.accept().await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
    while let Some(Ok(frame)) = socket.next().await {
        let Message::Text(text) = frame else { continue };
        let message: Value = serde_json::from_str(&text).unwrap();
        while let Ok(notice) = told.try_recv() {
            socket.send(Message::text(notice)).await.unwrap();
        }
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" => {
                r#""result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"n","version":"1"}}"#
            }
            "tools/list" => {
                lists.fetch_add(1, Ordering::Relaxed);
                r#""result":{"tools":[{"name":"x","inputSchema":{"type":"object"}}]}"#
            }
            "tools/call" => r#""result":{"content":[]}"#,
            "ping" => r#""result":{}"#,
            _ if message.get("id").is_none() => continue,
            _ => r#""error":{"code":-32601,"message":"no such method"}"#,
        };
        socket.send(Message::text(format!(r#"{{"jsonrpc":"2.0","id":{},{result}}}"#, message["id"]))).await.unwrap();
    }
}

struct Running {
    executor: Executor,
    say: mpsc::UnboundedSender<&'static str>,
    lists: Arc<AtomicUsize>,
    events: broadcast::Receiver<Event>,
}

impl Running {
    fn health(&self) -> Health {
        self.executor.view().snapshot.health.values().next().unwrap().clone()
    }

    /// Lets a step pass, at the end of which all that was said in it has come to the server's task: an answer comes after
    /// it on the same socket.
    async fn step(&self, notice: bool) {
        if notice {
            self.say.send(NOTICE).unwrap();
        }
        let catalog = self.executor.view().snapshot.catalog.clone();
        let call = gate(&catalog, Asked { name: "mcp__restless__x".to_owned(), ..Asked::default() }).unwrap();
        self.executor.call(&call, Client::default()).await.unwrap();
        // From the transport to the connection's task, from there to the server's.
        for _ in 0..16 {
            tokio::task::yield_now().await;
        }
        tokio::time::advance(STEP).await;
    }

    /// Takes steps until the server turns, and says after how many seconds it was and what is told of it.
    async fn turns(&mut self, notices: bool) -> (u64, String) {
        for step in 0..20 * 60 {
            self.step(notices).await;
            loop {
                let event = match self.events.try_recv() {
                    Ok(event) => event,
                    // Every call is an event too.
                    Err(TryRecvError::Lagged(_)) => continue,
                    Err(_) => break,
                };
                let (Event::ServerUnstable { server } | Event::ServerStable { server }) = &event else { continue };
                // Other tests have servers too.
                if server.as_str() == "restless" {
                    return (step / 20, event.name().to_owned());
                }
            }
        }
        panic!("it doesn't turn");
    }
}

#[tokio::test]
async fn a_server_that_announces_too_much_is_told_of_and_slowed_down_until_it_is_calm() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = format!(
        "mcp_servers: [{{ name: restless, transport: websocket, url: 'ws://{}/' }}]",
        listener.local_addr().unwrap()
    );
    let (say, told) = mpsc::unbounded_channel();
    let lists = Arc::<AtomicUsize>::default();
    let serving = tokio::spawn(serve(listener, told, lists.clone()));
    let (executor, _task) = Executor::start(program(&config), Context::new(BTreeMap::new(), "/"));
    executor.settled().await;
    let mut running = Running { executor, say, lists, events: stream::listen() };
    assert_eq!(running.health().state.word(), "ready");
    tokio::time::pause();
    // A paused clock passes by itself while nothing is to be done here, as when an answer is on its way; not while a
    // blocking task runs.
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let holder = tokio::task::spawn_blocking(move || ended.recv());

    let (seconds, event) = running.turns(true).await;
    assert_eq!(event, "server.unstable");
    assert!((29..=31).contains(&seconds), "{seconds} s");
    assert!(running.health().unstable);

    // It is read every ten seconds now.
    let before = running.lists.load(Ordering::Relaxed);
    for _ in 0..20 * 30 {
        running.step(true).await;
    }
    let read = running.lists.load(Ordering::Relaxed) - before;
    assert!((2..=3).contains(&read), "{read} readings in half a minute");
    assert!(running.health().unstable);

    let (seconds, event) = running.turns(false).await;
    assert_eq!(event, "server.stable");
    assert!((29..=31).contains(&seconds), "{seconds} s");
    assert!(!running.health().unstable);

    // What it announces is followed again.
    let before = running.lists.load(Ordering::Relaxed);
    for notice in [true, false, false, false] {
        running.step(notice).await;
    }
    assert_eq!(running.lists.load(Ordering::Relaxed), before + 1);
    drop(end);
    let _over = holder.await;
    serving.abort();
}
