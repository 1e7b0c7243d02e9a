//! How the executor is, for probes, collectors and people, and the two things that can be asked of it.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::sse::{Event as Sent, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use futures::stream;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;
use tokio_util::sync::CancellationToken;

use super::Listening;
use super::problem::Problem;
use crate::event::metrics::{self, Exposition};
use crate::event::stream::listen;
use crate::serve::control::{Answer, ReloadOutcome, Request};

/// How often a silent stream says that it is still there.
pub(super) const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The process is there.
pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// Whether agents should be sent here. Names nobody.
pub(super) async fn readyz(State(listening): State<Listening>) -> Response {
    match listening.control.executor.view().snapshot.unready() {
        None => "ok\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

pub(super) async fn status(State(listening): State<Listening>, headers: HeaderMap) -> Result<Response, Problem> {
    if !listening.access.is_loopback {
        listening.access.shows(&headers)?;
    }
    let status = listening.control.status();
    Ok(json_of(StatusCode::OK, &json!({ "mcp": status.mcp, "plan": status.plan })))
}

pub(super) async fn metrics(State(listening): State<Listening>, headers: HeaderMap) -> Result<Response, Problem> {
    if !listening.access.is_loopback {
        listening.access.shows(&headers)?;
    }
    let snapshot = listening.control.executor.view().snapshot.clone();
    let status = listening.control.status();
    let mut text = Exposition::default();
    text.family("mcplan_build_info", "gauge", "The version of mcplan, as a label.");
    text.sample("mcplan_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    text.family("mcplan_uptime_seconds", "gauge", "Since the executor began.");
    text.sample("mcplan_uptime_seconds", &[], status.process.since);
    text.family("mcplan_tasks", "gauge", "Tasks that live in the executor.");
    text.sample("mcplan_tasks", &[], status.process.tasks as f64);
    text.family("mcplan_plan_generation", "gauge", "Grows with every plan.");
    text.sample("mcplan_plan_generation", &[], status.plan.generation as f64);
    text.family("mcplan_plan_rejected", "gauge", "Whether the files as they are now were refused.");
    text.sample("mcplan_plan_rejected", &[], f64::from(u8::from(status.rejected.is_some())));
    text.family("mcplan_server_ready", "gauge", "Whether the server is connected; its state is a label.");
    for server in &status.mcp.servers {
        let labels = [("server", &*server.name), ("transport", &*server.transport), ("state", &*server.state)];
        text.sample("mcplan_server_ready", &labels, f64::from(u8::from(server.state == "ready")));
    }
    text.family("mcplan_server_tools", "gauge", "Tools that are offered, and those that are not.");
    for server in &status.mcp.servers {
        for (offered, count) in [("true", server.tool_count), ("false", server.hidden_count)] {
            text.sample("mcplan_server_tools", &[("server", &server.name), ("offered", offered)], count as f64);
        }
    }
    let counts = metrics::counted().kept(|name| snapshot.plan.server(name.as_str()).is_some());
    let text = text.0 + &counts.text();
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

/// What happens, as server-sent events.
pub(super) async fn events(State(listening): State<Listening>, headers: HeaderMap) -> Result<Response, Problem> {
    listening.access.shows(&headers)?;
    let all = stream::unfold((listen(), listening.stop.clone()), |(mut events, stop)| async move {
        let event = tokio::select! {
            () = stop.cancelled() => return None,
            event = events.recv() => event,
        };
        let sent = match event {
            Ok(event) => Sent::default().event(event.name()).data(event.json().to_string()),
            Err(RecvError::Lagged(missed)) => {
                Sent::default().event("missed").data(json!({ "missed": missed }).to_string())
            }
            Err(RecvError::Closed) => return None,
        };
        Some((Ok::<_, Infallible>(sent), (events, stop)))
    });
    Ok(Sse::new(all).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response())
}

pub(super) async fn reload(State(listening): State<Listening>, headers: HeaderMap) -> Result<Response, Problem> {
    listening.access.changes(&headers)?;
    match listening.control.answer(Request::Reload, CancellationToken::new()).await {
        Answer::Reload(reload) => {
            let rejected = reload.outcome == ReloadOutcome::Rejected;
            let status = if rejected { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
            Ok(json_of(status, &reload))
        }
        other => Err(not_done(other)),
    }
}

pub(super) async fn reconnect(
    State(listening): State<Listening>,
    Path(server): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    listening.access.changes(&headers)?;
    match listening.control.answer(Request::Reconnect { server }, CancellationToken::new()).await {
        Answer::Reconnected(status) => Ok(json_of(StatusCode::OK, &status)),
        Answer::CouldNot(why) => Err(Problem::not_found(why)),
        other => Err(not_done(other)),
    }
}

fn not_done(answer: Answer) -> Problem {
    match answer {
        Answer::Refused(why) => Problem::new(StatusCode::CONFLICT, why),
        Answer::CouldNot(why) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, why),
        _ => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "an answer to another question"),
    }
}

fn json_of(status: StatusCode, body: &impl serde::Serialize) -> Response {
    let text = serde_json::to_string(body).unwrap_or_default();
    (status, [(header::CONTENT_TYPE, "application/json")], text).into_response()
}
