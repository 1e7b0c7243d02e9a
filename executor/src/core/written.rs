//! Where the rule behind a refusal is written. Both `explain` and the event ask here, so that they point to one place.

use mcplan_compiler::name::ServerName;
use mcplan_compiler::places::{Places, PolicyPlaces};
use mcplan_compiler::plan::Plan;
use mcplan_compiler::source::{Lines, Span};

use super::catalog::{Hidden, Whose};

/// Where what a plan says is written, without the files' texts. Of a plan that comes from a lock nothing is.
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// As the compiler found them.
    pub places: Places,
    /// What makes a line of them.
    pub lines: Lines,
}

impl Written {
    /// File and line of what hides a tool, as in `config.yml:12`.
    pub fn place(&self, plan: &Plan, server: &ServerName, exposed: &str, why: &Hidden) -> Option<String> {
        rule(&self.places, plan, server, exposed, why).map(|at| self.lines.shown(at))
    }
}

/// What hides a server's tool of that exposed name, as it is written; nothing where nobody wrote it: what a server says,
/// and a name that is one of our own tools'.
pub fn rule(places: &Places, plan: &Plan, server: &ServerName, exposed: &str, why: &Hidden) -> Option<Span> {
    let of_server = places.servers.get(server.as_str());
    let policy = |whose: &Whose| -> Option<&PolicyPlaces> {
        match whose {
            Whose::Everyones => Some(&places.policy),
            Whose::Agents(agent) => places.agents.get(agent).map(|agent| &agent.policy),
        }
    };
    match why {
        Hidden::NotIncluded => of_server?.include_list,
        Hidden::Excluded(pattern) => of_server?.exclude.find(pattern),
        Hidden::Denylist(pattern) => places.denylist.find(pattern),
        Hidden::Reserved => places.reserved.find(exposed),
        Hidden::Rule(whose, rule) => policy(whose)?.deny.find(rule),
        Hidden::DeniedByDefault(whose) => policy(whose)?.default,
        Hidden::NotReadOnly(whose) => policy(whose)?.read_only,
        Hidden::NotTheAgents(agent, _) => places.agents.get(agent).map(|agent| agent.at),
        Hidden::OtherWorkspace => of_server?.workspaces.find(plan.server(server.as_str())?.workspaces.first()?),
        Hidden::Quarantined(_)
        | Hidden::NoText
        | Hidden::NotLocked
        | Hidden::Drifted(_)
        | Hidden::Refused(_)
        | Hidden::OddUri => None,
    }
}

#[cfg(test)]
mod tests {
    use mcplan_compiler::source::MemorySources;

    use super::*;
    use crate::core::caller::Caller;
    use crate::core::catalog::Catalog;
    use crate::core::catalog::tests::listings;

    /// Each reason that somebody wrote, on a line of its own.
    const CONFIG: &str = "\
mcp_servers:
  - name: a
    command: x
    tools:
      include: [x, 'w*', d, r, v, keep, 'n*']
      exclude: [w]
  - { name: b, command: x, workspaces: [/work] }
mcp:
  naming: '{tool}'
  reserved: [keep]
  denylist:
    - a__d
policy:
  deny:
    - mcp:call:a:r
agents:
  guest:
    tools: ['a__x', 'a__n*', b]
    policy:
      deny:
        - mcp:call:a:n1
      read_only: true
  strict:
    tools: ['*']
    policy:
      default: deny
";

    #[test]
    fn each_reason_that_somebody_wrote_has_its_line() {
        let files = MemorySources([("config.yml".to_owned(), CONFIG.as_bytes().to_vec())].into());
        let compiled = mcplan_compiler::compile("config.yml", &files).unwrap();
        let plan = compiled.plan.unwrap_or_else(|| panic!("{:#?}", compiled.diagnostics));
        let written = Written { places: compiled.places, lines: compiled.texts.lines() };
        let lists = listings(&[("a", &["x", "w", "d", "r", "v", "keep", "o", "n1", "n2"]), ("b", &["b"])]);
        let whole = Catalog::build(&plan, &lists);
        let line = |agent: &str, name: &str| {
            let narrowed = whole.narrowed(&plan, &Caller { agent: agent.to_owned(), ..Caller::lead() });
            let (server, why) = narrowed.hidden(name).unwrap_or_else(|| panic!("{name} is offered to {agent}"));
            written.place(&plan, server, name, why)
        };
        for (agent, name, at) in [
            ("lead", "o", 5),
            ("lead", "w", 6),
            ("lead", "b", 7),
            ("lead", "keep", 10),
            ("lead", "d", 12),
            ("lead", "r", 15),
            ("guest", "v", 17),
            ("guest", "n1", 21),
            ("guest", "n2", 22),
            ("strict", "x", 26),
            // The policy of all is asked first.
            ("strict", "r", 15),
        ] {
            assert_eq!(line(agent, name), Some(format!("config.yml:{at}")), "{name} of {agent}");
        }
        assert_eq!(Written::default().place(&plan, &plan.servers[0].name, "w", &Hidden::Excluded("w".into())), None);
    }
}
