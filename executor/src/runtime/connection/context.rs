//! What a connection goes by besides its server's own entry.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use mcplan_compiler::lock::LockedServer;
use mcplan_compiler::plan::{Plan, Server};

use super::error::ConnectError;
use crate::core::era::Era;
use crate::runtime::secrets::{self, Sources};
use crate::runtime::transport::remote::Clients;

/// Largest bundle of certificates that is read, in bytes.
const BUNDLE_MAX: u64 = 16 * 1024 * 1024;

/// What the plan and the lock say of how a server is connected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    /// A file with further certificates that are trusted, from the main file's directory.
    pub ca_bundle: Option<String>,
    /// The era of the protocol that it is known to speak. Such a server isn't probed, unless it turns out otherwise.
    pub era: Option<Era>,
}

impl Terms {
    /// Those of `plan`, for a server of which this much is `locked`.
    pub fn of(plan: &Plan, locked: Option<&LockedServer>) -> Self {
        let era = locked.and_then(|locked| Era::of(&locked.introduction.protocol_version));
        Self { ca_bundle: plan.ca_bundle.clone(), era }
    }
}

/// What a connection needs to know besides its server.
#[derive(Debug)]
pub struct Context {
    environment: BTreeMap<String, String>,
    directory: PathBuf,
    /// What made the last HTTP clients, and the further certificates that they trust.
    clients: Mutex<Option<(Option<Vec<u8>>, Clients)>>,
}

impl Context {
    /// `environment` is our own, from which children inherit and references take their values; `directory` is the one
    /// of the main file, from which relative paths are read.
    pub fn new(environment: BTreeMap<String, String>, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        let directory = std::path::absolute(&directory).unwrap_or(directory);
        Self { environment, directory, clients: Mutex::default() }
    }

    /// With the environment of this process, as far as it is UTF-8.
    pub fn of_process(directory: impl Into<PathBuf>) -> Self {
        let utf8 = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Self::new(std::env::vars_os().filter_map(utf8).collect(), directory)
    }

    /// Whether a variable is set and not empty.
    pub fn is_set(&self, name: &str) -> bool {
        self.environment.get(name).is_some_and(|value| !value.is_empty())
    }

    /// The first variable that the server's `when.env` asks for and that is not set.
    pub fn unmet<'a>(&self, server: &'a Server) -> Option<&'a str> {
        server.when_env.iter().map(|name| name.as_ref()).find(|name: &&str| !self.is_set(name))
    }

    pub(in crate::runtime) fn sources(&self) -> Sources<'_> {
        Sources { environment: &self.environment, directory: &self.directory }
    }

    /// What makes the HTTP clients of connections that trust the same certificates. The bundle is read each time, so that a new
    /// certificate counts from the next connection on.
    ///
    /// # Errors
    /// When the bundle or the system's certificates can't be used.
    pub(super) fn clients(&self, terms: &Terms) -> Result<Clients, ConnectError> {
        let bundle = terms.ca_bundle.as_deref().map(|path| (path, secrets::absolute(path, self.sources())));
        let of_bundle = |path: &str, cause: String| ConnectError::Certificates { path: path.to_owned(), cause };
        let pem = match &bundle {
            Some((path, file)) => Some(read(file).map_err(|cause| of_bundle(path, cause))?),
            None => None,
        };
        let mut made = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, clients)) = &*made
            && *of == pem
        {
            return Ok(clients.clone());
        }
        let clients = Clients::trusting(pem.as_deref()).map_err(|cause| match &bundle {
            Some((path, _)) => of_bundle(path, cause),
            None => ConnectError::Tls { cause },
        })?;
        *made = Some((pem, clients.clone()));
        Ok(clients)
    }
}

/// A file's bytes.
fn read(file: &Path) -> Result<Vec<u8>, String> {
    // Looked at first, because opening a pipe waits for its other end.
    let about = std::fs::metadata(file).map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is no regular file".to_owned());
    }
    if about.len() > BUNDLE_MAX {
        return Err(format!("it is larger than {BUNDLE_MAX} bytes"));
    }
    std::fs::read(file).map_err(|error| error.to_string())
}
