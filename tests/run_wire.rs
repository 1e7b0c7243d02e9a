//! What goes over the wire of `mcplan run --stdio`: bytes that stay, lines that are none, pages, progress, cancellation.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::io::Write as _;

use serde_json::{Value, json};
use support::client::{Client, Era};
use support::{Project, config, release, scripted};

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

/// Architecture rule 13: nothing that a server said is spelled anew, except the name.
#[test]
fn tools_and_results_are_passed_on_byte_for_byte() {
    let tool = r#"{"execution":{"b":1,"a":2},"name":"odd","x-vendor":[1.50,1E3,"\u00e9\/"],"inputSchema":{"type":"object","properties":{"z":{"minimum":1.0},"a":{}}},"_meta":{"k":12345678901234567890}}"#;
    let result = r#"{"content":[{"type":"text","text":"caf\u00e9","annotations":{"priority":0.50}},{"type":"x-new","n":1.50}],"structuredContent":{"n":1.50,"big":12345678901234567890},"_meta":{"z":1,"a":2},"x":1e2}"#;
    let project = Project::new("");
    let script = json!({ "tools": [tool], "result": result });
    project.write("config.yml", &config(&[scripted("s", &script, json!({ "defer": false }))], json!({})));
    let expected = tool.replace(r#""name":"odd""#, r#""name":"mcp__s__odd""#);
    for locked in [false, true] {
        if locked {
            project.lock();
        }
        let mut client = Client::start(&project, &[]);
        let id = client.send("tools/list", json!({}));
        assert_eq!(
            client.raw_answer(id),
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{expected}]}}}}"#)
        );
        let id = client.send("tools/call", json!({ "name": "mcp__s__odd", "arguments": {} }));
        assert_eq!(client.raw_answer(id), format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
        client.end();
        let mut client = Client::stateless(&project, &[]);
        let id = client.send("tools/call", json!({ "name": "mcp__s__odd", "arguments": {} }));
        let body = &result[1..];
        assert_eq!(
            client.raw_answer(id),
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete",{body}}}"#)
        );
        client.end();
    }
}

#[test]
fn a_thousand_tools_are_one_page_and_more_have_a_cursor() {
    for (many, pages) in [(1000, vec![1000]), (2345, vec![1000, 1000, 345])] {
        let project = Project::new("");
        let script = json!({ "many": many });
        project.write("config.yml", &config(&[scripted("s", &script, json!({ "defer": false }))], json!({})));
        let mut client = Client::start(&project, &[]);
        let (mut seen, mut names, mut params) = (Vec::new(), Vec::new(), json!({}));
        loop {
            let page = client.request("tools/list", params);
            let tools = page["tools"].as_array().unwrap();
            seen.push(tools.len());
            names.extend(tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()));
            match page.get("nextCursor") {
                Some(cursor) => params = json!({ "cursor": cursor }),
                None => break,
            }
        }
        assert_eq!(seen, pages);
        let expected: Vec<_> = (0..many).map(|number| format!("mcp__s__t{number:04}")).collect();
        assert_eq!(names, expected);
        let error = client.error("tools/list", json!({ "cursor": "nonsense" }));
        assert_eq!(error, json!({ "code": -32602, "message": "unknown cursor" }));
        client.end();
    }
}

#[test]
fn a_result_over_the_limit_is_cut_and_says_so() {
    let project = with_tools(json!(["echo"]), json!({ "max_result_chars": 400 }), json!({}));
    let mut client = Client::start(&project, &[]);
    let short = client.text("mcp__s__echo", json!({ "t": "x".repeat(100) }));
    assert_eq!(short.len(), 108, "below the limit nothing changes");
    let long = client.text("mcp__s__echo", json!({ "t": "y".repeat(5000) }));
    assert!(long.len() < 400 && long.starts_with("{\"t\":\"yyy") && long.ends_with("yyy\"}"), "{long}");
    for word in ["s", "mcp__s__echo", "max_result_chars"] {
        assert!(long.contains(word), "{word}: {long}");
    }
    client.end();
}

#[test]
fn progress_comes_in_order_under_the_clients_own_token_before_the_answer() {
    let project = with_tools(json!(["count"]), json!({}), json!({}));
    let mut client = Client::start(&project, &[]);
    for token in [json!("tok-1"), json!(7)] {
        let id = client.send(
            "tools/call",
            json!({ "name": "mcp__s__count", "arguments": { "to": 20 }, "_meta": { "progressToken": token } }),
        );
        for number in 1..=20 {
            let progress = client.notice("notifications/progress");
            assert_eq!(
                progress["params"],
                json!({ "progressToken": token, "progress": number as f64, "message": format!("at {number}") })
            );
        }
        assert_eq!(client.answer(id)["result"]["content"][0]["text"], "counted");
    }
    // Without a token nothing is sent.
    client.text("mcp__s__count", json!({ "to": 3 }));
    assert_eq!(client.notices("notifications/progress"), 0);
    client.end();
    let sent = received(&project, "tools/call");
    assert!(
        sent.iter().all(|call| call["params"]["_meta"]["progressToken"] != "tok-1"),
        "upstream has its own: {sent:?}"
    );
}

#[test]
fn meta_of_a_call_reaches_the_server_without_what_is_ours() {
    let project = with_tools(json!(["echo"]), json!({}), json!({}));
    let mut client = Client::stateless(&project, &[]);
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    client.request(
        "tools/call",
        json!({ "name": "mcp__s__echo", "arguments": {}, "_meta": { "traceparent": trace, "x/y": 1.5 } }),
    );
    client.end();
    let calls = received(&project, "tools/call");
    let meta = calls[0]["params"]["_meta"].as_object().unwrap();
    assert_eq!((&meta["traceparent"], &meta["x/y"]), (&json!(trace), &json!(1.5)));
    assert!(!meta.keys().any(|key| key.starts_with("io.modelcontextprotocol/")), "{meta:?}");
}

#[test]
fn cancelling_reaches_the_server_and_gets_no_answer() {
    let project = with_tools(json!(["never", "echo"]), json!({}), json!({}));
    let pipe = project.pipe("unused");
    let mut client = Client::start(&project, &[]);
    let id = client.send("tools/call", json!({ "name": "mcp__s__never", "arguments": { "gate": pipe } }));
    let upstream = loop {
        client.text("mcp__s__echo", json!({}));
        let calls = received(&project, "tools/call");
        if let Some(call) = calls.iter().find(|call| call["params"]["name"] == "never") {
            break call["id"].clone();
        }
    };
    client.notify("notifications/cancelled", json!({ "requestId": id, "reason": "enough" }));
    while received(&project, "notifications/cancelled").is_empty() {
        client.text("mcp__s__echo", json!({}));
    }
    assert_eq!(received(&project, "notifications/cancelled")[0]["params"]["requestId"], upstream);
    let log = client.end();
    assert!(!log.contains("ERROR"), "{log}");
}

#[test]
fn what_is_no_message_is_answered_and_the_session_goes_on() {
    let project = with_tools(json!(["echo"]), json!({}), json!({}));
    let mut client = Client::start(&project, &[]);
    for (line, id, code) in [
        ("hello", json!(null), -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":900,\"method\":", json!(null), -32700),
        ("[1]", json!(null), -32600),
        (r#"{"jsonrpc":"2.0","id":901,"method":"tools/call","params":[1]}"#, json!(901), -32602),
        (r#"{"jsonrpc":"2.0","id":"902","method":"tools/call","params":{"arguments":{}}}"#, json!("902"), -32602),
        (r#"{"jsonrpc":"2.0","id":903,"method":"no/such/method"}"#, json!(903), -32601),
    ] {
        client.line(line);
        let answer = client.answer_to(&id);
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
    }
    // Blank lines, the line ends of Windows and notifications that make no sense are nobody's fault.
    client.line("");
    client.line("  \r");
    client.line(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}"#);
    client.line(r#"{"jsonrpc":"2.0","method":"notifications/of/mine","params":{"a":1}}"#);
    client.line("{\"jsonrpc\":\"2.0\",\"id\":904,\"method\":\"ping\"}\r");
    assert_eq!(client.answer_to(&json!(904))["result"], json!({}));
    assert_eq!(client.text("mcp__s__echo", json!({ "fine": true })), r#"{"fine":true}"#);
    assert_eq!(client.waiting(), 0, "nothing else was said");
    client.end();
}

#[test]
fn a_very_large_line_is_taken_and_a_larger_one_refused() {
    let project = with_tools(json!(["echo"]), json!({}), json!({ "mcp": { "max_result_chars": 0 } }));
    let mut client = Client::start(&project, &[]);
    let large = "x".repeat(6 << 20);
    assert_eq!(client.text("mcp__s__echo", json!({ "t": large })).len(), large.len() + 8);
    // Whoever asked is told, wherever in the message the id stands.
    let larger = "y".repeat(17 << 20);
    client.line(&format!(r#"{{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{{"t":"{larger}"}}}}"#));
    let refused = json!({ "code": -32600, "message": "the message is longer than 16 MiB" });
    assert_eq!(client.answer_to(&json!("a"))["error"], refused);
    client.line(&format!(r#"{{"params":{{"id":1,"t":"{larger}"}},"method":"tools/call","id":"b"}}"#));
    assert_eq!(client.answer_to(&json!("b"))["error"], refused);
    // A notification has no one who waits.
    client.line(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/x","params":{{"t":"{larger}"}}}}"#));
    assert_eq!(client.text("mcp__s__echo", json!({})), "{}");
    assert_eq!(client.waiting(), 0);
    // Of anything else nobody knows who waits for what.
    client.line(&larger);
    let answer = client.answer_to(&Value::Null);
    let expected = "the message is longer than 16 MiB and has no id to answer to, so the connection is closed";
    assert_eq!(answer["error"], json!({ "code": -32600, "message": expected }));
    let (status, log) = client.ended();
    assert!(status.success() && log.contains("the client's connection is closed"), "{status}: {log}");
}

#[test]
fn the_last_line_needs_no_end() {
    let project = with_tools(json!(["echo"]), json!({}), json!({}));
    let mut client = Client::start(&project, &[]);
    client.text("mcp__s__echo", json!({}));
    client.last_words(r#"{"jsonrpc":"2.0","id":77,"method":"ping"}"#);
    assert_eq!(client.answer_to(&json!(77))["result"], json!({}));
    client.end();
}

#[test]
fn a_client_that_never_speaks_mcp_is_told_so() {
    let project = Project::new(&config(&[], json!({})));
    let mut client = Client::connect(&project, &[], Era::Session);
    client.hang_up();
    let (status, _) = client.ended();
    assert!(status.success(), "a client that says nothing is no fault: {status}");
    let mut client = Client::connect(&project, &[], Era::Session);
    client.line(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    assert_eq!(client.answer(1)["error"]["code"], -32602);
    client.initialize("2025-11-25");
    assert_eq!(client.names(), [] as [&str; 0]);
    client.end();
}

#[test]
fn a_line_after_another_may_come_in_pieces() {
    let project =
        Project::new(&config(&[scripted("s", &json!({ "tools": ["echo"] }), json!({ "defer": false }))], json!({})));
    let mut client = Client::start(&project, &[]);
    client.names();
    let mut pieces = std::io::LineWriter::with_capacity(1, client.stdin());
    pieces.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":50,").unwrap();
    pieces.flush().unwrap();
    pieces.write_all(b"\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"id\":51,\"method\":\"ping\"}\n").unwrap();
    drop(pieces);
    assert_eq!(client.answer(50)["result"], json!({}));
    assert_eq!(client.answer(51)["result"], json!({}));
    client.end();
}

#[test]
fn answers_that_come_at_once_are_each_whole_whatever_their_size() {
    let project = with_tools(json!(["echo"]), json!({ "max_result_chars": 0 }), json!({}));
    let mut client = Client::start(&project, &[]);
    let sizes = [0, 10, 40_000, 10, 200_000, 31_000, 900, 33_000];
    let texts: Vec<_> = (0..80).map(|at| format!("{at}{}", "x".repeat(sizes[at % sizes.len()]))).collect();
    let call = |text: &String| json!({ "name": "mcp__s__echo", "arguments": { "t": text } });
    let ids: Vec<_> = texts.iter().map(|text| client.send("tools/call", call(text))).collect();
    for (id, text) in ids.into_iter().zip(&texts) {
        let answer = client.answer(id);
        assert_eq!(answer["result"]["content"][0]["text"], json!({ "t": text }).to_string());
    }
    assert_eq!(client.waiting(), 0, "one answer each");
    client.end();
}

#[test]
fn an_id_that_is_in_flight_is_refused_and_the_first_call_goes_on() {
    let project = with_tools(json!(["wait"]), json!({}), json!({}));
    let gate = project.pipe("gate");
    let mut client = Client::start(&project, &[]);
    let call = json!({ "jsonrpc": "2.0", "id": "same", "method": "tools/call",
                       "params": { "name": "mcp__s__wait", "arguments": { "gate": gate } } });
    client.line(&call.to_string());
    client.line(&call.to_string());
    let refused = client.answer_to(&json!("same"));
    assert_eq!(refused["error"]["message"], "the id same is that of a request in flight");
    release(&gate);
    assert_eq!(client.answer_to(&json!("same"))["result"]["content"][0]["text"], "let go");
    assert_eq!(received(&project, "tools/call").len(), 1);
    client.end();
}

#[test]
fn an_id_that_was_taken_back_may_be_used_again_at_once() {
    let project = with_tools(json!(["never", "echo"]), json!({}), json!({}));
    let mut client = Client::start(&project, &[]);
    let call = |tool: &str, arguments: Value| {
        let params = json!({ "name": format!("mcp__s__{tool}"), "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": "again", "method": "tools/call", "params": params }).to_string()
    };
    client.line(&call("never", json!({})));
    client.notify("notifications/cancelled", json!({ "requestId": "again" }));
    client.line(&call("echo", json!({ "n": 2 })));
    assert_eq!(client.answer_to(&json!("again"))["result"]["content"][0]["text"], "{\"n\":2}");
    client.request("ping", json!({}));
    assert_eq!(client.waiting(), 0, "the first has no answer");
    client.end();
}
