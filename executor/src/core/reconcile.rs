//! Old plan × new plan → what has to happen to connections. Only a server whose connection would differ is touched.

use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::{Limits, Plan, Replace, Server};

/// One thing to do, in the order of the new plan; stops come first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The server is gone from the plan.
    Stop(ServerName),
    /// The server is new.
    Start(ServerName),
    /// The server's connection has to be made anew.
    Replace(ServerName, Replace),
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stop(name) => write!(f, "{name} removed"),
            Self::Start(name) => write!(f, "{name} added"),
            Self::Replace(name, _) => write!(f, "{name} changed"),
        }
    }
}

/// What has to happen when `new` follows `old`.
pub fn reconcile(old: &Plan, new: &Plan) -> Vec<Step> {
    let gone = old.servers.iter().filter(|server| new.server(server.name.as_str()).is_none());
    let mut steps: Vec<_> = gone.map(|server| Step::Stop(server.name.clone())).collect();
    for server in &new.servers {
        match old.server(server.name.as_str()) {
            None => steps.push(Step::Start(server.name.clone())),
            Some(before) if connection(old, before) != connection(new, server) => {
                steps.push(Step::Replace(server.name.clone(), server.replace));
            }
            Some(_) => {}
        }
    }
    steps
}

/// What of a server's plan its connection depends on. Filters, deferral, descriptions and names are not among it.
fn connection<'a>(plan: &'a Plan, server: &'a Server) -> impl PartialEq + 'a {
    (
        plan.enabled && server.enabled,
        &server.launch,
        &server.when_env,
        // How much of a result is shown is nothing to a connection.
        Limits { max_result_chars: 0, ..server.limits },
        &server.reconnect,
        (server.persistent_sessions, server.connect, server.idle_stop_seconds),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::catalog::tests::plan;

    fn steps(old: &str, new: &str) -> Vec<String> {
        reconcile(&plan(old), &plan(new)).iter().map(|step| format!("{step:?}")).collect()
    }

    #[test]
    fn only_what_changed_is_touched() {
        let old = "mcp_servers: [{ name: a, command: x }, { name: b, command: x }, { name: c, command: x }]";
        assert_eq!(steps(old, old), [] as [String; 0]);
        let new = "mcp_servers: [{ name: d, command: x }, { name: b, command: y, replace: stop_first }, { name: c, command: x }]";
        assert_eq!(steps(old, new), [r#"Stop("a")"#, r#"Start("d")"#, r#"Replace("b", StopFirst)"#]);
    }

    #[test]
    fn filters_names_and_prompt_restart_nothing() {
        let old = "mcp_servers: [{ name: a, command: x }]";
        let new = "mcp_servers: [{ name: a, command: x, defer: false, description: d, tools: { include: [q] } }]\n\
                   mcp: { denylist: [z], naming: '{server}__{tool}' }\n\
                   prompt: { budget: { chars: 10 } }";
        assert_eq!(steps(old, new), [] as [String; 0]);
    }

    #[test]
    fn switching_off_replaces_the_connection() {
        let old = "mcp_servers: [{ name: a, command: x }]";
        assert_eq!(steps(old, "mcp_servers: [{ name: a, command: x, enabled: false }]"), [r#"Replace("a", Swap)"#]);
    }
}
