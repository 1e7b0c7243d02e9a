//! The references of a dozen clients → ours: `${env:X}`, `${input:x}`, `$X`, `%X%`, `{env:X}`, `{{x}}`, `${X:default}`,
//! `${workspaceFolder}` become `${X}`, `${X:-default}` or a path.
//!
//! Works on one text and yields one text of our language. Everything that isn't a reference comes out so that our
//! language reads it as the same characters.

use std::collections::BTreeMap;

use super::NoteKind;
use super::input::{Input, variable_name};
use crate::interpolate::{Reference, ends_in_word, name_prefix};

/// What the places of a text mean for the references in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    /// What VS Code asks the user for, by id.
    pub inputs: &'a BTreeMap<String, Input>,
    /// Whether a shell reads the text: `$X` is its own then.
    pub shell: bool,
    /// Whether `%XX` is an encoded byte.
    pub url: bool,
    /// Whether a relative path is one below the directory of the config.
    pub beside_config: bool,
}

/// A text in our language, and what has to be said about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Converted {
    pub text: String,
    pub said: Vec<(NoteKind, String)>,
}

enum Piece {
    Text(String),
    Reference(Reference),
}

/// Rewrites every reference in `text`.
pub(super) fn convert(text: &str, around: Around<'_>) -> Converted {
    let mut scan = Scan { text, at: 0, around, pieces: Vec::new(), plain: String::new(), said: Vec::new() };
    scan.run();
    Converted { text: print(&scan.pieces), said: scan.said }
}

/// The names of the variables that a text refers to, whatever client wrote it.
pub(super) fn variables(text: &str) -> Vec<String> {
    let none = BTreeMap::new();
    let around = Around { inputs: &none, shell: false, url: false, beside_config: true };
    let mut scan = Scan { text, at: 0, around, pieces: Vec::new(), plain: String::new(), said: Vec::new() };
    scan.run();
    let names = scan.pieces.into_iter().filter_map(|piece| match piece {
        Piece::Reference(reference) => reference.variable().map(str::to_owned),
        Piece::Text(_) => None,
    });
    names.collect()
}

fn print(pieces: &[Piece]) -> String {
    let mut out = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::Reference(reference) => out.push_str(&reference.to_string()),
            Piece::Text(text) => out.push_str(&literal(text, index + 1 < pieces.len())),
        }
    }
    out
}

/// A text as our language writes it: a `$` that is, or could be taken for, the start of something is written twice, and so is
/// every one of several.
pub(super) fn literal(text: &str, followed: bool) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, dollars) = rest.split_at(at);
        rest = dollars.trim_start_matches('$');
        let count = dollars.len() - rest.len();
        let starts = match rest {
            "" => followed,
            _ => rest.starts_with(['{', '<']) || !name_prefix(rest).is_empty() && !ends_in_word(before),
        };
        out.push_str(before);
        out.push_str(&"$".repeat(if count > 1 || starts { 2 * count } else { 1 }));
    }
    out + rest
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && name_prefix(text).len() == text.len()
}

struct Scan<'t> {
    text: &'t str,
    at: usize,
    around: Around<'t>,
    pieces: Vec<Piece>,
    plain: String,
    said: Vec<(NoteKind, String)>,
}

impl Scan<'_> {
    fn run(&mut self) {
        while let Some(found) = self.text[self.at..].find(['$', '%', '{']) {
            let at = self.at + found;
            self.plain.push_str(&self.text[self.at..at]);
            self.at = at;
            let rest = &self.text[at..];
            let taken = match rest.as_bytes() {
                [b'$', b'{', b'{', ..] => self.between(3, "}}", Self::mustache),
                [b'$', b'{', ..] => self.between(2, "}", Self::braced),
                [b'$', ..] => self.bare(),
                [b'%', ..] => self.percent(),
                [b'{', b'{', ..] => self.between(2, "}}", Self::mustache),
                _ => self.between(1, "}", Self::opencode),
            };
            if !taken {
                let length = rest.chars().next().map_or(0, char::len_utf8);
                self.plain.push_str(&rest[..length]);
                self.at += length;
            }
        }
        self.plain.push_str(&self.text[self.at..]);
        self.flush();
    }

    fn flush(&mut self) {
        if !self.plain.is_empty() {
            self.pieces.push(Piece::Text(std::mem::take(&mut self.plain)));
        }
    }

    fn say(&mut self, kind: NoteKind, text: String) {
        self.said.push((kind, text));
    }

    fn refer(&mut self, reference: Reference) -> bool {
        self.flush();
        self.pieces.push(Piece::Reference(reference));
        true
    }

    /// Hands what stands between an opening and `close` to `act`, with the whole as written.
    fn between(&mut self, open: usize, close: &str, act: fn(&mut Self, &str, &str) -> bool) -> bool {
        let text = self.text;
        let Some(length) = text[self.at + open..].find(close) else { return false };
        let end = self.at + open + length;
        let (inner, whole) = (&text[self.at + open..end], &text[self.at..end + close.len()]);
        let taken = act(self, inner, whole);
        if taken {
            self.at = end + close.len();
        }
        taken
    }

    fn braced(&mut self, inner: &str, whole: &str) -> bool {
        if let Some(id) = inner.strip_prefix("input:") {
            return self.input(id, whole);
        }
        if let Some(path) = inner.strip_prefix("file:") {
            return !path.is_empty() && self.refer(Reference::File(path.to_owned()));
        }
        if self.place(inner) {
            return true;
        }
        if let Some(input) = self.around.inputs.get(inner).cloned() {
            return self.asked(input, whole);
        }
        let bare = ["env:", "env.", "ENV:", "oc.env:", "secrets."].iter().find_map(|prefix| inner.strip_prefix(prefix));
        let inner_name = bare.unwrap_or(inner);
        let name = name_prefix(inner_name);
        let rest = &inner_name[name.len()..];
        if name.is_empty() {
            return self.foreign(inner, whole);
        }
        let name = name.to_owned();
        match rest {
            "" => self.refer(Reference::Variable(name)),
            _ if rest.starts_with(":-") => self.refer(Reference::OrText(name, rest[2..].to_owned())),
            _ if rest.starts_with(":?") => self.refer(Reference::OrError(name, rest[2..].to_owned())),
            _ if inner.starts_with("oc.env:") && rest.starts_with(',') => {
                self.refer(Reference::OrText(name, rest[1..].trim().to_owned()))
            }
            _ if rest.starts_with(':') && !matches!(name.as_str(), "command" | "config") => {
                self.say(NoteKind::Changed, format!("`{whole}` is written `${{{name}:-{}}}`", &rest[1..]));
                self.refer(Reference::OrText(name, rest[1..].to_owned()))
            }
            _ => self.foreign(inner, whole),
        }
    }

    /// Something that only the client knows: a variable of that name takes its place.
    fn foreign(&mut self, inner: &str, whole: &str) -> bool {
        let Some(variable) = variable_name(inner) else { return false };
        self.say(NoteKind::Set(variable.clone()), format!("`{whole}` is the client's own; set `{variable}` instead"));
        self.refer(Reference::Variable(variable))
    }

    fn input(&mut self, id: &str, whole: &str) -> bool {
        let known = self.around.inputs.get(id).cloned();
        let Some(input) = known.or_else(|| Some(Input { variable: variable_name(id)?, ..Input::default() })) else {
            return false;
        };
        self.asked(input, whole)
    }

    fn asked(&mut self, input: Input, whole: &str) -> bool {
        let about = if input.description.is_empty() { String::new() } else { format!(" ({})", input.description) };
        let text = format!("`{whole}` is asked for by the client{about}; set `{}` instead", input.variable);
        self.say(NoteKind::Set(input.variable.clone()), text);
        self.refer(match input.default {
            Some(default) => Reference::OrText(input.variable, default),
            None => Reference::Variable(input.variable),
        })
    }

    /// Folders that a client knows.
    fn place(&mut self, inner: &str) -> bool {
        let folder = inner.split(':').next().unwrap_or_default();
        match folder {
            "workspaceFolder" | "workspaceRoot" | "workspace" | "projectRoot" if self.around.beside_config => {
                self.say(NoteKind::Changed, format!("`${{{inner}}}` is the directory of the config here"));
                self.plain.push('.');
                true
            }
            "workspaceFolder" | "workspaceRoot" => self.foreign("WORKSPACE_FOLDER", &format!("${{{inner}}}")),
            "userHome" => self.refer(Reference::Variable("HOME".to_owned())),
            "pathSeparator" | "/" => {
                self.plain.push('/');
                true
            }
            _ => false,
        }
    }

    /// `$NAME`, as shells and Gemini write it; lower case is more often part of a password.
    fn bare(&mut self) -> bool {
        let name = name_prefix(&self.text[self.at + 1..]);
        let shouted = name.len() > 1 && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_');
        let inside = self.plain.ends_with(|c: char| c.is_alphanumeric() || c == '$');
        if !shouted || inside || self.around.shell {
            return false;
        }
        self.at += 1 + name.len();
        self.say(NoteKind::Changed, format!("`${name}` is written `${{{name}}}`"));
        self.refer(Reference::Variable(name.to_owned()))
    }

    /// `%NAME%`, as Windows writes it.
    fn percent(&mut self) -> bool {
        let rest = &self.text[self.at + 1..];
        let name = name_prefix(rest);
        if self.around.url || name.len() < 3 || !rest[name.len()..].starts_with('%') {
            return false;
        }
        self.at += name.len() + 2;
        self.say(NoteKind::Changed, format!("`%{name}%` is written `${{{name}}}`"));
        self.refer(Reference::Variable(name.to_owned()))
    }

    /// `{env:NAME}` and `{file:PATH}`.
    fn opencode(&mut self, inner: &str, _: &str) -> bool {
        if let Some(path) = inner.strip_prefix("file:") {
            return !path.is_empty() && self.refer(Reference::File(path.to_owned()));
        }
        match inner.strip_prefix("env:") {
            Some(name) if is_name(name) => self.refer(Reference::Variable(name.to_owned())),
            _ => false,
        }
    }

    /// `{{name}}` of templates, `${{ secrets.NAME }}`.
    fn mustache(&mut self, inner: &str, whole: &str) -> bool {
        let inner = inner.trim().trim_start_matches(['.', '$']);
        let input = self.around.inputs.get(inner).cloned();
        let bare =
            ["secrets.", "inputs.", "env."].iter().find_map(|prefix| inner.strip_prefix(prefix)).unwrap_or(inner);
        match input.or_else(|| Some(Input { variable: variable_name(bare)?, ..Input::default() })) {
            Some(input) if !inner.contains(['\n', '"']) => self.asked(input, whole),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpolate::{Part, Template};
    use proptest::prelude::*;

    fn around(inputs: &BTreeMap<String, Input>) -> Around<'_> {
        Around { inputs, shell: false, url: false, beside_config: true }
    }

    fn plain(text: &str) -> String {
        convert(text, around(&BTreeMap::new())).text
    }

    #[test]
    fn every_client_s_way_becomes_ours() {
        for (theirs, ours) in [
            ("${TOKEN}", "${TOKEN}"),
            ("Bearer ${TOKEN}!", "Bearer ${TOKEN}!"),
            ("${TOKEN:-none}", "${TOKEN:-none}"),
            ("${env:TOKEN}", "${TOKEN}"),
            ("${input:github-token}", "${GITHUB_TOKEN}"),
            ("$TOKEN", "${TOKEN}"),
            ("--dir=$HOME/x", "--dir=${HOME}/x"),
            ("%APPDATA%\\x", "${APPDATA}\\x"),
            ("{env:TOKEN}", "${TOKEN}"),
            ("{file:~/.token}", "${file:~/.token}"),
            ("{{API_KEY}}", "${API_KEY}"),
            ("{{srv.storage_path}}:/data", "${SRV_STORAGE_PATH}:/data"),
            ("${{ secrets.API_KEY }}", "${API_KEY}"),
            ("${MODEL:gpt-4o}", "${MODEL:-gpt-4o}"),
            ("${ALLOWED:}", "${ALLOWED:-}"),
            ("${oc.env:PAT}", "${PAT}"),
            ("${oc.env:PAT,none}", "${PAT:-none}"),
            ("${workspaceFolder}/src/i.ts", "./src/i.ts"),
            ("${userHome}/x", "${HOME}/x"),
            ("${command:pick.me}", "${COMMAND_PICK_ME}"),
        ] {
            assert_eq!(plain(theirs), ours, "{theirs}");
        }
    }

    #[test]
    fn what_is_no_reference_means_itself() {
        for text in [
            "pa$$w0rd",
            "a$b",
            "cost $5",
            "$",
            "100%",
            "%2Caccount%2C",
            "{secret}",
            "{ODBC Driver 17}",
            "%h%",
            "a$B$C",
            "${",
            "{{",
            "$<X>",
            "x$",
            "${}",
            "{\"a\": 1}",
            "{env:}",
            "{file:}",
        ] {
            let (template, findings) = Template::parse(&plain(text));
            assert!(!findings.iter().any(|finding| finding.kind.is_error()), "{text}");
            assert_eq!(template.as_literal().as_deref(), Some(text), "{text}");
        }
        let none = BTreeMap::new();
        let url = Around { url: true, ..around(&none) };
        assert_eq!(convert("https://x/?a=%ABC%", url).text, "https://x/?a=%ABC%");
    }

    /// What we write ourselves is nothing to warn of.
    #[test]
    fn no_lint_is_about_a_text_that_was_written_here() {
        for text in
            ["$$$ $X pa$$wd p$x a$HOME $home ${", "$$", "$$$$", "a$$", "$$NAME", "5$", "$_", "$5 $", "$$${x}", "$$$<a>"]
        {
            let (template, findings) = Template::parse(&literal(text, false));
            assert_eq!((template.as_literal().as_deref(), findings.len()), (Some(text), 0), "{text}: {findings:?}");
            let followed = format!("{}${{X}}", literal(text, true));
            let (template, findings) = Template::parse(&followed);
            let value = template.resolve(|_| Ok::<_, ()>("!".to_owned())).unwrap();
            assert_eq!((value, findings.len()), (format!("{text}!"), 0), "{text}: {findings:?}");
        }
    }

    #[test]
    fn a_shell_keeps_its_own() {
        let none = BTreeMap::new();
        let shell = Around { shell: true, ..around(&none) };
        assert_eq!(convert("echo $HOME ${X}", shell).text, "echo $$HOME ${X}");
    }

    #[test]
    fn inputs_bring_what_the_client_says_about_them() {
        let inputs = [(
            "tok".to_owned(),
            Input { variable: "TOK".to_owned(), description: "API token".to_owned(), default: Some("x".to_owned()) },
        )];
        let inputs = inputs.into_iter().collect();
        let converted = convert("${input:tok}", around(&inputs));
        assert_eq!(converted.text, "${TOK:-x}");
        assert_eq!(converted.said[0].0, NoteKind::Set("TOK".to_owned()));
        assert!(converted.said[0].1.contains("(API token)"));
    }

    proptest! {
        #[test]
        fn the_result_is_always_one_of_our_texts(text in "[$%{}:a-zA-Z_0-9 .<>?-]{0,30}", shell: bool, url: bool) {
            let none = BTreeMap::new();
            let converted = convert(&text, Around { shell, url, ..around(&none) }).text;
            let (template, findings) = Template::parse(&converted);
            prop_assert!(!findings.iter().any(|finding| finding.kind.is_error()), "{} -> {}", text, converted);
            // Printing it again changes nothing that is meant.
            prop_assert_eq!(Template::parse(&template.to_string()).0, template);
        }

        #[test]
        fn a_literal_means_itself(text in "[$<{}a-zA]{0,12}") {
            let template = Template::parse(&literal(&text, false)).0;
            prop_assert_eq!(template.as_literal(), Some(text.clone()));
            let template = Template::parse(&format!("{}${{X}}", literal(&text, true))).0;
            let head = match template.parts() { [Part::Text(head), Part::Reference(_)] => head.clone(), _ => String::new() };
            prop_assert_eq!(head, text);
        }
    }
}
