//! A connection that is being made, and what is to be closed of a server.

use futures::future::BoxFuture;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::core::lifecycle::Epoch;
use crate::runtime::connection::{ConnectError, Connection};
use crate::runtime::slots::Connected;

/// A connection that is being made.
pub(super) struct Connecting {
    pub(super) epoch: Epoch,
    pub(super) result: BoxFuture<'static, Result<Connected, ConnectError>>,
    pub(super) give_up: CancellationToken,
}

/// What is to be closed.
pub(super) struct Closing {
    pub(super) connecting: Option<Connecting>,
    pub(super) connection: Option<Connection>,
}

impl Closing {
    /// Comes back when nothing of it is left, at the latest about then.
    pub(super) async fn end(self, by: Instant) {
        if let Some(connecting) = self.connecting {
            connecting.give_up.cancel();
            // It may have succeeded in the same moment.
            if let Ok(Ok(connected)) = tokio::time::timeout_at(by, connecting.result).await {
                connected.connection.close(by).await;
            }
        }
        if let Some(connection) = self.connection {
            connection.close(by).await;
        }
    }
}
