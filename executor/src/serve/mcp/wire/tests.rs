//! Lines of a client and what becomes of them.

use super::*;

fn method(line: &str) -> String {
    match from_client(line.as_bytes(), |_, _, _| Taken::No).map(Option::unwrap) {
        Ok(JsonRpcMessage::Request(request)) => match request.request {
            ClientRequest::CustomRequest(request) => request.method,
            other => format!("{other:?}").split('(').next().unwrap_or_default().to_owned(),
        },
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_passes_as_text_and_what_rmcp_keeps() {
    assert_eq!(method(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#), "mcplan/tools/list");
    assert_eq!(
        method(r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x"}}"#),
        "mcplan/tools/call"
    );
    assert_eq!(method(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), "PingRequest");
}

#[test]
fn a_line_that_is_no_message_is_answered() {
    let refused = |line: &str| match from_client(line.as_bytes(), |_, _, _| Taken::No).unwrap_err() {
        Refused::Answer { id, code, .. } => (id, code),
        silent => panic!("{silent:?}"),
    };
    assert_eq!(refused("hello"), (Value::Null, -32700));
    assert_eq!(refused("[1]"), (Value::Null, -32600));
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":7}"#), (Value::from(7), -32600));
    assert_eq!(refused(r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[1]}"#), (Value::from(7), -32602));
}

#[test]
fn a_notification_is_never_answered() {
    let bad = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}"#;
    assert!(!matches!(from_client(bad.as_bytes(), |_, _, _| Taken::No), Err(Refused::Answer { .. })));
}

#[tokio::test]
async fn a_request_is_in_flight_until_its_answer_is_written_and_nothing_is_read_after_stop() {
    let (mut client, reader) = tokio::io::duplex(1 << 16);
    let (requests, stop) = (TaskTracker::new(), CancellationToken::new());
    let lane = Lane::new(super::super::handler::tests::handler(), requests.clone());
    let mut wire = Wire::new(reader, tokio::io::sink(), lane, requests.clone(), stop.clone());
    let call =
        |id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"x\"}}}}\n");
    client.write_all((call(1) + &call(2)).as_bytes()).await.unwrap();
    wire.receive().await.unwrap();
    assert_eq!(requests.len(), 1);
    stop.cancel();
    {
        let second = std::pin::pin!(wire.receive());
        assert!(futures::FutureExt::now_or_never(second).is_none(), "the second call is not taken any more");
    }
    let answer = ServerResult::CustomResult(CustomResult(Value::String("{}".to_owned())));
    let answered = wire.send(JsonRpcMessage::response(answer, RequestId::Number(1)));
    assert_eq!(requests.len(), 1);
    answered.await.unwrap();
    assert_eq!(requests.len(), 0);
}

/// A client that asks and doesn't take the answers would have all of them gathered.
#[tokio::test]
async fn nothing_more_is_read_while_too_much_waits_for_the_client() {
    let (mut client, reader) = tokio::io::duplex(1 << 16);
    let (writer, mut answers) = tokio::io::duplex(1 << 16);
    let requests = TaskTracker::new();
    let lane = Lane::new(super::super::handler::tests::handler(), requests.clone());
    let mut wire = Wire::new(reader, writer, lane, requests, CancellationToken::new());
    let large = || {
        let text = format!("{{\"x\":\"{}\"}}", "x".repeat(MESSAGE_MAX));
        ServerResult::CustomResult(CustomResult(Value::String(text)))
    };
    let sends = (0..5).map(|id| tokio::spawn(wire.send(JsonRpcMessage::response(large(), RequestId::Number(id)))));
    let sends: Vec<_> = sends.collect();
    tokio::task::yield_now().await;
    client.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"tools/list\"}\n").await.unwrap();
    assert!(futures::FutureExt::now_or_never(Box::pin(wire.receive())).is_none());
    let read = tokio::spawn(async move { tokio::io::copy(&mut answers, &mut tokio::io::sink()).await });
    assert!(wire.receive().await.is_some(), "there is room again");
    futures::future::join_all(sends).await;
    // The same with many that are small.
    let asked = tokio::spawn(async move {
        for id in 0..=IN_FLIGHT_MAX {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}\",\"method\":\"tools/list\"}}\n");
            client.write_all(line.as_bytes()).await.unwrap();
        }
        client
    });
    for _ in 1..IN_FLIGHT_MAX {
        wire.receive().await.unwrap();
    }
    let _client = asked.await.unwrap();
    assert!(futures::FutureExt::now_or_never(Box::pin(wire.receive())).is_none());
    let answer = ServerResult::CustomResult(CustomResult(Value::String("{}".to_owned())));
    wire.send(JsonRpcMessage::response(answer, RequestId::Number(9))).await.unwrap();
    assert!(wire.receive().await.is_some());
    read.abort();
}
