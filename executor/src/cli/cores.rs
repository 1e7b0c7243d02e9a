//! Work in parts that don't depend on each other, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// More threads than these only wait for each other over work that takes a few milliseconds.
const THREADS_MAX: usize = 8;

/// Does `job` for each number below `count`, as many at a time as there are cores.
pub(super) fn on_all_cores(count: usize, job: &(dyn Fn(usize) + Sync)) {
    let next = AtomicUsize::new(0);
    let some = || {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers.take_while(|number| *number < count).for_each(job);
    };
    let others = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX) - 1;
    thread::scope(|scope| {
        for _ in 0..others {
            // Where no thread can be had, this one does it all.
            let _none = thread::Builder::new().spawn_scoped(scope, some);
        }
        some();
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn each_number_has_its_turn_once() {
        for count in [0, 1, 1000] {
            let done = Mutex::new(Vec::new());
            on_all_cores(count, &|number| done.lock().unwrap().push(number));
            let mut done = done.into_inner().unwrap();
            done.sort_unstable();
            assert!(done.into_iter().eq(0..count));
        }
    }
}
