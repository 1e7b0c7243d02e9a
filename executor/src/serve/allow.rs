//! The gate, as a running plan asks it.

use std::sync::Arc;

use crate::core::gate::{Allowed, Asked, Call, Denied, Reason, gate};
use crate::core::snapshot::Snapshot;
use crate::event::Event;
use crate::runtime::executor::Executor;
use crate::runtime::view::View;

/// Asks the gate; a name that nobody has may be one of a server that isn't known yet, so that is waited for. `sees`
/// narrows a moment to whoever asks; the moment that decided is given back.
///
/// # Errors
/// When the call may not be made, which is logged.
pub(super) async fn allow(
    executor: &Executor,
    asked: Asked,
    sees: impl Fn(&Arc<Snapshot>) -> Arc<Snapshot>,
) -> Result<(Arc<Snapshot>, Allowed<Call>), Denied> {
    let now = || sees(&executor.view().snapshot);
    let snapshot = now();
    let denied = match gate(&snapshot.catalog, asked.clone()) {
        Ok(allowed) => return Ok((snapshot, allowed)),
        Err(denied) => denied,
    };
    if denied.reason != Reason::Unknown || snapshot.settled() {
        return Err(told(denied, &snapshot));
    }
    let is_somebodys = |view: &View| {
        let catalog = &view.snapshot.catalog;
        catalog.tool(&asked.name).is_some() || catalog.hidden(&asked.name).is_some()
    };
    executor.settled_or(is_somebodys).await;
    let snapshot = now();
    match gate(&snapshot.catalog, asked) {
        Ok(allowed) => Ok((snapshot, allowed)),
        Err(denied) => Err(told(denied, &snapshot)),
    }
}

/// The agent hears the same words for hidden and unknown; the log tells which it was.
fn told(denied: Denied, seen: &Snapshot) -> Denied {
    Event::denied(&denied, seen).log();
    denied
}
