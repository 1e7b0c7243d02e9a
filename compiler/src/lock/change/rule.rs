//! Every kind of change, by a stable word, with its class and one line of meaning.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::OnDrift;

/// How bad a change is; the highest that applies to an item decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Layout, letter case, what is only for people.
    Cosmetic,
    /// Something was added that nobody has to use.
    Additive,
    /// Other words.
    Wording,
    /// What was called before may fail now.
    Breaking,
    /// What an attack would look like.
    Suspicious,
}

impl Class {
    /// All classes, the lowest first.
    pub const ALL: [Self; 5] = [Self::Cosmetic, Self::Additive, Self::Wording, Self::Breaking, Self::Suspicious];

    /// The word for it, as `policy.on_drift` spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cosmetic => "cosmetic",
            Self::Additive => "additive",
            Self::Wording => "wording",
            Self::Breaking => "breaking",
            Self::Suspicious => "suspicious",
        }
    }
}

macro_rules! rules {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal, $class:ident;)+) => {
        /// A kind of change. The word is part of the contract: it doesn't change once released.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Rule {
            /// All rules, by class.
            pub const ALL: &'static [Rule] = &[$(Rule::$name),+];

            /// The stable word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }

            /// The class of every change of this kind.
            pub fn class(self) -> Class {
                match self { $(Self::$name => Class::$class),+ }
            }

            /// One line about it.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$name => concat!($($doc, " "),+).trim_ascii()),+ }
            }
        }
    };
}

rules! {
    /// A description differs in white space, punctuation or letter case.
    DescriptionLayout = "description-layout", Cosmetic;
    /// The instructions differ in white space, punctuation or letter case.
    InstructionsLayout = "instructions-layout", Cosmetic;
    /// A title changed.
    TitleChanged = "title-changed", Cosmetic;
    /// The icons changed.
    IconsChanged = "icons-changed", Cosmetic;
    /// `_meta` changed.
    MetaChanged = "meta-changed", Cosmetic;
    /// The same is written otherwise: order of a list, null for nothing, a default spelled out.
    Respelled = "respelled", Cosmetic;
    /// The server's own version changed.
    ServerVersion = "server-version", Cosmetic;
    /// Another revision of the protocol was agreed on.
    ProtocolVersion = "protocol-version", Cosmetic;
    /// A tool was added.
    ToolAdded = "tool-added", Additive;
    /// A prompt was added.
    PromptAdded = "prompt-added", Additive;
    /// A resource template was added.
    TemplateAdded = "template-added", Additive;
    /// The server offers resources now.
    ResourcesOffered = "resources-offered", Additive;
    /// An optional parameter was added.
    ParameterAdded = "parameter-added", Additive;
    /// A parameter is no longer required.
    ParameterOptional = "parameter-optional", Additive;
    /// A parameter takes more than before.
    ParameterWidened = "parameter-widened", Additive;
    /// A value was added to an enum.
    EnumValueAdded = "enum-value-added", Additive;
    /// A field of the output was added, or is always there now.
    OutputAdded = "output-added", Additive;
    /// A definition came or went; what refers to it is judged by itself.
    DefinitionChanged = "definition-changed", Additive;
    /// A description has other words.
    DescriptionWords = "description-words", Wording;
    /// The instructions have other words.
    InstructionsWords = "instructions-words", Wording;
    /// A parameter has another default.
    DefaultChanged = "default-changed", Wording;
    /// The server calls itself otherwise.
    ServerRenamed = "server-renamed", Wording;
    /// A field changed of which no other rule speaks.
    OtherField = "other-field", Wording;
    /// A tool is gone.
    ToolRemoved = "tool-removed", Breaking;
    /// A tool is listed in a form that can't be used.
    ToolUnusable = "tool-unusable", Breaking;
    /// A prompt is gone.
    PromptRemoved = "prompt-removed", Breaking;
    /// A resource template is gone.
    TemplateRemoved = "template-removed", Breaking;
    /// The server offers no resources any more.
    ResourcesGone = "resources-gone", Breaking;
    /// A parameter is gone.
    ParameterRemoved = "parameter-removed", Breaking;
    /// A parameter is required that was optional or not there.
    ParameterRequired = "parameter-required", Breaking;
    /// A parameter takes less than before, or something else.
    ParameterNarrowed = "parameter-narrowed", Breaking;
    /// A value is gone from an enum.
    EnumValueRemoved = "enum-value-removed", Breaking;
    /// A field of the output is gone.
    OutputRemoved = "output-removed", Breaking;
    /// The output can hold less than before, or something else.
    OutputNarrowed = "output-narrowed", Breaking;
    /// The output promises less: a field that may be missing, a wider type or bound.
    OutputLoosened = "output-loosened", Breaking;
    /// Characters that can't be seen were gained.
    HiddenCharacters = "hidden-characters", Suspicious;
    /// What the tool says of its own effects changed.
    HintChanged = "hint-changed", Suspicious;
    /// A URL leads to a host that occurs nowhere in what is locked of this server.
    NewHost = "new-host", Suspicious;
    /// The name of another server's tool was gained.
    NamesOtherTool = "names-other-tool", Suspicious;
    /// A tag such as `<important>` was gained.
    TagGained = "tag-gained", Suspicious;
    /// A phrase of the published list was gained.
    PhraseGained = "phrase-gained", Suspicious;
}

impl Rule {
    /// What follows from a change of this kind, and what to do about it.
    pub fn consequence(self) -> String {
        let class = self.class();
        let reaction = OnDrift::default().reaction(class);
        format!(
            "A change of what a server says since it was locked, of the class `{class}`: `policy.on_drift.{class}` says what \
             it leads to, by default `{}`: {}. `mcplan diff --live` shows what changed, and `mcplan lock` locks what the \
             server says now.",
            reaction.as_str(),
            reaction.meaning(),
            class = class.as_str(),
        )
    }

    /// Whether its values are two texts to be read side by side.
    pub fn is_of_text(self) -> bool {
        use Rule::{DescriptionLayout, DescriptionWords, InstructionsLayout, InstructionsWords};
        matches!(self, DescriptionLayout | DescriptionWords | InstructionsLayout | InstructionsWords)
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for Rule {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_unique_and_rules_stand_by_class() {
        let mut words: Vec<_> = Rule::ALL.iter().map(|rule| rule.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), Rule::ALL.len());
        assert!(words.iter().all(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-')));
        assert!(Rule::ALL.is_sorted_by_key(|rule| rule.class()));
    }
}
