//! From an open transport to a connection that is ready: the handshake and the lists, all within the server's time; or
//! the cause why not.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Remote, Server};
use rmcp::model::ProtocolVersion;
use rmcp::service::ClientInitializeError;
use rmcp::transport::Transport;
use rmcp::{RoleClient, ServiceExt as _};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attend::{self, Attended};
use super::error::{CallError, ConnectError, Step};
use super::host::Host;
use super::{Connection, Event, Inner, call};
use crate::runtime::secrets::Mask;
use crate::runtime::transport::remote::HttpError;
use crate::runtime::transport::tap::Tap;

/// Steps as a number that the clock can read.
struct Progressed(AtomicU8);

impl Progressed {
    const STEPS: [Step; 6] =
        [Step::Open, Step::Initialize, Step::Tools, Step::Prompts, Step::ResourceTemplates, Step::Resources];

    fn set(&self, step: Step) {
        self.0.store(step as u8, Ordering::Relaxed);
    }

    fn get(&self) -> Step {
        Self::STEPS[usize::from(self.0.load(Ordering::Relaxed)).min(Self::STEPS.len() - 1)]
    }
}

/// Why the way to a connection ended.
enum Failed {
    Opening(ConnectError),
    Initialize(Box<ClientInitializeError>),
    Version(String),
    Discover(CallError),
    Exited,
    Clock,
    GivenUp,
}

/// Makes a connection of the transport that `opening` gives.
///
/// # Errors
/// Why there is none. What was behind it has been ended then.
pub(super) async fn establish<T: Transport<RoleClient> + 'static>(
    server: &Server,
    mask: Mask,
    opening: impl Future<Output = Result<T, ConnectError>>,
    mut attended: Attended,
    events: mpsc::Sender<Event>,
) -> Result<(Connection, Observed), ConnectError> {
    let limit = Duration::try_from_secs_f64(server.limits.timeout_seconds).unwrap_or(Duration::MAX);
    let deadline = Instant::now().checked_add(limit);
    let progressed = Progressed(AtomicU8::new(Step::Open as u8));
    let (cancels, cancelled) = mpsc::channel(1024);
    let over = CancellationToken::new();
    let ready = async {
        let transport = opening.await.map_err(Failed::Opening)?;
        progressed.set(Step::Initialize);
        let transport = Tap::new(transport, attended.notices.clone(), attended.closed.clone());
        let service = Host.serve(transport).await.map_err(|error| Failed::Initialize(Box::new(error)))?;
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
        () = attended.given_up.cancelled() => Err(Failed::GivenUp),
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
        Failed::Opening(error) => error,
        Failed::Clock => ConnectError::TimedOut { server: name, step, seconds: server.limits.timeout_seconds, stderr },
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

/// Why a request of the way to a connection failed.
pub(super) fn http_cause(server: &Server, mask: &Mask, error: HttpError) -> ConnectError {
    let name = server.name.clone();
    let masked = |text: &str| mask.apply(text).into_owned();
    match error {
        HttpError::Status { status: status @ (401 | 403), .. } => {
            let sent = server.launch.remote().map(written).unwrap_or_default();
            ConnectError::Unauthorized { server: name, status, sent }
        }
        HttpError::Status { status, body } => {
            let transport = server.launch.kind();
            ConnectError::Status { server: name, status, body: mask.apply_excerpt(&body), transport }
        }
        redirect @ HttpError::Redirect { .. } => {
            ConnectError::Redirect { server: name, cause: mask.apply_excerpt(&redirect.to_string()) }
        }
        HttpError::Unreachable(cause) => ConnectError::Unreachable { server: name, cause: masked(&cause) },
        error @ (HttpError::Broken(_) | HttpError::NotMcp(_) | HttpError::Forgotten) => {
            ConnectError::Protocol { server: name, cause: masked(&error.to_string()) }
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
