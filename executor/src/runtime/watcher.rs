//! Notices that files may have changed: by the system's events, through their directories, so that rename-and-replace, a retargeted symlink and
//! a swapped `..data` all count. What really changed is for the reader to find out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::ModifyKind;
use notify::{Event, EventKind, RecursiveMode, Watcher as _};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::poll::Poll;

/// Quiet that ends a burst of changes.
pub(super) const DEBOUNCE: Duration = Duration::from_millis(200);
/// The longest that a burst is waited for: something else in the directory may be written to all the time.
pub(super) const LONGEST: Duration = Duration::from_secs(2);

/// How changes are noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The system tells.
    Events,
    /// By looking every two seconds.
    Poll,
}

/// Watches some files.
pub struct Watcher(Notices);

enum Notices {
    Events(Events),
    Poll(Poll),
}

impl Watcher {
    /// Watches `files`, whether they are there or not.
    ///
    /// # Errors
    /// When the system gives no watch.
    pub fn new(files: &[PathBuf], way: Way) -> notify::Result<Self> {
        Ok(Self(match way {
            Way::Events => Notices::Events(Events::new(files)?),
            Way::Poll => Notices::Poll(Poll::new(files)),
        }))
    }

    /// Watches these files from now on. Symlinks are followed anew. Whether places came to it, in which something may
    /// have changed before.
    ///
    /// # Errors
    /// When the system gives no watch.
    pub fn watch(&mut self, files: &[PathBuf]) -> notify::Result<bool> {
        match &mut self.0 {
            Notices::Events(events) => events.watch(files),
            Notices::Poll(poll) => Ok(poll.watch(files)),
        }
    }

    /// Waits until something happened and it has been quiet for 200 ms, or 2 s have passed; false when nothing will
    /// happen any more.
    pub async fn changed(&mut self) -> bool {
        match &mut self.0 {
            Notices::Events(events) => events.changed().await,
            Notices::Poll(poll) => {
                poll.changed().await;
                true
            }
        }
    }
}

/// Watches the directories of some files.
struct Events {
    notify: notify::RecommendedWatcher,
    directories: BTreeSet<PathBuf>,
    /// What has been moved or removed since the last look. A watch goes with its directory, and not with the name.
    gone: Arc<Mutex<BTreeSet<PathBuf>>>,
    events: mpsc::Receiver<()>,
}

impl Events {
    fn new(files: &[PathBuf]) -> notify::Result<Self> {
        // One waiting notice stands for any number of them.
        let (sender, events) = mpsc::channel(1);
        let gone = Arc::<Mutex<BTreeSet<_>>>::default();
        let goes = gone.clone();
        let notify = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let Ok(event) = event else { return };
            // Our own reading is an access; reacting to it would never end.
            if matches!(event.kind, EventKind::Access(_)) {
                return;
            }
            if matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_))) {
                goes.lock().unwrap_or_else(PoisonError::into_inner).extend(event.paths);
            }
            let _already_waiting = sender.try_send(());
        })?;
        let mut watcher = Self { notify, directories: BTreeSet::new(), gone, events };
        watcher.watch(files)?;
        Ok(watcher)
    }

    fn watch(&mut self, files: &[PathBuf]) -> notify::Result<bool> {
        let wanted: BTreeSet<_> = files.iter().flat_map(|file| directories(file)).collect();
        let gone = std::mem::take(&mut *self.gone.lock().unwrap_or_else(PoisonError::into_inner));
        let notify = &mut self.notify;
        self.directories.retain(|directory| {
            let is_watched = wanted.contains(directory) && !gone.contains(directory);
            if !is_watched {
                // A directory that was deleted is no longer watched anyway.
                let _gone = notify.unwatch(directory);
            }
            is_watched
        });
        let mut is_more = false;
        for new in wanted {
            if !self.directories.contains(&new) {
                self.notify.watch(&new, RecursiveMode::NonRecursive)?;
                self.directories.insert(new);
                is_more = true;
            }
        }
        Ok(is_more)
    }

    async fn changed(&mut self) -> bool {
        burst(&mut self.events).await
    }
}

/// Waits for the end of a burst of events; false when there won't be any more.
async fn burst(events: &mut mpsc::Receiver<()>) -> bool {
    if events.recv().await.is_none() {
        return false;
    }
    let latest = Instant::now() + LONGEST;
    while let Ok(Some(())) = timeout_at(latest.min(Instant::now() + DEBOUNCE), events.recv()).await {}
    true
}

/// The directories in which a change may make `file` another one: its own, those of every symlink on the way to it,
/// also of one in place of a directory, and where something is missing the nearest that is there.
pub(super) fn directories(file: &Path) -> Vec<PathBuf> {
    let (mut found, mut ways) = (Vec::new(), vec![file.to_owned()]);
    // There are few links; a circle ends here.
    for _ in 0..16 {
        let Some(way) = ways.pop() else { break };
        found.extend(way.ancestors().skip(1).find_map(real));
        for at in way.ancestors() {
            let (Some(directory), Ok(target)) = (at.parent(), std::fs::read_link(at)) else { continue };
            // Nobody swaps what lies in the root, and much else happens there.
            if directory.parent().is_some() || directory.as_os_str().is_empty() {
                found.extend(real(directory));
                ways.push(directory.join(target));
            }
        }
    }
    found
}

/// A directory without links in its path, if it is one.
fn real(path: &Path) -> Option<PathBuf> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    path.canonicalize().ok().filter(|path| path.is_dir())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long after its first event a burst counts, of events this long apart.
    async fn burst_of(events: u32, apart: Duration) -> Duration {
        let (sender, mut receiver) = mpsc::channel(1);
        let began = Instant::now();
        let writing = tokio::spawn(async move {
            for _ in 0..events {
                let _already_waiting = sender.try_send(());
                tokio::time::sleep(apart).await;
            }
            // Open, as the system's own is.
            std::future::pending::<()>().await;
        });
        assert!(burst(&mut receiver).await);
        writing.abort();
        began.elapsed()
    }

    /// What is written in pieces is read when it has been quiet for a moment, and in any case some time.
    #[tokio::test(start_paused = true)]
    async fn a_burst_is_one_change_and_never_waited_for_without_end() {
        let ms = Duration::from_millis;
        assert_eq!(burst_of(1, ms(0)).await, ms(200));
        assert_eq!(burst_of(5, ms(190)).await, ms(4 * 190 + 200));
        assert_eq!(burst_of(2, ms(210)).await, ms(200), "two changes, each on its own");
        assert_eq!(burst_of(1000, ms(50)).await, ms(2000));
    }
}
