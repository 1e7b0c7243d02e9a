//! What servers ask while a call is in flight, and whom: the client that made the only call on the connection, if it
//! can answer. With several calls nobody could tell which of them a question belongs to, and the wrong user would be asked.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::future::BoxFuture;
use rmcp::model::ErrorData;
use serde_json::{Map, Value};

/// What a server may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Something of the user.
    Elicitation,
    /// Something of the user's model.
    Sampling,
    /// The directories that the session works in.
    Roots,
}

impl Question {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Elicitation, Self::Sampling, Self::Roots];

    /// The protocol's name for it.
    pub fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }

    pub(super) fn of(method: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|question| question.method() == method)
    }

    fn capability(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation",
            Self::Sampling => "sampling",
            Self::Roots => "roots",
        }
    }
}

/// A client that makes calls, as far as the servers that it calls may ask it something.
pub trait Answers: Send + Sync {
    /// Whether it declared that it can answer such a question.
    fn can(&self, question: Question) -> bool;
    /// Its answer, with the parameters of the question as the server wrote them.
    fn answer(
        &self,
        question: Question,
        params: Map<String, Value>,
    ) -> BoxFuture<'static, Result<Map<String, Value>, ErrorData>>;
    /// Whether it takes these questions in place of a result and makes the call again with the answers (2026-07-28).
    fn takes_questions(&self, questions: &[Question]) -> bool;
    /// The directory that its session works in.
    fn workspace(&self) -> Option<String>;
}

impl fmt::Debug for dyn Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answers")
    }
}

/// Why a server's question is declined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Nobody {
    #[error("no call is in flight on this connection, so there is nobody who could be asked")]
    NoCall,
    #[error("{0} calls are in flight on this connection, and which of them asks can't be told")]
    Several(usize),
    #[error("the client whose call is in flight can't answer: it declared no `{}`", .0.capability())]
    Unable(Question),
}

type Asked = Option<Arc<dyn Answers>>;

/// Whose calls are in flight on a connection.
#[derive(Debug, Default)]
pub(super) struct Clients(Mutex<(u64, Vec<(u64, Asked)>)>);

/// A call in flight.
pub(super) struct Present<'a> {
    clients: &'a Clients,
    number: u64,
}

impl Drop for Present<'_> {
    fn drop(&mut self) {
        let calls = &mut self.clients.lock().1;
        if let Some(at) = calls.iter().position(|(number, _)| *number == self.number) {
            calls.swap_remove(at);
        }
    }
}

impl Clients {
    fn lock(&self) -> MutexGuard<'_, (u64, Vec<(u64, Asked)>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a call as long as it lasts.
    pub(super) fn enter(&self, client: Asked) -> Present<'_> {
        let (next, calls) = &mut *self.lock();
        *next += 1;
        calls.push((*next, client));
        Present { clients: self, number: *next }
    }

    /// Who is to answer a question.
    pub(super) fn who(&self, question: Question) -> Result<Arc<dyn Answers>, Nobody> {
        match self.lock().1.as_slice() {
            [] => Err(Nobody::NoCall),
            [(_, client)] => able(client.as_ref(), question),
            several => Err(Nobody::Several(several.len())),
        }
    }

    /// The workspace of the session whose call is the only one in flight.
    pub(super) fn workspace(&self) -> Option<String> {
        match self.lock().1.as_slice() {
            [(_, client)] => client.as_ref()?.workspace(),
            _ => None,
        }
    }
}

/// The client, if it can answer such a question.
pub(super) fn able(client: Option<&Arc<dyn Answers>>, question: Question) -> Result<Arc<dyn Answers>, Nobody> {
    client.filter(|client| client.can(question)).cloned().ok_or(Nobody::Unable(question))
}

/// The roots of a session in `workspace`, as the protocol writes them.
pub(super) fn roots(workspace: Option<&str>) -> Value {
    let root = workspace.map(|workspace| {
        let name = workspace.rsplit('/').find(|part| !part.is_empty()).unwrap_or(workspace);
        serde_json::json!({ "uri": file_uri(workspace), "name": name })
    });
    serde_json::json!({ "roots": root.into_iter().collect::<Vec<_>>() })
}

/// An absolute path as a URI.
fn file_uri(path: &str) -> String {
    let path = path.replace('\\', "/");
    let mut uri = String::from(if path.starts_with('/') { "file://" } else { "file:///" });
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/:!$&'()*+,;=@".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            uri.push_str(&format!("%{byte:02X}"));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Able;

    impl Answers for Able {
        fn can(&self, question: Question) -> bool {
            question == Question::Elicitation
        }

        fn answer(
            &self,
            _: Question,
            _: Map<String, Value>,
        ) -> BoxFuture<'static, Result<Map<String, Value>, ErrorData>> {
            Box::pin(async { Ok(Map::new()) })
        }

        fn takes_questions(&self, _: &[Question]) -> bool {
            false
        }

        fn workspace(&self) -> Option<String> {
            Some("/home/me/a b".to_owned())
        }
    }

    #[test]
    fn only_the_client_of_the_only_call_is_asked() {
        let clients = Clients::default();
        let who = |question| clients.who(question).map(|_| ()).map_err(|nobody| nobody.to_string());
        assert!(who(Question::Elicitation).unwrap_err().starts_with("no call is in flight"));
        let first = clients.enter(Some(Arc::new(Able)));
        assert_eq!(who(Question::Elicitation), Ok(()));
        assert!(who(Question::Sampling).unwrap_err().ends_with("it declared no `sampling`"));
        assert_eq!(clients.workspace().as_deref(), Some("/home/me/a b"));
        let second = clients.enter(None);
        assert!(who(Question::Elicitation).unwrap_err().starts_with("2 calls are in flight"));
        assert_eq!(clients.workspace(), None);
        drop(first);
        assert!(who(Question::Elicitation).unwrap_err().ends_with("it declared no `elicitation`"));
        drop(second);
        assert!(who(Question::Elicitation).unwrap_err().starts_with("no call"));
    }

    #[test]
    fn a_workspace_is_a_root() {
        assert_eq!(roots(None), serde_json::json!({ "roots": [] }));
        assert_eq!(
            roots(Some("/srv/a b/é#")),
            serde_json::json!({ "roots": [{ "uri": "file:///srv/a%20b/%C3%A9%23", "name": "é#" }] })
        );
        assert_eq!(roots(Some("C:\\x"))["roots"][0]["uri"], "file:///C:/x");
    }
}
