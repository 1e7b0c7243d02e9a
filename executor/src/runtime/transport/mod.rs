//! Messages of a server, on their way to and from rmcp: rmcp keeps the lifecycle, the texts stay texts.
//!
//! `raw` hands every result on as it stands, `stdio` and `http` carry messages, `tap` stands between them and rmcp and
//! takes what must stay in order.

pub(crate) mod http;
mod line;
pub(crate) mod raw;
mod sse;
pub(crate) mod stdio;
pub(crate) mod tap;

/// Longest message that is taken from a server, in bytes.
pub const MESSAGE_MAX: usize = 16 * 1024 * 1024;
