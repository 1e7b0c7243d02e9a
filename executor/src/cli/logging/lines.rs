//! Log lines on their way to a reader that may stop reading: that costs lines, never a call and never the end.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many lines wait at most.
const WAITING: usize = 4096;
/// How long the end waits for the last lines to be read.
const LAST: Duration = Duration::from_millis(500);

/// Takes lines; each call of `write` is one, and comes back at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines(Arc<Queue>);

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Vec<u8>>,
    lost: u64,
    /// A line is being written.
    writing: bool,
}

impl Lines {
    /// Starts writing to `out`; `tell` is called with the number of lines that were dropped meanwhile.
    pub(super) fn start(mut out: impl Write + Send + 'static, tell: impl Fn(u64) + Send + 'static) -> io::Result<Self> {
        let lines = Self::default();
        let queue = Arc::clone(&lines.0);
        std::thread::Builder::new().name("log".to_owned()).spawn(move || {
            loop {
                let (line, lost) = queue.next();
                // Whoever doesn't want our log any more has closed it.
                let _unwanted = out.write_all(&line).and_then(|()| out.flush());
                if lost > 0 {
                    tell(lost);
                }
            }
        })?;
        Ok(lines)
    }

    /// Waits until everything is written, or for half a second.
    pub(super) fn finish(&self) {
        let busy = |state: &mut State| state.writing || !state.waiting.is_empty();
        let _rest = self.0.changed.wait_timeout_while(self.0.lock(), LAST, busy);
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next line, once there is one, and how many were lost before it was taken.
    fn next(&self) -> (Vec<u8>, u64) {
        let mut state = self.lock();
        state.writing = false;
        loop {
            if let Some(line) = state.waiting.pop_front() {
                state.writing = true;
                return (line, std::mem::take(&mut state.lost));
            }
            self.changed.notify_all();
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut state = self.0.lock();
        if state.waiting.len() < WAITING {
            state.waiting.push_back(line.to_vec());
        } else {
            state.lost += 1;
        }
        drop(state);
        self.0.changed.notify_all();
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Reads a line whenever the test says so.
    struct Reader {
        go: mpsc::Receiver<()>,
        read: mpsc::Sender<Vec<u8>>,
    }

    impl Write for Reader {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _over = self.go.recv();
            let _over = self.read.send(line.to_vec());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_does_not_read_costs_lines_and_nothing_else() {
        let ((go, wait), (read, got), (tell, told)) = (mpsc::channel(), mpsc::channel(), mpsc::channel());
        let mut lines = Lines::start(Reader { go: wait, read }, move |lost| tell.send(lost).unwrap()).unwrap();
        for number in 0..WAITING + 100 {
            lines.write_all(number.to_string().as_bytes()).unwrap();
        }
        // Nothing was read: even the end comes back.
        lines.finish();
        for _ in 0..WAITING {
            go.send(()).unwrap();
        }
        let first: Vec<_> = got.iter().take(WAITING).collect();
        assert_eq!(
            (first[0].as_slice(), first[WAITING - 1].as_slice()),
            (&b"0"[..], (WAITING - 1).to_string().as_bytes())
        );
        // One more may have been taken off the queue before it was full.
        drop(go);
        lines.finish();
        let lost: u64 = told.try_iter().sum();
        assert!((99..=100).contains(&lost), "{lost}");
    }

    #[test]
    fn the_end_waits_for_the_last_line() {
        let (read, got) = mpsc::channel();
        let (go, wait) = mpsc::channel();
        let mut lines = Lines::start(Reader { go: wait, read }, |_| ()).unwrap();
        lines.write_all(b"last words").unwrap();
        go.send(()).unwrap();
        lines.finish();
        assert_eq!(got.try_recv().unwrap(), b"last words");
    }
}
