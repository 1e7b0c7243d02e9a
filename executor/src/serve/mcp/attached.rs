//! The client at the other end, as the one whom servers may ask something while its call is in flight.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{ClientResult, CustomRequest, ServerRequest};
use rmcp::service::{Peer, ServiceError};
use serde_json::{Map, Value};

use crate::runtime::connection::{Answers, Question};

/// A client that makes a call.
pub(super) struct Attached {
    peer: Peer<RoleServer>,
    /// What it declared that it can do, as the protocol writes it: when its session began, or with this request.
    capabilities: Map<String, Value>,
    /// Whether it is a client without initialize, which can't be asked while it waits.
    stateless: bool,
    workspace: Option<String>,
}

/// Where a client without initialize says what it can do.
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";

impl Attached {
    /// `meta` is that of the request.
    pub(super) fn new(peer: Peer<RoleServer>, meta: &Map<String, Value>, workspace: Option<String>) -> Self {
        let info = peer.peer_info();
        let declared = match &info {
            Some(info) => serde_json::to_value(&info.capabilities).unwrap_or_default(),
            None => meta.get(CAPABILITIES).cloned().unwrap_or_default(),
        };
        let capabilities = match declared {
            Value::Object(capabilities) => capabilities,
            _ => Map::new(),
        };
        Self { stateless: info.is_none(), peer, capabilities, workspace }
    }

    fn declares(&self, question: Question) -> bool {
        self.capabilities.contains_key(match question {
            Question::Elicitation => "elicitation",
            Question::Sampling => "sampling",
            Question::Roots => "roots",
        })
    }
}

impl Answers for Attached {
    fn can(&self, question: Question) -> bool {
        !self.stateless && self.declares(question)
    }

    fn answer(
        &self,
        question: Question,
        params: Map<String, Value>,
    ) -> BoxFuture<'static, Result<Map<String, Value>, ErrorData>> {
        let peer = self.peer.clone();
        async move {
            let request = CustomRequest::new(question.method(), Some(Value::Object(params)));
            let answer = match peer.send_request(ServerRequest::CustomRequest(request)).await {
                Ok(ClientResult::CustomResult(answer)) => Ok(answer.0),
                Ok(other) => serde_json::to_value(other),
                Err(ServiceError::McpError(error)) => return Err(error),
                Err(error) => {
                    return Err(ErrorData::internal_error(format!("the client gave no answer: {error}"), None));
                }
            };
            match answer {
                Ok(Value::Object(answer)) => Ok(answer),
                _ => Err(ErrorData::internal_error("the client's answer is no object", None)),
            }
        }
        .boxed()
    }

    fn takes_questions(&self, questions: &[Question]) -> bool {
        self.stateless && questions.iter().all(|question| self.declares(*question))
    }

    fn workspace(&self) -> Option<String> {
        self.workspace.clone()
    }
}
