//! The way to a connection: a launch with its values, a transport of its kind, and what makes it ready.

use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Launch, Server};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::attend::Attended;
use super::error::ConnectError;
use super::establish::{establish, http_cause};
use super::launch::{Resolved, command_of};
use super::{Connection, Context, Event, Terms};
use crate::runtime::process;
use crate::runtime::secrets::{self, Mask, Opened};
use crate::runtime::transport::MESSAGE_MAX;
use crate::runtime::transport::remote::{Requests, Watch};
use crate::runtime::transport::sse::Sse;
use crate::runtime::transport::stdio::{Mouth, Stdio};
use crate::runtime::transport::streamable;
use crate::runtime::transport::tap::{Notices, Odd};
use crate::runtime::transport::websocket::Websocket;

/// Connects `server` and asks what it has, all within its `timeout_seconds`; the clock starts here.
///
/// `events` gets what happens on the connection afterwards, and lines of stderr from the start. When it is full,
/// stderr and noise are left out, the rest waits.
///
/// # Errors
/// Why it isn't connected. Nothing of a process is left then.
pub async fn connect(
    server: &Server,
    context: &Context,
    terms: &Terms,
    events: mpsc::Sender<Event>,
) -> Result<(Connection, Observed), ConnectError> {
    connect_unless(server, context, terms, events, CancellationToken::new()).await
}

/// The same, until `given_up` is cancelled; then a process that was started is ended as gently as one that is ready.
///
/// # Errors
/// The same, and [`ConnectError::GivenUp`].
pub async fn connect_unless(
    server: &Server,
    context: &Context,
    terms: &Terms,
    events: mpsc::Sender<Event>,
    given_up: CancellationToken,
) -> Result<(Connection, Observed), ConnectError> {
    let (opened, mask) = secrets::open(server, context.sources())?;
    match opened {
        Opened::Stdio { command, args, env, cwd } => {
            let resolved = Resolved { command: &command, args: &args, env: &env, cwd: &cwd };
            let command = command_of(server, context, &mask, &resolved)?;
            let spawned = process::spawn(&command).map_err(|error| ConnectError::Spawn {
                server: server.name.clone(),
                cause: mask.apply(&error.to_string()).into_owned(),
            })?;
            over_process(server, mask, spawned, events, given_up).await
        }
        Opened::Http { url, headers } => {
            let url = parsed(server, &url)?;
            let clients = context.clients(terms)?;
            let requests = |client| Requests::new(client, &headers);
            let requests = match server.launch {
                Launch::Websocket(_) => requests(clients.switching),
                _ => requests(clients.any),
            };
            over_http(server, mask, (url, requests?), events, given_up).await
        }
    }
}

async fn over_process(
    server: &Server,
    mask: Mask,
    (child, pipes): (process::Child, process::Pipes),
    events: mpsc::Sender<Event>,
    given_up: CancellationToken,
) -> Result<(Connection, Observed), ConnectError> {
    let mut attended = Attended::process(child, pipes.stderr, &mask, &events);
    attended.given_up = given_up;
    over_streams(server, mask, (pipes.stdout, pipes.stdin), attended, events).await
}

/// Over any pair of streams: a process's, or a test's.
pub(super) async fn over_streams<R, W>(
    server: &Server,
    mask: Mask,
    (reader, writer): (R, W),
    mut attended: Attended,
    events: mpsc::Sender<Event>,
) -> Result<(Connection, Observed), ConnectError>
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let mouth = Mouth::new(writer);
    let hang_up = mouth.clone();
    attended.hang_up = Some(Box::new(move || Box::pin(async move { hang_up.shut().await })));
    let stdio = Stdio::new(reader, mouth, reporter(mask.clone(), events.clone(), Event::Noise));
    establish(server, mask, async { Ok(stdio) }, attended, events).await
}

/// Turns what is odd about a stream into events, ten a second at most. What is no message becomes a `noise`.
fn reporter(mask: Mask, events: mpsc::Sender<Event>, noise: fn(String) -> Event) -> Box<dyn FnMut(Odd) + Send> {
    let mut throttle = process::Throttle::per_second(10);
    Box::new(move |odd| {
        let Some(left_out) = throttle.pass() else { return };
        let more = if left_out > 0 { format!(" (and {left_out} more before it)") } else { String::new() };
        let event = match odd {
            Odd::Noise(start) => noise(format!("{}{more}", mask.apply_excerpt(&start))),
            Odd::TooLong { bytes, start } => Event::Warning(format!(
                "a line of {bytes} bytes was thrown away, more than {} are not taken; it starts with {}{more}",
                MESSAGE_MAX,
                mask.apply_excerpt(&start)
            )),
        };
        let _ = events.try_send(event);
    })
}

/// A remote server says nothing on stdout.
fn remote_noise(start: String) -> Event {
    Event::Warning(format!("something that is no MCP message was skipped: {start}"))
}

async fn over_http(
    server: &Server,
    mask: Mask,
    (url, requests): (Url, Requests),
    events: mpsc::Sender<Event>,
    given_up: CancellationToken,
) -> Result<(Connection, Observed), ConnectError> {
    let (notices, watch) = (Arc::new(Notices::default()), Arc::new(Watch::default()));
    let mut attended = Attended::remote(notices.clone(), watch.clone());
    attended.given_up = given_up;
    let (report, cause) =
        (reporter(mask.clone(), events.clone(), remote_noise), |error| http_cause(server, &mask, error));
    match &server.launch {
        Launch::Websocket(_) => {
            let opening = async { Websocket::open(&requests, &url, watch, report).await.map_err(cause) };
            establish(server, mask.clone(), opening, attended, events).await
        }
        Launch::Sse(_) => {
            let opening = async { Sse::open(requests, &url, watch, report).await.map_err(cause) };
            establish(server, mask.clone(), opening, attended, events).await
        }
        _ => {
            let opening = async { Ok(streamable::transport(requests, url, notices, watch)) };
            establish(server, mask.clone(), opening, attended, events).await
        }
    }
}

/// The URL with its references resolved.
fn parsed(server: &Server, url: &SecretString) -> Result<Url, ConnectError> {
    let parsed = Url::parse(url.expose_secret());
    let schemes = match &server.launch {
        Launch::Websocket(_) => ["ws", "wss"],
        _ => ["http", "https"],
    };
    let cause = match parsed {
        Ok(parsed) if !schemes.contains(&parsed.scheme()) => {
            format!("it must start with {}:// or {}://", schemes[0], schemes[1])
        }
        Ok(parsed) if !parsed.has_host() => "it names no host".to_owned(),
        Ok(parsed) => return Ok(parsed),
        Err(_) => "it is no absolute URL".to_owned(),
    };
    Err(ConnectError::Url { server: server.name.clone(), cause })
}
