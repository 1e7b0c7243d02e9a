//! A websocket: one JSON text frame a message. No revision of the protocol names it, so it is the stream of stdio in
//! frames, with the subprotocol `mcp` offered.
//!
//! The upgrade is a request like every other to a remote server, so headers, certificates, proxies and refusals are the
//! same. Pings of the server are answered by the websocket implementation itself.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{SplitSink, SplitStream};
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::{Method, Response, Upgraded, Url};
use rmcp::RoleClient;
use rmcp::model::JsonRpcMessage;
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use tokio::sync::Mutex;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::error::{CapacityError, ProtocolError};
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_util::sync::CancellationToken;

use super::MESSAGE_MAX;
use super::line::Scanner;
use super::raw::{self, Incoming, Read, Stand, Typed};
use super::remote::{HttpError, Requests, Watch, one_line, status_of};
use super::tap::Odd;

/// Bytes of noise that are shown.
const SHOWN: usize = 200;
/// How long our farewell may take.
const FAREWELL: Duration = Duration::from_secs(1);
/// Longest message that is read at all. One that is longer than is taken fails its request alone, and one over this can't
/// be skipped: it ends the connection.
const READ_MAX: usize = 4 * MESSAGE_MAX;
const UNCLOSED: &str = "the server ended the connection without closing the websocket";
const SUBPROTOCOL: HeaderValue = HeaderValue::from_static("mcp");

type Socket = WebSocketStream<Upgraded>;
type Outgoing = Arc<Mutex<SplitSink<Socket, Message>>>;

/// A transport whose websocket is open.
pub(crate) struct Websocket {
    frames: SplitStream<Socket>,
    outgoing: Outgoing,
    arrived: VecDeque<Incoming>,
    typed: Typed,
    watch: Arc<Watch>,
    report: Box<dyn FnMut(Odd) + Send>,
    closing: CancellationToken,
}

impl Websocket {
    /// Opens it. `requests` must speak HTTP/1.1, `report` gets what is odd about the frames.
    ///
    /// # Errors
    /// When the server doesn't switch to a websocket.
    pub(crate) async fn open(
        requests: &Requests,
        url: &Url,
        watch: Arc<Watch>,
        report: Box<dyn FnMut(Odd) + Send>,
    ) -> Result<Self, HttpError> {
        let mut http = url.clone();
        let scheme = if url.scheme() == "wss" { "https" } else { "http" };
        http.set_scheme(scheme).map_err(|()| HttpError::Broken("the url has no scheme of a websocket".to_owned()))?;
        let key = generate_key();
        let response = requests.send(Method::GET, &http, upgrade(&key)?, None).await?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return Err(status_of(response).await);
        }
        check(&response, &key)?;
        let socket = response.upgrade().await.map_err(HttpError::of)?;
        let config = WebSocketConfig::default().max_message_size(Some(READ_MAX)).max_frame_size(Some(READ_MAX));
        let socket = WebSocketStream::from_raw_socket(socket, Role::Client, Some(config)).await;
        let (outgoing, frames) = socket.split();
        Ok(Self {
            frames,
            outgoing: Arc::new(Mutex::new(outgoing)),
            arrived: VecDeque::new(),
            typed: Typed::default(),
            watch,
            report,
            closing: CancellationToken::new(),
        })
    }

    /// What a frame brings; the reason when it is the last one.
    fn take(&mut self, frame: Message) -> Result<(), String> {
        match frame {
            Message::Text(text) => self.read(text.as_bytes()),
            Message::Binary(bytes) => self.read(&bytes),
            Message::Close(frame) => return Err(farewell(frame.as_ref())),
            Message::Ping(_) | Message::Pong(_) | Message::Frame(_) => {}
        }
        Ok(())
    }

    /// Throws away what is too long; an answer fails its request.
    fn skip(&mut self, text: &[u8]) {
        let start = String::from_utf8_lossy(&text[..SHOWN]).into_owned();
        (self.report)(Odd::TooLong { bytes: text.len() as u64, start });
        let mut scanner = Scanner::default();
        scanner.feed(text);
        let answered = scanner.answered();
        self.arrived.extend(answered.map(|id| JsonRpcMessage::error(Stand::TooLong.error(), Some(id))));
    }

    /// Some servers keep the line breaks of stdio, and may send several messages at once.
    fn read(&mut self, text: &[u8]) {
        if text.len() > MESSAGE_MAX {
            return self.skip(text);
        }
        if let Read::Messages(messages) = raw::read(text.trim_ascii(), &self.typed) {
            return self.arrived.extend(messages);
        }
        for line in text.split(|byte| *byte == b'\n') {
            match raw::read(line.trim_ascii(), &self.typed) {
                Read::Messages(messages) => self.arrived.extend(messages),
                Read::Noise if line.trim_ascii().is_empty() => {}
                Read::Noise => {
                    let start = String::from_utf8_lossy(&line[..line.len().min(SHOWN)]).into_owned();
                    (self.report)(Odd::Noise(start));
                }
            }
        }
    }
}

/// The headers that ask for a websocket.
fn upgrade(key: &str) -> Result<HeaderMap, HttpError> {
    let key = HeaderValue::from_str(key).map_err(|error| HttpError::Broken(error.to_string()))?;
    Ok(HeaderMap::from_iter([
        (header::CONNECTION, HeaderValue::from_static("Upgrade")),
        (header::UPGRADE, HeaderValue::from_static("websocket")),
        (header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13")),
        (header::SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL),
        (header::SEC_WEBSOCKET_KEY, key),
    ]))
}

/// Whether the answer to the upgrade is one.
fn check(response: &Response, key: &str) -> Result<(), HttpError> {
    let value = |name: HeaderName| response.headers().get(name).and_then(|value| value.to_str().ok());
    let is_websocket = value(header::UPGRADE).is_some_and(|to| to.eq_ignore_ascii_case("websocket"));
    let is_ours = value(header::SEC_WEBSOCKET_ACCEPT) == Some(&derive_accept_key(key.as_bytes()));
    if !is_websocket || !is_ours {
        return Err(HttpError::NotMcp("it switched protocols, and not to the websocket that was asked for".to_owned()));
    }
    match value(header::SEC_WEBSOCKET_PROTOCOL) {
        None | Some("mcp") => Ok(()),
        Some(other) => {
            let other = one_line(other);
            Err(HttpError::NotMcp(format!("it chose the subprotocol `{other}`, and only `mcp` was offered")))
        }
    }
}

/// Why the server closes.
fn farewell(frame: Option<&CloseFrame>) -> String {
    let Some(frame) = frame else { return "the server closed the websocket".to_owned() };
    let meaning = match frame.code {
        CloseCode::Normal => ", it is done",
        CloseCode::Away => ", it is going away",
        CloseCode::Protocol => ", a protocol error",
        CloseCode::Unsupported | CloseCode::Invalid => ", it can't read what it got",
        CloseCode::Policy => ", against its policy",
        CloseCode::Size => ", a message was too long for it",
        CloseCode::Error => ", an error of its own",
        CloseCode::Restart => ", it restarts",
        CloseCode::Again => ", it is too busy",
        _ => "",
    };
    let reason = one_line(&frame.reason);
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    format!("the server closed the websocket with code {}{meaning}{reason}", u16::from(frame.code))
}

/// Why the websocket broke, in words.
fn broken(error: &Error) -> String {
    match error {
        Error::Capacity(CapacityError::MessageTooLong { size, max_size }) => {
            format!("the server sent a message of {size} bytes, and more than {max_size} are not taken")
        }
        Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) | Error::ConnectionClosed => UNCLOSED.to_owned(),
        // The same, when something of ours was on its way.
        Error::Io(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
            UNCLOSED.to_owned()
        }
        Error::Utf8(_) => "the server sent a text that is no UTF-8".to_owned(),
        other => format!("the websocket broke: {other}"),
    }
}

impl Transport<RoleClient> for Websocket {
    type Error = HttpError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), HttpError>> + Send + 'static {
        self.typed.note(&message);
        let text = serde_json::to_string(&message).map_err(|error| HttpError::Broken(error.to_string()));
        let (outgoing, closing, watch) = (self.outgoing.clone(), self.closing.clone(), self.watch.clone());
        async move {
            let frame = Message::text(text?);
            let sent = async { outgoing.lock().await.send(frame).await };
            tokio::select! {
                biased;
                () = closing.cancelled() => Err(HttpError::Broken("the connection is closed".to_owned())),
                sent = sent => sent.map_err(|error| {
                    let error = HttpError::Unreachable(broken(&error));
                    watch.fail(&error);
                    error
                }),
            }
        }
    }

    async fn receive(&mut self) -> Option<Incoming> {
        loop {
            if let Some(message) = self.arrived.pop_front() {
                return Some(message);
            }
            let taken = match self.frames.next().await {
                Some(Ok(frame)) => self.take(frame),
                Some(Err(error)) => Err(broken(&error)),
                None => Err("the server closed the websocket".to_owned()),
            };
            if let Err(reason) = taken {
                self.watch.end(reason);
                return None;
            }
        }
    }

    async fn close(&mut self) -> Result<(), HttpError> {
        // Whoever was sending lets go now.
        self.closing.cancel();
        let bye = CloseFrame { code: CloseCode::Normal, reason: "".into() };
        let farewell = async {
            let mut outgoing = self.outgoing.lock().await;
            let _gone = outgoing.send(Message::Close(Some(bye))).await;
            let _gone = outgoing.close().await;
        };
        let _late = tokio::time::timeout(FAREWELL, farewell).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_without_a_farewell_is_one_whatever_was_on_its_way() {
        for error in [
            Error::ConnectionClosed,
            Error::Protocol(ProtocolError::ResetWithoutClosingHandshake),
            Error::Io(ErrorKind::ConnectionReset.into()),
            Error::Io(ErrorKind::BrokenPipe.into()),
        ] {
            assert_eq!(broken(&error), UNCLOSED);
        }
        assert!(broken(&Error::Io(ErrorKind::TimedOut.into())).starts_with("the websocket broke: "));
    }

    #[test]
    fn a_farewell_has_its_code_and_reason() {
        let frame = |code: u16, reason: &str| CloseFrame { code: code.into(), reason: reason.into() };
        for (frame, expected) in [
            (Some(frame(1012, "")), "the server closed the websocket with code 1012, it restarts"),
            (
                Some(frame(1011, "out of\nflour")),
                "the server closed the websocket with code 1011, an error of its own: out of flour",
            ),
            (Some(frame(4401, "who are you")), "the server closed the websocket with code 4401: who are you"),
            (None, "the server closed the websocket"),
        ] {
            assert_eq!(farewell(frame.as_ref()), expected);
        }
    }
}
