//! A running plan, as everyone else holds it: look at the view, call, reload, shut down.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::Server;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::connection::{self, Client, Connection, Context};
use super::program::Program;
use super::server::Until;
use super::supervisor::{Message, Reloaded, Supervisor};
use super::view::View;
use crate::core::gate::{Allowed, Call, Denied, Gated, Invoke, Read, shown};
use crate::core::results::{self, Cap, Text};
use crate::core::snapshot::Snapshot;
use crate::core::written::Written;
use crate::event::Event;

/// The whole of a shutdown (`shutdown_seconds`); half of it is for calls in flight.
pub const SHUTDOWN: Duration = Duration::from_secs(5);
/// The part of it that is left for killing whatever outlived its server.
pub const SWEEP: Duration = Duration::from_millis(500);

/// Most of an address that the event of its reading repeats, in characters.
const URI_TOLD: usize = 1024;

/// A running plan. Clones are handles to the same one.
#[derive(Clone, Debug)]
pub struct Executor {
    pub(super) views: watch::Receiver<Arc<View>>,
    pub(super) messages: mpsc::Sender<Message>,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The server isn't there to be called.
    #[error("the server {server} is {state}{}", .cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default())]
    Down {
        /// Which.
        server: ServerName,
        /// Its state.
        state: &'static str,
        /// Why.
        cause: Option<String>,
    },
    /// It didn't become ready in time.
    #[error(
        "the server {server} wasn't ready within {seconds} s; raise its timeout_seconds if it needs longer to start"
    )]
    NotReady {
        /// Which.
        server: ServerName,
        /// Its `timeout_seconds`.
        seconds: f64,
    },
    /// As many calls as it takes are in flight already.
    #[error(
        "the server {server} is busy: {most} calls are in flight or wait for it, which is the most; try again when some of them have ended"
    )]
    Busy {
        /// Which.
        server: ServerName,
        /// The bound.
        most: usize,
    },
    /// The server has been connected meanwhile, and what it says now is not offered.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// A new plan denies a call that was in flight.
    #[error("stopped: a new plan no longer offers it")]
    NoLongerAllowed,
    /// A session of its own couldn't be opened for the call.
    #[error(transparent)]
    Session(#[from] Box<connection::ConnectError>),
    /// The connection, or the server itself.
    #[error(transparent)]
    Connection(#[from] connection::CallError),
}

impl Executor {
    /// Starts a program: servers connect in the background, the first view is there at once.
    ///
    /// The task ends when it is shut down or the last handle is gone; await it after [`Executor::shutdown`].
    pub fn start(program: Program, context: Context) -> (Self, JoinHandle<()>) {
        let (supervisor, views) = Supervisor::start(program, Arc::new(context));
        let (messages, inbox) = mpsc::channel(64);
        let task = tokio::spawn(supervisor.run(inbox));
        (Self { views, messages }, task)
    }

    /// What there is at this moment.
    pub fn view(&self) -> Arc<View> {
        self.views.borrow().clone()
    }

    /// A receiver of every later view.
    pub fn views(&self) -> watch::Receiver<Arc<View>> {
        self.views.clone()
    }

    /// Waits until each server that is to be connected is known from the lock, ready, or was tried and failed; for each
    /// at most its `timeout_seconds` from now, also when it has to wait for its turn. A lazy server of which nothing is
    /// known is connected for it.
    pub async fn settled(&self) {
        self.settled_or(|_| false).await;
    }

    /// The same, but no longer than until `enough` holds.
    pub async fn settled_or(&self, enough: impl Fn(&View) -> bool) {
        self.wait(|view| {
            if enough(view) {
                return None;
            }
            view.want(view.snapshot.unsettled());
            longest(view.snapshot.unsettled())
        })
        .await;
    }

    /// Waits until the resources are known of each server that has some and was never connected, or it was tried and
    /// failed; for each at most its `timeout_seconds` from now. A lazy one is connected for it. `sees` narrows a moment to
    /// whoever waits.
    pub async fn heard(&self, sees: impl Fn(&Arc<Snapshot>) -> Arc<Snapshot>) {
        self.wait(|view| {
            let seen = sees(&view.snapshot);
            view.want(seen.unheard());
            longest(seen.unheard())
        })
        .await;
    }

    /// Waits as long as `more` says that it takes no longer than so many seconds from the beginning, of each view anew.
    async fn wait(&self, more: impl Fn(&View) -> Option<f64>) {
        let (mut views, began) = (self.views.clone(), tokio::time::Instant::now());
        loop {
            let more = more(&views.borrow_and_update());
            let Some(seconds) = more else { return };
            // The other error means that the supervisor is gone; then nothing will change any more.
            if !matches!(tokio::time::timeout_at(after(began, seconds), views.changed()).await, Ok(Ok(()))) {
                return;
            }
        }
    }

    /// Makes a call that the gate allowed. Waits for a server that is being connected.
    ///
    /// # Errors
    /// Why there is no result; a result that is an error of the tool's is a result.
    pub async fn call(&self, call: &Allowed<Call>, client: Client) -> Result<Text, CallError> {
        let began = Instant::now();
        let result = self.call_within_plan(call, client).await;
        let (success, result_chars) = match &result {
            Ok(text) => (!results::is_error(text), text.get().chars().count()),
            Err(_) => (false, 0),
        };
        if let Err(CallError::Connection(connection::CallError::TimedOut { seconds, .. })) = &result {
            let (server, tool) = (call.get().server.clone(), call.get().tool.clone());
            Event::ToolTimeout { server, tool, timeout_s: *seconds }.log();
        }
        Event::ToolInvoked {
            server: call.get().server.clone(),
            tool: call.get().tool.clone(),
            latency_ms: began.elapsed().as_millis() as u64,
            success,
            result_chars,
        }
        .log();
        result
    }

    async fn call_within_plan(&self, call: &Allowed<Call>, client: Client) -> Result<Text, CallError> {
        let make = |connection: Connection, client| async move { connection.call(call, client).await };
        let result = self.within_plan(call.get(), client, make).await?;
        let server = call.get().server.as_str();
        let limit = self.view().snapshot.plan.server(server).map_or(0, |server| server.limits.max_result_chars);
        let cap = Cap { limit, server, tool: call.get().exposed.as_str() };
        Ok(results::fit(result, cap).result)
    }

    /// Fetches a prompt that the gate allowed. Waits for a server that is being connected.
    ///
    /// # Errors
    /// Why there is no result.
    pub async fn invoke(&self, prompt: &Allowed<Invoke>, client: Client) -> Result<Text, CallError> {
        let began = Instant::now();
        let make = |connection: Connection, client| async move { connection.ask(prompt, client).await };
        let result = self.within_plan(prompt.get(), client, make).await?;
        let Invoke { server, prompt, .. } = prompt.get();
        let (server, prompt, latency_ms) = (server.clone(), prompt.clone(), began.elapsed().as_millis() as u64);
        Event::PromptInvoked { server, prompt, latency_ms }.log();
        Ok(result)
    }

    /// Reads a resource, as the gate allowed. Waits for a server that is being connected.
    ///
    /// # Errors
    /// Why there is no result.
    pub async fn read(&self, resource: &Allowed<Read>, client: Client) -> Result<Text, CallError> {
        let began = Instant::now();
        let make = |connection: Connection, client| async move { connection.ask(resource, client).await };
        let result = self.within_plan(resource.get(), client, make).await?;
        let Read { server, uri, .. } = resource.get();
        let (chars, latency_ms) = (result.get().chars().count(), began.elapsed().as_millis() as u64);
        Event::ResourceRead { server: server.clone(), uri: shown(uri, URI_TOLD), chars, latency_ms }.log();
        Ok(result)
    }

    /// Does what was allowed, as long as no later plan denies it.
    async fn within_plan<F>(
        &self,
        operation: &impl Gated,
        client: Client,
        make: impl FnOnce(Connection, Client) -> F,
    ) -> Result<Text, CallError>
    where
        F: Future<Output = Result<Text, connection::CallError>>,
    {
        let reached = tokio::select! {
            reached = self.reach(operation) => reached?,
            () = client.cancel.cancelled() => {
                return Err(connection::CallError::Cancelled { server: operation.server().clone() }.into());
            }
        };
        let stop = client.cancel.child_token();
        let client = Client { cancel: stop.clone(), ..client };
        let mut made = std::pin::pin!(make(reached.connection.clone(), client));
        let denied = self.denied(operation);
        tokio::select! {
            biased;
            () = denied => {
                stop.cancel();
                // Lets the cancellation go upstream before the connection is forgotten.
                let _result = made.await;
                Err(CallError::NoLongerAllowed)
            }
            result = &mut made => Ok(result?),
        }
    }

    /// Resolves when a later plan has the server and denies the operation. A server that is gone altogether lets what was
    /// begun finish.
    async fn denied(&self, operation: &impl Gated) {
        let mut views = self.views.clone();
        let gone = views.wait_for(|view| !operation.may_go_on(&view.snapshot.plan)).await.is_err();
        if gone {
            std::future::pending::<()>().await;
        }
    }

    /// Swaps the program. Servers that didn't change aren't touched.
    pub async fn reload(&self, program: Program) -> Option<Reloaded> {
        let old = self.view().snapshot.plan.digest();
        let new = program.plan.digest();
        let (reply, answer) = oneshot::channel();
        self.messages.send(Message::Reload(Box::new(program), reply)).await.ok()?;
        let reloaded = answer.await.ok()?;
        let changes = reloaded.steps.iter().map(ToString::to_string).collect();
        Event::PlanReloaded { generation: reloaded.generation, old, new, changes }.log();
        Some(reloaded)
    }

    /// Takes the places of a plan that is served already, whose lines have moved.
    pub async fn moved(&self, written: Arc<Written>) {
        let (reply, answer) = oneshot::channel();
        if self.messages.send(Message::Moved(written, reply)).await.is_ok() {
            let _gone = answer.await;
        }
    }

    /// Ends everything, [`SHUTDOWN`] after it was asked for at the latest: calls in flight have half of that, processes
    /// the rest but for [`SWEEP`].
    pub async fn shutdown(&self, asked: tokio::time::Instant) {
        let until = Until { calls: asked + SHUTDOWN / 2, end: asked + SHUTDOWN - SWEEP };
        let (reply, answer) = oneshot::channel();
        if self.messages.send(Message::Shutdown(until, reply)).await.is_ok() {
            let _gone = answer.await;
        }
    }
}

/// The longest that one of them may take to connect, seconds.
fn longest<'a>(servers: impl Iterator<Item = &'a Server>) -> Option<f64> {
    servers.map(|server| server.limits.timeout_seconds).reduce(f64::max)
}

/// `seconds` after `from`, as far as clocks reach.
pub(super) fn after(from: tokio::time::Instant, seconds: f64) -> tokio::time::Instant {
    from + Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX).min(Duration::from_secs(24 * 3600))
}

/// The directory that a config's relative paths are relative to.
pub fn directory_of(config: &std::path::Path) -> PathBuf {
    match config.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::runtime::program::tests::program;

    /// A running plan of this config, without a lock.
    fn running(config: &str) -> Executor {
        Executor::start(program(config), Context::new(BTreeMap::new(), "/")).0
    }

    /// The clock stands still while there is anything to do, so that an hour passes only for one who rests.
    #[tokio::test(start_paused = true)]
    async fn a_failed_server_is_left_in_peace() {
        let executor = running("mcp_servers: [{ name: a, command: no-such-command }]");
        executor.settled().await;
        let view = executor.view();
        let health = view.snapshot.health.values().next().unwrap();
        assert_eq!(health.state.word(), "failed");
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
}
