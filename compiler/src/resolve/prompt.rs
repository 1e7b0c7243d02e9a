//! `prompt:` and its older spelling `progressive_mcp:` → how the block is made.

use crate::code::Code;
use crate::config::{self, Config};
use crate::diagnostic::{Diagnostic, shown};
use crate::plan::{Budget, Digested, Prompt, PromptTemplate};
use crate::prompt_template;
use crate::source::{Source, Span, Spanned, beside};

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
            let whose = if min.is_none() { " (the default)" } else { "" };
            let message = format!("no description has at least {least} characters{whose} and at most {most}");
            self.report(
                Diagnostic::new(Code::OutOfRange, written.at, message)
                    .help(format!("set `min_description_chars` to {most} or less, or `max_description_chars` to more")),
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
        Budget::Chars(
            old.map_or(DEFAULT_CHARS, |fraction| self.share(PROGRESSIVE_CONTEXT, fraction.value.0, fraction.at)),
        )
    }

    /// A part of a context window in characters, of which there has to be one.
    fn share(&mut self, context: f64, fraction: f64, at: Span) -> usize {
        // A decimal fraction is rarely exact in binary: 0.07 × 200 000 must not lose its last character.
        let chars = (context * fraction + 1e-6).floor() as usize;
        if chars == 0 {
            self.report(
                Diagnostic::new(Code::OutOfRange, at, format!("this part of {context} comes to no character at all"))
                    .help("write more of it, or a budget in characters, `budget: { chars: 2000 }` under `prompt`"),
            );
        }
        chars
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
                Budget::Chars(self.share(*context as f64, percent.0 / 100.0, written.at))
            }
            // What was refused there may be the missing half.
            _ if self.is_troubled(written.at) => Budget::Chars(DEFAULT_CHARS),
            budget => {
                let message = match budget {
                    config::Budget { chars: None, tokens: None, context: Some(_), percent: None } => {
                        "a `context` needs the `percent` of it that is the budget"
                    }
                    config::Budget { chars: None, tokens: None, context: None, percent: Some(_) } => {
                        "a `percent` needs the `context` that it is of"
                    }
                    config::Budget { chars: None, tokens: None, context: None, percent: None } => {
                        "the budget says nothing"
                    }
                    _ => "the budget is said in more than one way",
                };
                self.report(
                    Diagnostic::new(Code::BadBudget, written.at, message)
                        .help("write `{ chars: 2000 }`, `{ tokens: 500 }` or `{ context: 200000, percent: 1.0 }`"),
                );
                Budget::Chars(DEFAULT_CHARS)
            }
        }
    }

    fn prompt_template(&mut self, written: Option<&Spanned<String>>) -> PromptTemplate {
        let builtin = PromptTemplate { from: "builtin".to_owned(), content: Digested::new(prompt_template::BUILTIN) };
        let Some(written) = written else { return builtin };
        let path = written.value.clone();
        // Before anything can go wrong with it: one that is missing is watched too, until it is there.
        self.read.push(path.clone());
        let bytes = match self.files.read(&path) {
            Ok(bytes) => bytes,
            Err(reason) => {
                let message = format!("the template `{}` can't be read: {reason}", shown(&path));
                self.report(
                    Diagnostic::new(Code::UnreadableFile, written.at, message)
                        .help("the path is relative to the file that names it"),
                );
                return builtin;
            }
        };
        let text = match String::from_utf8(bytes) {
            Ok(text) => text.replace("\r\n", "\n"),
            Err(error) => {
                let (at, path) = (error.utf8_error().valid_up_to(), shown(&path));
                let message = format!("the template `{path}` is not UTF-8: its byte {at} is no part of a character");
                self.report(Diagnostic::new(Code::UnreadableFile, written.at, message).help("save the file as UTF-8"));
                return builtin;
            }
        };
        self.check_template(&path, &text, written.at);
        PromptTemplate { from: path, content: Digested::new(text) }
    }

    /// Reports what is wrong with a template in the template itself.
    fn check_template(&mut self, path: &str, text: &str, named: Span) {
        let errors = prompt_template::check_template(text);
        if errors.is_empty() {
            return;
        }
        let shown = beside(&self.texts.get(named.source).path, path);
        let id = self.texts.add(Source::new(shown, text));
        for error in errors {
            let line = || {
                let start = text.split_inclusive('\n').take(error.line - 1).map(str::len).sum();
                start..start + text[start..].lines().next().map_or(0, str::len)
            };
            let at = Span::new(id, error.range.clone().unwrap_or_else(line));
            let mut diagnostic =
                Diagnostic::new(Code::BadTemplate, at, &*error.message).related(named, "the template is named here");
            if let Some(suggestion) = &error.suggestion {
                diagnostic = diagnostic.meant(suggestion);
            }
            let variables = prompt_template::VARIABLES.map(|name| format!("`{name}`")).join(", ");
            self.report(diagnostic.help(format!("the variables of a template are {variables}")));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use crate::source::MemorySources;

    #[test]
    fn a_template_is_among_the_files_whatever_is_wrong_with_it() {
        let config = b"prompt: { template: block.j2 }".to_vec();
        for template in [None, Some(b"\xff".to_vec()), Some(b"{{ nothing }}".to_vec()), Some(b"fine".to_vec())] {
            let mut files = BTreeMap::from([("config.yml".to_owned(), config.clone())]);
            files.extend(template.map(|text| ("block.j2".to_owned(), text)));
            let compilation = crate::compile("config.yml", &MemorySources(files)).unwrap();
            assert_eq!(compilation.files, ["config.yml", "block.j2"]);
        }
    }
}
