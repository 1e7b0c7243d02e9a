//! One server's life as a state machine without IO: `on(event) -> actions`.
//!
//! Each connect has an epoch. Whatever answers it carries that epoch back, so that a late `Connected` of an attempt
//! that was given up changes nothing. Time and chance come in as arguments.

use std::time::Duration;

use mcplan_compiler::plan::{Connect, Launch, Reconnect, Restart, Server};

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
    /// Declared, not connected, and nothing is wrong with that.
    Configured(Rest),
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
    /// Given up for good; only a person or, with `restart: on_call`, a call brings it back.
    Failed {
        /// Why.
        cause: String,
    },
    /// Ended for good.
    Stopped,
}

/// Why a server that is declared and may be connected isn't.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// It is about to be started.
    Starting,
    /// `connect: lazy`, and nobody has called it yet.
    Uncalled,
    /// Lazy, and stopped because nobody called it for this long.
    Idle(Duration),
}

impl State {
    /// The word that is shown.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Parked => "parked",
            Self::Unmet { .. } => "unmet",
            Self::Configured(_) => "configured",
            Self::Connecting { .. } => "connecting",
            Self::Ready { .. } => "ready",
            Self::Waiting { .. } => "waiting",
            Self::Failed { .. } => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Why it doesn't serve, as far as there is a reason.
    pub fn cause(&self) -> Option<String> {
        match self {
            Self::Waiting { cause, .. } | Self::Failed { cause } => Some(cause.clone()),
            Self::Unmet { variable } => Some(format!("{variable} is not set")),
            Self::Configured(Rest::Uncalled) => Some("it is lazy; the first call connects it".to_owned()),
            Self::Configured(Rest::Idle(idle)) => {
                Some(format!("stopped after {} s without a call; the next call connects it", idle.as_secs_f64()))
            }
            _ => None,
        }
    }

    /// Whether it has come as far as it does by itself for now: connected, failed, or at rest until it is wanted.
    pub fn has_arrived(&self) -> bool {
        !matches!(self, Self::Configured(Rest::Starting) | Self::Connecting { .. })
    }

    /// Whether it was connected or has failed, or never will be: nobody learns more by waiting for it.
    pub fn was_tried(&self) -> bool {
        self.has_arrived() && !matches!(self, Self::Configured(Rest::Uncalled))
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
    /// An attempt failed, and the server asked to be left alone for so long.
    ConnectFailed(Epoch, String, Duration),
    /// An attempt failed, and another one would end in the same way: wrong credentials, no such program.
    Refused(Epoch, String),
    /// A connection that had been ready is gone.
    Lost(Epoch, String),
    /// The wait is over.
    TimerFired(Epoch),
    /// The last call in flight has ended.
    Quiet,
    /// The answer to [`Action::Rest`]: no call is in flight, and none begins on this connection any more.
    Rested(Epoch),
    /// A call wants this server, or a list that nobody knows without it.
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
    /// Unless a call is in flight, let none begin on this connection any more and answer with [`Event::Rested`].
    Rest(Epoch),
    /// Tell: the state changed.
    Changed,
}

/// The longest wait that a server can ask for.
const ASKED_MAX: Duration = Duration::from_secs(300);

/// What is said of a server that would come back by itself, had it not been refused.
const NOT_AGAIN: &str = "not tried again, because that would end in the same way; when it is mended, reconnect it";

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
    lazy: bool,
    /// How long it stays connected without a call.
    idle: Option<Duration>,
    /// Whether its connection is kept for calls; if not, each call opens a session of its own.
    keeps: bool,
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
        let state = if enabled { State::Configured(Rest::Starting) } else { State::Parked };
        let lazy = server.connect == Connect::Lazy;
        let (epoch, keeps) = (Epoch::default(), server.persistent_sessions);
        // Who is connected at start is wanted all the time, and who keeps no connection has none to rest from.
        let idle = Duration::try_from_secs_f64(server.idle_stop_seconds).ok();
        let idle = idle.filter(|idle| lazy && keeps && !idle.is_zero());
        Self { state, epoch, attempts: 0, enabled, returns, lazy, idle, keeps }
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

    /// Whether a call connects it from where it is.
    pub fn wakes(&self) -> bool {
        match self.state {
            State::Configured(Rest::Uncalled | Rest::Idle(_)) => true,
            State::Failed { .. } => self.returns == Return::OnCall,
            // A lazy server that comes back after a failure does so for the call that wants it.
            State::Waiting { .. } => self.lazy,
            _ => false,
        }
    }

    /// Whether it cares for the ends of calls.
    pub fn can_rest(&self) -> bool {
        self.idle.is_some()
    }

    /// Takes an event. `chance` is uniform in 0..1 and decides the jitter.
    pub fn on(&mut self, event: Event, chance: f64) -> Vec<Action> {
        if self.state == State::Stopped || !self.enabled && event != Event::Stop {
            return Vec::new();
        }
        match event {
            Event::Start { unmet } if self.state == State::Configured(Rest::Starting) => match unmet {
                Some(variable) => self.turn(State::Unmet { variable }, Vec::new()),
                None if self.lazy => self.turn(State::Configured(Rest::Uncalled), Vec::new()),
                None => self.connect(Vec::new()),
            },
            Event::Connected(epoch) if self.connecting(epoch) => {
                self.attempts = 0;
                let actions = match self.idle {
                    Some(idle) => vec![Action::Timer(epoch, idle)],
                    None if self.keeps => Vec::new(),
                    None => vec![Action::Close(epoch)],
                };
                self.turn(State::Ready { epoch }, actions)
            }
            Event::ConnectFailed(epoch, cause, asked) if self.connecting(epoch) => {
                self.after_loss(cause, asked, chance)
            }
            Event::Refused(epoch, cause) if self.connecting(epoch) => {
                let cause = match self.returns {
                    Return::Backoff(_) => format!("{cause} ({NOT_AGAIN})"),
                    Return::OnCall | Return::ByHand => cause,
                };
                self.turn(State::Failed { cause }, Vec::new())
            }
            Event::Lost(epoch, cause) if self.keeps && self.state == (State::Ready { epoch }) => {
                let mut actions = vec![Action::Close(epoch)];
                actions.extend(self.after_loss(cause, Duration::ZERO, chance));
                actions
            }
            Event::TimerFired(epoch) if epoch == self.epoch => match self.state {
                State::Waiting { .. } => self.connect(Vec::new()),
                State::Ready { .. } if self.idle.is_some() => vec![Action::Rest(epoch)],
                _ => Vec::new(),
            },
            Event::Quiet => match (&self.state, self.idle) {
                (State::Ready { epoch }, Some(idle)) => vec![Action::Timer(*epoch, idle)],
                _ => Vec::new(),
            },
            Event::Rested(epoch) if self.state == (State::Ready { epoch }) => match self.idle {
                Some(idle) => self.turn(State::Configured(Rest::Idle(idle)), vec![Action::Close(epoch)]),
                None => Vec::new(),
            },
            Event::Wanted if self.wakes() => {
                // What waits has failed a number of times already, and a call doesn't undo that.
                if !matches!(self.state, State::Waiting { .. }) {
                    self.attempts = 0;
                }
                self.connect(Vec::new())
            }
            Event::Reconnect if !matches!(self.state, State::Configured(Rest::Starting) | State::Unmet { .. }) => {
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
            State::Connecting { epoch, .. } => Some(epoch),
            State::Ready { epoch } if self.keeps => Some(epoch),
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

    fn after_loss(&mut self, cause: String, asked: Duration, chance: f64) -> Vec<Action> {
        match self.returns {
            // The first attempt isn't a return: five attempts come after it.
            Return::Backoff(backoff) if backoff.attempts == 0 || self.attempts <= backoff.attempts => {
                let delay = delay(&backoff, self.attempts, asked, chance);
                // After a loss `attempts` is 0, so that the first return waits the first delay too.
                self.attempts = self.attempts.max(1);
                let attempt = self.attempts + 1;
                self.epoch.0 += 1;
                self.turn(State::Waiting { attempt, delay, cause }, vec![Action::Timer(self.epoch, delay)])
            }
            Return::Backoff(backoff) => {
                let word = if backoff.attempts == 1 { "attempt" } else { "attempts" };
                let cause = format!("{cause} (given up after {} more {word})", backoff.attempts);
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

/// The wait before return number `attempts` (from 1; 0 counts as 1): doubling, with jitter on both sides, and never
/// longer than the longest. A server that asks for a longer one has it, and those that it asked at the same moment come
/// back one after another.
fn delay(backoff: &Reconnect, attempts: u32, asked: Duration, chance: f64) -> Duration {
    let doubled = backoff.initial_seconds * 2f64.powi(attempts.saturating_sub(1).min(60) as i32);
    let jitter = (chance * 2.0 - 1.0) * backoff.jitter_seconds;
    let wait = (doubled.min(backoff.max_seconds) + jitter).min(backoff.max_seconds).max(0.0);
    let asked = match asked.min(ASKED_MAX) {
        Duration::ZERO => 0.0,
        asked => asked.as_secs_f64() + chance * backoff.jitter_seconds,
    };
    // What a lock says was not looked at by the compiler of today.
    Duration::try_from_secs_f64(wait.max(asked)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod model;
#[cfg(test)]
mod tests;
