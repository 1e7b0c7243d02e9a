//! Which of a server's tools remain.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::ServerName;
use crate::pattern::Pattern;

/// The `tools:` of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolFilter {
    /// Only what matches one of these; `null` is everything, an empty list nothing.
    pub include: Option<Vec<Pattern>>,
    /// Drops what matches, unless `include` names that tool literally.
    pub exclude: Vec<Pattern>,
    /// Never deferred.
    pub always: Vec<Pattern>,
}

/// The rule that drops a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dropped<'a> {
    /// There is an `include`, and nothing in it matches.
    NotIncluded,
    /// This pattern of `exclude` matches.
    Excluded(&'a Pattern),
    /// This pattern of `mcp.denylist` matches.
    Denylist(&'a Pattern),
}

/// The three raw strings that every pattern is tried against.
pub fn tool_strings(server: &ServerName, tool: &str) -> [String; 3] {
    [tool.to_owned(), format!("{server}__{tool}"), format!("mcp__{server}__{tool}")]
}

pub(super) fn first_match<'a>(patterns: &'a [Pattern], server: &ServerName, tool: &str) -> Option<&'a Pattern> {
    // Most lists are empty, and catalogues are built often.
    if patterns.is_empty() {
        return None;
    }
    let strings = tool_strings(server, tool);
    patterns.iter().find(|pattern| strings.iter().any(|text| pattern.matches(text)))
}

impl ToolFilter {
    /// Whether `tool`, as the server names it, remains.
    ///
    /// # Errors
    /// The rule that drops it.
    pub fn keeps<'a>(&'a self, server: &ServerName, tool: &str) -> Result<(), Dropped<'a>> {
        let reading = self.read(server, tool);
        match (reading.included, reading.excluded, reading.literal) {
            (None, _, _) if self.include.is_some() => Err(Dropped::NotIncluded),
            (_, Some(pattern), None) => Err(Dropped::Excluded(pattern)),
            _ => Ok(()),
        }
    }

    /// What the lists say of `tool`, each by itself.
    pub fn read(&self, server: &ServerName, tool: &str) -> Reading<'_> {
        let include = self.include.as_deref().unwrap_or_default();
        let included = first_match(include, server, tool);
        let excluded = first_match(&self.exclude, server, tool);
        let literal = excluded.and_then(|_| {
            let strings = tool_strings(server, tool);
            let names_it = |pattern: &&Pattern| pattern.is_literal() && strings.iter().any(|s| s == pattern.as_str());
            include.iter().find(names_it)
        });
        Reading { included, excluded, literal, always: first_match(&self.always, server, tool) }
    }

    /// Whether `tool` is never deferred.
    pub fn always(&self, server: &ServerName, tool: &str) -> bool {
        first_match(&self.always, server, tool).is_some()
    }
}

/// What the lists of one server say of one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading<'a> {
    /// The pattern of `include` that matches.
    pub included: Option<&'a Pattern>,
    /// The pattern of `exclude` that matches.
    pub excluded: Option<&'a Pattern>,
    /// Where one does, the pattern of `include` that is the tool's very name, and so keeps it all the same.
    pub literal: Option<&'a Pattern>,
    /// The pattern of `always` that matches.
    pub always: Option<&'a Pattern>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(include: Option<&[&str]>, exclude: &[&str]) -> ToolFilter {
        let compile = |texts: &[&str]| texts.iter().map(|text| Pattern::new(*text)).collect();
        ToolFilter { include: include.map(compile), exclude: compile(exclude), always: Vec::new() }
    }

    fn kept(filter: &ToolFilter, tool: &str) -> bool {
        filter.keeps(&ServerName::new("github").unwrap(), tool).is_ok()
    }

    #[test]
    fn include_then_exclude() {
        assert!(kept(&filter(None, &[]), "x"), "no filter keeps all");
        assert!(!kept(&filter(Some(&[]), &[]), "x"), "an empty include keeps none");
        assert!(kept(&filter(Some(&["get_*"]), &[]), "get_x"));
        assert!(!kept(&filter(Some(&["get_*"]), &["get_x"]), "get_x"), "a glob in include doesn't save it");
        assert!(kept(&filter(Some(&["get_x"]), &["get_*"]), "get_x"), "a literal in include does");
        assert!(kept(&filter(Some(&["github__get_x"]), &["get_*"]), "get_x"), "in its namespaced form too");
        assert!(kept(&filter(Some(&["mcp__github__get_x"]), &[]), "get_x"));
        assert!(!kept(&filter(None, &["github__*"]), "anything"));
        assert!(!kept(&filter(Some(&["Get_x"]), &[]), "get_x"), "case matters");
    }
}
