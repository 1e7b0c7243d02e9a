//! HTTP with server-sent events, as revision 2024-11-05 has it: one stream that stays open carries everything the server
//! says, and names the address that takes what we say.
//!
//! The stream is the connection: when it ends, the connection has.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, HeaderValue, header};
use reqwest::{Method, Url};
use rmcp::RoleClient;
use rmcp::service::TxJsonRpcMessage;
use rmcp::transport::Transport;
use sse_stream::{Error, Sse as Event};
use tokio_util::sync::CancellationToken;

use super::raw::{self, Incoming, Read, Typed};
use super::remote::{
    EVENTS, HttpError, Requests, Watch, media_type, one_line, same_origin, status_of, without_secrets,
};
use super::tap::Odd;
use super::{MESSAGE_MAX, events};

/// Characters of noise that are shown.
const SHOWN: usize = 200;

/// A transport whose event stream is open and whose endpoint is known.
pub(crate) struct Sse {
    requests: Requests,
    endpoint: Url,
    events: BoxStream<'static, Result<Event, Error>>,
    arrived: VecDeque<Incoming>,
    typed: Typed,
    watch: Arc<Watch>,
    report: Box<dyn FnMut(Odd) + Send>,
    closing: CancellationToken,
}

impl Sse {
    /// Opens the stream and waits for the endpoint. `report` gets what is odd about the stream.
    ///
    /// # Errors
    /// When there is no such stream, or its endpoint is at another origin.
    pub(crate) async fn open(
        requests: Requests,
        url: &Url,
        watch: Arc<Watch>,
        report: Box<dyn FnMut(Odd) + Send>,
    ) -> Result<Self, HttpError> {
        let own = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(EVENTS))]);
        let response = requests.send(Method::GET, url, own, None).await?;
        if !response.status().is_success() {
            return Err(status_of(response).await);
        }
        match media_type(&response) {
            Some(kind) if kind == EVENTS => {}
            other => {
                let other = other.as_deref().unwrap_or("none").to_owned();
                return Err(HttpError::NotMcp(format!("the answer's content type is {other}, not {EVENTS}")));
            }
        }
        let base = response.url().clone();
        let events = events::events(response.bytes_stream().map_err(HttpError::of), MESSAGE_MAX);
        let mut sse = Self {
            requests,
            endpoint: base.clone(),
            events,
            arrived: VecDeque::new(),
            typed: Typed::default(),
            watch,
            report,
            closing: CancellationToken::new(),
        };
        let named = sse.first_endpoint().await?;
        sse.endpoint = endpoint(&base, &named)?;
        Ok(sse)
    }

    /// What the server names as its endpoint. Messages before it are kept.
    async fn first_endpoint(&mut self) -> Result<String, HttpError> {
        let early = |what: &str| HttpError::NotMcp(format!("the event stream {what} before it named an endpoint"));
        loop {
            match self.events.next().await {
                Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => {
                    return Ok(event.data.unwrap_or_default());
                }
                Some(Ok(event)) => self.take(event),
                Some(Err(error)) => return Err(early(&format!("broke off ({})", events::why(&error)))),
                None => return Err(early("ended")),
            }
        }
    }

    fn take(&mut self, event: Event) {
        // The endpoint that was named first stays: sessions don't move.
        if event.event.as_deref().is_some_and(|name| name != "message") {
            return;
        }
        let Some(data) = event.data else { return };
        match raw::read(data.trim().as_bytes(), &self.typed) {
            Read::Messages(messages) => self.arrived.extend(messages),
            Read::Noise if data.trim().is_empty() => {}
            Read::Noise => (self.report)(Odd::Noise(data.chars().take(SHOWN).collect())),
        }
    }
}

/// The address that takes our messages: relative to the stream's, or absolute and at the same origin.
fn endpoint(base: &Url, named: &str) -> Result<Url, HttpError> {
    let url = base
        .join(named.trim())
        .map_err(|error| HttpError::NotMcp(format!("the endpoint that it names is no address: {error}")))?;
    if !same_origin(&url, base) {
        let to = one_line(&without_secrets(url));
        let text = format!("the endpoint that it names is at another origin, to which nothing is sent: {to}");
        return Err(HttpError::NotMcp(text));
    }
    Ok(url)
}

impl Transport<RoleClient> for Sse {
    type Error = HttpError;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), HttpError>> + Send + 'static {
        self.typed.note(&message);
        let (requests, endpoint, watch) = (self.requests.clone(), self.endpoint.clone(), self.watch.clone());
        let closing = self.closing.clone();
        async move {
            let body = serde_json::to_vec(&message).map_err(|error| HttpError::Broken(error.to_string()))?;
            let posted = async {
                let response = requests.send(Method::POST, &endpoint, HeaderMap::new(), Some(body)).await?;
                if response.status().is_success() {
                    return Ok(());
                }
                Err(status_of(response).await)
            };
            let result = tokio::select! {
                biased;
                () = closing.cancelled() => return Err(HttpError::Broken("the connection is closed".to_owned())),
                result = posted => result,
            };
            result.map_err(|error| {
                // The stream may be open still, and nobody listens at its other end.
                let is_forgotten = matches!(error, HttpError::Status { status: 404 | 410, .. });
                let error = if is_forgotten { HttpError::Forgotten } else { error };
                watch.fail(&error);
                error
            })
        }
    }

    async fn receive(&mut self) -> Option<Incoming> {
        loop {
            if let Some(message) = self.arrived.pop_front() {
                return Some(message);
            }
            match self.events.next().await {
                Some(Ok(event)) => self.take(event),
                Some(Err(error)) => {
                    self.watch.end(format!("the event stream broke off: {}", events::why(&error)));
                    return None;
                }
                None => {
                    self.watch.end("the server ended the event stream".to_owned());
                    return None;
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), HttpError> {
        self.closing.cancel();
        self.events = futures::stream::empty().boxed();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_relative_or_at_the_same_origin() {
        let base = Url::parse("http://a.example:81/sse?key=1").unwrap();
        let found = |named: &str| endpoint(&base, named).map(|url| url.to_string());
        for (named, expected) in [
            ("/messages?session=1", "http://a.example:81/messages?session=1"),
            ("messages", "http://a.example:81/messages"),
            ("?s=2", "http://a.example:81/sse?s=2"),
            (" http://a.example:81/m ", "http://a.example:81/m"),
        ] {
            assert_eq!(found(named).unwrap(), expected);
        }
        for named in ["http://b.example:81/m", "https://a.example:81/m", "http://a.example/m?k=s", "//b.example/m"] {
            let error = found(named).unwrap_err().to_string();
            assert!(error.contains("another origin") && !error.contains("k=s"), "{error}");
        }
        assert!(found("http://[").unwrap_err().to_string().contains("no address"));
    }
}
