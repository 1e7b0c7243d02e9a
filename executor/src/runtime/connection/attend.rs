//! The task of a connection: it sees the end first, says why, and takes everything down.

use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rmcp::model::RequestId;
use tokio::process::ChildStderr;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Attempt, Close, Closed, Connection, Event, Inner, Service};
use crate::runtime::process::{self, Exit, Tail};
use crate::runtime::secrets::Mask;
use crate::runtime::transport::mirror::Mirror;
use crate::runtime::transport::remote::Watch;
use crate::runtime::transport::tap::Notices;

/// How long a process may take to end after its stream has, to be told from one that only closed its stdout.
const OWN_END: Duration = Duration::from_millis(250);
/// How long the last lines of stderr may take after the process's end.
const LAST_LINES: Duration = Duration::from_millis(200);
/// How long a session may take to be closed at the other end, when nobody says.
const FAREWELL: Duration = Duration::from_secs(5);

/// Closes the way to the server's stdin.
type HangUp = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Hears of changed lists.
pub(super) type Listening = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is behind a connection and has to be watched and ended.
pub(super) struct Attended {
    pub(super) child: Option<Mutex<process::Child>>,
    pub(super) hang_up: Option<HangUp>,
    pub(super) notices: Arc<Notices>,
    /// Cancelled by the transport at the end of its stream.
    pub(super) closed: CancellationToken,
    /// Cancelled by the transport when a process has closed its stdin.
    pub(super) shut_out: CancellationToken,
    pub(super) watch: Option<Arc<Watch>>,
    /// Which arguments go in headers too; only streamable HTTP looks at it.
    pub(super) mirror: Arc<Mirror>,
    /// The attempt that makes the connection.
    pub(super) attempt: Attempt,
    tail: Tail,
    stderr: Option<Reading>,
}

/// A task that reads stderr; ends with its owner.
struct Reading(JoinHandle<()>);

impl Drop for Reading {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Waits for the end of the process; for ever where there is none.
pub(super) async fn exited(child: &Option<Mutex<process::Child>>) {
    match child {
        Some(child) => drop(child.lock().await.wait().await),
        None => std::future::pending().await,
    }
}

impl Attended {
    pub(super) fn process(
        child: process::Child,
        stderr: ChildStderr,
        mask: &Mask,
        events: &mpsc::Sender<Event>,
        attempt: &Attempt,
    ) -> Self {
        let tail = Tail::default();
        let tails = [tail.clone(), attempt.stderr.clone()];
        let hand_on: (_, fn(String) -> Event) = (events.clone(), Event::Stderr);
        let reading = tokio::spawn(process::follow(stderr, tails, mask.clone(), hand_on));
        let (child, stderr, attempt) = (Some(Mutex::new(child)), Some(Reading(reading)), attempt.clone());
        Self { child, tail, stderr, attempt, ..Self::streams() }
    }

    pub(super) fn remote(notices: Arc<Notices>, watch: Arc<Watch>) -> Self {
        Self { notices, watch: Some(watch), ..Self::streams() }
    }

    /// Nothing but a stream.
    pub(super) fn streams() -> Self {
        Self {
            child: None,
            hang_up: None,
            notices: Arc::default(),
            closed: CancellationToken::new(),
            shut_out: CancellationToken::new(),
            watch: None,
            mirror: Arc::default(),
            attempt: Attempt::default(),
            tail: Tail::default(),
            stderr: None,
        }
    }

    pub(super) fn is_process(&self) -> bool {
        self.child.is_some()
    }

    /// Notes what the process has started by now.
    pub(super) async fn look(&mut self) {
        if let Some(child) = &mut self.child {
            child.get_mut().look();
        }
    }

    /// How the process ended by itself, if it does so about now.
    pub(super) async fn own_end(&self) -> Option<Exit> {
        let child = self.child.as_ref()?;
        let mut child = child.lock().await;
        tokio::time::timeout(OWN_END, child.wait()).await.ok()
    }

    /// Ends the process and all that it started; gives all that is kept of stderr.
    pub(super) async fn bury(mut self, deadline: Instant) -> Vec<String> {
        if let Some(hang_up) = self.hang_up.take() {
            hang_up().await;
        }
        if let Some(child) = self.child.take() {
            child.into_inner().shutdown(deadline).await;
        }
        self.last_lines().await;
        self.tail.lines()
    }

    async fn last_lines(&mut self) {
        if let Some(mut reading) = self.stderr.take() {
            let _ = tokio::time::timeout(LAST_LINES, &mut reading.0).await;
        }
    }

    fn lost(&self) -> CancellationToken {
        // Where there is nothing to lose, a token that nobody cancels.
        self.watch.as_ref().map(|watch| watch.lost.clone()).unwrap_or_default()
    }
}

/// Starts the task and gives the handle of the connection.
pub(super) fn start(
    (inner, service): (Arc<Inner>, Service),
    attended: Attended,
    cancelled: mpsc::Receiver<(RequestId, &'static str)>,
    listening: Listening,
    events: mpsc::Sender<Event>,
) -> Connection {
    let (token, finished) = (CancellationToken::new(), CancellationToken::new());
    let deadline = Arc::new(OnceLock::new());
    let task = Task {
        inner: inner.clone(),
        service,
        attended,
        cancelled,
        events,
        asked: token.clone(),
        deadline: deadline.clone(),
    };
    let done = finished.clone().drop_guard();
    // Joined through `finished`, by `Connection::close`; asked to end by the last handle's drop.
    tokio::spawn(async move {
        task.run(listening).await;
        drop(done);
    });
    let close = Close { token, deadline, finished };
    Connection { inner, close: Arc::new(close) }
}

struct Task {
    inner: Arc<Inner>,
    service: Service,
    attended: Attended,
    cancelled: mpsc::Receiver<(RequestId, &'static str)>,
    events: mpsc::Sender<Event>,
    asked: CancellationToken,
    deadline: Arc<OnceLock<Instant>>,
}

/// What ended a connection.
enum End {
    Asked,
    Exited,
    StreamEnded,
    Lost,
}

impl Task {
    async fn run(mut self, listening: Listening) {
        let end = self.live(listening).await;
        let asked = matches!(end, End::Asked);
        if matches!(end, End::Exited) {
            // What it said last is still in the pipe, and may be an answer; whoever holds the pipe open has no say.
            let _ = tokio::time::timeout(OWN_END, self.attended.closed.cancelled()).await;
        }
        let exit = match end {
            End::Exited | End::StreamEnded => self.attended.own_end().await,
            End::Asked | End::Lost => None,
        };
        let reason = self.reason(&end, exit);
        if exit.is_some() {
            self.attended.last_lines().await;
        }
        // Calls in flight are told before anything is taken down, which may take a second.
        let mut closed = Closed { reason, exit, stderr: self.attended.tail.lines(), asked };
        let _ = self.inner.ended.set(closed.clone());
        self.inner.over.cancel();
        let deadline = *self.deadline.get().unwrap_or(&(Instant::now() + FAREWELL));
        let farewell = async {
            let left = deadline.saturating_duration_since(Instant::now());
            let _ = self.service.close_with_timeout(left).await;
        };
        let (_, stderr) = tokio::join!(farewell, self.attended.bury(deadline));
        closed.stderr = stderr;
        if asked {
            // Who asked may be the one who reads events, and waits for us now.
            let _ = self.events.try_send(Event::Closed(closed));
        } else {
            tokio::select! {
                _ = self.events.send(Event::Closed(closed)) => {}
                () = self.asked.cancelled() => {}
            }
        }
    }

    /// Serves the connection until it ends.
    async fn live(&mut self, listening: Listening) -> End {
        let (_, none) = mpsc::channel(1);
        let (inner, mut cancelled) = (self.inner.clone(), std::mem::replace(&mut self.cancelled, none));
        // Apart from the rest, because a server that doesn't read holds up whoever writes to it.
        let cancels = async {
            while let Some((id, reason)) = cancelled.recv().await {
                inner.send_cancel(id, reason).await;
            }
            std::future::pending().await
        };
        let (pulsing, notices) = (self.inner.clone(), self.attended.notices.clone());
        let watch = self.attended.watch.clone();
        let pulse = async {
            match watch {
                Some(watch) => {
                    watch.end(pulsing.pulse(&notices).await);
                    End::Lost
                }
                // The end of a process is seen without asking.
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            end = self.watch() => end,
            end = cancels => end,
            end = pulse => end,
            () = listening => End::StreamEnded,
        }
    }

    async fn watch(&self) -> End {
        let lost = self.attended.lost();
        loop {
            tokio::select! {
                biased;
                () = self.asked.cancelled() => return End::Asked,
                () = exited(&self.attended.child) => return End::Exited,
                () = self.attended.closed.cancelled() => return End::StreamEnded,
                () = lost.cancelled() => return End::Lost,
                kinds = self.attended.notices.changes() => {
                    for kind in kinds {
                        tokio::select! {
                            _ = self.events.send(Event::ListChanged(kind)) => {}
                            () = self.asked.cancelled() => return End::Asked,
                        }
                    }
                }
            }
        }
    }

    fn reason(&self, end: &End, exit: Option<Exit>) -> String {
        match end {
            End::Asked => "it was closed".to_owned(),
            End::Lost => self.told().unwrap_or_else(|| "the server can't be reached".to_owned()),
            End::Exited | End::StreamEnded if self.attended.is_process() => match exit {
                Some(exit) => format!("the process ended ({exit})"),
                None if self.attended.shut_out.is_cancelled() => "the process closed its stdin".to_owned(),
                None => "the process closed its stdout".to_owned(),
            },
            End::Exited | End::StreamEnded => {
                self.told().unwrap_or_else(|| "the server closed the connection".to_owned())
            }
        }
    }

    /// Why the connection ended, as far as the transport knows.
    fn told(&self) -> Option<String> {
        let reason = self.attended.watch.as_ref()?.ended()?;
        Some(self.inner.mask.apply_excerpt(reason))
    }
}
