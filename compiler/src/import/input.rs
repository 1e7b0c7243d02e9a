//! What a client asks its user for, and the variable that takes its place.

use std::collections::BTreeMap;

use super::tree::Foreign;

/// Something that a client asks its user for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Input {
    /// The variable that takes its place.
    pub variable: String,
    /// What the client says about it.
    pub description: String,
    /// What is meant when nothing is said.
    pub default: Option<String>,
}

impl Input {
    /// The `inputs` of VS Code's files: `[{ id, description, default }]`; also `{ key, env }` of templates.
    pub(super) fn all(list: Option<&Foreign>) -> BTreeMap<String, Input> {
        let items = list.map(Foreign::items).unwrap_or_default();
        let read = |item: &Foreign| {
            let text = |key: &str| item.get(key).and_then(Foreign::text).map(str::to_owned);
            let id = text("id").or_else(|| text("key"))?;
            let variable = text("env").or_else(|| variable_name(&id))?;
            let description = text("description").or_else(|| text("label")).unwrap_or_default();
            let default = text("default").filter(|default| !default.is_empty() && !default.contains('}'));
            Some((id, Input { variable, description, default }))
        };
        items.iter().filter_map(read).collect()
    }
}

/// The variable that stands for something called `name`: `home-assistant.token` is `HOME_ASSISTANT_TOKEN`.
pub(super) fn variable_name(name: &str) -> Option<String> {
    let mut out = String::new();
    let mut before_lower = false;
    for c in name.chars() {
        if !c.is_ascii_alphanumeric() {
            if !out.is_empty() && !out.ends_with('_') {
                out.push('_');
            }
        } else {
            if c.is_ascii_uppercase() && before_lower {
                out.push('_');
            }
            out.push(c.to_ascii_uppercase());
        }
        before_lower = c.is_ascii_lowercase();
    }
    let out = out.trim_end_matches('_');
    if out.is_empty() {
        return None;
    }
    Some(if out.starts_with(|c: char| c.is_ascii_digit()) { format!("_{out}") } else { out.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_variables() {
        assert_eq!(variable_name("home-assistant.token").as_deref(), Some("HOME_ASSISTANT_TOKEN"));
        assert_eq!(variable_name("apiKey").as_deref(), Some("API_KEY"));
        assert_eq!(variable_name("2fa").as_deref(), Some("_2FA"));
        assert_eq!(variable_name("--"), None);
    }
}
