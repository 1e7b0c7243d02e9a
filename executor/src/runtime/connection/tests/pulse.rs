//! Whether the end of a remote server is noticed that nobody tells of; with the clock paused.

use super::*;
use crate::runtime::transport::remote::Watch;

/// Connected to a remote fake of either era.
async fn remote(start: Start) -> (Connection, Fake, mpsc::Receiver<Event>) {
    let server = fake_server(json!({"call_timeout_seconds": 0.0, "request_timeout_seconds": 20.0}));
    let attended = Attended::remote(Arc::default(), Arc::new(Watch::default()));
    let (attempt, mut fake, events) = dial_over(&server, start, attended);
    let script = async {
        match start {
            Start::Initialize => drop(fake.shake_hands("{}").await),
            Start::Discover(_) => {
                let asked = fake.expect("server/discover").await;
                fake.answer(&asked, r#"{"supportedVersions":["2026-07-28"],"capabilities":{}}"#).await;
            }
        }
        fake
    };
    let (outcome, fake) = tokio::join!(attempt, script);
    (outcome.unwrap().0, fake, events)
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_asked_and_lost_when_it_does_not_answer() {
    for (start, question) in [(Start::Initialize, "ping"), (Start::Discover(Duration::from_secs(2)), "server/discover")]
    {
        let (connection, mut fake, mut events) = remote(start).await;
        // What it said in the handshake counts until the first look.
        let began = Instant::now();
        let asked = fake.expect(question).await;
        assert_eq!(began.elapsed().as_secs(), 60);
        // Any answer counts.
        fake.fail(&asked, -32601, "no such method").await;
        let began = Instant::now();
        fake.expect(question).await;
        assert_eq!(began.elapsed().as_secs(), 60, "the answer was heard");
        let Some(Event::Closed(closed)) = events.recv().await else { panic!() };
        let reason = "the server no longer answers: it was silent for 20 s after a ping";
        assert_eq!(closed.reason, reason);
        let after = connection.send(&tool_call("x", json!({})), Client::default()).await;
        assert!(after.unwrap_err().to_string().ends_with(reason));
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_at_work_is_left_in_peace() {
    let (connection, mut fake, _events) = remote(Start::Initialize).await;
    let script = async {
        let request = fake.expect("tools/call").await;
        tokio::time::sleep(Duration::from_secs(3600)).await;
        fake.answer(&request, "{}").await;
        fake.expect("ping").await
    };
    let call = tool_call("x", json!({}));
    let (result, _) = tokio::join!(connection.send(&call, Client::default()), script);
    assert!(result.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_process_is_never_asked() {
    let (_connection, mut fake, _events) = connected(json!({})).await;
    let more = tokio::time::timeout(Duration::from_secs(3600), fake.next()).await;
    assert!(more.is_err(), "{more:?}");
}
