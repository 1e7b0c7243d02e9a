//! One rule: `mcp:call:SERVER:TOOL`, `mcp:invoke:SERVER:PROMPT`, `mcp:read:SERVER:URI` or `mcp:list:SERVER`. It is split
//! at its first three colons and the rest never again, so that a URI keeps its own.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Operation, SlashPattern};
use crate::diagnostic::one_line;
use crate::name::ServerName;
use crate::pattern::{Flaw, Pattern};

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
    /// Blanks at an end: they would belong to the last part, and nothing has such a name.
    #[error("it begins or ends with a blank")]
    Blank,
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
        if text.trim() != text {
            return Err(RuleError::Blank);
        }
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
            (Verb::Read, Some((_, uri))) if uri.contains("${") => {
                return Err(RuleError::Pattern(uri.to_owned(), Flaw::Variable));
            }
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
                    own == theirs || own.is_everything() || theirs.literal().is_some_and(|uri| own.matches(&uri))
                }
                _ => false,
            }
    }

    /// Whether it is about reading from a server, and what every address begins with that it speaks of.
    fn reads_of(&self, server: &ServerName) -> Option<String> {
        match &self.target {
            Target::Uri(pattern) if self.server.matches(server.as_str()) => Some(pattern.head()),
            _ => None,
        }
    }

    /// Whether it may speak of the reading of some address of a server's that begins so.
    pub(super) fn may_read(&self, server: &ServerName, head: &str) -> bool {
        self.reads_of(server).is_some_and(|own| own.starts_with(head) || head.starts_with(&own))
    }

    /// Whether it speaks of the reading of every address of a server's that begins so.
    pub(super) fn reads_all(&self, server: &ServerName, head: &str) -> bool {
        let Target::Uri(pattern) = &self.target else { return false };
        let goes_on = pattern.is_head() && head.starts_with(&pattern.head());
        goes_on && self.server.matches(server.as_str())
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::ServerName;

    fn server(name: &str) -> ServerName {
        ServerName::new(name).unwrap()
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
}
