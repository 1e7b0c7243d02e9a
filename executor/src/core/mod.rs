//! What the executor decides, without IO: time, chance and ids come in as arguments, effects go out as values.

pub mod activation;
pub mod gate;
pub mod prompt;
pub mod search;
pub mod tokens;
