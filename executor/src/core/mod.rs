//! What the executor decides, without IO: time, chance and ids come in as arguments, effects go out as values.

pub mod gate;
pub mod prompt;
pub mod results;
pub mod search;
pub mod tokens;
