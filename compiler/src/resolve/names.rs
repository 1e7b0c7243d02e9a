//! Names of servers: checked, unique, also after the characters that tools can't hold are replaced.

use std::collections::BTreeMap;

use crate::code::Code;
use crate::config::{Mcp, ServerEntry};
use crate::diagnostic::{Diagnostic, shown};
use crate::name::{NameError, ServerName};
use crate::plan::{Naming, Origin, Server, sanitize};
use crate::secret::value_looks_secret;
use crate::source::{Span, Spanned};

use super::Resolver;
use super::derive::derive;

/// What a name is written for; one set of rules holds for all.
#[derive(Clone, Copy)]
pub(super) enum Named {
    /// An entry's own name.
    Server,
    /// What a builtin is called here.
    Builtin,
    /// A plugin's.
    Plugin,
}

/// The names that are taken, and where.
#[derive(Clone, Default)]
pub(super) struct Names {
    taken: BTreeMap<ServerName, (Span, Origin)>,
    exposed: BTreeMap<String, Spanned<ServerName>>,
}

impl Names {
    pub(super) fn place(&self, name: &ServerName) -> Option<Span> {
        self.taken.get(name).map(|(at, _)| *at)
    }

    /// Where a server of that name is written out, not taken from the catalogue.
    pub(super) fn declared(&self, name: &ServerName) -> Option<Span> {
        self.taken.get(name).filter(|(_, origin)| *origin != Origin::Builtin).map(|(at, _)| *at)
    }
}

impl Resolver<'_> {
    /// The entry's own name, if it has one that is valid.
    pub(super) fn written_name(&mut self, entry: &Spanned<ServerEntry>) -> Option<Spanned<ServerName>> {
        self.check_name(entry.value.name.as_ref()?, Named::Server)
    }

    pub(super) fn check_name(&mut self, written: &Spanned<String>, named: Named) -> Option<Spanned<ServerName>> {
        match ServerName::new(&*written.value) {
            Ok(name) if sanitize(name.as_str()).contains("__") => {
                let message = format!("`{name}` becomes `{}` in exposed names", sanitize(name.as_str()));
                self.report(
                    Diagnostic::new(Code::BadServerName, written.at, message)
                        .help("`__` separates server and tool there; leave out the `.` beside the `_`"),
                );
                None
            }
            Ok(name) => Some(Spanned::new(name, written.at)),
            Err(error) => {
                let mut diagnostic = Diagnostic::new(Code::BadServerName, written.at, error.to_string());
                if let NameError::Empty = error {
                    diagnostic = diagnostic.help(match named {
                        Named::Server => "give it a name, or leave `name` out to have one derived",
                        Named::Builtin => "give it a name, or leave `as` out for the builtin's own",
                        Named::Plugin => "give the plugin a name; the rules are those of a server's",
                    });
                } else if written.value.contains("${") {
                    diagnostic =
                        diagnostic.help("write the name out: variables are only filled in where it is launched");
                } else if value_looks_secret(&written.value) {
                    diagnostic = diagnostic.help("a name is no place for a secret");
                } else {
                    let nearest = ServerName::nearest(&written.value);
                    diagnostic = diagnostic.help(match nearest {
                        Some(nearest) => format!("for instance `{nearest}`"),
                        None => "for instance `github`".to_owned(),
                    });
                }
                self.report(diagnostic);
                None
            }
        }
    }

    /// Takes a name; a second taker is an error that shows both places.
    pub(super) fn claim(&mut self, names: &mut Names, name: &Spanned<ServerName>, naming: &Naming, origin: Origin) {
        if let Some(first) = names.place(&name.value) {
            self.report(
                Diagnostic::new(Code::DuplicateServer, name.at, format!("two servers are called `{}`", name.value))
                    .label("again here")
                    .related(first, "first here")
                    .help(match origin {
                        Origin::Config => "rename one of them",
                        Origin::Fragment => {
                            "no fragment wins over another; rename one of them, or write it out in the main file"
                        }
                        Origin::Plugin => "have the plugins print different names",
                        Origin::Builtin => "remove one of them, or give it another name with `as`",
                    }),
            );
            return;
        }
        names.taken.insert(name.value.clone(), (name.at, origin));
        if !naming.separates_servers() {
            return;
        }
        let exposed = sanitize(name.value.as_str());
        if let Some(other) = names.exposed.get(&exposed) {
            let message = format!("`{}` and `{}` both become `{exposed}` in exposed names", other.value, name.value);
            self.report(
                Diagnostic::new(Code::ServerNamesCollide, name.at, message)
                    .related(other.at, "the other one")
                    .help("characters other than letters, digits, `_` and `-` become `_` there; rename one of them"),
            );
        } else {
            names.exposed.insert(exposed, name.clone());
        }
    }

    /// Servers whose tools get a suffix because the naming pattern doesn't tell where the server's name ends.
    pub(super) fn check_boundaries(&mut self, mcp: &Mcp, naming: &Naming, servers: &[Server]) {
        let Some(written) = &mcp.naming else { return };
        let shared = servers.iter().filter(|server| naming.shares_names(&server.name));
        let shared: Vec<_> = shared.map(|server| format!("`{}`", server.name)).collect();
        if shared.is_empty() {
            return;
        }
        let message = format!(
            "by `{}` tools of another server could be called like those of {}, which therefore end in a hash",
            shown(&written.value),
            shared.join(", ")
        );
        self.report(
            Diagnostic::new(Code::AmbiguousNaming, written.at, message)
                .help("separate server and tool by `__`, which is in no server's name, as in `{server}__{tool}`"),
        );
    }

    /// A name for an entry that has none: from its package, its program or its host.
    pub(super) fn derived_name(
        &mut self,
        entry: &Spanned<ServerEntry>,
        names: &mut Names,
        naming: &Naming,
    ) -> Option<Spanned<ServerName>> {
        let name = derive(&entry.value);
        // A name may be among what was refused, and where nothing is launched, that is what has to be said.
        let launched = entry.value.command.is_some() || entry.value.url.is_some();
        if !launched || self.is_troubled(entry.at) {
            return name.map(|name| Spanned::new(name, entry.at));
        }
        let Some(name) = name else {
            self.report(
                Diagnostic::new(Code::MissingKey, entry.at, "this server has no `name`, and none can be derived")
                    .help("add `name: …`"),
            );
            return None;
        };
        if let Some(other) = names.place(&name) {
            self.report(
                Diagnostic::new(
                    Code::DuplicateServer,
                    entry.at,
                    format!("this server has no `name`, and the derived one, `{name}`, is taken"),
                )
                .related(other, "taken here")
                .help("add `name: …`"),
            );
            return None;
        }
        self.report(
            Diagnostic::new(Code::MissingName, entry.at, format!("this server has no `name`; it is called `{name}`"))
                .help(format!("add `name: {name}`, so that it keeps it when its launch changes")),
        );
        let name = Spanned::new(name, entry.at);
        self.claim(names, &name, naming, Origin::Config);
        Some(name)
    }
}
