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

impl Step {
    /// The server that it happens to.
    pub fn server(&self) -> &ServerName {
        match self {
            Self::Stop(name) | Self::Start(name) | Self::Replace(name, _) => name,
        }
    }

    /// The server, when it is connected by it.
    pub fn connects(&self) -> Option<&ServerName> {
        (!matches!(self, Self::Stop(_))).then_some(self.server())
    }

    /// The word that is shown.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Stop(_) => "removed",
            Self::Start(_) => "added",
            Self::Replace(..) => "changed",
        }
    }
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.server(), self.word())
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
        server.sampling,
        server.launch.remote().map(|_| &plan.ca_bundle),
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::LazyLock;

    use proptest::prelude::*;

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
        let new = "mcp_servers: [{ name: a, command: x, defer: false, description: d, max_result_chars: 9, tools: { include: [q] } }]\n\
                   mcp: { denylist: [z], naming: '{server}__{tool}' }\n\
                   prompt: { budget: { chars: 10 } }";
        assert_eq!(steps(old, new), [] as [String; 0]);
    }

    #[test]
    fn what_is_offered_to_a_server_and_trusted_of_it_is_its_connection() {
        let old = "mcp_servers: [{ name: a, command: x }, { name: b, url: 'https://b.example' }]";
        assert_eq!(steps(old, &format!("{old}\nmcp: {{ ca_bundle: a.pem }}")), [r#"Replace("b", Swap)"#]);
        assert_eq!(steps(old, &old.replace("command: x", "command: x, sampling: true")), [r#"Replace("a", Swap)"#]);
    }

    #[test]
    fn what_its_life_depends_on_replaces_the_connection() {
        let old = "mcp_servers: [{ name: a, command: x }]";
        for more in [
            "enabled: false",
            "connect: lazy",
            "idle_stop_seconds: 9",
            "persistent_sessions: false",
            "restart: on_call",
            "restart: on_failure, reconnect: { attempts: 9 }",
            "timeout_seconds: 9",
            "call_timeout_seconds: 9",
            "when: { env: [A] }",
            "required: true",
        ] {
            let new = format!("mcp_servers: [{{ name: a, command: x, {more} }}]");
            assert_eq!(steps(old, &new), [r#"Replace("a", Swap)"#], "{more}");
        }
    }

    /// Plans over a few servers, each there or not, and in one of several forms.
    static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| {
        let forms = ["command: x", "command: y", "command: x, enabled: false", "command: x, defer: false"];
        let entry = |name: &str, form: usize| forms.get(form).map(|form| format!("{{ name: {name}, {form} }}"));
        let all = (0..125).map(|number| {
            let mut entries: Vec<_> = [("a", number % 5), ("b", number / 5 % 5), ("c", number / 25)]
                .map(|(name, form)| entry(name, form))
                .into_iter()
                .flatten()
                .collect();
            if number % 2 == 0 {
                entries.reverse();
            }
            plan(&format!("mcp_servers: [{}]", entries.join(", ")))
        });
        all.collect()
    });

    /// What runs: each server with what its connection depends on.
    fn running(plan: &Plan) -> BTreeMap<ServerName, String> {
        let text = |server: &Server| format!("{:?} {}", server.launch, server.enabled);
        plan.servers.iter().map(|server| (server.name.clone(), text(server))).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        /// One reload after another: the steps lead from what runs to what is to run, touch nothing else, and never begin
        /// what hasn't ended.
        #[test]
        fn the_steps_lead_from_one_plan_to_the_next(path in proptest::collection::vec(0usize..125, 1..12)) {
            let mut old = &PLANS[path[0]];
            let mut runs = running(old);
            for next in path {
                let new = &PLANS[next];
                let wanted = running(new);
                let before = runs.clone();
                let mut touched = Vec::new();
                for step in reconcile(old, new) {
                    match &step {
                        Step::Stop(name) => prop_assert!(runs.remove(name).is_some(), "{step:?}: it doesn't run"),
                        Step::Start(name) => {
                            prop_assert!(runs.insert(name.clone(), wanted[name].clone()).is_none(), "{step:?}: it runs");
                        }
                        Step::Replace(name, _) => {
                            let was = runs.insert(name.clone(), wanted[name].clone());
                            prop_assert!(was.is_some_and(|was| was != wanted[name]), "{step:?}: for nothing");
                        }
                    }
                    let (Step::Stop(name) | Step::Start(name) | Step::Replace(name, _)) = step;
                    prop_assert!(!touched.contains(&name), "{name} twice");
                    touched.push(name);
                }
                prop_assert_eq!(&runs, &wanted);
                let untouched = wanted.iter().filter(|(name, _)| !touched.contains(name));
                for (name, form) in untouched {
                    prop_assert_eq!(before.get(name), Some(form));
                }
                old = new;
            }
        }
    }
}
