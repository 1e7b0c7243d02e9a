//! Bounds what one server-sent event may hold before a parser sees it, and quotes the results in events.

use std::io::Cursor;

use futures::stream::BoxStream;
use futures::{Stream, StreamExt as _};
use sse_stream::{Error, Sse, SseStream};

use super::raw::{self, Typed};

/// Why a stream of events ended early.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum Broken {
    #[error("a server-sent event is longer than {0} bytes")]
    TooLong(usize),
    #[error("{0}")]
    Body(String),
}

/// Events of a response body; none may be longer than `limit` bytes, and results in them are quoted.
pub(super) fn events<S, B, E>(body: S, limit: usize, typed: Typed) -> BoxStream<'static, Result<Sse, Error>>
where
    S: Stream<Item = Result<B, E>> + Send + 'static,
    B: AsRef<[u8]> + Send + 'static,
    E: std::error::Error + Send + Sync + 'static,
{
    let mut bound = Bound { limit, event: 0, after_newline: true, failed: false };
    let bounded = body.map(move |chunk| match chunk {
        Ok(chunk) if bound.holds(chunk.as_ref()) => Ok(Cursor::new(chunk)),
        Ok(_) => Err(Broken::TooLong(limit)),
        Err(error) => Err(Broken::Body(error.to_string())),
    });
    SseStream::from_bytes_stream(bounded)
        .map(move |event| {
            event.map(|mut event| {
                if let Some(quoted) = event.data.as_deref().and_then(|data| raw::quoted(data, &typed)) {
                    event.data = Some(quoted);
                }
                event
            })
        })
        .boxed()
}

/// Counts the bytes since the last blank line.
struct Bound {
    limit: usize,
    event: usize,
    after_newline: bool,
    failed: bool,
}

impl Bound {
    fn holds(&mut self, chunk: &[u8]) -> bool {
        for &byte in chunk {
            match byte {
                // A carriage return is part of a newline here, so that both `\n\n` and `\r\n\r\n` end an event.
                b'\r' => {}
                b'\n' if self.after_newline => self.event = 0,
                b'\n' => self.after_newline = true,
                _ => self.after_newline = false,
            }
            self.event += 1;
            self.failed |= self.event > self.limit;
        }
        !self.failed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::stream;
    use std::io::Error as IoError;

    async fn data(chunks: Vec<String>, limit: usize) -> Vec<Result<String, String>> {
        let body = stream::iter(chunks.into_iter().map(Ok::<_, IoError>));
        events(body, limit, Typed::default())
            .map(|event| event.map(|event| event.data.unwrap_or_default()).map_err(|error| error.to_string()))
            .collect()
            .await
    }

    #[tokio::test]
    async fn results_are_quoted_and_others_not() {
        let notice = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
        let text =
            format!("data: {notice}\n\ndata: {{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{{\"n\":1.50}}}}\r\n\r\n");
        let chunks = text.chars().map(String::from).collect();
        let found = data(chunks, 200).await;
        assert_eq!(found[0], Ok(notice.to_owned()));
        assert_eq!(found[1], Ok(r#"{"jsonrpc":"2.0","id":1,"result":"{\"n\":1.50}"}"#.to_owned()));
    }

    #[tokio::test]
    async fn many_events_pass_and_one_too_long_does_not() {
        let many: Vec<_> = (0..100).map(|_| "data: 0123456789\n\n".to_owned()).collect();
        assert_eq!(data(many, 40).await.len(), 100);
        let long: Vec<_> = std::iter::once("data: ".to_owned()).chain((0..10).map(|_| "x".repeat(10))).collect();
        let found = data(long, 40).await;
        assert!(found[0].as_ref().is_err_and(|error| error.contains("longer than 40 bytes")), "{found:?}");
    }
}
