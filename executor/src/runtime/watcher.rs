//! Notices that files may have changed: by the system's events, through their directories, so that rename-and-replace, a retargeted symlink and
//! a swapped `..data` all count. What really changed is for the reader to find out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

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
    events: mpsc::Receiver<()>,
}

impl Events {
    fn new(files: &[PathBuf]) -> notify::Result<Self> {
        // One waiting notice stands for any number of them.
        let (sender, events) = mpsc::channel(1);
        let notify = notify::recommended_watcher(move |event: notify::Result<Event>| {
            // Our own reading is an access; reacting to it would never end.
            if event.is_ok_and(|event| !matches!(event.kind, EventKind::Access(_))) {
                let _already_waiting = sender.try_send(());
            }
        })?;
        let mut watcher = Self { notify, directories: BTreeSet::new(), events };
        watcher.watch(files)?;
        Ok(watcher)
    }

    fn watch(&mut self, files: &[PathBuf]) -> notify::Result<bool> {
        let wanted: BTreeSet<_> = files.iter().flat_map(|file| directories(file)).collect();
        for gone in self.directories.difference(&wanted) {
            // A directory that was deleted is no longer watched anyway.
            let _gone = self.notify.unwatch(gone);
        }
        self.directories.retain(|directory| wanted.contains(directory));
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
        if self.events.recv().await.is_none() {
            return false;
        }
        let latest = Instant::now() + LONGEST;
        while let Ok(Some(())) = timeout_at(latest.min(Instant::now() + DEBOUNCE), self.events.recv()).await {}
        true
    }
}

/// The directory of a path as it was given, and of everything that it leads to through symlinks.
pub(super) fn directories(file: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut at = file.to_owned();
    // A chain of links is short; a circle ends here.
    for _ in 0..16 {
        let parent = match at.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        if parent.is_dir() {
            found.push(parent.clone());
        }
        // `..data/config.yml` hides its link in a directory of the path.
        if let Ok(real) = parent.canonicalize()
            && real.is_dir()
        {
            found.push(real);
        }
        match std::fs::read_link(&at) {
            Ok(target) => at = parent.join(target),
            Err(_) => break,
        }
    }
    found
}
