//! Which transport an entry means, and that its fields are those of that transport.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::config::{Mcp, ServerEntry, Text};
use crate::diagnostic::Diagnostic;
use crate::interpolate::{Part, Template};
use crate::plan::{Launch, Stdio, StreamableHttp, TransportKind};
use crate::source::{Span, Spanned};

use super::{Resolver, default_environment};

impl Resolver<'_> {
    pub(super) fn launch(&mut self, entry: &Spanned<ServerEntry>, mcp: &Mcp) -> Option<Launch> {
        match self.transport(entry)? {
            TransportKind::Stdio => self.stdio(entry, mcp),
            TransportKind::StreamableHttp => self.streamable_http(entry),
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
                other => {
                    self.unsupported(other, written.at);
                    None
                }
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
                self.unsupported("websocket", url.at);
                None
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

    fn unsupported(&mut self, transport: &str, at: Span) {
        let message = format!("the transport `{transport}` isn't supported by this version");
        self.report(
            Diagnostic::new(Code::UnsupportedTransport, at, message).help("stdio and streamable_http are supported"),
        );
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
        let cwd = fields.cwd.as_ref().map(|cwd| self.template(cwd, "cwd"));
        let command = self.required(fields.command.as_ref(), entry.at, "command", "a stdio server")?;
        self.check_command(command);
        Some(Launch::Stdio(Stdio {
            command: self.template(command, "command"),
            args,
            env,
            cwd: cwd.unwrap_or_else(|| Template::literal(".")),
            environment: fields.environment.as_ref().map_or_else(|| default_environment(mcp), |written| written.value),
            restart: fields.restart.as_ref().map(|written| written.value).unwrap_or_default(),
        }))
    }

    fn streamable_http(&mut self, entry: &Spanned<ServerEntry>) -> Option<Launch> {
        let fields = &entry.value;
        for (field, at) in [
            ("command", fields.command.as_ref().map(|f| f.at)),
            ("args", fields.args.as_ref().map(|f| f.at)),
            ("env", fields.env.as_ref().map(|f| f.at)),
            ("cwd", fields.cwd.as_ref().map(|f| f.at)),
            ("environment", fields.environment.as_ref().map(|f| f.at)),
            ("restart", fields.restart.as_ref().map(|f| f.at)),
        ] {
            self.refuse(field, at, "a streamable_http server", "a remote server is given `url` and `headers`");
        }
        let headers = self.texts(fields.headers.as_ref(), "headers", Self::check_header);
        let url = self.required(fields.url.as_ref(), entry.at, "url", "a streamable_http server")?;
        let template = self.template(url, "url");
        self.check_url(url, &template);
        Some(Launch::StreamableHttp(StreamableHttp { url: template, headers }))
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

    fn check_url(&mut self, written: &Spanned<String>, template: &Template) {
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
        if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
            let message = format!("a streamable_http server can't be reached through `{scheme}://`");
            self.report(Diagnostic::new(Code::BadUrl, written.at, message).help("use `https://` or `http://`"));
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
