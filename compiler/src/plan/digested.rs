//! A text that the lock holds whole, together with its digest.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json;

/// A text and its digest, which always fit each other: reading one whose digest is another's fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Read")]
pub struct Digested {
    /// SHA-256 over the text's UTF-8 bytes.
    digest: String,
    /// The whole text.
    text: String,
}

/// What is read; [`Digested`] is what fits.
#[derive(Deserialize, JsonSchema)]
struct Read {
    /// SHA-256 over the text's UTF-8 bytes.
    #[schemars(regex(pattern = "^sha256:[0-9a-f]{64}$"))]
    digest: String,
    /// The whole text.
    text: String,
}

impl Digested {
    /// Digests a text.
    pub fn new(text: impl Into<String>) -> Self {
        let text = text.into();
        Self { digest: json::digest(text.as_bytes()), text }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// `sha256:` and 64 hex digits.
    pub fn digest(&self) -> &str {
        &self.digest
    }
}

impl TryFrom<Read> for Digested {
    type Error = String;

    fn try_from(read: Read) -> Result<Self, String> {
        let digested = Self::new(read.text);
        if digested.digest == read.digest {
            return Ok(digested);
        }
        let start = crate::diagnostic::one_line(&digested.text, 60);
        Err(format!("the digest of the text that starts {start:?} doesn't fit it"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_was_edited_by_hand_is_not_read() {
        let text = serde_json::to_string(&Digested::new("one\ntwo")).unwrap();
        assert_eq!(serde_json::from_str::<Digested>(&text).unwrap(), Digested::new("one\ntwo"));
        let error = serde_json::from_str::<Digested>(&text.replace("two", "three")).unwrap_err();
        assert!(error.to_string().contains("doesn't fit"), "{error}");
    }
}
