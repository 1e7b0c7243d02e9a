//! Mistakes of layout: tabs, indentation, colons and dashes.

use std::ops::Range;

use super::Reworder;
use crate::diagnostic::Diagnostic;
use crate::document::look_alike::{is_key, no_space, no_space_after_dash};

impl Reworder<'_> {
    pub(super) fn tab(&self) -> Diagnostic {
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

    pub(super) fn colon(&self) -> Diagnostic {
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
    pub(super) fn swallowed(&self, line: usize) -> Diagnostic {
        let start = self.context.scalar.start;
        if let Some(problem) = self.no_space_after_colon(start) {
            return problem;
        }
        let first = self.line(start);
        // The dash may be glued to a value, or to the key of one.
        let key = self.context.key.start;
        for dash in [start, key].into_iter().filter(|at| *at == start || self.line_start(*at) == self.line_start(start))
        {
            if self.text[dash..].starts_with('-') && !self.text[dash + 1..].starts_with(' ') {
                return no_space_after_dash(self.span(dash..dash + 1));
            }
        }
        let here = self.line(line);
        if Self::indent(here) > Self::indent(first) && is_key(first.trim()) {
            // No key stands on that line, so that the word is to be one.
            let word = self.rest_of_line(start);
            let written = first.trim();
            return self
                .problem(word, format!("there is no colon after `{written}`"))
                .label("a key needs a colon")
                .related(self.span(self.rest_of_line(line + Self::indent(here))), "what belongs to it")
                .help(format!("write `{written}:`"));
        }
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
    pub(super) fn no_space_after_colon(&self, start: usize) -> Option<Diagnostic> {
        let line = self.rest_of_line(start);
        no_space(&self.text[line.clone()], self.span(line))
    }

    pub(super) fn indentation(&self) -> Diagnostic {
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
    pub(super) fn levels(&self, start: usize) -> Vec<usize> {
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

    pub(super) fn dash(&self) -> Diagnostic {
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

    pub(super) fn comment_in_text(&self) -> Diagnostic {
        let at = self.rest_of_line_raw(self.at);
        self.problem(at, "a comment stands inside a text that goes on in the next line")
            .label("ends the text")
            .help("move the comment to a line of its own, or indent the next line like a key if it is one")
    }

    pub(super) fn rest_of_line_raw(&self, at: usize) -> Range<usize> {
        at..at + self.text[at..].split('\n').next().unwrap_or_default().trim_end().len()
    }

    pub(super) fn block_scalar(&self) -> Diagnostic {
        self.problem(self.rest_of_line(self.at), "text can't stand on the line of `|` or `>`")
            .label("a block of text starts on the next line")
            .help("write the text on the next line, indented, or put the value in quotes")
    }
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
