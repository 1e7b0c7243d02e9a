//! One client's requests → decisions of `core` and calls of the executor.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::model::{
    CustomRequest, CustomResult, DiscoverResult, ErrorCode, Implementation, InitializeRequestParams, InitializeResult,
    ProtocolVersion, ServerCapabilities, ServerConfig, ServerNotification, SubscriptionFilter,
    ToolListChangedNotification,
};
use rmcp::service::{Peer, RequestContext, SubscriptionContext};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::{OnceCell, Semaphore, watch};

use super::call::{Asker, CallParams};
use super::listing::{ListWatch, digest, locked};
use super::wire::{PASSED, one_line};
use crate::core::caller::Caller;
use crate::core::era;
use crate::core::prompt::Mode;
use crate::core::results::Text;
use crate::core::session::{DisclosureSetting, Session};
use crate::core::snapshot::Snapshot;
use crate::event::Event;
use crate::runtime::executor::Executor;

/// Most tools on one page, and most bytes: only beyond both is there a cursor, since many clients read one page.
const PAGE_TOOLS: usize = 1000;
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Most calls of one session that are in flight; who comes after them is told that it is busy.
pub(super) const CALLS_MAX: usize = 128;

/// One client's session.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) executor: Executor,
    pub(super) disclosure: DisclosureSetting,
    session: Arc<Mutex<Session>>,
    pub(super) promotions: Arc<watch::Sender<u64>>,
    /// Digest of the list that a client with a session has or was told to read again; `None` before its first list.
    pub(super) known: Arc<Mutex<Option<String>>>,
    /// Whether the first list or search has waited for servers that are being connected.
    waited: Arc<OnceCell<()>>,
    /// The calls that may still begin.
    pub(super) calls: Arc<Semaphore>,
    /// The client, once it has a session.
    client: Arc<OnceLock<Peer<RoleServer>>>,
}

#[derive(Deserialize)]
pub(super) struct ListParams {
    #[serde(default)]
    cursor: Option<String>,
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
            client: Arc::default(),
        }
    }

    /// This moment as the session sees it.
    pub(super) fn snapshot(&self) -> Arc<Snapshot> {
        self.session().sees(&self.executor.view().snapshot)
    }

    pub(super) fn session(&self) -> MutexGuard<'_, Session> {
        locked(&self.session)
    }

    /// The client, once it has a session.
    pub(super) fn client(&self) -> Option<&Peer<RoleServer>> {
        self.client.get()
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
    pub(super) async fn wait_once(&self) {
        self.waited.get_or_init(|| self.executor.settled()).await;
    }

    /// What is listed now. Looked at and noted in one, so that no change falls between the two.
    fn listed(&self, stateless: bool, first_page: bool) -> Vec<Arc<str>> {
        let mut known = locked(&self.known);
        let snapshot = self.snapshot();
        let listed = self.session().listed(&snapshot, self.disclosure.for_client(stateless), !stateless);
        // A further page of a list that has changed meanwhile doesn't make the client know the new one.
        if !stateless && first_page {
            *known = Some(digest(&listed));
        }
        listed
    }

    pub(super) async fn list(&self, params: ListParams, stateless: bool) -> Result<Text, ErrorData> {
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
        let page: Vec<_> = page.map(AsRef::as_ref).collect();
        let next = from + page.len();
        let cursor = if next < listed.len() { format!(",\"nextCursor\":\"{next}\"") } else { String::new() };
        let result = Text::cut_out(format!("{{\"tools\":[{}]{cursor}}}", page.join(",")));
        Ok(if stateless { era::for_stateless(result, true) } else { result })
    }
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
        // Only the first can be: a connection has one client.
        let _client = self.client.set(context.peer);
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
            Some("tools/call") => {
                let params: CallParams = serde_json::from_value(params).map_err(wrong)?;
                let asker = Asker { peer: context.peer.clone(), cancel: context.ct.clone() };
                self.call(params.with_meta(&context), &asker).await?
            }
            _ => return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None)),
        };
        Ok(CustomResult(Value::String(one_line(text))))
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

#[cfg(test)]
pub(super) mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::runtime::connection::Context;
    use crate::runtime::program::tests::program;

    /// A session with an executor that has no servers.
    pub(in crate::serve::mcp) fn handler() -> Handler {
        let (executor, _task) = Executor::start(program("mcp_servers: []"), Context::new(BTreeMap::new(), "/"));
        Handler::new(executor, DisclosureSetting::Auto, Caller::lead())
    }
}
