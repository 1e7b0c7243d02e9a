//! The other end of `mcplan run --listen`: requests one by one, and streams of events that are read as they come.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use serde_json::{Value, json};

use super::client::{Client, Era};
use super::{DEADLINE, Project};

/// An executor that listens.
pub struct Listener {
    pub client: Client,
    pub address: String,
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Events as they come.
pub struct Events {
    pub status: u16,
    said: Receiver<String>,
}

impl Events {
    /// The data of the next event.
    pub fn next(&self) -> Value {
        serde_json::from_str(&self.said.recv_timeout(DEADLINE).expect("an event")).unwrap()
    }

    /// The next event that is as wanted.
    pub fn first(&self, wanted: impl Fn(&Value) -> bool) -> Value {
        loop {
            let event = self.next();
            if wanted(&event) {
                return event;
            }
        }
    }

    /// What is still said before the stream ends.
    pub fn rest(&self) -> Vec<String> {
        let mut rest = Vec::new();
        loop {
            match self.said.recv_timeout(DEADLINE) {
                Ok(said) => rest.push(said),
                Err(RecvTimeoutError::Disconnected) => return rest,
                Err(RecvTimeoutError::Timeout) => panic!("the stream doesn't end; it said {rest:?}"),
            }
        }
    }
}

/// The body of a message that comes in chunks, as far as it goes.
fn chunked(reader: &mut impl std::io::BufRead, mut take: impl FnMut(&[u8])) {
    let mut line = String::new();
    while reader.read_line(&mut line).is_ok_and(|read| read > 0) {
        let Ok(size) = usize::from_str_radix(line.trim(), 16) else { return };
        let mut chunk = vec![0; size + 2];
        if size == 0 || reader.read_exact(&mut chunk).is_err() {
            return;
        }
        take(&chunk[..size]);
        line.clear();
    }
}

impl Listener {
    pub fn start(project: &Project, args: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = project.command(&["run", "--listen", "127.0.0.1:0"]);
        command.args(args).envs(environment.iter().copied());
        Self::of(command)
    }

    /// Starts `command`, which must be an executor that listens.
    pub fn of(command: std::process::Command) -> Self {
        let client = Client::spawn(command, Era::Session);
        let line = client.logged("listening on http://", 0);
        let address = line.split("http://").nth(1).unwrap().trim_end_matches("/mcp").to_owned();
        Self { client, address }
    }

    /// Whether it still takes connections.
    pub fn accepts(&self) -> bool {
        TcpStream::connect(&self.address).is_ok()
    }

    /// Sends a request and goes away once `when` holds.
    pub fn hang_up(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
        when: impl Fn() -> bool,
    ) -> bool {
        let stream = self.say(method, path, headers, body);
        while !when() {
            std::thread::yield_now();
        }
        stream.shutdown(std::net::Shutdown::Both).is_ok()
    }

    fn say(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let host = if headers.iter().any(|(name, _)| *name == "host") {
            String::new()
        } else {
            format!("host: {}\r\n", self.address)
        };
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\n{host}connection: close\r\ncontent-length: {length}\r\n{headers}\r\n{body}"
        )
        .unwrap();
        stream
    }

    fn answered(stream: TcpStream) -> (Reply, BufReader<TcpStream>) {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let status = line.split(' ').nth(1).unwrap_or_else(|| panic!("no status: {line:?}")).parse().unwrap();
        let mut headers = Vec::new();
        loop {
            line.clear();
            reader.read_line(&mut line).unwrap();
            let Some((name, value)) = line.trim_end().split_once(": ") else { break };
            headers.push((name.to_owned(), value.to_owned()));
        }
        (Reply { status, headers, body: String::new() }, reader)
    }

    pub fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        self.request_and(method, path, headers, body, || ())
    }

    /// A request before whose answer something else happens.
    pub fn request_and(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
        meanwhile: impl FnOnce(),
    ) -> Reply {
        let stream = self.say(method, path, headers, body);
        meanwhile();
        let (mut reply, mut reader) = Self::answered(stream);
        let mut bytes = Vec::new();
        if reply.header("transfer-encoding") == Some("chunked") {
            chunked(&mut reader, |chunk| bytes.extend_from_slice(chunk));
        } else {
            reader.read_to_end(&mut bytes).unwrap();
        }
        reply.body = String::from_utf8(bytes).unwrap();
        reply
    }

    pub fn get(&self, path: &str, headers: &[(&str, &str)]) -> Reply {
        self.request("GET", path, headers, "")
    }

    /// A request whose answer is a stream of events.
    pub fn events(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Events {
        let (reply, mut reader) = Self::answered(self.say(method, path, headers, body));
        let (sender, said) = channel();
        std::thread::spawn(move || {
            let mut text = Vec::new();
            chunked(&mut reader, |chunk| {
                text.extend_from_slice(chunk);
                while let Some(end) = text.windows(2).position(|two| two == b"\n\n") {
                    let event: Vec<u8> = text.drain(..end + 2).collect();
                    let event = String::from_utf8(event).unwrap();
                    if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data: ")) {
                        let _unheard = sender.send(data.to_owned());
                    }
                }
            });
        });
        Events { status: reply.status, said }
    }

    /// Opens a session; gives its headers and the answer.
    pub fn session(&self, path: &str, more: &[(&str, &str)], capabilities: Value) -> (Vec<(String, String)>, Value) {
        let params = json!({ "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": { "name": "test", "version": "1" } });
        let headers = [&[("content-type", "application/json")], more].concat();
        let reply = self.request("POST", path, &headers, &message(json!(0), "initialize", params).to_string());
        assert_eq!(reply.status, 200, "{reply:?}");
        let id = reply.header("mcp-session-id").unwrap().to_owned();
        let mut headers: Vec<_> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        headers.push(("mcp-session-id".to_owned(), id));
        let ready = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        assert_eq!(self.post(path, &headers, &ready).status, 202);
        (headers, reply.json())
    }

    pub fn post(&self, path: &str, headers: &[(String, String)], message: &Value) -> Reply {
        self.request("POST", path, &borrowed(headers), &message.to_string())
    }
}

pub fn borrowed(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

pub fn message(id: Value, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// A request that stands alone, and its headers.
pub fn alone(id: Value, method: &str, mut params: Value) -> (Vec<(String, String)>, Value) {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientInfo"] = json!({ "name": "test", "version": "1" });
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let mut headers = vec![
        ("content-type", "application/json".to_owned()),
        ("mcp-protocol-version", "2026-07-28".to_owned()),
        ("mcp-method", method.to_owned()),
    ];
    headers.extend(params["name"].as_str().map(|name| ("mcp-name", name.to_owned())));
    (headers.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(), message(id, method, params))
}
