//! Permissions: what may be done to which server's tools, prompts and resources.
//!
//! A rule is `mcp:call:SERVER:TOOL`, `mcp:invoke:SERVER:PROMPT`, `mcp:read:SERVER:URI` or `mcp:list:SERVER`. It is split
//! at its first three colons and the rest never again, so that a URI keeps its own.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{Reaction, Verdict};
use crate::diagnostic::one_line;
use crate::name::ServerName;
use crate::pattern::{Flaw, Pattern};

/// What may be done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Policy {
    /// What holds where no rule does.
    pub default: Verdict,
    /// Never.
    pub deny: Vec<Rule>,
    /// The exceptions to `default: deny` and to `read_only`.
    pub allow: Vec<Rule>,
    /// Only tools that are locked as read-only, or that `allow` names.
    pub read_only: bool,
    /// What a change of a server's words leads to.
    pub on_drift: OnDrift,
}

/// A reaction for each class of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OnDrift {
    /// Layout and letter case.
    pub cosmetic: Reaction,
    /// Something optional was added.
    pub additive: Reaction,
    /// Other words.
    pub wording: Reaction,
    /// Something is gone or narrower.
    pub breaking: Reaction,
    /// What an attack would look like.
    pub suspicious: Reaction,
}

impl Default for OnDrift {
    fn default() -> Self {
        Self {
            cosmetic: Reaction::Accept,
            additive: Reaction::Accept,
            wording: Reaction::Warn,
            breaking: Reaction::Warn,
            suspicious: Reaction::Quarantine,
        }
    }
}

/// Something that an agent wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation<'a> {
    /// Call a tool.
    Call {
        /// Whose.
        server: &'a ServerName,
        /// As the server names it.
        tool: &'a str,
        /// Whether it is known to change nothing.
        read_only: bool,
    },
    /// Fetch a prompt.
    Invoke {
        /// Whose.
        server: &'a ServerName,
        /// As the server names it.
        prompt: &'a str,
    },
    /// Read a resource.
    Read {
        /// Whose.
        server: &'a ServerName,
        /// Normalised ([`normalize_uri`]).
        uri: &'a str,
    },
    /// List resources.
    List {
        /// Whose.
        server: &'a ServerName,
    },
}

impl Operation<'_> {
    fn verb(&self) -> Verb {
        match self {
            Self::Call { .. } => Verb::Call,
            Self::Invoke { .. } => Verb::Invoke,
            Self::Read { .. } => Verb::Read,
            Self::List { .. } => Verb::List,
        }
    }

    fn server(&self) -> &ServerName {
        match self {
            Self::Call { server, .. }
            | Self::Invoke { server, .. }
            | Self::Read { server, .. }
            | Self::List { server } => server,
        }
    }
}

/// Why an operation may not be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal<'a> {
    /// This rule of `deny`.
    Rule(&'a Rule),
    /// `default: deny`, and no rule of `allow`.
    Default,
    /// `read_only`, and the tool isn't known to change nothing.
    ReadOnly,
}

impl Policy {
    /// Decides: denied if a deny rule matches; else allowed by default or by an allow rule; then `read_only`.
    ///
    /// # Errors
    /// Why not.
    pub fn decide(&self, operation: &Operation<'_>) -> Result<(), Refusal<'_>> {
        if let Some(rule) = self.deny.iter().find(|rule| rule.matches(operation)) {
            return Err(Refusal::Rule(rule));
        }
        let named = self.allows(operation).is_some();
        if self.default == Verdict::Deny && !named {
            return Err(Refusal::Default);
        }
        match operation {
            Operation::Call { read_only: false, .. } if self.read_only && !named => Err(Refusal::ReadOnly),
            _ => Ok(()),
        }
    }

    /// The rule of `allow` that names an operation, whether it needs one or not.
    pub fn allows(&self, operation: &Operation<'_>) -> Option<&Rule> {
        self.allow.iter().find(|rule| rule.matches(operation))
    }
}

/// What a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Tools.
    Call,
    /// Prompts.
    Invoke,
    /// Resources.
    Read,
    /// Lists of resources.
    List,
}

const VERBS: [(&str, Verb); 4] =
    [("call", Verb::Call), ("invoke", Verb::Invoke), ("read", Verb::Read), ("list", Verb::List)];

/// One rule, compiled; serialises as it was written.
#[derive(Clone, PartialEq)]
pub struct Rule {
    text: String,
    verb: Verb,
    server: Pattern,
    target: Target,
}

#[derive(Clone, Debug, PartialEq)]
enum Target {
    Name(Pattern),
    Uri(SlashPattern),
    Everything,
}

/// What is wrong with a text that was meant as a rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It doesn't start with `mcp:`.
    #[error("a rule starts with `mcp:`")]
    Prefix,
    /// The second part is none of the four words.
    #[error("`{0}` is none of call, invoke, read and list")]
    Verb(String),
    /// Nothing stands where the word should.
    #[error("after `mcp:` comes one of call, invoke, read and list")]
    NoVerb,
    /// A part is missing or empty.
    #[error("a rule of this kind is `{0}`")]
    Parts(&'static str),
    /// A pattern that matches otherwise than anyone would mean it.
    #[error("`{0}` is no pattern: {1}")]
    Pattern(String, Flaw),
}

impl RuleError {
    fn verb(word: &str) -> Self {
        if word.is_empty() { Self::NoVerb } else { Self::Verb(one_line(word, 60).into_owned()) }
    }
}

impl Rule {
    /// Reads a rule.
    ///
    /// # Errors
    /// What is wrong with it. There is no rule that is half read.
    pub fn parse(text: &str) -> Result<Self, RuleError> {
        let rest = text.strip_prefix("mcp:").ok_or(RuleError::Prefix)?;
        let (word, rest) = rest.split_once(':').unwrap_or((rest, ""));
        let verb = VERBS.iter().find(|(name, _)| *name == word).map(|(_, verb)| *verb);
        let verb = verb.ok_or_else(|| RuleError::verb(word))?;
        let shape = match verb {
            Verb::Call => "mcp:call:SERVER:TOOL",
            Verb::Invoke => "mcp:invoke:SERVER:PROMPT",
            Verb::Read => "mcp:read:SERVER:URI",
            Verb::List => "mcp:list:SERVER",
        };
        let wrong = || RuleError::Parts(shape);
        let (server, target) = match (verb, rest.split_once(':')) {
            (Verb::List, None) => (rest, Target::Everything),
            (Verb::List, Some(_)) | (_, None) => return Err(wrong()),
            (Verb::Read, Some((server, uri))) if !uri.is_empty() => (server, Target::Uri(SlashPattern::new(uri))),
            (Verb::Call | Verb::Invoke, Some((server, name))) if !name.is_empty() => {
                (server, Target::Name(meant(name)?))
            }
            _ => return Err(wrong()),
        };
        if server.is_empty() {
            return Err(wrong());
        }
        Ok(Self { text: text.to_owned(), verb, server: meant(server)?, target })
    }

    /// As written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// What it is about.
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// The pattern of servers.
    pub fn server(&self) -> &Pattern {
        &self.server
    }

    /// Whether every operation that `other` speaks of is one of this rule's, as far as that is plain to see.
    pub fn covers(&self, other: &Self) -> bool {
        let covers = |own: &Pattern, theirs: &Pattern| {
            own == theirs || own.as_str() == "*" || theirs.is_literal() && own.matches(theirs.as_str())
        };
        self.verb == other.verb
            && covers(&self.server, &other.server)
            && match (&self.target, &other.target) {
                (Target::Everything, Target::Everything) => true,
                (Target::Name(own), Target::Name(theirs)) => covers(own, theirs),
                (Target::Uri(own), Target::Uri(theirs)) => {
                    own == theirs
                        || own.0 == [SlashPart::Anything]
                        || theirs.literal().is_some_and(|uri| own.matches(&uri))
                }
                _ => false,
            }
    }

    /// Whether it speaks of this operation.
    pub fn matches(&self, operation: &Operation<'_>) -> bool {
        self.verb == operation.verb()
            && self.server.matches(operation.server().as_str())
            && match (&self.target, operation) {
                (Target::Everything, _) => true,
                (Target::Name(name), Operation::Call { tool, .. }) => name.matches(tool),
                (Target::Name(name), Operation::Invoke { prompt, .. }) => name.matches(prompt),
                (Target::Uri(pattern), Operation::Read { uri, .. }) => pattern.matches(uri),
                _ => false,
            }
    }
}

/// A pattern without a flaw: a rule that matches something else than was meant would allow or deny the wrong things.
fn meant(text: &str) -> Result<Pattern, RuleError> {
    match Pattern::flaw(text) {
        Some((_, flaw)) => Err(RuleError::Pattern(text.to_owned(), flaw)),
        None => Ok(Pattern::new(text)),
    }
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rule({:?})", self.text)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Eq for Rule {}

impl Serialize for Rule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Rule {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Rule {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Rule".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^mcp:(call|invoke|read|list):" })
    }
}

/// A pattern over URIs and paths: `*` stops at `/`, `**` does not, `?` is one character other than `/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlashPattern(Vec<SlashPart>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlashPart {
    Literal(char),
    One,
    Segment,
    Anything,
}

impl SlashPattern {
    /// Compiles `text`. Every text is a pattern.
    pub fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            parts.push(match c {
                '*' if chars.peek() == Some(&'*') => {
                    while chars.next_if_eq(&'*').is_some() {}
                    SlashPart::Anything
                }
                '*' => SlashPart::Segment,
                '?' => SlashPart::One,
                other => SlashPart::Literal(other),
            });
        }
        Self(parts)
    }

    /// The one text that it matches, when there is only one.
    fn literal(&self) -> Option<String> {
        let parts = self.0.iter();
        parts.map(|part| if let SlashPart::Literal(c) = part { Some(*c) } else { None }).collect()
    }

    /// Whether the whole of `text` matches. Each part at each place is looked at once.
    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        // What may be reached: `reached[n]` after the first n characters.
        let mut reached = vec![false; text.len() + 1];
        reached[0] = true;
        for part in &self.0 {
            let mut next = vec![false; text.len() + 1];
            let mut open = false;
            for at in 0..=text.len() {
                let before = at.checked_sub(1).map(|at| text[at]);
                let step = at > 0 && reached[at - 1];
                next[at] = match part {
                    SlashPart::Literal(c) => step && before == Some(*c),
                    SlashPart::One => step && before != Some('/'),
                    SlashPart::Anything => {
                        open |= reached[at];
                        open
                    }
                    SlashPart::Segment => {
                        open = reached[at] || open && before != Some('/');
                        open
                    }
                };
            }
            reached = next;
        }
        reached[text.len()]
    }
}

/// A URI in the one form that rules are matched against and servers are sent (RFC 3986): scheme and host in lower case,
/// `localhost` dropped from `file:`, unreserved percent-codes decoded, the others in upper case, dot segments removed.
///
/// `None` for what can't be trusted to mean one thing: no scheme, a NUL, an encoded slash or backslash, a broken code.
pub fn normalize_uri(uri: &str) -> Option<String> {
    let (scheme, rest) = uri.split_once(':')?;
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'));
    if !valid || rest.contains(|c: char| c.is_control() || c == '\\') {
        return None;
    }
    let scheme = scheme.to_ascii_lowercase();
    let rest = decode(rest)?;
    let end = rest.find(['?', '#']).unwrap_or(rest.len());
    let (hierarchy, tail) = rest.split_at(end);
    let Some(after) = hierarchy.strip_prefix("//") else {
        let path = if hierarchy.starts_with('/') { without_dots(hierarchy) } else { hierarchy.to_owned() };
        return Some(format!("{scheme}:{path}{tail}"));
    };
    let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
    let (user, host) = authority.rsplit_once('@').map_or(("", authority), |(user, host)| (user, host));
    let mut host = host.to_ascii_lowercase();
    if scheme == "file" && host == "localhost" {
        host.clear();
    }
    let at = if user.is_empty() { "" } else { "@" };
    Some(format!("{scheme}://{user}{at}{host}{}{tail}", without_dots(path)))
}

/// Percent-codes of unreserved characters decoded, the others in upper case.
fn decode(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        let code = rest.get(at + 1..at + 3).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let byte = u8::from_str_radix(code, 16).ok()?;
        match byte {
            0 | b'/' | b'\\' => return None,
            b if b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_' | b'~') => out.push(b as char),
            _ => {
                out.push('%');
                out.push_str(&code.to_ascii_uppercase());
            }
        }
        rest = &rest[at + 3..];
    }
    out.push_str(rest);
    Some(out)
}

fn without_dots(path: &str) -> String {
    if path.is_empty() {
        return String::new();
    }
    let mut kept: Vec<&str> = Vec::new();
    let segments: Vec<&str> = path.strip_prefix('/').unwrap_or(path).split('/').collect();
    for (index, segment) in segments.iter().enumerate() {
        let last = index + 1 == segments.len();
        match *segment {
            "." if last => kept.push(""),
            "." => {}
            ".." => {
                kept.pop();
                if last {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    format!("/{}", kept.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn server(name: &str) -> ServerName {
        ServerName::new(name).unwrap()
    }

    fn policy(default: Verdict, deny: &[&str], allow: &[&str], read_only: bool) -> Policy {
        let rules = |texts: &[&str]| texts.iter().map(|text| Rule::parse(text).unwrap()).collect();
        Policy { default, deny: rules(deny), allow: rules(allow), read_only, on_drift: OnDrift::default() }
    }

    fn call(policy: &Policy, server_name: &str, tool: &str, read_only: bool) -> bool {
        policy.decide(&Operation::Call { server: &server(server_name), tool, read_only }).is_ok()
    }

    #[test]
    fn deny_then_default_or_allow_then_read_only() {
        let open = policy(Verdict::Allow, &["mcp:call:fs:write_*"], &["mcp:call:fs:write_log"], false);
        assert!(call(&open, "fs", "read", false));
        assert!(!call(&open, "fs", "write_log", false), "deny always wins");
        let closed = policy(Verdict::Deny, &[], &["mcp:call:fs:read_*", "mcp:call:g*:*"], false);
        assert!(call(&closed, "fs", "read_x", false) && call(&closed, "git", "anything", false));
        assert!(!call(&closed, "fs", "write", false));
        let careful = policy(Verdict::Allow, &[], &["mcp:call:fs:append"], true);
        assert!(call(&careful, "fs", "read", true) && call(&careful, "fs", "append", false));
        assert!(!call(&careful, "fs", "write", false));
    }

    #[test]
    fn rules_of_one_kind_say_nothing_of_another() {
        let rule = Rule::parse("mcp:invoke:*:*").unwrap();
        assert!(!rule.matches(&Operation::Call { server: &server("a"), tool: "x", read_only: false }));
        assert!(rule.matches(&Operation::Invoke { server: &server("a"), prompt: "x" }));
        let list = Rule::parse("mcp:list:a").unwrap();
        assert!(list.matches(&Operation::List { server: &server("a") }));
        assert!(!list.matches(&Operation::List { server: &server("b") }));
    }

    #[test]
    fn a_rule_covers_what_it_plainly_includes() {
        let covers = |one: &str, other: &str| Rule::parse(one).unwrap().covers(&Rule::parse(other).unwrap());
        for (one, other) in [
            ("mcp:call:*:*", "mcp:call:fs:write_*"),
            ("mcp:call:fs:write_*", "mcp:call:fs:write_log"),
            ("mcp:call:f?:x", "mcp:call:fs:x"),
            ("mcp:list:*", "mcp:list:fs"),
            ("mcp:read:fs:**", "mcp:read:fs:file:///etc/*"),
            ("mcp:read:fs:file:///etc/**", "mcp:read:fs:file:///etc/ssl/x"),
        ] {
            assert!(covers(one, other) && covers(one, one), "{one} over {other}");
            assert!(!covers(other, one), "{other} over {one}");
        }
        assert!(!covers("mcp:read:fs:file:///etc/*", "mcp:read:fs:file:///etc/ssl/x"));
        assert!(!covers("mcp:call:fs:*", "mcp:invoke:fs:x"));
        assert!(!covers("mcp:call:fs:a*", "mcp:call:fs:a?"), "true, but not plain to see");
    }

    #[test]
    fn malformed_rules_are_no_rules() {
        for (text, expected) in [
            ("call:a:b", "a rule starts with `mcp:`"),
            ("mcp:run:a:b", "`run` is none of call, invoke, read and list"),
            ("mcp:call:a", "a rule of this kind is `mcp:call:SERVER:TOOL`"),
            ("mcp:call::b", "a rule of this kind is `mcp:call:SERVER:TOOL`"),
            ("mcp:read:a:", "a rule of this kind is `mcp:read:SERVER:URI`"),
            ("mcp:list:a:b", "a rule of this kind is `mcp:list:SERVER`"),
            ("mcp", "a rule starts with `mcp:`"),
            ("mcp:", "after `mcp:` comes one of call, invoke, read and list"),
        ] {
            assert_eq!(Rule::parse(text).unwrap_err().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn uris_keep_their_colons_and_stars_stop_at_slashes() {
        let matches =
            |rule: &str, uri: &str| Rule::parse(rule).unwrap().matches(&Operation::Read { server: &server("fs"), uri });
        assert!(matches("mcp:read:*:file:///etc/**", "file:///etc/ssl/x"));
        assert!(matches("mcp:read:fs:file:///etc/*", "file:///etc/passwd"));
        assert!(!matches("mcp:read:fs:file:///etc/*", "file:///etc/ssl/x"));
        assert!(!matches("mcp:read:fs:file:///etc/**", "file:///etcetera"));
        assert!(matches("mcp:read:fs:**", "a:b:c"));
        assert!(!matches("mcp:read:fs:x?y", "x/y"));
    }

    #[test]
    fn uris_have_one_form() {
        for (uri, expected) in [
            ("FILE://LOCALHOST/a/../b", "file:///b"),
            ("file:///%61/%2e%2e/b", "file:///b"),
            ("file:/etc/./passwd", "file:/etc/passwd"),
            ("https://User@EXAMPLE.com/a%c3%a9?q=../x", "https://User@example.com/a%C3%A9?q=../x"),
            ("http://h/../../x/..", "http://h/"),
            ("memo:a/../b", "memo:a/../b"),
            ("http://h", "http://h"),
        ] {
            assert_eq!(normalize_uri(uri).as_deref(), Some(expected), "{uri}");
        }
        for uri in [
            "file:///a%2fb",
            "file:///a%5cb",
            "file:///a%00",
            "file:///a%zz",
            "no scheme",
            "1x:y",
            "file:///a\\b",
            "file:///\u{0}",
        ] {
            assert_eq!(normalize_uri(uri), None, "{uri}");
        }
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(uri in "(file|http)://[a-zA-Z.]{0,6}(/[a-z.%0-9A-F]{0,6}){0,5}(\\?[a-z]{0,3})?") {
            if let Some(once) = normalize_uri(&uri) {
                let again = normalize_uri(&once);
                prop_assert_eq!(again.as_ref(), Some(&once));
                // Behind the authority, which may be called anything.
                let path = once.split(['?', '#']).next().unwrap_or_default().splitn(4, '/').nth(3).unwrap_or_default();
                prop_assert!(!path.split('/').any(|segment| segment == ".."));
            }
        }

        #[test]
        fn uri_patterns_agree_with_a_regular_expression(pattern in "[ab/*?]{0,8}", text in "[ab/]{0,8}") {
            fn slow(pattern: &[SlashPart], text: &[char]) -> bool {
                match pattern.split_first() {
                    None => text.is_empty(),
                    Some((SlashPart::Literal(c), rest)) => text.first() == Some(c) && slow(rest, &text[1..]),
                    Some((SlashPart::One, rest)) => text.first().is_some_and(|c| *c != '/') && slow(rest, &text[1..]),
                    Some((SlashPart::Anything, rest)) => (0..=text.len()).any(|n| slow(rest, &text[n..])),
                    Some((SlashPart::Segment, rest)) => (0..=text.len()).take_while(|n| !text[..*n].contains(&'/')).any(|n| slow(rest, &text[n..])),
                }
            }
            let compiled = SlashPattern::new(&pattern);
            let chars: Vec<char> = text.chars().collect();
            prop_assert_eq!(compiled.matches(&text), slow(&compiled.0, &chars));
        }
    }
}
