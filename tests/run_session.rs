//! What a client of `mcplan run --stdio` sees and may do, in both eras, over the real binary and real processes.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use serde_json::{Value, json};
use support::client::{Client, Era};
use support::{Project, config, demo, release, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

/// One scripted server `s` with these tools.
fn with_tools(tools: Value, entry: Value, more: Value) -> Project {
    let project = Project::new("");
    let script = json!({ "tools": tools, "log": project.path("log") });
    project.write("config.yml", &config(&[scripted("s", &script, entry)], more));
    project
}

/// What the server received of this method.
fn received(project: &Project, method: &str) -> Vec<Value> {
    let log = project.read_so_far("log");
    let messages = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter(|message| message["method"] == method).collect()
}

const OWN: [&str; 2] = ["search_mcp_tools", "call_mcp_tool"];

#[test]
fn each_mode_lists_what_it_should() {
    let project = with_tools(
        json!(["echo", "always", "gone"]),
        json!({ "tools": { "always": ["always"], "exclude": ["gone"] } }),
        json!({}),
    );
    let own = |more: &[&'static str]| [&OWN[..], more].concat();
    for (args, era, expected) in [
        (&[][..], Era::Session, own(&["mcp__s__always"])),
        (&[], Era::Stateless, own(&["mcp__s__always"])),
        (&["--disclosure", "promote"], Era::Session, own(&["mcp__s__always"])),
        (&["--disclosure", "bridge"], Era::Session, own(&["mcp__s__always"])),
        (&["--disclosure", "all"], Era::Session, vec!["mcp__s__always", "mcp__s__echo"]),
        (&["--disclosure", "all"], Era::Stateless, vec!["mcp__s__always", "mcp__s__echo"]),
    ] {
        let mut client = Client::connect(&project, args, era);
        if era == Era::Session {
            client.initialize("2025-11-25");
        }
        assert_eq!(client.names(), expected, "{args:?} {era:?}");
        client.end();
    }
}

#[test]
fn a_stateless_client_needs_no_handshake_and_is_told_what_it_needs() {
    let project = with_tools(json!(["echo"]), json!({}), json!({}));
    let mut client = Client::stateless(&project, &[]);
    let discovered = client.request("server/discover", json!({}));
    assert_eq!(discovered["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "mcplan", "{discovered}");
    assert_eq!(discovered["capabilities"]["tools"]["listChanged"], true);
    assert!(discovered["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")), "{discovered}");
    let list = client.request("tools/list", json!({}));
    assert_eq!(
        (&list["resultType"], &list["ttlMs"], &list["cacheScope"]),
        (&json!("complete"), &json!(0), &json!("private"))
    );
    let called = client.call("mcp__s__echo", json!({ "a": 1 }));
    assert_eq!(called["resultType"], "complete");
    assert_eq!(called["content"][0]["text"], r#"{"a":1}"#);
    client.end();
}

#[test]
fn a_client_with_a_session_hears_nothing_of_the_new_era() {
    let project = with_tools(json!(["echo"]), json!({}), json!({}));
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = Client::connect(&project, &[], Era::Session);
        let initialized = client.initialize(version);
        assert_eq!(initialized["protocolVersion"], version);
        let served = ["tools", "prompts", "resources"].map(|kind| (kind.to_owned(), json!({ "listChanged": true })));
        let served = Value::Object(served.into_iter().collect());
        assert_eq!(initialized["capabilities"], served, "nothing that isn't served");
        let list = client.request("tools/list", json!({}));
        assert_eq!(list.as_object().unwrap().keys().collect::<Vec<_>>(), ["tools"]);
        assert!(client.call("mcp__s__echo", json!({})).get("resultType").is_none());
        client.end();
    }
}

#[test]
fn search_promotes_announces_and_lists() {
    let project = with_tools(json!(["echo", "pid"]), json!({}), json!({}));
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), OWN);
    let found = client.text("search_mcp_tools", json!({ "query": "echo" }));
    assert!(found.starts_with("1 tool for \"echo\":\n\nmcp__s__echo (server s)\n"), "{found}");
    client.notice("notifications/tools/list_changed");
    assert_eq!(client.names(), [OWN[0], OWN[1], "mcp__s__echo"]);
    // The same again changes nothing, so nothing is announced.
    client.text("search_mcp_tools", json!({ "query": "echo" }));
    // A direct call of another one promotes too, but not one that failed.
    client.text("mcp__s__pid", json!({}));
    client.notice("notifications/tools/list_changed");
    assert_eq!(client.names(), [OWN[0], OWN[1], "mcp__s__echo", "mcp__s__pid"]);
    assert_eq!(client.notices("notifications/tools/list_changed"), 0);
    client.end();
}

/// With `-v`, because a busy session would fill a log with them.
#[test]
fn every_call_and_search_is_told_of_when_that_is_asked_for() {
    let script = json!({ "tools": ["echo", "never", "fail"] });
    let servers = [scripted("s", &script, json!({ "call_timeout_seconds": 0.2 }))];
    for verbose in [true, false] {
        let project = Project::new(&config(&servers, json!({})));
        let mut client = Client::start(&project, if verbose { &["-v"] } else { &[] });
        client.names();
        client.call("search_mcp_tools", json!({ "query": "echo" }));
        client.text("mcp__s__echo", json!({}));
        client.failure("mcp__s__never", json!({}));
        client.failure("mcp__s__fail", json!({ "say": "no" }));
        let log = client.end();
        for (line, is_quiet) in [
            ("search.queried: \"echo\": 1 found", true),
            ("tool.promoted: mcp__s__echo", true),
            ("tool.invoked: s: echo: ok, ", true),
            ("tool.invoked: s: fail: error, ", true),
            ("tool.timeout: s: never: stopped, it took longer than 0.2 s", false),
        ] {
            assert_eq!(log.contains(line), verbose || !is_quiet, "{line}\n{log}");
        }
    }
}

#[test]
fn a_block_without_room_is_told_of() {
    let servers = [scripted("s", &json!({ "tools": ["echo"] }), json!({}))];
    let project = Project::new(&config(&servers, json!({ "prompt": { "budget": { "chars": 10 } } })));
    let mut client = Client::stateless(&project, &[]);
    client.names();
    let discovered = client.request("server/discover", json!({}));
    assert!(discovered["instructions"].as_str().unwrap_or_default().is_empty(), "{discovered}");
    client.logged("block-over-budget: not even counts fit the budget; the block is empty", 0);
    client.end();
}

#[test]
fn a_call_that_fails_promotes_nothing() {
    let project = with_tools(json!(["fail", "refuse"]), json!({}), json!({}));
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.failure("mcp__s__fail", json!({ "say": "no flour" })), "no flour");
    let error = client.error("tools/call", json!({ "name": "mcp__s__refuse", "arguments": { "say": "not today" } }));
    assert_eq!(error, json!({ "code": -32050, "message": "not today", "data": 1.5 }));
    assert_eq!(client.names(), OWN);
    assert_eq!(client.notices("notifications/tools/list_changed"), 0);
    client.end();
}

#[test]
fn a_stateless_list_never_changes_by_searching_or_calling() {
    let project = with_tools(json!(["echo", "become"]), json!({}), json!({}));
    let mut client = Client::stateless(&project, &[]);
    let id = client.send("tools/list", json!({}));
    let before = client.raw_answer(id).replace(&format!("\"id\":{id},"), "");
    let found = client.text("search_mcp_tools", json!({ "query": "echo" }));
    assert!(found.contains(r#"Call one with call_mcp_tool {"name": …, "arguments": {…}}."#), "{found}");
    assert_eq!(client.text("call_mcp_tool", json!({ "name": "mcp__s__echo", "arguments": { "x": 1 } })), r#"{"x":1}"#);
    client.text("mcp__s__echo", json!({}));
    let id = client.send("tools/list", json!({}));
    assert_eq!(client.raw_answer(id).replace(&format!("\"id\":{id},"), ""), before);
    client.end();
}

#[test]
fn a_subscription_hears_of_changes_until_it_is_cancelled() {
    let project = with_tools(json!(["become"]), json!({ "defer": false }), json!({}));
    let mut client = Client::stateless(&project, &[]);
    assert_eq!(client.names(), ["mcp__s__become"]);
    let subscription = client.send("subscriptions/listen", json!({ "notifications": { "toolsListChanged": true } }));
    let acknowledged = client.notice("notifications/subscriptions/acknowledged");
    assert_eq!(acknowledged["params"]["notifications"]["toolsListChanged"], true, "{acknowledged}");
    client.text("mcp__s__become", json!({ "tools": ["become", "echo"] }));
    let notice = client.notice("notifications/tools/list_changed");
    let key = "io.modelcontextprotocol/subscriptionId";
    assert_eq!(notice["params"]["_meta"][key], subscription, "{notice}");
    assert_eq!(client.names(), ["mcp__s__become", "mcp__s__echo"]);
    client.notify("notifications/cancelled", json!({ "requestId": subscription }));
    client.text("mcp__s__become", json!({ "tools": ["become", "pid"] }));
    client.logged("server.list_changed", client.mark().saturating_sub(1));
    assert_eq!(client.notices("notifications/tools/list_changed"), 0);
    client.end();
}

#[test]
fn call_mcp_tool_takes_what_models_send_and_says_what_is_wrong() {
    let project = with_tools(json!(["echo"]), json!({}), json!({}));
    let mut client = Client::start(&project, &[]);
    let mut call = |arguments: Value| client.call("call_mcp_tool", arguments)["content"][0]["text"].clone();
    assert_eq!(call(json!({ "name": "mcp__s__echo" })), "{}");
    assert_eq!(call(json!({ "name": "mcp__s__echo", "arguments": null })), "{}");
    assert_eq!(call(json!({ "name": "mcp__s__echo", "arguments": "{\"a\": 2}" })), r#"{"a":2}"#);
    assert_eq!(call(json!({ "name": "mcp__s__echo", "arguments": [1] })), "`arguments` takes an object");
    assert_eq!(call(json!({})), "`name` takes the name of a tool, as search_mcp_tools gave it");
    // Our own tools aren't tools of a server.
    let error =
        client.error("tools/call", json!({ "name": "call_mcp_tool", "arguments": { "name": "call_mcp_tool" } }));
    assert_eq!(error["message"], "unknown tool: call_mcp_tool");
    client.end();
}

/// TS-08: the same words on every route, whatever the reason, and the server hears nothing of it.
#[test]
fn what_is_hidden_is_unknown_on_every_route() {
    let tools =
        json!(["delete_entity", "drop_table", "read_entity", r#"{"name":"bad","inputSchema":{"type":"string"}}"#]);
    for locked in [false, true] {
        let project = with_tools(
            tools.clone(),
            json!({ "tools": { "exclude": ["delete_entity"] } }),
            json!({ "mcp": { "denylist": ["mcp__s__drop_*"] } }),
        );
        if locked {
            project.lock();
        }
        for era in [Era::Session, Era::Stateless] {
            let mut client = Client::connect(&project, &[], era);
            if era == Era::Session {
                client.initialize("2025-11-25");
            }
            let denied = [
                ("mcp__s__delete_entity", "of server s: `tools.exclude` drops it with `delete_entity`"),
                ("mcp__s__drop_table", "of server s: `mcp.denylist` drops it with `mcp__s__drop_*`"),
                ("mcp__s__bad", if locked { "" } else { "of server s: it can't be used" }),
                ("mcp__s__DELETE_ENTITY", "no server has a tool of that name"),
                ("mcp__S__delete_entity", "no server has a tool of that name"),
                ("delete_entity", "no server has a tool of that name"),
                ("s__delete_entity", "no server has a tool of that name"),
                ("mcp__s__delete_entity ", "no server has a tool of that name"),
                ("mcp__s__nope", "no server has a tool of that name"),
                ("", "no server has a tool of that name"),
            ];
            for (name, rule) in denied {
                let mark = client.mark();
                let direct = client.error("tools/call", json!({ "name": name, "arguments": {} }));
                let expected = json!({ "code": -32602, "message": format!("unknown tool: {name}") });
                assert_eq!(direct, expected);
                let bridged =
                    client.error("tools/call", json!({ "name": "call_mcp_tool", "arguments": { "name": name } }));
                assert_eq!(bridged, expected);
                client.logged(&format!("policy.denied: mcp:call:{name}: {rule}"), mark);
            }
            let found =
                client.text("search_mcp_tools", json!({ "query": "delete_entity", "queries": ["drop_table", "bad"] }));
            assert!(!found.contains("mcp__s__d") && !found.contains("mcp__s__bad"), "{found}");
            assert_eq!(client.text("mcp__s__read_entity", json!({})), "read_entity done");
            client.end();
        }
        let calls = received(&project, "tools/call");
        assert_eq!(calls.len(), 2, "only the allowed ones reached the server: {calls:?}");
    }
}

#[test]
fn a_name_is_shown_bounded_and_on_one_line() {
    let project = with_tools(json!(["echo"]), json!({}), json!({}));
    let mut client = Client::start(&project, &[]);
    let name = format!("x\n2026 forged line\u{1b}[31m{}", "y".repeat(100_000));
    let error = client.error("tools/call", json!({ "name": name, "arguments": {} }));
    assert!(error["message"].as_str().unwrap().len() < 400, "{}", error["message"].as_str().unwrap().len());
    let log = client.end();
    let line = log.lines().find(|line| line.contains("policy.denied")).unwrap();
    assert!(line.contains("forged line") && line.len() < 600, "{line}");
    assert!(!log.contains('\u{1b}'), "{log}");
}

/// Every listed name can be called and reaches its own tool, however alike the names are.
#[test]
fn each_listed_tool_is_called_by_its_listed_name() {
    let long = "x".repeat(80);
    let odd = [
        "a",
        "A",
        "a.b",
        "a b",
        "a_b",
        "a-b",
        "a__b",
        "mcp__s__a",
        "ä",
        "search_mcp_tools",
        "1",
        "a/b",
        &long,
        &format!("{long}y"),
    ];
    let project = Project::new("");
    let servers: Vec<_> = ["s", "t", "s.t", "s-t"]
        .iter()
        .map(|name| {
            scripted(
                name,
                &json!({ "tools": odd, "log": project.path(&format!("log-{name}")) }),
                json!({ "defer": false }),
            )
        })
        .collect();
    project.write("config.yml", &config(&servers, json!({})));
    let mut client = Client::start(&project, &[]);
    let names = client.names();
    assert_eq!(names.len(), 4 * odd.len());
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len(), "{names:?}");
    let mut reached: Vec<_> = names.iter().map(|name| client.text(name, json!({}))).collect();
    let mut expected: Vec<_> = odd.iter().flat_map(|tool| vec![format!("{tool} done"); 4]).collect();
    reached.sort();
    expected.sort();
    assert_eq!(reached, expected);
    client.end();
}

#[test]
fn a_client_that_goes_away_ends_its_calls_and_everything_else() {
    let project = with_tools(json!(["never", "echo"]), json!({}), json!({}));
    let mut client = Client::start(&project, &[]);
    client.send("tools/call", json!({ "name": "mcp__s__never", "arguments": {} }));
    client.text("mcp__s__echo", json!({}));
    client.end();
    assert!(project.read("log").ends_with("end of input\n"), "its stdin was closed, not only its life ended");
}

#[test]
fn a_call_that_still_runs_at_the_end_of_input_is_answered() {
    let project = with_tools(json!(["wait", "echo"]), json!({}), json!({}));
    let gate = project.pipe("gate");
    let mut client = Client::start(&project, &[]);
    let id = client.send("tools/call", json!({ "name": "mcp__s__wait", "arguments": { "gate": gate } }));
    client.text("mcp__s__echo", json!({}));
    client.hang_up();
    release(&gate);
    assert_eq!(client.answer(id)["result"]["content"][0]["text"], "let go");
    client.end();
}

/// LIF-06: one notice for a change that shows, none for one that doesn't.
#[test]
fn a_changed_list_is_announced_once_and_only_if_it_shows() {
    let project = with_tools(
        json!(["become", "shown"]),
        json!({ "defer": false, "tools": { "exclude": ["hidden_*"] } }),
        json!({}),
    );
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), ["mcp__s__become", "mcp__s__shown"]);
    let mark = client.mark();
    client.text("mcp__s__become", json!({ "tools": ["become", "shown", "hidden_1"], "notices": 5 }));
    client.logged("server.list_changed: s: 2 tools before, 3 now", mark);
    let mark = client.mark();
    client.text("mcp__s__become", json!({ "tools": ["become", "hidden_2", "new"], "notices": 20 }));
    client.logged("server.list_changed: s: 3 tools before, 3 now", mark);
    client.notice("notifications/tools/list_changed");
    assert_eq!(client.names(), ["mcp__s__become", "mcp__s__new"]);
    assert_eq!(client.notices("notifications/tools/list_changed"), 0);
    client.end();
}

#[test]
fn the_block_is_in_the_instructions_and_holds_what_is_deferred() {
    let project = with_tools(json!(["echo", "pid", "open"]), json!({ "tools": { "always": ["open"] } }), json!({}));
    project.lock();
    let rendered = project.run(&["render"]);
    assert!(rendered.out.contains("mcp__s__echo") && !rendered.out.contains("mcp__s__open"), "{rendered:?}");
    let mut client = Client::connect(&project, &[], Era::Session);
    let initialized = client.initialize("2025-11-25");
    assert_eq!(initialized["instructions"].as_str().unwrap().trim_end(), rendered.out.trim_end());
    client.end();
    let mut client = Client::stateless(&project, &[]);
    assert_eq!(
        client.request("server/discover", json!({}))["instructions"].as_str().unwrap().trim_end(),
        rendered.out.trim_end()
    );
    client.end();
}

#[test]
fn the_demo_server_behind_us_answers_like_the_demo_server() {
    let project =
        Project::new(&config(&[demo("d", &[], json!({ "defer": false }))], json!({ "mcp": { "naming": "{tool}" } })));
    let mut behind = Client::start(&project, &[]);
    let mut direct = Client::spawn(support::mcplan(&["demo-server"]), Era::Session);
    direct.initialize("2025-11-25");
    let mut expected = direct.tools();
    expected.sort_by_key(|tool| tool["name"].as_str().unwrap().to_owned());
    assert_eq!(behind.tools(), expected);
    for (name, arguments) in [("echo", json!({ "text": "hi" })), ("list_issues", json!({})), ("echo", json!({}))] {
        assert_eq!(behind.call(name, arguments.clone()), direct.call(name, arguments), "{name}");
    }
    behind.end();
    direct.end();
}

#[test]
fn an_agent_sees_and_calls_only_what_is_its_own() {
    let server = |name: &str| scripted(name, &json!({ "tools": ["echo", "drop", "look"] }), json!({ "defer": false }));
    let more = json!({
        "policy": { "deny": ["mcp:call:*:drop"] },
        "agents": { "lead": {}, "guest": { "tools": ["one__*"], "policy": { "deny": ["mcp:call:one:look"] } } },
    });
    let project = Project::new(&config(&[server("one"), server("two")], more));

    let mut lead = Client::start(&project, &["--agent", "lead"]);
    let all = ["mcp__one__echo", "mcp__one__look", "mcp__two__echo", "mcp__two__look"];
    assert_eq!(lead.names_when(|names| names.len() == all.len()), all);
    lead.end();

    let mut guest = Client::start(&project, &["--agent", "guest"]);
    assert_eq!(guest.names_when(|names| !names.is_empty()), ["mcp__one__echo"]);
    assert_eq!(guest.text("mcp__one__echo", json!({ "a": 1 })), r#"{"a":1}"#);
    // Whatever the reason, it isn't there.
    for hidden in ["mcp__one__look", "mcp__one__drop", "mcp__two__echo", "mcp__two__nothing"] {
        let unknown = guest.error("tools/call", json!({ "name": hidden }));
        assert!(unknown.to_string().contains(&format!("unknown tool: {hidden}")), "{unknown}");
    }
    guest.end();

    let nobody = project.run(&["run", "--stdio", "--agent", "nobody"]);
    assert!(nobody.code == 2 && nobody.err.contains("the agents are guest, lead"), "{nobody:?}");
}

#[test]
fn no_more_is_promoted_than_the_config_allows() {
    let more = json!({ "search": { "limit": 3, "promote_limit": 2 } });
    let project = with_tools(json!(["note_a", "note_b", "note_c", "note_d"]), json!({}), more);
    let mut client = Client::start(&project, &[]);
    let found = client.text("search_mcp_tools", json!({ "query": "note" }));
    assert!(found.starts_with("3 tools for \"note\""), "{found}");
    assert_eq!(client.names_when(|names| names.len() > 2).len(), 4, "two of them beside our own");
    // Who comes later takes the place of who came first.
    client.text("search_mcp_tools", json!({ "query": "mcp__s__note_d", "limit": 1 }));
    let names = client.names_when(|names| names.contains(&"mcp__s__note_d".to_owned()));
    assert_eq!(names.len(), 4, "{names:?}");
    client.end();
}

/// The rule that denied a call is found in the file that it stands in: the config, its profile or a fragment; also
/// after a line has moved, which is no other plan, and nowhere where the lock is the plan.
#[test]
fn a_denial_is_told_with_the_place_of_its_rule() {
    let server = |name: &str, more: &str| {
        let entry = scripted(name, &json!({ "tools": ["a", "b", "c", "d"] }), json!({}));
        let entry = entry.to_string();
        format!("  - {}{more} }}\n", entry.strip_suffix('}').unwrap())
    };
    let main = format!(
        "fragments: [team.yml]\nmcp_servers:\n{}policy:\n  deny:\n    - mcp:call:s:b\nagents:\n  lead:\n    tools: ['*__a', '*__b']\n",
        server("s", "\n  , tools: { exclude:\n    [a] }")
    );
    let project = Project::new(&main);
    project.write("config.prod.yml", "mcp:\n  denylist:\n    - t__a\n");
    project.write("team.yml", &format!("mcp_servers:\n{}policy:\n  deny:\n\n    - mcp:call:t:b\n", server("t", "")));
    let ran = project.run(&["lock", "--profile", "prod"]);
    assert_eq!(ran.code, 0, "{ran:?}");
    let told = |client: &mut Client, tool: &str, place: &str| {
        let mark = client.mark();
        client.error("tools/call", json!({ "name": tool, "arguments": {} }));
        let line = client.logged(&format!("policy.denied: mcp:call:{tool}: "), mark);
        assert!(if place.is_empty() { !line.contains("yml") } else { line.ends_with(place) }, "{place}: {line}");
    };
    let mut client = Client::start(&project, &["--profile", "prod"]);
    for (tool, place) in [
        ("mcp__s__a", " (config.yml:5)"),
        ("mcp__s__b", " (config.yml:8)"),
        ("mcp__s__c", " (config.yml:10)"),
        ("mcp__t__a", " (config.prod.yml:3)"),
        ("mcp__t__b", " (team.yml:6)"),
        ("mcp__t__nope", ""),
    ] {
        told(&mut client, tool, place);
    }
    project.replace("config.yml", &format!("# one\n# two\n{main}"));
    let ran = project.run(&["reload", "--profile", "prod"]);
    assert!(ran.code == 0 && !client.log().contains("plan.reloaded"), "{ran:?}\n{}", client.log());
    told(&mut client, "mcp__s__b", " (config.yml:10)");
    project.replace("config.yml", &main.replace("mcp:call:s:b", "mcp:call:s:b*"));
    client.logged("plan.reloaded", 0);
    told(&mut client, "mcp__s__b", " (config.yml:8)");
    client.end();
    // Explained from the same file, it has the same place.
    project.replace("config.yml", &main);
    let explained = project.run(&["explain", "mcp__s__b", "--profile", "prod"]);
    assert!(explained.out.contains("(config.yml:8)"), "{explained:?}");
    let mut frozen = Client::start(&project, &["--profile", "prod", "--frozen"]);
    told(&mut frozen, "mcp__s__b", "");
    frozen.end();
}
