//! A problem as data: what, where, how to mend it. Renderers live in [`crate::render`].

use crate::code::Code;
use crate::secret::masked;
use crate::source::Span;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The config means nothing; there is no plan.
    Error,
    /// The config means something, but probably not what was wanted.
    Warning,
    /// Worth knowing, never counted.
    Note,
}

impl Severity {
    /// The word that is printed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A place and what is to be said there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// The place.
    pub at: Span,
    /// Shown beside the caret; may be empty.
    pub text: String,
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable word for the kind of problem.
    pub code: Code,
    /// How bad it is.
    pub severity: Severity,
    /// One sentence without a final stop, in lower case.
    pub message: String,
    /// Where the problem is.
    pub primary: Label,
    /// Further places that explain it.
    pub related: Vec<Label>,
    /// What to do about it.
    pub help: Option<String>,
    /// The word that was probably meant in place of what stands at the primary place.
    pub meant: Option<String>,
}

impl Diagnostic {
    /// A problem of `code`'s own severity at `at`.
    pub fn new(code: Code, at: Span, message: impl Into<String>) -> Self {
        Self {
            code,
            severity: code.severity(),
            message: message.into(),
            primary: Label { at, text: String::new() },
            related: Vec::new(),
            help: None,
            meant: None,
        }
    }

    /// With `text` beside the caret.
    #[must_use]
    pub fn label(mut self, text: impl Into<String>) -> Self {
        self.primary.text = text.into();
        self
    }

    /// With the word that was probably meant, shown beside the caret.
    #[must_use]
    pub fn meant(mut self, word: impl Into<String>) -> Self {
        let word = word.into();
        self.primary.text = format!("did you mean `{word}`?");
        self.meant = Some(word);
        self
    }

    /// With a second place.
    #[must_use]
    pub fn related(mut self, at: Span, text: impl Into<String>) -> Self {
        self.related.push(Label { at, text: text.into() });
        self
    }

    /// With what to do.
    #[must_use]
    pub fn help(mut self, text: impl Into<String>) -> Self {
        self.help = Some(text.into());
        self
    }

    /// Under another code, and of that code's severity.
    #[must_use]
    pub fn with_code(mut self, code: Code) -> Self {
        self.code = code;
        self.severity = code.severity();
        self
    }

    /// Whether it stops a plan from being made.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// Sorts by place, so that a report reads like the file.
pub fn sort(diagnostics: &mut [Diagnostic]) {
    diagnostics.sort_by(|a, b| {
        let key = |d: &Diagnostic| (d.primary.at.source, d.primary.at.start, d.primary.at.end, d.code);
        key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message))
    });
}

/// A piece of the user's text as a message can hold it: one line, at most 60 characters, nothing that moves a cursor,
/// and no secret: messages end in logs, excerpts of the user's own file don't.
pub fn shown(text: &str) -> std::borrow::Cow<'_, str> {
    one_line(text, 60)
}

/// The same with at most `longest` characters, for whole sentences that hold a text of others.
pub fn one_line(text: &str, longest: usize) -> std::borrow::Cow<'_, str> {
    let text = masked(text);
    let cut = text.char_indices().nth(longest).map(|(at, _)| at);
    if cut.is_none() && !text.contains(char::is_control) {
        return text;
    }
    let head = &text[..cut.unwrap_or(text.len())];
    let mut out: String = head.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cut.is_some() {
        out.push('…');
    }
    out.into()
}

/// The closest of `candidates` to `written`, if one is close enough to be what was meant.
pub fn closest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    all_close(written, candidates).into_iter().next()
}

/// All of `candidates` that are close enough to `written` to be what was meant, the closest first.
///
/// At most a third of the longer word may differ (Damerau-Levenshtein), after case and `-`/`_` are put aside. A word of
/// more than 64 bytes is no typing error.
pub fn all_close<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    if written.len() > 64 {
        return Vec::new();
    }
    let fold = |s: &str| s.to_ascii_lowercase().replace('-', "_");
    let folded = fold(written);
    let length = written.chars().count();
    let mut close: Vec<_> = candidates
        .into_iter()
        .filter_map(|candidate| {
            let other = candidate.chars().count();
            let limit = length.max(other) / 3;
            if length.abs_diff(other) > limit {
                return None;
            }
            let distance = strsim::damerau_levenshtein(&folded, &fold(candidate));
            (distance <= limit).then_some((distance, candidate))
        })
        .collect();
    close.sort_unstable();
    close.dedup();
    close.into_iter().map(|(_, candidate)| candidate).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closest_finds_typing_errors_and_no_strangers() {
        let known = ["command", "args", "env", "streamable_http"];
        assert_eq!(closest("comand", known), Some("command"));
        assert_eq!(closest("ENV", known), Some("env"));
        assert_eq!(closest("streamable-http", known), Some("streamable_http"));
        assert_eq!(closest("colour", known), None);
        assert_eq!(closest(&"command".repeat(20), ["command"; 1]), None);
    }

    #[test]
    fn shown_is_one_short_line() {
        assert_eq!(shown("plain"), "plain");
        assert_eq!(shown("two\nlines\u{1b}[31m"), "two lines [31m");
        assert_eq!(shown(&"é".repeat(100)), format!("{}…", "é".repeat(60)));
        assert_eq!(shown("ghp_0123456789abcdef"), "…");
    }
}
