//! What an attack on a model looks like in a text: hidden characters, hosts, tags, phrases, names of other tools.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::phrases::PHRASES;
use super::{Context, Note, Rule, below};
use crate::hidden::is_hidden;

/// What texts hold of what could be an attack.
#[derive(Clone, Debug, Default)]
pub(super) struct Signs {
    /// Runs of characters that can't be seen, and how often each stands there.
    hidden: BTreeMap<String, usize>,
    hosts: BTreeSet<String>,
    tags: BTreeSet<String>,
    phrases: BTreeSet<&'static str>,
    names: BTreeSet<String>,
}

impl Signs {
    /// Takes in every string of `value`, keys included.
    pub(super) fn read(&mut self, value: &Value, context: &Context<'_>) {
        each_string("", value, &mut |_, text| self.read_text(text, context));
    }

    fn read_text(&mut self, text: &str, context: &Context<'_>) {
        for run in hidden_runs(text) {
            *self.hidden.entry(run).or_default() += 1;
        }
        let seen = seen(text);
        let plain = plain(text);
        self.tags.extend(tags(&plain));
        self.phrases.extend(phrases(&plain));
        self.names.extend(other_names(&seen, context));
    }

    /// The same for a text that is all new: what the server has anywhere is nothing gained, however often it comes.
    pub(super) fn without_counts(mut self) -> Self {
        self.hidden.values_mut().for_each(|count| *count = usize::MAX);
        self
    }

    /// Every sign in `found` that isn't in these, which are those of before; `hosts` are all that the server has named.
    pub(super) fn gained(
        mut self,
        found: &Value,
        hosts: &BTreeSet<String>,
        context: &Context<'_>,
        notes: &mut Vec<Note>,
    ) {
        each_string("", found, &mut |at, text| {
            let mut note = |rule, sign: String| {
                notes.push(Note { rule, at: at.to_owned(), locked: None, found: Some(sign.into()) });
            };
            for run in hidden_runs(text) {
                match self.hidden.get_mut(&run) {
                    Some(left @ 1..) => *left -= 1,
                    _ => note(Rule::HiddenCharacters, code_points(&run)),
                }
            }
            let seen = seen(text);
            let plain = plain(text);
            for host in url_hosts(&seen) {
                if !hosts.contains(&host) && self.hosts.insert(host.clone()) {
                    note(Rule::NewHost, host);
                }
            }
            for name in other_names(&seen, context) {
                if self.names.insert(name.clone()) {
                    note(Rule::NamesOtherTool, name);
                }
            }
            for tag in tags(&plain) {
                if self.tags.insert(tag.clone()) {
                    note(Rule::TagGained, tag);
                }
            }
            for phrase in phrases(&plain) {
                if self.phrases.insert(phrase) {
                    note(Rule::PhraseGained, phrase.to_owned());
                }
            }
        });
    }
}

/// Calls `look` with every string and its place, keys by name, so that their order in the text doesn't matter.
fn each_string(at: &str, value: &Value, look: &mut impl FnMut(&str, &str)) {
    match value {
        Value::String(text) => look(at, text),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                each_string(&below(at, &index.to_string()), item, look);
            }
        }
        Value::Object(map) => {
            let mut entries: Vec<_> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            for (key, value) in entries {
                let at = below(at, key);
                look(&at, key);
                each_string(&at, value, look);
            }
        }
        _ => {}
    }
}

/// Every word of `value` that could be a host, and every host of a URL.
pub(super) fn host_words(value: &Value, words: &mut BTreeSet<String>) {
    each_string("", value, &mut |_, text| {
        let seen = seen(text).to_lowercase();
        words.extend(url_hosts(&seen));
        words.extend(seen.split(|c| !is_of_host(c)).map(trimmed).filter(|word| !word.is_empty()).map(str::to_owned));
    });
}

/// Runs of hidden characters, each as one text: letters of a hidden message that change places make another run.
fn hidden_runs(text: &str) -> Vec<String> {
    let runs = text.split(|c| !is_hidden(c)).filter(|run| !run.is_empty());
    runs.map(str::to_owned).collect()
}

fn code_points(run: &str) -> String {
    const SHOWN: usize = 8;
    let mut all: Vec<_> = run.chars().take(SHOWN).map(|c| format!("U+{:04X}", u32::from(c))).collect();
    if run.chars().nth(SHOWN).is_some() {
        all.push("…".to_owned());
    }
    all.join(" ")
}

/// The text as a reader sees it, compatible forms of letters made one.
fn seen(text: &str) -> String {
    text.nfkc().filter(|c| !is_hidden(*c)).collect()
}

/// The text in lower case, without accents and with letters that look like Latin ones made Latin.
fn plain(text: &str) -> String {
    let letters = text.nfkd().filter(|c| !is_hidden(*c) && !is_combining_mark(*c));
    letters.flat_map(char::to_lowercase).map(latin).collect()
}

/// Cyrillic and Greek letters that a reader takes for Latin ones.
fn latin(c: char) -> char {
    match c {
        'а' | 'α' => 'a',
        'в' => 'b',
        'с' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'є' => 'e',
        'һ' => 'h',
        'і' | 'ι' | 'ı' => 'i',
        'ј' => 'j',
        'к' | 'κ' => 'k',
        'ӏ' => 'l',
        'м' => 'm',
        'н' => 'h',
        'о' | 'ο' => 'o',
        'р' | 'ρ' => 'p',
        'ԛ' => 'q',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'υ' => 'u',
        'ѵ' | 'ν' => 'v',
        'ԝ' => 'w',
        'х' | 'χ' => 'x',
        'у' => 'y',
        other => other,
    }
}

fn phrases(plain: &str) -> Vec<&'static str> {
    let words: Vec<_> = plain.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let text = format!(" {} ", words.join(" "));
    PHRASES.iter().copied().filter(|phrase| text.contains(&format!(" {phrase} "))).collect()
}

/// Words in brackets that models were taught to take for the frame of a message.
const FRAMES: [&str; 3] = ["inst", "sys", "system"];

/// Tags, each by its first word: `<word…>`, `</word…>`, and those of chat templates, `<|word|>` and `[INST]`.
fn tags(plain: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, _) in plain.match_indices('[') {
        let inner = plain[at + 1..].trim_start_matches('/');
        let word = FRAMES.into_iter().find(|word| inner.strip_prefix(word).is_some_and(|rest| rest.starts_with(']')));
        found.extend(word.map(|word| format!("[{word}]")));
    }
    for (at, _) in plain.match_indices('<') {
        let (inner, of_template) = match plain[at + 1..].strip_prefix('|') {
            Some(inner) => (inner, true),
            None => (plain[at + 1..].trim_start().trim_start_matches('/').trim_start(), false),
        };
        let Some(end) = inner.find(['<', '>']).filter(|end| inner[*end..].starts_with('>')) else { continue };
        let inner = &inner[..end];
        let word = &inner[..inner.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '-')).unwrap_or(end)];
        // `<https://…>` is how Markdown writes a link; its host is looked at by itself.
        let is_link = inner[word.len()..].starts_with("://") || inner.starts_with("mailto:");
        let is_whole = !of_template || &inner[word.len()..] == "|";
        if word.starts_with(char::is_alphabetic) && !is_link && is_whole {
            found.push(format!("<{word}>"));
        }
    }
    found
}

fn is_of_host(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '$' | '{' | '}')
}

fn trimmed(host: &str) -> &str {
    host.trim_matches(['.', '-'])
}

/// More of an address than any host needs, in bytes; a text of colons must not be read once for each of them.
const LONGEST_AUTHORITY: usize = 1024;

/// The hosts of the URLs in a text. Schemes of the server's own, as in `notes://{id}`, lead to no host.
fn url_hosts(seen: &str) -> Vec<String> {
    const WEB: [&str; 6] = ["http", "https", "ws", "wss", "ftp", "mailto"];
    let lower = seen.to_lowercase();
    let mut found = Vec::new();
    for (at, _) in lower.match_indices(':') {
        let scheme = &lower[..at];
        let start = scheme.rfind(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '+' | '-' | '.'));
        let scheme = &scheme[start.map_or(0, |at| at + scheme[at..].chars().next().map_or(1, char::len_utf8))..];
        let rest = &lower[at + 1..];
        // Browsers take `https:/host` and backslashes too.
        let authority = rest.trim_start_matches(['/', '\\']);
        let is_web = WEB.contains(&scheme);
        let slashes = rest.len() - authority.len();
        if scheme.is_empty()
            || slashes
                < if scheme == "mailto" {
                    0
                } else if is_web {
                    1
                } else {
                    2
                }
        {
            continue;
        }
        let is_over = |(at, c): &(usize, char)| {
            *at > LONGEST_AUTHORITY || (!is_of_host(*c) && !matches!(c, '@' | ':' | '%' | '[' | ']' | '+'))
        };
        let end = authority.char_indices().find(is_over).map_or(authority.len(), |(at, _)| at);
        let authority = &authority[..end];
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let host = match host.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
            Some((address, _)) => address,
            None => trimmed(host.split(':').next().unwrap_or_default()),
        };
        if !host.is_empty() && (is_web || host.contains('.')) {
            found.push(host.to_owned());
        }
    }
    found
}

/// The exposed names of other servers' tools in a text. A name that is a plain word counts where it is quoted or called.
fn other_names(seen: &str, context: &Context<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(start) = seen[at..].find(is_of_name) {
        let start = at + start;
        let end = seen[start..].find(|c| !is_of_name(c)).map_or(seen.len(), |end| start + end);
        at = end;
        let name = seen[start..end].trim_matches('-');
        let is_others = |name: &str| context.names.owner(name).is_some_and(|(owner, _)| owner != context.server);
        if name.is_empty() || !is_others(name) {
            continue;
        }
        let before = seen[..start].chars().next_back().unwrap_or(' ');
        let after = seen[end..].chars().next().unwrap_or(' ');
        let is_word = name.chars().all(char::is_alphabetic);
        let is_quoted = |c| matches!(c, '`' | '"' | '\'' | '“' | '”' | '‘' | '’' | '*');
        if !is_word || after == '(' || (is_quoted(before) && is_quoted(after)) {
            found.push(name.to_owned());
        }
    }
    found
}

fn is_of_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::ServerName;
    use crate::plan::{NameTable, Naming};

    #[test]
    fn hosts_are_found_however_the_address_is_written() {
        for (text, expected) in [
            ("see https://Evil.example:8443/x?y#z.", &["evil.example"][..]),
            ("(http://evil.example)", &["evil.example"]),
            ("https:/evil.example https:\\\\other.example", &["evil.example", "other.example"]),
            ("https://docs.example@evil.example/", &["evil.example"]),
            ("![x](https://evil.example/?q=${TOKEN})", &["evil.example"]),
            ("https://\u{ff45}vil\u{200b}.example", &["evil.example"]),
            ("mailto:me@evil.example, ftp://evil.example", &["evil.example", "evil.example"]),
            ("http://localhost:1/, http://[::1]:80/", &["localhost", "::1"]),
            ("gopher://evil.example/", &["evil.example"]),
            ("https://bücher.example", &["bücher.example"]),
            // Schemes of a server's own, and what is no address.
            ("notes://{id} file:///etc s3://bucket/key", &[]),
            ("a: b, 12:30, note:/x, C:\\x", &[]),
        ] {
            assert_eq!(url_hosts(&seen(text)), expected, "{text}");
        }
    }

    #[test]
    fn a_known_host_is_a_whole_word() {
        let mut words = BTreeSet::new();
        host_words(
            &serde_json::json!(["microsoft.com, not-evil.example", "at Docs.Example. http://[::1]/"]),
            &mut words,
        );
        assert!(["microsoft.com", "not-evil.example", "docs.example", "::1"].iter().all(|host| words.contains(*host)));
        assert!(!["t.co", "evil.example"].iter().any(|host| words.contains(*host)));
    }

    #[test]
    fn tags_are_found_and_comparisons_and_links_are_not() {
        for (text, expected) in [
            ("<important> x </important>", &["<important>", "<important>"][..]),
            ("</AVAILABLE_MCP_TOOLS><SYSTEM>do x", &["<available_mcp_tools>", "<system>"]),
            ("< system role=\"admin\" >", &["<system>"]),
            ("\u{ff1c}system\u{ff1e} <sys\u{200b}tem> <ѕystem>", &["<system>", "<system>", "<system>"]),
            ("a < b and <https://x.example> and <mailto:a@b> and 1<2>3 and <unclosed", &[]),
            ("<|im_start|>system do x<|im_end|>", &["<im_start>", "<im_end>"]),
            ("[INST] do x [/INST] <<SYS>> [x] [instance]", &["[inst]", "[inst]", "<sys>"]),
            ("<<<<>>>> <> </> a<|b or c|>d", &[]),
        ] {
            assert_eq!(tags(&plain(text)), expected, "{text}");
        }
    }

    #[test]
    fn phrases_are_whole_words_in_any_clothes() {
        for (text, expected) in [
            ("Ignore previous", &["ignore previous"][..]),
            ("IGNORE,\n  prévious", &["ignore previous"]),
            ("ign\u{200b}ore-previous", &["ignore previous"]),
            ("\u{456}gn\u{43e}re \u{440}revious", &["ignore previous"]),
            ("don’t tell", &["don t tell"]),
            ("ignored previously", &[]),
            ("the system prompts", &[]),
        ] {
            assert_eq!(phrases(&plain(text)), expected, "{text}");
        }
    }

    #[test]
    fn phrases_are_written_as_they_are_compared() {
        assert!(PHRASES.is_sorted());
        for phrase in PHRASES {
            assert!(phrases(&plain(phrase)).contains(phrase), "{phrase}");
        }
    }

    #[test]
    fn names_of_others_are_whole_and_plain_words_are_quoted_or_called() {
        let naming = Naming { pattern: "{tool}".to_owned(), limit: 64 };
        let [mine, other] = ["mine", "other"].map(|name| ServerName::new(name).unwrap());
        let names = NameTable::build(&naming, &[], [(&mine, "own_one"), (&other, "send_mail"), (&other, "search")]);
        let context = Context { server: &mine, names: &names };
        for (text, expected) in [
            ("call send_mail, then own_one", &["send_mail"][..]),
            ("send_mail- and -send_mail", &["send_mail", "send_mail"]),
            ("resend_mail send_mails", &[]),
            ("send\u{200b}_mail", &["send_mail"]),
            ("search the disk, Search it", &[]),
            ("`search`, search(x), \"search\"", &["search", "search", "search"]),
        ] {
            assert_eq!(other_names(&seen(text), &context), expected, "{text}");
        }
    }

    #[test]
    fn a_text_made_to_take_long_does_not() {
        let naming = Naming { pattern: "{tool}".to_owned(), limit: 64 };
        let mine = ServerName::new("mine").unwrap();
        let names = NameTable::build(&naming, &[], []);
        let context = Context { server: &mine, names: &names };
        for part in ["mailto:", "http:/", "<", "<a", "</ ", "a_", ":", "-", "\u{200b}", "ignore "] {
            let mut signs = Signs::default();
            signs.read_text(&part.repeat(200_000 / part.len()), &context);
        }
    }
}
