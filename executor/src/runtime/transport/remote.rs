//! Requests to a remote server, the same for every transport over HTTP: its headers, its redirects, and why one failed.
//!
//! No error shows a URL or a header: both may hold secrets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use reqwest::{Method, Response, Url};
use rustls::ClientConfig;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls_platform_verifier::Verifier;
use secrecy::{ExposeSecret as _, SecretString};
use tokio_util::sync::CancellationToken;

pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";

/// Most of an error's body that is read, in bytes.
pub(super) const ERROR_MAX: usize = 64 * 1024;
/// How often the system looks whether the other end of a connection is there.
const PROBE_EVERY: Duration = Duration::from_secs(15);
/// How long the body of an error may take.
const BODY_TIME: Duration = Duration::from_secs(2);
/// Redirects of one request that are followed.
const REDIRECTS_MAX: usize = 5;

/// Why a request failed, without URL and headers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    /// Nothing answered at all.
    #[error("{0}")]
    Unreachable(String),
    /// The exchange could not be.
    #[error("{0}")]
    Broken(String),
    /// The exchange began and broke off, or was no HTTP.
    #[error("{0}")]
    Cut(String),
    /// An answer that says no.
    #[error("HTTP {status}{}{}", shown(.body), meaning(*.status))]
    Status {
        /// The code.
        status: u16,
        /// The start of the body, on one line.
        body: String,
        /// How long it asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// It is somewhere else, where headers must not follow.
    #[error("HTTP {status}, a redirect to {to}, which is not followed{}", redirected(*.leaves))]
    Redirect {
        /// The code.
        status: u16,
        /// The address without its query.
        to: String,
        /// Whether that is another origin.
        leaves: bool,
    },
    /// An answer that isn't MCP.
    #[error("{0}")]
    NotMcp(String),
    /// It no longer knows whom it speaks with, and the connection is of no use.
    #[error("the server has forgotten the session, most likely because it was restarted")]
    Forgotten,
}

fn shown(body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(": {body}") }
}

/// What a status says, where the number alone may not tell.
pub(crate) fn meaning(status: u16) -> &'static str {
    match status {
        401 => "; it wants other credentials",
        403 => "; it forbids this",
        404 => "; nothing is served there",
        405 => "; it takes no such request there",
        407 => ", the proxy wants credentials",
        413 => "; the message is too long for it",
        429 => "; it is asked too often",
        502..=504 => "; it is not available now",
        500.. => "; the fault is at its end",
        _ => "",
    }
}

fn redirected(leaves: bool) -> &'static str {
    if leaves {
        " because headers would go to another origin; if that is where the server is, write it into `url`"
    } else {
        "; write that address into `url`"
    }
}

impl HttpError {
    pub(super) fn of(error: reqwest::Error) -> Self {
        let is_unreachable = error.is_connect();
        let cause = in_words(&deepest(&error.without_url()));
        if is_unreachable { Self::Unreachable(cause) } else { Self::Cut(cause) }
    }
}

/// The outer layers say no more than "error sending request"; the cause is at the bottom.
fn deepest(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// A cause from deep inside the HTTP or TLS implementation, and what it means for who wrote the config.
fn in_words(cause: &str) -> String {
    if cause.contains("InvalidContentType") || cause.contains("corrupt message") {
        return "it does not speak TLS there; if it is a server without it, its `url` starts with `http://` or `ws://`"
            .to_owned();
    }
    if cause.contains("invalid HTTP version") {
        return "what it answers is no HTTP; if it speaks TLS there, its `url` starts with `https://` or `wss://`"
            .to_owned();
    }
    if cause.contains("UnknownIssuer") || cause.contains("BadSignature") {
        return format!(
            "{cause}: nobody whom this machine trusts has signed it; the certificate of a private authority goes into `mcp.ca_bundle`"
        );
    }
    cause.to_owned()
}

/// What the transport has learned, shared with the connection.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// Cancelled when the server can't be reached any more.
    pub(crate) lost: CancellationToken,
    /// The last thing that went wrong; rmcp passes on no more than "channel closed" of some of it.
    failure: Mutex<Option<HttpError>>,
    /// Why the stream that carries everything ended.
    ended: OnceLock<String>,
}

impl Watch {
    pub(crate) fn failure(&self) -> Option<HttpError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn fail(&self, error: &HttpError) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
        if matches!(error, HttpError::Unreachable(_) | HttpError::Forgotten) {
            self.end(match error {
                HttpError::Unreachable(cause) => format!("the server can't be reached: {cause}"),
                other => other.to_string(),
            });
            self.lost.cancel();
        }
    }

    /// Takes back the last failure: it was no more than an answer.
    pub(super) fn forgive(&self) {
        *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Why the stream ended, when the transport knows.
    pub(crate) fn ended(&self) -> Option<&str> {
        self.ended.get().map(String::as_str)
    }

    /// The first reason counts: what follows is its consequence.
    pub(crate) fn end(&self, reason: String) {
        let _later = self.ended.set(reason);
    }
}

/// A header that can't be sent; its name and never its value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header `{0}` can't be sent: a header's name is letters, digits and `-`, its value has no line break")]
pub struct BadHeader(pub String);

/// Makes the requests of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    http: reqwest::Client,
    headers: Arc<Vec<(HeaderName, HeaderValue)>>,
}

impl Requests {
    /// With `headers` in every request.
    ///
    /// # Errors
    /// When a header can't be sent.
    pub(crate) fn new(http: reqwest::Client, headers: &BTreeMap<String, SecretString>) -> Result<Self, BadHeader> {
        let headers = headers
            .iter()
            .map(|(name, value)| {
                let bad = || BadHeader(name.clone());
                let key = HeaderName::try_from(name.as_str()).map_err(|_| bad())?;
                let mut value = HeaderValue::try_from(value.expose_secret()).map_err(|_| bad())?;
                value.set_sensitive(true);
                Ok((key, value))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { http, headers: Arc::new(headers) })
    }

    /// Sends a request and gives whatever answers it. A redirect that keeps method and body is followed within the
    /// server's own origin.
    ///
    /// # Errors
    /// When nothing answers, or the answer is another redirect.
    pub(super) async fn send(
        &self,
        method: Method,
        url: &Url,
        own: HeaderMap,
        body: Option<Vec<u8>>,
    ) -> Result<Response, HttpError> {
        let mut headers = HeaderMap::new();
        for (name, value) in self.headers.iter() {
            headers.insert(name.clone(), value.clone());
        }
        // The protocol's own come last, so that a config can't break it.
        headers.extend(own);
        if body.is_some() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        }
        let mut to = url.clone();
        for _ in 0..=REDIRECTS_MAX {
            let mut request = self.http.request(method.clone(), to.clone()).headers(headers.clone());
            if let Some(body) = &body {
                request = request.body(body.clone());
            }
            let response = request.send().await.map_err(HttpError::of)?;
            to = match redirect(&response, &to, &method)? {
                Some(next) => next,
                None => return Ok(response),
            };
        }
        Err(HttpError::Broken(format!("more than {REDIRECTS_MAX} redirects in a row")))
    }
}

/// Where a redirect leads that may be followed; `None` for any other answer.
fn redirect(response: &Response, from: &Url, method: &Method) -> Result<Option<Url>, HttpError> {
    let status = response.status();
    // 300 and 304 name no other address.
    if !matches!(status.as_u16(), 301..=303 | 307 | 308) {
        return Ok(None);
    }
    let location = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
    let Some(to) = location.and_then(|to| from.join(to).ok()) else { return Ok(None) };
    let (leaves, keeps) = (!same_origin(&to, from), matches!(status.as_u16(), 307 | 308));
    if !leaves && (keeps || *method == Method::GET) {
        return Ok(Some(to));
    }
    Err(HttpError::Redirect { status: status.as_u16(), to: one_line(&without_secrets(to)), leaves })
}

/// Scheme, host and port are the same.
pub(super) fn same_origin(a: &Url, b: &Url) -> bool {
    a.scheme() == b.scheme() && a.host() == b.host() && a.port_or_known_default() == b.port_or_known_default()
}

/// A URL as far as it can be shown: what a server puts into its query, or before the host, is nobody's business.
pub(super) fn without_secrets(mut url: Url) -> String {
    url.set_query(None);
    url.set_fragment(None);
    // Neither can fail for a URL with a host, and one without has nothing there.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

/// The essence of the content type, in lower case.
pub(super) fn media_type(response: &Response) -> Option<String> {
    let value = response.headers().get(header::CONTENT_TYPE)?.to_str().ok()?;
    Some(value.split(';').next()?.trim().to_ascii_lowercase())
}

/// At most `limit` bytes of the body, as far as it comes.
pub(super) async fn start_of_body(response: Response, limit: usize) -> Vec<u8> {
    let (mut body, mut stream) = (Vec::new(), response.bytes_stream());
    while body.len() < limit
        && let Some(Ok(chunk)) = stream.next().await
    {
        body.extend_from_slice(&chunk[..chunk.len().min(limit - body.len())]);
    }
    body
}

/// An answer that says no, with the start of its body.
pub(super) async fn status_of(response: Response) -> HttpError {
    let (status, retry_after) = (response.status(), retry_after(&response));
    // What says no has no reason to go on and on.
    let body = tokio::time::timeout(BODY_TIME, start_of_body(response, ERROR_MAX)).await;
    refusal(status, retry_after, &body.unwrap_or_default())
}

/// The same, of a body that has been read.
pub(super) fn refusal(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> HttpError {
    HttpError::Status { status: status.as_u16(), body: one_line(&String::from_utf8_lossy(body)), retry_after }
}

/// How long a server that is asked too often, or isn't available, asks to be left alone.
pub(super) fn retry_after(response: &Response) -> Option<Duration> {
    if !matches!(response.status(), StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        return None;
    }
    wait(response.headers().get(header::RETRY_AFTER)?.to_str().ok()?, SystemTime::now())
}

/// The wait that `Retry-After` says: whole seconds, or the moment when it ends.
fn wait(text: &str, now: SystemTime) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    Some(httpdate::parse_http_date(text).ok()?.duration_since(now).unwrap_or_default())
}

pub(super) fn one_line(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match text.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Makes the HTTP client of each connection: rustls with ring, no redirects but ours.
///
/// What is trusted is read once for all of them, while each has a pool of its own: whatever is open to a server ends with
/// the connection, and nothing that waits in a pool outlives the server that it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    tls: Arc<ClientConfig>,
}

impl Clients {
    /// Those that trust what the system trusts, and the certificates in `pem`.
    ///
    /// # Errors
    /// When the certificates can't be used.
    pub(crate) fn trusting(pem: Option<&[u8]>) -> Result<Self, String> {
        let further = match pem {
            Some(pem) => CertificateDer::pem_slice_iter(pem)
                .collect::<Result<_, _>>()
                .map_err(|_| "it is no PEM file: a certificate begins with `-----BEGIN CERTIFICATE-----`".to_owned())?,
            None => Vec::new(),
        };
        if pem.is_some() && further.is_empty() {
            return Err("there is no certificate in it".to_owned());
        }
        let in_words = |error: rustls::Error| error.to_string();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Verifier::new_with_extra_roots(further, provider.clone()).map_err(in_words)?;
        let tls =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().map_err(in_words)?;
        let tls = tls.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth();
        Ok(Self { tls: Arc::new(tls) })
    }

    /// One for requests.
    ///
    /// # Errors
    /// When the system gives no client.
    pub(crate) fn any(&self) -> Result<reqwest::Client, String> {
        self.client(&[b"h2", b"http/1.1"])
    }

    /// One for what becomes a websocket: only HTTP/1.1 can switch.
    ///
    /// # Errors
    /// The same.
    pub(crate) fn switching(&self) -> Result<reqwest::Client, String> {
        self.client(&[b"http/1.1"])
    }

    /// One that speaks these protocols, by their names in TLS.
    fn client(&self, protocols: &[&[u8]]) -> Result<reqwest::Client, String> {
        let mut tls = ClientConfig::clone(&self.tls);
        tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
        reqwest::Client::builder()
            .tls_backend_preconfigured(tls)
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(Duration::from_secs(30))
            // A machine that is gone without a word ends what waits for it, after about a minute.
            .tcp_keepalive(PROBE_EVERY)
            .tcp_keepalive_interval(PROBE_EVERY)
            .tcp_keepalive_retries(3)
            .http2_keep_alive_interval(PROBE_EVERY)
            .http2_keep_alive_timeout(PROBE_EVERY)
            .user_agent(concat!("mcplan/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| deepest(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_seconds_or_a_moment() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_445_412_000);
        let seconds = |text: &str| wait(text, now).map(|wait| wait.as_secs());
        assert_eq!(seconds("120"), Some(120));
        assert_eq!(seconds("99999999999999999999999"), Some(u64::MAX));
        assert_eq!(seconds("Wed, 21 Oct 2015 07:28:00 GMT"), Some(480));
        assert_eq!(seconds("Tue, 20 Oct 2015 07:28:00 GMT"), Some(0), "it is over");
        for odd in ["", "-1", "1.5", "soon", "Wed, 99 Oct 2015 07:28:00 GMT"] {
            assert_eq!(seconds(odd), None, "{odd}");
        }
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let url = |text: &str| Url::parse(text).unwrap();
        assert!(same_origin(&url("https://a.example/x"), &url("https://a.example:443/y?z")));
        for other in ["http://a.example/x", "https://b.example/", "https://a.example:444/"] {
            assert!(!same_origin(&url("https://a.example/x"), &url(other)), "{other}");
        }
        assert_eq!(without_secrets(url("https://u:p@a.example/x?key=1#f")), "https://a.example/x");
    }
}
