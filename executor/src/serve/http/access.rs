//! Who may do what: the address decides who can reach us, `Host` and `Origin` whether a browser was sent by somebody
//! else, the token who asks.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use axum::http::{HeaderMap, StatusCode, header};
use mcplan_compiler::plan::LEAD;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::{Digest as _, Sha256};

use super::problem::Problem;

/// The rules of one listener.
#[derive(Debug)]
pub struct Access {
    /// Agent to token.
    pub tokens: BTreeMap<String, SecretString>,
    /// Opens what changes or shows the installation.
    pub admin: Option<SecretString>,
    /// Origins that a browser may come from, besides our own.
    pub origins: Vec<String>,
    /// Host names besides loopback's.
    pub hosts: Vec<String>,
    /// Whether only this machine can reach it.
    pub is_loopback: bool,
}

/// Whether two texts are the same, in a time that tells nothing of where they differ.
fn same(given: &str, token: &SecretString) -> bool {
    let (given, token) = (Sha256::digest(given), Sha256::digest(token.expose_secret()));
    given.iter().zip(token.iter()).fold(0, |differing, (a, b)| differing | (a ^ b)) == 0
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// The name in `host:port`, `[v6]:port` or without a port.
fn host_name(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    host.rsplit_once(':').map_or(host, |(name, _)| name)
}

fn is_loopback_name(name: &str) -> bool {
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

impl Access {
    /// Whether the address can only be reached from this machine.
    pub fn loopback(address: &SocketAddr) -> bool {
        address.ip().is_loopback()
    }

    /// Refuses a request that a page of somebody else's made a browser send.
    ///
    /// # Errors
    /// With what is wrong and what allows it.
    pub fn admits(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        if headers.get_all(header::HOST).iter().nth(1).is_some() {
            return Err(Problem::new(
                StatusCode::BAD_REQUEST,
                "a request has one header `Host`, and this one has more",
            ));
        }
        let authority = text(header::HOST);
        let host = authority.map(host_name);
        let is_allowed = |name: &str| {
            let named = self.hosts.iter().any(|allowed| host_name(allowed).eq_ignore_ascii_case(name));
            named || (self.is_loopback && is_loopback_name(name)) || (!self.is_loopback && self.hosts.is_empty())
        };
        if let Some(host) = host.filter(|host| !is_allowed(host)) {
            return Err(Problem::forbidden(format!("the host `{host}` is not one of `serve.http.allowed_hosts`")));
        }
        let Some(origin) = text(header::ORIGIN) else { return Ok(()) };
        // Another port is another origin: any program of this machine may serve pages there.
        let of = origin.split_once("://").map(|(_, of)| of);
        let is_ours = of.zip(authority).is_some_and(|(of, here)| of.eq_ignore_ascii_case(here));
        if is_ours || self.origins.iter().any(|allowed| allowed.trim_end_matches('/').eq_ignore_ascii_case(origin)) {
            return Ok(());
        }
        Err(Problem::forbidden(format!("the origin `{origin}` is not one of `serve.http.allowed_origins`")))
    }

    /// The agent whose request it is. `asked` is the one that the path names; without tokens it decides.
    ///
    /// # Errors
    /// Without a token that is one of the listener's, or when the path names another agent than the token.
    pub fn agent(&self, headers: &HeaderMap, asked: Option<&str>) -> Result<String, Problem> {
        if self.tokens.is_empty() {
            return Ok(asked.unwrap_or(LEAD).to_owned());
        }
        let given = bearer(headers).ok_or_else(Problem::unauthorized)?;
        // All of them are looked at, so that the time tells nothing.
        let mut agent = None;
        for (name, token) in &self.tokens {
            if same(given, token) {
                agent = Some(name);
            }
        }
        let agent = agent.ok_or_else(Problem::unauthorized)?;
        match asked {
            Some(asked) if asked != agent => {
                Err(Problem::forbidden(format!("this token is not one of the agent `{asked}`")))
            }
            _ => Ok(agent.clone()),
        }
    }

    /// Whether the request may see the whole installation.
    ///
    /// # Errors
    /// When the admin token is wanted and isn't there.
    pub fn shows(&self, headers: &HeaderMap) -> Result<(), Problem> {
        match &self.admin {
            None if self.is_loopback => Ok(()),
            None => Err(Problem::forbidden("only `serve.http.admin_token` opens this, and none is configured")),
            Some(_) => self.changes(headers),
        }
    }

    /// Whether the request may change the installation.
    ///
    /// # Errors
    /// Without the admin token; when none is configured nobody may.
    pub fn changes(&self, headers: &HeaderMap) -> Result<(), Problem> {
        let Some(admin) = &self.admin else {
            return Err(Problem::forbidden("only `serve.http.admin_token` opens this, and none is configured"));
        };
        match bearer(headers) {
            Some(given) if same(given, admin) => Ok(()),
            Some(given) if self.tokens.values().any(|token| same(given, token)) => {
                Err(Problem::forbidden("an agent's token doesn't open this; `serve.http.admin_token` does"))
            }
            _ => Err(Problem::unauthorized()),
        }
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(all: &[(HeaderName, &str)]) -> HeaderMap {
        all.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    fn access(is_loopback: bool) -> Access {
        Access {
            tokens: BTreeMap::from([("a".to_owned(), "token-a".into()), ("b".to_owned(), "token-b".into())]),
            admin: Some("token-admin".into()),
            origins: vec!["https://app.example".to_owned()],
            hosts: vec!["gateway.example".to_owned()],
            is_loopback,
        }
    }

    #[test]
    fn a_page_of_somebody_else_reaches_nothing() {
        let local = access(true);
        let admits = |host: &str, origin: Option<&str>| {
            let mut all = vec![(header::HOST, host)];
            all.extend(origin.map(|origin| (header::ORIGIN, origin)));
            local.admits(&headers(&all)).is_ok()
        };
        for host in ["localhost:8765", "127.0.0.1:8765", "[::1]:8765", "gateway.example", "127.0.0.1"] {
            assert!(admits(host, None), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8765", ""] {
            assert!(!admits(host, None), "{host}");
        }
        assert!(admits("localhost:8765", Some("http://localhost:8765")));
        assert!(admits("localhost:8765", Some("https://app.example")));
        for origin in [
            "https://evil.example",
            "null",
            "http://localhost.evil.example",
            "http://127.0.0.1:8765",
            "http://localhost:3000",
            "http://localhost",
            "http://localhost:8765@evil.example",
        ] {
            assert!(!admits("localhost:8765", Some(origin)), "{origin}");
        }
        let two = [(header::HOST, "localhost:8765"), (header::HOST, "evil.example")];
        let mut of_two = HeaderMap::new();
        for (name, value) in two {
            of_two.append(name, HeaderValue::from_static(value));
        }
        assert_eq!(local.admits(&of_two).unwrap_err().status, StatusCode::BAD_REQUEST);
        let open = Access { hosts: Vec::new(), ..access(false) };
        assert!(open.admits(&headers(&[(header::HOST, "anything.example")])).is_ok(), "elsewhere only when given");
        assert!(access(false).admits(&headers(&[(header::HOST, "localhost")])).is_err());
    }

    #[test]
    fn the_token_decides_the_agent() {
        let access = access(true);
        let with = |token: &str| headers(&[(header::AUTHORIZATION, token)]);
        assert_eq!(access.agent(&with("Bearer token-b"), None).unwrap(), "b");
        assert_eq!(access.agent(&with("bearer token-b"), Some("b")).unwrap(), "b");
        assert_eq!(access.agent(&with("Bearer token-b"), Some("a")).unwrap_err().status, StatusCode::FORBIDDEN);
        for wrong in ["Bearer token-c", "Bearer ", "token-a", "Basic token-a", "Bearer token-admin"] {
            assert_eq!(access.agent(&with(wrong), None).unwrap_err().status, StatusCode::UNAUTHORIZED, "{wrong}");
        }
        assert_eq!(access.agent(&HeaderMap::new(), None).unwrap_err().status, StatusCode::UNAUTHORIZED);
        let open = Access { tokens: BTreeMap::new(), ..access };
        assert_eq!(open.agent(&HeaderMap::new(), None).unwrap(), "lead");
        assert_eq!(open.agent(&HeaderMap::new(), Some("a")).unwrap(), "a");
    }

    #[test]
    fn the_installation_is_the_admins() {
        let with = |token: &str| headers(&[(header::AUTHORIZATION, token)]);
        let access = access(true);
        assert!(access.changes(&with("Bearer token-admin")).is_ok());
        assert_eq!(access.changes(&with("Bearer token-a")).unwrap_err().status, StatusCode::FORBIDDEN);
        assert_eq!(access.shows(&HeaderMap::new()).unwrap_err().status, StatusCode::UNAUTHORIZED);
        let nobody = Access { admin: None, ..access };
        assert_eq!(nobody.changes(&with("Bearer token-admin")).unwrap_err().status, StatusCode::FORBIDDEN);
        assert!(nobody.shows(&HeaderMap::new()).is_ok(), "on loopback, without an admin token");
        let far = Access { is_loopback: false, ..nobody };
        assert_eq!(far.shows(&HeaderMap::new()).unwrap_err().status, StatusCode::FORBIDDEN);
    }
}
