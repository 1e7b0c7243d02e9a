//! Whose a prompt or an address is, for whom.

use mcplan_compiler::observed::{Prompt, Resource, ResourceTemplate};
use proptest::prelude::*;

use super::*;
use crate::core::catalog::tests::plan;

fn entry<T: serde::de::DeserializeOwned>(field: &str, value: &str) -> Arc<Entry<T>> {
    let name = if field == "name" { String::new() } else { r#""name":"n","#.to_owned() };
    Arc::new(Entry::parse(&format!("{{{name}{}:{}}}", json::string(field), json::string(value))).unwrap())
}

fn listing(prompts: &[&str], resources: Option<&[&str]>, templates: &[&str]) -> Listing {
    Listing {
        prompts: prompts.iter().map(|name| entry::<Prompt>("name", name)).collect(),
        resources: resources.map(|uris| uris.iter().map(|uri| entry::<Resource>("uri", uri)).collect()),
        templates: templates.iter().map(|uri| entry::<ResourceTemplate>("uriTemplate", uri)).collect(),
        ..Listing::default()
    }
}

fn built(plan: &Plan, listings: Vec<(&str, Listing)>) -> Offers {
    Offers::build(plan, &listings.into_iter().map(|(name, list)| (ServerName::new(name).unwrap(), list)).collect())
}

fn caller(agent: &str, workspace: Option<&str>) -> Caller {
    Caller { agent: agent.to_owned(), workspace: workspace.map(str::to_owned), home: None }
}

fn uris(offers: &Offers) -> Vec<&str> {
    offers.resources().map(|resource| resource.uri.as_str()).collect()
}

fn whose(offers: &Offers, plan: &Plan, caller: &Caller, uri: &str) -> Option<String> {
    offers.find(plan, Some(caller), uri).ok().map(|found| format!("{} {}", found.server, found.uri))
}

#[test]
fn a_shared_address_is_the_first_ones_whom_this_caller_may_read() {
    let plan = plan(
        "mcp_servers: [{ name: a, command: x }, { name: b, command: x }]\n\
         agents: { guest: { tools: [b], resources: ['b:**'] } }",
    );
    let offers = built(
        &plan,
        vec![("a", listing(&[], Some(&["x://1", "x://1"]), &[])), ("b", listing(&[], Some(&["x://1", "x://2"]), &[]))],
    );
    let ours = "mcplan://b/x%3A%2F%2F1";
    assert_eq!(uris(&offers), ["x://1", ours, "x://2"], "what a server lists twice is there once");
    let guest = caller("guest", None);
    let narrowed = offers.narrowed(&plan, &guest);
    assert_eq!(uris(&narrowed), ["x://1", "x://2"]);
    assert_eq!(whose(&narrowed, &plan, &guest, "x://1").as_deref(), Some("b x://1"));
    assert_eq!(whose(&narrowed, &plan, &guest, ours).as_deref(), Some("b x://1"), "what another list called it");
    assert_eq!(whose(&narrowed, &plan, &guest, "mcplan://a/x%3A%2F%2F1"), None);
}

#[test]
fn a_server_of_other_workspaces_offers_nothing() {
    let plan =
        plan("mcp_servers: [{ name: a, command: x, workspaces: [/srv] }, { name: b, command: x, workspaces: [/srv] }]");
    let offers = built(
        &plan,
        vec![("a", listing(&["p"], Some(&["x://1"]), &["note://{id}"])), ("b", listing(&[], None, &["log://{id}"]))],
    );
    let (inside, outside) = (caller("lead", Some("/srv/x")), caller("lead", None));
    let here = offers.narrowed(&plan, &inside);
    assert_eq!((here.prompts().len(), uris(&here), here.templates().count()), (1, vec!["x://1"], 2));
    assert_eq!(here.unheard().len(), 1);
    let away = offers.narrowed(&plan, &outside);
    assert_eq!((away.prompts().len(), uris(&away).len(), away.templates().count()), (0, 0, 0));
    assert!(away.unheard().is_empty() && matches!(away.hidden("mcp__a__p"), Some((_, Hidden::OtherWorkspace))));
    for uri in ["x://1", "note://7", "log://7", "mcplan://a/x%3A%2F%2F1", "y://only"] {
        assert_eq!(whose(&away, &plan, &outside, uri), None, "{uri}");
    }
}

#[test]
fn what_the_lock_speaks_against_is_nobodys() {
    let plan = plan("mcp_servers: [{ name: a, command: x }, { name: b, command: x }]");
    let mut said = listing(&["p", "q"], Some(&["x://1"]), &["note://{id}", "log://{id}"]);
    said.distrusted.prompts.insert("p".to_owned(), Hidden::NotLocked);
    said.distrusted.templates.insert("note://{id}".to_owned(), Hidden::NotLocked);
    let nothing = || ("b", listing(&[], Some(&[]), &[]));
    let offers = built(&plan, vec![("a", said.clone())]);
    assert_eq!(whose(&offers, &plan, &Caller::lead(), "y://other"), None, "b may have it, who hasn't spoken yet");
    let offers = built(&plan, vec![("a", said.clone()), nothing()]);
    assert!(offers.prompt("mcp__a__p").is_none() && offers.prompt("mcp__a__q").is_some());
    assert_eq!(offers.templates().count(), 1);
    let of = |offers: &Offers, uri: &str| whose(offers, &plan, &Caller::lead(), uri);
    // On no route, as the only server with resources neither.
    for uri in ["note://7", "mcplan://a/note%3A%2F%2F7"] {
        assert_eq!(of(&offers, uri), None, "{uri}");
    }
    assert_eq!(of(&offers, "log://7").as_deref(), Some("a log://7"));
    assert_eq!(of(&offers, "y://other").as_deref(), Some("a y://other"));
    said.distrusted.resources = Some(Hidden::NotLocked);
    let offers = built(&plan, vec![("a", said.clone()), nothing()]);
    assert_eq!((uris(&offers).len(), offers.templates().count()), (0, 1));
    assert_eq!((of(&offers, "x://1"), of(&offers, "mcplan://a/x%3A%2F%2F1")), (None, None));
    assert_eq!(of(&offers, "log://7").as_deref(), Some("a log://7"), "what is locked is served");
    said.distrusted.all = Some(Hidden::NotLocked);
    let offers = built(&plan, vec![("a", said), ("b", listing(&[], Some(&["z://1"]), &[]))]);
    assert_eq!((uris(&offers), offers.templates().count()), (vec!["z://1"], 0));
    assert_eq!((of(&offers, "log://7"), of(&offers, "x://1")), (None, None), "nor does it become another one's");
}

#[test]
fn templates_of_which_nothing_may_be_read_are_not_listed() {
    let plan = plan(
        "mcp_servers: [{ name: a, command: x }, { name: b, command: x }]\n\
         policy: { deny: ['mcp:read:b:**', 'mcp:read:a:log://**', 'mcp:read:a:x://deep/**'] }\n\
         agents:\n\
         \x20 one: { tools: [a], resources: ['a:note://7'] }\n\
         \x20 pub: { tools: [a], resources: ['a:x://pub/**'] }",
    );
    let all = ["note://{id}", "log://{+path}", "x://{+path}"];
    let offers = built(&plan, vec![("a", listing(&[], Some(&[]), &all)), ("b", listing(&[], Some(&[]), &all))]);
    let listed = |offers: &Offers| -> Vec<_> {
        offers.templates().map(|template| template.entry.known.uri_template.clone()).collect()
    };
    assert_eq!(listed(&offers), ["note://{id}", "x://{+path}"]);
    let of = |agent: &str| listed(&offers.narrowed(&plan, &caller(agent, None)));
    assert_eq!(of("lead"), ["note://{id}", "x://{+path}"]);
    assert_eq!(of("one"), ["note://{id}"]);
    assert_eq!(of("pub"), ["x://{+path}"]);
    // Why what is listed may not be read is known all the same.
    let offers = built(&plan, vec![("a", listing(&[], Some(&["log://1"]), &[])), ("b", listing(&[], Some(&[]), &[]))]);
    let why = offers.find(&plan, None, "log://1").unwrap_err();
    assert!(matches!(why, Some((_, Hidden::Rule(..)))), "{why:?}");
    let narrowed = offers.narrowed(&plan, &caller("pub", None));
    assert_eq!(narrowed.find(&plan, Some(&caller("pub", None)), "log://1").unwrap_err(), why);
}

#[test]
fn another_order_of_the_same_is_no_other_list_and_another_text_is() {
    let plan = plan("mcp_servers: [{ name: a, command: x }]");
    let of = |uri: &str| built(&plan, vec![("a", listing(&["p"], Some(&[uri]), &["note://{id}"]))]);
    assert!(of("x://1").same(&of("x://1")));
    assert!(!of("x://1").same(&of("x://2")));
    assert!(!of("x://1").same(&built(&plan, vec![("a", listing(&["p"], None, &["note://{id}"]))])));
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded_and_any_other_text_is_no_panic(text in ".*", other in "[%0-9a-fA-F+é]{0,12}") {
        let code = encoded(&text);
        prop_assert!(code.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'/'));
        prop_assert_eq!(decoded(&code), Some(text));
        let _any = decoded(&other);
    }

    /// Whatever servers list, each listed address leads to the server that lists it, as it lists it.
    #[test]
    fn each_listed_address_can_be_read(
        lists in proptest::collection::vec(proptest::collection::vec("(x://[ab]|[ab]:%2[0f]|mcplan://[ab]/.?|mcplan://[bc]/x%3A%2F%2F[ab]|.{0,3})", 0..5), 1..4),
    ) {
        let names = ["a", "b", "c"];
        let plan = plan("mcp_servers: [{ name: a, command: x }, { name: b, command: x }, { name: c, command: x }]");
        let listings = lists.iter().zip(names).map(|(list, name)| {
            let list: Vec<_> = list.iter().map(String::as_str).collect();
            (name, listing(&[], Some(&list), &["x://{id}"]))
        });
        let offers = built(&plan, listings.collect());
        for resource in offers.resources() {
            let found = offers.find(&plan, Some(&Caller::lead()), &resource.uri);
            let expected = Found { server: resource.server.clone(), uri: resource.entry.known.uri.clone() };
            prop_assert_eq!(found.map_err(|_| ()), Ok(expected));
        }
        let mut addresses: Vec<_> = offers.resources().map(|resource| &resource.uri).collect();
        addresses.sort();
        prop_assert!(addresses.windows(2).all(|pair| pair[0] != pair[1]), "{addresses:?}");
    }
}
