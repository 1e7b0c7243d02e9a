//! What a server calls a tool: taken or refused, never a panic; its text is kept and its digest doesn't hang on spelling.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mcplan_compiler::{json, observed};

fuzz_target!(|text: &str| {
    let Ok(entry) = observed::parse_tool(text) else { return };
    assert_eq!(entry.raw.get(), json::compact(text));
    let again = observed::parse_tool(&json::pretty(text)).expect("the same tool, laid out");
    assert_eq!(again.digest, entry.digest);
    assert_eq!(again.known, entry.known);
});
