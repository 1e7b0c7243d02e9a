//! What the executor decides, without IO: time, chance and ids come in as arguments, effects go out as values.

pub mod activation;
pub mod baseline;
pub mod caller;
pub mod catalog;
pub mod coalesce;
pub mod decisions;
pub mod diff;
pub mod era;
pub mod expect;
pub mod gate;
pub mod lifecycle;
pub mod meta;
pub mod offers;
pub mod prompt;
pub mod reconcile;
pub mod results;
pub mod search;
pub mod session;
pub mod snapshot;
pub mod sound;
pub mod status;
pub mod tokens;
pub mod uri_template;
pub mod written;
