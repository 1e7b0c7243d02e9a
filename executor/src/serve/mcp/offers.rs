//! Prompts and resources of servers: listed, fetched, read.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::ErrorCode;
use serde_json::{Map, Value};

use super::attached::Attached;
use super::call::{Asker, passed};
use super::handler::{CALLS_MAX, Handler};
use super::listing::{Kind, digest, locked};
use super::request::Params;
use crate::core::gate::{Asked, Denied, gate_read};
use crate::core::results::Text;
use crate::core::snapshot::Snapshot;
use crate::runtime::connection::{CallError as ConnectionError, Client};
use crate::runtime::executor::CallError;
use crate::serve::allow::{allow_prompt, decided};

/// The texts of the prompts that are listed.
fn prompts(snapshot: &Snapshot) -> Vec<Arc<str>> {
    snapshot.catalog.offers().prompts().iter().map(|prompt| prompt.text().into()).collect()
}

fn resources(snapshot: &Snapshot) -> Vec<Arc<str>> {
    snapshot.catalog.offers().resources().map(|resource| resource.text().into()).collect()
}

fn templates(snapshot: &Snapshot) -> Vec<Arc<str>> {
    snapshot.catalog.offers().templates().map(|template| template.text().into()).collect()
}

/// Digest of the lists of that kind.
pub(super) fn visible(snapshot: &Snapshot, kind: Kind) -> String {
    match kind {
        Kind::Prompts => digest(&prompts(snapshot)),
        _ => digest(&[resources(snapshot), templates(snapshot)].concat()),
    }
}

impl Handler {
    pub(super) async fn prompts(&self, is_first: bool) -> Vec<Arc<str>> {
        self.wait_once().await;
        prompts(&self.noted(Kind::Prompts, is_first))
    }

    pub(super) async fn resources(&self, is_first: bool) -> Vec<Arc<str>> {
        self.wait_once().await;
        // Which ones there are no lock can know.
        self.executor.heard().await;
        resources(&self.noted(Kind::Resources, is_first))
    }

    pub(super) async fn templates(&self, is_first: bool) -> Vec<Arc<str>> {
        self.wait_once().await;
        templates(&self.noted(Kind::Resources, is_first))
    }

    /// This moment, noted as the one whose list of that kind the client knows.
    fn noted(&self, kind: Kind, is_first: bool) -> Arc<Snapshot> {
        let mut known = locked(&self.known);
        let snapshot = self.snapshot();
        if is_first {
            known.set(kind, visible(&snapshot, kind));
        }
        snapshot
    }

    pub(super) async fn get_prompt(&self, params: Params, asker: &Asker) -> Result<Text, ErrorData> {
        let _in_flight = self.calls.try_acquire().map_err(|_| busy())?;
        let Params { name, arguments, meta, input } = params;
        let client = self.client_of(&meta, asker);
        let asked = Asked { name, arguments, meta: passed(meta), input };
        let allowed = allow_prompt(&self.executor, asked, |snapshot| self.session().sees(snapshot)).await;
        self.executor.invoke(&allowed.map_err(refused)?, client).await.map_err(failed)
    }

    pub(super) async fn read_resource(&self, params: Params, asker: &Asker) -> Result<Text, ErrorData> {
        let _in_flight = self.calls.try_acquire().map_err(|_| busy())?;
        let Params { name, arguments: _, meta, input } = params;
        let client = self.client_of(&meta, asker);
        let asked = Asked { name, arguments: Map::new(), meta: passed(meta), input };
        let caller = self.session().caller().clone();
        let decide = |snapshot: &Snapshot| gate_read(&snapshot.plan, &snapshot.catalog, &caller, asked.clone());
        let known = async {
            self.wait_once().await;
            self.executor.heard().await;
        };
        let sees = |snapshot: &Arc<Snapshot>| self.session().sees(snapshot);
        let (_, allowed) = decided(&self.executor, sees, decide, known).await.map_err(refused)?;
        self.executor.read(&allowed, client).await.map_err(failed)
    }

    fn client_of(&self, meta: &Map<String, Value>, asker: &Asker) -> Client {
        let attached = Attached::new(asker.peer.clone(), meta, self.session().workspace());
        Client { progress: None, cancel: asker.cancel.clone(), answers: Some(Arc::new(attached)) }
    }
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
