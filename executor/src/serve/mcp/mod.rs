//! The executor as one MCP server.
//!
//! rmcp keeps lifecycle, requests and cancellation; what servers said goes out as text, past its types (`wire`).

mod handler;
mod listing;
mod wire;

use rmcp::ServiceExt as _;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::core::session::DisclosureSetting;
use crate::runtime::executor::Executor;
use handler::Handler;

/// Serves one client on a pair of streams until it goes away or `stop` is cancelled.
///
/// # Errors
/// When the client never spoke MCP; in words.
pub async fn serve<R, W>(
    executor: Executor,
    disclosure: DisclosureSetting,
    (reader, writer): (R, W),
    stop: CancellationToken,
) -> Result<(), String>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let handler = Handler::new(executor, disclosure);
    let transport = wire::Wire::new(reader, writer);
    let running = match handler.clone().serve_with_ct(transport, stop).await {
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
