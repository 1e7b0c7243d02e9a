//! When a server's lists are read again, by what it says of them.
//!
//! Many notices in a burst become one: due 16 ms after the last, at the latest 300 ms after the first. A server whose
//! notices follow right upon our reading waits longer each time, and longer still when there was nothing new to read,
//! so that one that announces a change after every list can't keep us busy. One that sends more than ten a second for
//! thirty seconds is unstable: its lists are read every ten seconds, until it has been calm as long.

use std::time::Duration;

/// Quiet that ends a burst.
pub const QUIET: Duration = Duration::from_millis(16);
/// The longest that a burst is waited for.
pub const LONGEST: Duration = Duration::from_millis(300);
/// How long an unstable server's notices are gathered, and the longest for one that announces what isn't there.
pub const SLOW: Duration = Duration::from_secs(10);
/// So many notices a second are still fine.
pub const FINE_PER_SECOND: u32 = 10;
/// So many seconds in a row with more make a server unstable; as many without make it stable again.
pub const SECONDS: u32 = 30;
/// A notice that comes sooner after a list was read follows right upon it.
const SOON: Duration = Duration::from_secs(1);

/// What one connection has announced. Times are since any fixed moment and never go back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Coalesce {
    burst: Option<Burst>,
    /// Whether the lists are being read.
    reading: bool,
    read: Option<Read>,
    rate: Rate,
}

/// Notices that are being waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Burst {
    first: Duration,
    last: Duration,
}

/// The last reading of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Read {
    at: Duration,
    /// Whether there was anything new.
    changed: bool,
    /// How many readings in a row were followed right upon by a notice.
    again: u32,
}

/// How often notices come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Rate {
    /// The second that is being counted, and its notices.
    second: u64,
    notices: u32,
    /// Seconds in a row, the one that is being counted not among them, that speak against what it is held for.
    against: u32,
    is_unstable: bool,
}

impl Rate {
    /// Whether it is held for something else now.
    fn notice(&mut self, now: Duration) -> bool {
        let turned = self.pass(now);
        self.notices = self.notices.saturating_add(1);
        turned
    }

    /// Lets time pass.
    fn pass(&mut self, now: Duration) -> bool {
        let mut turned = false;
        // Seconds without any notice are alike, and more than it takes needn't be counted one by one.
        let seconds = now.as_secs().saturating_sub(self.second).min(u64::from(SECONDS) + 1);
        for _ in 0..seconds {
            let is_much = std::mem::take(&mut self.notices) > FINE_PER_SECOND;
            self.against = if is_much == self.is_unstable { 0 } else { self.against + 1 };
            if self.against == SECONDS {
                self.is_unstable = is_much;
                self.against = 0;
                turned = !turned;
            }
        }
        self.second = self.second.max(now.as_secs());
        turned
    }
}

impl Coalesce {
    /// A notice came at `now`; whether that makes the server unstable, or stable again.
    pub fn notice(&mut self, now: Duration) -> bool {
        if let Some(read) = self.read.as_mut().filter(|_| self.burst.is_none() && !self.reading) {
            read.again = if now.saturating_sub(read.at) < SOON { read.again.saturating_add(1) } else { 0 };
        }
        let first = self.burst.map_or(now, |burst| burst.first);
        self.burst = Some(Burst { first, last: now });
        self.rate.notice(now)
    }

    /// When the burst counts as over, if there is one; not while the lists are being read.
    pub fn due(&self) -> Option<Duration> {
        let burst = self.burst.filter(|_| !self.reading)?;
        if self.rate.is_unstable {
            return Some(burst.first + SLOW);
        }
        let (again, longest) = match self.read {
            Some(read) => (read.again, if read.changed { LONGEST } else { SLOW }),
            None => (0, LONGEST),
        };
        let quiet = QUIET.saturating_mul(1 << again.min(20)).min(longest);
        Some((burst.last + quiet).min(burst.first + quiet.max(LONGEST)))
    }

    /// Ends the burst if it is over at `now` and no reading is under way: then the lists are to be read. What is
    /// announced from here on isn't in what is read.
    pub fn take(&mut self, now: Duration) -> bool {
        let over = self.due().is_some_and(|due| due <= now);
        if over {
            self.burst = None;
            self.reading = true;
        }
        over
    }

    /// The lists were read, and had something new or not.
    pub fn read(&mut self, now: Duration, changed: bool) {
        let again = self.read.map_or(0, |read| read.again);
        // What came meanwhile followed upon the reading before it was done.
        let again = again.saturating_add(u32::from(self.burst.is_some()));
        self.read = Some(Read { at: now, changed, again });
        self.reading = false;
    }

    /// Whether the server announces changes too often to follow each.
    pub fn is_unstable(&self) -> bool {
        self.rate.is_unstable
    }

    /// When to look again whether an unstable server has become stable without a word.
    pub fn calm_at(&self) -> Option<Duration> {
        let left = SECONDS - self.rate.against;
        self.rate.is_unstable.then(|| Duration::from_secs(self.rate.second + u64::from(left) + 1))
    }

    /// Lets time pass without a notice; whether the server counts as stable again.
    pub fn pass(&mut self, now: Duration) -> bool {
        self.rate.pass(now)
    }
}

#[cfg(test)]
mod tests;
