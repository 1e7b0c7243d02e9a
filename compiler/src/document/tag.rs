//! Tags: those of YAML's core schema say what they say, no other means anything here.

use std::ops::Range;

use granit_parser::Tag;

use super::Kind;
use super::build::Builder;
use super::scalar;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, shown};

impl Builder<'_> {
    pub(super) fn tagged_scalar(&mut self, kind: Kind, text: &str, range: Range<usize>, tag: &(Tag, usize)) -> Kind {
        let resolved = || if text.is_empty() { Kind::Null } else { scalar::resolve(text.to_owned()) };
        let fits = match tag.0.core_suffix() {
            Some("str") => return Kind::String(if range.is_empty() { String::new() } else { text.to_owned() }),
            Some("int") => {
                matches!(scalar::number(text), Some(scalar::Number::Whole(_)))
            }
            Some("float") => scalar::number(text).is_some(),
            Some("bool") => matches!(resolved(), Kind::Bool(..)),
            Some("null") => matches!(kind, Kind::Null) || matches!(resolved(), Kind::Null),
            _ if is_plain_tag(&tag.0) => return Kind::String(text.to_owned()),
            _ => {
                self.unknown_tag(&tag.0, tag.1, Some(text));
                return Kind::Reported;
            }
        };
        if fits {
            return resolved();
        }
        let at = self.span(tag.1..range.end);
        let message = format!("`{}` is not what its tag `{}` says", shown(text), written_tag(&tag.0));
        self.report(Diagnostic::new(Code::UnknownTag, at, message).label("another type").help("remove the tag"));
        Kind::Reported
    }

    pub(super) fn unknown_tag(&mut self, tag: &Tag, start: usize, text: Option<&str>) {
        let rest = &self.text[start..];
        let end = start + rest.find(|c: char| c.is_whitespace()).unwrap_or(rest.len());
        let tag = written_tag(tag);
        let name = tag.trim_start_matches('!').to_ascii_lowercase();
        let help = match (name.as_str(), text) {
            ("env" | "env_var" | "envvar" | "secret" | "var", Some(text)) if !text.is_empty() => {
                format!("write `${{{}}}` for the value of a variable", shown(text))
            }
            ("include", _) => "write here what that file holds".to_owned(),
            _ => format!("remove `{}`, or put the value in quotes if the `!` belongs to it", shown(&tag)),
        };
        let at = self.span(start..end);
        let message = format!("the YAML tag `{}` means nothing here", shown(&tag));
        self.report(Diagnostic::new(Code::UnknownTag, at, message).label("unknown tag").help(help));
    }
}

/// `!` alone: take the value as it stands.
pub(super) fn is_plain_tag(tag: &Tag) -> bool {
    written_tag(tag) == "!"
}

fn written_tag(tag: &Tag) -> String {
    format!("{}{}", tag.original_handle(), tag.suffix())
}
