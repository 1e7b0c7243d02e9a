//! Prompts and resources of servers: listed, fetched, read.

use std::sync::Arc;

use mcplan_compiler::json;
use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::attached::Attached;
use super::call::{Asker, forward, passed};
use super::handler::{CALLS_MAX, Handler};
use super::listing::{Kind, digest, locked};
use super::request::Params;
use crate::core::gate::{Asked, Denied, Read, gate_read};
use crate::core::offers::OURS;
use crate::core::results::Text;
use crate::core::snapshot::Snapshot;
use crate::event::Event;
use crate::runtime::connection::{CallError as ConnectionError, Client};
use crate::runtime::executor::CallError;
use crate::serve::allow::allow_prompt;

/// The texts of what is listed of that kind; of tools nothing, whose list depends on the session too.
pub(super) fn listed(snapshot: &Snapshot, kind: Kind) -> Vec<Arc<str>> {
    let offers = snapshot.catalog.offers();
    match kind {
        Kind::Tools => Vec::new(),
        Kind::Prompts => offers.prompts().iter().map(|prompt| prompt.text().into()).collect(),
        Kind::Resources => offers.resources().map(|resource| resource.text().into()).collect(),
        Kind::Templates => offers.templates().map(|template| template.text().into()).collect(),
    }
}

impl Handler {
    /// The list of that kind, noted as the one that the client knows.
    pub(super) async fn offers(&self, kind: Kind, is_first: bool) -> Vec<Arc<str>> {
        self.wait_once().await;
        if kind == Kind::Resources {
            // Which ones there are no lock can know.
            self.executor.heard(|snapshot| self.session().sees(snapshot)).await;
        }
        let mut known = locked(&self.known);
        let listed = listed(&self.snapshot(), kind);
        if is_first {
            known.set(kind, digest(&listed));
        }
        listed
    }

    pub(super) async fn get_prompt(&self, params: Params, asker: &Asker) -> Result<Text, ErrorData> {
        let _in_flight = self.calls.try_acquire().map_err(|_| busy())?;
        let Params { name, arguments, meta, input } = params;
        let (client, forwarded) = self.client_of(&meta, asker);
        let asked = Asked { name, arguments, meta: passed(meta), input };
        let allowed = allow_prompt(&self.executor, asked, |snapshot| self.session().sees(snapshot)).await;
        let allowed = allowed.map_err(refused)?;
        let (result, ()) = tokio::join!(self.executor.invoke(&allowed, client), forwarded);
        result.map_err(failed)
    }

    pub(super) async fn read_resource(&self, params: Params, asker: &Asker) -> Result<Text, ErrorData> {
        let _in_flight = self.calls.try_acquire().map_err(|_| busy())?;
        let Params { name, arguments: _, meta, input } = params;
        let (client, forwarded) = self.client_of(&meta, asker);
        let asked = Asked { name, arguments: Map::new(), meta: passed(meta), input };
        if !self.snapshot().catalog.offers().lists(&asked.name) {
            // Whose it is can only be said when everything is known that comes before.
            self.executor.settled().await;
            self.executor.heard(|snapshot| self.session().sees(snapshot)).await;
        }
        let caller = self.session().caller().clone();
        let snapshot = self.snapshot();
        // Older revisions have a code of their own for it.
        let not_found = |denied: Denied| match self.is_stateless(&asker.peer) {
            true => refused(denied),
            false => ErrorData::new(ErrorCode::RESOURCE_NOT_FOUND, denied.to_string(), None),
        };
        let allowed = gate_read(&snapshot.plan, &snapshot.catalog, &caller, asked).map_err(|denied| {
            Event::denied(&denied, &snapshot).log();
            not_found(denied)
        })?;
        let (result, ()) = tokio::join!(self.executor.read(&allowed, client), forwarded);
        match result {
            Ok(result) => Ok(as_asked(result, allowed.get())),
            Err(CallError::Denied(denied)) => Err(not_found(denied)),
            Err(error) => Err(failed(error)),
        }
    }

    fn client_of(&self, meta: &Map<String, Value>, asker: &Asker) -> (Client, impl Future<Output = ()> + use<>) {
        let attached = Attached::new(asker.peer.clone(), meta, self.session().workspace());
        let (progress, forwarded) = forward(meta, asker.peer.clone());
        (Client { progress, cancel: asker.cancel.clone(), answers: Some(Arc::new(attached)) }, forwarded)
    }
}

/// What was read, under the address that it was asked for by, where that is one of ours: the server's own is that of
/// another one's resource for this client.
fn as_asked(result: Text, read: &Read) -> Text {
    #[derive(Deserialize)]
    struct Contents<'a> {
        #[serde(borrow)]
        contents: Vec<&'a RawValue>,
    }
    if !read.asked.starts_with(OURS) {
        return result;
    }
    let all = result.get();
    let Ok(Contents { contents }) = serde_json::from_str(all) else { return result };
    let (mut out, mut from) = (String::with_capacity(all.len()), 0);
    for content in contents.iter().map(|content| content.get()) {
        let own = json::string_member(content, "uri").and_then(|uri| serde_json::from_str::<String>(uri).ok());
        if own.is_some_and(|own| own == read.uri) {
            // It borrows from the whole, so the distance of the two is where it stands.
            let at = content.as_ptr() as usize - all.as_ptr() as usize;
            out.push_str(&all[from..at]);
            out.push_str(&json::with_string_member(content, "uri", &read.asked));
            from = at + content.len();
        }
    }
    out.push_str(&all[from..]);
    Text::cut_out(out)
}

fn busy() -> ErrorData {
    let text =
        format!("this session has {CALLS_MAX} requests in flight, which is the most; try again when some have ended");
    ErrorData::internal_error(text, None)
}

/// Hidden or unknown, the client is told the same; the code is that of revision 2026-07-28 and of tools.
fn refused(denied: Denied) -> ErrorData {
    ErrorData::invalid_params(denied.to_string(), None)
}

fn failed(error: CallError) -> ErrorData {
    match error {
        CallError::Connection(ConnectionError::Server { code, message, data, .. }) => {
            ErrorData::new(ErrorCode(code), message, data)
        }
        CallError::Denied(denied) => refused(denied),
        error => ErrorData::internal_error(error.to_string(), None),
    }
}
