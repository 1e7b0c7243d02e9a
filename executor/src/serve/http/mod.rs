//! The HTTP listener: MCP for agents, and for people and programs how the executor is and what happens in it.

mod access;
mod answer;
mod connections;
mod line;
mod mcp;
mod problem;
mod runtime;

use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::StatusCode;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::control::Control;
use crate::core::session::DisclosureSetting;
use crate::runtime::transport::MESSAGE_MAX;
pub use access::Access;
use problem::Problem;

/// What every request needs.
#[derive(Clone, Debug)]
struct Listening {
    control: Control,
    access: Arc<Access>,
    disclosure: DisclosureSetting,
    sessions: Arc<mcp::Sessions>,
    /// Where sessions work, when that was said.
    workspace: Option<String>,
    stop: CancellationToken,
}

/// A listener that is served.
#[derive(Debug)]
pub struct Serving {
    /// Where it listens.
    pub address: SocketAddr,
    stop: CancellationToken,
    tasks: [JoinHandle<()>; 2],
}

/// Serves a listener.
///
/// # Errors
/// When the socket can't tell its address.
pub fn start(
    listener: TcpListener,
    access: Access,
    control: Control,
    disclosure: DisclosureSetting,
    workspace: Option<String>,
) -> std::io::Result<Serving> {
    let (address, stop) = (listener.local_addr()?, CancellationToken::new());
    let sessions = Arc::<mcp::Sessions>::default();
    let reaping = tokio::spawn(sessions.clone().reap());
    let listening =
        Listening { control, access: Arc::new(access), disclosure, sessions, workspace, stop: stop.clone() };
    let stopped = stop.clone();
    let serving = tokio::spawn(connections::serve(listener, router(listening), connections::most(), stopped));
    Ok(Serving { address, stop, tasks: [serving, reaping] })
}

impl Serving {
    /// Takes no more connections and ends all streams; requests in flight are still answered.
    pub fn close(&self) {
        self.stop.cancel();
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

fn router(listening: Listening) -> Router {
    let mcp = || post(mcp::post).get(mcp::get).delete(mcp::delete);
    Router::new()
        .route("/mcp", mcp())
        .route("/mcp/{agent}", mcp())
        .route("/readyz", get(runtime::readyz))
        .route("/livez", get(runtime::livez))
        .route("/metrics", get(runtime::metrics))
        .route("/api/runtime/status", get(runtime::status))
        .route("/api/events", get(runtime::events))
        .route("/api/reload", post(runtime::reload))
        .route("/api/mcp/servers/{name}/reconnect", post(runtime::reconnect))
        .fallback(nowhere)
        .method_not_allowed_fallback(otherwise)
        .layer(middleware::from_fn_with_state(listening.clone(), admitted))
        .layer(DefaultBodyLimit::max(MESSAGE_MAX))
        .with_state(listening)
}

async fn nowhere() -> Problem {
    Problem::not_found("there is nothing here; MCP is at /mcp")
}

async fn otherwise() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path is asked with another method; `Allow` names those it takes")
}

/// Refuses what a page of somebody else's made a browser send, wherever it goes.
async fn admitted(State(listening): State<Listening>, request: Request, next: Next) -> Response {
    match listening.access.admits(request.headers()) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    }
}
