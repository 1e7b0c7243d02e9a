//! The names a plan is keyed by. A [`ServerName`] that exists is valid; nothing is ever split to get one back.

use std::borrow::Borrow;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Longest server name, in characters.
pub const SERVER_NAME_MAX: usize = 64;

/// The name of a server: 1 to 64 of `A-Z a-z 0-9 . _ -`, a letter or digit at both ends, no `__`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ServerName(String);

/// Which rule a text breaks that was meant as a server name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing there.
    #[error("a server name can't be empty")]
    Empty,
    /// More than [`SERVER_NAME_MAX`] characters.
    #[error("a server name has at most {SERVER_NAME_MAX} characters, this one has {0}")]
    TooLong(usize),
    /// A character outside the set.
    #[error("a server name can't hold `{}`, only letters, digits, `.`, `_` and `-`", .0.escape_debug())]
    Character(char),
    /// `.`, `_` or `-` at an end.
    #[error("a server name starts and ends with a letter or a digit")]
    Edge,
    /// `__` inside, which separates server and tool in exposed names.
    #[error("a server name can't hold `__`, which separates server and tool in exposed names")]
    Separator,
}

impl ServerName {
    /// Checks `text`.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn new(text: impl Into<String>) -> Result<Self, NameError> {
        let text = text.into();
        let length = text.chars().count();
        if length == 0 {
            return Err(NameError::Empty);
        }
        if let Some(odd) = text.chars().find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
            return Err(NameError::Character(odd));
        }
        if length > SERVER_NAME_MAX {
            return Err(NameError::TooLong(length));
        }
        if !text.starts_with(|c: char| c.is_ascii_alphanumeric())
            || !text.ends_with(|c: char| c.is_ascii_alphanumeric())
        {
            return Err(NameError::Edge);
        }
        if text.contains("__") {
            return Err(NameError::Separator);
        }
        Ok(Self(text))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The nearest valid name to `text`, for messages and derived names; `None` when nothing of it is usable.
    pub fn nearest(text: &str) -> Option<Self> {
        let mut name = String::new();
        for c in text.chars() {
            let c = if c.is_ascii_alphanumeric() || matches!(c, '.' | '_') { c } else { '-' };
            let repeats = matches!(c, '.' | '_' | '-') && name.ends_with(['.', '_', '-']);
            if !repeats {
                name.push(c);
            }
        }
        let name: String = name.trim_matches(['.', '_', '-']).chars().take(SERVER_NAME_MAX).collect();
        Self::new(name.trim_end_matches(['.', '_', '-'])).ok()
    }
}

impl<'de> Deserialize<'de> for ServerName {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for ServerName {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ServerName".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "minLength": 1, "maxLength": SERVER_NAME_MAX })
    }
}

impl fmt::Display for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ServerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl Borrow<str> for ServerName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl AsRef<str> for ServerName {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Whether a variable of a process can have this name.
pub fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| matches!(c, '=' | '$' | '{') || c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules() {
        for good in ["a", "9", "github", "my.server-1_x", &"a".repeat(64)] {
            assert!(ServerName::new(good).is_ok(), "{good}");
        }
        assert_eq!(ServerName::new(""), Err(NameError::Empty));
        assert_eq!(ServerName::new("a".repeat(65)), Err(NameError::TooLong(65)));
        assert_eq!(ServerName::new("my server"), Err(NameError::Character(' ')));
        assert_eq!(ServerName::new("évil"), Err(NameError::Character('é')));
        assert_eq!(ServerName::new("evil_"), Err(NameError::Edge));
        assert_eq!(ServerName::new("-a"), Err(NameError::Edge));
        assert_eq!(ServerName::new("evil__foo"), Err(NameError::Separator));
    }

    #[test]
    fn nearest_is_valid_or_nothing() {
        assert_eq!(ServerName::nearest("my server").unwrap().as_str(), "my-server");
        assert_eq!(ServerName::nearest("evil__foo_").unwrap().as_str(), "evil_foo");
        assert_eq!(ServerName::nearest("@@"), None);
    }
}
