//! The template language of the prompt block: what a template may use, how far it may go, what is wrong with it.
//!
//! The compiler checks a template here and the executor renders with the same environment, so what passed the check
//! works later. Values come in already cleaned and escaped: nothing is escaped here.

use std::io;
use std::ops::Range;

use minijinja::{AutoEscape, Environment, ErrorKind, UndefinedBehavior, Value, context};

use crate::diagnostic::closest;

/// The template that is used when the config names none.
pub const BUILTIN: &str = include_str!("plan/tools.j2");

/// What a template can use.
pub const VARIABLES: [&str; 7] = ["tools", "servers", "omitted", "total", "budget", "search_tool", "call_tool"];

/// Instructions that one rendering may take: some hundred for each of 10 000 tools.
const FUEL: u64 = 4_000_000;
const RECURSION: usize = 64;
/// Most bytes that checking renders; sample data gives far less.
const CHECK_MAX_BYTES: usize = 1 << 20;
const NAME: &str = "prompt";

/// What is wrong with a template.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message} (line {line} of the template)")]
pub struct TemplateError {
    /// Line in the template, from 1.
    pub line: usize,
    /// Bytes in the template, when they are known.
    pub range: Option<Range<usize>>,
    /// One sentence without a final stop.
    pub message: String,
    /// The variable that was probably meant.
    pub suggestion: Option<String>,
}

/// Why a rendering has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RenderError {
    /// The text grew beyond the room; it was stopped there.
    TooLong,
    /// The template itself failed.
    Failed(TemplateError),
}

/// How much text a rendering may give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Unicode scalar values.
    Chars(usize),
    /// Bytes of UTF-8.
    Bytes(usize),
}

/// A template, parsed once.
#[derive(Debug)]
pub struct Template {
    environment: Environment<'static>,
}

impl Template {
    /// Parses `text`.
    ///
    /// # Errors
    /// The first place that can't be parsed.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| AutoEscape::None);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(RECURSION);
        // Errors carry their byte range only in debug mode.
        environment.set_debug(true);
        environment.add_template_owned(NAME, text.to_owned()).map_err(|error| explain(&error, text))?;
        Ok(Self { environment })
    }

    /// Renders with `values`, which hold every one of [`VARIABLES`], and stops as soon as `room` is used up.
    ///
    /// # Errors
    /// More text than there is room for, or a template that fails with these values.
    pub fn render(&self, values: Value, room: Room) -> Result<String, RenderError> {
        let template = self.environment.get_template(NAME).map_err(|error| self.failed(&error))?;
        let mut out = Bounded { bytes: Vec::new(), room, used: 0, full: false };
        match template.render_captured_to(values, &mut out) {
            _ if out.full => Err(RenderError::TooLong),
            Ok(_) => String::from_utf8(out.bytes).map_err(|_| RenderError::TooLong),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &minijinja::Error) -> RenderError {
        let text = self.environment.get_template(NAME).map(|template| template.source().to_owned());
        RenderError::Failed(explain(error, &text.unwrap_or_default()))
    }
}

/// A writer that takes only so much.
struct Bounded {
    bytes: Vec<u8>,
    room: Room,
    used: usize,
    full: bool,
}

impl io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (size, room) = match self.room {
            // Every byte that doesn't continue a character starts one.
            Room::Chars(room) => (bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count(), room),
            Room::Bytes(room) => (bytes.len(), room),
        };
        self.used += size;
        if self.used > room {
            self.full = true;
            return Err(io::Error::other("no room left"));
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Everything that is wrong with `text`: that it doesn't parse, or each unknown variable, or where it fails when it is
/// rendered with sample data (all shown; names only; nothing but counts).
pub fn check_template(text: &str) -> Vec<TemplateError> {
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => return vec![error],
    };
    let unknown = unknown_variables(&template, text);
    if !unknown.is_empty() {
        return unknown;
    }
    let failed = samples().into_iter().find_map(|sample| match template.render(sample, Room::Bytes(CHECK_MAX_BYTES)) {
        Ok(_) => None,
        Err(RenderError::Failed(error)) => Some(error),
        Err(RenderError::TooLong) => Some(TemplateError {
            line: 1,
            range: None,
            message: format!("three sample tools make more than {CHECK_MAX_BYTES} bytes"),
            suggestion: None,
        }),
    });
    failed.into_iter().collect()
}

fn unknown_variables(template: &Template, text: &str) -> Vec<TemplateError> {
    let Ok(parsed) = template.environment.get_template(NAME) else { return Vec::new() };
    let globals: Vec<&str> = template.environment.globals().map(|(name, _)| name).collect();
    let mut errors: Vec<TemplateError> = parsed
        .undeclared_variables(false)
        .into_iter()
        .filter(|name| !VARIABLES.contains(&name.as_str()) && !globals.contains(&name.as_str()))
        .map(|name| {
            let range = find_word(text, &name);
            TemplateError {
                line: range.as_ref().map_or(1, |range| line_of(text, range.start)),
                range,
                message: format!("a prompt template has no variable `{name}`"),
                suggestion: closest(&name, VARIABLES).map(str::to_owned),
            }
        })
        .collect();
    errors.sort_by(|a, b| (a.line, &a.message).cmp(&(b.line, &b.message)));
    errors
}

/// Where `name` stands as a whole word inside `{{ }}` or `{% %}`, not as an attribute.
fn find_word(text: &str, name: &str) -> Option<Range<usize>> {
    let part_of_name = |c: char| c.is_alphanumeric() || c == '_';
    text.match_indices(name).map(|(at, _)| at..at + name.len()).find(|range| {
        let before = &text[..range.start];
        let open = before.rfind("{{").max(before.rfind("{%"));
        let close = before.rfind("}}").max(before.rfind("%}"));
        open.is_some()
            && open > close
            && !before.ends_with(|c| part_of_name(c) || c == '.')
            && !text[range.end..].starts_with(part_of_name)
    })
}

fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

fn explain(error: &minijinja::Error, text: &str) -> TemplateError {
    let range = error.range().filter(|range| text.get(range.clone()).is_some());
    let written = range.clone().map(|range| text[range].trim()).filter(|written| !written.is_empty());
    let message = match (error.kind(), written) {
        (ErrorKind::UndefinedError, Some(written)) => format!("`{written}` is not defined"),
        (ErrorKind::OutOfFuel, _) => format!("the template takes more than {FUEL} steps"),
        _ => error.detail().map_or_else(|| error.kind().to_string(), str::to_owned),
    };
    TemplateError { line: error.line().unwrap_or(1), range, message, suggestion: None }
}

/// Values of each shape that a template meets: everything shown, names alone, counts alone.
fn samples() -> [Value; 3] {
    let tool = |name: &str, server: &str, text: &str| context! { name, server, title => text, description => text };
    let server = |name: &str, description: &str, tool_count: usize, shown: usize| {
        context! { name, description, tool_count, shown }
    };
    let values = |tools: Vec<Value>, servers: Vec<Value>, omitted: Vec<Value>| {
        context! {
            tools, servers, omitted, total => 3, budget => 2000,
            search_tool => "search_mcp_tools", call_tool => "call_mcp_tool",
        }
    };
    let named = |text: &str| {
        vec![tool("mcp__a__one", "a", text), tool("mcp__a__two", "a", text), tool("mcp__b__three", "b", text)]
    };
    let omitted =
        |a: usize, b: usize| vec![context! { server => "a", count => a }, context! { server => "b", count => b }];
    [
        values(named("What it does."), vec![server("a", "About a.", 2, 2), server("b", "", 1, 1)], Vec::new()),
        values(named(""), vec![server("a", "", 4, 2), server("b", "", 2, 1)], omitted(2, 1)),
        values(Vec::new(), vec![server("a", "", 2, 0), server("b", "", 1, 0)], omitted(2, 1)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_one_is_good() {
        assert_eq!(check_template(BUILTIN), []);
    }

    fn told(text: &str) -> Vec<(usize, String, Option<String>)> {
        check_template(text).into_iter().map(|error| (error.line, error.message, error.suggestion)).collect()
    }

    #[test]
    fn every_unknown_variable_is_named_with_its_line_even_in_a_branch_not_taken() {
        assert_eq!(
            told("x\n{% if false %}\n{{ tool_count }}\n{% endif %}{{ tols }} tols"),
            [
                (3, "a prompt template has no variable `tool_count`".to_owned(), None),
                (4, "a prompt template has no variable `tols`".to_owned(), Some("tools".to_owned())),
            ]
        );
        let error = &check_template("tols {{ tols }}")[0];
        assert_eq!(error.range, Some(8..12), "the word in the text isn't it");
    }

    #[test]
    fn an_unknown_attribute_is_found_by_rendering() {
        assert_eq!(
            told("a\n{% for tool in tools %}{{ tool.nam }}{% endfor %}"),
            [(2, "`tool.nam` is not defined".to_owned(), None)]
        );
        assert_eq!(told("{{ tools[0].name }}").len(), 1, "there may be no tool to show");
    }

    #[test]
    fn what_does_not_parse_has_its_line() {
        let errors = told("a\n{% for x in tools %}");
        assert_eq!(errors.len(), 1);
        assert_eq!(errors[0].0, 2, "{errors:?}");
    }

    #[test]
    fn a_template_that_would_not_end_is_stopped() {
        let endless = "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}";
        assert!(told(endless)[0].1.contains("steps"), "{:?}", told(endless));
        let long = "{% for a in range(9999) %}{{ 'x' * 1000 }}{% endfor %}";
        assert!(told(long)[0].1.contains("bytes"), "{:?}", told(long));
        assert_eq!(told("{% include 'other' %}").len(), 1, "there is nothing to include");
    }

    #[test]
    fn rendering_stops_at_the_room() {
        let template = Template::parse("{{ total }}äb").unwrap();
        let values = || context! { total => 1 };
        assert_eq!(template.render(values(), Room::Chars(3)), Ok("1äb".to_owned()));
        assert_eq!(template.render(values(), Room::Chars(2)), Err(RenderError::TooLong));
        assert_eq!(template.render(values(), Room::Bytes(4)), Ok("1äb".to_owned()));
        assert_eq!(template.render(values(), Room::Bytes(3)), Err(RenderError::TooLong));
    }
}
