//! Bursts, servers that cry wolf, and servers that never stop.

use super::*;
use proptest::prelude::*;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A server and whoever reads its lists, which takes `takes`.
struct Watched {
    coalesce: Coalesce,
    now: Duration,
    /// When a reading that is under way is done.
    done: Option<Duration>,
    takes: Duration,
    changes: bool,
    /// When readings began.
    reads: Vec<Duration>,
}

impl Watched {
    fn new(takes: u64, changes: bool) -> Self {
        let coalesce = Coalesce::default();
        Self { coalesce, now: Duration::ZERO, done: None, takes: ms(takes), changes, reads: Vec::new() }
    }

    /// Lets time pass; does at each moment what is due. `upon` says whether the server announces a change after a list.
    fn until(&mut self, then: Duration, upon: bool) {
        loop {
            let next = [self.coalesce.due(), self.done].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= then) else { break };
            self.now = self.now.max(next);
            if self.done.is_some_and(|done| done <= self.now) {
                self.done = None;
                if upon {
                    self.coalesce.notice(self.now);
                }
                self.coalesce.read(self.now, self.changes);
            } else if self.coalesce.take(self.now) {
                self.reads.push(self.now);
                self.done = Some(self.now + self.takes);
            }
        }
        self.now = then;
    }

    fn notice(&mut self, at: Duration) -> bool {
        self.until(at, false);
        self.coalesce.notice(at)
    }
}

#[test]
fn a_burst_is_one_and_never_waits_for_ever() {
    let mut burst = Coalesce::default();
    assert_eq!(burst.due(), None);
    burst.notice(ms(0));
    burst.notice(ms(10));
    assert_eq!(burst.due(), Some(ms(26)));
    assert!(!burst.take(ms(25)));
    assert!(burst.take(ms(26)));
    assert!(!burst.take(ms(1000)), "taken once");
    let mut burst = Coalesce::default();
    for at in 0..1000 {
        burst.notice(ms(at));
    }
    assert_eq!(burst.due(), Some(ms(300)));
}

#[test]
fn what_is_announced_while_the_lists_are_read_has_them_read_once_more() {
    let mut server = Watched::new(100, true);
    server.notice(ms(0));
    for at in [20, 60, 110] {
        server.notice(ms(at));
    }
    server.until(ms(10_000), false);
    assert_eq!(server.reads.len(), 2, "{:?}", server.reads);
    assert_eq!(server.reads[0], ms(16));
    assert!(server.reads[1] >= ms(116), "not while the first is under way: {:?}", server.reads);
}

#[test]
fn changes_far_from_each_other_are_followed_at_once() {
    let mut server = Watched::new(2, true);
    for at in 0..20 {
        server.notice(ms(at * 2_000));
    }
    server.until(ms(100_000), false);
    let expected: Vec<_> = (0..20).map(|at| ms(at * 2_000 + 16)).collect();
    assert_eq!(server.reads, expected);
}

#[test]
fn a_server_that_announces_a_change_after_every_list_is_not_followed_round_and_round() {
    let mut same = Watched::new(1, false);
    same.notice(ms(0));
    same.until(Duration::from_secs(60), true);
    assert!(same.reads.len() < 20, "{} readings of the same lists", same.reads.len());
    assert!(!same.coalesce.is_unstable());
    // A real change is read soon enough all the same, and makes the server believed again.
    same.changes = true;
    same.until(Duration::from_secs(71), true);
    let gaps: Vec<_> = same.reads.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap <= SLOW + ms(1)) && gaps.last() <= Some(&(LONGEST + ms(1))), "{gaps:?}");
    let mut other = Watched::new(1, true);
    other.notice(ms(0));
    other.until(Duration::from_secs(60), true);
    assert!(other.reads.len() <= 210, "{} readings in a minute", other.reads.len());
}

#[test]
fn more_than_ten_a_second_for_thirty_seconds_is_unstable_and_calm_is_stable_again() {
    for (per_second, expected) in [(10, None), (11, Some(30)), (100, Some(30))] {
        let mut server = Watched::new(5, true);
        let mut turned = None;
        for at in 0..60 * per_second {
            if server.notice(ms(at * 1000 / per_second)) {
                assert_eq!(turned.replace(at / per_second), None, "told once");
            }
        }
        assert_eq!(turned, expected, "{per_second} a second");
        let late = server.reads.iter().filter(|at| **at > Duration::from_secs(40)).count();
        assert_eq!(late <= 2, expected.is_some(), "{per_second} a second: {late} readings in twenty seconds");
        if expected.is_some() {
            let calm = server.coalesce.calm_at().unwrap();
            assert!(calm >= Duration::from_secs(89), "{calm:?}");
            assert!(!server.coalesce.pass(calm - Duration::from_secs(2)) && server.coalesce.is_unstable());
            assert!(server.coalesce.pass(calm) && !server.coalesce.is_unstable());
        }
        assert_eq!(server.coalesce.calm_at(), None);
    }
}

#[test]
fn a_pause_begins_the_count_anew() {
    let mut server = Coalesce::default();
    for second in 0..58 {
        // Nothing in the thirtieth second.
        for at in (0..20).filter(|_| second != 29) {
            assert!(!server.notice(ms(second * 1000 + at * 50)), "second {second}");
        }
    }
    assert!(!server.is_unstable());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Every notice is followed by a reading that begins after it and within the bound; there are never two at once.
    #[test]
    fn no_notice_is_forgotten_and_no_reading_comes_too_often(
        gaps in proptest::collection::vec(prop_oneof![0u64..40, 0u64..2_000], 1..300),
        takes in 1u64..200, changes in any::<bool>(), upon in any::<bool>(),
    ) {
        let mut server = Watched::new(takes, changes);
        let mut notices = Vec::new();
        let mut at = Duration::ZERO;
        for gap in gaps {
            at += ms(gap);
            server.until(at, upon);
            server.coalesce.notice(at);
            notices.push(at);
        }
        server.until(at + SLOW * 3, false);
        for notice in notices {
            let read = server.reads.iter().find(|read| **read >= notice);
            let bound = if changes && !server.coalesce.is_unstable() { LONGEST } else { SLOW };
            prop_assert!(read.is_some_and(|read| *read <= notice + bound + ms(takes)), "{notice:?}: {read:?}");
        }
        for pair in server.reads.windows(2) {
            prop_assert!(pair[1] - pair[0] >= ms(takes).max(QUIET), "{pair:?}");
        }
        // However often it is told, the same lists are read a bounded number of times.
        let span = server.now.as_secs_f64();
        let most = if changes { 12.0 + span * 7.0 } else { 12.0 + span * 2.0 };
        prop_assert!((server.reads.len() as f64) < most, "{} in {span} s", server.reads.len());
    }
}
