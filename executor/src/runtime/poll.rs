//! Notices changed files by looking at them again and again, for file systems that tell of nothing: network and
//! overlay mounts, some containers.
//!
//! What is compared is what the files hold, and the names beside them, since a new fragment has no file to look at yet.
//! Times wouldn't do: they are as coarse as the file system likes, and two edits within one second would be one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use mcplan_compiler::document::MAX_BYTES;
use sha2::{Digest as _, Sha256};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::watcher::{DEBOUNCE, LONGEST, directories};

/// How often the files are looked at.
const EVERY: Duration = Duration::from_secs(2);

/// Looks at some files.
#[derive(Debug)]
pub(super) struct Poll {
    files: Arc<[PathBuf]>,
    seen: Vec<u8>,
    beat: Interval,
}

impl Poll {
    /// Looks at `files` from now on, whether they are there or not.
    pub(super) fn new(files: &[PathBuf]) -> Self {
        let mut beat = interval(EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { files: files.into(), seen: look(files), beat }
    }

    /// Looks at these files from now on. Whether they are others than before, in which something may have changed
    /// already.
    pub(super) fn watch(&mut self, files: &[PathBuf]) -> bool {
        let is_other = *self.files != *files;
        if is_other {
            self.files = files.into();
            self.seen = look(files);
        }
        is_other
    }

    /// Waits until something is other than it was, and stays so for a moment: a file may be seen half written. May be
    /// dropped and called again.
    pub(super) async fn changed(&mut self) {
        let mut found = loop {
            self.beat.tick().await;
            let found = self.look().await;
            if found != self.seen {
                break found;
            }
        };
        let latest = Instant::now() + LONGEST;
        while Instant::now() < latest {
            tokio::time::sleep(DEBOUNCE).await;
            let again = self.look().await;
            if std::mem::replace(&mut found, again) == found {
                break;
            }
        }
        self.seen = found;
    }

    async fn look(&self) -> Vec<u8> {
        let files = self.files.clone();
        // Such file systems may take their time. A look that failed is as good as one that saw nothing new.
        tokio::task::spawn_blocking(move || look(&files)).await.unwrap_or_else(|_| self.seen.clone())
    }
}

/// A digest of all that there is to see.
fn look(files: &[PathBuf]) -> Vec<u8> {
    let mut digest = Sha256::new();
    let mut beside: Vec<_> = files.iter().flat_map(|file| directories(file)).collect();
    beside.sort();
    beside.dedup();
    for directory in beside {
        let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_encoded_bytes()).collect();
        names.sort();
        names.iter().for_each(|name| {
            digest.update(name);
            digest.update([0]);
        });
        digest.update([0]);
    }
    for file in files {
        match read(file) {
            Some(bytes) => digest.update(Sha256::digest(bytes)),
            None => digest.update([0]),
        }
    }
    digest.finalize().to_vec()
}

/// What a file holds, as far as anyone reads it.
fn read(file: &Path) -> Option<Vec<u8>> {
    use std::io::Read as _;
    // Looked at first, because opening a pipe waits for its other end.
    if !std::fs::metadata(file).ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    std::fs::File::open(file).ok()?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_holds_counts_and_when_it_was_written_does_not() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.yml");
        let files = [file.clone(), directory.path().join("none.yml")];
        let mut seen = Vec::new();
        let mut see = |is_new: bool, what: &str| {
            let found = look(&files);
            assert_eq!(seen != found, is_new, "{what}");
            seen = found;
        };
        see(true, "for the first time");
        std::fs::write(&file, "a").unwrap();
        see(true, "it is there");
        std::fs::write(&file, "b").unwrap();
        see(true, "as long, and within the second");
        std::fs::write(&file, "b").unwrap();
        see(false, "written again");
        std::fs::write(directory.path().join("fragment.yml"), "").unwrap();
        see(true, "one more beside it");
        std::fs::remove_file(&file).unwrap();
        see(true, "it is gone");
    }
}
