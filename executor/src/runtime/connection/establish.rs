//! From an open transport to a connection that is ready: the handshake and the lists, all within the server's time; or
//! the cause why not.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, RwLock};
use std::time::Duration;

use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Remote, Server, TransportKind};
use rmcp::RoleClient;
use rmcp::model::{ErrorCode, ErrorData};
use rmcp::service::serve_directly;
use rmcp::transport::Transport;
use tokio::sync::mpsc;
use tokio::task::coop;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::attend::{self, Attended, Listening};
use super::call_error::CallError;
use super::error::{ConnectError, Step};
use super::handshake::{Refusal, Start, shake_hands};
use super::host::Host;
use super::questions::Clients;
use super::steps;
use super::{Connection, Event, Inner, call};
use crate::core::era::Era;
use crate::runtime::secrets::Mask;
use crate::runtime::transport::raw::Stand;
use crate::runtime::transport::remote::HttpError;
use crate::runtime::transport::tap::Tap;

/// One way that is tried to a server.
#[derive(Clone)]
pub(super) struct Trial<'a> {
    pub(super) server: &'a Server,
    pub(super) mask: Mask,
    pub(super) start: Start,
    pub(super) deadline: Option<Instant>,
    pub(super) events: mpsc::Sender<Event>,
}

/// Why a trial failed.
pub(super) struct NotReady {
    pub(super) error: ConnectError,
    /// A handshake of the other era could end otherwise.
    pub(super) by_era: bool,
}

impl From<ConnectError> for NotReady {
    fn from(error: ConnectError) -> Self {
        Self { error, by_era: false }
    }
}

/// What a trial came to.
pub(super) type Tried = Result<(Connection, Observed), NotReady>;

/// Steps as a number that the clock can read.
struct Progressed(AtomicU8);

impl Progressed {
    const STEPS: [Step; 7] = [
        Step::Open,
        Step::Discover,
        Step::Initialize,
        Step::Tools,
        Step::Prompts,
        Step::ResourceTemplates,
        Step::Resources,
    ];

    fn set(&self, step: Step) {
        steps::tell(step);
        self.0.store(step as u8, Ordering::Relaxed);
    }

    fn get(&self) -> Step {
        Self::STEPS[usize::from(self.0.load(Ordering::Relaxed)).min(Self::STEPS.len() - 1)]
    }
}

/// Why the way to a connection ended.
enum Failed {
    Opening(ConnectError),
    Handshake(Refusal),
    Lists(CallError),
    Exited,
    Clock,
    GivenUp,
}

impl Trial<'_> {
    /// Makes a connection of the transport that `opening` gives.
    ///
    /// # Errors
    /// Why there is none. What was behind it has been ended then.
    pub(super) async fn establish<T: Transport<RoleClient> + 'static>(
        &self,
        opening: impl Future<Output = Result<T, ConnectError>>,
        mut attended: Attended,
    ) -> Tried {
        let progressed = Progressed(AtomicU8::new(Step::Open as u8));
        let (cancels, cancelled) = mpsc::channel(1024);
        let over = CancellationToken::new();
        let is_http = self.server.launch.kind() == TransportKind::StreamableHttp;
        let clients = Arc::<Clients>::default();
        let host = Host { sampling: self.server.sampling, clients: clients.clone() };
        let ready = async {
            let transport = opening.await.map_err(Failed::Opening)?;
            let mut transport = Tap::new(transport, attended.notices.clone(), attended.closed.clone());
            let step = |step| progressed.set(step);
            let info = shake_hands(&mut transport, &host, self.start, &step).await.map_err(Failed::Handshake)?;
            attended.attempt.initialized.cancel();
            let era = Era::of(info.protocol_version.as_str()).unwrap_or(Era::Session);
            let service = serve_directly(host.clone(), transport, Some(info));
            let inner = Arc::new(Inner {
                server: self.server.name.clone(),
                limits: self.server.limits,
                peer: service.peer().clone(),
                mask: self.mask.clone(),
                process: attended.is_process(),
                era,
                mirror: (era == Era::Stateless && is_http).then(|| attended.mirror.clone()),
                repeatable: RwLock::default(),
                cancels,
                clients: clients.clone(),
                in_flight: AtomicUsize::new(0),
                over: over.clone(),
                ended: OnceLock::new(),
            });
            let mut listening: Listening = Box::pin(inner.clone().listen(attended.notices.clone()));
            // Until there is a task to tell why, the end of the stream is reason enough.
            let observed = tokio::select! {
                biased;
                // First, so that no change falls between the lists and the subscription.
                () = &mut listening => return Err(Failed::Exited),
                observed = inner.discover(&step) => inner.masked(observed.map_err(Failed::Lists)?),
                () = attended.closed.cancelled() => {
                    return Err(Failed::Lists(CallError::Lost {
                        server: self.server.name.clone(),
                        reason: "the connection was closed".to_owned(),
                    }));
                }
            };
            Ok((service, inner, observed, listening))
        };
        let result = tokio::select! {
            biased;
            result = ready => result,
            // A server that never stops talking uses up our turn, and must not use up what ends it.
            failed = coop::unconstrained(async {
                tokio::select! {
                    biased;
                    () = attend::exited(&attended.child) => Failed::Exited,
                    () = attended.attempt.given_up.cancelled() => Failed::GivenUp,
                    () = sleep_until(self.deadline) => Failed::Clock,
                }
            }) => Err(failed),
        };
        match result {
            Ok((service, inner, observed, listening)) => {
                attended.look().await;
                let events = self.events.clone();
                Ok((attend::start((inner, service), attended, cancelled, listening, events), observed))
            }
            Err(failed) => Err(self.explain(failed, progressed.get(), attended).await),
        }
    }

    /// Cleans up after a failed connection and finds the cause.
    async fn explain(&self, failed: Failed, step: Step, attended: Attended) -> NotReady {
        let (name, watch) = (self.server.name.clone(), attended.watch.clone());
        // The end of the stream and of the process come together, in either order.
        let is_end = match &failed {
            Failed::Exited | Failed::Lists(CallError::Lost { .. }) | Failed::Handshake(Refusal::Closed) => true,
            Failed::Handshake(Refusal::Send(_)) => attended.is_process(),
            _ => false,
        };
        let by_era = match &failed {
            // Some servers of the older era go away over a question that they don't know.
            _ if is_end && step == Step::Discover => true,
            Failed::Handshake(refusal) => self.start == Start::Initialize && is_of_other_era(refusal),
            _ => false,
        };
        let is_process = attended.is_process();
        let own_end = if is_end { attended.own_end().await } else { None };
        let stderr = attended.bury(Instant::now() + Duration::from_secs(1)).await;
        if is_end && is_process {
            let error = match own_end {
                Some(exit) => ConnectError::Exited { server: name, exit, step, stderr },
                None => ConnectError::HungUp { server: name, step, stderr },
            };
            return NotReady { error, by_era };
        }
        let masked = |text: &str| self.mask.apply(text).into_owned();
        let of_watch = || watch.as_ref().and_then(|watch| watch.failure());
        let protocol = |cause: String| ConnectError::Protocol { server: name.clone(), cause };
        let error = match failed {
            Failed::Opening(error) => error,
            Failed::Clock => ConnectError::TimedOut {
                server: name.clone(),
                step,
                seconds: self.server.limits.timeout_seconds,
                at_least: false,
                stderr,
            },
            Failed::GivenUp => ConnectError::GivenUp { server: name.clone() },
            Failed::Exited => ConnectError::HungUp { server: name.clone(), step, stderr },
            Failed::Handshake(Refusal::Error(error)) if Stand::of(&error).is_some() => {
                protocol("its answer to the handshake is longer than 16 MiB".to_owned())
            }
            Failed::Handshake(Refusal::Error(error)) => {
                ConnectError::Refused { server: name.clone(), code: error.code.0, message: masked(&error.message) }
            }
            Failed::Handshake(Refusal::Version(version)) => {
                ConnectError::Version { server: name.clone(), version: masked(&version) }
            }
            Failed::Handshake(Refusal::Odd(what)) => {
                ConnectError::Malformed { server: name.clone(), what: masked(&what) }
            }
            Failed::Handshake(Refusal::Send(error)) => match call::http_error(&error).or_else(of_watch) {
                Some(error) => http_cause(self.server, &self.mask, error),
                None => protocol(masked(&error.error.to_string())),
            },
            Failed::Handshake(Refusal::Closed) => match (of_watch(), watch.as_ref().and_then(|watch| watch.ended())) {
                (_, Some(reason)) => protocol(self.mask.apply_excerpt(reason)),
                (Some(error), None) => http_cause(self.server, &self.mask, error),
                (None, None) => protocol("it closed the connection".to_owned()),
            },
            Failed::Lists(error) => match (of_watch(), watch.as_ref().and_then(|watch| watch.ended())) {
                (Some(error), _) => http_cause(self.server, &self.mask, error),
                (None, Some(reason)) => protocol(self.mask.apply_excerpt(reason)),
                (None, None) => protocol(masked(&error.to_string())),
            },
        };
        NotReady { error, by_era }
    }
}

/// Whether a refused `initialize` is what a server says that has none.
fn is_of_other_era(refusal: &Refusal) -> bool {
    let is_modern = |error: &ErrorData| {
        matches!(
            error.code,
            ErrorCode::METHOD_NOT_FOUND
                | ErrorCode::INVALID_REQUEST
                | ErrorCode::INVALID_PARAMS
                | ErrorCode::UNSUPPORTED_PROTOCOL_VERSION
                | ErrorCode::MISSING_REQUIRED_CLIENT_CAPABILITY
                | ErrorCode::HEADER_MISMATCH
        )
    };
    match refusal {
        Refusal::Error(error) => is_modern(error),
        Refusal::Version(_) | Refusal::Odd(_) => true,
        Refusal::Send(error) => match call::http_error(error) {
            Some(HttpError::Status { status, .. }) => {
                matches!(status, 400 | 404..=406 | 410 | 415 | 422 | 426 | 501)
            }
            Some(HttpError::NotMcp(_)) => true,
            _ => false,
        },
        Refusal::Closed => false,
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
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
        HttpError::Status { status, body, retry_after } => {
            let transport = server.launch.kind();
            ConnectError::Status { server: name, status, body: mask.apply_excerpt(&body), transport, retry_after }
        }
        redirect @ HttpError::Redirect { .. } => {
            ConnectError::Redirect { server: name, cause: mask.apply_excerpt(&redirect.to_string()) }
        }
        HttpError::Unreachable(cause) => ConnectError::Unreachable { server: name, cause: masked(&cause) },
        // Nothing has been forgotten that was never known.
        HttpError::Forgotten => ConnectError::Protocol {
            server: name,
            cause: "the address that it names for messages answers HTTP 404 or 410, as if the session that it has just opened were over".to_owned(),
        },
        error @ (HttpError::Broken(_) | HttpError::Cut(_) | HttpError::NotMcp(_)) => {
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
