//! Every fault of a server in a call, over every transport that can have it, beside a healthy server: what the caller is
//! told, what becomes of the server, and that it is nobody else's business. `run_faults_connect.rs` has those before.

#![cfg(target_os = "linux")]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::stage::{Stage, WAYS, says};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

/// Over which ways a fault comes to the same; what the caller is told; the state of the server afterwards, and its cause.
/// `…` stands for any text.
type Outcome = (&'static [&'static str], &'static str, &'static str);

/// Whose answers come in exchanges of their own.
const POST: &[&str] = &["http", "stateless"];
/// Whose answers come in a stream that is the connection.
const STREAM: &[&str] = &["stdio", "sse", "ws"];

const LIMIT: &str =
    "did not answer within 1.5 s, so the call was stopped; raise `call_timeout_seconds` for this server";

/// How long the slowest of them may take on a busy machine.
const LONGEST: Duration = Duration::from_secs(15);

type Row<'a> = (Value, &'a [Outcome]);

/// Makes the calls of all ways at the same time, and then one of a healthy server, which waits for none of them.
fn run(stage: &mut Stage, rows: &[Row<'_>]) {
    for (fault, outcomes) in rows {
        let ways = outcomes.iter().flat_map(|(ways, text, state)| ways.iter().map(move |way| (*way, *text, *state)));
        let began = std::time::Instant::now();
        let calls: Vec<_> = ways.map(|of| (of, stage.send(of.0, "fault", json!({ "do": fault })))).collect();
        let good = stage.send("good", "echo", json!({ "to": "all" }));
        assert_eq!(stage.told(good).0, r#"{"to":"all"}"#, "{fault}");
        assert!(!stage.client.has_heard("_timeout_seconds"), "{fault} held up a healthy server");
        let told: Vec<_> = calls.into_iter().map(|(of, id)| (of, stage.told(id).0)).collect();
        assert!(began.elapsed() < LONGEST, "{fault}: {:?}", began.elapsed());
        for ((way, text, state), told) in told {
            assert!(says(&told, text), "{fault} over {way}: {told:.500}\n{}", stage.client.log());
            stage.becomes(way, state);
            // Nothing of it is left for the next one.
            if state != "ready" || *fault == "hang" {
                stage.reconnect(way);
            }
            let again = stage.send(way, "echo", json!({ "again": 1 }));
            let (told, _) = stage.told(again);
            let renewed = "has forgotten the session…a new one is open";
            if !says(&told, renewed) || *fault != "restart" {
                assert!(says(&told, r#"{"again":1}"#), "after {fault} over {way}: {told:.500}");
            }
        }
    }
}

#[test]
fn an_end_in_a_call_is_told_with_its_cause_and_is_the_state() {
    let mut stage = Stage::new(&WAYS, &json!({}), &json!({}));
    let exited = "failed: the process ended (exit status 7)…gone at tools/call";
    let broke_off = "waiting: the event stream broke off: ";
    let no_farewell = "waiting: the server ended the connection without closing the websocket";
    let posted: Outcome = (POST, "server `…` was asked, and the exchange broke off before its answer came: ", "ready");
    let streamed: Outcome =
        (&["sse"], "the connection to server `sse` was lost before it answered: the event stream", broke_off);
    let framed: Outcome =
        (&["ws"], "the connection to server `ws` was lost before it answered: the server ended", no_farewell);
    let process: Outcome = (
        &["stdio"],
        "the connection to server `stdio` was lost before it answered: the process ended (exit status 7)",
        "failed: the process ended (exit status 7)",
    );
    run(
        &mut stage,
        &[
            (
                json!("exit"),
                &[
                    (&["stdio"], "the process ended (exit status 7); its last words: gone at tools/call", exited),
                    posted,
                    streamed,
                    framed,
                ],
            ),
            (
                json!("exit_after"),
                &[
                    (&["stdio"], "exit_after", exited),
                    (POST, "exit_after", "ready"),
                    (&["sse"], "exit_after", broke_off),
                    (&["ws"], "exit_after", no_farewell),
                ],
            ),
            (json!("cut"), &[process, posted, streamed, framed]),
            (
                json!("cut_stream"),
                &[
                    process,
                    (
                        POST,
                        "was asked, and the exchange broke off before its answer came: it ended the stream of its answer",
                        "ready",
                    ),
                    streamed,
                    framed,
                ],
            ),
            (
                json!("restart"),
                &[
                    (POST, "restart", "ready"),
                    (&["sse"], "restart", "waiting: the server ended the event stream"),
                    (&["ws"], "restart", no_farewell),
                ],
            ),
            (
                json!("close_out"),
                &[(
                    &["stdio"],
                    "was lost before it answered: the process closed its stdout",
                    "failed: the process closed its stdout",
                )],
            ),
            // Noticed by the next message to it, which takes the call back.
            (json!("close_in"), &[(&["stdio"], LIMIT, "failed: the process closed its stdin")]),
        ],
    );
    stage.end();
}

#[test]
fn silence_costs_the_time_that_a_call_may_take() {
    let mut stage = Stage::new(&WAYS, &json!({}), &json!({}));
    let silent: &[Outcome] = &[(&WAYS, LIMIT, "ready")];
    // Nobody knows to which call it belongs; over HTTP it stands where the answer should.
    let no_answer: &[Outcome] = &[
        (STREAM, LIMIT, "ready"),
        (POST, "the answer of server `…` can't be used: the answer is no MCP message: ", "ready"),
    ];
    run(
        &mut stage,
        &[
            (json!("hang"), silent),
            (json!("silent"), silent),
            (json!("wrong_id"), silent),
            (json!({ "text": "Segmentation fault" }), no_answer),
            (json!({ "text": "{\"level\":\"info\"}" }), no_answer),
        ],
    );
    let log = stage.end();
    assert!(log.contains("stdio: text on stdout that is no MCP message was skipped: Segmentation fault"), "{log}");
    for way in ["sse", "ws"] {
        assert!(log.contains(&format!("{way}: something that is no MCP message was skipped: Segmentation")), "{log}");
    }
}

#[test]
fn what_comes_in_place_of_an_answer_is_told_and_what_comes_beside_it_is_skipped() {
    let mut stage = Stage::new(&WAYS, &json!({}), &json!({}));
    let not_usable: &[Outcome] =
        &[(&WAYS, "the answer of server `…` can't be used: a result is an object, and this is ", "ready")];
    let right: &[Outcome] = &[(&WAYS, "do", "ready")];
    run(
        &mut stage,
        &[
            (json!({ "result": 5 }), not_usable),
            (json!({ "result": null }), not_usable),
            (json!({ "result": ["a"] }), not_usable),
            // What is in it is not ours to understand.
            (json!({ "result": { "content": 5 } }), &[(&WAYS, r#""result":{"content":5}"#, "ready")]),
            (
                json!({ "error": { "code": -5, "message": "no luck" } }),
                &[(&WAYS, r#""code":-5,"message":"no luck""#, "ready")],
            ),
            (json!({ "error": "a text" }), &[(&WAYS, r#"an error that is none of the protocol: \"a text\""#, "ready")]),
            (json!("no_utf8"), &[(&WAYS, "\u{fffd}", "ready")]),
            (json!("banner"), right),
            (json!("twice"), right),
            (json!({ "late": 300 }), right),
        ],
    );
    stage.end();
}

#[test]
fn a_large_answer_arrives_and_one_over_the_bound_costs_its_call_alone() {
    let mut stage = Stage::new(&WAYS, &json!({}), &json!({ "call_timeout_seconds": 60, "max_result_chars": 0 }));
    let long: &[Outcome] = &[(&WAYS, "xxxxxxxxxx", "ready")];
    let too_long: &[Outcome] =
        &[(&WAYS, "the answer of server `…` is longer than 16 MiB, so it was thrown away", "ready")];
    run(&mut stage, &[(json!({ "long": 10_000_000 }), long), (json!({ "long": 17_000_000 }), too_long)]);
    stage.end();
}

#[test]
fn a_thousand_notices_a_second_hold_up_nothing() {
    let mut stage = Stage::new(&WAYS, &json!({}), &json!({ "call_timeout_seconds": 30 }));
    let right: &[Outcome] = &[(&WAYS, "do", "ready")];
    let flood = |method: &str| json!({ "flood": [format!("notifications/{method}"), 1000] });
    run(
        &mut stage,
        &[
            (flood("tools/list_changed"), right),
            (flood("progress"), right),
            (flood("message"), right),
            (flood("no/such"), right),
        ],
    );
    // Ten readings a second at the most, of which there is one at the end in any case.
    let lists = stage.project.read("stdio.log").matches("tools/list\"").count();
    assert!(lists < 40, "{lists}");
    assert_eq!(stage.client.notices("notifications/tools/list_changed"), 0, "it never was another list");
    stage.end();
}

#[test]
fn progress_keeps_a_call_alive_and_its_end_does_not() {
    let more = json!({ "call_timeout_seconds": 30, "idle_timeout_seconds": 1 });
    let mut stage = Stage::new(&WAYS, &json!({}), &more);
    let right: &[Outcome] = &[(&WAYS, "do", "ready")];
    let idle: &[Outcome] =
        &[(&WAYS, "gave neither answer nor progress within 1 s…raise `idle_timeout_seconds`", "ready")];
    run(&mut stage, &[(json!({ "progress": [200, 10] }), right), (json!({ "progress_then_nothing": [200, 2] }), idle)]);
    stage.end();
    // However long it goes on, a whole call has its own limit.
    let mut stage = Stage::new(&WAYS, &json!({}), &json!({ "idle_timeout_seconds": 1 }));
    run(&mut stage, &[(json!({ "progress": [100, 60] }), &[(&WAYS, LIMIT, "ready")])]);
    stage.end();
}

#[test]
fn what_a_server_asks_in_a_call_is_answered_or_declined() {
    let mut stage = Stage::new(&WAYS, &json!({}), &json!({}));
    fn row<'a>(method: &str, told: &'a [Outcome]) -> Row<'a> {
        let params = match method {
            "sampling/createMessage" => json!({ "maxTokens": 5, "messages": [] }),
            "elicitation/create" => json!({ "message": "who?", "requestedSchema": { "type": "object" } }),
            _ => json!({}),
        };
        (json!({ "ask": [method, params] }), told)
    }
    run(
        &mut stage,
        &[
            row("sampling/createMessage", &[(&WAYS, "sampling was not offered to this server", "ready")]),
            row("elicitation/create", &[(&WAYS, r#""action":"decline"…it declared no `elicitation`"#, "ready")]),
            row("roots/list", &[(&WAYS, r#"{"roots":[{"uri":"file://"#, "ready")]),
            row("no/such", &[(&WAYS, r#""code":-32601"#, "ready")]),
            row("ping", &[(&WAYS, "{}", "ready")]),
        ],
    );
    stage.end();
}

#[test]
fn an_http_status_in_a_call_is_told_with_its_meaning() {
    const THREE: &[&str] = &["http", "stateless", "sse"];
    let mut stage = Stage::new(THREE, &json!({}), &json!({}));
    fn row(status: u16, told: &[Outcome]) -> Row<'_> {
        (json!({ "status": [status, "told so"] }), told)
    }
    run(
        &mut stage,
        &[
            row(400, &[(THREE, "server `…` could not be asked: HTTP 400: told so", "ready")]),
            row(401, &[(THREE, "could not be asked: HTTP 401: told so; it wants other credentials", "ready")]),
            row(403, &[(THREE, "could not be asked: HTTP 403: told so; it forbids this", "ready")]),
            row(
                404,
                &[
                    (&["http"], "has forgotten the session…a new one is open, and the call was not repeated", "ready"),
                    (&["stateless"], "could not be asked: HTTP 404: told so; nothing is served there", "ready"),
                    (
                        &["sse"],
                        "was lost before it answered: the server has forgotten the session",
                        "waiting: the server has forgotten",
                    ),
                ],
            ),
            row(405, &[(THREE, "could not be asked: HTTP 405: told so; it takes no such request there", "ready")]),
            row(429, &[(THREE, "could not be asked: HTTP 429: told so; it is asked too often", "ready")]),
            row(500, &[(THREE, "could not be asked: HTTP 500: told so; the fault is at its end", "ready")]),
            row(503, &[(THREE, "could not be asked: HTTP 503: told so; it is not available now", "ready")]),
        ],
    );
    stage.end();
}

#[test]
fn a_process_that_a_server_leaves_behind_ends_with_the_executor() {
    let mut stage = Stage::new(&["stdio"], &json!({}), &json!({}));
    let mut left = Vec::new();
    for fault in ["grandchild", "grandchild", "exit"] {
        let call = stage.send("stdio", "fault", json!({ "do": fault }));
        left.extend(stage.told(call).0.parse::<i32>());
    }
    assert_eq!(left.len(), 2);
    stage.becomes("stdio", "failed: the process ended (exit status 7)");
    stage.reconnect("stdio");
    // Those of the process before have ended with it.
    assert!(!left.iter().any(|pid| support::stage::lives(*pid)), "{left:?}");
    let call = stage.send("stdio", "fault", json!({ "do": "grandchild" }));
    let last = stage.told(call).0.parse().unwrap();
    assert!(support::stage::lives(last));
    stage.end();
    assert!(!support::stage::lives(last));
}
