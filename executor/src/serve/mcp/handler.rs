//! One client's requests → decisions of `core` and calls of the executor.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::ServerHandler;
use rmcp::model::{
    CustomRequest, CustomResult, DiscoverResult, ErrorCode, Implementation, InitializeRequestParams, InitializeResult,
    ProtocolVersion, ServerCapabilities, ServerConfig, SubscriptionFilter,
};
use rmcp::service::{Peer, RequestContext, SubscriptionContext};
use serde_json::{Map, Value};
use tokio::sync::{OnceCell, Semaphore, watch};

use super::call::Asker;
use super::listing::{Kind, Known, ListWatch, digest, locked};
use super::offers;
use super::request::Request;
use super::wire::{PASSED, one_line};
use crate::core::caller::Caller;
use crate::core::prompt::Mode;
use crate::core::session::{DisclosureSetting, Session};
use crate::core::snapshot::Snapshot;
use crate::event::Event;
use crate::runtime::executor::Executor;

/// Most calls of one session that are in flight; who comes after them is told that it is busy.
pub(super) const CALLS_MAX: usize = 128;

/// One client's session.
#[derive(Clone)]
pub(super) struct Handler {
    pub(super) executor: Executor,
    pub(super) disclosure: DisclosureSetting,
    session: Arc<Mutex<Session>>,
    pub(super) promotions: Arc<watch::Sender<u64>>,
    /// The lists that a client with a session has or was told to read again.
    pub(super) known: Arc<Mutex<Known>>,
    /// Whether the first list or search has waited for servers that are being connected.
    waited: Arc<OnceCell<()>>,
    /// The calls that may still begin.
    pub(super) calls: Arc<Semaphore>,
    /// The client, once it has a session.
    client: Arc<OnceLock<Peer<RoleServer>>>,
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

    /// Digest of the list of that kind as a client with a session sees it. A stateless one doesn't see promotions, and
    /// promotions never happen in its session.
    pub(super) fn visible(&self, kind: Kind) -> String {
        let snapshot = self.snapshot();
        match kind {
            Kind::Tools => digest(&self.session().listed(&snapshot, self.disclosure.for_client(false), true)),
            _ => digest(&offers::listed(&snapshot, kind)),
        }
    }

    /// Many clients list once only, so the first list waits until servers are known; after that nothing waits.
    pub(super) async fn wait_once(&self) {
        self.waited.get_or_init(|| self.executor.settled()).await;
    }

    /// The tools that are listed. Looked at and noted in one, so that no change falls between the two.
    pub(super) async fn tools(&self, stateless: bool, is_first: bool) -> Vec<Arc<str>> {
        self.wait_once().await;
        let mut known = locked(&self.known);
        let snapshot = self.snapshot();
        let listed = self.session().listed(&snapshot, self.disclosure.for_client(stateless), !stateless);
        // A further page of a list that has changed meanwhile doesn't make the client know the new one.
        if !stateless && is_first {
            known.set(Kind::Tools, digest(&listed));
        }
        listed
    }
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .build();
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
        let method = request.method.strip_prefix(PASSED).unwrap_or_default();
        let Some(mut asked) = Request::read(method, params).map_err(wrong)? else {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        };
        if let Ok(Value::Object(meta)) = serde_json::to_value(&context.meta) {
            asked.set_meta(meta);
        }
        let asker = Asker { peer: context.peer.clone(), cancel: context.ct.clone() };
        let text = self.answer(asked, &asker).await?;
        Ok(CustomResult(Value::String(one_line(text))))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::new();
        accepted.tools_list_changed = requested.tools_list_changed.filter(|wanted| *wanted);
        accepted.prompts_list_changed = requested.prompts_list_changed.filter(|wanted| *wanted);
        accepted.resources_list_changed = requested.resources_list_changed.filter(|wanted| *wanted);
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let accepted = context.accepted();
        let wanted = [
            (Kind::Tools, accepted.tools_list_changed),
            (Kind::Prompts, accepted.prompts_list_changed),
            (Kind::Resources, accepted.resources_list_changed),
            (Kind::Templates, accepted.resources_list_changed),
        ];
        let wanted = wanted.into_iter().filter(|(_, wanted)| *wanted == Some(true)).map(|(kind, _)| kind);
        let mut watch = ListWatch::from_now(self, wanted);
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                changed = watch.changed() => {
                    let Some(kind) = changed else { return Ok(()) };
                    if context.sink().send(kind.notice()).await.is_err() {
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
