//! One server's life as a state machine without IO: `on(event) -> actions`.
//!
//! Each connect has an epoch. Whatever answers it carries that epoch back, so that a late `Connected` of an attempt
//! that was given up changes nothing. Time and chance come in as arguments.

use std::time::Duration;

use mcplan_compiler::plan::{Launch, Reconnect, Restart, Server};

/// Numbers the attempts of one server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// Where a server is in its life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// Disabled: never connected.
    Parked,
    /// A variable of `when.env` isn't set.
    Unmet {
        /// Which.
        variable: String,
    },
    /// Declared, not started yet.
    Configured,
    /// Being connected.
    Connecting {
        /// This attempt.
        epoch: Epoch,
        /// From 1; grows until one succeeds.
        attempt: u32,
    },
    /// Serving.
    Ready {
        /// The attempt that succeeded.
        epoch: Epoch,
    },
    /// Waiting before the next attempt.
    Waiting {
        /// The attempt that comes.
        attempt: u32,
        /// How long it waits.
        delay: Duration,
        /// Why the last one ended.
        cause: String,
    },
    /// Given up; only a person or, with `restart: on_call`, a call brings it back.
    Failed {
        /// Why.
        cause: String,
    },
    /// Ended for good.
    Stopped,
}

impl State {
    /// The word that is shown.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Unmet { .. } => "unmet",
            Self::Configured => "configured",
            Self::Connecting { .. } => "connecting",
            Self::Ready { .. } => "ready",
            Self::Waiting { .. } => "waiting",
            Self::Failed { .. } => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Whether it has come as far as it does by itself for now.
    pub fn has_arrived(&self) -> bool {
        !matches!(self, Self::Configured | Self::Connecting { .. })
    }

    /// Why it doesn't serve, as far as there is a reason.
    pub fn cause(&self) -> Option<String> {
        match self {
            Self::Waiting { cause, .. } | Self::Failed { cause } => Some(cause.clone()),
            Self::Unmet { variable } => Some(format!("{variable} is not set")),
            _ => None,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Begin; with the first unset variable of `when.env`.
    Start {
        /// Unset variable, if any.
        unmet: Option<String>,
    },
    /// An attempt succeeded.
    Connected(Epoch),
    /// An attempt failed.
    ConnectFailed(Epoch, String),
    /// A connection that had been ready is gone.
    Lost(Epoch, String),
    /// The wait is over.
    TimerFired(Epoch),
    /// A call wants this server.
    Wanted,
    /// A person asked for a new connection.
    Reconnect,
    /// End for good.
    Stop,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect, and answer with this epoch.
    Connect(Epoch),
    /// Close the connection or give up the attempt of this epoch.
    Close(Epoch),
    /// Fire after this long, with this epoch. A timer before it is void.
    Timer(Epoch, Duration),
    /// Tell: the state changed.
    Changed,
}

/// When a lost server comes back.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Return {
    Backoff(Reconnect),
    OnCall,
    ByHand,
}

/// The state machine of one server.
#[derive(Clone, Debug)]
pub struct Lifecycle {
    state: State,
    epoch: Epoch,
    attempts: u32,
    enabled: bool,
    returns: Return,
}

impl Lifecycle {
    /// For a server of a plan; `enabled` is false when the whole plan or the server is switched off.
    pub fn new(server: &Server, enabled: bool) -> Self {
        let returns = match &server.launch {
            Launch::StreamableHttp(_) | Launch::Sse(_) | Launch::Websocket(_) => Return::Backoff(server.reconnect),
            Launch::Stdio(stdio) => match stdio.restart {
                Restart::OnFailure => Return::Backoff(server.reconnect),
                Restart::OnCall => Return::OnCall,
                Restart::Never => Return::ByHand,
            },
        };
        let state = if enabled { State::Configured } else { State::Parked };
        Self { state, epoch: Epoch::default(), attempts: 0, enabled, returns }
    }

    /// Where it is.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The last attempt that was begun, or is waited for.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Attempts since the last success.
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Takes an event. `chance` is uniform in 0..1 and decides the jitter.
    pub fn on(&mut self, event: Event, chance: f64) -> Vec<Action> {
        if self.state == State::Stopped || !self.enabled && event != Event::Stop {
            return Vec::new();
        }
        match event {
            Event::Start { unmet: Some(variable) } if self.state == State::Configured => {
                self.turn(State::Unmet { variable }, Vec::new())
            }
            Event::Start { unmet: None } if self.state == State::Configured => self.connect(Vec::new()),
            Event::Connected(epoch) if self.connecting(epoch) => {
                self.attempts = 0;
                self.turn(State::Ready { epoch }, Vec::new())
            }
            Event::ConnectFailed(epoch, cause) if self.connecting(epoch) => self.after_loss(cause, chance),
            Event::Lost(epoch, cause) if self.state == (State::Ready { epoch }) => {
                let mut actions = vec![Action::Close(epoch)];
                actions.extend(self.after_loss(cause, chance));
                actions
            }
            Event::TimerFired(epoch) if epoch == self.epoch && matches!(self.state, State::Waiting { .. }) => {
                self.connect(Vec::new())
            }
            Event::Wanted if self.returns == Return::OnCall && matches!(self.state, State::Failed { .. }) => {
                self.attempts = 0;
                self.connect(Vec::new())
            }
            Event::Reconnect if !matches!(self.state, State::Configured | State::Unmet { .. }) => {
                self.attempts = 0;
                let open = self.open().map(Action::Close);
                self.connect(open.into_iter().collect())
            }
            Event::Stop => {
                let open = self.open().map(Action::Close);
                self.turn(State::Stopped, open.into_iter().collect())
            }
            // Late answers of older epochs, and what this state has no use for.
            _ => Vec::new(),
        }
    }

    fn connecting(&self, epoch: Epoch) -> bool {
        matches!(self.state, State::Connecting { epoch: own, .. } if own == epoch)
    }

    /// The epoch of what is open or being opened.
    fn open(&self) -> Option<Epoch> {
        match self.state {
            State::Connecting { epoch, .. } | State::Ready { epoch } => Some(epoch),
            _ => None,
        }
    }

    fn connect(&mut self, before: Vec<Action>) -> Vec<Action> {
        self.epoch.0 += 1;
        self.attempts += 1;
        let mut actions = before;
        actions.push(Action::Connect(self.epoch));
        self.turn(State::Connecting { epoch: self.epoch, attempt: self.attempts }, actions)
    }

    fn after_loss(&mut self, cause: String, chance: f64) -> Vec<Action> {
        match self.returns {
            // The first attempt isn't a return: five attempts come after it.
            Return::Backoff(backoff) if backoff.attempts == 0 || self.attempts <= backoff.attempts => {
                let delay = delay(&backoff, self.attempts, chance);
                // After a loss `attempts` is 0, so that the first return waits the first delay too.
                self.attempts = self.attempts.max(1);
                let attempt = self.attempts + 1;
                self.epoch.0 += 1;
                self.turn(State::Waiting { attempt, delay, cause }, vec![Action::Timer(self.epoch, delay)])
            }
            Return::Backoff(_) => {
                let cause = format!("{cause} (given up after {} attempts)", self.attempts);
                self.turn(State::Failed { cause }, Vec::new())
            }
            Return::OnCall | Return::ByHand => self.turn(State::Failed { cause }, Vec::new()),
        }
    }

    fn turn(&mut self, state: State, mut actions: Vec<Action>) -> Vec<Action> {
        self.state = state;
        actions.push(Action::Changed);
        actions
    }
}

/// The wait before return number `attempts` (from 1; 0 counts as 1): doubling, capped, with jitter on both sides.
fn delay(backoff: &Reconnect, attempts: u32, chance: f64) -> Duration {
    let doubled = backoff.initial_seconds * 2f64.powi(attempts.saturating_sub(1).min(60) as i32);
    let jitter = (chance * 2.0 - 1.0) * backoff.jitter_seconds;
    // What a lock says was not looked at by the compiler of today.
    Duration::try_from_secs_f64((doubled.min(backoff.max_seconds) + jitter).max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests;
