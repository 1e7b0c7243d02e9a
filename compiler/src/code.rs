//! Every kind of problem the compiler knows, by a stable word. What each means to a user is in `explain/WORD.md`.

use crate::diagnostic::Severity;

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal, $severity:ident;)+) => {
        /// A kind of problem. The word is part of the contract: it doesn't change once released.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Code {
            /// All codes.
            pub const ALL: &'static [Code] = &[$(Code::$name),+];

            /// The stable word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }

            /// How bad a problem of this kind is.
            pub fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity),+ }
            }

            /// One line about it.
            pub fn summary(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc, " "),+).trim_ascii()),+ }
            }

            /// What it means, with an example: the text of `explain/WORD.md`, without which no code can be added.
            pub(crate) fn explanation(self) -> &'static str {
                match self { $(Self::$name => include_str!(concat!("explain/", $word, ".md"))),+ }
            }
        }
    };
}

codes! {
    /// The text is not YAML.
    Syntax = "syntax", Error;
    /// The file is not UTF-8.
    NotUtf8 = "not-utf8", Error;
    /// The file is larger than 4 MiB.
    FileTooLarge = "file-too-large", Error;
    /// The file holds nothing.
    EmptyFile = "empty-file", Error;
    /// The file holds more than one YAML document.
    SeveralDocuments = "several-documents", Error;
    /// Nesting is deeper than any config needs.
    TooDeep = "too-deep", Error;
    /// Aliases expand to more than any config needs.
    AliasBomb = "alias-bomb", Error;
    /// An alias names an anchor that isn't there.
    UnknownAlias = "unknown-alias", Error;
    /// A YAML tag that means nothing here.
    UnknownTag = "unknown-tag", Error;
    /// A key stands twice in one map.
    DuplicateKey = "duplicate-key", Error;
    /// A key that is not a text.
    KeyNotText = "key-not-text", Error;
    /// A merge key whose value is not a map.
    BadMerge = "bad-merge", Error;
    /// A file of another kind, with no server in it.
    OtherFormat = "other-format", Error;
    /// A key that nothing here knows.
    UnknownKey = "unknown-key", Error;
    /// A key with nothing after it.
    MissingValue = "missing-value", Error;
    /// A value of another type than the key takes.
    WrongType = "wrong-type", Error;
    /// A word that is none of the possible ones.
    UnknownValue = "unknown-value", Error;
    /// A number outside what the key takes.
    OutOfRange = "out-of-range", Error;
    /// A key that has to be there.
    MissingKey = "missing-key", Error;
    /// Two spellings of one thing together.
    TwoSpellings = "two-spellings", Error;
    /// A number written with a unit.
    Unit = "unit", Error;
    /// A text that can't be a server's name.
    BadServerName = "bad-server-name", Error;
    /// Two servers of one name.
    DuplicateServer = "duplicate-server", Error;
    /// Two servers whose exposed names can't be told apart.
    ServerNamesCollide = "server-names-collide", Error;
    /// A server without a name; one is derived from its package or host.
    MissingName = "missing-name", Warning;
    /// A field that this transport doesn't take.
    FieldNotForTransport = "field-not-for-transport", Error;
    /// A server that says neither how to start it nor where it is.
    NoTransport = "no-transport", Error;
    /// A command line, or a name with blanks around it, where one program is meant.
    BadCommand = "bad-command", Error;
    /// Something that should be a URL and isn't.
    BadUrl = "bad-url", Error;
    /// A header name or value that HTTP doesn't allow.
    BadHeader = "bad-header", Error;
    /// A header that the transport sets by itself.
    TransportHeader = "transport-header", Warning;
    /// A variable name that no system takes.
    BadVariableName = "bad-variable-name", Error;
    /// A NUL character, which no program and no server can be given.
    NulCharacter = "nul-character", Error;
    /// A builtin that the catalogue doesn't hold.
    UnknownBuiltin = "unknown-builtin", Error;
    /// A text that can't be a version.
    BadVersion = "bad-version", Error;
    /// A builtin that the same name written out replaces.
    BuiltinReplaced = "builtin-replaced", Note;
    /// A builtin whose upstream package is archived.
    ArchivedBuiltin = "archived-builtin", Warning;
    /// A reference that can't be read.
    BadReference = "bad-reference", Error;
    /// `$NAME` is left as written.
    BareDollar = "bare-dollar", Warning;
    /// `$$` becomes one `$`.
    DoubledDollar = "doubled-dollar", Warning;
    /// An entry of a list in brackets goes over several lines.
    JoinedLines = "joined-lines", Warning;
    /// A reference in the default of another one isn't filled in.
    NestedReference = "nested-reference", Warning;
    /// A naming pattern that can't work.
    BadNaming = "bad-naming", Error;
    /// A naming pattern without `{server}`: equal tool names get a suffix.
    NamingWithoutServer = "naming-without-server", Warning;
    /// A naming pattern by which a tool of one server could be called like another's: such names get a suffix.
    AmbiguousNaming = "ambiguous-naming", Warning;
    /// A pattern of names that nobody means as it works.
    BadPattern = "bad-pattern", Error;
    /// A tool named in include and in exclude.
    IncludedAndExcluded = "included-and-excluded", Warning;
    /// An include list without an entry: no tool remains.
    EmptyInclude = "empty-include", Warning;
    /// A file that the config names and that can't be read.
    UnreadableFile = "unreadable-file", Error;
    /// A prompt template that doesn't work.
    BadTemplate = "bad-template", Error;
    /// Two ways to say how large the block may be.
    BadBudget = "bad-budget", Error;
    /// A setting that changes nothing.
    SettingWithoutEffect = "setting-without-effect", Warning;
    /// Seconds that look like milliseconds.
    Milliseconds = "milliseconds", Warning;
    /// A launch that runs whatever version is newest that day.
    Unpinned = "unpinned", Warning;
    /// A secret written into the file.
    LiteralSecret = "literal-secret", Warning;
    /// A secret among arguments, where other users of the machine see it.
    SecretInArgs = "secret-in-args", Warning;
    /// A remote server spoken to without encryption.
    PlainHttp = "plain-http", Warning;
    /// A key that a fragment can't hold.
    NotInFragment = "not-in-fragment", Error;
    /// A fragment that leads back to itself.
    FragmentCycle = "fragment-cycle", Error;
    /// A value of one file that another one replaces.
    Overridden = "overridden", Note;
    /// A key of ours that belongs to the host in another program's file.
    HostKey = "host-key", Warning;
    /// A section of ours under `x-mcplan` in a file that isn't read as another program's.
    HostSection = "host-section", Error;
    /// A text that can't be read as a rule.
    BadRule = "bad-rule", Error;
    /// A rule that changes nothing.
    RuleWithoutEffect = "rule-without-effect", Warning;
    /// A policy under which nothing can be done.
    NothingAllowed = "nothing-allowed", Warning;
    /// A server that isn't declared.
    UnknownServer = "unknown-server", Error;
    /// An agent that isn't declared.
    UnknownAgent = "unknown-agent", Error;
    /// A text that can't be an agent's name.
    BadAgentName = "bad-agent-name", Error;
    /// A text that can't be read as a pattern of resources.
    BadResourcePattern = "bad-resource-pattern", Error;
    /// Something that should be an address to listen on and isn't.
    BadListen = "bad-listen", Error;
    /// A listener that other machines can reach without a token.
    OpenListener = "open-listener", Error;
    /// Two who share one token.
    SameToken = "same-token", Error;
    /// Two plugins of one name.
    DuplicatePlugin = "duplicate-plugin", Error;
    /// A plugin that gave nothing.
    PluginFailed = "plugin-failed", Warning;
    /// What a plugin printed can't be used.
    BadPluginOutput = "bad-plugin-output", Warning;
    /// A server that plugins printed twice.
    PluginServerTwice = "plugin-server-twice", Warning;
    /// An entry of `tests` that makes no sense.
    BadTest = "bad-test", Error;
    /// A pattern that matches nothing, in the lock or among the files.
    MatchesNothing = "matches-nothing", Warning;
    /// A large tool set that is loaded outright.
    LargeAndNotDeferred = "large-and-not-deferred", Warning;
    /// A prompt block that has no room for everything.
    ListingOverBudget = "listing-over-budget", Warning;
    /// A lock so large that it may not fit where it is to go.
    LargeLock = "large-lock", Warning;
    /// A tool in `tests` that the lock doesn't know.
    UnknownTool = "unknown-tool", Warning;
    /// A tool that a target refuses.
    TargetRefuses = "target-refuses", Warning;
    /// Characters that can't be seen in a text of a server.
    HiddenCharacters = "hidden-characters", Warning;
    /// A command that isn't on PATH.
    CommandNotFound = "command-not-found", Warning;
    /// A variable that is not set.
    UnsetVariable = "unset-variable", Error;
    /// A bug of ours.
    Internal = "internal", Error;
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_lower_case() {
        let mut words: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Code::ALL.len());
        assert!(
            words.iter().all(|word| word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'))
        );
    }
}
