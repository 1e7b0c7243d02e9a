//! From a call that the gate allowed to the connection that it is made on: waits for a server that is being connected,
//! has a lazy one connected, and opens a session where none is kept.

use mcplan_compiler::name::ServerName;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::connection::Connection;
use super::executor::{CallError, Executor, after};
use super::flights::{Flight, Refused};
use super::server::session::Lent;
use super::view::{Link, View};
use crate::core::gate::{Denied, Gated};
use crate::core::lifecycle::{Epoch, Rest, State};
use crate::core::snapshot::Snapshot;
use crate::event::Event;

/// What a call needs while it lasts. Dropped before its connection is, the call may find itself cut off.
#[derive(Debug)]
pub(super) struct Reached {
    pub(super) connection: Connection,
    _flight: Flight,
    _lent: Option<Lent>,
}

/// A call on its way.
struct Way<'a> {
    executor: &'a Executor,
    call: &'a dyn Gated,
    flight: Option<Flight>,
    /// The attempt after which we asked for another one.
    wanted: Option<Epoch>,
}

/// Where a call stands at one moment.
enum Stand {
    Connected(Connection),
    /// A session can be opened by this link.
    Session(Link),
    Wait,
}

impl Executor {
    /// The connection for a call, or whatever else was allowed, and what keeps it open.
    pub(super) async fn reach(&self, call: &dyn Gated) -> Result<Reached, CallError> {
        let (mut views, began) = (self.views.clone(), Instant::now());
        let mut way = Way { executor: self, call, flight: None, wanted: None };
        loop {
            let view = views.borrow_and_update().clone();
            let stand = way.stand(&view).map_err(|error| *error)?;
            match (stand, way.flight.take()) {
                (Stand::Connected(connection), Some(flight)) => {
                    // The connection and what was made of the server's words come in one view.
                    allowed(&view.snapshot, call)?;
                    return Ok(Reached { connection, _flight: flight, _lent: None });
                }
                (Stand::Session(link), Some(flight)) => return way.open(&link, flight).await,
                (_, flight) => way.flight = flight,
            }
            let server = view.snapshot.plan.server(call.server().as_str());
            let seconds = server.map_or(20.0, |server| server.limits.timeout_seconds);
            let closed = async {
                match &way.flight {
                    Some(flight) => flight.closed().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = views.changed() => if changed.is_err() {
                    return Err(down(call.server(), "stopped", None));
                },
                // Whoever ends it waits for us, and we wait for another one.
                () = closed => way.flight = None,
                () = tokio::time::sleep_until(after(began, seconds)) => {
                    return Err(CallError::NotReady { server: call.server().clone(), seconds });
                }
            }
        }
    }
}

impl Way<'_> {
    fn stand(&mut self, view: &View) -> Result<Stand, Box<CallError>> {
        let name = self.call.server();
        let (Some(link), Some(health)) = (view.links.get(name), view.snapshot.health.get(name)) else {
            return Err(down(name, "no longer in the plan", None).into());
        };
        if self.flight.as_ref().is_none_or(|flight| !flight.is_of(&link.flights)) {
            self.wanted = None;
            self.flight = match link.flights.begin() {
                Ok(flight) => Some(flight),
                Err(Refused::Busy(most)) => return Err(CallError::Busy { server: name.clone(), most }.into()),
                // Another one is about to take its place.
                Err(Refused::Closed) => None,
            };
        }
        let Some(flight) = &self.flight else { return Ok(Stand::Wait) };
        if let Some(connection) = &link.connection {
            // Left or lost between the view and now; the next view tells.
            let is_over = !flight.may_use(link.epoch) || connection.ended().is_some();
            return Ok(if is_over { Stand::Wait } else { Stand::Connected(connection.clone()) });
        }
        match &health.state {
            State::Ready { .. } if link.sessions.is_some() => Ok(Stand::Session(link.clone())),
            State::Configured(Rest::Starting) | State::Connecting { .. } | State::Ready { .. } => Ok(Stand::Wait),
            _ if link.wakes && self.wanted.is_none() => {
                self.wanted = Some(link.epoch);
                link.bell.want();
                Ok(Stand::Wait)
            }
            // It hasn't been heard yet; the view changed for another reason.
            _ if self.wanted == Some(link.epoch) => Ok(Stand::Wait),
            state @ State::Waiting { .. } => Err(down(name, "down and will be tried again", state.cause()).into()),
            state => Err(down(name, state.word(), state.cause()).into()),
        }
    }

    /// A session for this call alone. What the server says at its beginning may be news, so the call is looked at again.
    async fn open(&self, link: &Link, flight: Flight) -> Result<Reached, CallError> {
        let stopped = || down(self.call.server(), "stopped", None);
        let (reply, answer) = oneshot::channel();
        let sessions = link.sessions.as_ref().ok_or_else(stopped)?;
        sessions.send(reply).await.map_err(|_| stopped())?;
        let lent = answer.await.map_err(|_| stopped())?.map_err(Box::new)?;
        let knows = |view: &View| {
            let of_now = view.links.get(self.call.server()).filter(|now| flight.is_of(&now.flights));
            of_now.is_none_or(|now| now.seen >= lent.seen)
        };
        let mut views = self.executor.views.clone();
        let view = views.wait_for(|view| knows(view)).await.map_err(|_| stopped())?.clone();
        allowed(&view.snapshot, self.call)?;
        Ok(Reached { connection: lent.connection.clone(), _flight: flight, _lent: Some(lent) })
    }
}

/// Looks at a call again, now that its server has been heard.
fn allowed(snapshot: &Snapshot, call: &dyn Gated) -> Result<(), Denied> {
    call.still_allowed(&snapshot.plan, &snapshot.catalog).inspect_err(|denied| Event::denied(denied, snapshot).log())
}

fn down(server: &ServerName, state: &'static str, cause: Option<String>) -> CallError {
    CallError::Down { server: server.clone(), state, cause }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use futures::FutureExt as _;

    use super::*;
    use crate::core::catalog::Catalog;
    use crate::core::catalog::tests::{listings, plan};
    use crate::core::gate::{Allowed, Asked, Call, gate};
    use crate::runtime::connection::{Client, Context};
    use crate::runtime::program::tests::program;
    use crate::runtime::supervisor::CALLS_MAX;

    /// A server that never says anything, and a call that the gate allowed by what was known of it before.
    fn mute(more: &str) -> (Executor, Allowed<Call>) {
        let config =
            format!("mcp_servers: [{{ name: a, command: sh, args: ['-c', 'while read -r line; do :; done']{more} }}]");
        let catalog = Catalog::build(&plan(&config), &listings(&[("a", &["t"])]));
        let allowed = gate(&catalog, Asked { name: "mcp__a__t".to_owned(), ..Asked::default() }).unwrap();
        (Executor::start(program(&config), Context::of_process("/")).0, allowed)
    }

    #[tokio::test]
    async fn a_server_has_so_many_calls_and_is_busy_for_the_next() {
        let (executor, allowed) = mute("");
        let call = || executor.call(&allowed, Client::default()).boxed();
        let mut waiting: Vec<_> = (0..CALLS_MAX).map(|_| call()).collect();
        assert!(waiting.iter_mut().all(|call| call.now_or_never().is_none()));
        assert_eq!(
            call().await.unwrap_err().to_string(),
            "the server a is busy: 256 calls are in flight or wait for it, which is the most; try again when some of them have ended"
        );
        waiting.pop();
        assert!(call().now_or_never().is_none(), "there is room again");
        drop(waiting);
        executor.shutdown(Instant::now()).await;
    }

    /// Under a clock that passes at once while nothing is to be done.
    #[tokio::test(start_paused = true)]
    async fn a_call_waits_as_long_as_its_server_may_take() {
        let (executor, allowed) = mute(", connect: lazy, timeout_seconds: 7");
        let began = Instant::now();
        let told = executor.call(&allowed, Client::default()).await.unwrap_err().to_string();
        assert_eq!(began.elapsed().as_secs(), 7);
        // Whichever of the two clocks is first.
        assert!(told.contains("timeout_seconds") && told.contains("7 s"), "{told}");
        executor.shutdown(Instant::now()).await;
    }

    /// A task that had something to do all the time would keep the clock from passing.
    #[tokio::test(start_paused = true)]
    async fn whatever_state_a_server_is_in_its_task_rests() {
        let absent = "command: no-such-command-anywhere";
        let busy = [
            absent.to_owned(),
            format!("{absent}, connect: lazy"),
            format!("{absent}, connect: lazy, idle_stop_seconds: 1, restart: on_call"),
            format!("{absent}, persistent_sessions: false"),
            format!("{absent}, enabled: false"),
            format!("{absent}, when: {{ env: [NOT_SET_ANYWHERE] }}"),
        ];
        let servers = busy.iter().enumerate().map(|(at, entry)| format!("{{ name: s{at}, {entry} }}"));
        let config = format!("mcp_servers: [{}]", servers.collect::<Vec<_>>().join(", "));
        let (executor, _task) = Executor::start(program(&config), Context::new(BTreeMap::new(), "/"));
        executor.settled().await;
        let words: Vec<_> = executor.view().snapshot.health.values().map(|health| health.state.word()).collect();
        assert_eq!(words, ["failed", "failed", "failed", "failed", "parked", "unmet"]);
        tokio::time::sleep(Duration::from_secs(3600)).await;
        executor.shutdown(Instant::now()).await;
    }
}
