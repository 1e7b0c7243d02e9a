//! The async side of the executor, thin: it turns the world into events and decisions of `core` into effects.

pub mod connection;
pub mod environment;
pub mod executor;
mod flights;
mod memory;
pub mod observe;
mod outcome;
pub mod places;
pub mod plugins;
mod poll;
pub mod process;
pub mod program;
mod reach;
pub mod reload;
mod seat;
pub mod secrets;
mod server;
pub mod signals;
mod slots;
pub mod supervisor;
pub mod transport;
pub mod view;
pub mod watcher;
