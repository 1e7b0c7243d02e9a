//! Who asks: built once at the edge, and all that `core` sees of a client.

use mcplan_compiler::plan::{LEAD, Plan, Server, SlashPattern};

/// Who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The agent; one that the plan doesn't declare sees nothing.
    pub agent: String,
    /// The directory that the session works in, absolute, symlinks resolved.
    pub workspace: Option<String>,
    /// What `~` means in the globs of workspaces, absolute, symlinks resolved.
    pub home: Option<String>,
}

/// An agent that the plan doesn't declare.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent `{agent}`; the agents are {}", .known.join(", "))]
pub struct UnknownAgent {
    agent: String,
    known: Vec<String>,
}

impl Caller {
    /// The agent that always exists, in no workspace.
    pub fn lead() -> Self {
        Self { agent: LEAD.to_owned(), workspace: None, home: None }
    }

    /// Whether the plan declares the agent.
    ///
    /// # Errors
    /// When it doesn't.
    pub fn check(&self, plan: &Plan) -> Result<(), UnknownAgent> {
        if plan.agents.contains_key(&self.agent) {
            return Ok(());
        }
        Err(UnknownAgent { agent: self.agent.clone(), known: plan.agents.keys().cloned().collect() })
    }

    /// Whether every tool that policy leaves is this caller's.
    pub fn sees_all(&self, plan: &Plan) -> bool {
        let unlimited = plan.agents.get(&self.agent).is_some_and(|agent| agent.is_unlimited());
        unlimited && plan.servers.iter().all(|server| server.workspaces.is_empty())
    }

    /// Whether a server is there for the workspace that this caller is in. A convenience, no security boundary.
    pub fn is_in_workspace_of(&self, server: &Server) -> bool {
        if server.workspaces.is_empty() {
            return true;
        }
        let Some(workspace) = &self.workspace else { return false };
        server.workspaces.iter().any(|glob| {
            let glob = match (glob.strip_prefix('~'), &self.home) {
                (Some(rest), Some(home)) => format!("{home}{rest}"),
                _ => glob.clone(),
            };
            let pattern = SlashPattern::new(glob.trim_end_matches('/'));
            // Lying under a place is lying in anything below it: each directory above is tried too.
            let ends = workspace.char_indices().filter(|(at, c)| *c == '/' && *at > 0).map(|(at, _)| at);
            ends.chain([workspace.len()]).any(|end| pattern.matches(&workspace[..end]))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::catalog::tests::plan;

    fn inside(globs: &str, workspace: Option<&str>) -> bool {
        let plan = plan(&format!("mcp_servers: [{{ name: a, command: x, workspaces: {globs} }}]"));
        let caller =
            Caller { workspace: workspace.map(str::to_owned), home: Some("/home/me".into()), ..Caller::lead() };
        caller.is_in_workspace_of(&plan.servers[0])
    }

    #[test]
    fn a_workspace_lies_under_a_glob() {
        assert!(inside("[]", None));
        assert!(!inside("['~/src/**']", None), "no workspace, no such server");
        assert!(inside("['~/src/**']", Some("/home/me/src/app/deep")));
        assert!(inside("['~/src/*']", Some("/home/me/src/app/deep")));
        assert!(inside("[/work]", Some("/work")) && inside("[/work/]", Some("/work/x")));
        assert!(!inside("[/work]", Some("/workshop")));
        assert!(!inside("['~/src/**']", Some("/home/you/src/app")));
    }
}
