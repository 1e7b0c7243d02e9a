//! Many notices in a burst become one: due 16 ms after the last, at the latest 300 ms after the first.

use std::time::Duration;

/// Quiet that ends a burst.
pub const QUIET: Duration = Duration::from_millis(16);
/// The longest that a burst is waited for.
pub const LONGEST: Duration = Duration::from_millis(300);

/// A burst that is being waited for. Times are since any fixed moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalesce {
    burst: Option<(Duration, Duration)>,
}

impl Coalesce {
    /// A notice came at `now`.
    pub fn notice(&mut self, now: Duration) {
        let first = self.burst.map_or(now, |(first, _)| first);
        self.burst = Some((first, now));
    }

    /// When the burst counts as over, if there is one.
    pub fn due(&self) -> Option<Duration> {
        self.burst.map(|(first, last)| (last + QUIET).min(first + LONGEST))
    }

    /// Ends the burst if it is over at `now`.
    pub fn take(&mut self, now: Duration) -> bool {
        let over = self.due().is_some_and(|due| due <= now);
        if over {
            self.burst = None;
        }
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
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
        for at in 0..1000 {
            burst.notice(ms(at));
        }
        assert_eq!(burst.due(), Some(ms(300)));
    }

    proptest! {
        #[test]
        fn every_notice_is_followed_by_a_take_within_the_bound(gaps in proptest::collection::vec(0u64..40, 1..60)) {
            let mut burst = Coalesce::default();
            let mut now = Duration::ZERO;
            let mut waiting: Option<Duration> = None;
            for gap in gaps {
                let next = now + ms(gap);
                if let Some(due) = burst.due().filter(|due| *due <= next) {
                    prop_assert!(burst.take(due));
                    prop_assert!(due - waiting.take().unwrap() <= LONGEST);
                }
                now = next;
                burst.notice(now);
                waiting.get_or_insert(now);
            }
            prop_assert!(burst.due().is_some());
        }
    }
}
