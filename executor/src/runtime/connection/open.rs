//! The way to a connection: a launch with its values, a transport of its kind, and what makes it ready.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Launch, Server, TransportKind};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attend::Attended;
use super::error::ConnectError;
use super::establish::{Trial, Tried, http_cause};
use super::handshake::Start;
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
/// stderr and noise are left out and counted, the rest waits.
///
/// # Errors
/// Why it isn't connected. Nothing of a process is left then.
pub async fn connect(
    server: &Server,
    context: &Context,
    terms: &Terms,
    events: mpsc::Sender<Event>,
) -> Result<(Connection, Observed), ConnectError> {
    connect_unless(server, context, terms, events, Attempt::default()).await
}

/// An attempt to connect, as it can be followed and influenced from outside.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    /// Cancelled by whoever no longer wants the connection.
    pub given_up: CancellationToken,
    /// Cancelled once the handshake is over; what is left are the lists.
    pub initialized: CancellationToken,
    /// Where the process's stderr is kept too, beside that of those before it.
    pub stderr: process::Tail,
}

/// The same, until `attempt` is given up; then a process that was started is ended as gently as one that is ready.
///
/// # Errors
/// The same, and [`ConnectError::GivenUp`].
pub async fn connect_unless(
    server: &Server,
    context: &Context,
    terms: &Terms,
    events: mpsc::Sender<Event>,
    attempt: Attempt,
) -> Result<(Connection, Observed), ConnectError> {
    let (opened, mask) = secrets::open(server, context.sources())?;
    let way = match &opened {
        Opened::Stdio { command, args, env, cwd } => {
            let resolved = Resolved { command, args, env, cwd };
            Way::Process(Arc::new(command_of(server, context, &mask, &resolved)?))
        }
        Opened::Http { url, headers } => {
            let url = parsed(server, url)?;
            let clients = context.clients(terms)?;
            let is_websocket = server.launch.kind() == TransportKind::Websocket;
            let client = if is_websocket { clients.switching() } else { clients.any() };
            Way::Remote(url, Requests::new(client.map_err(|cause| ConnectError::Tls { cause })?, headers)?)
        }
    };
    let seconds = server.limits.timeout_seconds;
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
    let kind = server.launch.kind();
    let mut trial = Trial {
        server,
        mask,
        start: Start::of(kind, terms.era, seconds),
        deadline: Instant::now().checked_add(limit),
        events,
    };
    let not_ready = match way.go(&trial, &attempt).await {
        Ok(connected) => return Ok(connected),
        Err(not_ready) => not_ready,
    };
    let other = match trial.start {
        Start::Initialize => Start::of(kind, None, seconds),
        Start::Discover(_) => Start::Initialize,
    };
    if !not_ready.by_era || other == trial.start || attempt.given_up.is_cancelled() {
        return Err(not_ready.error);
    }
    trial.start = other;
    way.go(&trial, &attempt).await.map_err(|not_ready| not_ready.error)
}

/// All references of a launch that have no value, each as the reason why it can't be connected.
pub fn missing(server: &Server, context: &Context) -> Vec<ConnectError> {
    secrets::missing(server, context.sources()).into_iter().map(Into::into).collect()
}

/// The program that a stdio server's process would run, where its child would find it; `None` for a remote server.
///
/// # Errors
/// When it isn't there, or isn't known because a reference has no value.
pub fn program(server: &Server, context: &Context) -> Result<Option<String>, ConnectError> {
    let (opened, mask) = secrets::open(server, context.sources())?;
    let Opened::Stdio { command, args, env, cwd } = &opened else { return Ok(None) };
    let command = command_of(server, context, &mask, &Resolved { command, args, env, cwd })?;
    Ok(Some(mask.apply(&command.program.display().to_string()).into_owned()))
}

/// How a server is reached.
enum Way {
    Process(Arc<process::Command>),
    Remote(Url, Requests),
}

impl Way {
    async fn go(&self, trial: &Trial<'_>, attempt: &Attempt) -> Tried {
        match self {
            Self::Process(command) => over_process(trial, command, attempt).await,
            Self::Remote(url, requests) => over_http(trial, (url, requests), attempt).await,
        }
    }
}

async fn over_process(trial: &Trial<'_>, command: &Arc<process::Command>, attempt: &Attempt) -> Tried {
    let (child, pipes) = process::spawn(command).await.map_err(|error| {
        let (server, masked) = (trial.server.name.clone(), |text: &str| trial.mask.apply(text).into_owned());
        match unfit(&error, &command.program) {
            Some(cause) => ConnectError::Unfit { server, cause: masked(&cause) },
            None => ConnectError::Spawn { server, cause: masked(&error.to_string()) },
        }
    })?;
    let attended = Attended::process(child, pipes.stderr, &trial.mask, &trial.events, attempt);
    over_streams(trial, (pipes.stdout, pipes.stdin), attended).await
}

/// What is wrong with a program that was found, when that is why it can't be started.
fn unfit(error: &std::io::Error, program: &Path) -> Option<String> {
    let shown = program.display();
    #[cfg(unix)]
    if error.raw_os_error() == Some(nix::errno::Errno::ENOEXEC as i32) {
        return Some(format!(
            "`{shown}` is neither a program for this machine nor a script with a `#!` line; let a script begin with one, as in `#!/bin/sh`, or name what runs it as `command`, and take a program that was built for this machine"
        ));
    }
    (error.kind() == std::io::ErrorKind::NotFound && program.is_file()).then(|| {
        format!(
            "`{shown}` is there, and what it needs to run is not: correct the program that its `#!` line names, or install it; for a program that is no script, the system's loader that it was built for"
        )
    })
}

/// Over any pair of streams: a process's, or a test's.
pub(super) async fn over_streams<R, W>(trial: &Trial<'_>, (reader, writer): (R, W), mut attended: Attended) -> Tried
where
    R: AsyncRead + Unpin + Send + 'static,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let mouth = Mouth::new(writer);
    attended.shut_out = mouth.shut_out();
    let hang_up = mouth.clone();
    attended.hang_up = Some(Box::new(move || Box::pin(async move { hang_up.shut().await })));
    let stdio = Stdio::new(reader, mouth, reporter(trial, Event::Noise));
    trial.establish(async { Ok(stdio) }, attended).await
}

/// Turns what is odd about a stream into events, ten a second at most. What is no message becomes a `noise`.
fn reporter(trial: &Trial<'_>, noise: fn(String) -> Event) -> Box<dyn FnMut(Odd) + Send> {
    let (mask, events): (Mask, _) = (trial.mask.clone(), trial.events.clone());
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
        if events.try_send(event).is_err() {
            throttle.put_back(left_out + 1);
        }
    })
}

/// A remote server says nothing on stdout.
fn remote_noise(start: String) -> Event {
    Event::Warning(format!("something that is no MCP message was skipped: {start}"))
}

async fn over_http(trial: &Trial<'_>, (url, requests): (&Url, &Requests), attempt: &Attempt) -> Tried {
    let (notices, watch) = (Arc::new(Notices::default()), Arc::new(Watch::default()));
    let mut attended = Attended::remote(notices.clone(), watch.clone());
    attended.attempt = attempt.clone();
    let (report, requests) = (reporter(trial, remote_noise), requests.clone());
    let cause = |error| http_cause(trial.server, &trial.mask, error);
    match &trial.server.launch {
        Launch::Websocket(_) => {
            let opening = async { Websocket::open(&requests, url, watch, report).await.map_err(cause) };
            trial.establish(opening, attended).await
        }
        Launch::Sse(_) => {
            let opening = async { Sse::open(requests, url, watch, report).await.map_err(cause) };
            trial.establish(opening, attended).await
        }
        _ => {
            let patience = match trial.start {
                Start::Discover(patience) => patience,
                Start::Initialize => Duration::ZERO,
            };
            let shared = (notices, watch, attended.mirror.clone());
            let transport = streamable::transport(requests, url.clone(), patience, shared);
            trial.establish(async { Ok(transport) }, attended).await
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
