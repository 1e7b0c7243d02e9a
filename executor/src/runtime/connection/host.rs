//! What we are to a server: a client with roots and elicitation, and sampling where its entry has it, which hands what
//! servers ask on to the client whose call it is ([`super::questions`]) or declines it.
//!
//! The same everywhere (`lock`, `doctor`, `run`), because what a server lists depends on it.

#![allow(deprecated, reason = "roots and sampling are deprecated in the newest revision and in use in all others")]

use std::sync::Arc;

use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult, CustomRequest, CustomResult,
    ElicitRequestParams, ElicitResult, ErrorCode, ErrorData, Implementation, ListRootsResult, ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ClientHandler, RoleClient};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::questions::{Clients, Nobody, Question, roots};

/// Answers a server's requests.
#[derive(Clone, Debug)]
pub(super) struct Host {
    /// Whether the server may ask for the user's model.
    pub(super) sampling: bool,
    /// Whose calls are in flight.
    pub(super) clients: Arc<Clients>,
}

/// Where the reason of a declined elicitation stands in the answer's `_meta`.
const REASON: &str = "mcplan/reason";

/// What is answered where nobody can be asked.
///
/// # Errors
/// For what can't be declined in a result.
pub(super) fn declined(question: Question, nobody: Nobody) -> Result<Value, ErrorData> {
    match question {
        // The protocol has no field for a reason, and a server that looks may want one.
        Question::Elicitation => Ok(json!({ "action": "decline", "_meta": { REASON: nobody.to_string() } })),
        Question::Sampling => Err(ErrorData::invalid_request(nobody.to_string(), None)),
        Question::Roots => Ok(roots(None)),
    }
}

impl Host {
    async fn asked(&self, question: Question, params: Map<String, Value>) -> Result<Value, ErrorData> {
        match question {
            Question::Roots => return Ok(roots(self.clients.workspace().as_deref())),
            Question::Sampling if !self.sampling => {
                return Err(ErrorData::new(
                    ErrorCode::METHOD_NOT_FOUND,
                    "sampling was not offered to this server; `sampling: true` in its entry does",
                    None,
                ));
            }
            _ => {}
        }
        match self.clients.who(question) {
            Ok(client) => client.answer(question, params).await.map(Value::Object),
            Err(nobody) => declined(question, nobody),
        }
    }

    /// The same, past rmcp's types.
    async fn typed<T: DeserializeOwned>(
        &self,
        question: Question,
        params: impl serde::Serialize,
    ) -> Result<T, ErrorData> {
        let Ok(Value::Object(params)) = serde_json::to_value(params) else {
            return Err(ErrorData::invalid_params("the parameters are no object", None));
        };
        let answer = self.asked(question, params).await?;
        serde_json::from_value(answer).map_err(|error| {
            ErrorData::internal_error(
                format!("the client's answer to {} can't be read: {error}", question.method()),
                None,
            )
        })
    }
}

impl ClientHandler for Host {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_roots().enable_elicitation();
        let capabilities = if self.sampling { capabilities.enable_sampling().build() } else { capabilities.build() };
        ClientConfig::new(capabilities, Implementation::new("mcplan", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.typed(Question::Roots, json!({})).await
    }

    async fn create_elicitation(
        &self,
        params: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        self.typed(Question::Elicitation, params).await
    }

    async fn create_message(
        &self,
        params: CreateMessageRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.typed(Question::Sampling, params).await
    }

    /// What rmcp couldn't read, and what it doesn't know.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let Some(question) = Question::of(&request.method) else {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        };
        let params = match request.params {
            Some(Value::Object(params)) => params,
            _ => Map::new(),
        };
        self.asked(question, params).await.map(CustomResult)
    }
}
