//! What holds of any order of events: a [`Lifecycle`] against a small model of what carries its actions out.
//!
//! The model knows which processes live, which timer runs, which calls are in flight. It makes the events that the real
//! one could make at that moment, and late ones of any epoch besides.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use proptest::prelude::*;

use super::tests::lifecycle;
use super::*;

const ENTRIES: [&str; 12] = [
    "command: x",
    "command: x, enabled: false",
    "command: x, restart: on_call",
    "command: x, restart: on_failure",
    "command: x, required: true",
    "command: x, persistent_sessions: false",
    "command: x, connect: lazy",
    "command: x, connect: lazy, idle_stop_seconds: 5",
    "command: x, connect: lazy, idle_stop_seconds: 5, restart: on_failure, reconnect: { attempts: 2 }",
    "command: x, connect: lazy, idle_stop_seconds: 5, persistent_sessions: false",
    "url: 'https://x.example/mcp'",
    "url: 'https://x.example/mcp', connect: lazy, idle_stop_seconds: 5",
];

/// A life of each kind that hasn't begun; compiled once, since there are thousands of cases.
static LIVES: LazyLock<Vec<Lifecycle>> = LazyLock::new(|| ENTRIES.map(lifecycle).into());

fn lives() -> impl Strategy<Value = Lifecycle> {
    (0..ENTRIES.len()).prop_map(|at| LIVES[at].clone())
}

/// What may happen next; the model makes an event of it, or nothing when it can't happen now.
#[derive(Clone, Copy, Debug)]
enum Step {
    Start {
        met: bool,
    },
    AttemptSucceeds,
    AttemptFails,
    AttemptIsRefused,
    ConnectionLost,
    TimerFires,
    CallBegins,
    CallEnds,
    Wanted,
    Reconnect,
    Stop,
    /// An answer of some epoch, most likely a late one.
    Late(u8, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let one = prop_oneof![
        2 => any::<bool>().prop_map(|met| Step::Start { met }),
        4 => Just(Step::AttemptSucceeds),
        3 => Just(Step::AttemptFails),
        1 => Just(Step::AttemptIsRefused),
        2 => Just(Step::ConnectionLost),
        4 => Just(Step::TimerFires),
        3 => Just(Step::CallBegins),
        3 => Just(Step::CallEnds),
        3 => Just(Step::Wanted),
        1 => Just(Step::Reconnect),
        3 => (0u8..6, 0u64..12).prop_map(|(kind, epoch)| Step::Late(kind, epoch)),
    ];
    let first = proptest::bool::weighted(0.9).prop_map(|met| Step::Start { met });
    let end = proptest::option::weighted(0.3, Just(Step::Stop));
    (first, proptest::collection::vec(one.clone(), 0..60), end, proptest::collection::vec(one, 0..6))
        .prop_map(|(first, steps, end, after)| [vec![first], steps, end.into_iter().collect(), after].concat())
}

struct World {
    life: Lifecycle,
    /// Processes and connections, also those that are being made.
    alive: BTreeSet<Epoch>,
    timer: Option<Epoch>,
    calls: usize,
    /// Connections up to this one take no call any more.
    left: Epoch,
    stopped: bool,
}

impl World {
    fn new(life: Lifecycle) -> Self {
        Self { life, alive: BTreeSet::new(), timer: None, calls: 0, left: Epoch(0), stopped: false }
    }

    fn step(&mut self, step: Step) {
        let connecting = match *self.life.state() {
            State::Connecting { epoch, .. } => Some(epoch),
            _ => None,
        };
        let connected = self.alive.first().copied().filter(|_| connecting.is_none());
        let event = match step {
            Step::Start { met: true } => Some(Event::Start { unmet: None }),
            Step::Start { met: false } => Some(Event::Start { unmet: Some("A".to_owned()) }),
            Step::AttemptSucceeds => connecting.map(Event::Connected),
            Step::AttemptFails => connecting.map(|epoch| {
                // A failed attempt has cleaned up after itself before it says so.
                self.alive.remove(&epoch);
                Event::ConnectFailed(epoch, "no".to_owned(), Duration::ZERO)
            }),
            Step::AttemptIsRefused => connecting.map(|epoch| {
                self.alive.remove(&epoch);
                Event::Refused(epoch, "no, never".to_owned())
            }),
            Step::ConnectionLost => connected.map(|epoch| Event::Lost(epoch, "gone".to_owned())),
            Step::TimerFires => self.timer.take().map(Event::TimerFired),
            Step::CallBegins => {
                self.calls += usize::from(connected.is_some_and(|epoch| epoch > self.left));
                None
            }
            Step::CallEnds if self.calls > 0 => {
                self.calls -= 1;
                (self.calls == 0).then_some(Event::Quiet)
            }
            Step::CallEnds => None,
            Step::Wanted => Some(Event::Wanted),
            Step::Reconnect => Some(Event::Reconnect),
            Step::Stop => Some(Event::Stop),
            Step::Late(kind, epoch) => Some(late(kind, Epoch(epoch))).filter(|_| {
                // What is asked of now is no late answer.
                Some(Epoch(epoch)) != connecting && Some(Epoch(epoch)) != connected && Some(Epoch(epoch)) != self.timer
            }),
        };
        if let Some(event) = event {
            self.tell(event);
        }
        self.check();
    }

    fn tell(&mut self, event: Event) {
        let (before, epoch) = (self.life.state().clone(), self.life.epoch());
        let wakes = self.life.wakes();
        let actions = self.life.on(event.clone(), 0.5);
        let is_terminal = matches!(
            before,
            State::Failed { .. }
                | State::Parked
                | State::Unmet { .. }
                | State::Stopped
                | State::Configured(Rest::Uncalled)
        );
        let may_leave = match event {
            Event::Stop => !self.stopped,
            Event::Reconnect => matches!(before, State::Failed { .. } | State::Configured(_)),
            Event::Wanted => wakes,
            _ => false,
        };
        if is_terminal && !may_leave {
            assert_eq!((self.life.state(), &actions), (&before, &Vec::new()), "{event:?} lost a terminal state");
        }
        assert!(self.life.epoch() >= epoch, "epochs never go back");
        assert!(!self.stopped || actions.is_empty(), "{event:?} after stop led to {actions:?}");
        self.stopped |= event == Event::Stop;
        assert_eq!(*self.life.state() != before, actions.contains(&Action::Changed), "{event:?}: a change is told");
        // As the real one does it: what is to be opened waits for what is to be closed.
        for action in actions {
            match action {
                Action::Connect(epoch) => {
                    assert!(self.alive.is_empty(), "two live processes for one server: {:?} and {epoch:?}", self.alive);
                    self.alive.insert(epoch);
                    self.timer = None;
                }
                Action::Close(epoch) => {
                    assert!(!matches!(event, Event::Rested(_)) || self.calls == 0, "a call in flight was cut off");
                    assert!(self.alive.remove(&epoch), "nothing of {epoch:?} is open");
                    self.calls = 0;
                }
                Action::Timer(epoch, _) => self.timer = Some(epoch),
                Action::Rest(epoch) => {
                    if self.calls == 0 {
                        self.left = epoch;
                        self.tell(Event::Rested(epoch));
                    }
                }
                Action::Changed => {}
            }
        }
    }

    /// What holds at every moment.
    fn check(&self) {
        let state = self.life.state();
        let open = match *state {
            State::Connecting { epoch, .. } => Some(epoch),
            State::Ready { epoch } if self.life.keeps => Some(epoch),
            _ => None,
        };
        assert_eq!(self.alive, open.into_iter().collect(), "{state:?}");
        match state {
            State::Waiting { .. } => assert_eq!(self.timer, Some(self.life.epoch()), "nobody would wake it"),
            State::Ready { epoch } if self.life.idle.is_some() && self.calls == 0 => {
                assert!(self.timer == Some(*epoch), "it would never rest");
            }
            _ => {}
        }
        assert!(state.was_tried() <= state.has_arrived());
        assert!(!self.life.wakes() || !self.stopped);
    }
}

fn late(kind: u8, epoch: Epoch) -> Event {
    match kind {
        0 => Event::Connected(epoch),
        1 => Event::ConnectFailed(epoch, "late".to_owned(), Duration::ZERO),
        2 => Event::Lost(epoch, "late".to_owned()),
        3 => Event::TimerFired(epoch),
        4 => Event::Refused(epoch, "late".to_owned()),
        _ => Event::Rested(epoch),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn never_two_alive_never_a_lost_end_never_an_action_after_stop(
        life in lives(), steps in steps(),
    ) {
        let mut world = World::new(life);
        for step in steps {
            world.step(step);
        }
    }

    /// Whatever happened before: a server that can't be connected any more is given up, and one that is stopped is gone.
    #[test]
    fn every_connect_is_closed_or_given_up(
        life in lives(), steps in steps(), stop in any::<bool>(),
    ) {
        let mut world = World::new(life);
        for step in steps {
            world.step(step);
        }
        let endless = matches!(world.life.returns, Return::Backoff(backoff) if backoff.attempts == 0);
        if stop || endless {
            world.step(Step::Stop);
        } else {
            while world.calls > 0 {
                world.step(Step::CallEnds);
            }
            let mut left = 40;
            while !world.alive.is_empty() || world.timer.is_some() {
                for step in [Step::ConnectionLost, Step::AttemptFails, Step::TimerFires] {
                    world.step(step);
                }
                left -= 1;
                prop_assert!(left > 0, "it goes on for ever: {:?}", world.life);
            }
        }
        prop_assert!(world.alive.is_empty());
        prop_assert!(world.life.state().has_arrived() || *world.life.state() == State::Configured(Rest::Starting));
    }
}
