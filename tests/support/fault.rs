//! What servers do wrong, whatever they are spoken to over. A fault is a piece of JSON: `"exit"`, or `{"late": 500}`. It
//! stands in a script under `at`, by the method of the message at which it happens, or in the arguments of the tool
//! `fault` under `do`; the tool `set` puts other faults in place of those under `at`.
//!
//! A fault and the right answer become [`Act`]s, which the server carries out in its own way.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::oneshot::{Receiver, Sender, channel};

/// Something wrong.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The end in place of an answer: of the process, or of the exchange.
    Exit,
    /// The end behind the answer.
    ExitAfter,
    /// Nothing is read or said any more, by the whole process where there is one.
    Hang,
    /// This one message gets no answer.
    Silent,
    /// The answer so many milliseconds later.
    Late(u64),
    /// The answer twice.
    Twice,
    /// This text in place of the answer.
    Text(String),
    /// What is no UTF-8 in place of the answer.
    NoUtf8,
    /// This result, whatever it is.
    Result(Value),
    /// This error.
    Error(Value),
    /// An answer to a question that nobody asked.
    WrongId,
    /// Text that is no message, then the answer.
    Banner,
    /// A result of about so many bytes.
    Long(usize),
    /// A further page after each, by cursors that are other ones, the same, or empty.
    Pages(Cursors),
    /// Notifications, ten every ten milliseconds, then the answer.
    Flood(String, u32),
    /// Progress every so many milliseconds, so many times, then the answer.
    Progress(u64, u32),
    /// The same, and then nothing.
    ProgressThenNothing(u64, u32),
    /// A request of the server's own, with these parameters; the answer says what came back.
    Ask(String, Value),
    /// An HTTP status, and this text.
    Status(u16, String),
    /// An HTTP status, and this `Retry-After`.
    RetryAfter(u16, String),
    /// The end in the middle of the answer.
    Cut,
    /// The end in the middle of a stream of which the answer is the second message.
    CutStream,
    /// The end of stdin alone.
    CloseIn,
    /// The end of stdout alone.
    CloseOut,
    /// Leaves behind a process that ignores every signal that can be ignored; the answer is its id.
    Grandchild,
    /// Forgets all sessions and ends all streams, after the answer.
    Restart,
}

/// How pages go on for ever.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cursors {
    Other,
    Same,
    Empty,
}

/// What a server does, in order.
pub enum Act {
    Say(Vec<u8>),
    /// Half of a message, and the end.
    Half(Vec<u8>),
    Wait(Duration),
    /// Says the answer to the request with this id once the reply is there: its [`reply_text`].
    Reply(Value, Receiver<Value>),
    Status(u16, String),
    RetryAfter(u16, String),
    /// The end, with this on stderr where there is one.
    End(String),
    /// Nothing follows, and nothing else is read.
    Stop,
    /// Nothing follows.
    Nothing,
    CloseIn,
    CloseOut,
    /// Starts one and answers the request with this id.
    Grandchild(Value),
    Restart,
}

/// What is said last has to leave before the end.
const LEAVING: Act = Act::Wait(Duration::from_millis(50));

/// Replies to a server's own questions, by the ids of those.
#[derive(Default)]
pub struct Replies(Mutex<HashMap<String, Sender<Value>>>);

impl Replies {
    fn expect(&self, id: &str) -> Receiver<Value> {
        let (sender, receiver) = channel();
        self.0.lock().unwrap().insert(id.to_owned(), sender);
        receiver
    }

    /// Takes a message, if it is one that was waited for.
    pub fn take(&self, message: &Value) -> bool {
        let asked = message["id"].as_str().and_then(|id| self.0.lock().unwrap().remove(id));
        // Whoever waited may have given up.
        asked.map(|sender| drop(sender.send(message.clone()))).is_some()
    }
}

/// The fault that happens at a message.
pub fn of(at: &Value, message: &Value) -> Option<Fault> {
    let method = message["method"].as_str()?;
    let named = at.get(method).filter(|fault| !fault.is_null());
    let called = method == "tools/call" && message["params"]["name"] == "fault";
    let fault = if called { message["params"]["arguments"].get("do") } else { named };
    Some(serde_json::from_value(fault?.clone()).unwrap_or_else(|error| panic!("{error}: {fault:?}")))
}

/// What a reply to a server's own question says: its result, or its error.
pub fn reply_text(reply: &Value) -> String {
    reply.get("result").or_else(|| reply.get("error")).unwrap_or(&Value::Null).to_string()
}

pub fn text_result(text: &str) -> String {
    json!({ "content": [{ "type": "text", "text": text }] }).to_string()
}

/// What comes of a fault at a message, of which `right` would have been the answer.
pub fn acts(fault: Fault, message: &Value, right: Option<Vec<u8>>, replies: &Replies) -> Vec<Act> {
    let id = &message["id"];
    let answer = || right.clone().map(Act::Say);
    let result = |result: &str| Act::Say(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#).into_bytes());
    let before = |mut first: Vec<Act>| {
        first.extend(answer());
        first
    };
    let gone = || Act::End(format!("gone at {}", message["method"].as_str().unwrap_or_default()));
    match fault {
        Fault::Exit => vec![gone()],
        Fault::ExitAfter => before(vec![]).into_iter().chain([LEAVING, gone()]).collect(),
        Fault::Hang => vec![Act::Stop],
        Fault::Silent => vec![Act::Nothing],
        Fault::Late(after) => before(vec![Act::Wait(Duration::from_millis(after))]),
        Fault::Twice => before(before(vec![])),
        Fault::Text(text) => vec![Act::Say(text.into_bytes())],
        Fault::NoUtf8 => vec![Act::Say(
            [
                format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":""#).as_bytes(),
                b"\xff\xc0\"}]}}",
            ]
            .concat(),
        )],
        Fault::Result(of) => vec![result(&of.to_string())],
        Fault::Error(error) => {
            vec![Act::Say(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string().into_bytes())]
        }
        Fault::WrongId => vec![Act::Say(br#"{"jsonrpc":"2.0","id":987654321,"result":{}}"#.to_vec())],
        Fault::Banner => before(vec![Act::Say(b"Welcome to FaultServer 1.0!".to_vec())]),
        Fault::Long(bytes) => vec![result(&text_result(&"x".repeat(bytes)))],
        Fault::Pages(cursors) => vec![result(&page(cursors, message, &right.unwrap_or_default()))],
        Fault::Flood(method, times) => before(flood(&method, times, message)),
        Fault::Progress(every, times) => before(progress(every, times, message)),
        Fault::ProgressThenNothing(every, times) => {
            progress(every, times, message).into_iter().chain([Act::Nothing]).collect()
        }
        Fault::Ask(method, params) => {
            let own = format!("ask-{}", id.to_string().trim_matches('"'));
            let request = json!({ "jsonrpc": "2.0", "id": own, "method": method, "params": params });
            let reply = replies.expect(&own);
            vec![Act::Say(request.to_string().into_bytes()), Act::Reply(id.clone(), reply)]
        }
        Fault::Status(status, text) => vec![Act::Status(status, text)],
        Fault::RetryAfter(status, wait) => vec![Act::RetryAfter(status, wait)],
        Fault::Cut => vec![Act::Half(right.unwrap_or_default())],
        Fault::CutStream => {
            let mut acts = progress(0, 1, message);
            acts.push(Act::Half(right.unwrap_or_default()));
            acts
        }
        Fault::CloseIn => vec![Act::CloseIn],
        Fault::CloseOut => vec![Act::CloseOut],
        Fault::Grandchild => vec![Act::Grandchild(id.clone())],
        Fault::Restart => before(vec![]).into_iter().chain([LEAVING, Act::Restart]).collect(),
    }
}

fn progress(every: u64, times: u32, message: &Value) -> Vec<Act> {
    let token = &message["params"]["_meta"]["progressToken"];
    let one = |number| {
        let params = json!({ "progressToken": token, "progress": number });
        let said = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params });
        [Act::Say(said.to_string().into_bytes()), Act::Wait(Duration::from_millis(every))]
    };
    (1..=times).flat_map(one).collect()
}

fn flood(method: &str, times: u32, message: &Value) -> Vec<Act> {
    let params = match method {
        "notifications/progress" => {
            json!({ "progressToken": message["params"]["_meta"]["progressToken"], "progress": 1 })
        }
        "notifications/message" => json!({ "level": "info", "data": "on and on" }),
        _ => json!({}),
    };
    let said = json!({ "jsonrpc": "2.0", "method": method, "params": params }).to_string().into_bytes();
    let mut acts = Vec::new();
    for number in 1..=times {
        acts.push(Act::Say(said.clone()));
        if number % 10 == 0 {
            acts.push(Act::Wait(Duration::from_millis(10)));
        }
    }
    acts
}

/// A page that is followed by another one.
fn page(cursors: Cursors, message: &Value, right: &[u8]) -> String {
    let mut result = serde_json::from_slice::<Value>(right).unwrap()["result"].take();
    let at: u64 = message["params"]["cursor"].as_str().and_then(|cursor| cursor.parse().ok()).unwrap_or(0);
    result["nextCursor"] = match cursors {
        Cursors::Other => json!((at + 1).to_string()),
        Cursors::Same => json!("more"),
        Cursors::Empty => json!(""),
    };
    if at > 0 {
        result["tools"] = json!([{ "name": format!("t{at}"), "inputSchema": { "type": "object" } }]);
    }
    result.to_string()
}
