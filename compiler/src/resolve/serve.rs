//! `serve:`, `search:` → how agents are served.

use core::net::SocketAddr;
use std::collections::BTreeMap;

use crate::code::Code;
use crate::config::{self, Config, Text};
use crate::diagnostic::{Diagnostic, closest};
use crate::interpolate::{Reference, Template};
use crate::plan::{Agent, Http, LEAD, Search, Serve};
use crate::source::{Span, Spanned};

use super::{Resolver, value};

const LISTEN: &str = "127.0.0.1:8765";

impl Resolver<'_> {
    pub(super) fn serve(&mut self, config: &Config, agents: &BTreeMap<String, Agent>) -> Serve {
        let written = config.serve.clone().unwrap_or_default();
        Serve {
            disclosure: value(&written.disclosure).unwrap_or_default(),
            host_prefix: written.host_prefix.as_ref().map_or(0, |prefix| prefix.value as usize),
            http: written.http.as_ref().map(|http| self.http(http, agents)),
        }
    }

    fn http(&mut self, written: &config::serve::Http, agents: &BTreeMap<String, Agent>) -> Http {
        let mut tokens = BTreeMap::new();
        // Each token as it is written, whose it is, and where.
        let mut seen: Vec<(&str, String, Span)> = Vec::new();
        for (agent, token) in written.tokens.iter().flatten() {
            self.known_agent(agent, agents);
            let field = format!("serve.http.tokens.{}", agent.value);
            self.own_token(&mut seen, token, &field);
            tokens.insert(agent.value.clone(), self.token(token, &field));
        }
        if let Some(token) = &written.admin_token {
            self.own_token(&mut seen, token, "serve.http.admin_token");
        }
        let admin_token = written.admin_token.as_ref().map(|token| self.token(token, "serve.http.admin_token"));
        if let Some(listen) = &written.listen {
            self.check_listen(listen, !tokens.is_empty());
        }
        Http {
            listen: written.listen.as_ref().map_or(LISTEN, |listen| &listen.value).to_owned(),
            tokens,
            admin_token,
            allowed_origins: self.allowed(written.allowed_origins.as_deref(), "serve.http.allowed_origins"),
            allowed_hosts: self.allowed(written.allowed_hosts.as_deref(), "serve.http.allowed_hosts"),
        }
    }

    fn allowed(&mut self, written: Option<&[Spanned<String>]>, field: &str) -> Vec<String> {
        let written = written.unwrap_or_default();
        for text in written {
            self.check_plain(text, field);
            if text.value.trim().is_empty() {
                self.report(
                    Diagnostic::new(Code::OutOfRange, text.at, format!("an entry of `{field}` is empty"))
                        .help("write what is allowed, or remove the entry"),
                );
            }
        }
        written.iter().map(|text| text.value.clone()).collect()
    }

    /// A token says who asks, so no two may be the same, and there has to be one.
    fn own_token<'t>(&mut self, seen: &mut Vec<(&'t str, String, Span)>, written: &'t Spanned<Text>, field: &str) {
        let text = written.value.0.as_str();
        if text.trim().is_empty() {
            self.report(
                Diagnostic::new(Code::OutOfRange, written.at, format!("`{field}` is empty, and would let anyone in"))
                    .help("write `${NAME}` with the variable that holds the token"),
            );
        } else if let Some((_, other, at)) = seen.iter().find(|(known, ..)| *known == text) {
            let message = format!("`{field}` is the same token as `{other}`, and tokens tell who asks");
            self.report(
                Diagnostic::new(Code::SameToken, written.at, message)
                    .related(*at, "the same")
                    .help("give each a token of its own"),
            );
        } else {
            seen.push((text, field.to_owned(), written.at));
        }
    }

    fn token(&mut self, written: &Spanned<Text>, field: &str) -> Template {
        let template = self.template(&Spanned::new(written.value.0.clone(), written.at), field);
        let is_broken = Template::parse(&written.value.0).1.iter().any(|finding| finding.kind.is_error());
        if !is_broken && template.as_literal().is_some_and(|literal| !literal.trim().is_empty()) {
            let variable: String = field
                .rsplit('.')
                .next()
                .unwrap_or(field)
                .chars()
                .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' })
                .collect();
            self.report(
                Diagnostic::new(Code::LiteralSecret, written.at, format!("`{field}` is written into the file"))
                    .help(format!("write `${{{variable}}}` and set that variable where mcplan runs")),
            );
        }
        if template.references().any(|reference| matches!(reference, Reference::OrText(_, text) if !text.is_empty())) {
            let message = format!("the default of `{field}` is a token that is written into the file");
            self.report(Diagnostic::new(Code::LiteralSecret, written.at, message).help("leave the default out"));
        }
        template
    }

    fn check_listen(&mut self, written: &Spanned<String>, has_tokens: bool) {
        let text = &written.value;
        let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
        let Ok(address) = local.as_deref().unwrap_or(text).parse::<SocketAddr>() else {
            let message = format!("`{text}` is no address to listen on");
            self.report(
                Diagnostic::new(Code::BadListen, written.at, message)
                    .help("write an address and a port, as in `127.0.0.1:8765` or `[::1]:8765`"),
            );
            return;
        };
        if !address.ip().is_loopback() && !has_tokens {
            let message = format!("`{text}` can be reached from other machines, and no token protects it");
            self.report(
                Diagnostic::new(Code::OpenListener, written.at, message)
                    .help("set `serve.http.tokens`, or listen on 127.0.0.1"),
            );
        }
    }

    /// An agent that is named and must be declared.
    pub(super) fn known_agent(&mut self, written: &Spanned<String>, agents: &BTreeMap<String, Agent>) {
        if agents.contains_key(&written.value) || written.value == LEAD {
            return;
        }
        let names: Vec<_> = agents.keys().map(String::as_str).collect();
        let mut diagnostic =
            Diagnostic::new(Code::UnknownAgent, written.at, format!("there is no agent `{}`", written.value));
        if let Some(close) = closest(&written.value, names.iter().copied()) {
            diagnostic = diagnostic.meant(close);
        }
        self.report(
            diagnostic.help(format!("the agents are {}; others are declared under `agents:`", names.join(", "))),
        );
    }

    pub(super) fn search(config: &Config) -> Search {
        let written = config.search.clone().unwrap_or_default();
        let default = Search::default();
        Search {
            limit: written.limit.map_or(default.limit, |limit| limit as usize),
            promote_limit: written.promote_limit.map_or(default.promote_limit, |limit| limit as usize),
        }
    }
}

pub(super) fn text(written: &Spanned<Text>) -> Spanned<String> {
    Spanned::new(written.value.0.clone(), written.at)
}
