//! What we are to a server: a client with roots and elicitation, and sampling where its entry has it, which answers what
//! servers ask.
//!
//! The same everywhere (`lock`, `doctor`, `run`), because what a server lists depends on it.

#![allow(deprecated, reason = "roots and sampling are deprecated in the newest revision and in use in all others")]

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorCode, ErrorData, Implementation, MetaObject, ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, RoleClient};
use serde_json::json;

/// Answers a server's requests. Roots are answered by rmcp's own default: an empty list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Host {
    /// Whether the server may ask for the user's model.
    pub(super) sampling: bool,
}

/// Where the reason of a declined elicitation stands in the answer's `_meta`.
const REASON: &str = "mcplan/reason";
/// That reason.
pub(super) const NOBODY: &str = "no user is attached to this connection who could be asked";

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_roots().enable_elicitation();
        let capabilities = if self.sampling { capabilities.enable_sampling().build() } else { capabilities.build() };
        ClientConfig::new(capabilities, Implementation::new("mcplan", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        // The protocol has no field for a reason, and a server that looks may want one.
        let mut meta = MetaObject::default();
        meta.insert(REASON.to_owned(), json!(NOBODY));
        Ok(ElicitResult::new(ElicitationAction::Decline).with_meta(meta))
    }

    async fn create_message(
        &self,
        _: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        if self.sampling {
            return Err(ErrorData::invalid_request("no client is attached to this connection that has a model", None));
        }
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "sampling was not offered to this server", None))
    }
}
