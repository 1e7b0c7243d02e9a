//! One client's side of an MCP server of ours: lines in, and each line that comes out brought to whoever waits for it.
//!
//! Over stdio all lines go one way. Over HTTP each request has an answer of its own, with what belongs to it before, and
//! what belongs to none goes to the stream that the client holds open.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::core::caller::Caller;
use crate::core::session::DisclosureSetting;
use crate::runtime::executor::Executor;
use crate::runtime::transport::line::{Line, Lines};
use crate::serve::mcp;

/// Bytes on their way to and from the server of a session.
const BUFFER: usize = 256 * 1024;
/// Notices that may wait for a slow client; more are left out.
const NOTICES_WAITING: usize = 256;

/// The parts of a message that decide where it belongs.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    /// As it is written, `null` too.
    #[serde(default, borrow, deserialize_with = "written")]
    pub(super) id: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) method: Option<String>,
    #[serde(default, borrow)]
    pub(super) params: Option<&'a RawValue>,
}

fn written<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

/// What is read of the parameters.
#[derive(Default, Deserialize)]
pub(super) struct Params {
    /// The tool, the prompt.
    #[serde(default)]
    pub(super) name: Option<String>,
    /// The resource.
    #[serde(default)]
    pub(super) uri: Option<String>,
    #[serde(default, rename = "_meta")]
    pub(super) meta: Option<Meta>,
    #[serde(default)]
    pub(super) capabilities: Option<serde_json::Map<String, serde_json::Value>>,
    #[serde(default, rename = "progressToken")]
    progress_token: Option<serde_json::Value>,
    /// Of the request that is taken back.
    #[serde(default, rename = "requestId")]
    pub(super) request_id: Option<serde_json::Value>,
}

#[derive(Default, Deserialize)]
pub(super) struct Meta {
    #[serde(default, rename = "progressToken")]
    pub(super) progress_token: Option<serde_json::Value>,
    #[serde(default, rename = "io.modelcontextprotocol/protocolVersion")]
    pub(super) revision: Option<String>,
}

/// A request's id as we write it in its answer. The protocol knows texts and whole numbers.
pub(super) fn id_of(written: &str) -> Option<String> {
    match serde_json::from_str(written).ok()? {
        serde_json::Value::String(text) => serde_json::to_string(&text).ok(),
        serde_json::Value::Number(number) => number.as_i64().map(|number| number.to_string()),
        _ => None,
    }
}

impl Params {
    pub(super) fn of(envelope: &Envelope<'_>) -> Self {
        envelope.params.and_then(|params| serde_json::from_str(params.get()).ok()).unwrap_or_default()
    }
}

/// Whoever waits for the answer to a request, or did: a call goes on though its client went away.
#[derive(Debug)]
struct Waiting {
    /// `None` says that there will be no answer.
    answer: oneshot::Sender<Option<Vec<u8>>>,
    notices: mpsc::Sender<Vec<u8>>,
    progress_token: Option<serde_json::Value>,
}

/// Who waits for what.
#[derive(Debug, Default)]
struct Routes {
    /// By the text of the request's id, until it is answered or taken back.
    waiting: HashMap<String, Waiting>,
    stream: Option<mpsc::Sender<Vec<u8>>>,
}

impl Routes {
    /// Those who hear what comes before their answer.
    fn hearing(&self) -> impl Iterator<Item = &Waiting> {
        self.waiting.values().filter(|waiting| !waiting.notices.is_closed())
    }
}

/// An answer to come; `None` when the client has taken its request back.
#[derive(Debug)]
pub(super) struct Awaited {
    pub(super) answer: oneshot::Receiver<Option<Vec<u8>>>,
    pub(super) notices: mpsc::Receiver<Vec<u8>>,
}

/// Why a request isn't asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unasked {
    /// The server has ended.
    Ended,
    /// Another one with its id is in flight.
    InUse,
}

/// A request that is taken back when whoever waits for its answer goes away.
#[derive(Debug)]
pub(super) struct Alone {
    pub(super) server: Arc<Server>,
    id: String,
}

impl Alone {
    pub(super) fn new(server: Server, id: &str) -> Self {
        Self { server: Arc::new(server), id: id.to_owned() }
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        let cancel =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{}}}}}"#, self.id);
        let server = self.server.clone();
        // One that was answered knows nothing of it any more. The server ends after it.
        tokio::spawn(async move { server.say(cancel.as_bytes()).await });
    }
}

fn locked(routes: &Mutex<Routes>) -> MutexGuard<'_, Routes> {
    routes.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A running MCP server of ours for one client; it ends with this, and when a new plan no longer has the client's agent.
#[derive(Debug)]
pub(super) struct Server {
    lines: mpsc::Sender<Vec<u8>>,
    routes: Arc<Mutex<Routes>>,
    /// Cancelled when the server has ended.
    pub(super) ended: CancellationToken,
    stop: CancellationToken,
}

impl Server {
    pub(super) fn start(
        executor: Executor,
        disclosure: DisclosureSetting,
        caller: Caller,
        stop: &CancellationToken,
    ) -> Self {
        let (server, theirs) = Self::facing(BUFFER, stop);
        let (end, stop) = (server.ended.clone().drop_guard(), server.stop.clone());
        tokio::spawn(async move {
            let (mut views, asks) = (executor.views(), caller.clone());
            let streams = tokio::io::split(theirs);
            let mut served = std::pin::pin!(mcp::serve(executor, disclosure, caller, streams, stop.clone()));
            let dismissed = async {
                if views.wait_for(|view| asks.check(&view.snapshot.plan).is_err()).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            let ended = tokio::select! {
                ended = &mut served => ended,
                () = dismissed => {
                    stop.cancel();
                    served.await
                }
            };
            if let Err(error) = ended {
                tracing::debug!("a session over HTTP ended: {error}");
            }
            drop(end);
        });
        server
    }

    /// Our side, and the stream that whoever answers is given.
    pub(super) fn facing(buffer: usize, stop: &CancellationToken) -> (Self, DuplexStream) {
        let (ours, theirs) = tokio::io::duplex(buffer);
        let (reader, writer) = tokio::io::split(ours);
        let (lines, said) = mpsc::channel(1);
        let routes = Arc::<Mutex<Routes>>::default();
        tokio::spawn(hand_over(said, writer));
        tokio::spawn(bring(reader, routes.clone()));
        (Self { lines, routes, ended: CancellationToken::new(), stop: stop.child_token() }, theirs)
    }

    /// Ends it, whoever still holds it.
    pub(super) fn end(&self) {
        self.stop.cancel();
    }

    /// The client has taken a request back, so it has no answer.
    pub(super) fn forget(&self, id: &str) {
        if let Some(waiting) = locked(&self.routes).waiting.remove(id) {
            // Whoever asked may have gone.
            let _gone = waiting.answer.send(None);
        }
    }

    /// Hands a message over. False when the server has ended.
    pub(super) async fn say(&self, message: &[u8]) -> bool {
        self.lines.send(one_line(message)).await.is_ok()
    }

    /// Hands the request `id` over and waits for its answer. Whoever goes away before it is handed over has asked nothing.
    pub(super) async fn ask(
        &self,
        id: &str,
        progress_token: Option<serde_json::Value>,
        message: &[u8],
    ) -> Result<Awaited, Unasked> {
        let place = self.lines.reserve().await.map_err(|_| Unasked::Ended)?;
        let (answer, answered) = oneshot::channel();
        let (notices, noticed) = mpsc::channel(NOTICES_WAITING);
        match locked(&self.routes).waiting.entry(id.to_owned()) {
            Entry::Occupied(_) => return Err(Unasked::InUse),
            Entry::Vacant(free) => free.insert(Waiting { answer, notices, progress_token }),
        };
        place.send(one_line(message));
        Ok(Awaited { answer: answered, notices: noticed })
    }

    /// The stream of what belongs to no request; one that was held before ends.
    pub(super) fn stream(&self) -> mpsc::Receiver<Vec<u8>> {
        let (sender, receiver) = mpsc::channel(NOTICES_WAITING);
        locked(&self.routes).stream = Some(sender);
        receiver
    }

    /// Whether a request waits or a stream is held.
    pub(super) fn is_busy(&self) -> bool {
        let routes = locked(&self.routes);
        !routes.waiting.is_empty() || routes.stream.as_ref().is_some_and(|stream| !stream.is_closed())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// A message as a line: line ends in it stand between tokens, where blanks mean the same.
fn one_line(message: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(message.len() + 1);
    line.extend(message.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    line.push(b'\n');
    line
}

/// Hands lines over, each to its end: a client that goes away meanwhile leaves no half of one.
async fn hand_over(mut said: mpsc::Receiver<Vec<u8>>, mut writer: WriteHalf<DuplexStream>) {
    while let Some(line) = said.recv().await {
        if writer.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// The id of a result, by how we write one: a large result isn't read for it.
fn answered(line: &[u8]) -> Option<&str> {
    let rest = line.strip_prefix(br#"{"jsonrpc":"2.0","id":"#)?;
    let mut ids = serde_json::Deserializer::from_slice(rest).into_iter::<&RawValue>();
    let id = ids.next()?.ok()?.get();
    rest[id.len()..].starts_with(br#","result":"#).then_some(id)
}

/// Brings each line to whoever waits for it.
async fn bring(reader: ReadHalf<DuplexStream>, routes: Arc<Mutex<Routes>>) {
    // What comes is ours, and answers are bounded where they come from.
    let mut lines = Lines::new(tokio::io::BufReader::with_capacity(BUFFER, reader), usize::MAX);
    while let Some(Line::Whole(line)) = lines.next().await {
        if let Some(id) = answered(&line) {
            let waiting = locked(&routes).waiting.remove(id);
            // Whoever asked may have gone.
            let _gone = waiting.map(|waiting| waiting.answer.send(Some(line)));
            continue;
        }
        let Ok(envelope) = serde_json::from_slice::<Envelope<'_>>(&line) else { continue };
        let id = envelope.id.map(|id| id.get().to_owned());
        let mut routes = locked(&routes);
        match (envelope.method.as_deref(), id) {
            (None, Some(id)) => {
                if let Some(waiting) = routes.waiting.remove(&id) {
                    // Whoever asked may have gone.
                    let _gone = waiting.answer.send(Some(line));
                }
            }
            (Some("notifications/progress"), None) => {
                let token = Params::of(&envelope).progress_token;
                let of = routes.hearing().find(|waiting| waiting.progress_token == token);
                let _full = of.map(|waiting| waiting.notices.try_send(line));
            }
            (Some(_), id) => {
                // A question belongs to a call: to the only one, or to one of them for want of a stream.
                let any = || routes.hearing().next().filter(|_| id.is_some());
                let only = any().filter(|_| routes.hearing().nth(1).is_none());
                let stream = routes.stream.as_ref().filter(|stream| !stream.is_closed());
                let to =
                    only.map(|waiting| &waiting.notices).or(stream).or_else(|| any().map(|waiting| &waiting.notices));
                let _full = to.map(|to| to.try_send(line));
            }
            (None, None) => {}
        }
    }
    // Nobody will be answered any more.
    *locked(&routes) = Routes::default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_beginning() {
        assert_eq!(answered(br#"{"jsonrpc":"2.0","id":7,"result":{}}"#), Some("7"));
        assert_eq!(answered(br#"{"jsonrpc":"2.0","id":"a,\"b","result":{"id":3}}"#), Some(r#""a,\"b""#));
        for other in [
            r#"{"jsonrpc":"2.0","id":7,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"x","params":{}}"#,
            r#"{"jsonrpc":"2.0","id":"#,
        ] {
            assert_eq!(answered(other.as_bytes()), None, "{other}");
        }
    }

    #[tokio::test]
    async fn whoever_goes_away_while_a_message_is_handed_over_leaves_no_half_of_it() {
        use futures::FutureExt as _;
        let (server, theirs) = Server::facing(4, &CancellationToken::new());
        let mut lines = Lines::new(tokio::io::BufReader::new(theirs), usize::MAX);
        // The first is being handed over, the second waits its turn, the third goes away before it has one.
        let asked = server.ask("1", None, br#"{"id":1,"long":true}"#).await;
        assert!(asked.is_ok());
        while server.lines.capacity() == 0 {
            tokio::task::yield_now().await;
        }
        drop(asked);
        assert!(server.say(br#"{"id":2}"#).await);
        assert!(server.ask("3", None, br#"{"id":3}"#).now_or_never().is_none());
        let mut next = async || match lines.next().await {
            Some(Line::Whole(line)) => String::from_utf8(line.to_vec()).unwrap(),
            _ => panic!("no line"),
        };
        assert_eq!(next().await, r#"{"id":1,"long":true}"#);
        assert_eq!(next().await, r#"{"id":2}"#);
        let again = server.ask("3", None, br#"{"again":3}"#).await;
        assert_eq!(next().await, r#"{"again":3}"#);
        assert!(again.is_ok(), "its id was never taken");
        assert_eq!(server.ask("1", None, b"{}").await.err(), Some(Unasked::InUse), "it goes on without its client");
    }

    #[test]
    fn an_id_is_a_text_or_a_whole_number() {
        for (written, id) in [
            ("7", Some("7")),
            ("-1", Some("-1")),
            (r#""\u0061\/""#, Some(r#""a/""#)),
            ("1.5", None),
            ("null", None),
            ("{}", None),
            ("true", None),
        ] {
            assert_eq!(id_of(written).as_deref(), id, "{written}");
        }
    }

    #[test]
    fn a_message_on_several_lines_stands_on_one() {
        assert_eq!(one_line(b"{\r\n\t\"a\": 1\n}"), b"{  \t\"a\": 1 }\n");
    }
}
