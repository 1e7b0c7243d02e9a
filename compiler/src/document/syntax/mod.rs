//! What a parser's error means to the person who wrote the file: the place that has to change, and how.
//!
//! The parser says where it could not go on; the mistake is often earlier. Everything here looks at the text around
//! that place and never at more than the lines before it.

mod layout;
mod signs;

use std::ops::Range;

use granit_parser::{ErrorKind, ScanError};

use super::MAX_DEPTH;
use super::look_alike;
use super::scalar::line_start;
use crate::code::Code;
use crate::diagnostic::{Diagnostic, shown};
use crate::source::{SourceId, Span};

/// What was being read when the parser stopped.
#[derive(Default)]
pub(super) struct Context {
    /// The last scalar.
    pub(super) scalar: Range<usize>,
    /// The last key.
    pub(super) key: Range<usize>,
    /// Brackets and braces that are still open.
    pub(super) open: Vec<usize>,
}

/// A syntax error in our words.
pub(super) fn reword(error: &ScanError, text: &str, id: SourceId, context: &Context) -> Diagnostic {
    let mut at = error.marker().byte_offset().unwrap_or(text.len()).min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    Reworder { text, id, context, at }.reword(error)
}

struct Reworder<'a> {
    text: &'a str,
    id: SourceId,
    context: &'a Context,
    at: usize,
}

impl<'a> Reworder<'a> {
    fn reword(&self, error: &ScanError) -> Diagnostic {
        use ErrorKind as E;
        if let Some(problem) = self.slashes().or_else(|| self.look_alikes()) {
            return problem;
        }
        match error.kind() {
            E::TabInBlockIndentation | E::TabInIndentation | E::TabNotAllowed | E::TabInPlainScalar => self.tab(),
            E::TabAtBlockScalarStart => self.tab(),
            E::UnclosedQuotedScalar => self.unclosed_quote(),
            E::DocumentIndicatorInQuotedScalar => self.unclosed_quote(),
            E::InvalidTrailingSingleQuotedScalar => self.after_quote('\''),
            E::InvalidTrailingDoubleQuotedScalar => self.after_quote('"'),
            E::UnknownQuotedScalarEscape
            | E::InvalidQuotedScalarHexEscape
            | E::InvalidUnicodeEscape
            | E::InvalidLowSurrogate
            | E::InvalidLowSurrogateHexEscape
            | E::MissingLowSurrogate
            | E::UnpairedLowSurrogate => self.escape(),
            E::UnclosedFlowCollection { open } => self.unclosed_bracket(*open),
            E::MismatchedFlowCollectionEnd { open, close } => self.mismatched_bracket(*open, *close),
            E::MisplacedFlowCollectionEnd => self.stray_bracket(),
            E::UnexpectedCharacter { character } => self.reserved(*character),
            E::MissingAnchorOrAliasName => self.no_name(),
            E::MappingValueNotAllowed | E::SimpleKeyExpected | E::InvalidSimpleKey => self.colon(),
            E::ExpectedBlockMappingKey | E::InvalidIndentation | E::InvalidFlowScalarIndent => self.indentation(),
            E::ExpectedBlockSequenceEntry => self.indentation(),
            E::BlockSequenceEntryNotAllowed | E::BlockEntryInFlowCollection => self.dash(),
            E::CommentInterceptedScalar => self.comment_in_text(),
            E::InvalidColonPlacement
            | E::ExpectedFlowMappingSeparator
            | E::ExpectedFlowSequenceSeparator
            | E::FlowMappingValueAdjacentCollection
            | E::UnexpectedEofFlowSequence
            | E::UnexpectedEofFlowMapping
            | E::UnexpectedEofImplicitFlowMapping => self.in_flow(),
            E::RecursionLimitExceeded => self
                .problem(self.char_at(self.at), format!("lists and maps are nested deeper than {MAX_DEPTH} levels"))
                .with_code(Code::TooDeep)
                .label("too deep")
                .help("no config needs more than ten levels"),
            E::InvalidBlockScalarHeader | E::ZeroBlockScalarIndent | E::InvalidBlockScalarIndent => self.block_scalar(),
            E::UndeclaredTagHandle | E::UnclosedVerbatimTag | E::InvalidTagTerminator | E::MissingTagUri => self.tag(),
            E::UnsupportedYamlMajorVersion | E::DuplicateVersionDirective => self
                .problem(self.word(self.at), "this file asks for a YAML version that mcplan doesn't read")
                .label("unknown version")
                .help("remove the `%YAML` line"),
            E::ExpectedDocumentStart | E::MissingDocumentEndBeforeDirective => self.percent_line(),
            E::CommentNotSeparated => self
                .problem(self.char_at(self.at), "a comment needs a space before its `#`")
                .help("put a space before `#`, or the whole value in quotes if `#` belongs to it"),
            E::UnexpectedEofBlockMapping | E::UnexpectedEofBlockSequence | E::ExpectedNodeContent => self.no_content(),
            E::BomInsideDocument => self
                .problem(self.char_at(self.at), "a byte order mark (U+FEFF) stands in the middle of the text")
                .label("invisible in most editors")
                .help("delete this character and the one beside it, and write the visible one again"),
            E::MappingKeyNotAllowed => self
                .problem(self.char_at(self.at), "`?` starts a key here, and no key may stand in this place")
                .label("starts a key")
                .help("put the value in quotes if `?` belongs to it"),
            _ => self.problem(self.char_at(self.at), format!("this is not YAML: {}", error.kind())),
        }
    }

    /// What looks like a blank or a quote, in the lines of the scalar that the parser stumbled over.
    fn look_alikes(&self) -> Option<Diagnostic> {
        let scalar = self.context.scalar.start.min(self.at);
        let (start, end) = (self.line_start(scalar), self.line_start(self.at) + self.line(self.at).len());
        if let Some((at, first)) = look_alike::blank_in_layout(&self.text[start..end]) {
            return Some(look_alike::strange_blank(self.span(start + at.start..start + at.end), first));
        }
        let value = self.rest_of_line(scalar);
        let curly = look_alike::begins_curly(&self.text[value.clone()]) && self.at <= value.end;
        curly.then(|| look_alike::curly_quotes(self.span(value.clone()), &self.text[value]))
    }

    fn problem(&self, at: Range<usize>, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(Code::Syntax, self.span(at), message)
    }

    fn span(&self, at: Range<usize>) -> Span {
        Span::new(self.id, at)
    }

    /// The character at `at`; the end of the text has none.
    fn char_at(&self, at: usize) -> Range<usize> {
        let length = self.text[at..].chars().next().map_or(0, char::len_utf8);
        at..at + length
    }

    /// From `at` to the next white space or flow sign.
    fn word(&self, at: usize) -> Range<usize> {
        let rest = &self.text[at..];
        let length = rest.find(|c: char| c.is_whitespace() || matches!(c, ',' | ']' | '}')).unwrap_or(rest.len());
        if length == 0 { self.char_at(at) } else { at..at + length }
    }

    /// From `at` to the end of its line, without a comment.
    fn rest_of_line(&self, at: usize) -> Range<usize> {
        let line = self.text[at..].split('\n').next().unwrap_or_default();
        let line = line.split(" #").next().unwrap_or_default();
        at..at + line.trim_end().len()
    }

    /// The whole value that starts at `at`: to the next comma or bracket between brackets, else to the end of the line.
    fn value(&self, at: usize) -> Range<usize> {
        let line = self.rest_of_line(at);
        if self.context.open.is_empty() {
            return line;
        }
        let text = &self.text[line.clone()];
        let first = text.chars().next().map_or(0, char::len_utf8);
        let end = text[first..].find([',', ']', '}']).map_or(text.len(), |found| first + found);
        at..at + text[..end].trim_end().len()
    }

    /// A value in quotes, between backticks.
    fn quoted(&self, value: &Range<usize>) -> String {
        code(&format!("\"{}\"", shown(&self.text[value.clone()]).replace('\\', "\\\\").replace('"', "\\\"")))
    }

    fn line_start(&self, at: usize) -> usize {
        line_start(self.text, at)
    }

    /// The line that `at` is on, without its line break.
    fn line(&self, at: usize) -> &'a str {
        self.text[self.line_start(at)..].split('\n').next().unwrap_or_default().trim_end_matches('\r')
    }

    fn indent(line: &str) -> usize {
        line.len() - line.trim_start_matches(' ').len()
    }
}

/// Text between backticks, unless it holds one.
fn code(text: &str) -> String {
    if text.contains('`') { text.to_owned() } else { format!("`{text}`") }
}
