//! Messages of a server, on their way to and from rmcp: rmcp keeps request ids and sessions, the texts stay texts.
//!
//! `raw` hands every result on as it stands; `stdio`, `streamable`, `sse` and `websocket` carry messages, all but the first
//! with what `remote` and `events` know of HTTP; `tap` stands between them and rmcp and takes what must stay in order.

mod events;
pub(crate) mod line;
pub(crate) mod mirror;
pub(crate) mod raw;
pub(crate) mod remote;
pub(crate) mod sse;
pub(crate) mod stdio;
pub(crate) mod streamable;
pub(crate) mod tap;
pub(crate) mod websocket;

/// Longest message that is taken from a server, in bytes.
pub const MESSAGE_MAX: usize = 16 * 1024 * 1024;
