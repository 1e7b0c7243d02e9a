//! Telling a client that its list is no longer what it was, and only then.

use rmcp::RoleServer;
use rmcp::service::Peer;

use super::handler::Handler;

/// Sends `tools/list_changed` whenever the visible list of this session becomes another one. For clients with a
/// session; others subscribe.
pub(super) async fn announce(handler: Handler, peer: Peer<RoleServer>) {
    let mut watch = handler.watch_known();
    while watch.changed().await {
        // Revisions without initialize hear of changes only through a subscription of theirs.
        if handler.is_stateless(&peer) {
            continue;
        }
        if peer.notify_tool_list_changed().await.is_err() {
            return;
        }
    }
}
