//! Files changed → a new program, or a report of why not. A bad file changes nothing.

use std::path::PathBuf;

use mcplan_compiler::json;

use super::executor::Executor;
use super::signals::Signals;
use super::supervisor::Program;
use super::watcher::Watcher;
use crate::event::Event;

/// What the files say at one moment.
pub struct Loaded {
    /// The program, or the report of what is wrong.
    pub program: Result<Program, String>,
    /// Every file that was read or looked for.
    pub files: Vec<PathBuf>,
}

/// Follows the files of a program until nothing can change any more.
///
/// `load` reads them; SIGHUP has them read too.
pub async fn follow(
    executor: Executor,
    mut watcher: Watcher,
    load: impl Fn() -> Loaded + Send + Sync,
    mut signals: Signals,
) {
    let mut judged = Judged::default();
    judged.serves(&executor);
    loop {
        tokio::select! {
            more = watcher.changed() => if !more { return },
            () = signals.reload() => judged.rejected = None,
        }
        let loaded = load();
        if let Err(error) = watcher.watch(&loaded.files) {
            tracing::warn!(%error, "some files are no longer watched");
        }
        match loaded.program {
            Err(report) => {
                // The same report again is no news: an editor writes a file more than once.
                if judged.rejected.as_ref() != Some(&report) {
                    Event::PlanRejected { diagnostics: report.clone() }.log();
                    judged.rejected = Some(report);
                }
            }
            Ok(program) => {
                judged.rejected = None;
                let digest = digest(&program);
                if judged.serving != digest && executor.reload(program).await.is_some() {
                    judged.serving = digest;
                }
            }
        }
    }
}

/// What was decided last.
#[derive(Default)]
struct Judged {
    serving: String,
    rejected: Option<String>,
}

impl Judged {
    fn serves(&mut self, executor: &Executor) {
        self.serving = executor.program_digest();
    }
}

/// Equal for programs that would run alike, whatever the files' bytes are.
pub(super) fn digest(program: &Program) -> String {
    let lock = program.lock.as_ref().map(|lock| lock.text()).unwrap_or_default();
    json::digest(format!("{}\n{lock}", program.plan.text()).as_bytes())
}
