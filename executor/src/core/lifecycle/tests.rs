//! The life of a server, event by event. What holds of any order of events is in [`super::model`].

use super::*;
use crate::core::catalog::tests::plan;

pub(super) fn lifecycle(entry: &str) -> Lifecycle {
    let plan = plan(&format!("mcp_servers: [{{ name: a, {entry} }}]"));
    Lifecycle::new(&plan.servers[0], plan.servers[0].enabled)
}

fn start() -> Event {
    Event::Start { unmet: None }
}

/// One that has been connected once, with that epoch.
fn ready(entry: &str) -> (Lifecycle, Epoch) {
    let mut life = lifecycle(entry);
    life.on(start(), 0.5);
    life.on(Event::Wanted, 0.5);
    let State::Connecting { epoch, .. } = *life.state() else { panic!("{:?}", life.state()) };
    life.on(Event::Connected(epoch), 0.5);
    assert_eq!(life.state(), &State::Ready { epoch });
    (life, epoch)
}

/// The same after a crash.
fn crashed(entry: &str) -> Lifecycle {
    let (mut life, epoch) = ready(entry);
    let actions = life.on(Event::Lost(epoch, "exited".into()), 0.5);
    assert_eq!(actions[0], Action::Close(epoch));
    life
}

fn failed(cause: &str) -> State {
    State::Failed { cause: cause.to_owned() }
}

fn connects(actions: &[Action]) -> bool {
    actions.iter().any(|action| matches!(action, Action::Connect(_)))
}

/// Every attempt fails and every timer fires, until nothing is left to do: the waits in seconds, and the end.
fn exhausted(mut life: Lifecycle, mut actions: Vec<Action>) -> (Vec<f64>, State) {
    let mut seconds = Vec::new();
    while let Some(action) =
        actions.iter().find(|action| matches!(action, Action::Connect(_) | Action::Timer(..))).cloned()
    {
        actions = match action {
            Action::Connect(epoch) => life.on(Event::ConnectFailed(epoch, "refused".into(), Duration::ZERO), 0.5),
            Action::Timer(epoch, delay) => {
                seconds.push(delay.as_secs_f64());
                life.on(Event::TimerFired(epoch), 0.5)
            }
            other => panic!("{other:?}"),
        };
    }
    (seconds, life.state().clone())
}

const REMOTE: &str = "url: 'https://x.example/mcp'";

#[test]
fn a_remote_server_backs_off_and_gives_up() {
    let from_start = |entry: &str| {
        let mut life = lifecycle(entry);
        let actions = life.on(start(), 0.5);
        exhausted(life, actions)
    };
    let (seconds, state) = from_start(REMOTE);
    assert_eq!(seconds, [1.0, 2.0, 4.0, 8.0, 16.0]);
    assert_eq!(state, failed("refused (given up after 5 more attempts)"));
    let (seconds, _) = from_start(&format!("{REMOTE}, reconnect: {{ attempts: 7, max_seconds: 5 }}"));
    assert_eq!(seconds, [1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0]);
}

#[test]
fn a_lost_remote_server_has_as_many_attempts_as_one_that_was_never_there() {
    let (mut life, epoch) = ready(REMOTE);
    let actions = life.on(Event::Lost(epoch, "reset".into()), 0.5);
    let (seconds, state) = exhausted(life, actions);
    assert_eq!(seconds, [1.0, 2.0, 4.0, 8.0, 16.0]);
    assert_eq!(state, failed("refused (given up after 5 more attempts)"));
}

/// Whatever its config says, and never for longer than five minutes.
#[test]
fn a_server_that_asks_to_be_left_alone_is_for_so_long() {
    let waits = |entry: &str, asked: u64, chance: f64| {
        let mut life = lifecycle(entry);
        life.on(start(), chance);
        life.on(Event::ConnectFailed(life.epoch(), "HTTP 429".into(), Duration::from_secs(asked)), chance);
        let State::Waiting { delay, attempt: 2, .. } = *life.state() else { panic!("{:?}", life.state()) };
        delay.as_secs_f64()
    };
    assert_eq!(waits(REMOTE, 0, 0.5), 1.0);
    assert_eq!(waits(REMOTE, 1, 0.0), 1.0);
    // Not before, and not all at the same moment.
    assert_eq!(waits(REMOTE, 40, 0.0), 40.0);
    assert_eq!(waits(REMOTE, 40, 0.5), 40.25);
    let patient = format!("{REMOTE}, reconnect: {{ initial_seconds: 60, max_seconds: 60, jitter_seconds: 0 }}");
    assert_eq!(waits(&patient, 40, 0.5), 60.0);
    assert_eq!(waits(&patient, 7200, 0.5), 300.0);
}

/// The same credentials are refused again and again, and may be locked out by that.
#[test]
fn what_would_end_in_the_same_way_is_not_tried_again() {
    let again = "not tried again, because that would end in the same way; when it is mended, reconnect it";
    for (entry, cause) in [
        (REMOTE, format!("HTTP 401 ({again})")),
        ("command: x, required: true", format!("HTTP 401 ({again})")),
        ("command: x, restart: on_call", "HTTP 401".to_owned()),
    ] {
        let mut life = lifecycle(entry);
        life.on(start(), 0.5);
        assert_eq!(life.on(Event::Refused(life.epoch(), "HTTP 401".into()), 0.5), [Action::Changed], "{entry}");
        assert_eq!(life.state(), &failed(&cause));
        assert!(connects(&life.on(Event::Reconnect, 0.5)), "{entry}");
    }
}

#[test]
fn success_forgives_earlier_failures() {
    let mut life = lifecycle(REMOTE);
    life.on(start(), 0.5);
    for round in 0..20 {
        let State::Connecting { epoch, .. } = *life.state() else { panic!("round {round}: {:?}", life.state()) };
        life.on(Event::ConnectFailed(epoch, "refused".into(), Duration::ZERO), 0.5);
        let epoch = life.epoch();
        life.on(Event::TimerFired(epoch), 0.5);
        let State::Connecting { epoch, attempt: 2 } = *life.state() else { panic!("{:?}", life.state()) };
        life.on(Event::Connected(epoch), 0.5);
        assert_eq!(life.attempts(), 0);
        life.on(Event::Lost(epoch, "reset".into()), 0.5);
        let epoch = life.epoch();
        life.on(Event::TimerFired(epoch), 0.5);
        let State::Connecting { epoch, attempt: 2 } = *life.state() else { panic!("{:?}", life.state()) };
        life.on(Event::Connected(epoch), 0.5);
        life.on(Event::Reconnect, 0.5);
    }
}

#[test]
fn waits_keep_to_their_bounds_exactly() {
    let backoff = Reconnect::default();
    let seconds = |attempts, chance| delay(&backoff, attempts, Duration::ZERO, chance).as_secs_f64();
    assert_eq!([seconds(1, 0.0), seconds(1, 0.5), seconds(1, 1.0)], [0.5, 1.0, 1.5]);
    assert_eq!([seconds(5, 0.0), seconds(5, 1.0)], [15.5, 16.5]);
    assert_eq!([seconds(6, 0.0), seconds(6, 0.5), seconds(6, 1.0)], [29.5, 30.0, 30.0], "32 is over the longest");
    assert_eq!([seconds(60, 1.0), seconds(u32::MAX, 0.5)], [30.0, 30.0]);
    let small = Reconnect { initial_seconds: 0.1, ..backoff };
    assert_eq!(delay(&small, 1, Duration::ZERO, 0.0), Duration::ZERO, "never before now");
    let endless = Reconnect { initial_seconds: f64::MAX, max_seconds: f64::MAX, ..backoff };
    assert_eq!(delay(&endless, 9, Duration::ZERO, 0.5), Duration::MAX);
}

/// `restart` × what happens to a process, one row each.
#[test]
fn each_word_of_restart_does_what_it_says() {
    for (entry, after_crash, wakes) in [
        ("command: x", "failed", false),
        ("command: x, restart: never", "failed", false),
        ("command: x, restart: on_call", "failed", true),
        ("command: x, restart: on_failure", "waiting", false),
        ("command: x, connect: lazy", "failed", false),
        ("command: x, connect: lazy, restart: on_call", "failed", true),
        ("command: x, connect: lazy, restart: on_failure", "waiting", true),
        (REMOTE, "waiting", false),
        ("url: 'https://x.example/mcp', connect: lazy", "waiting", true),
    ] {
        let mut life = crashed(entry);
        assert_eq!((life.state().word(), life.wakes()), (after_crash, wakes), "{entry}");
        assert_eq!(life.state().cause().as_deref(), Some("exited"), "{entry}");
        assert_eq!(connects(&life.on(Event::Wanted, 0.5)), wakes, "{entry}");
    }
}

#[test]
fn a_stdio_server_stays_down_until_a_person_asks() {
    let mut life = crashed("command: x");
    for event in [Event::Wanted, Event::Quiet, Event::TimerFired(Epoch(1)), Event::Lost(Epoch(1), "again".into())] {
        assert_eq!(life.on(event.clone(), 0.5), [], "{event:?}");
        assert_eq!(life.state(), &failed("exited"));
    }
    assert_eq!(life.on(Event::Reconnect, 0.5), [Action::Connect(Epoch(2)), Action::Changed]);
}

#[test]
fn on_failure_comes_back_at_once_and_gives_up_for_good() {
    let mut life = crashed("command: x, restart: on_failure");
    assert!(matches!(life.state(), State::Waiting { attempt: 2, .. }), "{:?}", life.state());
    let epoch = life.epoch();
    let actions = life.on(Event::TimerFired(epoch), 0.5);
    let (seconds, state) = exhausted(life, actions);
    assert_eq!(seconds, [2.0, 4.0, 8.0, 16.0]);
    assert_eq!(state, failed("refused (given up after 5 more attempts)"));
}

#[test]
fn a_call_hurries_a_lazy_server_that_comes_back_and_forgives_nothing() {
    let mut life = crashed("command: x, connect: lazy, restart: on_failure");
    for attempt in 2..=6 {
        let late = life.epoch();
        assert!(connects(&life.on(Event::Wanted, 0.5)), "attempt {attempt}");
        assert_eq!(life.on(Event::TimerFired(late), 0.5), [], "the wait is over already");
        let State::Connecting { epoch, attempt: own } = *life.state() else { panic!("{:?}", life.state()) };
        assert_eq!(own, attempt);
        life.on(Event::ConnectFailed(epoch, "no".into(), Duration::ZERO), 0.5);
    }
    assert_eq!(life.state(), &failed("no (given up after 5 more attempts)"));
    assert!(!life.wakes());
}

#[test]
fn a_required_server_is_never_given_up_on() {
    for entry in ["command: x, required: true", "url: 'https://x.example/mcp', required: true"] {
        let mut life = lifecycle(entry);
        life.on(start(), 0.5);
        for round in 0..50 {
            let State::Connecting { epoch, .. } = *life.state() else { panic!("round {round}: {:?}", life.state()) };
            let actions = life.on(Event::ConnectFailed(epoch, "no".into(), Duration::ZERO), 0.5);
            let Some(Action::Timer(epoch, _)) = actions.first() else { panic!("{actions:?}") };
            life.on(Event::TimerFired(*epoch), 0.5);
        }
    }
}

/// What is written wins: `required` only fills in what the entry leaves open, and that is decided before it comes here.
#[test]
fn a_required_server_gives_up_when_its_entry_says_so() {
    for (entry, waits, cause) in [
        ("command: x, required: true, restart: never".to_owned(), &[][..], "refused"),
        (
            format!("{REMOTE}, required: true, reconnect: {{ attempts: 1 }}"),
            &[1.0],
            "refused (given up after 1 more attempt)",
        ),
    ] {
        let mut life = lifecycle(&entry);
        let actions = life.on(start(), 0.5);
        assert_eq!(exhausted(life, actions), (waits.to_vec(), failed(cause)), "{entry}");
    }
}

#[test]
fn a_lazy_server_is_connected_by_the_first_who_wants_it() {
    let mut life = lifecycle("command: x, connect: lazy");
    assert!(!life.wakes(), "nobody knows yet whether its condition is met");
    assert_eq!(life.on(start(), 0.5), [Action::Changed]);
    assert_eq!(life.state().word(), "configured");
    assert_eq!(life.state().cause().unwrap(), "it is lazy; the first call connects it");
    assert!(life.wakes() && life.state().has_arrived() && !life.state().was_tried());
    assert_eq!(life.on(Event::Wanted, 0.5), [Action::Connect(Epoch(1)), Action::Changed]);
    assert_eq!(life.on(Event::Wanted, 0.5), [], "once is enough");
    // Failed at the first try, it is as any other.
    life.on(Event::ConnectFailed(Epoch(1), "no".into(), Duration::ZERO), 0.5);
    assert_eq!((life.state(), life.wakes()), (&failed("no"), false));
}

#[test]
fn a_lazy_server_rests_after_its_time_without_a_call_and_comes_back() {
    let idle = Duration::from_secs(300);
    let mut life = lifecycle("command: x, connect: lazy, idle_stop_seconds: 300");
    life.on(start(), 0.5);
    life.on(Event::Wanted, 0.5);
    let (one, two) = (Epoch(1), Epoch(2));
    assert_eq!(life.on(Event::Connected(one), 0.5), [Action::Timer(one, idle), Action::Changed]);
    // A call begins meanwhile, so it may not rest; its end begins the time anew.
    assert_eq!(life.on(Event::TimerFired(one), 0.5), [Action::Rest(one)]);
    assert_eq!(life.on(Event::Quiet, 0.5), [Action::Timer(one, idle)]);
    assert_eq!(life.on(Event::TimerFired(one), 0.5), [Action::Rest(one)]);
    assert_eq!(life.on(Event::Rested(one), 0.5), [Action::Close(one), Action::Changed]);
    assert_eq!(life.state().word(), "configured");
    assert_eq!(life.state().cause().unwrap(), "stopped after 300 s without a call; the next call connects it");
    assert!(life.wakes() && life.state().was_tried());
    for late in [Event::Lost(one, "exited".into()), Event::TimerFired(one), Event::Rested(one), Event::Quiet] {
        assert_eq!(life.on(late, 0.5), []);
    }
    assert_eq!(life.on(Event::Wanted, 0.5), [Action::Connect(two), Action::Changed]);
}

#[test]
fn a_server_that_is_connected_at_start_never_rests() {
    let (mut life, epoch) = ready("command: x, idle_stop_seconds: 300");
    assert_eq!(life.on(Event::Quiet, 0.5), []);
    assert_eq!(life.on(Event::Rested(epoch), 0.5), []);
    let (mut life, _) = ready("command: x, connect: lazy");
    assert_eq!(life.on(Event::Quiet, 0.5), [], "idle_stop_seconds: 0");
}

#[test]
fn without_persistent_sessions_nothing_stays_open() {
    let mut life = lifecycle("command: x, persistent_sessions: false");
    life.on(start(), 0.5);
    assert_eq!(life.on(Event::Connected(Epoch(1)), 0.5), [Action::Close(Epoch(1)), Action::Changed]);
    assert_eq!(life.state(), &State::Ready { epoch: Epoch(1) });
    // There is nothing that could be lost or rest, and nothing to close.
    for event in [Event::Lost(Epoch(1), "gone".into()), Event::Quiet, Event::Rested(Epoch(1)), Event::Wanted] {
        assert_eq!(life.on(event, 0.5), []);
    }
    assert_eq!(life.on(Event::Reconnect, 0.5), [Action::Connect(Epoch(2)), Action::Changed]);
    life.on(Event::Connected(Epoch(2)), 0.5);
    assert_eq!(life.on(Event::Stop, 0.5), [Action::Changed]);
}

#[test]
fn a_person_connects_anew_from_every_state() {
    let connecting = |mut life: Lifecycle| {
        life.on(start(), 0.5);
        life
    };
    let lazy = "command: x, connect: lazy, idle_stop_seconds: 1";
    let (mut idle, epoch) = ready(lazy);
    idle.on(Event::Rested(epoch), 0.5);
    for (from, mut life, closes) in [
        ("configured", connecting(lifecycle(lazy)), false),
        ("configured", idle, false),
        ("connecting", connecting(lifecycle("command: x")), true),
        ("ready", ready("command: x").0, true),
        ("waiting", crashed(REMOTE), false),
        ("failed", crashed("command: x"), false),
    ] {
        assert_eq!(life.state().word(), from);
        let (before, actions) = (life.epoch(), life.on(Event::Reconnect, 0.5));
        assert_eq!(matches!(actions[0], Action::Close(_)), closes, "{from}: {actions:?}");
        assert_eq!(life.epoch(), Epoch(before.0 + 1), "{from}");
        assert!(connects(&actions) && matches!(life.state(), State::Connecting { attempt: 1, .. }), "{from}");
    }
}

#[test]
fn parked_and_unmet_never_connect() {
    let mut life = lifecycle("command: x, enabled: false");
    assert_eq!(life.on(start(), 0.5), []);
    assert_eq!(life.on(Event::Reconnect, 0.5), []);
    assert_eq!(life.state(), &State::Parked);
    for entry in ["command: x, when: { env: [A] }", "command: x, connect: lazy, when: { env: [A] }"] {
        let mut life = lifecycle(entry);
        life.on(Event::Start { unmet: Some("A".into()) }, 0.5);
        assert_eq!(life.state().cause().unwrap(), "A is not set");
        assert_eq!(life.on(Event::Wanted, 0.5), []);
        assert_eq!(life.on(Event::Reconnect, 0.5), []);
    }
}
