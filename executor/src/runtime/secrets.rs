//! Turns the references of a server's launch into values when its connection opens, and hides them again in text.
//!
//! Values live in [`SecretString`] and nowhere else; nothing here prints one.

mod missing;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mcplan_compiler::interpolate::{Reference, Template};
use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::{Launch, Plugin, Server};
use mcplan_compiler::secret::{name_looks_secret, value_looks_secret};
use reqwest::Url;
use secrecy::{ExposeSecret as _, SecretString};

use super::environment;

pub use missing::missing;

/// Shortest value that is hidden, in characters; shorter ones stand in too many innocent words.
const MASKED_MIN: usize = 6;
/// Largest file that `${file:…}` reads, in bytes.
const FILE_MAX: u64 = 1024 * 1024;

/// Where references are looked up.
#[derive(Clone, Copy, Debug)]
pub struct Sources<'a> {
    /// The environment of our own process, as far as it is UTF-8.
    pub environment: &'a BTreeMap<String, String>,
    /// What relative paths are relative to.
    pub directory: &'a Path,
}

/// A launch with nothing left to look up.
#[derive(Clone, Debug)]
pub enum Opened {
    /// A child process.
    Stdio {
        /// The program as written.
        command: SecretString,
        /// Its arguments.
        args: Vec<SecretString>,
        /// What its entry declares, not what it inherits.
        env: BTreeMap<String, SecretString>,
        /// Absolute.
        cwd: PathBuf,
    },
    /// A remote server.
    Http {
        /// Where it listens.
        url: SecretString,
        /// Sent with every request.
        headers: BTreeMap<String, SecretString>,
    },
}

/// Why a reference has no value. Names the place, never a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// `${NAME}` of a variable that isn't set.
    #[error("`{field}` of server `{server}` needs the variable `{variable}`, which is not set")]
    Unset {
        /// The variable.
        variable: String,
        /// The field, as in `env.TOKEN`.
        field: String,
        /// The server.
        server: ServerName,
    },
    /// `${NAME:?message}` of a variable that is unset or empty.
    #[error("`{field}` of server `{server}` needs the variable `{variable}`: {message}")]
    Required {
        /// The variable.
        variable: String,
        /// What the config says about it.
        message: String,
        /// The field.
        field: String,
        /// The server.
        server: ServerName,
    },
    /// `${file:PATH}` that can't be read.
    #[error("`{field}` of server `{server}` needs the file `{path}`: {cause}")]
    File {
        /// As the config writes it.
        path: String,
        /// The system's words.
        cause: String,
        /// The field.
        field: String,
        /// The server.
        server: ServerName,
    },
}

/// Looks up every reference of `server`'s launch.
///
/// # Errors
/// The first reference without a value.
pub fn open(server: &Server, sources: Sources<'_>) -> Result<(Opened, Mask), SecretError> {
    let mut found = Vec::new();
    let mut value = |field: &str, template: &Template| {
        template
            .resolve(|reference| look_up(reference, field, &server.name, sources, &mut found))
            .map(SecretString::from)
    };
    let opened = match &server.launch {
        Launch::Stdio(stdio) => {
            let cwd = value("cwd", &stdio.cwd)?;
            Opened::Stdio {
                command: value("command", &stdio.command)?,
                args: stdio
                    .args
                    .iter()
                    .enumerate()
                    .map(|(index, arg)| value(&format!("args[{index}]"), arg))
                    .collect::<Result<_, _>>()?,
                env: stdio
                    .env
                    .iter()
                    .map(|(name, text)| Ok((name.clone(), value(&format!("env.{name}"), text)?)))
                    .collect::<Result<_, _>>()?,
                cwd: absolute(cwd.expose_secret(), sources),
            }
        }
        Launch::StreamableHttp(http) | Launch::Sse(http) | Launch::Websocket(http) => Opened::Http {
            url: value("url", &http.url)?,
            headers: http
                .headers
                .iter()
                .map(|(name, text)| Ok((name.clone(), value(&format!("headers.{name}"), text)?)))
                .collect::<Result<_, _>>()?,
        },
    };
    found.extend(
        environment::url_passwords(sources.environment)
            .into_iter()
            .map(|(name, password)| (format!("${{{name}}}"), password)),
    );
    Ok((opened, Mask::new(found)))
}

/// Looks up the references of a plugin's program, arguments and variables.
///
/// # Errors
/// The first reference without a value.
pub fn open_plugin(plugin: &Plugin, sources: Sources<'_>) -> Result<(OpenedPlugin, Mask), SecretError> {
    let mut found = Vec::new();
    let mut value = |field: String, template: &Template| {
        template
            .resolve(|reference| look_up(reference, &field, &plugin.name, sources, &mut found))
            .map(SecretString::from)
    };
    let command = plugin.command.iter().enumerate();
    let command = command.map(|(index, word)| value(format!("command[{index}]"), word)).collect::<Result<_, _>>()?;
    let env = plugin.env.iter();
    let env =
        env.map(|(name, text)| Ok((name.clone(), value(format!("env.{name}"), text)?))).collect::<Result<_, _>>()?;
    Ok((OpenedPlugin { command, env }, Mask::new(found)))
}

/// Looks up the references of a token that opens the listener.
///
/// # Errors
/// Why it has no value, or that it is empty.
pub fn open_token(token: &Template, sources: Sources<'_>) -> Result<SecretString, String> {
    // Nobody's name: what is said names the field.
    let nobody = ServerName::new("listener").map_err(|error| error.to_string())?;
    let value = token.resolve(|reference| look_up(reference, "", &nobody, sources, &mut Vec::new()));
    match value {
        Ok(value) if value.trim().is_empty() => Err("is empty, and would let anyone in".to_owned()),
        Ok(value) => Ok(value.into()),
        Err(SecretError::Unset { variable, .. }) => Err(format!("needs the variable `{variable}`, which is not set")),
        Err(SecretError::Required { variable, message, .. }) => {
            Err(format!("needs the variable `{variable}`: {message}"))
        }
        Err(SecretError::File { path, cause, .. }) => Err(format!("needs the file `{path}`: {cause}")),
    }
}

/// A plugin's launch with nothing left to look up.
#[derive(Clone, Debug)]
pub struct OpenedPlugin {
    /// The program and its arguments.
    pub command: Vec<SecretString>,
    /// What its entry declares.
    pub env: BTreeMap<String, SecretString>,
}

/// `path` from the config's directory; `~` is the home directory.
pub fn absolute(path: &str, sources: Sources<'_>) -> PathBuf {
    let home = sources.environment.get("HOME").or_else(|| sources.environment.get("USERPROFILE"));
    match (path.strip_prefix('~'), home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            Path::new(home).join(rest.trim_start_matches('/'))
        }
        _ => sources.directory.join(path),
    }
}

fn look_up(
    reference: &Reference,
    field: &str,
    server: &ServerName,
    sources: Sources<'_>,
    found: &mut Vec<(String, String)>,
) -> Result<String, SecretError> {
    let set = |name: &str| sources.environment.get(name).filter(|value| !value.is_empty()).cloned();
    let (label, value) = match reference {
        Reference::Variable(name) => {
            let value = sources.environment.get(name).cloned().ok_or_else(|| SecretError::Unset {
                variable: name.clone(),
                field: field.to_owned(),
                server: server.clone(),
            })?;
            (format!("${{{name}}}"), value)
        }
        Reference::OrText(name, text) => match set(name) {
            Some(value) => (format!("${{{name}}}"), value),
            // Written in the config for all to read, so nothing to hide.
            None => return Ok(text.clone()),
        },
        Reference::OrError(name, message) => {
            let value = set(name).ok_or_else(|| SecretError::Required {
                variable: name.clone(),
                message: if message.is_empty() { "it is unset or empty".to_owned() } else { message.clone() },
                field: field.to_owned(),
                server: server.clone(),
            })?;
            (format!("${{{name}}}"), value)
        }
        Reference::File(path) => {
            let value = read(&absolute(path, sources)).map_err(|cause| SecretError::File {
                path: path.clone(),
                cause,
                field: field.to_owned(),
                server: server.clone(),
            })?;
            (format!("${{file:{path}}}"), value)
        }
    };
    found.push((label, value.clone()));
    Ok(value)
}

/// A file's text without its final newline.
fn read(path: &Path) -> Result<String, String> {
    use std::io::Read as _;
    // Looked at first, because opening a pipe waits for its other end.
    if !std::fs::metadata(path).map_err(|error| error.to_string())?.is_file() {
        return Err("not a regular file".to_owned());
    }
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut text = String::new();
    file.take(FILE_MAX + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.len() as u64 > FILE_MAX {
        return Err(format!("larger than {FILE_MAX} bytes"));
    }
    let kept = text.strip_suffix('\n').map_or(text.len(), |rest| rest.strip_suffix('\r').unwrap_or(rest).len());
    text.truncate(kept);
    Ok(text)
}

/// The values to hide and what stands in for each.
#[derive(Clone, Default)]
pub struct Mask {
    entries: Arc<Vec<(SecretString, String)>>,
}

/// A value as it stands in a URL: in a path, in a query, in one that a form or a program's own encoder made.
fn in_urls(value: &str) -> Vec<String> {
    let Ok(mut url) = Url::parse("http://localhost/") else { return Vec::new() };
    url.set_path(value);
    let path = url.path().trim_start_matches('/').to_owned();
    url.set_query(Some(value));
    let query = url.query().unwrap_or_default().to_owned();
    url.set_query(None);
    url.query_pairs_mut().append_key_only(value);
    let form = url.query().unwrap_or_default().to_owned();
    let encoded = form.replace('+', "%20");
    vec![path, query, form, encoded]
}

/// Fewer characters of a value than this tell nothing, and many other words begin or end with them.
const PIECE_MIN: usize = 3;

impl Mask {
    /// A mask over pairs of label and value. Values below six characters are left out; a value of several lines is
    /// also hidden line by line, and each as JSON, a URL or base64 would write it: servers show what they were sent.
    pub fn new(found: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut all: BTreeMap<String, String> = BTreeMap::new();
        let mut add = |text: &str, label: &str| {
            if text.chars().count() >= MASKED_MIN {
                all.entry(text.to_owned()).or_insert_with(|| label.to_owned());
            }
        };
        for (label, value) in found {
            add(&value, &label);
            let quoted = mcplan_compiler::json::string(&value);
            add(&quoted[1..quoted.len() - 1], &label);
            in_urls(&value).iter().for_each(|written| add(written, &label));
            add(&BASE64_STANDARD.encode(&value), &label);
            if value.contains('\n') {
                value.lines().for_each(|line| add(line.trim(), &label));
            }
        }
        let mut entries: Vec<_> = all.into_iter().map(|(value, label)| (SecretString::from(value), label)).collect();
        // Where one value holds another, the longer one is what was meant.
        entries.sort_by_key(|(value, _)| std::cmp::Reverse(value.expose_secret().len()));
        Self { entries: Arc::new(entries) }
    }

    /// The label of a value in `text` that is a secret, rather than a setting such as a folder's name.
    pub fn secret_in(&self, text: &str) -> Option<&str> {
        let found = |entry: &&(SecretString, String)| text.contains(entry.0.expose_secret()) && is_secret(entry);
        self.entries.iter().find(found).map(|(_, label)| label.as_str())
    }

    /// A mask over those of its values alone that are secrets.
    #[must_use]
    pub fn of_secrets(&self) -> Self {
        Self { entries: Arc::new(self.entries.iter().filter(|entry| is_secret(entry)).cloned().collect()) }
    }

    /// `text` with every value replaced by its label.
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let find = |value: &SecretString, from: usize| text[from..].find(value.expose_secret()).map(|at| from + at);
        let mut next: Vec<Option<usize>> = self.entries.iter().map(|(value, _)| find(value, 0)).collect();
        if next.iter().all(Option::is_none) {
            return Cow::Borrowed(text);
        }
        let (mut out, mut done) = (String::with_capacity(text.len()), 0);
        loop {
            for (place, (value, _)) in next.iter_mut().zip(self.entries.iter()) {
                if place.is_some_and(|at| at < done) {
                    *place = find(value, done);
                }
            }
            // The first in order of place; on a tie the longer one, because it comes first in the list.
            let Some((at, index)) = next.iter().enumerate().filter_map(|(i, at)| at.map(|at| (at, i))).min() else {
                break;
            };
            let (value, label) = &self.entries[index];
            out.push_str(&text[done..at]);
            out.push_str(label);
            done = at + value.expose_secret().len();
        }
        out.push_str(&text[done..]);
        Cow::Owned(out)
    }

    /// As [`Mask::apply`], for a piece of a longer text: where it was cut, it may begin with the rest of a value or end
    /// with the start of one. A server could otherwise show a value by choosing where the cut falls.
    pub fn apply_excerpt(&self, text: &str) -> String {
        let mut masked = self.apply(text).into_owned();
        let values = || self.entries.iter().map(|(value, label)| (value.expose_secret(), label));
        let rests = values().filter_map(|(value, label)| Some((rest_at_start(value, &masked)?, label)));
        if let Some((length, label)) = rests.max_by_key(|(length, _)| *length) {
            masked.replace_range(..length, label);
        }
        // What cutting leaves at the very end: half a character, and our own sign that there was more.
        let end = masked.trim_end_matches(['…', '\u{fffd}']).len();
        let starts = values().filter_map(|(value, label)| Some((start_at_end(value, &masked[..end])?, label)));
        if let Some((length, label)) = starts.max_by_key(|(length, _)| *length) {
            masked.replace_range(end - length..end, label);
        }
        masked
    }
}

/// Whether a value is one: by the name of its variable, by its looks, or because it stands in a file of its own.
fn is_secret((value, label): &(SecretString, String)) -> bool {
    let name = label.trim_start_matches("${").trim_end_matches('}');
    name.starts_with("file:") || name_looks_secret(name) || value_looks_secret(value.expose_secret())
}

/// How many bytes of `text`'s start are the end of `value`; from three characters on.
fn rest_at_start(value: &str, text: &str) -> Option<usize> {
    let cuts = value.char_indices().map(|(at, _)| &value[at..]).skip(1);
    cuts.take_while(|rest| rest.chars().count() >= PIECE_MIN).find(|rest| text.starts_with(rest)).map(str::len)
}

/// How many bytes of `text`'s end are the start of `value`; from three characters on.
fn start_at_end(value: &str, text: &str) -> Option<usize> {
    let cuts = value.char_indices().map(|(at, _)| &value[..at]).rev();
    cuts.take_while(|start| start.chars().count() >= PIECE_MIN).find(|start| text.ends_with(start)).map(str::len)
}

impl fmt::Debug for Mask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mask({} values)", self.entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn server(launch: &serde_json::Value) -> Server {
        let mut all = json!({
            "name": "s", "description": null, "origin": "config",
            "tools": {"include": null, "exclude": [], "always": []}, "defer": true, "enabled": true, "required": false, "when_env": [],
            "replace": "swap", "workspaces": [], "sampling": false, "persistent_sessions": true, "connect": "eager", "idle_stop_seconds": 0.0, "reconnect": {"attempts": 1, "initial_seconds": 1.0, "max_seconds": 1.0, "jitter_seconds": 0.0},
            "limits": {"timeout_seconds": 5.0, "request_timeout_seconds": 5.0, "call_timeout_seconds": 0.0,
                       "idle_timeout_seconds": 0.0, "max_result_chars": 0},
        });
        for (key, value) in launch.as_object().unwrap() {
            all[key] = value.clone();
        }
        serde_json::from_value(all).unwrap()
    }

    fn stdio(env: &serde_json::Value) -> Server {
        server(&json!({"transport": "stdio", "command": "c", "args": ["${ARG:-dflt}"], "env": env, "cwd": ".",
                       "environment": "minimal", "restart": "never"}))
    }

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_form_is_resolved_and_masked() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("key"), "file-secret\n").unwrap();
        let environment = environment(&[("TOKEN", "hunter2-value"), ("EMPTY", "")]);
        let sources = Sources { environment: &environment, directory: directory.path() };
        let server =
            stdio(&json!({"A": "Bearer ${TOKEN}", "B": "${file:key}", "C": "${EMPTY:-else}", "D": "${EMPTY}"}));
        let (opened, mask) = open(&server, sources).unwrap();
        let Opened::Stdio { args, env, cwd, .. } = &opened else { panic!("{opened:?}") };
        assert_eq!(args[0].expose_secret(), "dflt");
        assert_eq!(env["A"].expose_secret(), "Bearer hunter2-value");
        assert_eq!(env["B"].expose_secret(), "file-secret");
        assert_eq!(env["C"].expose_secret(), "else");
        assert_eq!(env["D"].expose_secret(), "");
        assert_eq!(cwd, &directory.path().join("."));
        assert_eq!(mask.apply("x hunter2-value y file-secret"), "x ${TOKEN} y ${file:key}");
        let printed = format!("{opened:?} {mask:?}");
        assert!(!printed.contains("hunter2") && !printed.contains("file-secret"), "{printed}");
    }

    #[test]
    fn what_is_missing_is_named_with_its_field() {
        let none = BTreeMap::new();
        let sources = Sources { environment: &none, directory: Path::new("/nowhere") };
        let message = |env: serde_json::Value| open(&stdio(&env), sources).unwrap_err().to_string();
        assert_eq!(
            message(json!({"T": "${TOKEN}"})),
            "`env.T` of server `s` needs the variable `TOKEN`, which is not set"
        );
        assert_eq!(
            message(json!({"T": "${TOKEN:?get one at example.com}"})),
            "`env.T` of server `s` needs the variable `TOKEN`: get one at example.com"
        );
        let file = message(json!({"T": "${file:no/such}"}));
        assert!(file.starts_with("`env.T` of server `s` needs the file `no/such`: No such file"), "{file}");
    }

    #[test]
    fn a_home_directory_is_found() {
        let environment = environment(&[("HOME", "/home/u")]);
        let sources = Sources { environment: &environment, directory: Path::new("/c") };
        assert_eq!(absolute("~/x", sources), Path::new("/home/u/x"));
        assert_eq!(absolute("~", sources), Path::new("/home/u"));
        assert_eq!(absolute("~other", sources), Path::new("/c/~other"));
        assert_eq!(absolute("/x", sources), Path::new("/x"));
    }

    #[test]
    fn a_value_is_hidden_as_a_url_and_base64_write_it() {
        let mask = Mask::new([("${T}".to_owned(), "Pa\"s s+42<Zq/Q?z".to_owned())]);
        for (text, shown) in [
            ("no route for /mcp?key=Pa%22s%20s+42%3CZq/Q?z&x=1", "no route for /mcp?key=${T}&x=1"),
            ("no route for /Pa%22s%20s+42%3CZq/Q%3Fz/mcp", "no route for /${T}/mcp"),
            ("sent Pa%22s+s%2B42%3CZq%2FQ%3Fz", "sent ${T}"),
            ("sent Pa%22s%20s%2B42%3CZq%2FQ%3Fz", "sent ${T}"),
            ("sent UGEicyBzKzQyPFpxL1E/eg==", "sent ${T}"),
        ] {
            assert_eq!(mask.apply(text), shown);
        }
    }

    #[test]
    fn the_longest_value_wins_and_short_ones_stay() {
        let mask = Mask::new([
            ("${A}".to_owned(), "secret".to_owned()),
            ("${B}".to_owned(), "secret-long".to_owned()),
            ("${C}".to_owned(), "short".to_owned()),
            ("${K}".to_owned(), "line-one\nline-two".to_owned()),
        ]);
        assert_eq!(mask.apply("secret secret-long short"), "${A} ${B} short");
        assert_eq!(mask.apply("[line-two] \"line-one\\nline-two\""), "[${K}] \"${K}\"");
        assert!(matches!(mask.apply("nothing here"), Cow::Borrowed(_)));
    }

    proptest! {
        #[test]
        fn no_value_survives(values in prop::collection::vec("[a-c\"\\\\é]{6,9}", 1..4), glue in "[a-d ]{0,6}") {
            let mask = Mask::new(values.iter().enumerate().map(|(i, value)| (format!("<{i}>"), value.clone())));
            let text = values.iter().map(|value| format!("{glue}{value}{glue}")).collect::<String>();
            let hidden = mask.apply(&text);
            // Labels hold no letter of the alphabet above, so what is left can only be left over.
            for value in &values {
                prop_assert!(!hidden.contains(value.as_str()), "{value} in {hidden}");
            }
        }
    }

    #[test]
    fn a_value_is_hidden_where_a_text_is_cut() {
        let mask = Mask::new([("${T}".to_owned(), "sk-CANARY-q8w7".to_owned())]);
        for (text, shown) in [
            ("pppsk-CANARY-q8w", "ppp${T}"),
            ("pppsk-CANARY-q8w…", "ppp${T}…"),
            ("pppsk-CA\u{fffd}", "ppp${T}\u{fffd}"),
            ("NARY-q8w7zzz", "${T}zzz"),
            ("ppsk-CANARY-q8w7zzz", "pp${T}zzz"),
            ("a task", "a task"),
            ("w7 s", "w7 s"),
            ("", ""),
        ] {
            assert_eq!(mask.apply_excerpt(text), shown, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_cut_shows_more_than_two_characters_of_a_value(from in 0_usize..40, length in 0_usize..40) {
            let value = "aBcDeFgHiJkL";
            let whole = format!("{}{value}{}", ".".repeat(14), ".".repeat(14));
            let piece: String = whole.chars().skip(from).take(length).collect();
            // A piece from the middle of a value is no start and no end of it; only those who cut at both ends make one.
            prop_assume!(piece.contains('.'));
            let mask = Mask::new([("#".to_owned(), value.to_owned())]);
            let shown = mask.apply_excerpt(&piece);
            prop_assert!(shown.chars().filter(char::is_ascii_alphabetic).count() < PIECE_MIN, "{shown}");
        }
    }
}
