//! What servers ask while a call is in flight: the client whose call it is answers, and nobody else.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use serde_json::{Value, json};
use support::client::{Client, Era};
use support::remote::{Kind, Remote};
use support::{Project, config, release, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

const ELICITATION: &str = "elicitation/create";
const SAMPLING: &str = "sampling/createMessage";

fn project(more: Value) -> Project {
    let project = Project::new("");
    let script = json!({ "tools": ["fault", "wait"] });
    project.write("config.yml", &config(&[scripted("s", &script, more)], json!({})));
    project
}

fn client(project: &Project, args: &[&str], capabilities: Value) -> Client {
    let mut client = Client::connect(project, args, Era::Session);
    client.capabilities = capabilities;
    client.initialize("2025-11-25");
    client
}

/// Parameters of a server's question.
fn question(method: &str) -> Value {
    match method {
        ELICITATION => json!({ "message": "which oven?", "x-vendor": 1.5, "requestedSchema": {
            "type": "object", "properties": { "oven": { "type": "string" } } } }),
        SAMPLING => {
            json!({ "maxTokens": 5, "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }] })
        }
        _ => json!({}),
    }
}

/// Parameters of a call in the middle of which the server asks.
fn asks(method: &str) -> Value {
    json!({ "name": "mcp__s__fault", "arguments": { "do": { "ask": [method, question(method)] } } })
}

/// Of a call that a server of the new era answers with a question.
fn asks_instead(method: &str) -> Value {
    json!({ "name": "mcp__r__ask", "arguments": { "method": method, "params": question(method) } })
}

/// The text of an answer, which is JSON.
fn said(answer: &Value) -> Value {
    serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap()
}

/// What a server lists may depend on it, so that what is locked would not be what is run.
#[test]
fn a_server_is_offered_the_same_whatever_connects_it() {
    for sampling in [false, true] {
        let project = Project::new("");
        let script = json!({ "tools": ["pid"], "log": project.path("log") });
        project.write("config.yml", &config(&[scripted("s", &script, json!({ "sampling": sampling }))], json!({})));
        for command in ["lock", "doctor", "run", "call"] {
            // Each of them as if nothing was known.
            let _no_lock = std::fs::remove_file(project.path("config.lock.json"));
            std::fs::write(project.path("log"), "").unwrap();
            match command {
                "run" => {
                    let mut client = client(&project, &[], json!({}));
                    client.names();
                    client.end();
                }
                "call" => drop(project.run(&["call", "mcp__s__pid", "{}"])),
                command => assert_eq!(project.run(&[command]).code, 0, "{command}"),
            }
            let log = project.read("log");
            let messages: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
            let of = |method: &str| messages.iter().find(|message| message["method"] == method).unwrap();
            let anew = &of("server/discover")["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
            let mut offered = json!({ "elicitation": {}, "roots": {} });
            if sampling {
                offered["sampling"] = json!({});
            }
            for said in [anew, &of("initialize")["params"]["capabilities"]] {
                assert_eq!(said, &offered, "{command}");
            }
        }
    }
}

#[test]
fn the_client_of_the_only_call_answers() {
    let project = project(json!({ "sampling": true }));
    let mut client = client(&project, &[], json!({ "elicitation": {}, "sampling": {} }));
    let id = client.send("tools/call", asks(ELICITATION));
    let question = client.notice(ELICITATION);
    assert_eq!(question["params"]["message"], "which oven?");
    assert_eq!(question["params"]["requestedSchema"]["properties"]["oven"]["type"], "string");
    let answer = json!({ "action": "accept", "content": { "oven": "left" } });
    client.line(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }).to_string());
    assert_eq!(said(&client.answer(id)), answer);

    let id = client.send("tools/call", asks(SAMPLING));
    let question = client.notice(SAMPLING);
    let answer = json!({ "role": "assistant", "content": { "type": "text", "text": "hello" }, "model": "m" });
    client.line(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }).to_string());
    assert_eq!(said(&client.answer(id)), answer);

    // A refusal of the client's is the server's to hear.
    let id = client.send("tools/call", asks(SAMPLING));
    let question = client.notice(SAMPLING);
    let error = json!({ "code": -1, "message": "the user said no" });
    client.line(&json!({ "jsonrpc": "2.0", "id": question["id"], "error": error }).to_string());
    assert_eq!(said(&client.answer(id)), error);
    client.end();
}

#[test]
fn who_can_not_be_asked_is_not_and_the_server_hears_why() {
    let project = project(json!({}));
    let gate = project.pipe("gate");
    let mut client = client(&project, &[], json!({ "elicitation": {} }));
    // Sampling isn't offered to this server, whatever the client can do.
    let id = client.send("tools/call", asks(SAMPLING));
    let refused = said(&client.answer(id));
    assert_eq!(refused["code"], -32601);
    assert!(refused["message"].as_str().unwrap().contains("`sampling: true`"), "{refused}");
    // Of two calls nobody can tell which one asks.
    let other = client.send("tools/call", json!({ "name": "mcp__s__wait", "arguments": { "gate": gate } }));
    let id = client.send("tools/call", asks(ELICITATION));
    let declined = said(&client.answer(id));
    assert_eq!(declined["action"], "decline");
    let reason = "2 calls are in flight on this connection, and which of them asks can't be told";
    assert_eq!(declined["_meta"]["mcplan/reason"], reason);
    release(&gate);
    client.answer(other);
    client.end();

    let mut client = self::client(&project, &[], json!({}));
    let id = client.send("tools/call", asks(ELICITATION));
    let declined = said(&client.answer(id));
    let reason = "the client whose call is in flight can't answer: it declared no `elicitation`";
    assert_eq!(declined["_meta"]["mcplan/reason"], reason);
    client.end();
}

#[test]
fn roots_are_the_workspace_of_the_session_whose_call_it_is() {
    let project = project(json!({}));
    let workspace = project.path("work shop");
    std::fs::create_dir(&workspace).unwrap();
    let workspace = std::fs::canonicalize(&workspace).unwrap();
    let mut client = client(&project, &["--workspace", workspace.to_str().unwrap()], json!({}));
    let id = client.send("tools/call", asks("roots/list"));
    let uri = format!("file://{}", workspace.to_str().unwrap().replace(' ', "%20"));
    assert_eq!(said(&client.answer(id)), json!({ "roots": [{ "uri": uri, "name": "work shop" }] }));
    client.end();
}

/// A project with a server of the new era, which asks in place of a result.
fn stateless() -> (Remote, Project) {
    let remote = Remote::start(Kind::Stateless);
    remote.lists(&["ask"]);
    let project = Project::new(&config(&[remote.entry("r", json!({}))], json!({})));
    (remote, project)
}

fn with_team(project: &Project, era: Era, capabilities: Value) -> Client {
    let mut command = project.command(&["run", "--stdio"]);
    command.env("TEAM", "bakers");
    let mut client = Client::spawn(command, era);
    client.capabilities = capabilities;
    if era == Era::Session {
        client.initialize("2025-11-25");
    }
    client
}

#[test]
fn a_question_in_place_of_a_result_is_asked_of_a_client_with_a_session() {
    let (_remote, project) = stateless();
    let mut client = with_team(&project, Era::Session, json!({ "elicitation": {} }));
    let id = client.send("tools/call", asks_instead(ELICITATION));
    let question = client.notice(ELICITATION);
    assert_eq!(question["params"]["x-vendor"], 1.5, "as the server wrote it");
    let answer = json!({ "action": "accept", "content": { "oven": "left" } });
    client.line(&json!({ "jsonrpc": "2.0", "id": question["id"], "result": answer }).to_string());
    assert_eq!(said(&client.answer(id)), json!({ "k": answer }));
    client.end();
}

#[test]
fn a_client_of_the_new_era_gets_the_question_itself_if_it_can_answer() {
    let (remote, project) = stateless();
    let mut client = with_team(&project, Era::Stateless, json!({ "elicitation": {} }));
    let mut call = asks_instead(ELICITATION);
    let asked = client.request("tools/call", call.clone());
    assert_eq!((&asked["resultType"], &asked["requestState"]), (&json!("input_required"), &json!("opaque")));
    assert_eq!(asked["inputRequests"]["k"]["params"]["message"], "which oven?");
    call["requestState"] = asked["requestState"].clone();
    call["inputResponses"] = json!({ "k": { "action": "accept", "content": { "oven": "right" } } });
    let answer = client.request("tools/call", call.clone());
    assert_eq!(said(&json!({ "result": answer })), call["inputResponses"]);
    client.end();

    remote.clear();
    let mut client = with_team(&project, Era::Stateless, json!({}));
    let answer = client.request("tools/call", asks_instead(ELICITATION));
    assert_eq!(said(&json!({ "result": answer }))["k"]["action"], "decline");
    assert_eq!(remote.count("tools/call"), 2, "declined by us and asked again");
    client.end();
}
