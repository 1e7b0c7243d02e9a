use std::collections::BTreeMap;

use super::*;
use crate::core::catalog::tests::plan;

/// The task of the one server of a config, and what it tells.
fn task(config: &str) -> (ServerTask, mpsc::Receiver<Report>, impl Sized) {
    let plan = plan(config);
    let begin = Begin {
        instance: 1,
        server: Arc::new(plan.servers[0].clone()),
        enabled: true,
        unmet: None,
        context: Arc::new(Context::new(BTreeMap::new(), "/")),
        terms: Terms::default(),
        slots: Slots::new(plan.concurrency),
        calls: TaskTracker::new(),
        tail: Tail::default(),
        after: Vec::new(),
    };
    let (commands, inbox) = mpsc::channel(16);
    let (stop, stopped) = watch::channel(None);
    let (report_to, reports) = mpsc::channel(16);
    (ServerTask::new(begin, inbox, stopped, report_to), reports, (commands, stop))
}

/// The clock stands still while there is anything to do, so that an hour passes only for one who rests.
#[tokio::test(start_paused = true)]
async fn a_server_that_failed_rests() {
    let (task, mut reports, _held) = task("mcp_servers: [{ name: a, command: no-such-command }]");
    let running = tokio::spawn(task.run());
    while !matches!(reports.recv().await.unwrap().state, State::Failed { .. }) {}
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!running.is_finished());
    running.abort();
}
