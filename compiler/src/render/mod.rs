//! Diagnostics → text for people ([`human`]) and for programs ([`json`]).
//!
//! Renderers only lay out; all wording is in the diagnostics.

mod excerpt;
mod human;
mod json;

pub use human::{Human, human};
pub use json::json;

#[cfg(test)]
mod tests;
