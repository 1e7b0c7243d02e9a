//! One client's requests → decisions of `core` and calls of the executor.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard};

use mcplan_compiler::json;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::model::{
    CustomRequest, CustomResult, DiscoverResult, ErrorCode, Implementation, InitializeRequestParams, InitializeResult,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, ServerCapabilities, ServerConfig, ServerNotification,
    SubscriptionFilter, ToolListChangedNotification,
};
use rmcp::service::{Peer, RequestContext, SubscriptionContext};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::{OnceCell, Semaphore, mpsc, watch};

use super::listing::{ListWatch, digest, locked};
use super::wire::PASSED;
use crate::core::caller::Caller;
use crate::core::era;
use crate::core::gate::{Allowed, Asked, Call};
use crate::core::meta::{Search, search_text, text_result};
use crate::core::prompt::Mode;
use crate::core::results;
use crate::core::session::{Disclosure, DisclosureSetting, Session};
use crate::core::snapshot::{CALL_TOOL, SEARCH_TOOL, Snapshot};
use crate::event::Event;
use crate::runtime::connection::{CallError as ConnectionError, Progress};
use crate::runtime::executor::{CallError, Executor};
use crate::serve::allow::allow;

/// Most tools on one page, and most bytes: only beyond both is there a cursor, since many clients read one page.
const PAGE_TOOLS: usize = 1000;
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Most calls of one session that are in flight; who comes after them is told that it is busy.
const CALLS_MAX: usize = 128;
/// Progress notices of one call that may wait for a slow client; more are left out.
const PROGRESS_WAITING: usize = 64;

/// One client's session.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) executor: Executor,
    disclosure: DisclosureSetting,
    session: Arc<Mutex<Session>>,
    pub(super) promotions: Arc<watch::Sender<u64>>,
    /// Digest of the list that a client with a session has or was told to read again; `None` before its first list.
    pub(super) known: Arc<Mutex<Option<String>>>,
    /// Whether the first list or search has waited for servers that are being connected.
    waited: Arc<OnceCell<()>>,
    /// The calls that may still begin.
    calls: Arc<Semaphore>,
}

#[derive(Deserialize)]
struct ListParams {
    #[serde(default)]
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct CallParams {
    name: String,
    #[serde(default)]
    arguments: Option<Map<String, Value>>,
}

impl Handler {
    pub(super) fn new(executor: Executor, disclosure: DisclosureSetting, caller: Caller) -> Self {
        let promotions = Arc::new(watch::Sender::new(0));
        let session = Session::new(caller, executor.view().snapshot.plan.search.promote_limit);
        Self {
            executor,
            disclosure,
            session: Arc::new(Mutex::new(session)),
            promotions,
            known: Arc::default(),
            waited: Arc::default(),
            calls: Arc::new(Semaphore::new(CALLS_MAX)),
        }
    }

    /// This moment as the session sees it.
    fn snapshot(&self) -> Arc<Snapshot> {
        self.session().sees(&self.executor.view().snapshot)
    }

    fn session(&self) -> MutexGuard<'_, Session> {
        locked(&self.session)
    }

    /// Whether the client speaks a revision without initialize.
    pub(super) fn is_stateless(&self, peer: &Peer<RoleServer>) -> bool {
        peer.peer_info().is_none()
    }

    fn instructions(&self) -> Option<String> {
        let block = self.snapshot().block();
        if block.mode == Mode::OverBudget {
            Event::BlockOverBudget { failure: block.failure.map(|failure| failure.to_string()) }.log();
        }
        (!block.text.is_empty()).then_some(block.text)
    }

    /// Digest of the list as a client with a session sees it. A stateless one doesn't see promotions, and promotions
    /// never happen in its session.
    pub(super) fn visible(&self) -> String {
        let snapshot = self.snapshot();
        digest(&self.session().listed(&snapshot, self.disclosure.for_client(false), true))
    }

    /// Many clients list once only, so the first list waits until servers are known; after that nothing waits.
    async fn wait_once(&self) {
        self.waited.get_or_init(|| self.executor.settled()).await;
    }

    /// What is listed now. Looked at and noted in one, so that no change falls between the two.
    fn listed(&self, stateless: bool, first_page: bool) -> Vec<String> {
        let mut known = locked(&self.known);
        let snapshot = self.snapshot();
        let listed = self.session().listed(&snapshot, self.disclosure.for_client(stateless), !stateless);
        // A further page of a list that has changed meanwhile doesn't make the client know the new one.
        if !stateless && first_page {
            *known = Some(digest(&listed));
        }
        listed
    }

    async fn list(&self, params: ListParams, stateless: bool) -> Result<String, ErrorData> {
        self.wait_once().await;
        let listed = self.listed(stateless, params.cursor.is_none());
        let from = match params.cursor.as_deref().map(str::parse::<usize>) {
            None => 0,
            Some(Ok(from)) if from <= listed.len() => from,
            Some(_) => return Err(ErrorData::invalid_params("unknown cursor", None)),
        };
        let mut bytes = 0;
        let page = listed[from..].iter().take(PAGE_TOOLS).take_while(|tool| {
            bytes += tool.len();
            // One tool always fits, however large, or the list would never end.
            bytes <= PAGE_BYTES || bytes == tool.len()
        });
        let page: Vec<_> = page.map(String::as_str).collect();
        let next = from + page.len();
        let cursor = if next < listed.len() { format!(",\"nextCursor\":\"{next}\"") } else { String::new() };
        let result = format!("{{\"tools\":[{}]{cursor}}}", page.join(","));
        Ok(if stateless { era::for_stateless(&result, true) } else { result })
    }

    async fn call(&self, params: CallParams, context: &RequestContext<RoleServer>) -> Result<String, ErrorData> {
        let stateless = self.is_stateless(&context.peer);
        let arguments = params.arguments.unwrap_or_default();
        let in_flight = self.calls.try_acquire();
        let result = match params.name.as_str() {
            _ if in_flight.is_err() => text_result(&busy(), true),
            SEARCH_TOOL if self.offers_own() => self.search(&arguments, stateless).await,
            CALL_TOOL if self.offers_own() => match inner_call(&arguments) {
                Ok((name, arguments)) => self.call_tool(name, arguments, context).await?,
                Err(wrong) => text_result(&wrong, true),
            },
            _ => self.call_tool(params.name, arguments, context).await?,
        };
        Ok(if stateless { era::for_stateless(&result, false) } else { era::for_session(&result) })
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

    async fn call_tool(
        &self,
        name: String,
        arguments: Map<String, Value>,
        context: &RequestContext<RoleServer>,
    ) -> Result<String, ErrorData> {
        let asked = Asked { name, arguments, meta: passed_meta(context) };
        let (snapshot, allowed) = self.allow(asked).await?;
        let token = context.meta.get_progress_token();
        let (progress, forwarded) = forward(token, context.peer.clone());
        let called = self.executor.call(&allowed, progress, context.ct.clone());
        let (result, ()) = tokio::join!(called, forwarded);
        match result {
            Ok(result) => {
                self.note_success(&snapshot, allowed.get(), &result);
                Ok(result.get().to_owned())
            }
            Err(CallError::Connection(ConnectionError::Server { code, message, data, .. })) => {
                Err(ErrorData::new(ErrorCode(code), message, data))
            }
            Err(CallError::Denied(denied)) => Err(ErrorData::invalid_params(denied.to_string(), None)),
            // The tool may work the next time, so the model is told rather than the client alone.
            Err(error) => Ok(text_result(&error.to_string(), true)),
        }
    }

    async fn allow(&self, asked: Asked) -> Result<(Arc<Snapshot>, Allowed<Call>), ErrorData> {
        let allowed = allow(&self.executor, asked, |snapshot| self.session().sees(snapshot)).await;
        allowed.map_err(|denied| ErrorData::invalid_params(denied.to_string(), None))
    }

    /// A direct call whose result is no error promotes.
    fn note_success(&self, snapshot: &Snapshot, call: &Call, result: &serde_json::value::RawValue) {
        let Some(tool) = snapshot.catalog.tool(call.exposed.as_str()).filter(|tool| tool.deferred) else { return };
        if !results::is_error(result) && self.session().called(tool) {
            Event::ToolPromoted { tool: call.exposed.to_string() }.log();
            self.promotions.send_modify(|version| *version += 1);
        }
    }
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
fn passed_meta(context: &RequestContext<RoleServer>) -> Map<String, Value> {
    let Ok(Value::Object(mut meta)) = serde_json::to_value(&context.meta) else { return Map::new() };
    meta.retain(|key, _| key != "progressToken" && !key.starts_with("io.modelcontextprotocol/"));
    meta
}

/// Where a call's progress goes: to the client under its own token, in order, as long as the call lasts.
fn forward(
    token: Option<ProgressToken>,
    peer: Peer<RoleServer>,
) -> (Option<mpsc::Sender<Progress>>, impl Future<Output = ()>) {
    let (sender, mut receiver) = mpsc::channel::<Progress>(PROGRESS_WAITING);
    let wanted = token.is_some();
    let forwarded = async move {
        let Some(token) = token else { return };
        while let Some(progress) = receiver.recv().await {
            let mut param = ProgressNotificationParam::new(token.clone(), progress.progress);
            param.total = progress.total;
            param.message = progress.message;
            if peer.notify_progress(param).await.is_err() {
                return;
            }
        }
    };
    (wanted.then_some(sender), forwarded)
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().enable_tool_list_changed().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("mcplan", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        context.peer.set_peer_info(request.clone());
        let mut result = self.negotiate_initialize(&request)?;
        result.instructions = self.instructions();
        Ok(result)
    }

    async fn discover(&self, _: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let mut info = self.get_info();
        info.instructions = self.instructions();
        Ok(DiscoverResult::from_server_info(self.supported_protocol_versions().into_owned(), info))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(ProtocolVersion::KNOWN_VERSIONS)
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let params = request.params.unwrap_or_else(|| Value::Object(Map::new()));
        let wrong = |error: serde_json::Error| ErrorData::invalid_params(error.to_string(), None);
        let text = match request.method.strip_prefix(PASSED) {
            Some("tools/list") => {
                let params = serde_json::from_value(params).map_err(wrong)?;
                self.list(params, self.is_stateless(&context.peer)).await?
            }
            Some("tools/call") => self.call(serde_json::from_value(params).map_err(wrong)?, &context).await?,
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        };
        let text = if text.contains(['\n', '\r']) { json::compact(&text) } else { text };
        Ok(CustomResult(Value::String(text)))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::new();
        accepted.tools_list_changed = requested.tools_list_changed.filter(|wanted| *wanted);
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut watch = ListWatch::from_now(self);
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = watch.changed() => {
                    let notice = ServerNotification::ToolListChangedNotification(ToolListChangedNotification::default());
                    if !changed || context.sink().send(notice).await.is_err() {
                        return Ok(());
                    }
                }
            }
        }
    }
}
