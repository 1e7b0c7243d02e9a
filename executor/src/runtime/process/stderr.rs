//! What a child writes to stderr: read as lines, secrets masked, the last 64 KiB kept, the rest of the world spared
//! from floods.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
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
        if now.duration_since(self.since) >= Duration::from_secs(1) {
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
}

/// Lines a second that are handed on; all are kept in the tails.
const RATE: u32 = 100;

/// Reads `stderr` to its end. Every line goes masked to each of `tails`, and to `hand_on` as far as the rate allows.
pub async fn follow<const N: usize>(
    mut stderr: impl AsyncRead + Unpin,
    tails: [Tail; N],
    mask: Mask,
    mut hand_on: impl FnMut(String),
) {
    let (mut throttle, mut pending) = (Throttle::per_second(RATE), Vec::new());
    let mut chunk = vec![0; LINE_MAX];
    loop {
        let count = stderr.read(&mut chunk).await.unwrap_or(0);
        if count == 0 {
            break;
        }
        pending.extend_from_slice(&chunk[..count]);
        let mut done = 0;
        while let Some(length) = line_length(&pending[done..]) {
            take(&pending[done..done + length], &tails, &mask, &mut throttle, &mut hand_on);
            done += length;
            // A read brings thousands of lines, and others want a turn too.
            coop::consume_budget().await;
        }
        pending.drain(..done);
    }
    take(&pending, &tails, &mask, &mut throttle, &mut hand_on);
    if throttle.dropped > 0 {
        hand_on(left_out(throttle.dropped));
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
    format!("({lines} lines left out)")
}

fn take(bytes: &[u8], tails: &[Tail], mask: &Mask, throttle: &mut Throttle, hand_on: &mut impl FnMut(String)) {
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
    if let Some(dropped) = throttle.pass() {
        if dropped > 0 {
            hand_on(left_out(dropped));
        }
        hand_on(line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn followed(bytes: &[u8]) -> (Vec<String>, Vec<String>) {
        let (tail, mut handed) = (Tail::default(), Vec::new());
        let mask = Mask::new([("${T}".to_owned(), "hunter2".to_owned())]);
        follow(bytes, [tail.clone()], mask, |line| handed.push(line)).await;
        (tail.lines(), handed)
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
