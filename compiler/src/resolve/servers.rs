//! Every declared server, in config order: `mcp_servers`, `mcp.servers`, builtins.

use crate::builtins::{Builtin, catalogue};
use crate::code::Code;
use crate::config::builtin::Overrides;
use crate::config::{Mcp, ServerEntry, Text, Tools};
use crate::diagnostic::{Diagnostic, closest, shown};
use crate::lint;
use crate::name::ServerName;
use crate::places::ServerPlaces;
use crate::plan::{Connect, Naming, Origin, Server, ToolFilter};
use crate::source::{Span, Spanned};

use super::names::{Named, Names};
use super::{Inputs, Resolver, value};

impl Resolver<'_> {
    /// Who wins, lowest first: builtin < fragment < main file (and profile) < plugin.
    pub(super) fn servers(&mut self, inputs: &Inputs, mcp: &Mcp, naming: &Naming) -> Vec<Server> {
        self.check_seconds("mcp.timeout_seconds", mcp.timeout_seconds.as_ref());
        self.check_seconds("mcp.request_timeout_seconds", mcp.request_timeout_seconds.as_ref());
        if let Some(reconnect) = &mcp.reconnect {
            self.check_waits(reconnect, None);
        }
        let main = &inputs.main;
        let entries: Vec<_> = main.mcp_servers.iter().flatten().chain(mcp.servers.iter().flatten()).collect();
        let mut names = Names::default();
        // Written names first, so that a derived one gives way wherever it stands.
        let named: Vec<_> = entries.into_iter().map(|entry| (entry, self.written_name(entry))).collect();
        for name in named.iter().filter_map(|(_, name)| name.as_ref()) {
            self.claim(&mut names, name, naming, Origin::Config);
        }
        let mut servers = Vec::new();
        for (entry, name) in named {
            let name = match name {
                Some(name) => Some(name),
                None if entry.value.name.is_some() => None,
                None => self.derived_name(entry, &mut names, naming),
            };
            // Resolved without a name too, so that every mistake of the entry is reported in one run.
            servers.extend(self.server(entry, name, mcp, Origin::Config));
        }
        let from_fragments = self.fragment_servers(inputs, mcp, &mut names, naming);
        let builtins = main.mcp_builtins.iter().flatten().map(|builtin| ("", builtin));
        let more = inputs.fragments.iter().flat_map(|fragment| {
            fragment.config.mcp_builtins.iter().flatten().map(|builtin| (&*fragment.directory, builtin))
        });
        for (directory, builtin) in builtins.chain(more) {
            directory.clone_into(&mut self.directory);
            servers.extend(self.builtin(builtin.at, &builtin.value.0, mcp, &mut names, naming));
        }
        self.directory.clear();
        servers.extend(from_fragments);
        if value(&mcp.enabled) == Some(false) {
            servers.iter_mut().for_each(|server| server.enabled = false);
        }
        self.plugin_servers(inputs, mcp, &mut names, naming, &mut servers);
        if let Some(written) = mcp.idle_stop_seconds.as_ref().filter(|seconds| seconds.value.0 > 0.0)
            && !servers.is_empty()
            && servers.iter().all(|server| server.connect != Connect::Lazy)
            && !self.open_world
        {
            self.idle_without_effect(written.at, "no server is connected lazily");
        }
        servers
    }

    fn fragment_servers(&mut self, inputs: &Inputs, mcp: &Mcp, names: &mut Names, naming: &Naming) -> Vec<Server> {
        let main = names.clone();
        let mut servers = Vec::new();
        for fragment in &inputs.fragments {
            self.directory.clone_from(&fragment.directory);
            for entry in fragment.config.mcp_servers.iter().flatten() {
                let mut name = match self.written_name(entry) {
                    Some(name) => Some(name),
                    None if entry.value.name.is_some() => None,
                    None => self.derived_name(entry, names, naming),
                };
                let winner = name.as_ref().and_then(|name| main.place(&name.value));
                if let Some(written) = &name {
                    if let Some(winner) = winner {
                        self.report(
                            Diagnostic::new(
                                Code::Overridden,
                                winner,
                                format!("`{}` here replaces the fragment's", written.value),
                            )
                            .related(written.at, "the fragment's"),
                        );
                    } else if entry.value.name.is_some() {
                        self.claim(names, written, naming, Origin::Fragment);
                    }
                }
                // What is replaced gives no server, but it is a mistake all the same where it is one.
                name = name.filter(|_| winner.is_none());
                servers.extend(self.server(entry, name, mcp, Origin::Fragment));
            }
        }
        self.directory.clear();
        servers
    }

    /// One entry as a server, if it has a name and can be launched.
    pub(super) fn server(
        &mut self,
        entry: &Spanned<ServerEntry>,
        name: Option<Spanned<ServerName>>,
        mcp: &Mcp,
        origin: Origin,
    ) -> Option<Server> {
        let launch = self.launch(entry, mcp);
        let limits = self.limits(&entry.value, mcp);
        let reconnect = self.reconnect(&entry.value, mcp);
        let tools = self.filter(entry.value.tools.as_ref());
        if origin != Origin::Builtin {
            self.diagnostics.extend(lint::entry(entry));
        }
        if let Some(name) = &name {
            self.places.servers.insert(name.value.to_string(), ServerPlaces::of(name.at, &entry.value, mcp));
        }
        if let Some(name) = name.as_ref().filter(|_| launch.is_none()) {
            self.unresolved_names.insert(name.value.to_string());
        }
        let entry = &entry.value;
        let when_env = entry.when.iter().flat_map(|when| when.env.iter().flatten());
        let when_env: Vec<String> = when_env.map(|variable| self.variable_name(variable)).collect();
        let globs = entry.workspaces.iter().flat_map(|globs| &globs.value);
        let workspaces = globs.map(|glob| self.path(glob, "workspaces")).collect();
        let connect = entry.connect.or(mcp.connect).unwrap_or_default();
        self.check_settings(entry, connect);
        Some(Server {
            name: name?.value,
            description: entry.description.as_ref().map(|text| text.value.clone()),
            origin,
            launch: launch?,
            tools,
            defer: value(&entry.defer).or(value(&mcp.defer)).unwrap_or(true),
            enabled: value(&entry.enabled).unwrap_or(true),
            required: entry.required.unwrap_or(false),
            when_env,
            workspaces,
            sampling: entry.sampling.unwrap_or(false),
            persistent_sessions: entry.persistent_sessions.or(mcp.persistent_sessions).unwrap_or(true),
            connect,
            idle_stop_seconds: entry
                .idle_stop_seconds
                .as_ref()
                .or(mcp.idle_stop_seconds.as_ref())
                .map_or(0.0, |seconds| seconds.value.0),
            replace: entry.replace.unwrap_or_default(),
            limits,
            reconnect,
        })
    }

    fn filter(&mut self, tools: Option<&Tools>) -> ToolFilter {
        let Some(tools) = tools else { return ToolFilter::default() };
        if let Some(include) = &tools.include
            && include.value.is_empty()
        {
            self.report(
                Diagnostic::new(Code::EmptyInclude, include.at, "an empty list of tools to keep leaves none")
                    .help("name the tools to keep, or remove the list to keep all"),
            );
        }
        let included = tools.include.iter().flat_map(|include| &include.value);
        for both in included.clone().filter(|name| !name.value.contains(['*', '?', '['])) {
            if let Some(excluded) = tools.exclude.iter().flatten().find(|excluded| excluded.value == both.value) {
                let message = format!("`{}` stands in `include` and in `exclude`; `include` wins", shown(&both.value));
                self.report(
                    Diagnostic::new(Code::IncludedAndExcluded, excluded.at, message)
                        .related(both.at, "included here")
                        .help("remove one of the two"),
                );
            }
        }
        ToolFilter {
            include: tools.include.as_ref().map(|include| self.patterns(Some(&include.value))),
            exclude: self.patterns(tools.exclude.as_deref()),
            always: self.patterns(tools.always.as_deref()),
        }
    }

    fn builtin(
        &mut self,
        at: Span,
        overrides: &Overrides,
        mcp: &Mcp,
        names: &mut Names,
        naming: &Naming,
    ) -> Option<Server> {
        let written = &overrides.name.value;
        let builtin = catalogue().get(written);
        if builtin.is_none() {
            self.unknown_builtin(&overrides.name);
            // Rules that name it are no second mistake.
            self.unresolved_names.insert(overrides.r#as.as_ref().unwrap_or(&overrides.name).value.clone());
        }
        let name = match &overrides.r#as {
            Some(other) => self.check_name(other, Named::Builtin),
            // Those of the catalogue can all be names.
            None => builtin
                .and_then(|_| ServerName::new(written.as_str()).ok())
                .map(|name| Spanned::new(name, overrides.name.at)),
        };
        let replaced = name.as_ref().and_then(|name| names.declared(&name.value));
        if let Some(name) = &name {
            if let Some(other) = replaced {
                self.report(
                    Diagnostic::new(
                        Code::BuiltinReplaced,
                        other,
                        format!("`{}` here replaces the builtin", name.value),
                    )
                    .related(name.at, "the builtin"),
                );
            } else {
                self.claim(names, name, naming, Origin::Builtin);
            }
        }
        if let Some((builtin, instead)) = builtin.and_then(|builtin| Some((builtin, builtin.archived.as_ref()?)))
            && replaced.is_none()
        {
            let message = format!("the builtin `{written}` ({}) is archived upstream", builtin.package);
            self.report(Diagnostic::new(Code::ArchivedBuiltin, overrides.name.at, message).help(instead.clone()));
        }
        let entry = Spanned::new(builtin_entry(builtin, overrides, at), at);
        self.check_version(overrides, &entry);
        self.diagnostics.extend(lint::variables(overrides.env.iter().flatten()));
        // The overrides of one that is unknown or replaced are looked at too; it gives no server.
        let server = self.server(&entry, name.filter(|_| replaced.is_none()), mcp, Origin::Builtin);
        server.filter(|_| builtin.is_some())
    }

    /// Another version than the catalogue's is held to what is asked of an entry that is written out.
    fn check_version(&mut self, overrides: &Overrides, entry: &Spanned<ServerEntry>) {
        let Some(version) = &overrides.version else { return };
        let text = &version.value.0;
        if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c == '@') {
            let message = match text.trim() {
                "" => "the version is empty".to_owned(),
                text => format!("`{}` is no version", shown(text)),
            };
            self.report(
                Diagnostic::new(Code::BadVersion, version.at, message)
                    .help("write one version, such as `1.2.3`, or remove the key for the catalogue's"),
            );
        } else if let Some(mut unpinned) = lint::unpinned(&entry.value) {
            unpinned.primary.at = version.at;
            self.report(unpinned);
        }
    }

    fn unknown_builtin(&mut self, written: &Spanned<String>) {
        let known: Vec<_> = catalogue().keys().map(String::as_str).collect();
        let message = match written.value.as_str() {
            "" => "a builtin has to have a name".to_owned(),
            name => format!("there is no builtin `{}`", shown(name)),
        };
        let mut diagnostic = Diagnostic::new(Code::UnknownBuiltin, written.at, message);
        if let Some(close) = closest(&written.value, known.iter().copied()) {
            diagnostic = diagnostic.meant(close);
        }
        self.report(diagnostic.help(format!("the builtins are {}", known.join(", "))));
    }
}

/// The catalogue's entry with the overrides in it, in the shape of a written one. One that the catalogue doesn't hold
/// has a program all the same, so that there is no more to say of it than that.
fn builtin_entry(builtin: Option<&Builtin>, overrides: &Overrides, at: Span) -> ServerEntry {
    let text = |text: &str| Spanned::new(Text(text.to_owned()), at);
    let (mut env, mut args) = (std::collections::BTreeMap::new(), Vec::new());
    if let Some(builtin) = builtin {
        let version = overrides.version.as_ref().map_or(&builtin.version, |version| &version.value.0);
        env.extend(builtin.env.iter().map(|(key, value)| (Spanned::new(key.clone(), at), text(value))));
        args = builtin.launch_args(version).iter().map(|arg| text(arg)).collect();
    }
    env.extend(overrides.env.clone().unwrap_or_default());
    ServerEntry {
        name: Some(overrides.name.clone()),
        description: builtin.map(|builtin| Spanned::new(builtin.description.clone(), at)),
        command: Some(Spanned::new(builtin.map_or("unknown", |builtin| builtin.runner.command()).to_owned(), at)),
        args: Some(Spanned::new(args, at)),
        env: Some(Spanned::new(env, at)),
        tools: overrides.tools.clone(),
        // Deferred unless the map says otherwise, whatever `mcp.defer` is.
        defer: Some(overrides.defer.clone().unwrap_or(Spanned::new(true, at))),
        enabled: overrides.enabled.clone(),
        timeout_seconds: overrides.timeout_seconds.clone(),
        ..ServerEntry::default()
    }
}
