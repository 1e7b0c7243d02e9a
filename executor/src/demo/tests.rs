//! The server as a client sees it: every tool called, every rule of the protocol tried over pipes.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::thread::JoinHandle;

use mcplan_compiler::observed::parse_tool;
use serde_json::{Value, json};

use super::session::{REVISIONS, all_tools};
use super::{Group, Options, serve};

/// A client at the other end of two pipes.
struct Client {
    input: Option<PipeWriter>,
    output: BufReader<PipeReader>,
    server: JoinHandle<io::Result<()>>,
    next_id: u64,
}

impl Client {
    fn start() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        let (from_client, input) = io::pipe().unwrap();
        let (output, to_client) = io::pipe().unwrap();
        let server = std::thread::spawn(move || serve(BufReader::new(from_client), to_client, &options));
        Self { input: Some(input), output: BufReader::new(output), server, next_id: 1 }
    }

    fn send(&mut self, message: &Value) {
        let input = self.input.as_mut().expect("the input is open");
        input.write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    }

    /// Sends a request and returns what came before the answer, and the answer.
    fn ask(&mut self, method: &str, params: Value) -> (Vec<Value>, Value) {
        let id = self.next_id;
        self.next_id += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        let mut before = Vec::new();
        loop {
            let message = self.receive();
            if message["id"] == id {
                return (before, message);
            }
            before.push(message);
        }
    }

    fn result(&mut self, method: &str, params: Value) -> Value {
        let (_, mut answer) = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].take()
    }

    fn error(&mut self, method: &str, params: Value) -> (i64, String) {
        let (_, answer) = self.ask(method, params);
        (answer["error"]["code"].as_i64().expect("an error"), answer["error"]["message"].as_str().unwrap().to_owned())
    }

    fn call(&mut self, name: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({ "name": name, "arguments": arguments }))
    }

    /// The first text of a call that must work.
    fn text(&mut self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments);
        assert_eq!(result["isError"], false, "{name}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// The text of a call that must go wrong.
    fn wrong(&mut self, name: &str, arguments: Value) -> String {
        let result = self.call(name, arguments);
        assert_eq!(result["isError"], true, "{name}: {result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    fn tools(&mut self) -> Vec<Value> {
        let Value::Array(tools) = self.result("tools/list", json!({}))["tools"].take() else { panic!("no list") };
        tools
    }

    fn names(&mut self) -> BTreeSet<String> {
        self.tools().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Closes the input and returns everything that still came.
    fn end(mut self) -> Vec<Value> {
        drop(self.input.take());
        let rest = self.output.lines().map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
        self.server.join().unwrap().unwrap();
        rest
    }
}

#[test]
fn it_agrees_on_a_revision_it_knows() {
    let mut client = Client::start();
    for (wanted, agreed) in REVISIONS.iter().map(|known| (*known, *known)).chain([("2026-07-28", REVISIONS[0])]) {
        let params =
            json!({ "protocolVersion": wanted, "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
        let result = client.result("initialize", params);
        assert_eq!(result["protocolVersion"], agreed);
        assert_eq!(result["capabilities"]["tools"]["listChanged"], true);
        assert_eq!(result["serverInfo"]["name"], "mcplan-demo");
    }
    assert_eq!(client.error("initialize", json!({})).0, -32602);
    assert_eq!(client.error("server/discover", json!({})).0, -32601);
    assert_eq!(client.result("ping", json!({})), json!({}));
    assert!(client.end().is_empty());
}

#[test]
fn every_tool_is_one_that_mcplan_takes_and_is_well_described() {
    let mut client = Client::start();
    let tools = client.tools();
    assert_eq!(tools.len(), all_tools().count());
    let mut names = BTreeSet::new();
    for tool in &tools {
        let entry = parse_tool(&tool.to_string()).unwrap();
        let name = entry.known.name;
        assert!(names.insert(name.clone()), "{name} stands twice");
        assert!(entry.known.description.is_some_and(|text| text.ends_with('.')), "{name}");
        assert!(entry.known.annotations.unwrap().read_only_hint.is_some(), "{name}");
        for (parameter, schema) in tool["inputSchema"]["properties"].as_object().unwrap() {
            assert!(schema["description"].as_str().is_some_and(|text| text.ends_with('.')), "{name}.{parameter}");
        }
    }
}

/// A call of each tool, in an order that tells a story, with a part of the text that answers it.
const STORY: &[(&str, &str, &str)] = &[
    ("list_issues", r#"{"label": "bug", "assignee": "jonas", "limit": 1}"#, "\"total\": 2"),
    ("list_issues", r#"{"due_before": "2026-03-10"}"#, "\"total\": 1"),
    ("list_issues", r#"{"state": "closed"}"#, "Sell cakes by the metre"),
    ("get_issue", r#"{"number": 3}"#, "The count should carry over"),
    ("search_issues", r#"{"query": "CANADA pay"}"#, "\"number\": 5"),
    ("create_issue", r#"{"title": " Print labels ", "labels": ["stock", "feature", "stock"]}"#, "\"number\": 9"),
    ("update_issue", r#"{"number": 9, "due": "2026-05-01"}"#, "\"due\": \"2026-05-01\""),
    ("label_issue", r#"{"number": 9, "remove": ["stock"], "add": ["docs"]}"#, "docs, feature."),
    ("assign_issue", r#"{"number": 9, "assignee": "priya"}"#, "with Priya Nair now"),
    ("assign_issue", r#"{"number": 9}"#, "with nobody now"),
    ("comment_on_issue", r#"{"number": 9, "author": "maya", "body": "Nice."}"#, "Comment 1 on issue 9"),
    ("close_issue", r#"{"number": 9, "reason": "duplicate"}"#, "closed (duplicate)"),
    ("reopen_issue", r#"{"number": 9}"#, "\"Print labels\" is open"),
    ("issue_statistics", r#"{"on": "2026-03-28"}"#, "\"open\": 7"),
    ("issue_badge", r#"{"number": 9}"#, "9 open"),
    ("delete_issue", r#"{"number": 9}"#, "Issue 9 is gone"),
    ("list_people", "{}", "tomas: Tomás Silva"),
    ("list_notes", "{}", "release-checklist"),
    ("read_note", r#"{"name": "opening-hours"}"#, "Opening hours"),
    ("write_note", r#"{"name": "ovens", "text": "one"}"#, "ovens is written"),
    ("append_to_note", r#"{"name": "ovens", "text": "two"}"#, "has 2 lines"),
    ("search_notes", r#"{"text": "TWO"}"#, "ovens:2: two"),
    ("rename_note", r#"{"name": "ovens", "to": "oven-list"}"#, "is called oven-list now"),
    ("delete_note", r#"{"name": "oven-list"}"#, "oven-list is gone"),
    ("days_between", r#"{"from": "2026-03-06", "to": "2026-03-16"}"#, "10 days"),
    ("days_between", r#"{"from": "2026-03-06", "to": "2026-03-16", "working_days": true}"#, "6 working days"),
    ("days_between", r#"{"from": "2026-03-06", "to": "2026-02-28"}"#, "-6 days"),
    ("add_days", r#"{"date": "2024-02-28", "days": 2}"#, "2024-03-01"),
    ("add_days", r#"{"date": "2026-03-06", "days": 1, "working_days": true}"#, "2026-03-09"),
    ("describe_date", r#"{"date": "2027-01-01"}"#, "2026-W53"),
    ("convert_time", r#"{"time": "23:30", "from": "-05:00", "to": "+02:00"}"#, "06:30 the next day"),
    ("count_words", r#"{"text": "one two\nthree"}"#, "\"words\": 3"),
    ("change_case", r#"{"text": "Opening hoursPage", "style": "snake"}"#, "opening_hours_page"),
    ("change_case", r#"{"text": "opening-hours page", "style": "camel"}"#, "openingHoursPage"),
    ("find_and_replace", r#"{"text": "a-b-c", "find": "-", "replace": "+"}"#, "a+b+c"),
    ("sort_lines", r#"{"text": "b\nA\na", "ignore_case": true, "unique": true}"#, "A\nb"),
    ("compare_texts", r#"{"before": "a\nb\n", "after": "a\nc\n"}"#, "-b\n+c\n"),
    ("encode_text", r#"{"text": "é/a", "encoding": "url"}"#, "%C3%A9%2Fa"),
    ("decode_text", r#"{"text": "%C3%A9%2Fa", "encoding": "url"}"#, "é/a"),
    ("decode_text", r#"{"text": "c3a9", "encoding": "hex"}"#, "é"),
    ("decode_text", r#"{"text": "w6k=", "encoding": "base64"}"#, "é"),
    ("hash_text", r#"{"text": "abc"}"#, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
    ("calculate", r#"{"expression": "0.1 + 0.2"}"#, "0.3"),
    ("calculate", r#"{"expression": "0 * -1"}"#, "0"),
    ("calculate", r#"{"expression": "10 ^ 30 / 3"}"#, "3.33333333333e29"),
    ("convert_units", r#"{"value": 350, "from": "F", "to": "C"}"#, "176.666666667 C"),
    ("convert_units", r#"{"value": 2, "from": "cup", "to": "ml"}"#, "473.176473 ml"),
    ("describe_numbers", r#"{"numbers": [4, 1, 3, 2]}"#, "\"median\": 2.5"),
    ("factorise", r#"{"number": 360}"#, "360 = 2 × 2 × 2 × 3 × 3 × 5"),
    ("factorise", r#"{"number": 999999999989}"#, "is a prime number"),
    ("convert_base", r#"{"digits": "-ff", "from": 16, "to": 2}"#, "-11111111"),
    ("echo", r#"{"text": "hello"}"#, "hello"),
    ("count_to", r#"{"n": 3, "delay_ms": 0}"#, "Counted to 3."),
    ("set_tool_visible", r#"{"name": "echo", "visible": false}"#, "echo is hidden now"),
];

#[test]
fn every_tool_does_what_it_says() {
    let mut client = Client::start();
    let tools = client.tools();
    for (name, arguments, expected) in STORY {
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        let result = client.call(name, arguments);
        assert_eq!(result["isError"], false, "{name}: {result}");
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains(expected), "{name}: {text}");
        let tool = tools.iter().find(|tool| tool["name"] == *name).unwrap();
        fits(tool.get("outputSchema"), result.get("structuredContent"), name);
    }
    let told: BTreeSet<_> = STORY.iter().map(|(name, ..)| *name).collect();
    let all: BTreeSet<_> = all_tools().map(|tool| tool.name).collect();
    assert_eq!(told, all, "the story calls every tool");
}

/// A tool with an output schema answers with data that has what the schema requires and nothing that it doesn't know.
fn fits(schema: Option<&Value>, data: Option<&Value>, name: &str) {
    let (Some(schema), Some(data)) = (schema, data) else {
        assert_eq!(schema.is_some(), data.is_some(), "{name}: data goes with an output schema");
        return;
    };
    let data = data.as_object().unwrap();
    for key in schema["required"].as_array().unwrap() {
        assert!(data.contains_key(key.as_str().unwrap()), "{name} lacks {key}");
    }
    for key in data.keys() {
        assert!(schema["properties"].get(key).is_some(), "{name} has {key}");
    }
}

#[test]
fn what_goes_wrong_is_said_to_the_model() {
    let mut client = Client::start();
    for (name, arguments, expected) in [
        ("get_issue", json!({ "number": 99 }), "there is no issue 99; there are 1, 2, 3"),
        ("create_issue", json!({}), "create_issue: `title` is missing, it must be a string. It takes: title, body?"),
        ("create_issue", json!({ "title": " " }), "`title` must not be empty"),
        ("create_issue", json!({ "title": "x", "assignee": "bob" }), "nobody called \"bob\"; there are jonas"),
        ("update_issue", json!({ "number": 1 }), "nothing to change"),
        ("read_note", json!({ "name": "x" }), "there is no note \"x\"; there are opening-hours"),
        ("write_note", json!({ "name": "suppliers", "text": "" }), "set `overwrite`"),
        ("write_note", json!({ "name": "../x", "text": "" }), "can't be a note's name"),
        ("describe_date", json!({ "date": "2026-02-30" }), "must be a date like 2026-03-14, not \"2026-02-30\""),
        ("add_days", json!({ "date": "9999-12-31", "days": 1 }), "outside the years"),
        ("convert_time", json!({ "time": "25:00", "from": "Z", "to": "Z" }), "is no time like 17:30"),
        ("convert_time", json!({ "time": "12:00", "from": "Z", "to": "é2:00" }), "is no offset like"),
        ("decode_text", json!({ "text": "ff", "encoding": "hex" }), "no UTF-8 text"),
        ("compare_texts", json!({ "before": "a\n".repeat(5_001), "after": "b" }), "more than 5000 lines"),
        ("calculate", json!({ "expression": "1 / (2 - 2)" }), "division by zero"),
        ("convert_units", json!({ "value": 1, "from": "kg", "to": "m" }), "kg is a unit of mass, m one of length"),
        ("describe_numbers", json!({ "numbers": [] }), "at least one"),
        ("convert_base", json!({ "digits": "12", "from": 2, "to": 10 }), "no whole number in base 2"),
        ("set_tool_visible", json!({ "name": "set_tool_visible", "visible": false }), "can't hide itself"),
    ] {
        let text = client.wrong(name, arguments);
        assert!(text.contains(expected), "{name}: {text}");
    }
    let unchanged = client.call("list_issues", json!({ "state": "all" }));
    assert_eq!(unchanged["structuredContent"]["total"], 8, "a refused call changes nothing");
}

#[test]
fn what_breaks_the_protocol_is_a_protocol_error() {
    let mut client = Client::start();
    for (method, params, code) in [
        ("tools/call", json!({ "name": "nope" }), -32602),
        ("tools/call", json!({}), -32602),
        ("tools/call", json!({ "name": "echo", "arguments": ["x"] }), -32602),
        ("tools/list", json!({ "cursor": "2" }), -32602),
        ("prompts/get", json!({ "name": "nope" }), -32602),
        ("prompts/get", json!({ "name": "triage_issue" }), -32602),
        ("prompts/get", json!({ "name": "triage_issue", "arguments": { "number": "x" } }), -32602),
        ("resources/read", json!({ "uri": "note://nope" }), -32002),
        ("resources/subscribe", json!({ "uri": "note://nope" }), -32002),
        ("logging/setLevel", json!({ "level": "loud" }), -32602),
        ("nope", json!({}), -32601),
    ] {
        assert_eq!(client.error(method, params.clone()).0, code, "{method} {params}");
    }
    client.send(&json!("not a message"));
    assert_eq!(client.receive()["error"]["code"], -32600);
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/unheard-of" }));
    assert_eq!(client.result("ping", json!({})), json!({}), "it serves on");
}

#[test]
fn a_hidden_tool_is_gone_and_the_client_is_told_once() {
    let mut client = Client::with(Options { groups: Vec::new(), hidden: vec!["calculate".to_owned()] });
    assert!(!client.names().contains("calculate"));
    let show = json!({ "name": "set_tool_visible", "arguments": { "name": "calculate", "visible": true } });
    let (before, _) = client.ask("tools/call", show.clone());
    assert_eq!(before, [json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" })]);
    assert!(client.names().contains("calculate"));
    let (before, _) = client.ask("tools/call", show);
    assert!(before.is_empty(), "nothing changed: {before:?}");
    client.text("set_tool_visible", json!({ "name": "echo", "visible": false }));
    assert_eq!(client.error("tools/call", json!({ "name": "echo", "arguments": { "text": "x" } })).0, -32602);
    client.text("calculate", json!({ "expression": "1" }));
}

#[test]
fn a_group_alone_has_only_its_own() {
    let mut client = Client::with(Options { groups: vec!["math".parse().unwrap()], hidden: Vec::new() });
    let params = json!({ "protocolVersion": "2025-06-18" });
    let capabilities = client.result("initialize", params)["capabilities"].take();
    assert_eq!(capabilities, json!({ "tools": { "listChanged": true }, "logging": {} }));
    assert_eq!(client.tools().len(), 5);
    assert_eq!(client.error("prompts/list", json!({})).0, -32601);
    assert_eq!(client.error("resources/list", json!({})).0, -32601);
    assert!("maths".parse::<Group>().unwrap_err().contains("there are issues, notes"));
    let absent = Options { groups: vec![Group::Math], hidden: vec!["echo".to_owned()] };
    assert_eq!(serve(io::empty(), io::sink(), &absent).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}

#[test]
fn changes_are_told_to_those_who_asked() {
    let mut client = Client::start();
    let append = json!({ "name": "append_to_note", "arguments": { "name": "suppliers", "text": "x" } });
    assert!(client.ask("tools/call", append.clone()).0.is_empty());
    client.result("resources/subscribe", json!({ "uri": "note://suppliers" }));
    client.result("logging/setLevel", json!({ "level": "info" }));
    let methods = |messages: Vec<Value>| -> Vec<String> {
        messages.iter().map(|message| message["method"].as_str().unwrap().to_owned()).collect()
    };
    let (before, _) = client.ask("tools/call", append);
    assert_eq!(before[0]["params"], json!({ "level": "info", "logger": "bakery", "data": "note suppliers written" }));
    assert_eq!(before[1]["params"], json!({ "uri": "note://suppliers" }));
    client.result("resources/unsubscribe", json!({ "uri": "note://suppliers" }));
    client.result("logging/setLevel", json!({ "level": "error" }));
    let rename = json!({ "name": "rename_note", "arguments": { "name": "suppliers", "to": "mills" } });
    assert_eq!(methods(client.ask("tools/call", rename).0), ["notifications/resources/list_changed"]);
}

#[test]
fn prompts_and_resources_show_what_the_tools_changed() {
    let mut client = Client::start();
    client.text("comment_on_issue", json!({ "number": 5, "author": "jonas", "body": "Looking into it." }));
    let prompt = client
        .result("prompts/get", json!({ "name": "answer_customer", "arguments": { "number": "5", "tone": "formal" } }));
    assert!(prompt["messages"][0]["content"]["text"].as_str().unwrap().contains("formal reply"));
    assert!(prompt["messages"][1]["content"]["resource"]["text"].as_str().unwrap().contains("Looking into it."));
    assert_eq!(prompt["messages"][2]["content"]["resource"]["uri"], "note://style-guide");
    let listed = client.result("prompts/list", json!({}));
    assert_eq!(listed["prompts"].as_array().unwrap().len(), 3);
    for resource in client.result("resources/list", json!({}))["resources"].as_array().unwrap() {
        let contents = client.result("resources/read", json!({ "uri": resource["uri"] }))["contents"].take();
        assert_eq!(contents[0]["uri"], resource["uri"]);
        assert!(!contents[0]["text"].as_str().unwrap().is_empty());
    }
    let issue = client.result("resources/read", json!({ "uri": "issue://5" }));
    assert!(issue["contents"][0]["text"].as_str().unwrap().ends_with("> jonas: Looking into it.\n"));
    assert_eq!(client.result("resources/templates/list", json!({}))["resourceTemplates"].as_array().unwrap().len(), 2);
}

#[test]
fn completion_offers_what_fits_the_beginning() {
    let mut client = Client::start();
    for (reference, argument, typed, values) in [
        (json!({ "type": "ref/prompt", "name": "plan_week" }), "person", "p", json!(["priya"])),
        (json!({ "type": "ref/prompt", "name": "answer_customer" }), "tone", "f", json!(["formal", "friendly"])),
        (json!({ "type": "ref/resource", "uri": "note://{name}" }), "name", "re", json!(["release-checklist"])),
        (json!({ "type": "ref/resource", "uri": "issue://{number}" }), "number", "9", json!([])),
    ] {
        let params = json!({ "ref": reference, "argument": { "name": argument, "value": typed } });
        assert_eq!(client.result("completion/complete", params)["completion"]["values"], values);
    }
    let unknown = json!({ "ref": { "type": "ref/prompt", "name": "x" }, "argument": { "name": "a", "value": "" } });
    assert_eq!(client.error("completion/complete", unknown).0, -32602);
}

fn slow(id: &str, n: u64, delay_ms: u64) -> Value {
    let params = json!({
        "name": "count_to", "arguments": { "n": n, "delay_ms": delay_ms }, "_meta": { "progressToken": id },
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
}

#[test]
fn a_slow_call_reports_its_progress_in_order() {
    let mut client = Client::start();
    client.send(&slow("a", 3, 0));
    for number in 1..=3 {
        let progress = client.receive();
        assert_eq!(progress["method"], "notifications/progress");
        assert_eq!(progress["params"]["progressToken"], "a");
        assert_eq!((&progress["params"]["progress"], &progress["params"]["total"]), (&json!(number), &json!(3)));
    }
    assert_eq!(client.receive()["result"]["content"][0]["text"], "Counted to 3.");
    assert!(client.end().is_empty());
}

#[test]
fn others_are_answered_meanwhile_and_a_cancelled_call_is_not() {
    let mut client = Client::start();
    client.send(&slow("long", 1000, 60_000));
    assert_eq!(client.text("echo", json!({ "text": "still here" })), "still here");
    client.send(&slow("long", 1, 0));
    assert_eq!(client.receive()["result"]["isError"], true, "an id in use is refused");
    client.send(&json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": "long", "reason": "enough" },
    }));
    // Cancelling what isn't there does no harm.
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 77 } }));
    client.send(&slow("short", 1, 0));
    assert_eq!(client.receive()["params"]["progressToken"], "short");
    assert_eq!(client.receive()["id"], "short");
    assert!(client.end().is_empty());
}

#[test]
fn slow_calls_are_bounded_and_the_end_of_the_input_ends_them() {
    let mut client = Client::start();
    for number in 0..super::MAX_RUNNING {
        client.send(&slow(&format!("call {number}"), 1000, 60_000));
    }
    client.send(&slow("one too many", 1, 0));
    let refused = client.receive();
    assert_eq!((&refused["id"], &refused["result"]["isError"]), (&json!("one too many"), &json!(true)));
    // Joining the server returns although the calls had hours to go.
    assert!(client.end().is_empty());
}

#[test]
fn a_client_that_stops_reading_is_the_usual_end() {
    let Client { input, output, server, .. } = Client::start();
    drop(output);
    let mut input = input.unwrap();
    input.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").unwrap();
    server.join().unwrap().unwrap();
}

#[test]
fn two_sessions_that_do_the_same_say_the_same() {
    let run = || {
        let mut text = String::new();
        let mut client = Client::start();
        text += &client.result("tools/list", json!({})).to_string();
        for (name, arguments, _) in STORY {
            text += &client.call(name, serde_json::from_str(arguments).unwrap()).to_string();
        }
        text
    };
    assert_eq!(run(), run());
}
