//! Calls of a client: our own two tools, and the way to a server's and back.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ProgressNotificationParam, ProgressToken};
use rmcp::service::Peer;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::attached::Attached;
use super::handler::{CALLS_MAX, Handler};
use super::request::Params;
use crate::core::gate::{Allowed, Asked, Call};
use crate::core::meta::{Search, search_text, text_result};
use crate::core::results::{self, Text};
use crate::core::session::{Disclosure, DisclosureSetting};
use crate::core::snapshot::{CALL_TOOL, SEARCH_TOOL, Snapshot};
use crate::event::Event;
use crate::runtime::connection::{CallError as ConnectionError, Client, Progress};
use crate::runtime::executor::CallError;
use crate::serve::allow::allow;

/// Progress notices of one call that may wait for a slow client; more are left out.
const PROGRESS_WAITING: usize = 64;

/// Who makes a call, and how to reach them while it lasts.
pub(super) struct Asker {
    pub(super) peer: Peer<RoleServer>,
    /// Cancelled when the answer isn't wanted any more.
    pub(super) cancel: CancellationToken,
}

/// A call as it was made.
struct Made {
    tool: String,
    arguments: Map<String, Value>,
    meta: Map<String, Value>,
    input: Map<String, Value>,
}

impl Handler {
    pub(super) async fn call(&self, params: Params, asker: &Asker, stateless: bool) -> Result<Text, ErrorData> {
        let Params { name: tool, arguments, meta, input } = params;
        let in_flight = self.calls.try_acquire();
        Ok(match tool.as_str() {
            _ if in_flight.is_err() => own(text_result(&busy(), true)),
            SEARCH_TOOL if self.offers_own() => own(self.search(&arguments, stateless).await),
            CALL_TOOL if self.offers_own() => match inner_call(&arguments) {
                Ok((tool, arguments)) => self.call_tool(Made { tool, arguments, meta, input }, asker).await?,
                Err(wrong) => own(text_result(&wrong, true)),
            },
            _ => self.call_tool(Made { tool, arguments, meta, input }, asker).await?,
        })
    }

    fn offers_own(&self) -> bool {
        self.executor.view().snapshot.can_defer() && self.disclosure != DisclosureSetting::Always(Disclosure::All)
    }

    async fn search(&self, arguments: &Map<String, Value>, stateless: bool) -> String {
        let default = self.executor.view().snapshot.plan.search.limit;
        let search = match Search::from_arguments(arguments, default) {
            Ok(search) => search,
            Err(wrong) => return text_result(&wrong, true),
        };
        self.wait_once().await;
        let snapshot = self.snapshot();
        let mode = self.disclosure.for_client(stateless);
        let hits: Vec<_> = snapshot
            .catalog
            .search(&search.queries, search.server.as_deref(), search.limit)
            .into_iter()
            .map(|(tool, _)| tool)
            .collect();
        Event::SearchQueried { query: search.queries.join(" | "), match_count: hits.len() }.log();
        if mode == Disclosure::Promote {
            let names = hits.iter().filter(|tool| tool.deferred).map(|tool| tool.exposed.as_str());
            let promotion = self.session().promote(names);
            for tool in &promotion.added {
                Event::ToolPromoted { tool: tool.clone() }.log();
            }
            if promotion.changed() {
                self.promotions.send_modify(|version| *version += 1);
            }
        }
        text_result(&search_text(&snapshot, &search, &hits, mode), false)
    }

    async fn call_tool(&self, made: Made, asker: &Asker) -> Result<Text, ErrorData> {
        let (progress, forwarded) = forward(&made.meta, asker.peer.clone());
        let attached = Attached::new(asker.peer.clone(), &made.meta, self.session().workspace());
        let asked = Asked { name: made.tool, arguments: made.arguments, meta: passed(made.meta), input: made.input };
        let (snapshot, allowed) = self.allow(asked).await?;
        let client = Client { progress, cancel: asker.cancel.clone(), answers: Some(Arc::new(attached)) };
        let called = self.executor.call(&allowed, client);
        let (result, ()) = tokio::join!(called, forwarded);
        match result {
            Ok(result) => {
                self.note_success(&snapshot, allowed.get(), &result);
                Ok(result)
            }
            Err(CallError::Connection(ConnectionError::Server { code, message, data, .. })) => {
                Err(ErrorData::new(ErrorCode(code), message, data))
            }
            Err(CallError::Denied(denied)) => Err(ErrorData::invalid_params(denied.to_string(), None)),
            // The tool may work the next time, so the model is told rather than the client alone.
            Err(error) => Ok(own(text_result(&error.to_string(), true))),
        }
    }

    async fn allow(&self, asked: Asked) -> Result<(Arc<Snapshot>, Allowed<Call>), ErrorData> {
        let allowed = allow(&self.executor, asked, |snapshot| self.session().sees(snapshot)).await;
        allowed.map_err(|denied| ErrorData::invalid_params(denied.to_string(), None))
    }

    /// A direct call whose result is no error promotes.
    fn note_success(&self, snapshot: &Snapshot, call: &Call, result: &Text) {
        let Some(tool) = snapshot.catalog.tool(call.exposed.as_str()).filter(|tool| tool.deferred) else { return };
        if !results::is_error(result) && self.session().called(tool) {
            Event::ToolPromoted { tool: call.exposed.to_string() }.log();
            self.promotions.send_modify(|version| *version += 1);
        }
    }
}

/// A result of ours.
fn own(result: String) -> Text {
    Text::cut_out(result)
}

fn busy() -> String {
    format!("this session has {CALLS_MAX} calls in flight, which is the most; try again when some of them have ended")
}

/// What `call_mcp_tool` is to call.
fn inner_call(arguments: &Map<String, Value>) -> Result<(String, Map<String, Value>), String> {
    let Some(Value::String(name)) = arguments.get("name") else {
        return Err(format!("`name` takes the name of a tool, as {SEARCH_TOOL} gave it"));
    };
    let inner = match arguments.get("arguments") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(inner)) => inner.clone(),
        // Some models write the object as a text; what it means is plain.
        Some(Value::String(text)) => serde_json::from_str(text)
            .map_err(|error| format!("`arguments` takes an object; this text is no JSON object: {error}"))?,
        Some(_) => return Err("`arguments` takes an object".to_owned()),
    };
    Ok((name.clone(), inner))
}

/// The client's `_meta` as far as it belongs to the call and not to the connection.
pub(super) fn passed(mut meta: Map<String, Value>) -> Map<String, Value> {
    meta.retain(|key, _| key != "progressToken" && !key.starts_with("io.modelcontextprotocol/"));
    meta
}

/// Where a call's progress goes: to the client under its own token, in order, as long as the call lasts.
pub(super) fn forward(
    meta: &Map<String, Value>,
    peer: Peer<RoleServer>,
) -> (Option<mpsc::Sender<Progress>>, impl Future<Output = ()> + use<>) {
    let token = meta.get("progressToken").and_then(|token| ProgressToken::deserialize(token).ok());
    let (sender, receiver) = token
        .map(|token| (token, mpsc::channel::<Progress>(PROGRESS_WAITING)))
        .map_or_else(|| (None, None), |(token, (sender, receiver))| (Some(sender), Some((token, receiver))));
    let forwarded = async move {
        let Some((token, mut receiver)) = receiver else { return };
        while let Some(progress) = receiver.recv().await {
            let mut param = ProgressNotificationParam::new(token.clone(), progress.progress);
            param.total = progress.total;
            param.message = progress.message;
            if peer.notify_progress(param).await.is_err() {
                return;
            }
        }
    };
    (sender, forwarded)
}
