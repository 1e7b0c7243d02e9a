//! True but unwise: entries that work and will be regretted.

pub mod environment;
pub mod locked;

use core::net::IpAddr;

use crate::code::Code;
use crate::config::{Plugin, ServerEntry, Text};
use crate::diagnostic::{Diagnostic, shown};
use crate::hidden::is_hidden;
use crate::interpolate::{Reference, Template};
use crate::package::fetched;
use crate::secret::{is_placeholder, masked, name_looks_secret, value_looks_secret};
use crate::source::Spanned;

/// Everything unwise about one written entry.
pub fn entry(entry: &Spanned<ServerEntry>) -> Vec<Diagnostic> {
    let entry = &entry.value;
    let mut found = Vec::new();
    found.extend(unpinned(entry));
    found.extend(variables(entry.env.iter().flat_map(|env| &env.value)));
    for (key, value) in entry.headers.iter().flat_map(|headers| &headers.value) {
        found.extend(literal_secret("header", key, value));
        found.extend(transport_header(key));
    }
    found.extend(secrets_in_args(entry.args.iter().flat_map(|args| &args.value)));
    for (field, text) in [("description", &entry.description), ("command", &entry.command), ("cwd", &entry.cwd)] {
        found.extend(text.as_ref().and_then(|text| secret_in_text(field, text)));
    }
    found.extend(entry.description.as_ref().and_then(hidden_characters));
    found.extend(entry.url.as_ref().and_then(secret_in_url));
    found.extend(entry.url.as_ref().and_then(plain_http));
    found
}

/// Everything unwise about variables that something is started with.
pub fn variables<'a>(env: impl IntoIterator<Item = (&'a Spanned<String>, &'a Spanned<Text>)>) -> Vec<Diagnostic> {
    env.into_iter().filter_map(|(key, value)| literal_secret("variable", key, value)).collect()
}

/// Everything unwise about one plugin.
pub fn plugin(plugin: &Plugin) -> Vec<Diagnostic> {
    let mut found = variables(plugin.env.iter().flatten());
    found.extend(secrets_in_args(&plugin.command.value));
    found
}

/// `npx -y name`, `@latest`, `uvx name`, an image without a tag: whatever version is newest that day.
pub(crate) fn unpinned(entry: &ServerEntry) -> Option<Diagnostic> {
    let args = entry.args.as_ref().map_or(&[][..], |args| &args.value);
    let words: Vec<_> = args.iter().map(|arg| arg.value.0.as_str()).collect();
    let fetched = fetched(&entry.command.as_ref()?.value, &words)?;
    let pinned = match fetched.repository_without_commit() {
        Some(pinned) => pinned,
        None if fetched.is_elsewhere() || fetched.is_pinned() => return None,
        None => fetched.pinned_form(),
    };
    let message = format!("`{}` runs whatever version is newest that day", shown(fetched.text));
    Some(
        Diagnostic::new(Code::Unpinned, args.get(fetched.at)?.at, message)
            .help(format!("pin it: `{}`", shown(&pinned))),
    )
}

fn literal_secret(kind: &str, key: &Spanned<String>, value: &Spanned<Text>) -> Option<Diagnostic> {
    let text = &value.value.0;
    let (template, findings) = Template::parse(text);
    if findings.iter().any(|finding| finding.kind.is_error()) {
        // A reference was meant; that it is broken has been said.
        return None;
    }
    if let Some(message) = default_secret(&template) {
        return Some(Diagnostic::new(Code::LiteralSecret, value.at, message).help("leave the default out"));
    }
    template.as_literal()?;
    let secret = value_looks_secret(text) || (name_looks_secret(&key.value) && !is_placeholder(text));
    secret.then(|| {
        let variable: String = key.value.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
        let scheme = text.split_once(' ').filter(|(scheme, _)| matches!(*scheme, "Bearer" | "Basic" | "Token" | "token"));
        let scheme = scheme.map(|(scheme, _)| format!("{scheme} ")).unwrap_or_default();
        // Never the value itself: the message may end in a log.
        Diagnostic::new(Code::LiteralSecret, value.at, format!("the {kind} `{}` holds what looks like a secret", key.value))
            .help(format!("write `{scheme}${{{variable}}}` and set that variable where mcplan runs; then replace the secret, since the file has been seen"))
    })
}

/// Headers that every request gets from the transport.
const TRANSPORT_HEADERS: [&str; 8] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "mcp-protocol-version",
    "mcp-session-id",
    "transfer-encoding",
];

fn transport_header(key: &Spanned<String>) -> Option<Diagnostic> {
    let name = key.value.to_ascii_lowercase();
    TRANSPORT_HEADERS.contains(&&*name).then(|| {
        Diagnostic::new(Code::TransportHeader, key.at, format!("the header `{}` is set by the transport", key.value))
            .help(if name == "host" { "remove it; the host is the one of `url`" } else { "remove it" })
    })
}

/// `${TOKEN:-ghp_…}`: the secret is in the file all the same.
fn default_secret(template: &Template) -> Option<String> {
    template.references().find_map(|reference| match reference {
        Reference::OrText(name, text) if value_looks_secret(text) => {
            Some(format!("the default of `${{{name}}}` looks like a secret"))
        }
        _ => None,
    })
}

/// Arguments of a process can be read by every user of the machine.
fn secrets_in_args<'a>(args: impl IntoIterator<Item = &'a Spanned<Text>>) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut named_before = false;
    for arg in args {
        let text = arg.value.0.as_str();
        let template = Template::parse(text).0;
        let (name, value) = match text.split_once('=') {
            Some((name, value)) if name.starts_with('-') => (Some(name), value),
            _ => (None, text),
        };
        let refers = template.references().filter_map(Reference::variable).any(name_looks_secret);
        let named = name.is_some_and(name_looks_secret) || named_before;
        let literal = value_looks_secret(value)
            || (named && !value.starts_with('-') && !is_placeholder(value) && template.as_literal().is_some());
        if literal || refers {
            let message = if literal {
                "an argument that looks like a secret: it is in this file, and every user of the machine sees it"
            } else {
                "a secret among the arguments is seen by every user of the machine"
            };
            found.push(
                Diagnostic::new(Code::SecretInArgs, arg.at, message)
                    .help("if the program can, let it read the secret from `env:`"),
            );
        }
        named_before = text.starts_with('-') && name.is_none() && name_looks_secret(text.trim_start_matches('-'));
    }
    found
}

/// The prompt block leaves them out; a reviewer of the file sees as little of them.
fn hidden_characters(description: &Spanned<String>) -> Option<Diagnostic> {
    let first = description.value.chars().find(|c| is_hidden(*c))?;
    let message = format!("the `description` has characters that can't be seen, first U+{:04X}", first as u32);
    Some(
        Diagnostic::new(Code::HiddenCharacters, description.at, message)
            .help("remove them; they can carry instructions that no reviewer sees"),
    )
}

/// A field that no secret belongs into, written out or not.
fn secret_in_text(field: &str, text: &Spanned<String>) -> Option<Diagnostic> {
    (masked(&text.value) != text.value).then(|| {
        Diagnostic::new(Code::LiteralSecret, text.at, format!("the `{field}` holds what looks like a secret"))
            .help("remove it; a secret belongs into `env` or `headers`, as `${NAME}`")
    })
}

fn secret_in_url(url: &Spanned<String>) -> Option<Diagnostic> {
    let query = url.value.split_once('?').map_or("", |(_, query)| query);
    let in_query = query.split('&').filter_map(|pair| pair.split_once('=')).any(|(name, value)| {
        !value.contains("${") && (value_looks_secret(value) || name_looks_secret(name) && !is_placeholder(value))
    });
    (in_query || value_looks_secret(&url.value)).then(|| {
        Diagnostic::new(Code::LiteralSecret, url.at, "the `url` holds what looks like a secret")
            .help("write `${NAME}` in its place, or send it as a header")
    })
}

/// An address or name of this machine. `127.example.com` is a name like any other.
fn is_loopback(host: &str) -> bool {
    let host = host.to_ascii_lowercase();
    let name = host.strip_suffix('.').unwrap_or(&host);
    name == "localhost"
        || name.ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

fn plain_http(url: &Spanned<String>) -> Option<Diagnostic> {
    let (scheme, rest) = url.value.split_once("://")?;
    let safe = match scheme.to_ascii_lowercase().as_str() {
        "http" => "https://",
        "ws" => "wss://",
        _ => return None,
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host =
        if host.starts_with('[') { host.split(']').next()?.trim_start_matches('[') } else { host.split(':').next()? };
    (!is_loopback(host) && !host.contains("${")).then(|| {
        Diagnostic::new(Code::PlainHttp, url.at, format!("`{host}` is spoken to without encryption"))
            .help(format!("use `{safe}`; headers and results can be read on the way"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_an_address_or_a_reserved_name() {
        for host in ["localhost", "Localhost", "a.localhost", "127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in ["127.evil.example", "127.0.0.1.evil.example", "localhost.example", "10.0.0.1", "::2", "127."] {
            assert!(!is_loopback(host), "{host}");
        }
    }
}
