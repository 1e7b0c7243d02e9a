//! Which transport an entry means, and that its fields are those of that transport.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::config::server::TRANSPORTS;
use crate::config::{Mcp, ServerEntry, Text};
use crate::diagnostic::{Diagnostic, closest, shown};
use crate::interpolate::{Part, Template};
use crate::name::is_variable_name;
use crate::plan::{Environment, Launch, Remote, Restart, Stdio, TransportKind};
use crate::secret::masked;
use crate::source::{Span, Spanned};

use super::Resolver;
use super::url::is_websocket;

const SUPPORTED: &str = "the transports are `stdio`, `streamable_http`, `sse` and `websocket`";

/// What a transport can't do without.
struct Needed<'e> {
    field: Option<&'e Spanned<String>>,
    name: &'static str,
    who: &'static str,
    /// The field of another transport that stands in its place, and that transport.
    instead: Option<(&'static str, Span, &'static str)>,
}

impl Resolver<'_> {
    pub(super) fn launch(&mut self, entry: &Spanned<ServerEntry>, mcp: &Mcp) -> Option<Launch> {
        match self.transport(entry)? {
            TransportKind::Stdio => self.stdio(entry, mcp),
            kind => self.remote(entry, kind),
        }
    }

    fn transport(&mut self, entry: &Spanned<ServerEntry>) -> Option<TransportKind> {
        let fields = &entry.value;
        if let Some(written) = &fields.transport {
            let known = TRANSPORTS.iter().find(|(word, _)| *word == written.value);
            if known.is_none() {
                self.unknown_transport(written);
            }
            return known.map(|(_, kind)| *kind);
        }
        match (&fields.command, &fields.url) {
            (Some(command), Some(url)) => {
                self.report(
                    Diagnostic::new(Code::FieldNotForTransport, url.at, "this server has both `command` and `url`")
                        .related(command.at, "starts a process")
                        .label("connects to a remote server")
                        .help("keep one of the two"),
                );
                None
            }
            (Some(_), None) => Some(TransportKind::Stdio),
            (None, Some(url)) if is_websocket(&url.value) => Some(TransportKind::Websocket),
            (None, Some(_)) => Some(TransportKind::StreamableHttp),
            (None, None) if self.is_troubled(entry.at) => None,
            (None, None) => {
                self.report(
                    Diagnostic::new(Code::NoTransport, entry.at, "this server has neither `command` nor `url`")
                        .help("`command` starts a local server, `url` connects to a remote one"),
                );
                None
            }
        }
    }

    fn unknown_transport(&mut self, written: &Spanned<String>) {
        let message = format!("`transport` can't be `{}`", shown(&written.value));
        let mut diagnostic = Diagnostic::new(Code::UnknownValue, written.at, message);
        let words = TRANSPORTS.iter().map(|(word, _)| *word);
        if let Some(close) = closest(&written.value, words) {
            diagnostic = diagnostic.meant(close);
        }
        self.report(diagnostic.help(SUPPORTED));
    }

    fn stdio(&mut self, entry: &Spanned<ServerEntry>, mcp: &Mcp) -> Option<Launch> {
        let fields = &entry.value;
        let refused = [
            // Without a command, the url is what should have been one: said below.
            ("url", fields.url.as_ref().filter(|_| fields.command.is_some()).map(|f| f.at)),
            ("headers", fields.headers.as_ref().map(|f| f.at)),
        ];
        self.refuse(&refused, "a stdio server", "the process is given `command`, `args`, `env` and `cwd`");
        let restart = self.restart(fields);
        let args = fields.args.iter().flat_map(|args| &args.value).enumerate();
        let args: Vec<_> = args.map(|(index, arg)| self.text(arg, &format!("args[{index}]"))).collect();
        let env = self.texts(fields.env.as_ref(), "env", Self::check_variable);
        let cwd = fields.cwd.as_ref().map(|cwd| self.template(cwd, "cwd")).map(|cwd| self.rebased(cwd));
        let instead = fields.url.as_ref().map(|url| ("url", url.at, "streamable_http"));
        let needed = Needed { field: fields.command.as_ref(), name: "command", who: "a stdio server", instead };
        let command = self.required(needed, entry.at)?;
        self.check_command(command);
        let program = self.template(command, "command");
        Some(Launch::Stdio(Stdio {
            // A bare name is looked up on PATH; only a path is relative to its file.
            command: if command.value.contains('/') { self.rebased(program) } else { program },
            args,
            env,
            cwd: cwd.unwrap_or_else(|| Template::literal(".")),
            environment: self.environment(fields, mcp),
            restart,
        }))
    }

    /// Whether the process comes back: a required one does, unless its entry says otherwise. Only then are there waits.
    fn restart(&mut self, entry: &ServerEntry) -> Restart {
        let written = entry.restart.as_ref().map(|written| written.value);
        let implied = if entry.required == Some(true) { Restart::OnFailure } else { Restart::default() };
        let restart = written.unwrap_or(implied);
        if let Some(reconnect) = entry.reconnect.as_ref().filter(|_| restart != Restart::OnFailure) {
            let message = "a stdio server doesn't take `reconnect` unless it comes back by itself";
            self.report(
                Diagnostic::new(Code::FieldNotForTransport, reconnect.at, message)
                    .help("write `restart: on_failure` too, or remove `reconnect`"),
            );
        }
        restart
    }

    /// The server's own word, else the section's; the older spelling is a yes or no.
    fn environment(&mut self, entry: &ServerEntry, mcp: &Mcp) -> Environment {
        let mut pick = |new: Option<&Spanned<Environment>>, old: Option<&Spanned<bool>>| {
            if let (Some(new), Some(old)) = (new, old) {
                self.two_spellings("environment", new.at, "inherit_env", old.at);
            }
            let old = old.map(|all| if all.value { Environment::All } else { Environment::Minimal });
            new.map(|new| new.value).or(old)
        };
        let own = pick(entry.environment.as_ref(), entry.inherit_env.as_ref());
        let shared = pick(mcp.environment.as_ref(), mcp.inherit_env.as_ref());
        own.or(shared).unwrap_or_default()
    }

    /// A path of the file that is being resolved, relative to the main file instead.
    pub(super) fn rebased_path(&self, path: &str) -> String {
        rebased(&self.directory, path)
    }

    fn rebased(&self, template: Template) -> Template {
        match template.parts().first() {
            Some(Part::Text(text)) if !self.directory.is_empty() => {
                let moved = self.rebased_path(text);
                let front = &moved[..moved.len() - text.len()];
                template.prefixed(front)
            }
            _ => template,
        }
    }

    fn remote(&mut self, entry: &Spanned<ServerEntry>, kind: TransportKind) -> Option<Launch> {
        let fields = &entry.value;
        let who = who(kind);
        let refused = [
            ("command", fields.command.as_ref().filter(|_| fields.url.is_some()).map(|f| f.at)),
            ("args", fields.args.as_ref().map(|f| f.at)),
            ("env", fields.env.as_ref().map(|f| f.at)),
            ("cwd", fields.cwd.as_ref().map(|f| f.at)),
            ("environment", fields.environment.as_ref().map(|f| f.at)),
            ("inherit_env", fields.inherit_env.as_ref().map(|f| f.at)),
            ("restart", fields.restart.as_ref().map(|f| f.at)),
        ];
        self.refuse(&refused, who, "a remote server is given `url` and `headers`");
        let headers = self.texts(fields.headers.as_ref(), "headers", Self::check_header);
        self.check_headers_once(fields);
        let instead = fields.command.as_ref().map(|command| ("command", command.at, "stdio"));
        let needed = Needed { field: fields.url.as_ref(), name: "url", who, instead };
        let url = self.required(needed, entry.at)?;
        let template = self.template(url, "url");
        self.check_url(url, &template, kind);
        let remote = Remote { url: template, headers };
        Some(match kind {
            TransportKind::Sse => Launch::Sse(remote),
            TransportKind::Websocket => Launch::Websocket(remote),
            _ => Launch::StreamableHttp(remote),
        })
    }

    /// Fields of another transport: one mistake, whatever came along with it.
    fn refuse(&mut self, fields: &[(&str, Option<Span>)], who: &str, help: &str) {
        let mut written: Vec<_> = fields.iter().filter_map(|(field, at)| at.map(|at| (at, *field))).collect();
        written.sort_unstable();
        let Some(((first, _), more)) = written.split_first() else { return };
        let names: Vec<_> = written.iter().map(|(_, field)| format!("`{field}`")).collect();
        let message = format!("{who} doesn't take {}", one_of(&names));
        let mut diagnostic = Diagnostic::new(Code::FieldNotForTransport, *first, message).help(help);
        for (at, _) in more {
            diagnostic = diagnostic.related(*at, "");
        }
        self.report(diagnostic);
    }

    /// A field that the transport can't do without. Empty counts as missing.
    fn required<'e>(&mut self, needed: Needed<'e>, entry: Span) -> Option<&'e Spanned<String>> {
        let Needed { field, name, who, instead } = needed;
        let help = format!("add `{name}: …`");
        let diagnostic = match (field, instead) {
            (Some(field), _) if !field.value.trim().is_empty() => return Some(field),
            (Some(field), _) => {
                Diagnostic::new(Code::MissingKey, field.at, format!("`{name}` is empty, and {who} needs it"))
                    .help(format!("write something after `{name}:`"))
            }
            (None, Some((other, at, transport))) => {
                Diagnostic::new(Code::MissingKey, at, format!("{who} needs `{name}`, this one has `{other}`"))
                    .help(format!("write `transport: {transport}`, or `{name}` in place of `{other}`"))
            }
            (None, None) if self.is_troubled(entry) => return None,
            (None, None) => Diagnostic::new(Code::MissingKey, entry, format!("{who} needs `{name}`")).help(help),
        };
        self.report(diagnostic);
        None
    }

    fn text(&mut self, written: &Spanned<Text>, field: &str) -> Template {
        self.template(&Spanned::new(written.value.0.clone(), written.at), field)
    }

    fn texts(
        &mut self,
        written: Option<&Spanned<BTreeMap<Spanned<String>, Spanned<Text>>>>,
        field: &str,
        check: fn(&mut Self, &Spanned<String>, &Spanned<Text>),
    ) -> BTreeMap<String, Template> {
        let mut all = BTreeMap::new();
        for (key, value) in written.iter().flat_map(|written| &written.value) {
            check(self, key, value);
            all.insert(key.value.clone(), self.text(value, &format!("{field}.{}", key.value)));
        }
        all
    }

    /// `command: npx -y package` is one program of that name to us: nearly always a mistake.
    fn check_command(&mut self, command: &Spanned<String>) {
        let trimmed = command.value.trim();
        if trimmed.len() != command.value.len() {
            let message = "`command` has blanks around the program's name";
            self.report(
                Diagnostic::new(Code::BadCommand, command.at, message)
                    .help(format!("write `command: {}`", masked(trimmed))),
            );
            return;
        }
        let mut words = trimmed.split_whitespace();
        let (Some(program), Some(_)) = (words.next(), words.clone().next()) else { return };
        // A path with blanks in it is fine; a bare word followed by options is not.
        if !program.contains(['/', '\\', '$']) {
            let mut help = format!("write `command: {program}`, and the rest word by word in `args: [ … ]`");
            if !trimmed.contains(['"', '\'', '\\']) && trimmed.len() <= 120 {
                let args: Vec<_> = words.map(|word| crate::json::string(&masked(word))).collect();
                help = format!("write `command: {program}` and `args: [{}]`", args.join(", "));
            }
            let message = format!("`command` is one program, and there is none called `{}`", shown(trimmed));
            self.report(Diagnostic::new(Code::BadCommand, command.at, message).help(help));
        }
    }

    pub(super) fn variable_name(&mut self, written: &Spanned<String>) -> String {
        let name = &written.value;
        if name.is_empty() {
            self.report(
                Diagnostic::new(Code::BadVariableName, written.at, "a variable has to have a name")
                    .help("write its name, such as `GITHUB_TOKEN`"),
            );
        } else if !is_variable_name(name) {
            // What follows a `=` may be a secret.
            let shown_name = shown(name.split_inclusive('=').next().unwrap_or_default());
            let message = format!("`{shown_name}` can't be the name of a variable");
            self.report(
                Diagnostic::new(Code::BadVariableName, written.at, message)
                    .help("write the name alone, such as `GITHUB_TOKEN`"),
            );
        }
        name.clone()
    }

    fn check_variable(&mut self, key: &Spanned<String>, _: &Spanned<Text>) {
        self.variable_name(key);
    }

    /// Letter case makes no other header of one.
    fn check_headers_once(&mut self, entry: &ServerEntry) {
        let mut seen: BTreeMap<String, &Spanned<String>> = BTreeMap::new();
        let mut keys: Vec<_> = entry.headers.iter().flat_map(|headers| headers.value.keys()).collect();
        keys.sort_by_key(|key| key.at);
        for key in keys {
            if let Some(first) = seen.get(&key.value.to_ascii_lowercase()) {
                let message = format!("`{}` and `{}` are one header", shown(&first.value), shown(&key.value));
                self.report(
                    Diagnostic::new(Code::BadHeader, key.at, message)
                        .related(first.at, "first here")
                        .help("remove one of the two; letter case doesn't count"),
                );
                continue;
            }
            seen.insert(key.value.to_ascii_lowercase(), key);
        }
    }

    fn check_header(&mut self, key: &Spanned<String>, value: &Spanned<Text>) {
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if key.value.is_empty() || !key.value.chars().all(token) {
            let message = match key.value.as_str() {
                "" => "an HTTP header has to have a name".to_owned(),
                name => format!("`{}` can't be the name of an HTTP header", shown(name)),
            };
            self.report(
                Diagnostic::new(Code::BadHeader, key.at, message)
                    .help("a header's name has ASCII letters, digits and `-`, such as `X-Api-Key`"),
            );
        }
        let text = &value.value.0;
        let (odd, help) = if text.contains(['\n', '\r']) {
            ("a line break", "write it on one line")
        } else if text.contains(|c: char| c.is_control() && !matches!(c, '\t' | '\0')) {
            ("a control character", "remove it")
        } else {
            return;
        };
        let message = format!("the value of header `{}` holds {odd}", shown(&key.value));
        self.report(Diagnostic::new(Code::BadHeader, value.at, message).help(help));
    }
}

/// A path of a file in `directory`, relative to where that is relative to.
pub(crate) fn rebased(directory: &str, path: &str) -> String {
    let fixed = path.starts_with(['/', '~']) || path.contains(":\\") || path.starts_with("${");
    if directory.is_empty() || fixed { path.to_owned() } else { format!("{directory}/{path}") }
}

/// A server of that transport, as messages call it.
pub(super) fn who(kind: TransportKind) -> &'static str {
    match kind {
        TransportKind::Stdio => "a stdio server",
        TransportKind::StreamableHttp => "a streamable_http server",
        TransportKind::Sse => "an sse server",
        TransportKind::Websocket => "a websocket server",
    }
}

/// `a`, `b` or `c`.
fn one_of(names: &[String]) -> String {
    match names {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        names => names.concat(),
    }
}
