//! Lock text → lock: one clear error or a lock that writes itself, and what is written reads as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcplan_compiler::lock::Lock;

fuzz_target!(|text: &str| {
    match Lock::read(text) {
        Ok(lock) => {
            let written = lock.text();
            let again = Lock::read(&written).unwrap_or_else(|error| panic!("{error}\n{written}"));
            assert_eq!(again.text(), written);
            lock.check(&lock.plan, &lock.sources);
        }
        Err(error) => assert!(!error.to_string().contains('\n')),
    }
});
