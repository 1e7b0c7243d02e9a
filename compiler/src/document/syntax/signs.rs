//! Mistakes of signs: quotes, brackets, and values that start with a character of YAML's own.

use std::ops::Range;

use super::{Reworder, code};
use crate::code::Code;
use crate::diagnostic::{Diagnostic, shown};

impl Reworder<'_> {
    pub(super) fn unclosed_quote(&self) -> Diagnostic {
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

    pub(super) fn after_quote(&self, quote: char) -> Diagnostic {
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
        if self.text[self.at..].starts_with(',') && !self.between_brackets() {
            return self
                .problem(self.rest_of_line(self.at), "text follows the closing quote")
                .label("not part of the value")
                .help("remove the comma: outside of braces each key stands on a line of its own, without one");
        }
        let touching = close.is_some_and(|close| close + 1 == self.at);
        let help = match (quote, touching) {
            ('\'', true) => "a single quote inside single quotes is written twice: `'it''s'`",
            ('"', true) => "a double quote inside double quotes is written `\\\"`",
            _ if self.between_brackets() => "put a comma between two entries",
            _ => "put the whole value in quotes",
        };
        self.problem(self.value(self.at), "text follows the closing quote").label("not part of the value").help(help)
    }

    pub(super) fn escape(&self) -> Diagnostic {
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
            let code = u32::from_str_radix(&body[after..after + written], 16).ok().filter(|_| written == digits);
            if let Some(pair) = code.filter(|code| escaped == 'u' && is_half(*code)) {
                // JSON writes what is beyond its four digits as two halves.
                let other = body[after + written..].strip_prefix("\\u").and_then(|rest| rest.get(..4));
                let other = other.and_then(|digits| u32::from_str_radix(digits, 16).ok());
                if pair >= 0xDC00 || !other.is_some_and(|other| (0xDC00..0xE000).contains(&other)) {
                    return self.half_a_character(self.at + at..self.at + after + written);
                }
                rest.nth(written + 5);
                continue;
            }
            if !known || digits > 0 && code.and_then(char::from_u32).is_none() {
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
                .help(self.in_single_quotes(is_path).unwrap_or_else(|| {
                    "behind `\\x` come two hexadecimal digits, behind `\\u` four, behind `\\U` eight; for a backslash itself, \
                     as in a path of Windows, use single quotes"
                        .to_owned()
                }));
        }
        self.problem(at.clone(), format!("`{written}` is not an escape in YAML"))
            .label("a backslash starts an escape between double quotes")
            .help(
                self.in_single_quotes(|text| is_path(text) || text.matches('\\').count() == 1).unwrap_or_else(|| {
                    format!("write `\\{written}`, or use single quotes, where a backslash is itself")
                }),
            )
    }

    /// What to write in place of a text in double quotes, where `fits` says that its backslashes are no escapes.
    fn in_single_quotes(&self, fits: impl Fn(&str) -> bool) -> Option<String> {
        let (text, _) = self.text[self.at..].strip_prefix('"')?.split_once('"')?;
        (fits(text) && !text.contains(['\n', '\''])).then(|| {
            format!("write {}: between single quotes a backslash is itself", code(&format!("'{}'", shown(text))))
        })
    }

    fn half_a_character(&self, at: Range<usize>) -> Diagnostic {
        let written = shown(&self.text[at.clone()]).into_owned();
        self.problem(at, format!("`{written}` is half a character"))
            .label("the other half is missing")
            .help("write the character itself, or both halves of it, such as `\\ud83d\\ude00`")
    }

    pub(super) fn unclosed_bracket(&self, open: char) -> Diagnostic {
        let close = closing(open);
        self.problem(self.char_at(self.at), format!("this `{open}` is never closed"))
            .label("opened here")
            .help(format!("close it with `{close}`, or put the value in quotes if `{open}` belongs to it"))
    }

    pub(super) fn mismatched_bracket(&self, open: char, close: char) -> Diagnostic {
        let right = closing(open);
        self.problem(self.char_at(self.at), format!("this `{open}` is closed by `{close}`"))
            .label("opened here")
            .help(format!("close it with `{right}`"))
    }

    pub(super) fn stray_bracket(&self) -> Diagnostic {
        let at = self.char_at(self.at);
        let close = &self.text[at.clone()];
        self.problem(at.clone(), format!("this `{close}` closes nothing"))
            .label("nothing is open here")
            .help(format!("remove it, or put the value in quotes if `{close}` belongs to it"))
    }

    pub(super) fn reserved(&self, character: char) -> Diagnostic {
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

    pub(super) fn no_name(&self) -> Diagnostic {
        let value = self.value(self.at);
        let (sign, what) = if self.text[self.at..].starts_with('&') { ('&', "an anchor") } else { ('*', "an alias") };
        let whole = self.whole_pattern(value);
        let quoted = self.quoted(&whole);
        self.problem(whole, format!("`{sign}` starts {what} in YAML, and no name follows it"))
            .label("put this in quotes")
            .help(format!("write {quoted}"))
    }

    /// A pattern such as `get_[ab]*` between brackets: its own bracket has ended the text, and `value` is what is left.
    fn whole_pattern(&self, value: Range<usize>) -> Range<usize> {
        let before = &self.text[self.line_start(value.start)..value.start];
        if !before.ends_with([']', '}']) {
            return value;
        }
        let from = before.rfind([' ', '\t', ',']).map_or(0, |blank| blank + 1);
        // Brackets of the list itself may stand before the text.
        let mut start = value.start - (before.len() - from);
        let count = |text: &str, sign: char| text.matches(sign).count();
        while let text = &self.text[start..value.start]
            && text.starts_with(['[', '{'])
            && count(text, '[') + count(text, '{') > count(text, ']') + count(text, '}')
        {
            start += 1;
        }
        start..value.end
    }

    pub(super) fn in_flow(&self) -> Diagnostic {
        let open = self.context.open.last().copied().unwrap_or(self.at);
        let bracket = self.text[open..].chars().next().filter(|c| matches!(c, '[' | '{')).unwrap_or('[');
        let here = self.char_at(self.at.min(self.text.len()));
        let what = if bracket == '[' { "list" } else { "map" };
        let close = closing(bracket);
        if open < self.line_start(self.at) && self.begins_an_entry(self.at) {
            return self
                .problem(here, "a comma is missing before this entry")
                .label("the next entry")
                .related(self.span(self.char_at(open)), format!("the {what} starts here"))
                .help(format!("put a comma behind the entry above, or close the {what} there with `{close}`"));
        }
        if open < self.line_start(self.at) || here.is_empty() {
            return self
                .problem(self.char_at(open), format!("this `{bracket}` is not closed before the next key"))
                .label("opened here")
                .related(self.span(here), "reading stopped here")
                .help(format!("close it with `{close}`"));
        }
        if let Some(problem) = self.bare_reference() {
            return problem;
        }
        let problem = self.problem(self.word(self.at), format!("a comma is missing in this {what}, or a quote"));
        problem
            .label("can't stand here")
            .help("put a comma between two entries, and an entry with special characters in quotes")
    }

    pub(super) fn tag(&self) -> Diagnostic {
        let word = self.word(self.at);
        let quoted = shown(&self.text[word.clone()]);
        self.problem(word.clone(), format!("`{quoted}` is a YAML tag that means nothing here"))
            .with_code(Code::UnknownTag)
            .label("unknown tag")
            .help("remove the tag, or put the value in quotes if the `!` belongs to it")
    }

    pub(super) fn percent_line(&self) -> Diagnostic {
        // The directive is the last line before the error that starts with `%`, or the line of the error itself.
        let mut at = self.line_start(self.at);
        if !self.text[at..].starts_with('%') {
            at = self.text[..at].rfind('%').map_or(at, |percent| self.line_start(percent));
        }
        if !self.text[at..].starts_with('%') {
            let ended = self.text[..self.at].lines().any(|line| line.trim_end() == "...");
            return self.problem(self.word(self.at), "text follows the end of the document").help(if ended {
                "remove this line or the `...` above it"
            } else {
                "what stands above is a whole value already: write a map, one `key: value` a line"
            });
        }
        self.problem(self.rest_of_line(at), "a line that starts with `%` is a directive in YAML")
            .label("unknown directive")
            .help("remove the line, or put `# ` before it to make it a comment")
    }

    /// `[${NAME}]` and `{A: Bearer ${NAME}}`: the brace of a reference opens a map between brackets.
    fn bare_reference(&self) -> Option<Diagnostic> {
        let before = self.text[self.line_start(self.at)..self.at].strip_suffix('$')?;
        let name = self.line(self.at).get(before.len() + 1..)?.strip_prefix('{')?;
        let reference = name.find('}')?;
        let rest = name[reference + 1..].find([',', ']', '}']).unwrap_or(name.len() - reference - 1);
        let sign = before.rfind([',', '[', '{']).max(before.rfind(": ")).map_or(0, |sign| sign + 1);
        let blank = before[sign..].len() - before[sign..].trim_start().len();
        let start = self.line_start(self.at) + sign + blank;
        let end = self.at + 1 + reference + 1 + rest;
        let value = start..start + self.text[start..end].trim_end().len();
        let quoted = self.quoted(&value);
        Some(
            self.problem(value, "a reference between brackets or braces has to be in quotes")
                .label("put this in quotes")
                .help(format!("write {quoted}")),
        )
    }

    /// Whether what the parser read last is between brackets. It names them late in a file that begins with one.
    fn between_brackets(&self) -> bool {
        !self.context.open.is_empty() || self.text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '['])
    }

    /// Whether a value in quotes or brackets begins at `at`, first on its line and behind a whole entry.
    fn begins_an_entry(&self, at: usize) -> bool {
        let first = self.text[self.line_start(at)..at].trim().is_empty();
        let behind = self.text[..at].trim_end();
        first && self.text[at..].starts_with(['"', '\'', '{', '[']) && !behind.ends_with([',', ':', '{', '['])
    }

    /// `// a comment` or `/* a comment */`, as some dialects of JSON take it.
    pub(super) fn slashes(&self) -> Option<Diagnostic> {
        for sign in ["//", "/*"] {
            if self.text[self.at..].starts_with(sign) && self.text[..self.at].ends_with(char::is_whitespace) {
                return Some(self.foreign_comment(self.at, sign));
            }
        }
        let from = *self.context.open.first()?;
        let end = self.at + self.text[self.at..].find('\n').unwrap_or(self.text.len() - self.at);
        let mut at = self.line_start(from);
        for line in self.text[at..end].split_inclusive('\n') {
            let indent = line.len() - line.trim_start().len();
            if line[indent..].starts_with("//") {
                return Some(self.foreign_comment(at + indent, "//"));
            }
            at += line.len();
        }
        None
    }

    fn foreign_comment(&self, at: usize, sign: &str) -> Diagnostic {
        let help = if sign == "//" { "write `#` here, or remove the comment" } else { "remove the comment" };
        self.problem(at..at + 2, format!("a comment starts with `#`, not with `{sign}`")).help(help)
    }

    pub(super) fn no_content(&self) -> Diagnostic {
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

/// A path as Windows writes them.
fn is_path(text: &str) -> bool {
    text.contains(":\\") || text.starts_with("\\\\")
}

/// One of the two halves in which UTF-16, and so JSON, writes a character beyond its four digits.
fn is_half(code: u32) -> bool {
    (0xD800..0xE000).contains(&code)
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
