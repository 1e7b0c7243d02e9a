//! The life of a server, event by event.

use super::*;
use crate::core::catalog::tests::plan;
use proptest::prelude::*;

fn lifecycle(entry: &str) -> Lifecycle {
    let plan = plan(&format!("mcp_servers: [{{ name: a, {entry} }}]"));
    Lifecycle::new(&plan.servers[0], plan.servers[0].enabled)
}

fn start() -> Event {
    Event::Start { unmet: None }
}

fn delays(mut life: Lifecycle) -> (Vec<f64>, State) {
    let mut actions = life.on(start(), 0.5);
    let mut seconds = Vec::new();
    while let Some(action) = actions.iter().find(|action| !matches!(action, Action::Changed)).cloned() {
        actions = match action {
            Action::Connect(epoch) => life.on(Event::ConnectFailed(epoch, "refused".into()), 0.5),
            Action::Timer(epoch, delay) => {
                seconds.push(delay.as_secs_f64());
                life.on(Event::TimerFired(epoch), 0.5)
            }
            other => panic!("{other:?}"),
        };
    }
    (seconds, life.state().clone())
}

#[test]
fn a_remote_server_backs_off_and_gives_up() {
    let (seconds, state) = delays(lifecycle("url: 'https://x.example/mcp'"));
    assert_eq!(seconds, [1.0, 2.0, 4.0, 8.0, 16.0]);
    assert_eq!(state, State::Failed { cause: "refused (given up after 6 attempts)".into() });
    let (seconds, _) = delays(lifecycle("url: 'https://x.example/mcp', reconnect: { attempts: 7, max_seconds: 5 }"));
    assert_eq!(seconds, [1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0]);
}

#[test]
fn jitter_stays_within_its_bounds() {
    let backoff = Reconnect::default();
    assert_eq!(delay(&backoff, 1, 0.0), Duration::from_secs_f64(0.5));
    assert_eq!(delay(&backoff, 1, 1.0), Duration::from_secs_f64(1.5));
    assert_eq!(delay(&backoff, 60, 0.5), Duration::from_secs(30));
}

#[test]
fn a_stdio_server_stays_down_until_it_is_asked_for() {
    let mut life = lifecycle("command: x");
    life.on(start(), 0.5);
    life.on(Event::Connected(Epoch(1)), 0.5);
    let actions = life.on(Event::Lost(Epoch(1), "exited".into()), 0.5);
    assert_eq!(actions, [Action::Close(Epoch(1)), Action::Changed]);
    assert_eq!(life.on(Event::Wanted, 0.5), [], "restart: never");
    assert_eq!(life.on(Event::Reconnect, 0.5), [Action::Connect(Epoch(2)), Action::Changed]);
}

#[test]
fn on_call_starts_it_again_and_on_failure_at_once() {
    let mut life = lifecycle("command: x, restart: on_call");
    life.on(start(), 0.5);
    life.on(Event::ConnectFailed(Epoch(1), "no".into()), 0.5);
    assert_eq!(life.on(Event::Wanted, 0.5), [Action::Connect(Epoch(2)), Action::Changed]);
    let mut life = lifecycle("command: x, restart: on_failure");
    life.on(start(), 0.5);
    life.on(Event::Connected(Epoch(1)), 0.5);
    life.on(Event::Lost(Epoch(1), "exited".into()), 0.5);
    assert!(matches!(life.state(), State::Waiting { attempt: 2, .. }), "{:?}", life.state());
}

/// The plan has decided: `required` alone says nothing here.
#[test]
fn a_required_process_that_is_not_to_come_back_stays_down() {
    let mut life = lifecycle("command: x, required: true, restart: never");
    life.on(Event::Start { unmet: None }, 0.5);
    life.on(Event::ConnectFailed(Epoch(1), "gone".into()), 0.5);
    assert_eq!(life.state().word(), "failed");
}

#[test]
fn a_required_server_is_never_given_up_on() {
    let mut life = lifecycle("command: x, required: true");
    life.on(start(), 0.5);
    for round in 0..50 {
        let State::Connecting { epoch, .. } = *life.state() else { panic!("round {round}: {:?}", life.state()) };
        let actions = life.on(Event::ConnectFailed(epoch, "no".into()), 0.5);
        let Some(Action::Timer(epoch, _)) = actions.first() else { panic!("{actions:?}") };
        life.on(Event::TimerFired(*epoch), 0.5);
    }
}

#[test]
fn parked_and_unmet_never_connect() {
    let mut life = lifecycle("command: x, enabled: false");
    assert_eq!(life.on(start(), 0.5), []);
    assert_eq!(life.on(Event::Reconnect, 0.5), []);
    assert_eq!(life.state(), &State::Parked);
    let mut life = lifecycle("command: x, when: { env: [A] }");
    life.on(Event::Start { unmet: Some("A".into()) }, 0.5);
    assert_eq!(life.state().cause().unwrap(), "A is not set");
    assert_eq!(life.on(Event::Wanted, 0.5), []);
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let epoch = (0u64..8).prop_map(Epoch);
    let one = prop_oneof![
        Just(Event::Start { unmet: None }),
        epoch.clone().prop_map(Event::Connected),
        epoch.clone().prop_map(|e| Event::ConnectFailed(e, "x".into())),
        epoch.clone().prop_map(|e| Event::Lost(e, "x".into())),
        epoch.prop_map(Event::TimerFired),
        Just(Event::Wanted),
        Just(Event::Reconnect),
        Just(Event::Stop),
    ];
    proptest::collection::vec(one, 0..40)
}

proptest! {
    #[test]
    fn never_two_open_at_once_and_nothing_after_stop(events in events(), entry in proptest::sample::select(vec![
        "command: x", "command: x, restart: on_call", "command: x, restart: on_failure", "url: 'https://x.example/mcp'",
    ])) {
        let mut life = lifecycle(entry);
        let mut open: Option<Epoch> = None;
        let mut stopped = false;
        for event in events {
            // What the async side does by itself: an attempt that failed is no longer open.
            if let Event::ConnectFailed(epoch, _) = &event && open == Some(*epoch) && life.connecting(*epoch) {
                open = None;
            }
            let stop = event == Event::Stop;
            for action in life.on(event, 0.5) {
                prop_assert!(!stopped, "{action:?} after stop");
                match action {
                    Action::Connect(epoch) => {
                        prop_assert_eq!(open, None, "two live processes for one server");
                        open = Some(epoch);
                    }
                    Action::Close(epoch) => {
                        prop_assert_eq!(open, Some(epoch));
                        open = None;
                    }
                    _ => {}
                }
            }
            stopped |= stop;
            let expects_open = matches!(life.state(), State::Connecting { .. } | State::Ready { .. });
            prop_assert_eq!(open.is_some(), expects_open, "{:?}", life.state());
        }
    }
}
