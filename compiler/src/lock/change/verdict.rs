//! What changes lead to, by the policy.

use std::collections::BTreeMap;

use super::{Change, Class, Item};
use crate::config::Reaction;
use crate::plan::OnDrift;

impl OnDrift {
    /// What a change of that class leads to.
    pub fn reaction(&self, class: Class) -> Reaction {
        match class {
            Class::Cosmetic => self.cosmetic,
            Class::Additive => self.additive,
            Class::Wording => self.wording,
            Class::Breaking => self.breaking,
            Class::Suspicious => self.suspicious,
        }
    }
}

/// What the changes of one server lead to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Verdict {
    /// The whole server is hidden, and why.
    pub refused: Option<String>,
    /// What is neither listed, found nor callable until it is locked again, and why. [`Item::Server`] here costs the
    /// instructions: they aren't shown, while the tools stay.
    pub quarantined: BTreeMap<Item, String>,
    /// What is told of and otherwise let be: the changes of items that stay, of classes that warn.
    pub warnings: Vec<Change>,
}

impl Verdict {
    /// The quarantined tools by the server's own names, each with the reason.
    pub fn tools(&self) -> impl Iterator<Item = (&str, &str)> {
        self.quarantined.iter().filter_map(|(item, why)| match item {
            Item::Tool(name) => Some((&**name, &**why)),
            _ => None,
        })
    }

    /// The quarantined prompts by the server's own names, each with the reason.
    pub fn prompts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.quarantined.iter().filter_map(|(item, why)| match item {
            Item::Prompt(name) => Some((&**name, &**why)),
            _ => None,
        })
    }

    /// The quarantined resource templates by their URI templates, each with the reason.
    pub fn resource_templates(&self) -> impl Iterator<Item = (&str, &str)> {
        self.quarantined.iter().filter_map(|(item, why)| match item {
            Item::ResourceTemplate(uri) => Some((&**uri, &**why)),
            _ => None,
        })
    }

    /// Why the instructions aren't shown, if they aren't.
    pub fn instructions(&self) -> Option<&str> {
        self.quarantined.get(&Item::Server).map(String::as_str)
    }
}

/// What `changes` of one server lead to: for each item the highest reaction among its changes.
pub fn verdict(changes: &[Change], on_drift: &OnDrift) -> Verdict {
    let mut verdict = Verdict::default();
    let mut items: BTreeMap<&Item, Vec<&Change>> = BTreeMap::new();
    for change in changes {
        items.entry(&change.item).or_default().push(change);
    }
    let reaction = |change: &Change| on_drift.reaction(change.class());
    for (item, changes) in items {
        // Of several of one reaction the one of the highest class is told, of those the first.
        let rank = |change: &Change| (reaction(change), change.class());
        let Some(highest) = changes.iter().map(|change| rank(change)).max() else { continue };
        let deciding: Vec<_> = changes.iter().filter(|change| rank(change) == highest).collect();
        let why = || match &deciding[..] {
            [only] => only.to_string(),
            [first, more @ ..] => format!("{first} (and {} more)", more.len()),
            [] => String::new(),
        };
        match highest.0 {
            Reaction::Accept => {}
            Reaction::Warn => {
                let told = changes.into_iter().filter(|change| reaction(change) == Reaction::Warn);
                verdict.warnings.extend(told.cloned());
            }
            Reaction::Quarantine => {
                verdict.quarantined.insert(item.clone(), why());
            }
            Reaction::Refuse => {
                verdict.refused.get_or_insert_with(why);
            }
        }
    }
    verdict
}
