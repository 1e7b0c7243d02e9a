//! A tool's result cut to a limit: JSON stays JSON, and what fits isn't touched. The first line is the limit.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcplan_executor::core::results::{Cap, fit};
use serde_json::value::RawValue;

fuzz_target!(|input: &str| {
    let Some((limit, text)) = input.split_once('\n') else { return };
    let Ok(limit) = limit.trim().parse::<u16>() else { return };
    let Ok(result) = serde_json::from_str::<Box<RawValue>>(text) else { return };
    let cap = Cap { limit: usize::from(limit), server: "files", tool: "mcp__files__read" };
    let before = result.get().to_owned();
    let fitted = fit(result, cap);
    let after = fitted.result.get();
    let _still_json: &RawValue = serde_json::from_str(after).unwrap_or_else(|error| panic!("{error}: {after}"));
    match fitted.cut_from {
        None => assert_eq!(after, before),
        Some(size) => assert!(size > cap.limit && limit > 0),
    }
});
