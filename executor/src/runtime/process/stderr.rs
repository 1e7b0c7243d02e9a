//! What a child writes to stderr: read as lines, secrets masked, the last 64 KiB kept, the rest of the world spared
//! from floods.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;
use tokio::task::coop;
use tokio::time::Instant;

use crate::runtime::secrets::Mask;

/// Most that is kept of a child's stderr, in bytes.
pub const TAIL_MAX: usize = 64 * 1024;
/// Longest line; a longer one is cut into several, in bytes.
pub const LINE_MAX: usize = 8 * 1024;

/// The end of what a child wrote to stderr, shared by those who want to show it.
#[derive(Clone, Debug, Default)]
pub struct Tail {
    lines: Arc<Mutex<Kept>>,
}

#[derive(Debug, Default)]
struct Kept {
    lines: VecDeque<String>,
    bytes: usize,
}

impl Tail {
    /// Adds a line and drops the oldest that don't fit any more.
    pub fn push(&self, line: String) {
        let mut kept = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        kept.bytes += line.len();
        kept.lines.push_back(line);
        while kept.bytes > TAIL_MAX
            && let Some(oldest) = kept.lines.pop_front()
        {
            kept.bytes -= oldest.len();
        }
    }

    /// The last `count` lines.
    pub fn last(&self, count: usize) -> Vec<String> {
        let kept = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        kept.lines.iter().skip(kept.lines.len().saturating_sub(count)).cloned().collect()
    }

    /// All that is kept.
    pub fn lines(&self) -> Vec<String> {
        self.last(usize::MAX)
    }
}

/// How long a limit holds.
const SECOND: Duration = Duration::from_secs(1);

/// Lets so many through in a second and counts the rest.
#[derive(Debug)]
pub struct Throttle {
    limit: u32,
    since: Instant,
    passed: u32,
    dropped: u32,
}

impl Throttle {
    /// `limit` a second.
    pub fn per_second(limit: u32) -> Self {
        Self { limit, since: Instant::now(), passed: 0, dropped: 0 }
    }

    /// Whether one more may pass now; if so, how many were dropped before it.
    pub fn pass(&mut self) -> Option<u32> {
        let now = Instant::now();
        if now.duration_since(self.since) >= SECOND {
            (self.since, self.passed) = (now, 0);
        }
        if self.passed < self.limit {
            self.passed += 1;
            Some(std::mem::take(&mut self.dropped))
        } else {
            self.dropped += 1;
            None
        }
    }

    /// So many that passed came to nobody.
    pub fn put_back(&mut self, lost: u32) {
        self.dropped += lost;
    }
}

/// Lines a second that are handed on; all are kept in the tails.
const RATE: u32 = 100;

/// Hands lines on as far as the rate allows and there is room, and counts those that it leaves out.
struct Handing<T> {
    to: mpsc::Sender<T>,
    wrap: fn(String) -> T,
    throttle: Throttle,
}

impl<T> Handing<T> {
    fn line(&mut self, line: String) {
        let Some(before) = self.throttle.pass() else { return };
        if before > 0 && self.to.try_send((self.wrap)(left_out(before))).is_err() {
            self.throttle.put_back(before + 1);
        } else if self.to.try_send((self.wrap)(line)).is_err() {
            self.throttle.put_back(1);
        }
    }

    /// Tells how many lines are left out once no more may pass for now, even when none follows; waits for room.
    async fn tell(&mut self, at: Instant) {
        if self.throttle.dropped == 0 {
            return std::future::pending().await;
        }
        tokio::time::sleep_until(at).await;
        match self.to.reserve().await {
            Ok(room) => room.send((self.wrap)(left_out(std::mem::take(&mut self.throttle.dropped)))),
            // Nobody listens any more.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Reads `stderr` to its end. Every line goes masked to each of `tails`, and wrapped into `to` as far as the rate allows
/// and there is room; how many were left out is told there too, a second later or at the end.
pub async fn follow<const N: usize, T>(
    mut stderr: impl AsyncRead + Unpin,
    tails: [Tail; N],
    mask: Mask,
    (to, wrap): (mpsc::Sender<T>, fn(String) -> T),
) {
    let (mut handing, mut pending) = (Handing { to, wrap, throttle: Throttle::per_second(RATE) }, Vec::new());
    let mut chunk = vec![0; LINE_MAX];
    loop {
        let second = handing.throttle.since + SECOND;
        let count = tokio::select! {
            count = stderr.read(&mut chunk) => count.unwrap_or(0),
            () = handing.tell(second) => continue,
        };
        if count == 0 {
            break;
        }
        pending.extend_from_slice(&chunk[..count]);
        let mut done = 0;
        while let Some(length) = line_length(&pending[done..]) {
            take(&pending[done..done + length], &tails, &mask, &mut handing);
            done += length;
            // A read brings thousands of lines, and others want a turn too.
            coop::consume_budget().await;
        }
        pending.drain(..done);
    }
    take(&pending, &tails, &mask, &mut handing);
    if handing.throttle.dropped > 0 && !handing.to.is_closed() {
        handing.tell(Instant::now()).await;
    }
}

/// Bytes of the first line with its newline, or of as much of a long one as fits.
fn line_length(bytes: &[u8]) -> Option<usize> {
    match bytes.iter().position(|byte| *byte == b'\n') {
        Some(at) if at < LINE_MAX => Some(at + 1),
        _ if bytes.len() >= LINE_MAX => Some(LINE_MAX),
        _ => None,
    }
}

fn left_out(lines: u32) -> String {
    format!("({lines} line{} left out)", if lines == 1 { "" } else { "s" })
}

fn take<T>(bytes: &[u8], tails: &[Tail], mask: &Mask, handing: &mut Handing<T>) {
    let text = String::from_utf8_lossy(bytes);
    let text = text.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        return;
    }
    // A long line comes in pieces.
    let line = mask.apply_excerpt(text);
    for tail in tails {
        tail.push(line.clone());
    }
    handing.line(line);
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn followed(bytes: &[u8]) -> (Vec<String>, Vec<String>) {
        let (tail, (to, mut handed)) = (Tail::default(), mpsc::channel(1000));
        let mask = Mask::new([("${T}".to_owned(), "hunter2".to_owned())]);
        follow(bytes, [tail.clone()], mask, (to, |line| line)).await;
        (tail.lines(), std::iter::from_fn(|| handed.try_recv().ok()).collect())
    }

    /// A stderr that stays open, and what comes of it through a queue with so much room.
    fn open(room: usize) -> (tokio::io::DuplexStream, mpsc::Receiver<String>) {
        let (writer, stderr) = tokio::io::duplex(1 << 20);
        let (to, handed) = mpsc::channel(room);
        tokio::spawn(follow(stderr, [], Mask::new([]), (to, |line| line)));
        (writer, handed)
    }

    async fn write(writer: &mut tokio::io::DuplexStream, lines: usize) {
        let text: String = (0..lines).map(|number| format!("line {number}\n")).collect();
        tokio::io::AsyncWriteExt::write_all(writer, text.as_bytes()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_left_out_is_told_though_nothing_follows() {
        let (mut writer, mut handed) = open(1000);
        write(&mut writer, 150).await;
        for _ in 0..RATE {
            assert!(handed.recv().await.unwrap().starts_with("line "));
        }
        let before = Instant::now();
        assert_eq!(handed.recv().await.unwrap(), "(50 lines left out)");
        assert!(before.elapsed() <= SECOND);
        write(&mut writer, 1).await;
        assert_eq!(handed.recv().await.unwrap(), "line 0");
    }

    #[tokio::test(start_paused = true)]
    async fn what_finds_no_room_is_counted_too() {
        let (mut writer, mut handed) = open(8);
        let (mut lines, mut missing) = (0, 0);
        for round in 1..=5 {
            write(&mut writer, 21).await;
            // Nobody reads meanwhile.
            tokio::time::sleep(2 * SECOND).await;
            while lines + missing < round * 21 {
                match handed.recv().await.unwrap().strip_prefix('(') {
                    Some(told) => missing += told.split_once(' ').unwrap().0.parse::<usize>().unwrap(),
                    None => lines += 1,
                }
            }
            assert_eq!(lines + missing, round * 21);
        }
        assert_eq!(lines, 5 * 8);
        write(&mut writer, 9).await;
        drop(writer);
        tokio::time::sleep(2 * SECOND).await;
        let last: Vec<_> = std::iter::from_fn(|| handed.try_recv().ok()).collect();
        assert_eq!((last.len(), &*last[0]), (8, "line 0"));
        assert_eq!(handed.recv().await.unwrap(), "(1 line left out)");
        assert_eq!(handed.recv().await, None);
    }

    #[tokio::test]
    async fn lines_are_masked_and_the_last_needs_no_newline() {
        let (tail, handed) = followed(b"one\r\n\ntoken hunter2\n\xff end").await;
        assert_eq!(tail, ["one", "token ${T}", "\u{fffd} end"]);
        assert_eq!(handed, tail);
    }

    #[tokio::test(start_paused = true)]
    async fn a_flood_is_kept_short_and_handed_on_shorter() {
        let flood: String = (0..20_000).map(|index| format!("line {index}\n")).collect();
        let (tail, handed) = followed(flood.as_bytes()).await;
        let kept = tail.iter().map(String::len).sum::<usize>();
        assert!((TAIL_MAX - "line 19999".len()..=TAIL_MAX).contains(&kept), "{kept}");
        assert_eq!(tail.last().unwrap(), "line 19999");
        assert_eq!(handed.len(), RATE as usize + 1);
        assert_eq!(handed.last().unwrap(), "(19900 lines left out)");
    }

    #[tokio::test]
    async fn a_line_without_end_is_cut() {
        let (tail, _) = followed(&vec![b'x'; 3 * LINE_MAX + 5]).await;
        assert_eq!(tail.iter().map(String::len).collect::<Vec<_>>(), [LINE_MAX, LINE_MAX, LINE_MAX, 5]);
    }
}
