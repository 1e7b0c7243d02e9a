//! Every fault of a server on the way to a connection, over every transport that can have it, beside a healthy server: its
//! state and the cause.

#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use serde_json::{Value, json};
use support::client::{Client, Era};
use support::remote::Remote;
use support::stage::{self, WAYS};
use support::{Project, config, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

/// A name, faults by method, over which ways, and the state of each with cause and warnings: `…` stands for any text.
type Row<'a> = (&'a str, Value, &'static [&'static str], &'a str);

/// Those that shake hands by `initialize`.
const SESSION: &[&str] = &["stdio", "http", "sse", "ws"];
/// Whose answers come in exchanges of their own.
const POST: &[&str] = &["http", "stateless"];

/// A faulty server for each way and each row, all of them connected by one executor.
fn connect(rows: &[Row<'_>], more: &Value) -> (Project, Vec<Remote>, Client) {
    let (project, mut remotes) = (Project::new(""), Vec::new());
    let mut servers = vec![scripted("good", &json!({ "tools": ["echo"] }), json!({ "defer": false }))];
    let own = || {
        let mut own =
            json!({ "defer": false, "reconnect": { "initial_seconds": 60, "max_seconds": 60, "jitter_seconds": 0 } });
        own.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        own
    };
    for (name, at, ways, _) in rows {
        for way in *ways {
            let name = format!("{name}-{way}");
            servers.push(match stage::kind(way) {
                None => {
                    scripted(&name, &json!({ "tools": ["echo"], "at": at, "log": project.path(&name) }), more.clone())
                }
                Some(kind) => {
                    remotes.push(Remote::with(kind, &["echo"], at.clone()));
                    remotes.last().unwrap().entry(&name, own())
                }
            });
        }
    }
    project.write("config.yml", &config(&servers, json!({})));
    let mut command = project.command(&["run", "--stdio"]);
    command.env("TEAM", "bakers");
    let mut client = Client::spawn(command, Era::Session);
    client.initialize("2025-11-25");
    assert_eq!(client.text("mcp__good__echo", json!({})), "{}");
    (project, remotes, client)
}

fn all_connect(rows: &[Row<'_>], more: &Value) {
    let (project, _remotes, mut client) = connect(rows, more);
    // The first list waits for every server to be ready or to have failed.
    client.names();
    for (name, _, ways, state) in rows {
        ways.iter().for_each(|way| stage::becomes(&project, &client, &format!("{name}-{way}"), state));
    }
    let all = stage::descendants(client.pid());
    client.end();
    assert!(!all.into_iter().any(stage::lives));
}

#[test]
fn an_end_on_the_way_is_the_cause() {
    let exits = |at: &str| json!({ at: "exit" });
    all_connect(
        &[
            (
                "i",
                exits("initialize"),
                &["stdio"],
                "failed: server `i-stdio` ended (exit status 7) while waiting for the answer to `initialize`; its last words: gone at initialize",
            ),
            ("i", exits("initialize"), &["http"], "waiting: server `i-http` can't be talked to: "),
            (
                "i",
                exits("initialize"),
                &["sse"],
                "waiting: server `i-sse` can't be talked to: the event stream broke off",
            ),
            (
                "i",
                exits("initialize"),
                &["ws"],
                "waiting: server `i-ws` can't be talked to: the server ended the connection without",
            ),
            (
                "n",
                exits("notifications/initialized"),
                &["stdio"],
                "failed: server `n-stdio` ended (exit status 7) while …gone at notifications/initialized",
            ),
            ("n", exits("notifications/initialized"), &["http"], "waiting: server `n-http` can't be talked to: "),
            ("n", exits("notifications/initialized"), &["sse"], "waiting: …the event stream broke off"),
            ("n", exits("notifications/initialized"), &["ws"], "waiting: …the server ended the connection without"),
            (
                "l",
                exits("tools/list"),
                &["stdio"],
                "failed: server `l-stdio` ended (exit status 7) while listing its tools; its last words: gone at tools/list",
            ),
            // One exchange that breaks off is no end of a connection.
            (
                "l",
                exits("tools/list"),
                POST,
                "ready; tools/list failed, so its tools are unknown: server `…` was asked, and the exchange broke off",
            ),
            (
                "l",
                exits("tools/list"),
                &["sse"],
                "waiting: server `l-sse` can't be talked to: the event stream broke off",
            ),
            (
                "l",
                exits("tools/list"),
                &["ws"],
                "waiting: server `l-ws` can't be talked to: the server ended the connection without",
            ),
            // It has answered, so the connection is made, and then it is gone.
            (
                "after",
                json!({ "tools/list": "exit_after" }),
                &["stdio"],
                "failed: the process ended (exit status 7)…gone at tools/list",
            ),
            ("after", json!({ "tools/list": "exit_after" }), POST, "ready"),
            ("after", json!({ "tools/list": "exit_after" }), &["sse", "ws"], "waiting: the "),
            ("probe", exits("server/discover"), &["stdio", "ws"], "ready"),
        ],
        &json!({}),
    );
}

#[test]
fn silence_and_nonsense_on_the_way_are_the_cause() {
    let slow = "server `…` was not ready within 3 s: it timed out while waiting for the answer to `initialize`; if it needs longer, raise its `timeout_seconds`";
    let (failed, waiting) = (format!("failed: {slow}"), format!("waiting: {slow}"));
    let unlisted = "ready; tools/list failed, so its tools are unknown: server `…` did not answer within 1 s…raise `request_timeout_seconds`";
    let at = |at: &str, fault: Value| json!({ at: fault });
    let remote: &'static [&'static str] = &["http", "sse", "ws"];
    let mut rows = vec![
        ("listless", at("tools/list", json!("hang")), &WAYS[..], unlisted),
        ("off-list", at("tools/list", json!("wrong_id")), &WAYS[..], unlisted),
        (
            "odd-list",
            at("tools/list", json!({ "result": 5 })),
            &WAYS[..],
            "ready; tools/list failed, so its tools are unknown: the answer of server `…` can't be used: a result is an object, and this is 5",
        ),
        (
            "no-list",
            at("tools/list", json!({ "error": { "code": -5, "message": "no luck" } })),
            &WAYS[..],
            "ready; tools/list failed, so its tools are unknown: server `…` answered with an error: no luck (code -5)",
        ),
        ("banner", at("initialize", json!("banner")), SESSION, "ready"),
        ("twice", at("initialize", json!("twice")), SESSION, "ready"),
        ("twice-list", at("tools/list", json!("twice")), &WAYS[..], "ready"),
        (
            "odd",
            at("initialize", json!({ "result": 5 })),
            &["stdio"],
            "failed: server `odd-stdio` doesn't keep to the protocol in its answer to `initialize`: the result is a number, not an object",
        ),
        (
            "odd",
            at("initialize", json!({ "result": 5 })),
            remote,
            "waiting: server `…` doesn't keep to the protocol in its answer to `initialize`: the result is a number, not an object",
        ),
        (
            "nobody",
            at("initialize", json!({ "result": { "protocolVersion": "2025-06-18", "capabilities": {} } })),
            SESSION,
            "server `…` doesn't keep to the protocol in its answer to `initialize`: `serverInfo` is missing; use another version of it, or tell those who make it",
        ),
        (
            "mistyped",
            at(
                "initialize",
                json!({ "result": { "protocolVersion": 5, "capabilities": [], "serverInfo": { "name": "x" } } }),
            ),
            SESSION,
            "in its answer to `initialize`: `protocolVersion` is a number, not a string, `capabilities` is a list, not an object, `serverInfo.version` is missing; use",
        ),
        (
            "deeper",
            at(
                "initialize",
                json!({ "result": { "protocolVersion": "2025-06-18", "capabilities": { "prompts": {}, "tools": true }, "serverInfo": { "name": "x", "version": "1" } } }),
            ),
            SESSION,
            "in its answer to `initialize`: `capabilities.tools` can't be read: true; use",
        ),
        (
            "no",
            at("initialize", json!({ "error": { "code": -5, "message": "no luck" } })),
            &["stdio"],
            "failed: server `no-stdio` refused to initialize: no luck (code -5)",
        ),
        (
            "no",
            at("initialize", json!({ "error": { "code": -5, "message": "no luck" } })),
            remote,
            "waiting: server `…` refused to initialize: no luck (code -5)",
        ),
        (
            "text",
            at("initialize", json!({ "text": "Killed" })),
            &["http"],
            "waiting: server `text-http` can't be talked to: the answer is no MCP message: Killed",
        ),
    ];
    for (name, fault) in [("hang", json!("hang")), ("silent", json!("silent")), ("off", json!("wrong_id"))] {
        rows.push((name, at("initialize", fault.clone()), &["stdio"], &failed));
        rows.push((name, at("initialize", fault), remote, &waiting));
    }
    all_connect(&rows, &json!({ "timeout_seconds": 3, "request_timeout_seconds": 1 }));
}

#[test]
fn an_http_status_on_the_way_is_the_cause_and_a_refusal_is_not_asked_again() {
    const TWO: &[&str] = &["http", "sse"];
    let first = |status: u16| {
        let fault = json!({ "status": [status, "told so"] });
        json!({ "initialize": fault, "server/discover": fault })
    };
    let list = |status: u16| json!({ "tools/list": { "status": [status, "told so"] } });
    let credentials = "failed: server `…` answered HTTP 40…: it does not accept the header `X-Team` (from `${TEAM}`) (not tried again, because that would end in the same way; when it is mended, reconnect it)";
    let rows: Vec<Row<'_>> = vec![
        ("s401", first(401), TWO, credentials),
        ("s403", first(403), TWO, credentials),
        ("s400", first(400), TWO, "failed: server `…` answered HTTP 400: told so (not tried again"),
        ("s405", first(405), TWO, "failed: server `…` answered HTTP 405: told so…see `url`…(not tried again"),
        (
            "s404",
            first(404),
            &["http"],
            "waiting: server `s404-http` answered HTTP 404: told so; nothing takes MCP messages there: see `url`",
        ),
        (
            "s404",
            first(404),
            &["sse"],
            "waiting: server `s404-sse` can't be talked to: the address that it names for messages answers HTTP 404",
        ),
        ("s500", first(500), TWO, "waiting: server `…` answered HTTP 500: told so; the fault is at its end"),
        ("s503", first(503), TWO, "waiting: server `…` answered HTTP 503: told so; it is not available now"),
        (
            "l401",
            list(401),
            &["http", "stateless", "sse"],
            "ready; tools/list failed, so its tools are unknown: server `…` could not be asked: HTTP 401: told so; it wants other credentials",
        ),
        (
            "l500",
            list(500),
            &["http", "stateless", "sse"],
            "ready; tools/list failed, so its tools are unknown: server `…` could not be asked: HTTP 500: told so",
        ),
        (
            "l404",
            list(404),
            &["http"],
            "ready; tools/list failed, so its tools are unknown: server `l404-http` could not be asked: it does not know the session, also not a new one",
        ),
    ];
    all_connect(&rows, &json!({}));
    // However eager it is to come back.
    let more =
        json!({ "required": true, "reconnect": { "attempts": 0, "initial_seconds": 0.01, "jitter_seconds": 0 } });
    let (project, remotes, mut client) = connect(&[("s401", first(401), &["http"], "")], &more);
    client.logged("server.connect_failed: s401-http: ", 0);
    client.names();
    assert!(stage::shown(&stage::of(&stage::status(&project), "s401-http")).starts_with("failed: "));
    assert_eq!((remotes[0].count("server/discover"), remotes[0].count("initialize")), (1, 0));
    client.end();
}

/// However eager it is to come back by its config, a server that says when it may be asked again isn't asked before.
#[test]
fn a_server_that_asks_to_be_left_alone_is() {
    let first = |status: u16, wait: &str| {
        let fault = json!({ "retry_after": [status, wait] });
        json!({ "initialize": fault, "server/discover": fault })
    };
    const TWO: &[&str] = &["http", "sse"];
    let more = json!({ "reconnect": { "initial_seconds": 1, "jitter_seconds": 0 } });
    let rows: Vec<Row<'_>> = vec![
        ("busy", first(429, "40"), TWO, "40.0"),
        ("down", first(503, "7200"), TWO, "300.0"),
        ("until", first(503, "Fri, 31 Dec 9999 23:59:59 GMT"), TWO, "300.0"),
        ("odd", first(429, "soon"), TWO, "1.0"),
        ("fault", first(500, "40"), TWO, "1.0"),
    ];
    let (project, _remotes, client) = connect(&rows, &more);
    for (name, _, ways, seconds) in &rows {
        for way in *ways {
            client.logged(&format!("server.reconnecting: {name}-{way}: attempt 2 in {seconds} s"), 0);
        }
    }
    let told = "waiting: server `…` answered HTTP 429: …; it is asked too often; it asks to be left alone for 40 s";
    TWO.iter().for_each(|way| stage::becomes(&project, &client, &format!("busy-{way}"), told));
    client.end();
}

/// Whatever an older server makes of the question for the new era, `initialize` is asked next.
#[test]
fn any_answer_to_the_question_for_the_era_but_a_refusal_leads_to_a_connection() {
    let at = |fault: Value| json!({ "server/discover": fault });
    let mut rows: Vec<Row<'_>> = vec![
        ("exit", at(json!("exit")), &["stdio", "http", "ws"], "ready"),
        ("cut", at(json!("cut")), &["stdio", "http", "ws"], "ready"),
        ("silent", at(json!("silent")), &["stdio", "http", "ws"], "ready"),
        ("wrong-id", at(json!("wrong_id")), &["stdio", "http", "ws"], "ready"),
        ("text", at(json!({ "text": "what?" })), &["stdio", "http", "ws"], "ready"),
        ("odd", at(json!({ "result": 5 })), &["stdio", "http", "ws"], "ready"),
        ("odd-error", at(json!({ "error": "a text" })), &["stdio", "http", "ws"], "ready"),
        ("late", at(json!({ "late": 2500 })), &["stdio", "http", "ws"], "ready"),
        ("long", at(json!({ "long": 17 << 20 })), &["stdio", "http", "ws"], "ready"),
    ];
    for (name, status) in [("p400", 400), ("p404", 404), ("p405", 405), ("p406", 406), ("p500", 500), ("p503", 503)] {
        rows.push((name, at(json!({ "status": [status, "what?"] })), &["http"], "ready"));
    }
    all_connect(&rows, &json!({ "timeout_seconds": 30 }));
}

/// The question for the era may kill a server, so it is started a second time; both starts are one attempt.
#[test]
fn a_server_that_crashes_is_started_twice_for_each_attempt_and_told_of_as_crashed() {
    let more = json!({ "restart": "on_failure", "reconnect": { "attempts": 2, "initial_seconds": 0.01, "jitter_seconds": 0 } });
    let at = json!({ "server/discover": "exit", "initialize": "exit" });
    let (project, _, client) = connect(&[("crash", at, &["stdio"], "")], &more);
    let crashed = "failed: server `crash-stdio` ended (exit status 7) while waiting for the answer to `initialize`; its last words: gone at initialize (given up after 2 more attempts)";
    stage::becomes(&project, &client, "crash-stdio", crashed);
    assert_eq!(project.read("crash-stdio").matches("start ").count(), 6);
    assert_eq!(stage::of(&stage::status(&project), "crash-stdio")["attempts"], 3);
    let shown = project.run(&["status"]).out;
    assert!(shown.contains("3 attempts since it was last ready"), "{shown}");
    client.end();
}

/// Each kind of list on its own.
#[test]
fn a_list_that_fails_is_empty_with_the_reason_and_the_others_stand() {
    let project = Project::new("");
    let said = json!({
        "tools": [{ "name": "t", "inputSchema": { "type": "object" } }], "prompts": [{ "name": "p" }],
        "resourceTemplates": [{ "uriTemplate": "x://{a}", "name": "r" }],
    });
    project.write("said.json", &said.to_string());
    let no = json!({ "error": { "code": -5, "message": "no luck" } });
    let server = |name: &str, method: &str| {
        let script = json!({ "replay": project.path("said.json"), "at": { method: no } });
        scripted(name, &script, json!({ "defer": false }))
    };
    let failing = ["tools/list", "prompts/list", "resources/templates/list", "resources/list"];
    let servers: Vec<_> = failing.iter().enumerate().map(|(at, method)| server(&format!("s{at}"), method)).collect();
    project.write("config.yml", &config(&servers, json!({})));
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), ["mcp__s1__t", "mcp__s2__t", "mcp__s3__t"]);
    for (at, method) in failing.iter().enumerate() {
        let state = format!("ready; {method} failed, so its … unknown: server `s{at}` answered with an error: no luck");
        stage::becomes(&project, &client, &format!("s{at}"), &state);
        let counts = if *method == "prompts/list" { "1 tools, 0 prompts" } else { " tools, 1 prompts" };
        client.logged(&format!("server.connected: s{at} over stdio: "), 0);
        assert!(client.logged(&format!("server.connected: s{at} "), 0).contains(counts), "{}", client.log());
    }
    client.end();
}

#[test]
fn pages_without_end_cost_a_warning() {
    let pages = |cursors: &str| json!({ "tools/list": { "pages": cursors } });
    let repeated = "ready; tools/list…cursor";
    let rows: Vec<Row<'_>> = vec![
        ("same", pages("same"), &WAYS, repeated),
        ("empty", pages("empty"), &WAYS, repeated),
        ("other", pages("other"), &["stdio", "http"], "ready; …it has more than 1000 pages; 1000 items are kept"),
    ];
    all_connect(&rows, &json!({ "request_timeout_seconds": 60, "timeout_seconds": 60 }));
}

/// The system has few words for a file that it can't run.
#[test]
fn a_file_that_can_not_be_run_is_told_of_with_what_to_do() {
    use std::os::unix::fs::PermissionsExt as _;
    let project = Project::new("");
    let rows = [
        (
            "bare",
            "echo hello\n",
            "`[DIR]/bare` is neither a program for this machine nor a script with a `#!` line; let a script begin",
        ),
        (
            "lost",
            "#!/no/such/interpreter\n",
            "`[DIR]/lost` is there, and what it needs to run is not: correct the program that its `#!` line names",
        ),
    ];
    let mut servers = Vec::new();
    for (name, text, _) in rows {
        project.write(name, text);
        std::fs::set_permissions(project.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        servers.push(json!({ "name": name, "command": format!("./{name}"), "restart": "on_failure" }));
    }
    project.write("config.yml", &config(&servers, json!({})));
    let client = Client::start(&project, &[]);
    for (name, _, told) in rows {
        let directory = project.path("");
        let told = told.replace("[DIR]", directory.display().to_string().trim_end_matches('/'));
        let line = client.logged(&format!("server.connect_failed: {name}: "), 0);
        assert!(line.contains(&format!("server `{name}` can't start: {told}")), "{line}");
        assert!(line.contains("not tried again"), "{line}");
    }
    client.end();
}
