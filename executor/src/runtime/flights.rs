//! The calls in flight of one server: counted and bounded, and the gate that keeps one from beginning on a connection
//! that is about to be closed.
//!
//! A call takes its [`Flight`] before it looks for a connection, so that a server isn't stopped for want of calls while
//! one is waiting for it.

use std::sync::Arc;

use tokio::sync::watch;

use crate::core::lifecycle::Epoch;

/// Counts one server's calls. Clones count the same ones.
#[derive(Clone, Debug)]
pub(super) struct Flights {
    most: usize,
    /// Tells its receivers when the last call ends and when it is closed, not of every call.
    now: Arc<watch::Sender<Now>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Now {
    calls: usize,
    /// Connections up to this one take no call any more.
    left: Epoch,
    closed: bool,
}

/// Why a call can't begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// So many are in flight, which is the most.
    Busy(usize),
    /// What was counted here is being replaced or ended.
    Closed,
}

/// A call in flight, as long as it lives.
#[derive(Debug)]
pub(super) struct Flight(Flights);

impl Flights {
    pub(super) fn new(most: usize) -> Self {
        Self { most, now: Arc::new(watch::Sender::new(Now::default())) }
    }

    /// Begins a call.
    pub(super) fn begin(&self) -> Result<Flight, Refused> {
        let mut refused = None;
        self.now.send_if_modified(|now| {
            refused = match now {
                Now { closed: true, .. } => Some(Refused::Closed),
                now if now.calls >= self.most => Some(Refused::Busy(self.most)),
                now => {
                    now.calls += 1;
                    None
                }
            };
            false
        });
        refused.map_or_else(|| Ok(Flight(self.clone())), Err)
    }

    /// Lets no further call begin on this connection or one before it.
    pub(super) fn leave(&self, epoch: Epoch) {
        self.now.send_if_modified(|now| {
            now.left = now.left.max(epoch);
            false
        });
    }

    /// The same, unless a call is in flight; whether it was done.
    pub(super) fn leave_if_quiet(&self, epoch: Epoch) -> bool {
        let mut left = false;
        self.now.send_if_modified(|now| {
            left = now.calls == 0;
            if left {
                now.left = now.left.max(epoch);
            }
            false
        });
        left
    }

    /// Lets no call begin any more at all.
    pub(super) fn close(&self) {
        self.now.send_if_modified(|now| !std::mem::replace(&mut now.closed, true));
    }

    /// Waits until no call is in flight.
    pub(super) async fn quiet(&self) {
        let mut now = self.now.subscribe();
        // An error would mean that the sender is gone, which is `self`.
        let _now = now.wait_for(|now| now.calls == 0).await;
    }

    /// Who is told each time that the last call in flight has ended.
    pub(super) fn ends(&self) -> Ends {
        Ends(self.now.subscribe())
    }
}

/// Hears of the ends of calls.
#[derive(Debug)]
pub(super) struct Ends(watch::Receiver<Now>);

impl Ends {
    /// Waits until the last call in flight ends.
    pub(super) async fn next(&mut self) {
        loop {
            match self.0.changed().await {
                Ok(()) if self.0.borrow_and_update().calls == 0 => return,
                Ok(()) => {}
                Err(_) => std::future::pending().await,
            }
        }
    }
}

impl Flight {
    /// Whether it is one of these.
    pub(super) fn is_of(&self, flights: &Flights) -> bool {
        Arc::ptr_eq(&self.0.now, &flights.now)
    }

    /// Whether it may use the connection of that epoch.
    pub(super) fn may_use(&self, epoch: Epoch) -> bool {
        epoch > self.0.now.borrow().left
    }

    /// Waits until what it was begun on is being replaced or ended.
    pub(super) async fn closed(&self) {
        let mut now = self.0.now.subscribe();
        let _now = now.wait_for(|now| now.closed).await;
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.now.send_if_modified(|now| {
            now.calls -= 1;
            now.calls == 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;

    #[test]
    fn so_many_and_no_more() {
        let flights = Flights::new(2);
        let one = flights.begin().unwrap();
        let _two = flights.begin().unwrap();
        assert_eq!(flights.begin().unwrap_err(), Refused::Busy(2));
        drop(one);
        let again = flights.begin().unwrap();
        assert!(again.is_of(&flights.clone()) && !again.is_of(&Flights::new(2)));
        flights.close();
        assert_eq!(flights.begin().unwrap_err(), Refused::Closed);
        assert_eq!(again.closed().now_or_never(), Some(()));
        assert_eq!(flights.quiet().now_or_never(), None);
    }

    #[test]
    fn a_connection_is_left_only_while_nobody_uses_it() {
        let flights = Flights::new(2);
        let mut ends = flights.ends();
        let call = flights.begin().unwrap();
        assert!(!flights.leave_if_quiet(Epoch(1)) && call.may_use(Epoch(1)));
        assert_eq!(ends.next().now_or_never(), None);
        drop(call);
        assert_eq!(ends.next().now_or_never(), Some(()));
        assert!(flights.leave_if_quiet(Epoch(1)));
        let late = flights.begin().unwrap();
        assert!(!late.may_use(Epoch(1)) && late.may_use(Epoch(2)));
        flights.leave(Epoch(2));
        assert!(!late.may_use(Epoch(2)), "a person doesn't wait for calls");
        flights.leave(Epoch(1));
        assert!(!late.may_use(Epoch(2)), "what was left stays left");
    }
}
