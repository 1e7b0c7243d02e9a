//! The executor as one MCP server.
//!
//! rmcp keeps lifecycle, requests and cancellation; what servers said goes out as text, past its types (`wire`), calls past rmcp altogether where that is safe (`lane`).

mod attached;
mod call;
mod handler;
mod lane;
mod listing;
mod offers;
mod request;
mod room;
mod wire;

use std::time::Duration;

use rmcp::ServiceExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::core::caller::Caller;
use crate::core::session::DisclosureSetting;
use crate::runtime::executor::{Executor, SHUTDOWN};
use handler::Handler;

/// The revisions of the protocol that are spoken.
pub fn revisions() -> impl Iterator<Item = &'static str> {
    rmcp::model::ProtocolVersion::KNOWN_VERSIONS.iter().map(rmcp::model::ProtocolVersion::as_str)
}

/// How long requests in flight may go on once the server is told to stop: the share of a shutdown that is for calls.
const DRAIN: Duration = SHUTDOWN.checked_div(2).expect("two isn't zero");

/// Waits for `stop`, then for the requests in flight, then halts the service.
async fn drain(stop: CancellationToken, requests: TaskTracker, halt: CancellationToken) {
    stop.cancelled().await;
    requests.close();
    if tokio::time::timeout(DRAIN, requests.wait()).await.is_err() {
        tracing::warn!("{} requests in flight did not end in time and are cancelled", requests.len());
    }
    halt.cancel();
}

/// A task that ends with its owner.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Serves one client on a pair of streams until `stop` is cancelled, by the client's end too; then it reads no more, and
/// requests in flight have `DRAIN` to be answered.
///
/// # Errors
/// When the client never spoke MCP; in words.
pub async fn serve<R, W>(
    executor: Executor,
    disclosure: DisclosureSetting,
    caller: Caller,
    (reader, writer): (R, W),
    stop: CancellationToken,
) -> Result<(), String>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let handler = Handler::new(executor, disclosure, caller);
    let (requests, halt) = (TaskTracker::new(), CancellationToken::new());
    let lane = lane::Lane::new(handler.clone(), requests.clone());
    let transport = wire::Wire::new(reader, writer, lane, requests.clone(), stop.clone());
    let _drain = AbortOnDrop(tokio::spawn(drain(stop, requests, halt.clone())));
    let running = match handler.clone().serve_with_ct(transport, halt).await {
        Ok(running) => running,
        // A client that went away before it said anything is no fault.
        Err(
            rmcp::service::ServerInitializeError::ConnectionClosed(_) | rmcp::service::ServerInitializeError::Cancelled,
        ) => {
            return Ok(());
        }
        Err(error) => return Err(format!("the client doesn't speak MCP: {error}")),
    };
    let notices = tokio::spawn(listing::announce(handler, running.peer().clone()));
    let ended = running.waiting().await;
    notices.abort();
    ended.map(|_| ()).map_err(|error| error.to_string())
}
