//! What one agent session sees: the disclosure mode, and what it has promoted. The catalog is passed in.

use std::sync::Arc;

use mcplan_compiler::json;
use memchr::memmem;
use serde::{Deserialize, Serialize};

use super::activation::{Activation, Promotion};
use super::caller::Caller;
use super::catalog::{Catalog, CatalogTool};
use super::meta;
use super::snapshot::Snapshot;

/// How a session learns of deferred tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disclosure {
    /// Search promotes tools into the list.
    Promote,
    /// The list never changes as a side effect; `call_mcp_tool` runs what search found.
    Bridge,
    /// Everything is listed.
    All,
}

impl Disclosure {
    /// Whether a tool is in the list from the start.
    pub fn lists(self, tool: &CatalogTool) -> bool {
        self == Self::All || !tool.deferred
    }

    /// Whether our own tools are in the list.
    pub fn lists_ours(self, snapshot: &Snapshot) -> bool {
        self != Self::All && snapshot.can_defer()
    }
}

/// What the user asked for; `auto` decides by the client's era.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DisclosureSetting {
    /// Bridge for clients without initialize, promote for the others.
    #[default]
    Auto,
    /// Always this one.
    Always(Disclosure),
}

impl From<mcplan_compiler::config::Disclosure> for DisclosureSetting {
    fn from(written: mcplan_compiler::config::Disclosure) -> Self {
        use mcplan_compiler::config::Disclosure as Written;
        match written {
            Written::Auto => Self::Auto,
            Written::Promote => Self::Always(Disclosure::Promote),
            Written::Bridge => Self::Always(Disclosure::Bridge),
            Written::All => Self::Always(Disclosure::All),
        }
    }
}

impl DisclosureSetting {
    /// The mode for a client; `stateless` is a revision without initialize (2026-07-28 and later).
    pub fn for_client(self, stateless: bool) -> Disclosure {
        match self {
            Self::Always(mode) => mode,
            Self::Auto if stateless => Disclosure::Bridge,
            Self::Auto => Disclosure::Promote,
        }
    }
}

/// One session's own state.
#[derive(Debug)]
pub struct Session {
    caller: Caller,
    activation: Activation,
    /// The catalog that was narrowed last, the generation it belongs to, and what came out.
    narrowed: Option<(u64, Arc<Catalog>, Arc<Catalog>)>,
}

impl Session {
    /// A session of `caller`'s that may have so many tools promoted.
    pub fn new(caller: Caller, promote_limit: usize) -> Self {
        Self { caller, activation: Activation::new(promote_limit), narrowed: None }
    }

    /// Whose session it is.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The directory that the session works in.
    pub fn workspace(&self) -> Option<String> {
        self.caller.workspace.clone()
    }

    /// The moment as this session's caller sees it.
    pub fn sees(&mut self, snapshot: &Arc<Snapshot>) -> Arc<Snapshot> {
        if self.caller.sees_all(&snapshot.plan) {
            return snapshot.clone();
        }
        let catalog = match &self.narrowed {
            Some((generation, whole, narrowed))
                if *generation == snapshot.generation && Arc::ptr_eq(whole, &snapshot.catalog) =>
            {
                narrowed.clone()
            }
            _ => {
                let narrowed = Arc::new(snapshot.catalog.narrowed(&snapshot.plan, &self.caller));
                self.narrowed = Some((snapshot.generation, snapshot.catalog.clone(), narrowed.clone()));
                narrowed
            }
        };
        Arc::new(snapshot.with_catalog(catalog))
    }

    /// The JSON texts of the tools that are listed: our own first, then config order of servers and name. `snapshot` is
    /// what this session sees.
    pub fn listed(&self, snapshot: &Snapshot, mode: Disclosure, old_era: bool) -> Vec<Arc<str>> {
        let mut listed = Vec::new();
        if mode.lists_ours(snapshot) {
            listed.extend(meta::own_tools(snapshot.plan.search.limit).into_iter().map(Arc::from));
        }
        let tools = snapshot.catalog.tools().iter().filter(|tool| self.lists(tool, mode));
        listed.extend(tools.map(|tool| if old_era { for_old_era(&tool.text) } else { tool.text.clone() }));
        listed
    }

    fn lists(&self, tool: &CatalogTool, mode: Disclosure) -> bool {
        mode.lists(tool) || mode == Disclosure::Promote && self.activation.is_promoted(tool.exposed.as_str())
    }

    /// Promotes what a search found.
    pub fn promote<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) -> Promotion {
        self.activation.promote(names)
    }

    /// A tool was called without an error: a deferred one is promoted, a promoted one counts as used.
    pub fn called(&mut self, tool: &CatalogTool) -> bool {
        tool.deferred && self.activation.promote([tool.exposed.as_str()]).changed()
    }
}

/// Revisions before 2026-07-28 take only an object as the root of an output schema.
fn for_old_era(tool: &Arc<str>) -> Arc<str> {
    #[derive(Deserialize)]
    struct Output {
        #[serde(rename = "outputSchema")]
        output: Option<serde_json::Value>,
    }
    let odd = memmem::find(tool.as_bytes(), b"\"outputSchema\"").is_some()
        && serde_json::from_str::<Output>(tool)
            .ok()
            .and_then(|tool| tool.output)
            .is_some_and(|schema| schema.get("type").is_none_or(|kind| kind != "object"));
    if !odd {
        return tool.clone();
    }
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(tool) {
        Ok(mut map) => {
            map.shift_remove("outputSchema");
            json::text(&map).into()
        }
        Err(_) => tool.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_output_schema_that_older_clients_refuse_is_left_out_for_them() {
        let fine = r#"{"name":"a","outputSchema":{"type":"object"}}"#;
        let for_old_era = |tool: &str| super::for_old_era(&Arc::from(tool)).to_string();
        assert_eq!(for_old_era(fine), fine);
        assert_eq!(for_old_era(r#"{"name":"a","outputSchema":{"type":"array"},"x":1}"#), r#"{"name":"a","x":1}"#);
    }

    #[test]
    fn auto_decides_by_era() {
        assert_eq!(DisclosureSetting::Auto.for_client(true), Disclosure::Bridge);
        assert_eq!(DisclosureSetting::Auto.for_client(false), Disclosure::Promote);
        assert_eq!(DisclosureSetting::Always(Disclosure::All).for_client(true), Disclosure::All);
    }
}
