//! The files that a config is compiled from, on disk.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use mcplan_compiler::document::MAX_BYTES;
use mcplan_compiler::source::{ReadError, Sources};

/// Files on disk: the config by its own path, everything else relative to its directory.
pub(super) struct DiskSources<'a> {
    /// The files that aren't relative to the directory, as they are shown and as they are opened; the config first.
    pub named: Vec<(String, PathBuf)>,
    pub directory: &'a Path,
    /// What to read instead of the config's own text.
    pub edited: Option<&'a str>,
}

impl Sources for DiskSources<'_> {
    fn read(&self, path: &str) -> Result<Vec<u8>, ReadError> {
        if let Some(text) = self.edited.filter(|_| path == self.named[0].0) {
            return Ok(text.as_bytes().to_vec());
        }
        let on_disk = self.on_disk(path);
        // More than is read at most is no longer of interest: a device has no end.
        let whole = std::fs::File::open(&on_disk).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
        });
        whole.map_err(|error| why(&error))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>, ReadError> {
        let entries = std::fs::read_dir(self.directory.join(home(directory))).map_err(|_| ReadError::Missing)?;
        Ok(entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect())
    }

    fn same(&self, one: &str, other: &str) -> bool {
        let real = |path: &str| {
            let path = self.on_disk(path);
            path.canonicalize().unwrap_or(path)
        };
        one == other || real(one) == real(other)
    }
}

impl DiskSources<'_> {
    /// Where a path leads.
    fn on_disk(&self, path: &str) -> PathBuf {
        let named = self.named.iter().find(|(shown, _)| shown == path);
        named.map_or_else(|| self.directory.join(home(path)), |(_, path)| path.clone())
    }
}

/// Why a file could not be read, in our words where they are plainer than the system's.
pub(super) fn why(error: &std::io::Error) -> ReadError {
    match error.kind() {
        std::io::ErrorKind::NotFound => ReadError::Missing,
        std::io::ErrorKind::IsADirectory => ReadError::Failed("it is a directory".to_owned()),
        _ => ReadError::Failed(error.to_string()),
    }
}

/// `~/x` below the home directory; everything else as it is.
pub(super) fn home(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}
