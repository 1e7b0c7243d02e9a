//! Files changed → a new program, or a report of why not. A bad file changes nothing.

use std::path::PathBuf;
use std::sync::Arc;

use mcplan_compiler::json;

use super::executor::Executor;
use super::program::Program;
use super::signals::Signals;
use super::watcher::Watcher;
use crate::event::Event;

/// What the files say at one moment.
pub struct Loaded {
    /// The program, or the report of what is wrong.
    pub program: Result<Program, String>,
    /// Every file that was read or looked for.
    pub files: Vec<PathBuf>,
    /// What a person should know of this program when it begins to serve.
    pub warnings: Vec<String>,
}

/// Reads the files.
pub type Load = Arc<dyn Fn() -> Loaded + Send + Sync>;

/// Follows the files of a program until nothing can change any more; without a watcher only SIGHUP has them read.
pub async fn follow(executor: Executor, mut watcher: Option<Watcher>, load: Load, mut signals: Signals) {
    let (serving, is_locked) = executor.began_with();
    let mut judged = Judged { serving, rejected: None, is_locked };
    // Something may have changed between the first reading and the watch.
    let mut look = watcher.is_some();
    loop {
        if look {
            let loaded = read_and_watch(&load, watcher.as_mut()).await;
            judged.judge(&executor, loaded).await;
        }
        let changed = async {
            match &mut watcher {
                Some(watcher) => watcher.changed().await,
                None => std::future::pending().await,
            }
        };
        look = true;
        tokio::select! {
            more = changed => if !more { return },
            () = signals.reload() => judged.rejected = None,
        }
    }
}

/// Reads the files, and again as long as some of them have been watched only since.
async fn read_and_watch(load: &Load, mut watcher: Option<&mut Watcher>) -> Loaded {
    loop {
        let load = load.clone();
        // Reading and compiling may take a while, and calls go on meanwhile.
        let loaded = match tokio::task::spawn_blocking(move || load()).await {
            Ok(loaded) => loaded,
            Err(error) => {
                return Loaded { program: Err(error.to_string()), files: Vec::new(), warnings: Vec::new() };
            }
        };
        match watcher.as_mut().map(|watcher| watcher.watch(&loaded.files)) {
            Some(Ok(true)) => continue,
            Some(Err(error)) => {
                tracing::warn!(%error, "some files are no longer watched; SIGHUP reads them all the same")
            }
            Some(Ok(false)) | None => {}
        }
        return loaded;
    }
}

/// What was decided last.
struct Judged {
    serving: String,
    rejected: Option<String>,
    /// Whether what serves has a lock.
    is_locked: bool,
}

impl Judged {
    async fn judge(&mut self, executor: &Executor, loaded: Loaded) {
        let emptied = || {
            let is_empty = |file: &&PathBuf| std::fs::read(file).is_ok_and(|bytes| bytes.trim_ascii().is_empty());
            loaded.files.iter().find(is_empty).map(|file| format!("error: {} is empty", file.display()))
        };
        let program = match loaded.program {
            Ok(program) => program,
            Err(report) => return self.reject(report),
        };
        let digest = digest(&program);
        if self.serving == digest {
            self.rejected = None;
            return;
        }
        // Nobody empties a file on purpose to say that there is nothing; a full disk or a broken editor does.
        if let Some(report) = emptied() {
            return self.reject(report);
        }
        self.rejected = None;
        let is_locked = program.baseline.is_some();
        if executor.reload(program).await.is_some() {
            self.serving = digest;
            if std::mem::replace(&mut self.is_locked, is_locked) && !is_locked {
                tracing::warn!("lock-gone: there is no lock any more, so nothing that servers say counts as drift");
            }
            loaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        }
    }

    /// The same report again is no news: an editor writes a file more than once.
    fn reject(&mut self, report: String) {
        if self.rejected.as_ref() != Some(&report) {
            Event::PlanRejected { diagnostics: report.clone() }.log();
            self.rejected = Some(report);
        }
    }
}

/// Equal for programs that would run alike, whatever the files' bytes are.
pub(super) fn digest(program: &Program) -> String {
    let lock = program.baseline.as_ref().map(|baseline| baseline.lock().text()).unwrap_or_default();
    json::digest(format!("{}\n{lock}", program.plan.text()).as_bytes())
}
