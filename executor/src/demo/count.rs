//! The slow tool: counts with pauses, tells its progress, and can be stopped at any moment.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use super::tool::{Answer, Arguments};

/// What a call of `count_to` asks for.
#[derive(Debug, PartialEq)]
pub(super) struct Counting {
    to: u64,
    delay: Duration,
    /// The caller's progress token; without one nothing is reported.
    token: Option<Value>,
}

impl Counting {
    pub(super) fn new(arguments: &Arguments, token: Option<Value>) -> Result<Self, String> {
        let whole = |number: i64| u64::try_from(number).map_err(|_| "negative".to_owned());
        let delay = whole(arguments.integer_if("delay_ms").unwrap_or(100))?;
        Ok(Self { to: whole(arguments.integer("n")?)?, delay: Duration::from_millis(delay), token })
    }

    /// Counts until done or stopped; `None` when stopped, since a cancelled call gets no answer.
    pub(super) fn run(&self, stop: &Stop, mut report: impl FnMut(Value)) -> Option<Value> {
        for number in 1..=self.to {
            if stop.wait(self.delay) {
                return None;
            }
            if let Some(token) = &self.token {
                report(json!({
                    "progressToken": token, "progress": number, "total": self.to, "message": format!("at {number}"),
                }));
            }
        }
        Some(Answer::text(format!("Counted to {}.", self.to)).into_result())
    }
}

/// A request to stop, which ends a pause at once.
#[derive(Default)]
pub(super) struct Stop {
    asked: Mutex<bool>,
    changed: Condvar,
}

impl Stop {
    fn ask(&self) {
        *locked(&self.asked) = true;
        self.changed.notify_all();
    }

    /// Waits for the time or the request, whichever comes first; says whether it was the request.
    fn wait(&self, time: Duration) -> bool {
        let asked = locked(&self.asked);
        let waited = self.changed.wait_timeout_while(asked, time, |asked| !*asked);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

/// Slow calls that may run beside one another.
pub(super) const MAX_RUNNING: usize = 32;

/// The slow calls in flight, by the JSON text of their request's id.
#[derive(Default)]
pub(super) struct Running(Mutex<BTreeMap<String, Arc<Stop>>>);

impl Running {
    /// Takes a place for a call. `None`: they are all taken, or a call of this id is running.
    pub(super) fn start(&self, id: &Value) -> Option<Arc<Stop>> {
        let mut calls = locked(&self.0);
        let key = id.to_string();
        if calls.len() >= MAX_RUNNING || calls.contains_key(&key) {
            return None;
        }
        let stop = Arc::new(Stop::default());
        calls.insert(key, Arc::clone(&stop));
        Some(stop)
    }

    pub(super) fn finish(&self, id: &Value) {
        locked(&self.0).remove(&id.to_string());
    }

    pub(super) fn stop(&self, id: &Value) {
        if let Some(stop) = locked(&self.0).get(&id.to_string()) {
            stop.ask();
        }
    }

    pub(super) fn stop_all(&self) {
        locked(&self.0).values().for_each(|stop| stop.ask());
    }
}

/// What these locks guard is whole after every statement, so a panic elsewhere doesn't spoil it.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
