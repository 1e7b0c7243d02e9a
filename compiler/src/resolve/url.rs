//! Whether a text is a URL of the scheme that a transport speaks, as far as that can be said before references are known.

use crate::code::Code;
use crate::diagnostic::{Diagnostic, shown};
use crate::interpolate::{Part, Template};
use crate::plan::TransportKind;
use crate::source::Spanned;

use super::Resolver;
use super::launch::who;

impl Resolver<'_> {
    /// What can be said about a URL before its references are known; the rest is checked when the connection opens.
    pub(super) fn check_url(&mut self, written: &Spanned<String>, template: &Template, kind: TransportKind) {
        // A NUL has been said.
        if matches!(template.parts().first(), Some(Part::Reference(_))) || written.value.contains('\0') {
            return;
        }
        let shape = url_shape(template);
        if let Some(problem) = url_problem(&shape, kind) {
            let looks = format!("a URL looks like `{}://example.com/mcp`", schemes(kind)[0]);
            // A URL of websocket's is taken for one unless `transport` says otherwise.
            let help = match kind != TransportKind::Websocket && is_websocket(&shape) {
                true => format!("write `transport: websocket`; of this transport {looks}"),
                false => looks,
            };
            // The URL itself isn't repeated: it may hold a password or a token.
            self.report(Diagnostic::new(Code::BadUrl, written.at, problem).help(help));
        }
    }
}

/// Whether a URL's scheme, in whatever letters, is one of websocket's.
pub(super) fn is_websocket(url: &str) -> bool {
    let scheme = url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| schemes(TransportKind::Websocket).contains(&scheme.as_str()))
}

fn schemes(kind: TransportKind) -> [&'static str; 2] {
    if kind == TransportKind::Websocket { ["wss", "ws"] } else { ["https", "http"] }
}

/// The URL with each reference as a bare one: a default or a message in it is no part of the URL's own syntax.
fn url_shape(template: &Template) -> String {
    let parts = template.parts().iter().map(|part| match part {
        Part::Text(text) => text.as_str(),
        Part::Reference(_) => "${REFERENCE}",
    });
    parts.collect()
}

fn url_problem(url: &str, kind: TransportKind) -> Option<String> {
    let [safe, plain] = schemes(kind);
    if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Some("`url` has a blank in it".to_owned());
    }
    let Some((scheme, rest)) = url.split_once("://") else {
        return Some(format!("`url` is no absolute URL: it doesn't start with `{safe}://` or `{plain}://`"));
    };
    if ![safe, plain].contains(&&*scheme.to_ascii_lowercase()) {
        return Some(format!(
            "{} is reached through `{safe}://` or `{plain}://`, not `{}://`",
            who(kind),
            shown(scheme)
        ));
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let (name, port) = match host.strip_prefix('[') {
        Some(inner) => {
            let Some((address, after)) = inner.split_once(']') else {
                return Some("the address in `url` has a `[` without its `]`".to_owned());
            };
            if !address.contains('$') && address.parse::<core::net::Ipv6Addr>().is_err() {
                return Some("between `[` and `]` the `url` has no IPv6 address".to_owned());
            }
            (address, after.strip_prefix(':'))
        }
        None => host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() {
        return Some("`url` has no host".to_owned());
    }
    // Of a reference only `$`, `{` and `}` are left here.
    if let Some(odd) = name.replace("${REFERENCE}", "").chars().find(|c| "<>^|\\%\"`{}".contains(*c)) {
        return Some(format!("the host in `url` holds `{odd}`"));
    }
    let port = port.filter(|port| !port.is_empty() && !port.contains("${") && !port.contains("$<"))?;
    let valid = port.parse::<u16>().is_ok_and(|port| port > 0);
    (!valid).then(|| format!("`{}` in `url` is no port: a number from 1 to 65535", shown(port)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(url: &str) -> Option<String> {
        url_problem(&url_shape(&Template::parse(url).0), TransportKind::StreamableHttp)
    }

    #[test]
    fn a_reference_in_a_url_is_no_syntax_of_the_url() {
        for good in [
            "https://${REGION:-eu}.example/mcp",
            "https://${REGION:?set the region first}.example/mcp",
            "https://example.com:${PORT:-8080}/mcp",
            "https://${HOST:-a}:8080/${PATH:-x:y}",
            "https://${file:host.txt}/mcp",
        ] {
            assert_eq!(problem(good), None, "{good}");
        }
        for bad in [
            "https://${HOST:-a}:80a/mcp",
            "https://:80/${A}",
            "htps://${A}",
            "https://${HOST}:99999/",
            "https://${HOST}:0",
            "https://<host>/mcp",
            "https://a{b}/",
            "https://%41/",
        ] {
            assert!(problem(bad).is_some(), "{bad}");
        }
    }
}
