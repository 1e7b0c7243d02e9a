//! JSON-RPC over lines: what came in, read without trust; what goes out, one whole line at a time.

use std::io::{self, BufRead, Read as _, Write};
use std::sync::{Mutex, PoisonError};

use serde_json::{Map, Value, json};

/// Longest line that is read, in bytes. A longer one is skipped and answered with an error.
pub(super) const LINE_MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A JSON-RPC error.
#[derive(Debug, PartialEq)]
pub(super) struct RpcError {
    pub(super) code: i64,
    pub(super) message: String,
    pub(super) data: Option<Value>,
}

impl RpcError {
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// -32602: the method exists, these parameters don't fit.
    pub(super) fn parameters(message: impl Into<String>) -> Self {
        Self::new(-32602, message)
    }
}

/// One message from the client.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    Request {
        id: Value,
        method: String,
        params: Map<String, Value>,
    },
    Notification {
        method: String,
        params: Map<String, Value>,
    },
    /// An answer; nothing was asked, so there is nothing to do.
    Reply,
    /// Something else; `id` is null when it could not be read.
    Malformed {
        id: Value,
        error: RpcError,
    },
}

/// A line of input.
pub(super) enum Line {
    Bytes(Vec<u8>),
    TooLong,
    End,
}

/// Reads up to the next line feed.
///
/// # Errors
/// Those of `input`.
pub(super) fn read_line(input: &mut impl BufRead) -> io::Result<Line> {
    let mut line = Vec::new();
    input.by_ref().take(LINE_MAX_BYTES).read_until(b'\n', &mut line)?;
    if line.is_empty() {
        return Ok(Line::End);
    }
    if line.last() == Some(&b'\n') || (line.len() as u64) < LINE_MAX_BYTES {
        return Ok(Line::Bytes(line));
    }
    input.skip_until(b'\n')?;
    Ok(Line::TooLong)
}

/// The messages of a line: one, several (a batch, as revision 2025-03-26 has them) or none (a blank line).
pub(super) fn parse(line: &[u8]) -> Vec<Incoming> {
    if line.trim_ascii().is_empty() {
        return Vec::new();
    }
    match serde_json::from_slice(line) {
        Ok(Value::Array(items)) if !items.is_empty() => items.into_iter().map(message).collect(),
        Ok(value) => vec![message(value)],
        Err(error) => vec![malformed(Value::Null, -32700, format!("this is not JSON: {error}"))],
    }
}

fn malformed(id: Value, code: i64, message: impl Into<String>) -> Incoming {
    Incoming::Malformed { id, error: RpcError::new(code, message) }
}

fn message(value: Value) -> Incoming {
    let Value::Object(mut object) = value else {
        return malformed(Value::Null, -32600, "a message must be an object");
    };
    let id = object.remove("id");
    let known = id.clone().filter(|id| id.is_string() || id.is_number());
    if object.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return malformed(known.unwrap_or_default(), -32600, "`jsonrpc` must be \"2.0\"");
    }
    if object.contains_key("result") || object.contains_key("error") {
        return Incoming::Reply;
    }
    let Some(Value::String(method)) = object.remove("method") else {
        return malformed(known.unwrap_or_default(), -32600, "`method` must be a string");
    };
    let params = match object.remove("params") {
        Some(Value::Object(params)) => params,
        None => Map::new(),
        Some(_) => return malformed(known.unwrap_or_default(), -32602, "`params` must be an object"),
    };
    match (id, known) {
        (None, _) => Incoming::Notification { method, params },
        (Some(_), Some(id)) => Incoming::Request { id, method, params },
        (Some(_), None) => malformed(Value::Null, -32600, "`id` must be a string or a number"),
    }
}

/// Where answers go. Whole lines only, whoever writes.
pub(super) struct Output<W>(Mutex<W>);

impl<W: Write> Output<W> {
    pub(super) fn new(output: W) -> Self {
        Self(Mutex::new(output))
    }

    pub(super) fn answer(&self, id: &Value, result: Result<Value, RpcError>) -> io::Result<()> {
        match result {
            Ok(result) => self.line(&json!({ "jsonrpc": "2.0", "id": id, "result": result })),
            Err(RpcError { code, message, data }) => {
                let mut error = json!({ "code": code, "message": message });
                if let Some(data) = data {
                    error["data"] = data;
                }
                self.line(&json!({ "jsonrpc": "2.0", "id": id, "error": error }))
            }
        }
    }

    pub(super) fn notify(&self, method: &str, params: Option<Value>) -> io::Result<()> {
        let mut message = json!({ "jsonrpc": "2.0", "method": method });
        if let Some(params) = params {
            message["params"] = params;
        }
        self.line(&message)
    }

    fn line(&self, message: &Value) -> io::Result<()> {
        let line = format!("{message}\n");
        let mut output = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        output.write_all(line.as_bytes())?;
        output.flush()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn only(text: &str) -> Incoming {
        let mut messages = parse(text.as_bytes());
        assert_eq!(messages.len(), 1, "{text}");
        messages.remove(0)
    }

    #[test]
    fn what_is_no_request_is_answered_with_the_right_code() {
        for (text, id, code) in [
            ("{", json!(null), -32700),
            ("\u{fffd}", json!(null), -32700),
            ("7", json!(null), -32600),
            ("[]", json!(null), -32600),
            (r#"{"id":1,"method":"ping"}"#, json!(1), -32600),
            (r#"{"jsonrpc":"2.0","id":1}"#, json!(1), -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, json!(null), -32600),
            (r#"{"jsonrpc":"2.0","id":"a","method":"ping","params":[1]}"#, json!("a"), -32602),
        ] {
            let Incoming::Malformed { id: found, error } = only(text) else { panic!("{text} was taken") };
            assert_eq!((found, error.code), (id, code), "{text}");
        }
    }

    #[test]
    fn blank_lines_are_nothing_and_a_batch_is_its_messages() {
        assert!(parse(b" \r\n").is_empty());
        let batch = br#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},3]"#;
        let messages = parse(batch);
        assert!(matches!(
            messages.as_slice(),
            [Incoming::Request { .. }, Incoming::Notification { .. }, Incoming::Malformed { .. }]
        ));
    }

    #[test]
    fn a_line_that_is_too_long_costs_only_itself() {
        let long = vec![b'x'; usize::try_from(LINE_MAX_BYTES).unwrap() + 10];
        let mut input: &[u8] = &[&long[..], b"\nnext"].concat();
        assert!(matches!(read_line(&mut input).unwrap(), Line::TooLong));
        assert!(matches!(read_line(&mut input).unwrap(), Line::Bytes(line) if line == b"next"));
        assert!(matches!(read_line(&mut input).unwrap(), Line::End));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(line: Vec<u8>) {
            let _ = parse(&line);
        }
    }
}
