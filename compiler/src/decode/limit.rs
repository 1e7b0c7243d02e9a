//! Numbers, texts and lists outside of what a schema allows: the limit that was broken, and what may be written.

use jsonschema::error::ValidationErrorKind as E;
use serde_json::Value;

use super::path::Place;
use super::words::written;
use crate::code::Code;
use crate::config::MAX_SECONDS;
use crate::diagnostic::{Diagnostic, shown};
use crate::source::Span;

/// From here on a limit is one of our types, which tells a user nothing.
const BEYOND_USE: f64 = 4_294_967_295.0;

/// The misfit of `place`, marked at `at`; `schema` holds the keyword that it breaks.
pub(super) fn limit(place: &Place<'_>, at: Span, kind: &E, schema: Option<&Value>) -> Diagnostic {
    let subject = place.subject();
    let this = || place.node.text().map(|text| format!(", this is {}", shown(text))).unwrap_or_default();
    let entries = |n: u64| if n == 1 { "1 entry".to_owned() } else { format!("{n} entries") };
    let characters = |n: u64| if n == 1 { "1 character".to_owned() } else { format!("{n} characters") };
    let (code, message) = match kind {
        E::Minimum { limit } => (Code::OutOfRange, format!("{subject} has to be {} or more{}", written(limit), this())),
        E::ExclusiveMinimum { limit } => {
            (Code::OutOfRange, format!("{subject} has to be more than {}{}", written(limit), this()))
        }
        E::Maximum { limit } if !known(&limit) => (Code::OutOfRange, format!("{subject} is far too large{}", this())),
        E::Maximum { limit } => (Code::OutOfRange, format!("{subject} has to be {} or less{}", written(limit), this())),
        E::ExclusiveMaximum { limit } => {
            (Code::OutOfRange, format!("{subject} has to be less than {}{}", written(limit), this()))
        }
        E::MultipleOf { multiple_of } => {
            (Code::OutOfRange, format!("{subject} has to be a multiple of {multiple_of}{}", this()))
        }
        E::MinItems { limit } | E::MinProperties { limit } => {
            (Code::OutOfRange, format!("{subject} needs at least {}", entries(*limit)))
        }
        E::MaxItems { limit } | E::MaxProperties { limit } => {
            (Code::OutOfRange, format!("{subject} takes at most {}", entries(*limit)))
        }
        E::MinLength { limit: 1 } => (Code::OutOfRange, format!("{subject} must not be empty")),
        E::MinLength { limit } => (Code::OutOfRange, format!("{subject} needs at least {}", characters(*limit))),
        E::MaxLength { limit } => (Code::OutOfRange, format!("{subject} takes at most {}", characters(*limit))),
        E::UniqueItems => (Code::UnknownValue, format!("{subject} holds an entry twice")),
        E::Pattern { pattern } => {
            (Code::UnknownValue, format!("{subject} does not have the form `{pattern}`{}", this()))
        }
        E::PropertyNames { .. } => (Code::UnknownKey, format!("{subject} holds a key that can't be one")),
        E::FalseSchema | E::Not { .. } => (Code::UnknownKey, format!("{subject} can't be used here")),
        other => (Code::WrongType, format!("{subject} does not fit (`{}`)", other.keyword())),
    };
    let label = match kind {
        E::Minimum { .. } | E::ExclusiveMinimum { .. } => "too small",
        E::Maximum { .. } | E::ExclusiveMaximum { .. } => "too large",
        E::MinLength { .. } | E::MinItems { .. } | E::MinProperties { .. } => "too short",
        E::MaxLength { .. } | E::MaxItems { .. } | E::MaxProperties { .. } => "too long",
        _ => "",
    };
    let help = match kind {
        E::MinItems { .. } | E::MinProperties { .. } => "add an entry".to_owned(),
        E::MinLength { .. } => "write a text".to_owned(),
        E::MaxItems { .. } | E::MaxProperties { .. } | E::MaxLength { .. } => "shorten it".to_owned(),
        E::UniqueItems => "remove one of the two".to_owned(),
        E::PropertyNames { .. } | E::FalseSchema | E::Not { .. } => "remove it".to_owned(),
        _ => match schema.and_then(|schema| range(schema, matches!(kind, E::Maximum { .. }))) {
            Some(range) => format!("write {range}"),
            None => "write another value, or remove the key".to_owned(),
        },
    };
    Diagnostic::new(code, at, message).label(label).help(help)
}

/// `a whole number from 16 to 128`, and what 0 means, where the description of the field says it. The most seconds that a
/// timer takes are told only to who wants more.
pub(super) fn range(schema: &Value, too_large: bool) -> Option<String> {
    let number = |keyword: &str| schema.get(keyword).filter(|limit| limit.is_number());
    let (least, above) = (number("minimum").filter(known), number("exclusiveMinimum").filter(known));
    let (most, below) = (number("maximum").filter(known), number("exclusiveMaximum").filter(known));
    let year = |most: &&Value| most.as_f64() == Some(MAX_SECONDS);
    let most = most.filter(|most| too_large || !year(most));
    let most = most.map(|most| format!("{}{}", written(most), if year(&most) { ", which is a year" } else { "" }));
    let range = match (least, above, most, below) {
        (Some(least), None, Some(most), None) => format!("from {} to {most}", written(least)),
        (None, Some(above), Some(most), None) => format!("above {} and up to {most}", written(above)),
        (Some(least), None, None, None) => format!("of {} or more", written(least)),
        (None, Some(above), None, None) => format!("above {}", written(above)),
        (None, None, Some(most), None) => format!("up to {most}"),
        (None, None, None, Some(below)) => format!("below {}", written(below)),
        _ => return None,
    };
    let kind =
        if schema.get("type").and_then(Value::as_str) == Some("integer") { "a whole number" } else { "a number" };
    let zero = schema.get("description").and_then(Value::as_str).and_then(zero_means);
    Some(format!("{kind} {range}{}", zero.map(|zero| format!("; {zero}")).unwrap_or_default()))
}

/// Whether a limit is one that a user should be told.
fn known(limit: &&Value) -> bool {
    limit.as_f64().is_some_and(|limit| limit.abs() < BEYOND_USE)
}

/// `0 is no limit`, out of `Seconds for one tool call; 0 is no limit. Default: 300.`
fn zero_means(description: &str) -> Option<&str> {
    let rest = &description[description.find(" 0 is ")? + 1..];
    Some(rest.split(['.', ',', ';']).next().unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_range_says_what_may_be_written() {
        let seconds = json!({ "type": "number", "exclusiveMinimum": 0, "maximum": MAX_SECONDS });
        let size = "Size; 0 is no limit. Default: 1.";
        for (schema, too_large, expected) in [
            (json!({ "type": "integer", "minimum": 16, "maximum": 128 }), false, "a whole number from 16 to 128"),
            (seconds.clone(), false, "a number above 0"),
            (seconds, true, "a number above 0 and up to 31536000, which is a year"),
            (
                json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX, "description": size }),
                false,
                "a whole number of 0 or more; 0 is no limit",
            ),
        ] {
            assert_eq!(range(&schema, too_large).as_deref(), Some(expected), "{schema}");
        }
        assert_eq!(range(&json!({ "type": "string" }), false), None);
    }
}
