//! Notices that files may have changed: by the system's events, through their directories, so that rename-and-replace, a retargeted symlink and
//! a swapped `..data` all count; on Linux also a directory further up that is replaced by another. What really changed is
//! for the reader to find out.

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
    /// Those that are watched.
    watched: BTreeSet<PathBuf>,
    seen: Arc<Mutex<Seen>>,
    events: mpsc::Receiver<()>,
}

/// What is of interest, and what became of it.
#[derive(Debug, Default)]
struct Seen {
    /// The directories in which everything counts.
    directories: BTreeSet<PathBuf>,
    /// These directories and all above them, each of which may be replaced by another one.
    ways: BTreeSet<PathBuf>,
    /// What has been moved or removed since the last look. A watch goes with its directory, and not with the name.
    gone: BTreeSet<PathBuf>,
}

impl Seen {
    /// Whether an event may make a file another one.
    fn take(&mut self, event: Event) -> bool {
        // Our own reading is an access; reacting to it would never end.
        if matches!(event.kind, EventKind::Access(_)) {
            return false;
        }
        let goes = matches!(event.kind, EventKind::Remove(_) | EventKind::Modify(ModifyKind::Name(_)));
        let is_replaced = |path: &PathBuf| (goes || event.kind.is_create()) && self.ways.contains(path);
        let is_near = |path: &Path| self.directories.contains(path);
        let counts = |path: &PathBuf| is_near(path) || path.parent().is_some_and(is_near) || is_replaced(path);
        // Without a path it says that events were lost.
        let matters = event.paths.is_empty() || event.paths.iter().any(counts);
        if goes && matters {
            self.gone.extend(event.paths);
        }
        matters
    }
}

impl Events {
    fn new(files: &[PathBuf]) -> notify::Result<Self> {
        // One waiting notice stands for any number of them.
        let (sender, events) = mpsc::channel(1);
        let seen = Arc::<Mutex<Seen>>::default();
        let sees = seen.clone();
        let notify = notify::recommended_watcher(move |event: notify::Result<Event>| {
            let Ok(event) = event else { return };
            if sees.lock().unwrap_or_else(PoisonError::into_inner).take(event) {
                let _already_waiting = sender.try_send(());
            }
        })?;
        let mut watcher = Self { notify, watched: BTreeSet::new(), seen, events };
        watcher.watch(files)?;
        Ok(watcher)
    }

    fn watch(&mut self, files: &[PathBuf]) -> notify::Result<bool> {
        let wanted: BTreeSet<_> = files.iter().flat_map(|file| directories(file)).collect();
        let ways = ways(&wanted);
        let above: BTreeSet<_> = ways.iter().filter_map(|way| way.parent()).map(Path::to_owned).collect();
        let gone = {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            (seen.directories, seen.ways) = (wanted.clone(), ways);
            std::mem::take(&mut seen.gone)
        };
        let notify = &mut self.notify;
        self.watched.retain(|directory| {
            let is_gone = directory.ancestors().any(|way| gone.contains(way));
            let is_watched = !is_gone && (wanted.contains(directory) || above.contains(directory));
            if !is_watched {
                // A directory that was deleted is no longer watched anyway.
                let _gone = notify.unwatch(directory);
            }
            is_watched
        });
        let mut is_more = false;
        for new in wanted {
            if !self.watched.contains(&new) {
                self.notify.watch(&new, RecursiveMode::NonRecursive)?;
                self.watched.insert(new);
                is_more = true;
            }
        }
        for new in above {
            // Not every directory up there can be read.
            if !self.watched.contains(&new) && self.notify.watch(&new, RecursiveMode::NonRecursive).is_ok() {
                self.watched.insert(new);
            }
        }
        Ok(is_more)
    }

    async fn changed(&mut self) -> bool {
        burst(&mut self.events).await
    }
}

/// These directories and all above them that are watched by their names. Nobody swaps what lies in the root; and other
/// systems than Linux would tell of everything below.
fn ways(directories: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let is_watched = |way: &&Path| cfg!(target_os = "linux") && way.parent().is_some_and(|at| at.parent().is_some());
    directories.iter().flat_map(|directory| directory.ancestors().filter(is_watched)).map(Path::to_owned).collect()
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

    #[test]
    #[cfg(target_os = "linux")]
    fn far_above_only_what_replaces_a_directory_counts() {
        use notify::event::{CreateKind, DataChange, MetadataKind, RemoveKind, RenameMode};

        let directories = BTreeSet::from(["/srv/app/conf".into()]);
        let ways = ways(&directories);
        assert_eq!(ways, BTreeSet::from(["/srv/app".into(), "/srv/app/conf".into()]));
        let mut seen = Seen { directories, ways, gone: BTreeSet::new() };
        let mut counts = |kind, path: &str| seen.take(Event::new(kind).add_path(path.into()));
        let (create, remove) = (EventKind::Create(CreateKind::Any), EventKind::Remove(RemoveKind::Any));
        let written = EventKind::Modify(ModifyKind::Data(DataChange::Any));
        let touched = EventKind::Modify(ModifyKind::Metadata(MetadataKind::Any));
        let renamed = EventKind::Modify(ModifyKind::Name(RenameMode::Any));
        for kind in [create, remove, written, renamed] {
            assert!(counts(kind, "/srv/app/conf/config.yml"), "{kind:?}");
            assert!(!counts(kind, "/srv/app/log.txt") && !counts(kind, "/srv/other"), "{kind:?}");
        }
        for kind in [create, remove, renamed] {
            assert!(counts(kind, "/srv/app"), "{kind:?}");
        }
        assert!(!counts(touched, "/srv/app"));
        assert!(seen.take(Event::new(EventKind::Other)), "events were lost");
        assert!(seen.gone.contains(Path::new("/srv/app")) && !seen.gone.contains(Path::new("/srv/other")));
    }
}
