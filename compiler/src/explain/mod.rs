//! What each code means, for a person: a text, an example that gives the problem and one that doesn't.
//!
//! One file a code, `WORD.md` beside this one, taken in where the code is declared ([`crate::code`]): a code without its
//! explanation doesn't compile, and a test compiles every example.

use std::fmt::Write as _;

use crate::code::Code;

/// The codes that have no example: they are about bytes that a page can't show, or about us.
pub const WITHOUT_EXAMPLE: [Code; 3] = [Code::NotUtf8, Code::FileTooLarge, Code::Internal];

/// The codes whose example shows the place but needs more than a config to be reported: a lock, a machine, what a plugin
/// did, a host's file. Cases of their own show these.
pub const NEEDS_MORE: [Code; 13] = [
    Code::HostKey,
    Code::PluginFailed,
    Code::BadPluginOutput,
    Code::PluginServerTwice,
    Code::MatchesNothing,
    Code::LargeAndNotDeferred,
    Code::ListingOverBudget,
    Code::LargeLock,
    Code::UnknownTool,
    Code::TargetRefuses,
    Code::HiddenCharacters,
    Code::CommandNotFound,
    Code::UnsetVariable,
];

/// What one code means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The code.
    pub code: Code,
    /// What it means and what to do, in Markdown.
    pub meaning: &'static str,
    /// A config that has the problem and the same without it; `None` for [`WITHOUT_EXAMPLE`].
    pub example: Option<Example>,
}

/// The same config twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// With the problem, and with nothing else to be said of it.
    pub wrong: Files,
    /// Without anything to be said of it.
    pub right: Files,
}

/// A config and what it needs beside it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The config.
    pub config: String,
    /// Other files, by the path that the config names them by.
    pub beside: Vec<(String, String)>,
}

/// What `code` means.
pub fn explain(code: Code) -> Explanation {
    let text = code.explanation();
    let Some((meaning, examples)) = text.split_once("\n## Wrong\n") else {
        return Explanation { code, meaning: text.trim_end(), example: None };
    };
    let (wrong, right) = examples.split_once("\n## Right\n").unwrap_or((examples, ""));
    let example = Some(Example { wrong: files(wrong), right: files(right) });
    Explanation { code, meaning: meaning.trim_end(), example }
}

/// The code of that word.
pub fn find(word: &str) -> Option<Code> {
    Code::ALL.iter().copied().find(|code| code.as_str() == word)
}

/// The fenced blocks of a section: the first is the config, the others say their path behind the fence.
fn files(section: &str) -> Files {
    let mut files = Files::default();
    let mut lines = section.lines();
    while let Some(line) = lines.next() {
        let Some(info) = line.strip_prefix("```") else { continue };
        let mut text = String::new();
        for line in lines.by_ref().take_while(|line| *line != "```") {
            text += line;
            text.push('\n');
        }
        match info.split_once(' ') {
            Some((_, path)) => files.beside.push((path.to_owned(), text)),
            None => files.config = text,
        }
    }
    files
}

impl Explanation {
    /// As it stands in a terminal: plain text, the examples set in.
    pub fn text(&self) -> String {
        let severity = self.code.severity().word();
        let mut out = format!("{severity}[{}]: {}\n\n{}\n", self.code, self.code.summary(), self.meaning);
        for (title, files) in self.example.iter().flat_map(|e| [("Wrong", &e.wrong), ("Right", &e.right)]) {
            let _ = write!(out, "\n{title}:\n\n{}", set_in(&files.config));
            for (path, text) in &files.beside {
                let _ = write!(out, "\nwith {path}:\n\n{}", set_in(text));
            }
        }
        out
    }

    /// As a section of a Markdown page, below a title of its own.
    pub fn markdown(&self) -> String {
        let mut out = format!("{}\n", self.meaning);
        for (title, files) in self.example.iter().flat_map(|e| [("Wrong", &e.wrong), ("Right", &e.right)]) {
            let _ = write!(out, "\n{title}:\n\n```yaml\n{}```\n", files.config);
            for (path, text) in &files.beside {
                let _ = write!(out, "\nwith `{path}`:\n\n```text\n{text}```\n");
            }
        }
        out
    }
}

fn set_in(text: &str) -> String {
    text.lines().fold(String::new(), |out, line| out + "    " + line + "\n")
}

/// The page with every code, in the order in which they are declared: from bytes to meaning.
pub fn page() -> String {
    let mut out = String::from(
        "# Diagnostics\n\n\
         Every code that `mcplan validate` can report; `mcplan explain CODE` prints the same. An error stops a plan from being \
         made,\na warning doesn't (`--deny-warnings` makes it an error), a note is never counted.\n\n\
         This page is generated: `UPDATE=1 cargo test -p mcplan-executor --test explain` writes it anew.\n\n\
         | code | severity | |\n|---|---|---|\n",
    );
    for code in Code::ALL {
        let _ = writeln!(out, "| [`{code}`](#{code}) | {} | {} |", code.severity().word(), code.summary());
    }
    for code in Code::ALL {
        let severity = code.severity().word();
        let _ = write!(out, "\n## {code}\n\n*{severity}*: {}\n\n{}", code.summary(), explain(*code).markdown());
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::compile;
    use crate::source::MemorySources;

    /// The words of the codes that a config gives.
    fn reported(files: &Files) -> BTreeSet<&'static str> {
        let mut all = MemorySources::default();
        all.0.insert("config.yml".to_owned(), files.config.clone().into_bytes());
        all.0.extend(files.beside.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())));
        let compilation = compile("config.yml", &all).expect("the config is in memory");
        compilation.diagnostics.iter().map(|diagnostic| diagnostic.code.as_str()).collect()
    }

    #[test]
    fn every_wrong_example_gives_its_code_alone_and_every_right_one_nothing() {
        let mut problems = Vec::new();
        for code in Code::ALL.iter().copied().filter(|code| !WITHOUT_EXAMPLE.contains(code)) {
            let Some(example) = explain(code).example else {
                problems.push(format!("{code}: no example"));
                continue;
            };
            if NEEDS_MORE.contains(&code) {
                continue;
            }
            let (wrong, right) = (reported(&example.wrong), reported(&example.right));
            if wrong != BTreeSet::from([code.as_str()]) {
                problems.push(format!("{code}: the wrong example gives {wrong:?}"));
            }
            if !right.is_empty() {
                problems.push(format!("{code}: the right example gives {right:?}"));
            }
        }
        assert!(problems.is_empty(), "{}", problems.join("\n"));
    }

    #[test]
    fn every_explanation_says_something() {
        for code in Code::ALL {
            let explanation = explain(*code);
            assert!(explanation.meaning.len() > 60, "{code}: {}", explanation.meaning);
            assert!(!explanation.meaning.contains("##"), "{code}: only `Wrong` and `Right` are sections");
            assert_eq!(find(code.as_str()), Some(*code));
        }
    }
}
