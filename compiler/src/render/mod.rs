//! Diagnostics → text for people ([`human`]) and for programs ([`json`], [`sarif`], [`github`]).
//!
//! Renderers only lay out; all wording is in the diagnostics.

mod address;
mod excerpt;
mod github;
mod human;
mod json;
mod sarif;

pub use github::github;
pub use human::{Human, human};
pub use json::json;
pub use sarif::sarif;

use crate::diagnostic::Diagnostic;
use crate::source::SourceMap;

/// One file of a run over several, for the renderers that report on all of them at once.
#[derive(Clone, Copy, Debug)]
pub enum Checked<'a> {
    /// It was read.
    Read {
        /// What was found.
        diagnostics: &'a [Diagnostic],
        /// The texts that the diagnostics point into.
        texts: &'a SourceMap,
    },
    /// It could not be read.
    Unreadable {
        /// As the user named it.
        path: &'a str,
        /// One sentence that names it too.
        reason: &'a str,
    },
}

#[cfg(test)]
mod tests;
