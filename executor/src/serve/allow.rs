//! The gate, as a running plan asks it.

use std::sync::Arc;

use crate::core::gate::{Allowed, Asked, Call, Denied, Invoke, Reason, gate, gate_prompt};
use crate::core::snapshot::Snapshot;
use crate::event::Event;
use crate::runtime::executor::Executor;
use crate::runtime::view::View;

/// Asks the gate for a tool; a name that nobody has may be one of a server that isn't known yet, so that is waited for.
/// `sees` narrows a moment to whoever asks; the moment that decided is given back.
///
/// # Errors
/// When the call may not be made, which is logged.
pub(super) async fn allow(
    executor: &Executor,
    asked: Asked,
    sees: impl Fn(&Arc<Snapshot>) -> Arc<Snapshot>,
) -> Result<(Arc<Snapshot>, Allowed<Call>), Denied> {
    let is_somebodys = |view: &View| {
        let catalog = &view.snapshot.catalog;
        catalog.tool(&asked.name).is_some() || catalog.hidden(&asked.name).is_some()
    };
    let known = executor.settled_or(is_somebodys);
    decided(executor, sees, |snapshot| gate(&snapshot.catalog, asked.clone()), known).await
}

/// The same for a prompt.
///
/// # Errors
/// When it may not be fetched, which is logged.
pub(super) async fn allow_prompt(
    executor: &Executor,
    asked: Asked,
    sees: impl Fn(&Arc<Snapshot>) -> Arc<Snapshot>,
) -> Result<Allowed<Invoke>, Denied> {
    let is_somebodys = |view: &View| {
        let offers = view.snapshot.catalog.offers();
        offers.prompt(&asked.name).is_some() || offers.hidden(&asked.name).is_some()
    };
    let known = executor.settled_or(is_somebodys);
    let decide = |snapshot: &Snapshot| gate_prompt(&snapshot.catalog, asked.clone());
    Ok(decided(executor, sees, decide, known).await?.1)
}

/// Decides, and where nothing is known of it once more when `known` has come to its end.
///
/// # Errors
/// When it may not be done, which is logged.
async fn decided<T>(
    executor: &Executor,
    sees: impl Fn(&Arc<Snapshot>) -> Arc<Snapshot>,
    decide: impl Fn(&Snapshot) -> Result<Allowed<T>, Denied>,
    known: impl Future<Output = ()>,
) -> Result<(Arc<Snapshot>, Allowed<T>), Denied> {
    let now = || sees(&executor.view().snapshot);
    let mut snapshot = now();
    let mut decision = decide(&snapshot);
    if matches!(&decision, Err(denied) if denied.reason == Reason::Unknown) {
        known.await;
        snapshot = now();
        decision = decide(&snapshot);
    }
    match decision {
        Ok(allowed) => Ok((snapshot, allowed)),
        // The agent hears the same words for hidden and unknown; the log tells which it was.
        Err(denied) => {
            Event::denied(&denied, &snapshot).log();
            Err(denied)
        }
    }
}
