//! JSON text is laid out, packed and mapped without a change of meaning; what isn't JSON never panics.
#![no_main]

use std::borrow::Cow;

use libfuzzer_sys::fuzz_target;
use mcplan_compiler::json::{self, NotCanonical};
use serde_json::Value;
use serde_json::value::RawValue;

fuzz_target!(|text: &str| {
    let (pretty, compact) = (json::pretty(text), json::compact(text));
    let mapped = json::map_strings(text, |said| Cow::Owned(format!("<{said}>")));
    assert_eq!(json::map_strings(text, |said| Cow::Owned(said.to_owned())), None);
    // As raw text first: values that serde_json can't hold (`1e999`) are JSON all the same.
    if serde_json::from_str::<&RawValue>(text).is_err() {
        return;
    }
    for other in [&pretty, &compact] {
        assert!(serde_json::from_str::<&RawValue>(other).is_ok(), "{other}");
    }
    assert_eq!(json::pretty(&pretty), pretty);
    assert_eq!(json::pretty(&compact), pretty);
    assert_eq!(json::compact(&pretty), compact);
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    assert_eq!(serde_json::from_str::<Value>(&pretty).expect("as before"), value);
    match json::canonical(text) {
        Ok(canonical) => {
            let read: Value = serde_json::from_str(&canonical).unwrap_or_else(|error| panic!("{error}: {canonical}"));
            assert_eq!(json::canonical_of(&read), canonical);
            assert_eq!(json::canonical_of(&value), canonical);
        }
        Err(NotCanonical::Doubled(key)) => assert!(text.matches(':').count() > 1, "{key}"),
        Err(NotCanonical::Unreadable) => panic!("{text}"),
    }
    if let Some(mapped) = mapped {
        let _still_json: &RawValue = serde_json::from_str(&mapped).unwrap_or_else(|error| panic!("{error}: {mapped}"));
    }
});
