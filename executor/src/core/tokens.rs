//! Token counts, exact for o200k_base, behind a trait so that nothing else knows the vocabulary.
//!
//! The vocabulary (about 30 MB, some 80 ms) is loaded the first time something asks for it, never for a budget in
//! characters. A build without the feature `tokens` says so instead of guessing.

/// The encoding that every count is in, as messages name it.
pub const ENCODING: &str = "o200k_base";

/// No token of the encoding is longer than this many bytes, and each has at least one.
pub const TOKEN_MAX_BYTES: usize = 128;

/// Counts the tokens of a text. Never more than the text has bytes.
pub trait CountTokens: Send + Sync {
    /// How many tokens `text` is; text that looks like a special token is ordinary text.
    fn count(&self, text: &str) -> usize;
}

/// This build can't count tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this build of mcplan has no token counts (cargo feature `tokens`); give the budget in characters: `chars`")]
pub struct NoTokens;

/// The counter of [`ENCODING`]. The first call loads the vocabulary: call it where blocking is allowed.
///
/// # Errors
/// When the feature `tokens` is off.
#[cfg(feature = "tokens")]
pub fn counter() -> Result<&'static dyn CountTokens, NoTokens> {
    struct O200k(&'static tiktoken::CoreBpe);
    impl CountTokens for O200k {
        fn count(&self, text: &str) -> usize {
            self.0.count(text)
        }
    }
    static COUNTER: std::sync::LazyLock<Option<O200k>> =
        std::sync::LazyLock::new(|| tiktoken::get_encoding(ENCODING).map(O200k));
    match &*COUNTER {
        Some(counter) => Ok(counter),
        None => Err(NoTokens),
    }
}

/// The counter of [`ENCODING`].
///
/// # Errors
/// Always: the feature `tokens` is off.
#[cfg(not(feature = "tokens"))]
pub fn counter() -> Result<&'static dyn CountTokens, NoTokens> {
    Err(NoTokens)
}

#[cfg(all(test, feature = "tokens"))]
mod tests {
    use super::*;

    #[test]
    fn counts_are_those_of_the_encoding() {
        let counter = counter().unwrap();
        for (text, tokens) in [("", 0), ("hello world", 2), ("<|endoftext|>", 7), ("mcp__github__create_issue", 7)] {
            assert_eq!(counter.count(text), tokens, "{text}");
        }
    }

    #[test]
    fn the_longest_token_is_within_its_bound() {
        let counter = counter().unwrap();
        for filler in [" ", "=", "-", "*", "\n", "_"] {
            let text = filler.repeat(1024);
            assert!(counter.count(&text) >= text.len() / TOKEN_MAX_BYTES, "{filler:?}");
        }
    }

    proptest::proptest! {
        #![proptest_config(proptest::test_runner::Config::with_cases(32))]

        #[test]
        fn never_more_tokens_than_bytes(text in "\\PC{0,200}") {
            proptest::prop_assert!(counter().unwrap().count(&text) <= text.len());
        }
    }
}
