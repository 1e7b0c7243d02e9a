//! What a parser's error means to the person who wrote the file: the place that has to change, and how.
//!
//! The parser says where it could not go on; the mistake is often earlier. Everything here looks at the text around
//! that place and never at more than the lines before it.

use std::ops::Range;

use granit_parser::{ErrorKind, ScanError};

use super::MAX_DEPTH;
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

    fn tab(&self) -> Diagnostic {
        // The tab stands at the error or on a line after it; the error may name the scalar before.
        let line = self.line_start(self.at);
        let in_indent = |start: usize| {
            let blank = self.text[start..].bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
            self.text[start..start + blank].find('\t').map(|tab| {
                let length = self.text[start + tab..start + blank].bytes().take_while(|byte| *byte == b'\t').count();
                start + tab..start + tab + length
            })
        };
        let next_line = self.text[self.at..].find('\n').map(|newline| self.at + newline + 1);
        let here = in_indent(line).or_else(|| next_line.and_then(in_indent));
        let tab = here.or_else(|| self.text[self.at..].find('\t').map(|tab| self.at + tab..self.at + tab + 1));
        let at = tab.unwrap_or_else(|| self.char_at(self.at));
        self.problem(at, "a tab is used for indentation, where YAML only takes spaces")
            .label("a tab")
            .help("indent with spaces; most editors can convert tabs to spaces")
    }

    fn unclosed_quote(&self) -> Diagnostic {
        let quote = if self.text[self.at..].starts_with('\'') { '\'' } else { '"' };
        let name = quote_name(quote);
        let help = if quote == '\'' && self.rest_of_line(self.at).len() > 1 {
            format!("close it with `{quote}`; a single quote inside the text is written twice")
        } else {
            format!("close it with `{quote}`")
        };
        self.problem(self.char_at(self.at), format!("this {name} quote is never closed"))
            .label("opened here")
            .help(help)
    }

    fn after_quote(&self, quote: char) -> Diagnostic {
        let close = self.text[..self.at].rfind(quote);
        let open = close.and_then(|close| self.text[..close].rfind(quote));
        if let (Some(open), Some(close)) = (open, close)
            && self.text[open..close].contains('\n')
        {
            return self
                .problem(self.char_at(open), format!("this {} quote is closed on another line", quote_name(quote)))
                .label("opened here")
                .related(self.span(close..close + 1), "closed here, with more text behind it")
                .help(format!("close it with `{quote}` on its own line"));
        }
        let touching = close.is_some_and(|close| close + 1 == self.at);
        let help = match (quote, touching) {
            ('\'', true) => "a single quote inside single quotes is written twice: `'it''s'`",
            ('"', true) => "a double quote inside double quotes is written `\\\"`",
            _ if !self.context.open.is_empty() => "put a comma between two entries",
            _ => "put the whole value in quotes",
        };
        self.problem(self.value(self.at), "text follows the closing quote").label("not part of the value").help(help)
    }

    fn escape(&self) -> Diagnostic {
        // The error names the start of the scalar; the bad escape is the first one that isn't on YAML's list.
        let body = &self.text[self.at..];
        let mut found = None;
        let mut rest = body.char_indices().skip(1);
        while let Some((at, c)) = rest.next() {
            if c != '\\' {
                continue;
            }
            let Some((_, escaped)) = rest.next() else { break };
            let digits = match escaped {
                'x' => 2,
                'u' => 4,
                'U' => 8,
                _ => 0,
            };
            let after = at + 1 + escaped.len_utf8();
            let written = body[after..].bytes().take(digits).take_while(u8::is_ascii_hexdigit).count();
            let known = "0abt\tnvfre \"/\\N_LPxuU\n\r".contains(escaped);
            let scalar =
                || u32::from_str_radix(&body[after..after + digits], 16).ok().and_then(char::from_u32).is_some();
            if !known || written < digits || digits > 0 && !scalar() {
                found = Some((self.at + at..self.at + after + written, known));
                break;
            }
        }
        let (at, known) = found.unwrap_or_else(|| (self.char_at(self.at), true));
        let written = shown(&self.text[at.clone()]);
        if known {
            return self
                .problem(at.clone(), format!("`{written}` does not stand for a character"))
                .label("no character")
                .help("`\\x` takes two hexadecimal digits, `\\u` four, `\\U` eight");
        }
        self.problem(at.clone(), format!("`{written}` is not an escape in YAML"))
            .label("a backslash starts an escape between double quotes")
            .help(format!("write `\\{written}`, or use single quotes, where a backslash is itself"))
    }

    fn unclosed_bracket(&self, open: char) -> Diagnostic {
        let close = closing(open);
        self.problem(self.char_at(self.at), format!("this `{open}` is never closed"))
            .label("opened here")
            .help(format!("close it with `{close}`, or put the value in quotes if `{open}` belongs to it"))
    }

    fn mismatched_bracket(&self, open: char, close: char) -> Diagnostic {
        let right = closing(open);
        self.problem(self.char_at(self.at), format!("this `{open}` is closed by `{close}`"))
            .label("opened here")
            .help(format!("close it with `{right}`"))
    }

    fn stray_bracket(&self) -> Diagnostic {
        let at = self.char_at(self.at);
        let close = &self.text[at.clone()];
        self.problem(at.clone(), format!("this `{close}` closes nothing"))
            .label("nothing is open here")
            .help(format!("remove it, or put the value in quotes if `{close}` belongs to it"))
    }

    fn reserved(&self, character: char) -> Diagnostic {
        let word = self.word(self.at);
        match character {
            '@' | '`' | '%' => {
                let value = self.value(self.at);
                let message = format!("a value can't start with {} unless it is in quotes", tick(character));
                let quoted = self.quoted(&value);
                self.problem(value, message).label("put this in quotes").help(format!("write {quoted}"))
            }
            c if c.is_control() => {
                let name = format!("the control character U+{:04X} stands in the text", u32::from(c));
                self.problem(self.char_at(self.at), name).label("invisible in most editors").help("remove it")
            }
            c => self.problem(word, format!("{} can't stand here", tick(c))).help("put the value in quotes"),
        }
    }

    fn no_name(&self) -> Diagnostic {
        let value = self.value(self.at);
        let (sign, what) = if self.text[self.at..].starts_with('&') { ('&', "an anchor") } else { ('*', "an alias") };
        let quoted = self.quoted(&value);
        self.problem(value, format!("`{sign}` starts {what} in YAML, and no name follows it"))
            .label("put this in quotes")
            .help(format!("write {quoted}"))
    }

    fn colon(&self) -> Diagnostic {
        let line = self.line_start(self.at);
        let scalar = &self.context.scalar;
        // A scalar that began on an earlier line swallowed this one's key.
        if scalar.start < line && scalar.end >= line {
            return self.swallowed(line);
        }
        let key_start = self.text[line..].find(|c: char| !c.is_whitespace()).map_or(self.at, |blank| line + blank);
        if self.text[self.at..].starts_with(':') && self.context.key.start >= line && self.context.key.end <= self.at {
            let quoted = self.quoted(&(scalar.start..self.rest_of_line(self.at).end));
            return self
                .problem(self.at..self.at + 1, "a second colon on one line starts a map inside a value")
                .label("this colon")
                .help(format!("put the value in quotes if the colon belongs to it: {quoted}"));
        }
        if let Some(problem) = self.no_space_after_colon(key_start) {
            return problem;
        }
        let at = self.rest_of_line(key_start.max(self.line_start(self.at)));
        self.problem(at, "this line is not a `key: value`")
            .label("a key needs a colon and a space behind it")
            .help("add `: ` and a value, or indent the line if it belongs to the value above")
    }

    /// The scalar before this line goes on in it: bad indentation here, or a missing space there.
    fn swallowed(&self, line: usize) -> Diagnostic {
        let start = self.context.scalar.start;
        if let Some(problem) = self.no_space_after_colon(start) {
            return problem;
        }
        let first = self.line(start);
        if self.text[start..].starts_with('-') && !self.text[start + 1..].starts_with(' ') {
            return self
                .problem(start..start + 1, "a list entry needs a space after its dash")
                .label("no space behind this")
                .help("write `- ` and the value");
        }
        let here = self.line(line);
        let key = self.rest_of_line(line + Self::indent(here));
        let mut problem = self.problem(key, "this line is read as part of the value above it");
        problem = if Self::indent(here) > Self::indent(first) {
            let entry = if first.trim_start().starts_with("- ") { 2 } else { 0 };
            let help = match Self::indent(first) + entry {
                0 => "take its indentation away, so that it stands below the key above".to_owned(),
                indent => format!("indent it by {}, like the key above", count(indent, "space")),
            };
            problem
                .label("indented deeper than the line above")
                .related(self.span(self.context.scalar.start..self.rest_of_line(start).end), "the value starts here")
                .help(help)
        } else {
            problem
                .related(self.span(self.context.scalar.start..self.rest_of_line(start).end), "the value starts here")
                .help("put a colon and a space behind the key above, or that value in quotes")
        };
        problem
    }

    /// `key:value`, which is one text and no key.
    fn no_space_after_colon(&self, start: usize) -> Option<Diagnostic> {
        let line = &self.text[self.rest_of_line(start)];
        let colon = line.find(':')?;
        let (key, value) = (&line[..colon], &line[colon + 1..]);
        let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        if !is_key || value.is_empty() || value.starts_with([' ', '/']) {
            return None;
        }
        let end = start + colon + 1;
        Some(
            self.problem(start..end, format!("there is no space after `{key}:`"))
                .label("a space is missing behind this colon")
                .help(format!("write `{key}: {}`", shown(value))),
        )
    }

    fn indentation(&self) -> Diagnostic {
        let start = self.line_start(self.at);
        let line = self.line(self.at);
        let indent = Self::indent(line);
        let content = start + indent;
        if self.at > content && !line[indent..].starts_with("- ") {
            // Something on this line came to its end before.
            return self
                .problem(self.rest_of_line(self.at), "text follows a value that has come to its end")
                .label("not part of the value")
                .help("start a new line for it, or put the whole value in quotes");
        }
        if line[indent..].starts_with('\t') {
            return self.tab();
        }
        let levels = self.levels(start);
        let at = self.rest_of_line(content);
        if !levels.contains(&indent) {
            let fits: Vec<_> = levels.iter().map(|level| format!("{level}")).collect();
            return self
                .problem(
                    at,
                    format!("this line is indented by {}, which fits no line above it", count(indent, "space")),
                )
                .label("belongs to no list or map above")
                .help(format!("the lines above are indented by {}", list_or(&fits)));
        }
        if line[indent..].starts_with("- ") || &line[indent..] == "-" {
            return self
                .problem(at, "a list entry stands where a key is expected")
                .label("a list entry")
                .help("indent it under the key that it belongs to");
        }
        self.problem(at, "a key stands where a list entry is expected")
            .label("a list entry starts with `- `")
            .help("put `- ` before it, or indent it like the rest of the entry above")
    }

    /// Indentations that a line at `start` may have: those of the lines it could belong to, innermost last.
    fn levels(&self, start: usize) -> Vec<usize> {
        let mut levels = Vec::new();
        let mut lowest = usize::MAX;
        // Far more lines than any map is long are not looked at: the message stays true, only shorter.
        for line in self.text[..start].lines().rev().take(2000) {
            let indent = Self::indent(line);
            let content = &line[indent..];
            if content.is_empty() || content.starts_with('#') || indent >= lowest {
                continue;
            }
            if content.starts_with("- ") && indent + 2 < lowest {
                levels.push(indent + 2);
            }
            levels.push(indent);
            lowest = indent;
        }
        levels.reverse();
        levels
    }

    fn dash(&self) -> Diagnostic {
        let line = self.line(self.at);
        if self.context.open.last().is_some_and(|open| *open < self.line_start(self.at)) {
            return self.in_flow();
        }
        let at = self.rest_of_line(self.at);
        if line.trim_start().starts_with('-') {
            return self.indentation();
        }
        self.problem(at, "a list can't start on the line of its key")
            .label("start it on the next line")
            .help("write each `- ` entry on a line of its own, or the list in brackets: `[a, b]`")
    }

    fn comment_in_text(&self) -> Diagnostic {
        let at = self.rest_of_line_raw(self.at);
        self.problem(at, "a comment stands inside a text that goes on in the next line")
            .label("ends the text")
            .help("move the comment to a line of its own, or indent the next line like a key if it is one")
    }

    fn rest_of_line_raw(&self, at: usize) -> Range<usize> {
        at..at + self.text[at..].split('\n').next().unwrap_or_default().trim_end().len()
    }

    fn in_flow(&self) -> Diagnostic {
        let open = self.context.open.last().copied().unwrap_or(self.at);
        let bracket = self.text[open..].chars().next().filter(|c| matches!(c, '[' | '{')).unwrap_or('[');
        let here = self.char_at(self.at.min(self.text.len()));
        if open < self.line_start(self.at) || here.is_empty() {
            let close = closing(bracket);
            return self
                .problem(self.char_at(open), format!("this `{bracket}` is not closed before the next key"))
                .label("opened here")
                .related(self.span(here), "reading stopped here")
                .help(format!("close it with `{close}`"));
        }
        let what = if bracket == '[' { "list" } else { "map" };
        let problem = self.problem(self.word(self.at), format!("a comma is missing in this {what}, or a quote"));
        problem
            .label("can't stand here")
            .help("put a comma between two entries, and an entry with special characters in quotes")
    }

    fn block_scalar(&self) -> Diagnostic {
        self.problem(self.rest_of_line(self.at), "text can't stand on the line of `|` or `>`")
            .label("a block of text starts on the next line")
            .help("write the text on the next line, indented, or put the value in quotes")
    }

    fn tag(&self) -> Diagnostic {
        let word = self.word(self.at);
        let quoted = shown(&self.text[word.clone()]);
        self.problem(word.clone(), format!("`{quoted}` is a YAML tag that means nothing here"))
            .with_code(Code::UnknownTag)
            .label("unknown tag")
            .help("remove the tag, or put the value in quotes if the `!` belongs to it")
    }

    fn percent_line(&self) -> Diagnostic {
        // The directive is the last line before the error that starts with `%`, or the line of the error itself.
        let mut at = self.line_start(self.at);
        if !self.text[at..].starts_with('%') {
            at = self.text[..at].rfind('%').map_or(at, |percent| self.line_start(percent));
        }
        if !self.text[at..].starts_with('%') {
            return self
                .problem(self.word(self.at), "text follows the end of the document")
                .help("remove this line or the `...` above it");
        }
        self.problem(self.rest_of_line(at), "a line that starts with `%` is a directive in YAML")
            .label("unknown directive")
            .help("remove the line, or put `# ` before it to make it a comment")
    }

    fn no_content(&self) -> Diagnostic {
        let at = self.char_at(self.at);
        let sign = shown(&self.text[at.clone()]).into_owned();
        if sign.trim().is_empty() {
            return self.problem(at, "the file ends in the middle of a value").help("complete the last line");
        }
        let value = self.value(self.at);
        let quoted = self.quoted(&value);
        self.problem(value, format!("a value can't start with `{sign}` unless it is in quotes"))
            .label("put this in quotes")
            .help(format!("write {quoted}"))
    }
}

fn quote_name(quote: char) -> &'static str {
    if quote == '\'' { "single" } else { "double" }
}

fn closing(open: char) -> char {
    if open == '{' { '}' } else { ']' }
}

/// A character between backticks; a backtick itself is named.
fn tick(c: char) -> String {
    if c == '`' { "a backtick".to_owned() } else { format!("`{c}`") }
}

/// Text between backticks, unless it holds one.
fn code(text: &str) -> String {
    if text.contains('`') { text.to_owned() } else { format!("`{text}`") }
}

/// `1 space`, `2 spaces`.
fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

fn list_or(words: &[String]) -> String {
    match words {
        [] => "0 spaces".to_owned(),
        [one] => format!("{one} spaces"),
        [first @ .., last] => format!("{} or {last} spaces", first.join(", ")),
    }
}
