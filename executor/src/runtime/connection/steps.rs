//! The steps on the way to a connection, for the one who wants to know how long each takes.

use std::cell::RefCell;

use tokio::time::Instant;

use super::error::Step;

tokio::task_local! {
    /// Set only while somebody watches, so that the way itself need not know of it.
    static STEPS: RefCell<Vec<(Step, Instant)>>;
}

/// Runs what connects a server, and tells when it came to each step.
pub async fn watched<T>(connecting: impl Future<Output = T>) -> (T, Vec<(Step, Instant)>) {
    let watching = async {
        let done = connecting.await;
        (done, STEPS.with(RefCell::take))
    };
    STEPS.scope(RefCell::default(), watching).await
}

/// Notes that a step begins.
pub(super) fn tell(step: Step) {
    // Nobody watches, as a rule.
    let _unwatched = STEPS.try_with(|steps| steps.borrow_mut().push((step, Instant::now())));
}
