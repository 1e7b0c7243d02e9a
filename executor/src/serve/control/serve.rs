//! The executor's end of the control socket.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, BufReader};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::answer::Control;
use super::line::{self, LineError, REQUEST_MAX};
use super::message::Answer;
use super::platform::Listener;
use super::{ControlError, Key};

/// Requests at the same time; one more is told so.
const REQUESTS_MAX: usize = 64;
/// How long a request may take to be said, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(10);

/// A control socket that is served.
#[derive(Debug)]
pub struct Serving {
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Opens the control socket of a config's executor and serves it.
///
/// # Errors
/// Why there is none. The executor does its work all the same.
pub fn start(key: &Key, control: Control) -> Result<Serving, ControlError> {
    let listener = Listener::open(key, std::process::id())?;
    let stop = CancellationToken::new();
    let task = tokio::spawn(accept(listener, Arc::new(control), stop.clone()));
    Ok(Serving { stop, task })
}

impl Serving {
    /// Removes the socket; what has been asked is still answered.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// Waits until everything is answered, but no longer than `within`.
    pub async fn finish(self, within: Duration) {
        self.stop.cancel();
        let abort = self.task.abort_handle();
        if tokio::time::timeout(within, self.task).await.is_err() {
            abort.abort();
        }
    }
}

async fn accept(listener: Listener, control: Arc<Control>, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(REQUESTS_MAX));
    let mut open = JoinSet::new();
    loop {
        let stream = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(_) = open.join_next(), if !open.is_empty() => continue,
            stream = listener.accept() => stream,
        };
        match stream {
            Ok(stream) => {
                let (control, place) = (control.clone(), places.clone().try_acquire_owned().ok());
                open.spawn(async move {
                    match place {
                        Some(_place) => converse(stream, &control).await,
                        None => refuse(stream).await,
                    }
                });
            }
            Err(error) => {
                // Out of descriptors, most likely: asked again at once it would say the same.
                tracing::warn!(%error, "the control socket takes no request for now");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
    // Removes the socket: whoever looks from now on finds no executor.
    drop(listener);
    while open.join_next().await.is_some() {}
}

/// One request, one answer.
async fn converse(stream: impl AsyncRead + AsyncWrite + Unpin, control: &Control) {
    let mut stream = BufReader::new(stream);
    let answer = match tokio::time::timeout(PATIENCE, line::read(&mut stream, REQUEST_MAX)).await {
        Ok(Ok(request)) => {
            let gone = CancellationToken::new();
            let mut answering = std::pin::pin!(control.answer(request, gone.clone()));
            tokio::select! {
                answer = &mut answering => answer,
                _ = stream.read_u8() => {
                    // Whoever asked is gone, or talks out of turn. A call has to hear of it, to stop upstream too.
                    gone.cancel();
                    let _unheard = tokio::time::timeout(PATIENCE, answering).await;
                    return;
                }
            }
        }
        // Someone only looked whether we live.
        Ok(Err(LineError::Ended)) | Err(_) => return,
        Ok(Err(error)) => Answer::CouldNot(format!("the executor can't read the request: {error}")),
    };
    say(&mut stream, &answer).await;
}

async fn refuse(mut stream: impl AsyncWrite + Unpin) {
    let busy = format!("the executor is busy with {REQUESTS_MAX} requests; try again in a moment");
    say(&mut stream, &Answer::CouldNot(busy)).await;
}

async fn say(stream: &mut (impl AsyncWrite + Unpin), answer: &Answer) {
    // Who doesn't take the answer doesn't want it.
    let _untaken = tokio::time::timeout(PATIENCE, line::write(stream, answer)).await;
}
