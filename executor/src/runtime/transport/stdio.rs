//! Newline-delimited JSON over a pair of byte streams, as a child process speaks it.
//!
//! Noise between the messages is skipped and reported with its start. Messages leave in the order in which they were
//! given, whoever of the senders gets to the pipe first.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rmcp::RoleClient;
use rmcp::model::JsonRpcMessage;
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::task::coop;
use tokio_util::sync::CancellationToken;

use super::MESSAGE_MAX;
use super::line::{Line, Lines};
use super::raw::{self, Incoming, Read, Stand, Typed};
use super::tap::Odd;

/// Bytes of noise that are shown.
const SHOWN: usize = 200;
/// A pipe's own size on Linux.
const BUFFER: usize = 64 * 1024;
/// How long a server may be silent that has closed its stdin: its last answers may be on their way still.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// Bytes that may wait for a server that doesn't read; a message beyond them is refused.
const WAITING_MAX: usize = 4 * MESSAGE_MAX;

/// A message that was refused because too much waits for the server already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it does not read what it is sent; {} MiB wait for it", WAITING_MAX / (1024 * 1024))]
pub(crate) struct Unread;

/// A transport over `R`, the server's stdout, and `W`, its stdin.
pub(crate) struct Stdio<R, W> {
    lines: Lines<BufReader<R>>,
    arrived: VecDeque<Incoming>,
    mouth: Mouth<W>,
    typed: Typed,
    report: Box<dyn FnMut(Odd) + Send>,
    /// Whether the other end has stopped talking by itself.
    over: bool,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Stdio<R, W> {
    /// `report` gets what is odd about the stream.
    pub(crate) fn new(reader: R, mouth: Mouth<W>, report: Box<dyn FnMut(Odd) + Send>) -> Self {
        Self {
            lines: Lines::new(BufReader::with_capacity(BUFFER, reader), MESSAGE_MAX),
            arrived: VecDeque::new(),
            mouth,
            typed: Typed::default(),
            report,
            over: false,
        }
    }

    /// What a line brings; nothing for noise.
    fn take(&mut self, line: Line) {
        match line {
            Line::Whole(text) => {
                let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
                match raw::read(text, &self.typed) {
                    Read::Messages(messages) => self.arrived.extend(messages),
                    Read::Noise if text.iter().all(u8::is_ascii_whitespace) => {}
                    Read::Noise => (self.report)(Odd::Noise(shown(text))),
                }
            }
            Line::TooLong { bytes, start, id, has_method } => {
                (self.report)(Odd::TooLong { bytes, start: shown(&start) });
                // A request of the server's own has an id of its own.
                let answered = id.filter(|_| !has_method);
                self.arrived.extend(answered.map(|id| JsonRpcMessage::error(Stand::TooLong.error(), Some(id))));
            }
        }
    }
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(SHOWN)]).into_owned()
}

impl<R, W> Transport<RoleClient> for Stdio<R, W>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    type Error = std::io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.typed.note(&message);
        self.mouth.write(serde_json::to_vec(&message).map_err(std::io::Error::other))
    }

    async fn receive(&mut self) -> Option<Incoming> {
        loop {
            if let Some(message) = self.arrived.pop_front() {
                return Some(message);
            }
            let shut_out = async {
                self.mouth.shut_out.cancelled().await;
                tokio::time::sleep(LAST_WORDS).await;
            };
            let line = tokio::select! {
                biased;
                line = self.lines.next() => line,
                // It may talk on, but can't be asked anything.
                () = shut_out => return None,
            };
            let Some(line) = line else {
                self.over = true;
                return None;
            };
            self.take(line);
            // A read brings thousands of lines, and noise without end would leave nobody else a turn.
            coop::consume_budget().await;
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        // A process that is told to go now would be taken for one that went by itself; whoever watches it closes its
        // stdin when that is known.
        if !self.over {
            self.mouth.shut().await;
        }
        Ok(())
    }
}

/// Lines that are still to be written.
#[derive(Debug, Default)]
struct Waiting {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Waiting {
    fn push(&mut self, line: Vec<u8>) -> Result<(), Unread> {
        if self.bytes + line.len() > WAITING_MAX {
            return Err(Unread);
        }
        self.bytes += line.len();
        self.lines.push_back(line);
        Ok(())
    }

    /// The next line, and those after it that fit into one write with it.
    fn pop(&mut self) -> Option<Vec<u8>> {
        let mut lines = self.lines.pop_front()?;
        while let Some(next) = self.lines.pop_front_if(|next| lines.len() + next.len() <= BUFFER) {
            lines.extend_from_slice(&next);
        }
        self.bytes -= lines.len();
        Some(lines)
    }
}

/// The way to a server's stdin. Lines leave in the order of the calls to [`Mouth::write`].
pub(crate) struct Mouth<W> {
    waiting: Arc<Mutex<Waiting>>,
    pipe: Arc<tokio::sync::Mutex<Option<W>>>,
    closing: CancellationToken,
    /// Cancelled when the other end has closed it.
    shut_out: CancellationToken,
}

impl<W> Clone for Mouth<W> {
    fn clone(&self) -> Self {
        let Self { waiting, pipe, closing, shut_out } = self;
        let (waiting, pipe) = (waiting.clone(), pipe.clone());
        Self { waiting, pipe, closing: closing.clone(), shut_out: shut_out.clone() }
    }
}

impl<W: AsyncWrite + Unpin> Mouth<W> {
    pub(crate) fn new(writer: W) -> Self {
        let pipe = Arc::new(tokio::sync::Mutex::new(Some(writer)));
        Self { waiting: Arc::default(), pipe, closing: CancellationToken::new(), shut_out: CancellationToken::new() }
    }

    /// Cancelled when the other end has closed it, so that nothing can be said any more.
    pub(crate) fn shut_out(&self) -> CancellationToken {
        self.shut_out.clone()
    }

    /// Ends all writing and lets go of the stream, also of one that nobody reads.
    pub(crate) async fn shut(&self) {
        self.closing.cancel();
        // Whoever was writing lets go now.
        self.pipe.lock().await.take();
    }

    /// Queues a line at once; the future writes whatever is queued, so one's line may be written by another.
    fn write(&self, line: std::io::Result<Vec<u8>>) -> impl Future<Output = std::io::Result<()>> + use<W> {
        let queued = line.and_then(|mut line| {
            line.push(b'\n');
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(line).map_err(std::io::Error::other)
        });
        let (waiting, pipe, closing) = (self.waiting.clone(), self.pipe.clone(), self.closing.clone());
        let shut_out = self.shut_out.clone();
        async move {
            queued?;
            let mut pipe = pipe.lock().await;
            tokio::select! {
                biased;
                () = closing.cancelled() => {
                    // A line may be half out, so nothing more may follow it.
                    pipe.take();
                    Err(std::io::ErrorKind::BrokenPipe.into())
                }
                written = drain(&waiting, &mut pipe) => {
                    if written.is_err() {
                        pipe.take();
                        shut_out.cancel();
                    }
                    written
                }
            }
        }
    }
}

async fn drain<W: AsyncWrite + Unpin>(waiting: &Mutex<Waiting>, pipe: &mut Option<W>) -> std::io::Result<()> {
    let Some(writer) = pipe else { return Err(std::io::ErrorKind::BrokenPipe.into()) };
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(lines) = next else { return writer.flush().await };
        writer.write_all(&lines).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rmcp::model::{ClientRequest, CustomRequest, RequestId};
    use tokio::io::{AsyncBufReadExt as _, DuplexStream, duplex};

    fn request(id: i64) -> TxJsonRpcMessage<RoleClient> {
        let request = ClientRequest::CustomRequest(CustomRequest::new("tools/call", None));
        JsonRpcMessage::request(request, RequestId::Number(id))
    }

    fn stdio(buffer: usize) -> (Stdio<DuplexStream, DuplexStream>, DuplexStream, Arc<Mutex<Vec<Odd>>>) {
        let (ours, theirs) = duplex(buffer);
        let (_, silent) = duplex(1);
        let odd = Arc::new(Mutex::new(Vec::new()));
        let seen = odd.clone();
        let report = Box::new(move |odd| seen.lock().unwrap().push(odd));
        (Stdio::new(silent, Mouth::new(ours), report), theirs, odd)
    }

    #[tokio::test]
    async fn lines_leave_in_order_whoever_is_polled_first() {
        let (mut stdio, theirs, _) = stdio(16);
        let mut sends = Vec::new();
        for id in 0..20 {
            sends.push(stdio.send(request(id)));
        }
        let mut lines = BufReader::new(theirs).lines();
        let read = async {
            for id in 0..20 {
                let line = lines.next_line().await.unwrap().unwrap();
                assert!(line.contains(&format!("\"id\":{id},")), "{line}");
            }
        };
        let (_, sent) = tokio::join!(read, futures::future::join_all(sends.into_iter().rev()));
        assert!(sent.into_iter().all(|sent| sent.is_ok()));
    }

    #[tokio::test]
    async fn what_waits_for_a_server_that_does_not_read_is_bounded() {
        let (mut stdio, theirs, _) = stdio(1 << 20);
        let big = |id| {
            let params = serde_json::json!({ "arguments": "x".repeat(MESSAGE_MAX / 2) });
            let request = ClientRequest::CustomRequest(CustomRequest::new("tools/call", Some(params)));
            JsonRpcMessage::request(request, RequestId::Number(id))
        };
        let mut sends = Vec::new();
        for id in 0..9 {
            sends.push(stdio.send(big(id)));
        }
        let read = async {
            let mut lines = BufReader::new(theirs).lines();
            // Seven and the ends of their lines fit; each of them arrives whole.
            for id in 0..7 {
                let line = lines.next_line().await.unwrap().unwrap();
                assert!(line.len() > MESSAGE_MAX / 2 && line.contains(&format!("\"id\":{id},")));
            }
            lines
        };
        let (mut lines, sent) = tokio::join!(read, futures::future::join_all(sends));
        let refused: Vec<_> = sent.iter().map(|sent| sent.as_ref().err().map(ToString::to_string)).collect();
        assert_eq!(refused[..7], vec![None; 7]);
        assert_eq!(refused[8].as_deref(), Some("it does not read what it is sent; 64 MiB wait for it"));
        // Once it reads there is room again.
        let (line, sent) = tokio::join!(lines.next_line(), stdio.send(request(9)));
        sent.unwrap();
        assert!(line.unwrap().unwrap().contains("\"id\":9,"));
    }

    #[tokio::test]
    async fn closing_frees_a_write_that_nobody_reads() {
        let (mut stdio, theirs, _) = stdio(4);
        let stuck = tokio::spawn(stdio.send(request(1)));
        tokio::task::yield_now().await;
        stdio.close().await.unwrap();
        assert!(stuck.await.unwrap().is_err());
        assert!(stdio.send(request(2)).await.is_err());
        drop(theirs);
    }

    #[tokio::test]
    async fn noise_is_reported_and_skipped() {
        let (reader, mut server) = duplex(1 << 16);
        let odd = Arc::new(Mutex::new(Vec::new()));
        let seen = odd.clone();
        let report = Box::new(move |odd| seen.lock().unwrap().push(odd));
        let mut stdio = Stdio::new(reader, Mouth::new(tokio::io::sink()), report);
        server.write_all(b"Server v1 ready\n\n  \n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n").await.unwrap();
        drop(server);
        assert!(matches!(stdio.receive().await, Some(JsonRpcMessage::Response(_))));
        assert!(stdio.receive().await.is_none());
        assert_eq!(*odd.lock().unwrap(), [Odd::Noise("Server v1 ready".to_owned())]);
    }

    #[tokio::test]
    async fn an_answer_too_long_fails_its_request() {
        let (reader, mut server) = duplex(1 << 20);
        let (sent, mut odd) = tokio::sync::mpsc::unbounded_channel();
        let report = Box::new(move |odd| sent.send(odd).unwrap());
        let mut stdio = Stdio::new(reader, Mouth::new(tokio::io::sink()), report);
        let write = async move {
            server.write_all(b"{\"result\":{\"t\":\"").await.unwrap();
            let chunk = vec![b'x'; 1 << 20];
            for _ in 0..17 {
                server.write_all(&chunk).await.unwrap();
            }
            server.write_all(b"\"},\"jsonrpc\":\"2.0\",\"id\":3}\n").await.unwrap();
            server
        };
        let (message, _server) = tokio::join!(stdio.receive(), write);
        let Some(JsonRpcMessage::Error(error)) = message else { panic!("{message:?}") };
        assert_eq!(error.id, Some(RequestId::Number(3)));
        assert_eq!(Stand::of(&error.error), Some(Stand::TooLong));
        assert!(matches!(odd.recv().await, Some(Odd::TooLong { bytes, .. }) if bytes > 17 << 20));
    }
}
