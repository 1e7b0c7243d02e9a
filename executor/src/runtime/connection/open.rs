//! The way to a connection: a launch with its values, a transport, the handshake, the lists; or the cause why not.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Launch, Remote, Server};
use rmcp::model::ProtocolVersion;
use rmcp::service::ClientInitializeError;
use rmcp::transport::Transport;
use rmcp::{RoleClient, ServiceExt as _};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attend::{self, Attended};
use super::error::{CallError, ConnectError, Step};
use super::host::Host;
use super::{Connection, Context, Event, Inner, call};
use crate::runtime::environment;
use crate::runtime::process;
use crate::runtime::secrets::{self, Mask, Opened, Sources};
use crate::runtime::transport::MESSAGE_MAX;
use crate::runtime::transport::http::{self, HttpError, Watch};
use crate::runtime::transport::stdio::{Mouth, Stdio};
use crate::runtime::transport::tap::{Notices, Odd, Tap};

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
    events: mpsc::Sender<Event>,
) -> Result<(Connection, Observed), ConnectError> {
    connect_unless(server, context, events, Attempt::default()).await
}

/// An attempt to connect, as it can be followed and influenced from outside.
#[derive(Clone, Debug, Default)]
pub struct Attempt {
    /// Cancelled by whoever no longer wants the connection.
    pub given_up: CancellationToken,
    /// Cancelled once `initialize` is answered; what is left are the lists.
    pub initialized: CancellationToken,
}

/// The same, until `attempt` is given up; then a process that was started is ended as gently as one that is ready.
///
/// # Errors
/// The same, and [`ConnectError::GivenUp`].
pub async fn connect_unless(
    server: &Server,
    context: &Context,
    events: mpsc::Sender<Event>,
    attempt: Attempt,
) -> Result<(Connection, Observed), ConnectError> {
    if matches!(server.launch, Launch::Sse(_) | Launch::Websocket(_)) {
        let transport = server.launch.kind().as_str();
        return Err(ConnectError::Transport { server: server.name.clone(), transport });
    }
    let (opened, mask) = secrets::open(server, context.sources())?;
    match opened {
        Opened::Stdio { command, args, env, cwd } => {
            let command = command_of(server, context, &mask, Resolved { command, args, env, cwd })?;
            let spawned = process::spawn(&command).map_err(|error| ConnectError::Spawn {
                server: server.name.clone(),
                cause: mask.apply(&error.to_string()).into_owned(),
            })?;
            over_process(server, mask, spawned, events, attempt).await
        }
        Opened::Http { url, headers } => {
            tokio::select! {
                biased;
                // There is no process to be gentle with.
                () = attempt.given_up.cancelled() => Err(ConnectError::GivenUp { server: server.name.clone() }),
                connected = over_http(server, context, mask, (&url, &headers), (events, &attempt)) => connected,
            }
        }
    }
}

/// A stdio launch with its values.
struct Resolved {
    command: SecretString,
    args: Vec<SecretString>,
    env: BTreeMap<String, SecretString>,
    cwd: PathBuf,
}

fn command_of(
    server: &Server,
    context: &Context,
    mask: &Mask,
    resolved: Resolved,
) -> Result<process::Command, ConnectError> {
    let Launch::Stdio(stdio) = &server.launch else {
        return Err(ConnectError::Spawn { server: server.name.clone(), cause: "it has no command".to_owned() });
    };
    let exposed = |secret: &SecretString| secret.expose_secret().to_owned();
    let declared = resolved.env.iter().map(|(name, value)| (name.clone(), exposed(value))).collect();
    let environment = environment::of_child(stdio.environment, &context.environment, declared);
    if !resolved.cwd.is_dir() {
        let directory = mask.apply(&resolved.cwd.display().to_string()).into_owned();
        return Err(ConnectError::Directory { server: server.name.clone(), directory });
    }
    let path = environment.get("PATH").map(String::as_str);
    let program = find(resolved.command.expose_secret(), path, context.sources()).map_err(|mut cause| {
        cause.program = mask.apply(&cause.program).into_owned();
        cause.searched = cause.searched.map(|path| mask.apply(&path).into_owned());
        ConnectError::NotFound { server: server.name.clone(), cause }
    })?;
    let args = resolved.args.iter().map(exposed).collect();
    Ok(process::Command { program, args, environment, directory: resolved.cwd })
}

/// The program: our own for the name of our own binary, else as the child would find it.
fn find(command: &str, path: Option<&str>, sources: Sources<'_>) -> Result<PathBuf, process::NotFound> {
    let own = std::env::current_exe().ok().filter(|own| own.file_stem() == Some("mcplan".as_ref()));
    match own {
        Some(own) if command == "mcplan" => Ok(own),
        _ => {
            let command = if command.starts_with("~/") {
                secrets::absolute(command, sources).display().to_string()
            } else {
                command.to_owned()
            };
            process::resolve(&command, path, sources.directory)
        }
    }
}

async fn over_process(
    server: &Server,
    mask: Mask,
    (child, pipes): (process::Child, process::Pipes),
    events: mpsc::Sender<Event>,
    attempt: Attempt,
) -> Result<(Connection, Observed), ConnectError> {
    let mut attended = Attended::process(child, pipes.stderr, &mask, &events);
    attended.attempt = attempt;
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
    let stdio = Stdio::new(reader, mouth, reporter(mask.clone(), events.clone()));
    establish(server, mask, stdio, attended, events).await
}

/// Turns what is odd about a stream into events, ten a second at most.
fn reporter(mask: Mask, events: mpsc::Sender<Event>) -> Box<dyn FnMut(Odd) + Send> {
    let mut throttle = process::Throttle::per_second(10);
    Box::new(move |odd| {
        let Some(left_out) = throttle.pass() else { return };
        let more = if left_out > 0 { format!(" (and {left_out} more before it)") } else { String::new() };
        let event = match odd {
            Odd::Noise(start) => Event::Noise(format!("{}{more}", mask.apply_excerpt(&start))),
            Odd::TooLong { bytes, start } => Event::Warning(format!(
                "a line of {bytes} bytes was thrown away, more than {} are not taken; it starts with {}{more}",
                MESSAGE_MAX,
                mask.apply_excerpt(&start)
            )),
        };
        let _ = events.try_send(event);
    })
}

async fn over_http(
    server: &Server,
    context: &Context,
    mask: Mask,
    (url, headers): (&SecretString, &BTreeMap<String, SecretString>),
    (events, attempt): (mpsc::Sender<Event>, &Attempt),
) -> Result<(Connection, Observed), ConnectError> {
    let name = || server.name.clone();
    let parsed = reqwest::Url::parse(url.expose_secret());
    let cause = match &parsed {
        Ok(parsed) if !matches!(parsed.scheme(), "http" | "https") => Some("it must start with http:// or https://"),
        Ok(parsed) if !parsed.has_host() => Some("it names no host"),
        Ok(_) => None,
        Err(_) => Some("it is no absolute URL"),
    };
    if let Some(cause) = cause {
        return Err(ConnectError::Url { server: name(), cause: cause.to_owned() });
    }
    let client = context.http().map_err(|cause| ConnectError::Protocol { server: name(), cause })?;
    let (notices, watch) = (Arc::new(Notices::default()), Arc::new(Watch::default()));
    let transport = http::transport(client, url, headers, notices.clone(), watch.clone())?;
    let mut attended = Attended::remote(notices, watch);
    attended.attempt = attempt.clone();
    establish(server, mask, transport, attended, events).await
}

/// Steps as a number that the clock can read.
struct Progressed(AtomicU8);

impl Progressed {
    const STEPS: [Step; 5] = [Step::Initialize, Step::Tools, Step::Prompts, Step::ResourceTemplates, Step::Resources];

    fn set(&self, step: Step) {
        self.0.store(step as u8, Ordering::Relaxed);
    }

    fn get(&self) -> Step {
        Self::STEPS[usize::from(self.0.load(Ordering::Relaxed)).min(Self::STEPS.len() - 1)]
    }
}

/// Why the way to a connection ended.
enum Failed {
    Initialize(Box<ClientInitializeError>),
    Version(String),
    Discover(CallError),
    Exited,
    Clock,
    GivenUp,
}

async fn establish<T: Transport<RoleClient> + 'static>(
    server: &Server,
    mask: Mask,
    transport: T,
    mut attended: Attended,
    events: mpsc::Sender<Event>,
) -> Result<(Connection, Observed), ConnectError> {
    let limit = Duration::try_from_secs_f64(server.limits.timeout_seconds).unwrap_or(Duration::MAX);
    let deadline = Instant::now().checked_add(limit);
    let progressed = Progressed(AtomicU8::new(Step::Initialize as u8));
    let transport = Tap::new(transport, attended.notices.clone(), attended.closed.clone());
    let (cancels, cancelled) = mpsc::channel(1024);
    let over = CancellationToken::new();
    let ready = async {
        let service = Host.serve(transport).await.map_err(|error| Failed::Initialize(Box::new(error)))?;
        attended.attempt.initialized.cancel();
        let version = service.peer_info().map(|info| info.protocol_version.clone()).unwrap_or_default();
        if !version.has_initialize() || !ProtocolVersion::KNOWN_VERSIONS.contains(&version) {
            return Err(Failed::Version(version.to_string()));
        }
        let inner = Arc::new(Inner {
            server: server.name.clone(),
            limits: server.limits,
            peer: service.peer().clone(),
            mask: mask.clone(),
            process: attended.is_process(),
            repeatable: RwLock::default(),
            cancels,
            over: over.clone(),
            ended: OnceLock::new(),
        });
        let step = |step| progressed.set(step);
        // Until there is a task to tell why, the end of the stream is reason enough.
        let observed = tokio::select! {
            biased;
            observed = inner.discover(&step) => inner.masked(observed.map_err(Failed::Discover)?),
            () = attended.closed.cancelled() => {
                return Err(Failed::Discover(CallError::Lost {
                    server: server.name.clone(),
                    reason: "the connection was closed".to_owned(),
                }));
            }
        };
        Ok((service, inner, observed))
    };
    let result = tokio::select! {
        biased;
        result = ready => result,
        () = attend::exited(&attended.child) => Err(Failed::Exited),
        () = attended.attempt.given_up.cancelled() => Err(Failed::GivenUp),
        () = sleep_until(deadline) => Err(Failed::Clock),
    };
    match result {
        Ok((service, inner, observed)) => {
            attended.look().await;
            Ok((attend::start(inner, service, attended, cancelled, events), observed))
        }
        Err(failed) => Err(explain(server, &mask, failed, progressed.get(), attended).await),
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Cleans up after a failed connection and finds the cause.
async fn explain(server: &Server, mask: &Mask, failed: Failed, step: Step, attended: Attended) -> ConnectError {
    let (name, watch) = (server.name.clone(), attended.watch.clone());
    // The end of the stream and of the process come together, in either order.
    let is_end = match &failed {
        Failed::Exited | Failed::Discover(CallError::Lost { .. }) => true,
        Failed::Initialize(error) => {
            matches!(**error, ClientInitializeError::ConnectionClosed(_) | ClientInitializeError::TransportError { .. })
        }
        _ => false,
    };
    let is_process = attended.is_process();
    let own_end = if is_end { attended.own_end().await } else { None };
    let (_, stderr) = attended.bury(Instant::now() + Duration::from_secs(1)).await;
    if is_end && is_process {
        return match own_end {
            Some(exit) => ConnectError::Exited { server: name, exit, step, stderr },
            None => ConnectError::HungUp { server: name, step, stderr },
        };
    }
    let masked = |text: &str| mask.apply(text).into_owned();
    match failed {
        Failed::Clock => {
            let seconds = server.limits.timeout_seconds;
            ConnectError::TimedOut { server: name, step, seconds, at_least: false, stderr }
        }
        Failed::Version(version) => ConnectError::Version { server: name, version: masked(&version) },
        Failed::Initialize(error) => match *error {
            ClientInitializeError::JsonRpcError(error) => {
                ConnectError::Refused { server: name, code: error.code.0, message: masked(&error.message) }
            }
            error => {
                let told = match &error {
                    ClientInitializeError::TransportError { error, .. } => call::http_error(error),
                    _ => None,
                };
                match told.or_else(|| watch.and_then(|watch| watch.failure())) {
                    Some(error) => http_cause(server, mask, error),
                    None => ConnectError::Protocol { server: name, cause: masked(&in_words(&error)) },
                }
            }
        },
        Failed::Discover(error) => match watch.and_then(|watch| watch.failure()) {
            Some(error) => http_cause(server, mask, error),
            None => ConnectError::Protocol { server: name, cause: masked(&error.to_string()) },
        },
        Failed::GivenUp => ConnectError::GivenUp { server: name },
        Failed::Exited => ConnectError::HungUp { server: name, step, stderr },
    }
}

/// rmcp prints whole messages; they may be long and are no help.
fn in_words(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ExpectedInitResult(_) | ClientInitializeError::ExpectedInitResponse(_) => {
            "its answer to `initialize` is not what the protocol asks for".to_owned()
        }
        ClientInitializeError::ConnectionClosed(_) => "it closed the connection".to_owned(),
        ClientInitializeError::ConflictInitResponseId(..) | ClientInitializeError::UncorrelatedErrorResponse { .. } => {
            "it answered another request than `initialize`".to_owned()
        }
        other => other.to_string(),
    }
}

fn http_cause(server: &Server, mask: &Mask, error: HttpError) -> ConnectError {
    let name = server.name.clone();
    let masked = |text: &str| mask.apply(text).into_owned();
    match error {
        HttpError::Status { status: status @ (401 | 403), .. } => {
            let sent = match &server.launch {
                Launch::StreamableHttp(http) | Launch::Sse(http) | Launch::Websocket(http) => written(http),
                Launch::Stdio(_) => Vec::new(),
            };
            ConnectError::Unauthorized { server: name, status, sent }
        }
        HttpError::Status { status, body } => {
            ConnectError::Status { server: name, status, body: mask.apply_excerpt(&body) }
        }
        HttpError::Unreachable(cause) => ConnectError::Unreachable { server: name, cause: masked(&cause) },
        HttpError::Broken(cause) | HttpError::NotMcp(cause) => {
            ConnectError::Protocol { server: name, cause: masked(&cause) }
        }
    }
}

/// The headers of a config: their names and the references in them, never a text that might be a secret itself.
fn written(http: &Remote) -> Vec<String> {
    http.headers
        .iter()
        .map(|(name, value)| {
            let references: Vec<_> = value.references().map(|reference| format!("`{reference}`")).collect();
            if references.is_empty() {
                format!("the header `{name}`")
            } else {
                format!("the header `{name}` (from {})", references.join(", "))
            }
        })
        .collect()
}
