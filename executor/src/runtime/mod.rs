//! The async side of the executor, thin: it turns the world into events and decisions of `core` into effects.

pub mod connection;
pub mod environment;
pub mod process;
pub mod secrets;
pub mod transport;
