//! Word of changed lists from a server of the new era: it tells only who subscribes, as long as the subscription is open.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ErrorCode, SubscriptionFilter};
use rmcp::service::ServiceError;
use tokio::time::Instant;

use super::Inner;
use crate::core::era::Era;
use crate::runtime::transport::tap::{Kind, Notices};

/// First wait before a subscription that ended is opened again; it doubles.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// Longest wait. One that lasted longer than this was worth having.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

impl Inner {
    /// Keeps a subscription open; never ends. The notices themselves are taken by the tap, `notices` hears of what may
    /// have been missed between two subscriptions.
    pub(super) async fn listen(self: Arc<Self>, notices: Arc<Notices>) {
        let kinds = self.told_of();
        if self.era == Era::Stateless && !kinds.is_empty() {
            self.subscribe(&kinds, &notices).await;
        }
        std::future::pending().await
    }

    /// The lists of which the server says that it tells of changes.
    fn told_of(&self) -> Vec<Kind> {
        let Some(info) = self.peer.peer_info() else { return Vec::new() };
        let of = &info.capabilities;
        let tells = |kind: &Kind| match kind {
            Kind::Tools => of.tools.as_ref().and_then(|tools| tools.list_changed),
            Kind::Prompts => of.prompts.as_ref().and_then(|prompts| prompts.list_changed),
            Kind::Resources => of.resources.as_ref().and_then(|resources| resources.list_changed),
        };
        Kind::ALL.into_iter().filter(|kind| tells(kind) == Some(true)).collect()
    }

    /// Ends only when the server doesn't know subscriptions.
    async fn subscribe(&self, kinds: &[Kind], notices: &Notices) {
        let mut filter = SubscriptionFilter::new();
        for kind in kinds {
            match kind {
                Kind::Tools => filter.tools_list_changed = Some(true),
                Kind::Prompts => filter.prompts_list_changed = Some(true),
                Kind::Resources => filter.resources_list_changed = Some(true),
            }
        }
        let (mut wait, mut is_first) = (FIRST_WAIT, true);
        loop {
            let began = Instant::now();
            match self.peer.listen(filter.clone()).await {
                Ok(mut subscription) => {
                    if !std::mem::take(&mut is_first) {
                        kinds.iter().for_each(|kind| notices.change(*kind));
                    }
                    while let Ok(Some(_)) = subscription.next().await {}
                }
                Err(ServiceError::McpError(error)) if error.code == ErrorCode::METHOD_NOT_FOUND => return,
                Err(_) => {}
            }
            if began.elapsed() > LONGEST_WAIT {
                wait = FIRST_WAIT;
            }
            tokio::time::sleep(wait).await;
            wait = LONGEST_WAIT.min(wait * 2);
        }
    }
}
