//! Calls over a real process: what the public tests can't do, because only the gate makes an allowed call.

use super::*;

/// A shell script that doesn't know `server/discover` and answers `initialize`, then goes on as `rest` says, with the request's id in `$id`.
fn script(rest: &str) -> Server {
    let body = format!(
        r#"read -r line
printf '%s\n' '{{"jsonrpc":"2.0","id":null,"error":{{"code":-32601,"message":"no such method"}}}}'
read -r line
printf '%s\n' '{{"jsonrpc":"2.0","id":2000000001,"result":{{"protocolVersion":"2025-06-18","capabilities":{{}},"serverInfo":{{"name":"n","version":"1"}}}}}}'
read -r line
read -r line
id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
{rest}"#
    );
    let launch = json!({"transport": "stdio", "command": "sh", "args": [], "env": {"BODY": body}, "cwd": "/",
                        "environment": "minimal", "restart": "never"});
    let mut server = server(launch, json!({}));
    let Launch::Stdio(stdio) = &mut server.launch else { unreachable!() };
    stdio.args = ["-c", "eval \"$BODY\""].map(mcplan_compiler::interpolate::Template::literal).to_vec();
    stdio.env = BTreeMap::from([("BODY".to_owned(), mcplan_compiler::interpolate::Template::literal(body))]);
    server
}

async fn call_script(rest: &str) -> (Result<String, CallError>, Connection, mpsc::Receiver<Event>) {
    let (events, received) = mpsc::channel(64);
    let (connection, _) = connect(&script(rest), &Context::of_process("/"), &Terms::default(), events).await.unwrap();
    let call = tool_call("x", json!({}));
    let result = connection.send(&call, Client::default()).await.map(|text| text.get().to_owned());
    (result, connection, received)
}

#[tokio::test]
async fn a_process_answers() {
    let rest = format!("printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}}\\n' \"$id\" '{ODD}'; cat >/dev/null");
    let (result, connection, _events) = call_script(&rest).await;
    assert_eq!(result.unwrap(), ODD);
    connection.close(Instant::now() + Duration::from_secs(2)).await;
    assert_eq!(connection.ended().map(|closed| closed.reason.as_str()), Some("it was closed"));
}

#[tokio::test]
async fn an_answer_given_with_the_last_breath_counts() {
    let rest = format!("printf '{{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}}\\n' \"$id\" '{ODD}'; exit 0");
    for _ in 0..10 {
        let (result, _connection, _events) = call_script(&rest).await;
        assert_eq!(result.unwrap(), ODD);
    }
}

#[tokio::test]
async fn a_process_that_dies_in_a_call_says_how_and_with_what_words() {
    let (result, _connection, mut events) = call_script("echo 'out of cheese' >&2; exit 3").await;
    assert_eq!(
        result.unwrap_err().to_string(),
        "the connection to server `fake` was lost before it answered: the process ended (exit status 3); its last words: out of cheese"
    );
    assert_eq!(events.recv().await, Some(Event::Stderr("out of cheese".to_owned())));
    let Some(Event::Closed(closed)) = events.recv().await else { panic!() };
    assert_eq!(closed.exit, Some(Exit { code: Some(3), signal: None }));
    assert_eq!(closed.stderr, ["out of cheese"]);
}

#[tokio::test]
async fn a_process_that_closes_its_stdout_is_over() {
    // Also when it goes as soon as its stdin is closed, which is how a process is told to go.
    for rest in ["exec sleep 1000", "exec cat >/dev/null"] {
        let (result, _connection, mut events) = call_script(&format!("exec >&-; {rest}")).await;
        let text = result.unwrap_err().to_string();
        assert!(text.ends_with("the process closed its stdout"), "{rest}: {text}");
        let Some(Event::Closed(closed)) = events.recv().await else { panic!() };
        assert_eq!(closed.exit, None, "{rest}: it didn't end by itself");
    }
}

/// Whoever talks without end must not keep its own clock, or anybody else, from having a turn.
#[tokio::test]
async fn a_process_that_never_stops_talking_costs_its_time_to_connect_and_nobody_elses() {
    for flood in ["exec yes", "yes >&2"] {
        let mut server = script("");
        server.limits.timeout_seconds = 0.5;
        let Launch::Stdio(stdio) = &mut server.launch else { unreachable!() };
        stdio.env = BTreeMap::from([("BODY".to_owned(), mcplan_compiler::interpolate::Template::literal(flood))]);
        let (events, _received) = mpsc::channel(64);
        let (context, terms) = (Context::of_process("/"), Terms::default());
        let began = Instant::now();
        let attempt = connect(&server, &context, &terms, events);
        let neighbour = async {
            let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
            while began.elapsed() < Duration::from_millis(400) {
                tokio::task::yield_now().await;
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            longest
        };
        let (outcome, longest) = tokio::join!(attempt, neighbour);
        assert!(matches!(outcome, Err(ConnectError::TimedOut { .. })), "{flood}");
        assert!(began.elapsed() < Duration::from_secs(3), "{flood}: {:?}", began.elapsed());
        assert!(longest < Duration::from_millis(200), "{flood}: {longest:?}");
    }
}

#[tokio::test]
async fn a_process_that_is_given_up_while_connecting_may_say_goodbye() {
    let mut server = script("");
    let Launch::Stdio(stdio) = &mut server.launch else { unreachable!() };
    // Never answers, and takes leave when its stdin is closed.
    let body = "echo up >&2; while read -r line; do :; done; echo bye >&2; exit 0".to_owned();
    stdio.env = BTreeMap::from([("BODY".to_owned(), mcplan_compiler::interpolate::Template::literal(body))]);
    let (events, mut received) = mpsc::channel(64);
    let (wishes, context, terms) = (Attempt::default(), Context::of_process("/"), Terms::default());
    let attempt = connect_unless(&server, &context, &terms, events, wishes.clone());
    let stop = async {
        assert_eq!(received.recv().await, Some(Event::Stderr("up".to_owned())));
        wishes.given_up.cancel();
        received.recv().await
    };
    let (outcome, last) = tokio::join!(attempt, stop);
    assert!(matches!(outcome, Err(ConnectError::GivenUp { .. })), "{outcome:?}");
    assert_eq!(last, Some(Event::Stderr("bye".to_owned())));
}
