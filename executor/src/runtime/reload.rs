//! Files changed → a new program, or a report of why not. A bad file changes nothing.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mcplan_compiler::json;
use mcplan_compiler::lock::Notice;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, sleep, timeout};

use super::executor::Executor;
use super::memory;
use super::program::Program;
use super::signals::Signals;
use super::supervisor::Reloaded;
use super::watcher::Watcher;
use crate::event::Event;

/// How long reading may take; each plugin has ten seconds of it.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long after a reading what only reading needs is given back: starting servers and answering who waited comes first.
const REST: Duration = Duration::from_secs(1);
const STUCK: &str = "error: the files could not be read within 60 s\n  = help: one of them is a pipe to which nobody writes, or lies where nothing answers, as on a network mount that is gone";

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

/// What became of the files when they were read.
#[derive(Clone, Debug)]
pub enum Judgement {
    /// They say what is served already.
    Unchanged,
    /// They serve from now on.
    Reloaded {
        /// What happened to servers.
        reloaded: Reloaded,
        /// What a person should know of them.
        warnings: Vec<String>,
    },
    /// The old plan serves on; this is the report.
    Rejected(String),
}

/// Files that aren't what is served, because they were refused.
#[derive(Clone, Debug)]
pub struct Rejected {
    /// When.
    pub since: Instant,
    /// What is wrong with them.
    pub report: String,
}

/// The way to whoever follows the files. Clones lead to the same one.
#[derive(Clone, Debug)]
pub struct Files {
    asks: mpsc::Sender<oneshot::Sender<Judgement>>,
    rejected: watch::Receiver<Option<Rejected>>,
}

/// The other end of [`Files`]: what [`follow`] is asked, and where it tells.
#[derive(Debug)]
pub struct Followed {
    asked: mpsc::Receiver<oneshot::Sender<Judgement>>,
    rejected: watch::Sender<Option<Rejected>>,
}

impl Files {
    /// Both ends.
    pub fn new() -> (Self, Followed) {
        let (asks, asked) = mpsc::channel(16);
        let (tells, rejected) = watch::channel(None);
        (Self { asks, rejected }, Followed { asked, rejected: tells })
    }

    /// Has the files read now; `None` when nobody follows them any more.
    pub async fn read(&self) -> Option<Judgement> {
        let (reply, answer) = oneshot::channel();
        self.asks.send(reply).await.ok()?;
        answer.await.ok()
    }

    /// What was refused last, as long as it is what the files say.
    pub fn rejected(&self) -> Option<Rejected> {
        self.rejected.borrow().clone()
    }
}

/// What [`follow`] begins with.
pub struct Began {
    /// What the files said, and what serves.
    pub serving: Program,
    /// Watches them since before they were read; without one they are read when somebody asks for it, or on SIGHUP.
    pub watcher: Option<Watcher>,
    /// Whether some of them are watched only since they were read, so that they may have changed between.
    pub may_be_old: bool,
}

/// Follows the files of a program until nothing can change any more.
pub async fn follow(executor: Executor, began: Began, load: Load, mut signals: Signals, mut followed: Followed) {
    let Began { serving, mut watcher, may_be_old } = began;
    let mut judged = Judged { serving, rejected: followed.rejected };
    let mut look = may_be_old;
    let mut reply: Option<oneshot::Sender<Judgement>> = None;
    tokio::spawn(rest());
    loop {
        if look {
            let loaded = read_and_watch(&load, watcher.as_mut()).await;
            let judgement = judged.judge(&executor, loaded).await;
            tokio::spawn(rest());
            // Whoever asked may have gone.
            let _unheard = reply.take().map(|reply| reply.send(judgement));
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
            () = signals.reload() => judged.forget(),
            Some(asked) = followed.asked.recv() => {
                judged.forget();
                reply = Some(asked);
            }
        }
    }
}

async fn rest() {
    sleep(REST).await;
    memory::give_back();
}

/// Reads the files, and again as long as some of them have been watched only since.
async fn read_and_watch(load: &Load, mut watcher: Option<&mut Watcher>) -> Loaded {
    loop {
        let load = load.clone();
        // Reading and compiling may take a while, and calls go on meanwhile.
        let loading = tokio::task::spawn_blocking(move || load());
        let failed = |why: String| Loaded { program: Err(why), files: Vec::new(), warnings: Vec::new() };
        let loaded = match timeout(PATIENCE, loading).await {
            Ok(Ok(loaded)) => loaded,
            Ok(Err(error)) => return failed(error.to_string()),
            Err(_) => return failed(STUCK.to_owned()),
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
    serving: Program,
    rejected: watch::Sender<Option<Rejected>>,
}

impl Judged {
    async fn judge(&mut self, executor: &Executor, loaded: Loaded) -> Judgement {
        let emptied = || {
            let is_empty = |file: &&PathBuf| std::fs::read(file).is_ok_and(|bytes| bytes.trim_ascii().is_empty());
            loaded.files.iter().find(is_empty).map(|file| format!("error: {} is empty", file.display()))
        };
        let program = match loaded.program {
            Ok(program) => program,
            Err(report) => return self.reject(report),
        };
        if digest(&self.serving) == digest(&program) {
            self.forget();
            // A comment is no change, and moves lines all the same.
            executor.moved(program.written).await;
            return Judgement::Unchanged;
        }
        // Nobody empties a file on purpose to say that there is nothing; a full disk or a broken editor does.
        if let Some(report) = emptied() {
            return self.reject(report);
        }
        self.forget();
        match executor.reload(program.clone()).await {
            Some(reloaded) => {
                let is_locked = program.baseline.is_some();
                let before = std::mem::replace(&mut self.serving, program);
                if before.baseline.is_some() && !is_locked {
                    tracing::warn!(
                        "{}: there is no lock any more, so nothing that servers say counts as drift",
                        Notice::Gone
                    );
                }
                loaded.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                Judgement::Reloaded { reloaded, warnings: loaded.warnings }
            }
            // It is being shut down.
            None => Judgement::Unchanged,
        }
    }

    /// The same report again is no news: an editor writes a file more than once.
    fn reject(&mut self, report: String) -> Judgement {
        let is_news = self.rejected.borrow().as_ref().is_none_or(|rejected| rejected.report != report);
        if is_news {
            Event::PlanRejected { diagnostics: report.clone() }.log();
            self.rejected.send_replace(Some(Rejected { since: Instant::now(), report: report.clone() }));
        }
        Judgement::Rejected(report)
    }

    /// Asked by a person, it says so again.
    fn forget(&self) {
        self.rejected.send_if_modified(|rejected| rejected.take().is_some());
    }
}

/// Equal for programs that would run alike, whatever the files' bytes are.
pub(super) fn digest(program: &Program) -> String {
    let lock = program.baseline.as_ref().map(|baseline| baseline.lock().text()).unwrap_or_default();
    json::digest(format!("{}\n{lock}", program.plan.text()).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading that hangs is given up, so that the next one has its turn.
    #[tokio::test(start_paused = true)]
    async fn files_that_can_not_be_read_in_time_are_refused() {
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Mutex::new(wait);
        let stuck: Load = Arc::new(move || {
            let _ended = wait.lock().unwrap().recv();
            Loaded { program: Err("late".to_owned()), files: Vec::new(), warnings: Vec::new() }
        });
        let reading = tokio::spawn(async move { read_and_watch(&stuck, None).await.program });
        tokio::task::yield_now().await;
        tokio::time::advance(PATIENCE).await;
        let report = reading.await.unwrap().err().unwrap();
        assert!(report.starts_with("error: the files could not be read within 60 s"), "{report}");
        drop(end);
    }
}
