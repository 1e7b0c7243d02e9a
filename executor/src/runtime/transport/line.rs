//! Lines of bounded length from a byte stream, and the id of a message that is too long to be read.

use rmcp::model::RequestId;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// A line of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Its bytes without the newline.
    Whole(Vec<u8>),
    /// Longer than the limit; read to its end and thrown away.
    TooLong {
        /// How many bytes it had.
        bytes: u64,
        /// Its first bytes.
        start: Vec<u8>,
        /// Its id, as far as it has one that can be read.
        id: Option<RequestId>,
        /// Whether it has a method: a request, or without an id a notification.
        has_method: bool,
    },
}

/// Bytes of an overlong line that are kept to show.
const START: usize = 200;

/// Reads lines. What has been read of a line stays here when a `next` is dropped, so nothing is lost.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    limit: usize,
    line: Vec<u8>,
    over: Option<(u64, Scanner)>,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    pub(crate) fn new(reader: R, limit: usize) -> Self {
        Self { reader, limit, line: Vec::new(), over: None }
    }

    /// The next line; `None` at the end of the stream or when it fails. A last line without newline counts.
    pub(crate) async fn next(&mut self) -> Option<Line> {
        loop {
            let available = self.reader.fill_buf().await.unwrap_or_default();
            if available.is_empty() {
                let is_rest = !self.line.is_empty() || self.over.is_some();
                return is_rest.then(|| self.finish());
            }
            let newline = memchr::memchr(b'\n', available);
            let part = &available[..newline.unwrap_or(available.len())];
            let used = newline.map_or(part.len(), |at| at + 1);
            match &mut self.over {
                Some((bytes, scanner)) => {
                    *bytes += part.len() as u64;
                    scanner.feed(part);
                }
                None if self.line.len() + part.len() > self.limit => {
                    let mut scanner = Scanner::default();
                    scanner.feed(&self.line);
                    scanner.feed(part);
                    let bytes = (self.line.len() + part.len()) as u64;
                    self.line.extend_from_slice(&part[..part.len().min(START)]);
                    self.line.truncate(START);
                    self.line.shrink_to_fit();
                    self.over = Some((bytes, scanner));
                }
                None => self.line.extend_from_slice(part),
            }
            self.reader.consume(used);
            if newline.is_some() {
                return Some(self.finish());
            }
        }
    }

    fn finish(&mut self) -> Line {
        let mut line = std::mem::take(&mut self.line);
        match self.over.take() {
            Some((bytes, scanner)) => {
                let has_method = scanner.has_method;
                Line::TooLong { bytes, start: line, id: scanner.id(), has_method }
            }
            None => {
                if line.last() == Some(&b'\r') {
                    line.pop();
                }
                Line::Whole(line)
            }
        }
    }
}

/// Looks for `"id"` at the top level of a JSON object of any length, in constant memory.
///
/// The id may stand before or after the result, so the prefix of a line doesn't do.
#[derive(Debug, Default)]
pub(super) struct Scanner {
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// The string or scalar at the top level that is being read, as far as it is kept.
    token: Vec<u8>,
    key: Option<Vec<u8>>,
    id: Option<Vec<u8>>,
    has_method: bool,
}

/// Longest key or id that is kept.
const TOKEN_MAX: usize = 256;

impl Scanner {
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.step(byte);
        }
    }

    fn step(&mut self, byte: u8) {
        if self.in_string {
            self.keep(byte);
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return;
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.keep(byte);
            }
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                if self.depth == 1 {
                    self.end_value();
                }
                self.depth = self.depth.saturating_sub(1);
            }
            b':' if self.depth == 1 => {
                let key = std::mem::take(&mut self.token);
                self.has_method |= key == b"\"method\"";
                self.key = Some(key);
            }
            b',' if self.depth == 1 => self.end_value(),
            b' ' | b'\t' | b'\r' => {}
            _ => self.keep(byte),
        }
    }

    fn keep(&mut self, byte: u8) {
        if self.depth == 1 && self.token.len() < TOKEN_MAX {
            self.token.push(byte);
        }
    }

    fn end_value(&mut self) {
        let value = std::mem::take(&mut self.token);
        if self.key.take().as_deref() == Some(b"\"id\"") {
            self.id = Some(value);
        }
    }

    fn id(self) -> Option<RequestId> {
        serde_json::from_slice(&self.id?).ok()
    }

    /// The id of the request that the message answers, if it is an answer.
    pub(super) fn answered(self) -> Option<RequestId> {
        if self.has_method { None } else { self.id() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::BufReader;

    async fn lines(bytes: &[u8], limit: usize, buffer: usize) -> Vec<Line> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, bytes), limit);
        let mut all = Vec::new();
        while let Some(line) = lines.next().await {
            all.push(line);
        }
        all
    }

    fn id(text: &str) -> Option<RequestId> {
        let mut scanner = Scanner::default();
        scanner.feed(text.as_bytes());
        scanner.answered()
    }

    #[tokio::test]
    async fn whole_lines_and_one_too_long() {
        let long = format!(r#"{{"result":{{"id":9,"t":"{}"}},"jsonrpc":"2.0","id":12}}"#, "x".repeat(500));
        let text = format!("a\r\n\n{long}\nlast");
        for buffer in [1, 7, 64, 4096] {
            let found = lines(text.as_bytes(), 100, buffer).await;
            let whole = |text: &str| Line::Whole(text.as_bytes().to_vec());
            assert_eq!(found.len(), 4);
            assert_eq!([&found[0], &found[1], &found[3]], [&whole("a"), &whole(""), &whole("last")]);
            let Line::TooLong { bytes, start, id, has_method: false } = &found[2] else { panic!("{:?}", found[2]) };
            assert_eq!(*bytes, long.len() as u64);
            assert_eq!(*id, Some(RequestId::Number(12)), "buffer of {buffer}");
            assert!(long.as_bytes().starts_with(start) && start.len() >= 100 && start.len() <= START);
        }
    }

    #[test]
    fn an_id_is_found_wherever_it_stands() {
        assert_eq!(id(r#"{"id": 5 , "result":{"id":6}}"#), Some(RequestId::Number(5)));
        assert_eq!(id(r#"{"result":["\"id\":3","}"],"id":"a b"}"#), Some(RequestId::String("a b".into())));
        assert_eq!(id(r#"{"id":5,"method":"x","params":{}}"#), None, "a request of the server's");
        assert_eq!(id(r#"{"result":{"id":6}}"#), None);
        assert_eq!(id("not json at all"), None);
        assert_eq!(id(r#"{"id":5,"result":"cut off"#), Some(RequestId::Number(5)));
    }

    proptest! {
        #[test]
        fn scanning_agrees_with_parsing(value in "\\PC{0,30}", number in any::<i32>(), first in any::<bool>()) {
            let result = serde_json::json!({ "id": value, "t": [value, {"id": 0}] });
            let text = if first {
                format!(r#"{{"id":{number},"result":{result}}}"#)
            } else {
                format!(r#"{{"result":{result},"id":{number}}}"#)
            };
            prop_assert_eq!(id(&text), Some(RequestId::Number(i64::from(number))));
        }

        #[test]
        fn any_bytes_are_scanned(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut scanner = Scanner::default();
            scanner.feed(&bytes);
            let _ = scanner.answered();
        }
    }
}
