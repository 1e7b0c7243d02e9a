//! Server-sent events out of a response's body: bounded, and an event that is too long fails its own request alone.

use std::collections::VecDeque;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _, stream};
use rmcp::RoleClient;
use rmcp::model::JsonRpcMessage;
use rmcp::service::RxJsonRpcMessage;
use sse_stream::{Error, Sse};

use super::line::Scanner;
use super::raw::{self, Stand, Typed};

/// Why a stream of events ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct Broken(String);

/// Events of a response body. In place of one that is longer than `limit` bytes comes an error for the request that it
/// answers, if it answers one.
pub(super) fn events<S, B, E>(body: S, limit: usize) -> BoxStream<'static, Result<Sse, Error>>
where
    S: Stream<Item = Result<B, E>> + Send + 'static,
    B: AsRef<[u8]> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let reading = (body.boxed(), Reader::new(limit));
    stream::unfold(reading, |(mut body, mut reader)| async move {
        loop {
            if let Some(event) = reader.ready.pop_front() {
                return Some((Ok(event), (body, reader)));
            }
            match body.next().await? {
                Ok(chunk) => reader.feed(chunk.as_ref()),
                Err(error) => {
                    let broken = Broken(error.to_string());
                    return Some((Err(Error::Body(Box::new(broken))), (stream::empty().boxed(), reader)));
                }
            }
        }
    })
    .boxed()
}

/// Why a stream of events broke off, in the body's own words.
pub(super) fn why(error: &Error) -> String {
    match error {
        Error::Body(error) => error.to_string(),
        other => other.to_string(),
    }
}

/// Events of a response body with results as quoted text, for a reader that decodes by itself.
pub(super) fn quoted<S, B, E>(body: S, limit: usize, typed: Typed) -> BoxStream<'static, Result<Sse, Error>>
where
    S: Stream<Item = Result<B, E>> + Send + 'static,
    B: AsRef<[u8]> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let quote = move |mut event: Sse| {
        let Some(data) = event.data.take() else { return event };
        // What is no message would end the handshake; an event without data counts for nothing.
        event.data =
            raw::quoted(&data, &typed).or_else(|| raw::message(data.as_bytes(), &typed).is_some().then_some(data));
        event
    };
    events(body, limit).map(move |event| event.map(&quote)).boxed()
}

/// Takes bytes, gives events. Lines end with `\n`, `\r\n` or `\r`; an event with an empty line.
struct Reader {
    limit: usize,
    line: Vec<u8>,
    after_return: bool,
    event: Sse,
    /// Bytes of the event so far, with those of its line.
    size: usize,
    /// Looks for the id of an event that has become too long.
    scanner: Option<Scanner>,
    is_first: bool,
    ready: VecDeque<Sse>,
}

impl Reader {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            line: Vec::new(),
            after_return: false,
            event: Sse::default(),
            size: 0,
            scanner: None,
            is_first: true,
            ready: VecDeque::new(),
        }
    }

    fn feed(&mut self, mut bytes: &[u8]) {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_return) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.take(&bytes[..end.unwrap_or(bytes.len())], end.is_some());
            let Some(end) = end else { return };
            self.after_return = bytes[end] == b'\r';
            self.end_line();
            bytes = &bytes[end + 1..];
        }
    }

    /// A piece of a line.
    fn take(&mut self, piece: &[u8], is_end: bool) {
        self.size += piece.len() + usize::from(is_end && !piece.is_empty());
        if let Some(scanner) = &mut self.scanner {
            // Whether a line is empty has to be known still.
            if self.line.is_empty() {
                self.line.extend_from_slice(&piece[..piece.len().min(1)]);
            }
            return scanner.feed(piece);
        }
        if self.size <= self.limit {
            return self.line.extend_from_slice(piece);
        }
        let mut scanner = Scanner::default();
        scanner.feed(self.event.data.take().unwrap_or_default().as_bytes());
        scanner.feed(&self.line);
        scanner.feed(piece);
        self.line.extend_from_slice(&piece[..piece.len().min(1)]);
        self.line.truncate(1);
        self.line.shrink_to_fit();
        self.scanner = Some(scanner);
    }

    fn end_line(&mut self) {
        let line = std::mem::take(&mut self.line);
        if line.is_empty() {
            return self.end_event();
        }
        if self.scanner.is_some() {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let text = if std::mem::take(&mut self.is_first) { text.trim_start_matches('\u{feff}') } else { &text };
        let (field, value) = text.split_once(':').unwrap_or((text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.event.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                data @ None => *data = Some(value.to_owned()),
            },
            "event" => self.event.event = Some(value.to_owned()),
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry = value.parse().ok().or(self.event.retry),
            // A line that starts with a colon is a comment, and counts for nothing.
            _ => self.size = self.size.saturating_sub(line.len() + 1),
        }
    }

    fn end_event(&mut self) {
        self.size = 0;
        let event = std::mem::take(&mut self.event);
        match self.scanner.take() {
            Some(scanner) => self.ready.extend(too_long(scanner)),
            None if event == Sse::default() => {}
            None => self.ready.push_back(event),
        }
    }
}

/// What stands in for an answer that was thrown away.
fn too_long(scanner: Scanner) -> Option<Sse> {
    let message: RxJsonRpcMessage<RoleClient> =
        JsonRpcMessage::error(Stand::TooLong.error(), Some(scanner.answered()?));
    Some(Sse::default().data(serde_json::to_string(&message).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Error as IoError;

    async fn read<B: AsRef<[u8]> + Send + 'static>(chunks: Vec<B>, limit: usize) -> Vec<Sse> {
        let body = stream::iter(chunks).map(Ok::<_, IoError>);
        events(body, limit).map(|event| event.unwrap()).collect().await
    }

    async fn read_quoted<B: AsRef<[u8]> + Send + 'static>(chunks: Vec<B>) -> Vec<Sse> {
        let body = stream::iter(chunks).map(Ok::<_, IoError>);
        quoted(body, 200, Typed::default()).map(|event| event.unwrap()).collect().await
    }

    fn data(events: &[Sse]) -> Vec<&str> {
        events.iter().map(|event| event.data.as_deref().unwrap_or_default()).collect()
    }

    #[tokio::test]
    async fn results_are_quoted_and_others_not() {
        let notice = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let text =
            format!("data: {notice}\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"n\":1.50}}}}\r\n\r\n");
        let found = read_quoted(text.chars().map(String::from).collect()).await;
        assert_eq!(data(&found), [notice, r#"{"jsonrpc":"2.0","id":1,"result":"{\"n\":1.50}"}"#]);
        let found = read_quoted(vec!["data: Welcome!\n\nid: 7\ndata: {\"level\":\"info\"}\n\n"]).await;
        assert_eq!((data(&found), found[1].id.as_deref()), (vec!["", ""], Some("7")), "noise, whose id counts");
    }

    #[tokio::test]
    async fn every_field_and_every_end_of_a_line() {
        let text = "\u{feff}:hello\nevent: endpoint\ndata: /a\n\nid: 7\rretry: 30\r\rdata\ndata: x\r\ndata:y\r\n\r\n\n\nodd: 1\n\ndata: cut off";
        let expected = [
            Sse::default().event("endpoint").data("/a"),
            Sse::default().id("7").retry(30),
            Sse::default().data("\nx\ny"),
        ];
        for size in [1, 3, 1000] {
            assert_eq!(read(text.as_bytes().chunks(size).collect(), 99).await, expected, "in pieces of {size}");
        }
    }

    #[tokio::test]
    async fn many_events_pass_and_one_too_long_fails_its_request_alone() {
        let many: Vec<_> = (0..100).map(|_| "data: 0123456789\n\n".to_owned()).collect();
        assert_eq!(read(many, 40).await.len(), 100);
        let long = |end: &str| {
            let start = std::iter::once("data: {\"result\":\"".to_owned());
            let middle = (0..10).map(|_| "x".repeat(10));
            start.chain(middle).chain([format!("\",{end}}}\n\ndata: after\n\n")]).collect::<Vec<_>>()
        };
        let found = read(long("\"id\":5"), 40).await;
        assert!(found[0].data.as_ref().unwrap().contains("\"id\":5"), "{found:?}");
        assert!(found[0].data.as_ref().unwrap().contains("mcplan/too-long"), "{found:?}");
        assert_eq!(data(&found[1..]), ["after"]);
        assert_eq!(data(&read(long("\"n\":5"), 40).await), ["after"], "it answers nobody");
    }

    #[tokio::test]
    async fn a_body_that_breaks_off_is_an_error_and_the_end() {
        let body = stream::iter([Ok("data: a\n\n"), Err(IoError::other("reset"))]);
        let found: Vec<_> = events(body, 99).collect().await;
        assert_eq!(found.len(), 2);
        assert!(found[1].as_ref().is_err_and(|error| why(error) == "reset"), "{found:?}");
    }
}
