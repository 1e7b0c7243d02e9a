//! A literal secret in a foreign file → `${NAME}`, and which variable has to be set. The value itself goes nowhere.

use std::collections::BTreeMap;

use super::NoteKind;
use super::input::variable_name;
use crate::interpolate::{Reference, Template};
use crate::secret::{is_placeholder, name_looks_secret, value_looks_secret};

/// The variables that secrets were given, over a whole import: one variable never stands for two values.
#[derive(Default)]
pub(super) struct Secrets {
    /// The value that each stands for; `None` for one that the file itself refers to.
    taken: BTreeMap<String, Option<String>>,
}

/// What was said about one text.
pub(super) type Said = Vec<(NoteKind, String)>;

/// What a literal is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Secret,
    Placeholder,
}

impl Secrets {
    /// Keeps a variable that the file refers to for what it means there.
    pub(super) fn refer(&mut self, variable: String) {
        self.taken.entry(variable).or_default();
    }

    /// The variable for a value: the one wanted, else with the server before it, else with a number behind it.
    fn variable(&mut self, server: &str, wanted: &str, value: &str) -> String {
        let long =
            if wanted.starts_with(&format!("{server}_")) { wanted.to_owned() } else { format!("{server}_{wanted}") };
        let numbered = (2..).map(|number| format!("{long}_{number}"));
        let mut names = [wanted.to_owned(), long.clone()].into_iter().chain(numbered);
        let free = names.find(|name| match self.taken.get(name) {
            None => true,
            Some(Some(other)) => other == value,
            Some(None) => false,
        });
        // The numbers never end.
        let name = free.unwrap_or(long);
        self.taken.insert(name.clone(), Some(value.to_owned()));
        name
    }

    fn hide(&mut self, at: &str, kind: Kind, server: &str, wanted: &str, value: &str, said: &mut Said) -> String {
        let name = self.variable(server, wanted, value);
        let held = if kind == Kind::Secret { "holds what looks like a secret" } else { "holds a stand-in" };
        said.push((NoteKind::Set(name.clone()), format!("{at} {held}; set `{name}` where mcplan runs")));
        format!("${{{name}}}")
    }

    /// The value of a variable, as it is to be written.
    pub(super) fn env(&mut self, server: &str, key: &str, text: String, said: &mut Said) -> String {
        let at = format!("`env.{key}`");
        let text = without_secret_default(text, &at, said);
        let Some(value) = Template::parse(&text).0.as_literal() else { return text };
        match judge(key, &value) {
            Some(kind) => {
                let wanted = variable_name_kept(key);
                self.hide(&at, kind, server, &wanted, &value, said)
            }
            None => self.address(&at, server, text, said),
        }
    }

    /// The value of a header. `Bearer` and its like stay.
    pub(super) fn header(&mut self, server: &str, name: &str, text: String, said: &mut Said) -> String {
        let at = format!("`headers.{name}`");
        let text = without_secret_default(text, &at, said);
        let Some(value) = Template::parse(&text).0.as_literal() else { return text };
        let Some(kind) = judge(name, &value) else { return text };
        let schemes = ["Bearer ", "bearer ", "Basic ", "Token ", "token "];
        let scheme = schemes.iter().find(|scheme| value.starts_with(**scheme)).copied().unwrap_or_default();
        let wanted = wanted_by(server, name);
        let hidden = self.hide(&at, kind, server, &wanted, &value[scheme.len()..], said);
        format!("{scheme}{hidden}")
    }

    /// All arguments: a flag says what the next one, or what stands behind its `=`, is.
    pub(super) fn args(&mut self, server: &str, args: Vec<String>, said: &mut Said) -> Vec<String> {
        let mut flag: Option<String> = None;
        let mut out = Vec::with_capacity(args.len());
        for (index, arg) in args.into_iter().enumerate() {
            let before = flag.take();
            let at = format!("`args[{index}]`");
            flag = arg.starts_with('-').then(|| arg.trim_start_matches('-').to_owned()).filter(|f| !f.contains('='));
            out.push(self.arg(&at, server, before.as_deref(), arg, said));
        }
        out
    }

    fn arg(&mut self, at: &str, server: &str, flag: Option<&str>, text: String, said: &mut Said) -> String {
        let text = without_secret_default(text, at, said);
        let Some(value) = Template::parse(&text).0.as_literal() else { return text };
        // `--token=x`, `TOKEN=x` behind docker's `-e`, `Authorization: x` behind `--header`.
        for separator in ["=", ": ", ":"] {
            let Some((name, rest)) = value.split_once(separator) else { continue };
            let bare = name.trim_start_matches('-');
            let named = !bare.is_empty() && bare.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
            let flagged = name.starts_with('-') || matches!(flag, Some("e" | "env" | "header" | "H" | "headers"));
            if !named || !flagged || rest.is_empty() {
                continue;
            }
            if separator == "=" {
                let Some(kind) = judge(bare, rest) else { break };
                let wanted = if name.starts_with('-') { wanted_by(server, bare) } else { variable_name_kept(bare) };
                let hidden = self.hide(at, kind, server, &wanted, rest, said);
                return format!("{name}={hidden}");
            }
            let mut inner = Vec::new();
            let hidden = self.header(server, bare, rest.trim_start().to_owned(), &mut inner);
            if inner.is_empty() {
                break;
            }
            let about = format!("`headers.{bare}`");
            said.extend(inner.into_iter().map(|(kind, text)| (kind, text.replacen(&about, at, 1))));
            return format!("{name}{separator}{hidden}");
        }
        let named = flag.is_some_and(name_looks_secret);
        if value.contains("://") {
            return self.address(at, server, text, said);
        }
        let kind = if named { judge(flag.unwrap_or_default(), &value) } else { judge("", &value) };
        match kind {
            // What begins with a dash is a flag, but for a private key.
            Some(kind) if !value.starts_with('-') || value_looks_secret(&value) => {
                let wanted = flag.filter(|_| named).map_or(format!("{server}_SECRET"), |flag| wanted_by(server, flag));
                self.hide(at, kind, server, &wanted, &value, said)
            }
            _ => text,
        }
    }

    /// A URL: its password and the secrets in its query go, the rest stays.
    pub(super) fn address(&mut self, at: &str, server: &str, text: String, said: &mut Said) -> String {
        let Some((scheme, rest)) = text.split_once("://") else { return text };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (mut authority, mut tail) = (rest[..end].to_owned(), rest[end..].to_owned());
        if let Some((user, host)) = authority.rsplit_once('@')
            && let Some((name, password)) = user.split_once(':')
            && !password.is_empty()
            && !password.contains("${")
        {
            let hidden = self.hide(at, Kind::Secret, server, &format!("{server}_PASSWORD"), password, said);
            authority = format!("{name}:{hidden}@{host}");
        }
        if let Some((path, query)) = tail.split_once('?') {
            let (query, fragment) = query.split_once('#').map_or((query, None), |(query, rest)| (query, Some(rest)));
            let pairs = query.split('&').map(|pair| match pair.split_once('=') {
                Some((name, value)) if !value.contains("${") => match judge(name, value) {
                    Some(kind) => {
                        let wanted = wanted_by(server, name);
                        format!("{name}={}", self.hide(at, kind, server, &wanted, value, said))
                    }
                    None => pair.to_owned(),
                },
                _ => pair.to_owned(),
            });
            let query = pairs.collect::<Vec<_>>().join("&");
            let fragment = fragment.map(|fragment| format!("#{fragment}")).unwrap_or_default();
            tail = format!("{path}?{query}{fragment}");
        }
        format!("{scheme}://{authority}{tail}")
    }
}

/// What a literal is, by its name and by itself; `None` for what may stay.
fn judge(name: &str, value: &str) -> Option<Kind> {
    if value_looks_secret(value) && !value.contains("://") {
        return Some(Kind::Secret);
    }
    if !name_looks_secret(name) || value.contains("://") || is_harmless(value) {
        return None;
    }
    Some(if is_placeholder(value) { Kind::Placeholder } else { Kind::Secret })
}

/// Values that are no secrets, whatever they are called: short words, numbers, paths, truth values.
fn is_harmless(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    value.len() < 6
        || value.bytes().all(|byte| byte.is_ascii_digit())
        || value.starts_with(['/', '.', '~']) && !value.contains(' ') && value.contains('/')
        || matches!(lower.as_str(), "disabled" | "enabled" | "default")
}

/// `${TOKEN:-ghp_…}`: the default goes.
fn without_secret_default(text: String, at: &str, said: &mut Said) -> String {
    let (template, findings) = Template::parse(&text);
    let secret = |reference: &Reference| matches!(reference, Reference::OrText(_, text) if value_looks_secret(text));
    if findings.iter().any(|finding| finding.kind.is_error()) || !template.references().any(secret) {
        return text;
    }
    let mut out = text;
    for reference in template.references().filter(|reference| secret(reference)) {
        let name = reference.variable().unwrap_or_default().to_owned();
        out = out.replace(&reference.to_string(), &format!("${{{name}}}"));
        let text = format!("{at} holds a default that looks like a secret; set `{name}` where mcplan runs");
        said.push((NoteKind::Set(name), text));
    }
    out
}

/// A key of an environment is its own variable, if it can be one.
fn variable_name_kept(key: &str) -> String {
    let valid =
        key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !key.starts_with(|c: char| c.is_ascii_digit());
    if valid && !key.is_empty() { key.to_owned() } else { variable_name(key).unwrap_or_else(|| "SECRET".to_owned()) }
}

/// The variable for a header, flag or parameter of a server: `Authorization` of github is `GITHUB_TOKEN`.
fn wanted_by(server: &str, name: &str) -> String {
    let word = variable_name(name).unwrap_or_else(|| "SECRET".to_owned());
    let word = word.strip_prefix("X_").unwrap_or(&word);
    let word = if word == "AUTHORIZATION" { "TOKEN" } else { word };
    if word.starts_with(&format!("{server}_")) { word.to_owned() } else { format!("{server}_{word}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(key: &str, value: &str) -> String {
        Secrets::default().env("GH", key, value.to_owned(), &mut Vec::new())
    }

    #[test]
    fn secrets_and_stand_ins_go_other_values_stay() {
        assert_eq!(env("GITHUB_TOKEN", "ghp_0123456789abcdef"), "${GITHUB_TOKEN}");
        assert_eq!(env("GITHUB_TOKEN", "<your token>"), "${GITHUB_TOKEN}");
        assert_eq!(env("X", "ghp_0123456789abcdef"), "${X}");
        assert_eq!(env("SEED_PHRASE", "tribe again pledge pepper"), "${SEED_PHRASE}");
        assert_eq!(env("PEM", "-----BEGIN EC PRIVATE KEY-----\nx"), "${PEM}");
        assert_eq!(env("DB", "postgres://u:hunter2@db/x"), "postgres://u:${GH_PASSWORD}@db/x");
        assert_eq!(env("RPC_URL", "https://x.dev/?api-key=abcdefghij"), "https://x.dev/?api-key=${GH_API_KEY}");
        for (key, value) in [
            ("LOG_LEVEL", "info"),
            ("AUTH_URL", "https://a.dev/x"),
            ("KEY_FILE", "/run/key"),
            ("AUTH_PORT", "8080"),
            ("TOKEN", "${TOKEN}"),
            ("TOKEN", ""),
            ("AUTH_MODE", "none"),
        ] {
            assert_eq!(env(key, value), value, "{key}");
        }
        assert_eq!(env("TOKEN", "${TOKEN:-ghp_0123456789abcdef}"), "${TOKEN}");
    }

    #[test]
    fn headers_arguments_and_addresses() {
        let mut said = Vec::new();
        let mut secrets = Secrets::default();
        let header = secrets.header("GH", "Authorization", "Bearer abc123def456ghi".to_owned(), &mut said);
        assert_eq!(header, "Bearer ${GH_TOKEN}");
        assert_eq!(secrets.header("GH", "Accept", "text/event-stream".to_owned(), &mut said), "text/event-stream");
        let args = [
            "-e",
            "TOKEN=abcdefgh",
            "--api-key",
            "abcdefgh",
            "--key=abcdefghi",
            "--header",
            "Authorization: Bearer 0123456789abcd",
            "sk-proj-a1b2c3d4e5f6",
            "--port",
            "8080",
            "--tls-key",
            "-----BEGIN PRIVATE KEY-----\nMIIabc=\n-----END PRIVATE KEY-----",
            "-y",
        ];
        let args = secrets.args("S", args.map(str::to_owned).to_vec(), &mut said);
        assert_eq!(
            args,
            [
                "-e",
                "TOKEN=${TOKEN}",
                "--api-key",
                "${S_API_KEY}",
                "--key=${S_KEY}",
                "--header",
                "Authorization: Bearer ${S_TOKEN}",
                "${S_SECRET}",
                "--port",
                "8080",
                "--tls-key",
                "${S_TLS_KEY}",
                "-y",
            ]
        );
        let url = secrets.address("`url`", "S", "https://x.dev/mcp?token=abcdefgh&a=1#f".to_owned(), &mut said);
        assert_eq!(url, "https://x.dev/mcp?token=${S_TOKEN_2}&a=1#f");
        assert!(said.iter().all(|(_, text)| !text.contains("abcdefgh") && !text.contains("0123456789abcd")));
    }

    #[test]
    fn one_variable_stands_for_one_value() {
        let mut secrets = Secrets::default();
        let mut env = |server: &str, value: &str| secrets.env(server, "TOKEN", value.to_owned(), &mut Vec::new());
        assert_eq!(env("A", "secret-value-1"), "${TOKEN}");
        assert_eq!(env("B", "secret-value-1"), "${TOKEN}");
        assert_eq!(env("C", "secret-value-2"), "${C_TOKEN}");
        secrets.refer("KEY".to_owned());
        assert_eq!(secrets.env("A", "KEY", "secret-value-1".to_owned(), &mut Vec::new()), "${A_KEY}");
    }
}
