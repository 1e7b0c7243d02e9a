//! Prompts and resources of servers, as a client of `mcplan run --stdio` has them.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use serde_json::{Value, json};
use support::client::{Client, Era};
use support::{Project, config, release, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

const PROMPTS: &str = "notifications/prompts/list_changed";
const RESOURCES: &str = "notifications/resources/list_changed";

/// A server with these offers.
fn offering(project: &Project, name: &str, offers: Value, more: Value) -> Value {
    scripted(name, &script(project, name, offers), more)
}

fn script(project: &Project, name: &str, offers: Value) -> Value {
    json!({ "name": name, "tools": ["become"], "offers": offers, "log": project.path(&format!("{name}.log")) })
}

/// A project with the servers `a` and `b` that have these offers.
fn two(a: Value, b: Value, more: Value) -> Project {
    let project = Project::new("");
    let servers = [offering(&project, "a", a, json!({})), offering(&project, "b", b, json!({}))];
    project.write("config.yml", &config(&servers, more));
    project
}

fn client(project: &Project, args: &[&str]) -> Client {
    let mut client = Client::start(project, args);
    client.initialize("2025-11-25");
    client
}

/// One field of everything in a list.
fn listed(client: &mut Client, method: &str, field: &str) -> Vec<String> {
    let result = client.request(method, json!({}));
    let (_, items) = result.as_object().unwrap().iter().find(|(_, value)| value.is_array()).unwrap();
    items.as_array().unwrap().iter().map(|item| item[field].as_str().unwrap().to_owned()).collect()
}

/// Who answered the reading of an address, and for which one it was asked.
fn read(client: &mut Client, uri: &str) -> (String, String) {
    let contents = client.request("resources/read", json!({ "uri": uri }))["contents"][0].clone();
    let name = contents["text"].as_str().unwrap().split(' ').next().unwrap().to_owned();
    (name, contents["uri"].as_str().unwrap().to_owned())
}

fn not_found(client: &mut Client, uri: &str) {
    let error = client.error("resources/read", json!({ "uri": uri }));
    assert_eq!(error, json!({ "code": -32002, "message": format!("resource not found: {uri}") }));
}

/// What the server `a` received of this method.
fn received(project: &Project, method: &str) -> Vec<Value> {
    let log = project.read_so_far("a.log");
    let messages = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter(|message| message["method"] == method).collect()
}

#[test]
fn prompts_are_listed_under_exposed_names_and_fetched_each_time() {
    let greet = r#"{"x-vendor":1.50,"name":"greet me","arguments":[{"name":"who","required":true}]}"#;
    let project = two(json!({ "prompts": [greet, "ask"] }), json!({ "prompts": ["ask"] }), json!({}));
    for era in [Era::Session, Era::Stateless] {
        let mut client = Client::connect(&project, &["-vv"], era);
        if era == Era::Session {
            let info = client.initialize("2025-11-25");
            assert_eq!(info["capabilities"]["prompts"]["listChanged"], true);
            assert_eq!(info["capabilities"]["resources"]["listChanged"], true);
        }
        let list = client.send("prompts/list", json!({}));
        let list = client.raw_answer(list);
        assert!(list.contains(&greet.replace("greet me", "mcp__a__greet_me")), "{list}");
        let list: Value = serde_json::from_str(&list).unwrap();
        let names: Vec<_> =
            list["result"]["prompts"].as_array().unwrap().iter().map(|prompt| &prompt["name"]).collect();
        assert_eq!(names, ["mcp__a__ask", "mcp__a__greet_me", "mcp__b__ask"]);
        let told = ["resultType", "ttlMs", "cacheScope"].map(|field| list["result"].get(field).is_some());
        assert_eq!(told, [era == Era::Stateless; 3]);
        for round in 1..=2 {
            let params =
                json!({ "name": "mcp__a__greet_me", "arguments": { "who": "Ada" }, "_meta": { "trace": round } });
            let got = client.send("prompts/get", params);
            let got = client.raw_answer(got);
            assert!(got.contains(r#""x-more":1.50,"messages":[{"#), "{got}");
            assert!(got.contains(r#"greet me {\"who\":\"Ada\"}"#), "{got}");
            assert_eq!(got.contains("resultType"), era == Era::Stateless);
        }
        let sent: Vec<_> = received(&project, "prompts/get").into_iter().rev().take(2).collect();
        assert_eq!(
            (&sent[1]["params"]["_meta"]["trace"], &sent[0]["params"]["_meta"]["trace"]),
            (&json!(1), &json!(2))
        );
        client.request("prompts/get", json!({ "name": "mcp__b__ask" }));
        client.logged("prompt.invoked: a: greet me: ", 0);
        client.end();
    }
    let unknown = "mcp__a__nope";
    let mut client = client(&project, &[]);
    let error = client.error("prompts/get", json!({ "name": unknown }));
    assert_eq!(error, json!({ "code": -32602, "message": format!("unknown prompt: {unknown}") }));
    let error = client.error("prompts/get", json!({}));
    assert_eq!(error["message"], "prompts/get can't be read: missing field `name`");
    let error = client.error("resources/read", json!({ "name": "x://1" }));
    assert_eq!(error["message"], "resources/read can't be read: missing field `uri`");
    client.end();
}

#[test]
fn an_address_belongs_to_the_first_server_that_has_it() {
    let a = json!({ "resources": ["x://both", "x://a"], "templates": ["note://{id}", "x://t/{id}"] });
    let b = json!({ "resources": ["x://both", "x://b?q=1&r=ä"], "templates": ["note://{id}", "log://{+path}"] });
    let project = two(a, b, json!({}));
    let mut client = client(&project, &["-vv"]);
    let other = "mcplan://b/x%3A%2F%2Fboth";
    assert_eq!(listed(&mut client, "resources/list", "uri"), ["x://both", "x://a", other, "x://b?q=1&r=ä"]);
    assert_eq!(
        listed(&mut client, "resources/templates/list", "uriTemplate"),
        ["note://{id}", "x://t/{id}", "note://{id}", "log://{+path}"]
    );
    for (uri, server, asked) in [
        ("x://both", "a", "x://both"),
        // Under the address by which the client knows it.
        (other, "b", other),
        ("x://b?q=1&r=ä", "b", "x://b?q=1&r=ä"),
        ("note://My Note", "a", "note://My Note"),
        ("log://var/log/x", "b", "log://var/log/x"),
        ("mcplan://b/note%3A%2F%2F7", "b", "mcplan://b/note%3A%2F%2F7"),
    ] {
        assert_eq!(read(&mut client, uri), (server.to_owned(), asked.to_owned()), "{uri}");
    }
    client.logged("resource.read: b: log://var/log/x: ", 0);
    for uri in ["x://nobody", "mcplan://c/x%3A%2F%2Fboth", "mcplan://b/%zz", "mcplan://b", "x://t/1/2", ""] {
        not_found(&mut client, uri);
    }
    client.logged("policy.denied: mcp:read:x://nobody: no server has such a resource", 0);
    // What the server says of its own goes out as it is.
    let error = client.error("resources/read", json!({ "uri": "log://missing" }));
    assert_eq!(error, json!({ "code": -32002, "message": "it is gone", "data": { "uri": "log://missing" } }));
    client.end();
}

#[test]
fn the_only_server_with_resources_is_asked_for_what_nobody_lists() {
    let project = two(json!({ "resources": ["x://a"] }), json!({}), json!({}));
    let mut client = client(&project, &[]);
    assert_eq!(read(&mut client, "y://Other/Place"), ("a".to_owned(), "y://Other/Place".to_owned()));
    client.end();
}

#[test]
fn policy_decides_of_prompts_and_resources_and_hidden_is_like_unknown() {
    let a = json!({ "prompts": ["ask", "secret"], "resources": ["file:///pub/x", "file:///etc/key", "x://both"],
                    "templates": ["file:///{+path}"] });
    let b = json!({ "resources": ["x://both"] });
    let policy = json!({
        "policy": { "deny": ["mcp:invoke:a:secret", "mcp:read:a:file:///etc/**", "mcp:read:a:x://**"] },
        "agents": { "guest": { "tools": ["a"], "prompts": ["a__ask"], "resources": ["a:file:///pub/**"] },
                    "deaf": { "tools": ["a"] } },
    });
    let project = two(a, b, policy);
    let mut lead = client(&project, &[]);
    assert_eq!(listed(&mut lead, "prompts/list", "name"), ["mcp__a__ask"]);
    // The first whom policy allows has it, under its own address.
    assert_eq!(listed(&mut lead, "resources/list", "uri"), ["file:///pub/x", "x://both"]);
    assert_eq!(read(&mut lead, "x://both").0, "b");
    let error = lead.error("prompts/get", json!({ "name": "mcp__a__secret" }));
    assert_eq!(error, json!({ "code": -32602, "message": "unknown prompt: mcp__a__secret" }));
    let line = lead.logged("policy.denied: mcp:invoke:mcp__a__secret", 0);
    assert!(line.contains("of server a: policy denies it with `mcp:invoke:a:secret` (config.yml:"), "{line}");
    for uri in [
        "file:///etc/key",
        "FILE:///pub/../etc/key",
        "file://localhost/%65tc/key",
        "file:///etc%2fkey",
        "mcplan://a/file%3A%2F%2F%2Fetc%2Fkey",
        "mcplan://a/x%3A%2F%2Fboth",
    ] {
        not_found(&mut lead, uri);
    }
    // With rules on reading the form that they looked at is what is asked for.
    assert_eq!(read(&mut lead, "file:///pub/./deep/../y").1, "file:///pub/y");
    lead.end();
    let asked: Vec<_> = received(&project, "resources/read").iter().map(|read| read["params"]["uri"].clone()).collect();
    assert_eq!(asked, ["file:///pub/y"], "the server hears nothing of what is denied");

    let mut guest = client(&project, &["--agent", "guest"]);
    assert_eq!(listed(&mut guest, "prompts/list", "name"), ["mcp__a__ask"]);
    assert_eq!(listed(&mut guest, "resources/list", "uri"), ["file:///pub/x"]);
    assert_eq!(read(&mut guest, "file:///pub/z").0, "a");
    not_found(&mut guest, "x://both");
    not_found(&mut guest, "file:///home/z");
    guest.end();

    let mut deaf = client(&project, &["--agent", "deaf"]);
    for method in ["prompts/list", "resources/list", "resources/templates/list"] {
        assert_eq!(listed(&mut deaf, method, "name"), Vec::<String>::new(), "{method}");
    }
    not_found(&mut deaf, "file:///pub/x");
    let error = deaf.error("prompts/get", json!({ "name": "mcp__a__ask" }));
    assert_eq!(error["message"], "unknown prompt: mcp__a__ask");
    deaf.end();
}

#[test]
fn lists_of_resources_can_be_denied_while_they_are_read() {
    let a = json!({ "resources": ["x://a"], "templates": ["note://{id}"] });
    let project = two(a, json!({}), json!({ "policy": { "deny": ["mcp:list:a"] } }));
    let mut client = client(&project, &[]);
    for method in ["resources/list", "resources/templates/list"] {
        assert_eq!(listed(&mut client, method, "uri"), Vec::<String>::new(), "{method}");
    }
    assert_eq!(read(&mut client, "x://a").0, "a");
    client.end();
}

#[test]
fn a_change_is_announced_to_whoever_has_listed_and_only_when_the_list_changed() {
    let before = json!({ "prompts": ["p"], "resources": ["x://1"] });
    let project = two(before.clone(), json!({}), json!({ "mcp": { "defer": false } }));
    let mut client = client(&project, &[]);
    client.text("mcp__a__become", json!({ "offers": { "prompts": ["q"], "resources": ["x://1"] } }));
    client.logged("server.list_changed: a: 1 prompts before, 1 now", 0);
    assert_eq!(client.notices(PROMPTS), 0, "nobody has listed them yet");
    assert_eq!(listed(&mut client, "prompts/list", "name"), ["mcp__a__q"]);
    assert_eq!(listed(&mut client, "resources/list", "uri"), ["x://1"]);
    client.text("mcp__a__become", json!({ "offers": { "prompts": ["q"], "resources": ["x://1", "x://2"] } }));
    client.notice(RESOURCES);
    assert_eq!(client.notices(PROMPTS), 0, "they are the same");
    assert_eq!(listed(&mut client, "resources/list", "uri"), ["x://1", "x://2"]);
    client.text("mcp__a__become", json!({ "offers": { "prompts": [], "resources": ["x://1", "x://2"] } }));
    client.notice(PROMPTS);
    assert_eq!(listed(&mut client, "prompts/list", "name"), Vec::<String>::new());
    assert_eq!((client.notices(RESOURCES), client.notices("notifications/tools/list_changed")), (0, 0));
    client.end();

    // Without a session it is told by a subscription, of the kinds that were asked for.
    let mut client = Client::stateless(&project, &[]);
    client.request("prompts/list", json!({}));
    client.send("subscriptions/listen", json!({ "notifications": { "promptsListChanged": true } }));
    client.notice("notifications/subscriptions/acknowledged");
    client.text("mcp__a__become", json!({ "offers": { "prompts": ["r"], "resources": [] } }));
    client.notice(PROMPTS);
    assert_eq!((client.notices(RESOURCES), client.notices(PROMPTS)), (0, 0));
    client.end();
}

#[test]
fn prompts_and_templates_are_there_from_the_lock_and_resources_once_they_are_known() {
    let project =
        two(json!({ "prompts": ["p"], "templates": ["note://{id}"], "resources": ["x://1"] }), json!({}), json!({}));
    project.lock();
    let gate = project.pipe("gate");
    let mut gated =
        script(&project, "a", json!({ "prompts": ["p"], "templates": ["note://{id}"], "resources": ["x://1"] }));
    gated["gate"] = json!(gate);
    // What a server is given isn't what it is known by.
    project.replace(
        "config.yml",
        &config(&[scripted("a", &gated, json!({})), offering(&project, "b", json!({}), json!({}))], json!({})),
    );
    let mut client = client(&project, &[]);
    assert_eq!(listed(&mut client, "prompts/list", "name"), ["mcp__a__p"]);
    assert_eq!(listed(&mut client, "resources/templates/list", "uriTemplate"), ["note://{id}"]);
    let (resources, reading) =
        (client.send("resources/list", json!({})), client.send("resources/read", json!({ "uri": "x://1" })));
    client.request("ping", json!({}));
    assert_eq!(client.waiting(), 0, "neither is answered before the server is there");
    release(&gate);
    assert_eq!(client.answer(resources)["result"]["resources"][0]["uri"], "x://1");
    assert_eq!(client.answer(reading)["result"]["contents"][0]["text"], "a has it");
    client.end();
}

#[test]
fn what_isnt_as_locked_is_neither_listed_nor_fetched() {
    let project = Project::new("");
    project.write("offers", &json!({ "prompts": ["p"], "templates": ["note://{id}"] }).to_string());
    let script = json!({ "tools": [], "offers_file": project.path("offers") });
    let policy = json!({ "policy": { "on_drift": { "wording": "quarantine" } } });
    project.write("config.yml", &config(&[scripted("a", &script, json!({}))], policy));
    project.lock();
    let other = |item: &str| format!(r#"{{{item},"description":"other words altogether"}}"#);
    let says = json!({
        "prompts": [other(r#""name":"p""#), "new"], "resources": ["x://1"],
        "templates": [other(r#""name":"n","uriTemplate":"note://{id}""#), "log://{id}"],
    });
    project.replace("offers", &says.to_string());
    for (args, prompts, templates, resources) in
        [(&[][..], vec!["mcp__a__new"], vec!["log://{id}"], vec!["x://1"]), (&["--locked"], vec![], vec![], vec![])]
    {
        let mut client = client(&project, args);
        client.logged("server.connected: a ", 0);
        // Until it has spoken, it is what the lock says.
        client.logged("prompt `p`", 0);
        assert_eq!(listed(&mut client, "prompts/list", "name"), prompts, "{args:?}");
        assert_eq!(listed(&mut client, "resources/templates/list", "uriTemplate"), templates, "{args:?}");
        assert_eq!(listed(&mut client, "resources/list", "uri"), resources, "{args:?}");
        let error = client.error("prompts/get", json!({ "name": "mcp__a__p" }));
        assert_eq!(error["message"], "unknown prompt: mcp__a__p");
        client.logged("policy.denied: mcp:invoke:mcp__a__p: of server a: it isn't what was locked", 0);
        client.end();
    }
}

/// A server that lists prompts and resources and can't list its tools is held against the lock as any other.
#[test]
fn a_kind_whose_list_fails_leaves_the_others_and_their_judgement() {
    let error = json!({ "tools/list": { "error": { "code": -32000, "message": "no tools today" } } });
    let project = Project::new("");
    let offers = |word: &str| json!({ "prompts": ["p"], "resources": ["x://1"], "templates": [word] }).to_string();
    project.write("offers", &offers("note://{id}"));
    project.write("at", "{}");
    let script = json!({ "tools": ["t"], "offers_file": project.path("offers"), "at_file": project.path("at") });
    let refuse = json!({ "policy": { "on_drift": { "breaking": "refuse" } } });
    project.write("config.yml", &config(&[scripted("a", &script, json!({}))], refuse));
    project.replace("at", &error.to_string());
    let mut first = client(&project, &[]);
    assert_eq!(listed(&mut first, "prompts/list", "name"), ["mcp__a__p"], "without a lock");
    assert_eq!(listed(&mut first, "resources/list", "uri"), ["x://1"]);
    first.end();
    project.replace("at", "{}");
    project.lock();
    project.replace("at", &error.to_string());
    let mut second = client(&project, &[]);
    second.logged("server.connected: a ", 0);
    assert_eq!(listed(&mut second, "resources/list", "uri"), ["x://1"]);
    assert_eq!(second.text("mcp__a__t", json!({})), "t done", "it is as it was locked");
    second.end();
    // A template is gone, which this policy refuses: everything of the server, its locked tools too.
    project.replace("offers", &offers("log://{id}"));
    let mut third = client(&project, &[]);
    third.logged("server.refused: a: ", 0);
    assert_eq!(listed(&mut third, "prompts/list", "name"), Vec::<String>::new());
    assert_eq!(listed(&mut third, "resources/list", "uri"), Vec::<String>::new());
    for uri in ["x://1", "mcplan://a/x%3A%2F%2F1", "log://7"] {
        not_found(&mut third, uri);
    }
    let error = third.error("tools/call", json!({ "name": "mcp__a__t", "arguments": {} }));
    assert_eq!(error["message"], "unknown tool: mcp__a__t");
    third.end();
}

#[test]
fn a_lazy_servers_resources_are_there_with_a_lock_as_without() {
    let project = Project::new("");
    let lazy = json!({ "connect": "lazy" });
    let servers = [
        offering(&project, "a", json!({ "resources": ["x://1"] }), lazy.clone()),
        offering(&project, "b", json!({ "resources": ["y://1"] }), lazy),
    ];
    project.write("config.yml", &config(&servers, json!({})));
    for is_locked in [false, true] {
        if is_locked {
            project.lock();
        }
        let mut reader = client(&project, &[]);
        assert_eq!(read(&mut reader, "y://1").0, "b", "locked: {is_locked}");
        reader.end();
        let mut lister = client(&project, &[]);
        assert_eq!(listed(&mut lister, "resources/list", "uri"), ["x://1", "y://1"], "locked: {is_locked}");
        lister.end();
    }
}

/// Whoever is there first doesn't get what is another one's.
#[test]
fn an_address_waits_for_the_server_that_may_list_it() {
    let project = Project::new("");
    let gate = project.pipe("gate");
    let mut slow = script(&project, "b", json!({ "resources": ["note://7"] }));
    slow["gate"] = json!(gate);
    let quick = json!({ "resources": ["x://1"], "templates": ["note://{id}"] });
    let servers = [offering(&project, "a", quick, json!({})), scripted("b", &slow, json!({}))];
    project.write("config.yml", &config(&servers, json!({})));
    let mut client = client(&project, &[]);
    client.logged("server.connected: a ", 0);
    assert_eq!(read(&mut client, "x://1").0, "a", "what is listed needs no waiting");
    let reading = client.send("resources/read", json!({ "uri": "note://7" }));
    client.request("ping", json!({}));
    assert_eq!(client.waiting(), 0);
    release(&gate);
    assert_eq!(client.answer(reading)["result"]["contents"][0]["text"], "b has it");
    client.end();
}

#[test]
fn files_are_denied_however_they_are_spelt() {
    let a = json!({ "resources": ["file:///pub/x"], "templates": ["file:{+path}"] });
    let project = two(a, json!({}), json!({ "policy": { "deny": ["mcp:read:a:file:///etc/**"] } }));
    let mut client = client(&project, &[]);
    for uri in [
        "file:/etc/passwd",
        "file:etc/passwd",
        "file:/%65tc/passwd",
        "file:////etc/passwd",
        "file:///pub//..//etc/passwd",
        "file://127.0.0.1/etc/passwd",
        "file://[::1]/etc/passwd",
        "file://elsewhere/etc/passwd",
        "file:///pub/x?y",
        "mcplan://a/file:/etc/passwd",
    ] {
        not_found(&mut client, uri);
    }
    assert_eq!(read(&mut client, "file:/pub//y").1, "file:///pub/y");
    client.end();
}

#[test]
fn a_long_list_has_pages_and_each_of_its_resources_can_be_read() {
    let many: Vec<_> = (0..1500).map(|index| format!("x://{index:04}")).collect();
    let project = two(json!({ "resources": many }), json!({ "resources": ["y://b"] }), json!({}));
    let mut client = client(&project, &[]);
    let first = client.request("resources/list", json!({}));
    assert_eq!(first["resources"].as_array().unwrap().len(), 1000);
    let rest = client.request("resources/list", json!({ "cursor": first["nextCursor"] }));
    assert_eq!((rest["resources"].as_array().unwrap().len(), rest.get("nextCursor")), (501, None));
    let all = first["resources"].as_array().unwrap().iter().chain(rest["resources"].as_array().unwrap());
    for resource in all.step_by(100) {
        let uri = resource["uri"].as_str().unwrap();
        assert_eq!(read(&mut client, uri).1, uri);
    }
    client.end();
}
