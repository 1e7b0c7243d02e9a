//! How an answer goes out: alone, or as server-sent events with what comes before it.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use futures::{StreamExt as _, stream};

use super::line::Awaited;
use super::problem::Problem;
use super::runtime::KEEP_ALIVE;

pub(super) fn json_response(status: StatusCode, line: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], line).into_response()
}

/// There is no session any more, and so no answer. Clients take a 404 as that, and as nothing else.
pub(super) fn ended() -> Problem {
    Problem::not_found("the session has ended; initialize again")
}

/// The answer alone; for a request that was taken back a stream with nothing in it, as for one that streams.
pub(super) async fn single(awaited: Awaited, status: impl Fn(&[u8]) -> StatusCode) -> Response {
    let Awaited { answer, notices } = awaited;
    // Nobody hears them, so what a server asks is not sent this way.
    drop(notices);
    match answer.await {
        Ok(Some(line)) => json_response(status(&line), line),
        Ok(None) => events(stream::empty()),
        Err(_) => ended().into_response(),
    }
}

/// What belongs to the request, then its answer. `keeps` lives as long as the stream.
pub(super) fn streamed<K: Send + 'static>(awaited: Awaited, keeps: K) -> Response {
    events(stream::unfold(Some((awaited, keeps)), |state| async move {
        let (mut awaited, keeps) = state?;
        tokio::select! {
            biased;
            Some(notice) = awaited.notices.recv() => Some((notice, Some((awaited, keeps)))),
            answer = &mut awaited.answer => Some((answer.ok()??, None)),
        }
    }))
}

/// Messages as server-sent events. A silent stream says that it is still there, or a client that vanished would hold its
/// session for ever.
pub(super) fn events(messages: impl futures::Stream<Item = Vec<u8>> + Send + 'static) -> Response {
    let events = stream::unfold(Box::pin(messages), |mut messages| async move {
        let event = match tokio::time::timeout(KEEP_ALIVE, messages.next()).await {
            Ok(message) => event(&message?),
            Err(_) => b":\n\n".to_vec(),
        };
        Some((Ok::<_, Infallible>(Bytes::from(event)), messages))
    });
    let headers = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-cache")];
    (headers, Body::from_stream(events)).into_response()
}

fn event(message: &[u8]) -> Vec<u8> {
    let mut event = Vec::with_capacity(message.len() + 32);
    event.extend_from_slice(b"event: message\ndata: ");
    event.extend_from_slice(message);
    event.extend_from_slice(b"\n\n");
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_says_that_it_is_there() {
        let messages = stream::once(async {
            tokio::time::sleep(KEEP_ALIVE * 2 + KEEP_ALIVE / 2).await;
            b"{}".to_vec()
        });
        let said = axum::body::to_bytes(events(messages).into_body(), usize::MAX).await.unwrap();
        assert_eq!(said, ":\n\n:\n\nevent: message\ndata: {}\n\n");
    }
}
