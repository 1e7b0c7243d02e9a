//! Which transport an entry means, and that its fields are those of that transport.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::config::{Mcp, ServerEntry, Text};
use crate::diagnostic::Diagnostic;
use crate::interpolate::{Part, Template};
use crate::plan::{Environment, Launch, Remote, Stdio, TransportKind};
use crate::source::{Span, Spanned};

use super::Resolver;

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
            return match written.value.as_str() {
                "stdio" => Some(TransportKind::Stdio),
                "streamable_http" | "streamable-http" | "streamableHttp" | "http" => {
                    Some(TransportKind::StreamableHttp)
                }
                "sse" => Some(TransportKind::Sse),
                "websocket" | "ws" => Some(TransportKind::Websocket),
                // The schema knows no other word.
                _ => None,
            };
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
            (None, Some(url)) if url.value.starts_with("ws://") || url.value.starts_with("wss://") => {
                Some(TransportKind::Websocket)
            }
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

    fn stdio(&mut self, entry: &Spanned<ServerEntry>, mcp: &Mcp) -> Option<Launch> {
        let fields = &entry.value;
        for (field, at) in [
            ("url", fields.url.as_ref().map(|f| f.at)),
            ("headers", fields.headers.as_ref().map(|f| f.at)),
            ("reconnect", fields.reconnect.as_ref().map(|f| f.at)),
        ] {
            self.refuse(field, at, "a stdio server", "the process is given `command`, `args`, `env` and `cwd`");
        }
        let args = fields.args.iter().flat_map(|args| &args.value).enumerate();
        let args: Vec<_> = args.map(|(index, arg)| self.text(arg, &format!("args[{index}]"))).collect();
        let env = self.texts(fields.env.as_ref(), "env", Self::check_variable);
        let cwd = fields.cwd.as_ref().map(|cwd| self.template(cwd, "cwd")).map(|cwd| self.rebased(cwd));
        let command = self.required(fields.command.as_ref(), entry.at, "command", "a stdio server")?;
        self.check_command(command);
        let program = self.template(command, "command");
        Some(Launch::Stdio(Stdio {
            // A bare name is looked up on PATH; only a path is relative to its file.
            command: if command.value.contains('/') { self.rebased(program) } else { program },
            args,
            env,
            cwd: cwd.unwrap_or_else(|| Template::literal(".")),
            environment: self.environment(fields, mcp),
            restart: fields.restart.as_ref().map(|written| written.value).unwrap_or_default(),
        }))
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
        let fixed = path.starts_with(['/', '~']) || path.contains(":\\") || path.starts_with("${");
        if self.directory.is_empty() || fixed { path.to_owned() } else { format!("{}/{path}", self.directory) }
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
        let who = match kind {
            TransportKind::Sse => "an sse server",
            TransportKind::Websocket => "a websocket server",
            _ => "a streamable_http server",
        };
        for (field, at) in [
            ("command", fields.command.as_ref().map(|f| f.at)),
            ("args", fields.args.as_ref().map(|f| f.at)),
            ("env", fields.env.as_ref().map(|f| f.at)),
            ("cwd", fields.cwd.as_ref().map(|f| f.at)),
            ("environment", fields.environment.as_ref().map(|f| f.at)),
            ("inherit_env", fields.inherit_env.as_ref().map(|f| f.at)),
            ("restart", fields.restart.as_ref().map(|f| f.at)),
        ] {
            self.refuse(field, at, who, "a remote server is given `url` and `headers`");
        }
        let headers = self.texts(fields.headers.as_ref(), "headers", Self::check_header);
        let url = self.required(fields.url.as_ref(), entry.at, "url", who)?;
        let template = self.template(url, "url");
        self.check_url(url, &template, kind, who);
        let remote = Remote { url: template, headers };
        Some(match kind {
            TransportKind::Sse => Launch::Sse(remote),
            TransportKind::Websocket => Launch::Websocket(remote),
            _ => Launch::StreamableHttp(remote),
        })
    }

    fn refuse(&mut self, field: &str, at: Option<Span>, who: &str, help: &str) {
        if let Some(at) = at {
            let message = format!("{who} doesn't take `{field}`");
            self.report(Diagnostic::new(Code::FieldNotForTransport, at, message).help(help));
        }
    }

    /// A field that the transport can't do without. Empty counts as missing.
    fn required<'e>(
        &mut self,
        field: Option<&'e Spanned<String>>,
        entry: Span,
        name: &str,
        who: &str,
    ) -> Option<&'e Spanned<String>> {
        match field {
            Some(field) if !field.value.trim().is_empty() => Some(field),
            None if self.is_troubled(entry) => None,
            other => {
                let at = other.map_or(entry, |field| field.at);
                let message = format!("{who} needs `{name}`");
                self.report(Diagnostic::new(Code::MissingKey, at, message).help(format!("add `{name}:`")));
                None
            }
        }
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
        let mut words = command.value.split_whitespace();
        let (Some(program), Some(_)) = (words.next(), words.clone().next()) else { return };
        // A path with blanks in it is fine; a bare word followed by options is not.
        if !program.contains(['/', '\\', '$']) {
            let args: Vec<_> = words.map(crate::json::string).collect();
            let message = format!("`command` is one program, never split; there is none called `{}`", command.value);
            self.report(
                Diagnostic::new(Code::BadCommand, command.at, message)
                    .help(format!("write `command: {program}` and `args: [{}]`", args.join(", "))),
            );
        }
    }

    pub(super) fn variable_name(&mut self, written: &Spanned<String>) -> String {
        let name = &written.value;
        if name.is_empty() || name.contains(['=', '\0', '$', '{', ' ']) {
            let message = format!("`{name}` can't be the name of a variable");
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

    fn check_header(&mut self, key: &Spanned<String>, value: &Spanned<Text>) {
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if key.value.is_empty() || !key.value.chars().all(token) {
            let message = format!("`{}` can't be the name of an HTTP header", key.value);
            self.report(Diagnostic::new(Code::BadHeader, key.at, message).help("letters, digits and `-` are safe"));
        }
        if value.value.0.contains(['\n', '\r', '\0']) {
            let message = format!("the value of header `{}` holds a line break", key.value);
            self.report(Diagnostic::new(Code::BadHeader, value.at, message).help("write it on one line"));
        }
    }

    fn check_url(&mut self, written: &Spanned<String>, template: &Template, kind: TransportKind, who: &str) {
        let help = "a URL looks like `https://example.com/mcp`";
        // What a reference will say is only known when the connection opens; it is checked there again.
        if let Some(Part::Reference(_)) = template.parts().first() {
            return;
        }
        let Some((scheme, rest)) = written.value.split_once("://") else {
            let message = format!("`{}` is no absolute URL", written.value);
            self.report(Diagnostic::new(Code::BadUrl, written.at, message).help(help));
            return;
        };
        let schemes = if kind == TransportKind::Websocket { ["wss", "ws"] } else { ["https", "http"] };
        if !schemes.contains(&scheme.to_ascii_lowercase().as_str()) {
            let message = format!("{who} can't be reached through `{scheme}://`");
            let help = format!("use `{}://` or `{}://`", schemes[0], schemes[1]);
            self.report(Diagnostic::new(Code::BadUrl, written.at, message).help(help));
            return;
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        let port_is_bad = host
            .rsplit_once(':')
            .filter(|(name, _)| !name.contains(':') || name.ends_with(']'))
            .is_some_and(|(_, port)| !port.contains('$') && !port.is_empty() && port.parse::<u16>().is_err());
        if host.is_empty() || host.starts_with(':') || rest.contains(char::is_whitespace) || port_is_bad {
            let message = format!("`{}` is no usable URL", written.value);
            self.report(Diagnostic::new(Code::BadUrl, written.at, message).help(help));
        }
    }
}
