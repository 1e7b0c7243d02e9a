//! What a remote server of the tests answers over HTTP: whole, piece by piece, or broken off.

use axum::body::Body;
use axum::response::Response;
use futures::StreamExt as _;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

/// What is said on a stream.
pub enum Piece {
    Whole(Vec<u8>),
    Half(Vec<u8>),
    /// The exchange breaks off.
    End,
}

pub type Say = UnboundedSender<Piece>;
pub type Said = UnboundedReceiver<Piece>;

/// A response that says `first` and then what comes.
pub fn events(first: String, mut said: Said) -> Response {
    let later = futures::stream::poll_fn(move |context| said.poll_recv(context)).map(|piece| match piece {
        Piece::Whole(message) => Ok([b"event: message\ndata: ", &*message, b"\n\n"].concat()),
        Piece::Half(message) => Ok([b"event: message\ndata: ", &message[..message.len() / 2]].concat()),
        Piece::End => Err(broken()),
    });
    let all = futures::stream::once(async move { Ok(first.into_bytes()) }).chain(later);
    Response::builder().header("content-type", "text/event-stream").body(Body::from_stream(all)).unwrap()
}

fn broken() -> std::io::Error {
    std::io::Error::other("broken off")
}

/// A JSON answer that breaks off after these bytes.
pub fn half(message: &[u8]) -> Response {
    let pieces = [Ok(message[..message.len() / 2].to_vec()), Err(broken())];
    let response =
        Response::builder().header("content-type", "application/json").header("content-length", message.len() + 1);
    response.body(Body::from_stream(futures::stream::iter(pieces))).unwrap()
}

pub fn respond(status: u16, body: impl Into<Body>) -> Response {
    let response = Response::builder().status(status).header("content-type", "application/json");
    response.body(body.into()).unwrap()
}
