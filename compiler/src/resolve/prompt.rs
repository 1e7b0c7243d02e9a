//! `prompt:` and its older spelling `progressive_mcp:` → how the block is made.

use crate::code::Code;
use crate::config::{self, Config};
use crate::diagnostic::Diagnostic;
use crate::plan::{Budget, Prompt, PromptTemplate};
use crate::prompt_template;
use crate::source::{Span, Spanned};

use super::Resolver;

/// The context window that a fraction in `progressive_mcp` is of.
const PROGRESSIVE_CONTEXT: f64 = 200_000.0;
const DEFAULT_CHARS: usize = 2000;

impl Resolver<'_> {
    pub(super) fn prompt(&mut self, config: &Config) -> Prompt {
        let prompt = config.prompt.clone().unwrap_or_default();
        let old = config.progressive_mcp.as_ref().map(|old| old.value.clone()).unwrap_or_default();
        let max = self.one_of(
            ("prompt.max_description_chars", prompt.max_description_chars.as_ref()),
            ("progressive_mcp.max_listing_chars_per_entry", old.max_listing_chars_per_entry.as_ref()),
        );
        let min = self.one_of(
            ("prompt.min_description_chars", prompt.min_description_chars.as_ref()),
            ("progressive_mcp.min_listing_chars_per_entry", old.min_listing_chars_per_entry.as_ref()),
        );
        let (most, least) = (max.map_or(250, |n| n.value), min.map_or(20, |n| n.value));
        if least > most
            && let Some(written) = min.or(max)
        {
            let message = format!("the shortest description ({least}) is longer than the longest ({most})");
            self.report(
                Diagnostic::new(Code::OutOfRange, written.at, message)
                    .help("`min_description_chars` must not be above `max_description_chars`"),
            );
        }
        Prompt {
            budget: self.budget(prompt.budget.as_ref(), old.budget_pct.as_ref()),
            max_description_chars: most as usize,
            min_description_chars: least as usize,
            template: self.prompt_template(prompt.template.as_ref()),
        }
    }

    /// The one of two spellings that was written; both is an error.
    fn one_of<'c, T>(
        &mut self,
        (word, new): (&str, Option<&'c Spanned<T>>),
        (old_word, old): (&str, Option<&'c Spanned<T>>),
    ) -> Option<&'c Spanned<T>> {
        if let (Some(new), Some(old)) = (new, old) {
            self.two_spellings(word, new.at, old_word, old.at);
        }
        new.or(old)
    }

    pub(super) fn two_spellings(&mut self, word: &str, at: Span, old_word: &str, old_at: Span) {
        self.report(
            Diagnostic::new(Code::TwoSpellings, old_at, format!("`{old_word}` and `{word}` say the same thing twice"))
                .label(format!("the older spelling of `{word}`"))
                .related(at, "also set here")
                .help(format!("keep `{word}` and remove `{old_word}`")),
        );
    }

    fn budget(&mut self, new: Option<&Spanned<config::Budget>>, old: Option<&Spanned<config::Number>>) -> Budget {
        if let (Some(new), Some(old)) = (new, old) {
            self.two_spellings("prompt.budget", new.at, "progressive_mcp.budget_pct", old.at);
        }
        if let Some(new) = new {
            return self.written_budget(new);
        }
        // A decimal fraction is rarely exact in binary: 0.07 × 200 000 must not lose its last character.
        let chars =
            old.map_or(DEFAULT_CHARS, |fraction| (fraction.value.0 * PROGRESSIVE_CONTEXT + 1e-6).floor() as usize);
        Budget::Chars(chars)
    }

    fn written_budget(&mut self, written: &Spanned<config::Budget>) -> Budget {
        match &written.value {
            config::Budget { chars: Some(chars), tokens: None, context: None, percent: None } => {
                Budget::Chars(*chars as usize)
            }
            config::Budget { chars: None, tokens: Some(tokens), context: None, percent: None } => {
                Budget::Tokens(*tokens as usize)
            }
            config::Budget { chars: None, tokens: None, context: Some(context), percent: Some(percent) } => {
                Budget::Chars((*context as f64 * percent.0 / 100.0 + 1e-6).floor() as usize)
            }
            _ => {
                self.report(
                    Diagnostic::new(Code::BadBudget, written.at, "the budget must be said in exactly one way")
                        .help("write `{ chars: 2000 }`, `{ tokens: 500 }` or `{ context: 200000, percent: 1.0 }`"),
                );
                Budget::Chars(DEFAULT_CHARS)
            }
        }
    }

    fn prompt_template(&mut self, written: Option<&Spanned<String>>) -> PromptTemplate {
        let builtin = PromptTemplate { from: "builtin".to_owned(), text: prompt_template::BUILTIN.to_owned() };
        let Some(written) = written else { return builtin };
        let path = written.value.clone();
        let text = match self.files.read(&path).map_err(|error| error.to_string()).and_then(|bytes| {
            String::from_utf8(bytes).map_err(|error| format!("not UTF-8 at byte {}", error.utf8_error().valid_up_to()))
        }) {
            Ok(text) => text.replace("\r\n", "\n"),
            Err(reason) => {
                let message = format!("the template `{path}` can't be read: {reason}");
                self.report(
                    Diagnostic::new(Code::UnreadableFile, written.at, message)
                        .help("the path is relative to the file that names it"),
                );
                return builtin;
            }
        };
        for error in prompt_template::check_template(&text) {
            let mut diagnostic = Diagnostic::new(Code::BadTemplate, written.at, format!("{path}: {error}"));
            if let Some(suggestion) = &error.suggestion {
                diagnostic = diagnostic.label(format!("`{suggestion}` was probably meant there"));
            }
            let variables = prompt_template::VARIABLES.map(|name| format!("`{name}`")).join(", ");
            self.report(diagnostic.help(format!("the variables of a template are {variables}")));
        }
        self.read.push(path.clone());
        PromptTemplate { from: path, text }
    }
}
