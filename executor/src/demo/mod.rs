//! The demo server: a small, real MCP server over lines of JSON (`mcplan demo-server`).
//!
//! It tells one story, the issues and notes of a bakery's web shop, with a few dozen tools that do what they say, so
//! that the examples and the tests need no network, no other runtime and no installation. It keeps everything in
//! memory, looks at no clock and never touches a file.
//!
//! Requests are answered in their order, but for the slow tool `count_to`, whose calls run beside the others. It speaks
//! the revisions with `initialize`; a request before it is answered too, so that it can be tried by hand.

mod base64;
mod count;
mod date;
mod dates;
mod expression;
mod issues;
mod math;
mod notes;
mod prompts;
mod resources;
mod server;
mod session;
mod store;
#[cfg(test)]
mod tests;
mod text;
mod tool;
mod wire;

use std::io::{self, BufRead, Write};
use std::str::FromStr;
use std::thread;

use serde_json::{Map, Value};

use count::{Counting, MAX_RUNNING, Running};
use session::{Outcome, Session};
use tool::failed;
use wire::{Incoming, Line, Output, RpcError};

/// What the server offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Only the tools, prompts and resources of these groups; empty means all.
    pub groups: Vec<Group>,
    /// Tools that are not listed until `set_tool_visible` shows them.
    pub hidden: Vec<String>,
}

/// A group of tools that belong together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    /// The issue tracker; the prompts too.
    Issues,
    /// The team's notes.
    Notes,
    /// The calendar.
    Dates,
    /// Work on texts.
    Text,
    /// Calculation.
    Math,
    /// The server itself: echo, a slow call, visibility of tools.
    Server,
}

impl Group {
    /// Every group with the word for it on the command line.
    pub const ALL: [(&'static str, Self); 6] = [
        ("issues", Self::Issues),
        ("notes", Self::Notes),
        ("dates", Self::Dates),
        ("text", Self::Text),
        ("math", Self::Math),
        ("server", Self::Server),
    ];
}

impl FromStr for Group {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.iter().find(|(word, _)| *word == text).map(|(_, group)| *group).ok_or_else(|| {
            let words: Vec<_> = Self::ALL.iter().map(|(word, _)| *word).collect();
            format!("there is no group {text:?}; there are {}", words.join(", "))
        })
    }
}

/// Serves one client until its input ends or it stops reading; slow calls that are still running are then given up.
///
/// # Errors
/// `InvalidInput` for a hidden tool that doesn't exist, otherwise those of reading and writing. That the client stopped
/// reading is the usual end, not an error.
pub fn serve<R: BufRead, W: Write + Send>(input: R, output: W, options: &Options) -> io::Result<()> {
    let session = Session::new(options).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let (output, running) = (Output::new(output), Running::default());
    let ended = thread::scope(|scope| {
        let ended = Server { session, output: &output, running: &running, scope }.run(input);
        // The scope waits for the slow calls, so they have to be told.
        running.stop_all();
        ended
    });
    match ended {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        ended => ended,
    }
}

struct Server<'scope, 'env, W> {
    session: Session,
    output: &'env Output<W>,
    running: &'env Running,
    scope: &'scope thread::Scope<'scope, 'env>,
}

impl<W: Write + Send> Server<'_, '_, W> {
    fn run(&mut self, mut input: impl BufRead) -> io::Result<()> {
        loop {
            match wire::read_line(&mut input)? {
                Line::End => return Ok(()),
                Line::Bytes(line) => wire::parse(&line).into_iter().try_for_each(|message| self.take(message))?,
                Line::TooLong => {
                    let message = format!("a message of more than {} bytes is not read", wire::LINE_MAX_BYTES);
                    self.output.answer(&Value::Null, Err(RpcError::new(-32600, message)))?;
                }
            }
        }
    }

    fn take(&mut self, message: Incoming) -> io::Result<()> {
        match message {
            Incoming::Request { id, method, params } => self.request(id, &method, params),
            Incoming::Notification { method, params } => {
                if method == "notifications/cancelled"
                    && let Some(id) = params.get("requestId")
                {
                    self.running.stop(id);
                }
                Ok(())
            }
            Incoming::Reply => Ok(()),
            Incoming::Malformed { id, error } => self.output.answer(&id, Err(error)),
        }
    }

    fn request(&mut self, id: Value, method: &str, params: Map<String, Value>) -> io::Result<()> {
        let result = match self.session.request(method, params) {
            Ok(Outcome::Slow(counting)) => return self.count(id, counting),
            Ok(Outcome::Now(result)) => Ok(result),
            Err(error) => Err(error),
        };
        // News first: whoever has the answer knows that everything it caused has been told.
        for (method, params) in self.session.notices() {
            self.output.notify(method, params)?;
        }
        self.output.answer(&id, result)
    }

    fn count(&mut self, id: Value, counting: Counting) -> io::Result<()> {
        let Some(stop) = self.running.start(&id) else {
            let busy = format!("this call's id is in use, or {MAX_RUNNING} calls are running already; try again later");
            return self.output.answer(&id, Ok(failed(&busy)));
        };
        let (output, running) = (self.output, self.running);
        self.scope.spawn(move || {
            // A write that fails will fail for the reader's thread too, which ends the session.
            let report = |progress| drop(output.notify("notifications/progress", Some(progress)));
            let result = counting.run(&stop, report);
            running.finish(&id);
            if let Some(result) = result {
                drop(output.answer(&id, Ok(result)));
            }
        });
        Ok(())
    }
}
