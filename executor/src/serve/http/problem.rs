//! What is answered to a request that isn't granted: `application/problem+json` (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

const KIND: &str = "application/problem+json";

/// Why a request isn't granted.
#[derive(Debug)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// What is wrong, in words.
    pub detail: String,
}

impl Problem {
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    pub fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "a token of this listener is wanted: `Authorization: Bearer TOKEN`")
    }

    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    fn title(&self) -> &'static str {
        self.status.canonical_reason().unwrap_or("Error")
    }

    fn body(&self) -> String {
        json!({ "title": self.title(), "status": self.status.as_u16(), "detail": self.detail }).to_string()
    }

    /// The whole answer as it is sent, for a connection on which nothing is read, to be tried again a second later.
    pub fn written(&self) -> String {
        let (status, title, body) = (self.status.as_u16(), self.title(), self.body());
        let length = body.len();
        format!(
            "HTTP/1.1 {status} {title}\r\ncontent-type: {KIND}\r\ncontent-length: {length}\r\nretry-after: 1\r\nconnection: close\r\n\r\n{body}"
        )
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, self.body()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(KIND));
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
