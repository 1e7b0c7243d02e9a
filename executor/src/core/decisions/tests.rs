//! The decisions that are told are those that the catalog makes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcplan_compiler::prompt_template::Template;

use super::*;
use crate::core::catalog::tests::{listings, plan};
use crate::core::catalog::{Catalog, names};

/// A config with every kind of decision in it.
const CONFIG: &str = "
mcp_servers:
  - { name: a, command: x, tools: { include: [read, 'w*', both, long*, 'a.b', a_b], exclude: [w1, both], always: [read] } }
  - { name: b, command: x, defer: false, workspaces: [/work] }
  - { name: off, command: x, enabled: false }
  - { name: waits, command: x, when: { env: [THERE] } }
  - { name: c, command: x }
mcp: { denylist: [a__w2], naming: '{tool}', name_limit: 16, reserved: [kept] }
policy: { read_only: true, allow: ['mcp:call:*:*'], deny: ['mcp:call:c:no*'] }
agents:
  guest: { tools: ['a__*', 'c__*'], policy: { default: deny, allow: ['mcp:call:a:*'] } }
";

fn all(agent: &str, workspace: Option<&str>) -> Vec<(Decided, Snapshot)> {
    let plan = plan(CONFIG);
    let mut lists: BTreeMap<_, _> = listings(&[
        ("a", &["read", "w1", "w2", "w3", "both", "other", "a.b", "a_b", "long_long_long_name"]),
        ("b", &["read", "search_mcp_tools"]),
        ("off", &["read"]),
        ("waits", &["wait"]),
        ("c", &["no_1", "kept", "free"]),
    ]);
    for (server, listing) in &mut lists {
        if server.as_str() == "a" {
            listing.names_only = vec!["w4".to_owned(), "gone".to_owned()];
        }
    }
    let table = names(&plan, &lists);
    let caller = Caller { agent: agent.into(), workspace: workspace.map(str::to_owned), home: None };
    let narrowed = Catalog::build(&plan, &lists).narrowed(&plan, &caller);
    let template = Template::parse(plan.prompt.template.content.text()).unwrap();
    let seen = Snapshot::new(0, Arc::new(plan.clone()), narrowed.into(), BTreeMap::new(), template.into());
    let mut all = Vec::new();
    for server in &plan.servers {
        let listing = &lists[&server.name];
        let unmet = (server.name.as_str() == "waits").then_some("THERE");
        for tool in listing.names() {
            let decided = Decided::about(Subject { server, listing, tool, unmet }, &caller, &seen, &table);
            all.push((decided, seen.with_catalog(seen.catalog.clone())));
        }
    }
    all
}

/// Whatever the catalog offers is dropped by nothing, and what hides a tool there is among the decisions.
#[test]
fn decisions_are_those_of_the_catalog() {
    let mut reasons = BTreeSet::new();
    for (agent, workspace) in
        [("lead", None), ("lead", Some("/work")), ("guest", None), ("guest", Some("/work")), ("nobody", None)]
    {
        for (decided, seen) in all(agent, workspace) {
            let drops: Vec<_> = decided.decisions.iter().filter(|decision| decision.drops).collect();
            // No server has said anything, so no reason of the plan's may have ended there.
            assert!(drops.iter().all(|decision| decision.about != About::Quarantine), "{agent}: {decided:?}");
            let ours = OWN_TOOLS.contains(&&*decided.exposed);
            let stands = if ours {
                Standing::Hidden(decided.server.clone(), Hidden::Reserved)
            } else {
                seen.standing(&decided.exposed)
            };
            let offered = matches!(decided.conclusion, Conclusion::Listed | Conclusion::Deferred);
            assert_eq!(drops.is_empty(), offered, "{agent}: {decided:?}");
            if offered {
                assert_eq!(
                    decided.conclusion == Conclusion::Listed,
                    stands == Standing::Listed,
                    "{agent}: {decided:?}"
                );
                continue;
            }
            assert!(decided.decisive().drops, "{agent}: {decided:?}");
            match stands {
                Standing::Hidden(_, why) if decided.decisive().why.is_some() => {
                    assert_eq!(decided.decisive().why, Some(why.clone()), "{agent}: {decided:?}");
                    assert_eq!(decided.conclusion == Conclusion::Denied, why.is_denial(), "{agent}: {decided:?}");
                    reasons.insert(format!("{why:?}").split('(').next().map(str::to_owned));
                }
                _ => assert!(matches!(decided.server.as_str(), "off" | "waits"), "{agent}: {decided:?}"),
            }
        }
    }
    let all = [
        "Denylist",
        "DeniedByDefault",
        "Excluded",
        "NoText",
        "NotIncluded",
        "NotTheAgents",
        "OtherWorkspace",
        "Reserved",
        "Rule",
    ];
    assert_eq!(reasons, all.map(|word| Some(word.to_owned())).into());
}

#[test]
fn what_saves_or_renames_a_tool_is_told() {
    let of = |tool: &str| all("lead", Some("/work")).into_iter().find(|(decided, _)| decided.tool == tool).unwrap().0;
    let about = |tool: &str, wanted: fn(&About) -> bool| {
        of(tool).decisions.into_iter().find(|decision| wanted(&decision.about)).unwrap().about
    };
    let exclude = about("both", |about| matches!(about, About::Exclude { .. }));
    assert_eq!(exclude, About::Exclude { by: Some("both".into()), literal: Some("both".into()) });
    let naming = |about: &About| matches!(about, About::Naming(_));
    assert_eq!(about("a.b", naming), About::Naming(Naming::Taken(Some((ServerName::new("a").unwrap(), "a_b".into())))));
    assert_eq!(about("long_long_long_name", naming), About::Naming(Naming::Length(19)));
    assert_eq!(
        about("search_mcp_tools", |about| matches!(about, About::Reserved { .. })),
        About::Reserved { ours: true }
    );
    assert_eq!(of("kept").exposed, "kept");
    assert_eq!(of("wait").exposed, "wait");
    let policy = about("free", |about| matches!(about, About::Policy(_)));
    assert_eq!(policy, About::Policy(Ruling::Allow("mcp:call:*:*".into())));
}

/// What only a running executor knows is told as the server's change.
#[test]
fn what_a_server_says_now_can_take_a_tool_away() {
    let plan = plan("mcp_servers: [{ name: a, command: x }]");
    let mut lists = listings(&[("a", &["fine"])]);
    let listing = lists.values_mut().next().unwrap();
    listing.quarantined =
        vec![mcplan_compiler::observed::Quarantined { name: "odd".into(), reason: "it has no schema".into() }];
    let template = Template::parse(plan.prompt.template.content.text()).unwrap();
    let catalog = Catalog::build(&plan, &lists);
    let seen = Snapshot::new(0, Arc::new(plan.clone()), catalog.into(), BTreeMap::new(), template.into());
    let listing = Listing { names_only: vec!["odd".into()], ..lists.values().next().unwrap().clone() };
    let subject = Subject { server: &plan.servers[0], listing: &listing, tool: "odd", unmet: None };
    let decided = Decided::about(subject, &Caller::lead(), &seen, &names(&plan, &lists));
    assert_eq!(decided.conclusion, Conclusion::Hidden);
    assert_eq!(decided.decisive().about, About::Quarantine);
    assert_eq!(decided.decisive().why, Some(Hidden::Quarantined("it has no schema".into())));
}
