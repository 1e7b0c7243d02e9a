//! Messages as lines: a version beside the message, bounded in size.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use super::message::VERSION;

/// Most bytes of a request, which may hold a call's arguments.
pub(super) const REQUEST_MAX: usize = 16 << 20;

#[derive(Serialize)]
struct Written<'a, T> {
    version: u32,
    message: &'a T,
}

#[derive(Deserialize)]
struct Read {
    version: u32,
    message: Box<RawValue>,
}

/// Why a line is no message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum LineError {
    /// The other end said nothing.
    #[error("the other end hung up")]
    Ended,
    /// More than is taken.
    #[error("it is longer than {max} bytes")]
    TooLong {
        /// Most bytes.
        max: usize,
    },
    /// Another version's.
    #[error("it is of version {0} of the control protocol, and this mcplan speaks version {VERSION}")]
    Version(u32),
    /// No message at all.
    #[error("{0}")]
    Shape(String),
}

/// Writes one message.
pub(super) async fn write<T: Serialize>(to: &mut (impl AsyncWrite + Unpin), message: &T) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(&Written { version: VERSION, message })?;
    // A result may be text of several lines between its tokens; in strings line breaks are escaped.
    line.iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
    line.push(b'\n');
    to.write_all(&line).await?;
    to.flush().await
}

/// Reads one message of at most `max` bytes.
pub(super) async fn read<T: DeserializeOwned>(
    from: &mut (impl AsyncBufRead + Unpin),
    max: usize,
) -> Result<T, LineError> {
    let mut line = Vec::new();
    let all = from.take(max as u64 + 1).read_until(b'\n', &mut line).await;
    match all {
        Ok(0) | Err(_) => return Err(LineError::Ended),
        Ok(length) if length > max => return Err(LineError::TooLong { max }),
        Ok(_) if !line.ends_with(b"\n") => return Err(LineError::Ended),
        Ok(_) => {}
    }
    let shape = |error: serde_json::Error| LineError::Shape(error.to_string());
    let read: Read = serde_json::from_slice(&line).map_err(shape)?;
    if read.version != VERSION {
        return Err(LineError::Version(read.version));
    }
    serde_json::from_str(read.message.get()).map_err(shape)
}

#[cfg(test)]
mod tests {
    use super::super::message::{Answer, Request};
    use super::*;
    use crate::core::results::Text;

    async fn said(line: &[u8], max: usize) -> Result<Request, LineError> {
        read(&mut &line[..], max).await
    }

    #[tokio::test]
    async fn a_message_is_a_line_and_comes_back_the_same() {
        let mut line = Vec::new();
        write(&mut line, &Request::Reconnect { server: "a\nb".to_owned() }).await.unwrap();
        assert_eq!(
            String::from_utf8(line.clone()).unwrap(),
            "{\"version\":1,\"message\":{\"reconnect\":{\"server\":\"a\\nb\"}}}\n"
        );
        assert_eq!(said(&line, 1000).await.unwrap(), Request::Reconnect { server: "a\nb".to_owned() });
    }

    #[tokio::test]
    async fn a_result_keeps_its_text_and_stays_on_a_line() {
        let result = Text::new("{\n  \"n\": 1.50\r\n}".to_owned()).unwrap();
        let mut line = Vec::new();
        write(&mut line, &Answer::Result(result)).await.unwrap();
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
        match read(&mut &line[..], 1000).await.unwrap() {
            Answer::Result(result) => assert_eq!(mcplan_compiler::json::compact(result.get()), "{\"n\":1.50}"),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn what_is_no_message_is_told() {
        for (line, error) in [
            (&b""[..], LineError::Ended),
            (b"{\"version\":1,\"message\":\"status\"}", LineError::Ended),
            (b"{\"version\":2,\"message\":{\"new\":true}}\n", LineError::Version(2)),
        ] {
            assert_eq!(said(line, 1000).await.unwrap_err(), error);
        }
        assert_eq!(said(&[b'x'; 40], 30).await.unwrap_err(), LineError::TooLong { max: 30 });
        for line in ["hello\n", "{}\n", "{\"version\":1,\"message\":{\"dance\":{}}}\n", "\n"] {
            assert!(matches!(said(line.as_bytes(), 1000).await.unwrap_err(), LineError::Shape(_)), "{line}");
        }
    }
}
