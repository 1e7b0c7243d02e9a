//! `plugins:` → which programs add servers, and what these servers are.

use std::collections::BTreeSet;

use crate::code::Code;
use crate::config::{self, Config, Mcp};
use crate::diagnostic::{Diagnostic, Severity};
use crate::lint;
use crate::plan::{Naming, Origin, Plugin, Server};

use super::names::{Named, Names};
use super::serve::text;
use super::{Inputs, PluginOutput, Resolver, value};

impl Resolver<'_> {
    pub(super) fn plugins(&mut self, config: &Config) -> Vec<Plugin> {
        let mut seen = BTreeSet::new();
        let mut plugins = Vec::new();
        for written in config.plugins.iter().flatten() {
            let plugin = &written.value;
            let name = &plugin.name;
            let Some(valid) = self.check_name(name, Named::Plugin) else { continue };
            if !seen.insert(name.value.clone()) {
                self.report(
                    Diagnostic::new(Code::DuplicatePlugin, name.at, format!("two plugins are called `{}`", name.value))
                        .help("rename one of them"),
                );
                continue;
            }
            if let Some(program) = plugin.command.value.first().filter(|program| program.value.0.trim().is_empty()) {
                self.report(
                    Diagnostic::new(
                        Code::BadCommand,
                        program.at,
                        format!("the plugin `{}` starts nothing", name.value),
                    )
                    .help("write the program first, then its arguments, as in `[./plugins/mine, --flag]`"),
                );
            }
            let command = plugin.command.value.iter().enumerate();
            let command = command
                .map(|(index, word)| self.template(&text(word), &format!("plugins.{}.command[{index}]", name.value)))
                .collect();
            let env = plugin.env.iter().flatten();
            let env = env
                .map(|(key, value)| {
                    (
                        self.variable_name(key),
                        self.template(&text(value), &format!("plugins.{}.env.{}", name.value, key.value)),
                    )
                })
                .collect();
            self.diagnostics.extend(lint::plugin(plugin));
            let output = self.plugin_output(&name.value);
            plugins.push(Plugin { name: valid.value, command, env, activate: plugin.activate.unwrap_or(true), output });
        }
        plugins
    }

    /// Last, and over everything: a plugin's entries replace same-named ones, and run although `mcp.enabled` is false.
    /// What is wrong in them costs the servers of that plugin and nothing else.
    pub(super) fn plugin_servers(
        &mut self,
        inputs: &Inputs,
        mcp: &Mcp,
        names: &mut Names,
        naming: &Naming,
        servers: &mut Vec<Server>,
    ) {
        for plugin in inputs.main.plugins.iter().flatten() {
            let plugin = &plugin.value;
            let Some(output) = inputs.plugins.get(&plugin.name.value) else { continue };
            let found = self.diagnostics.len();
            let before = (names.clone(), servers.clone(), self.places.clone(), self.unresolved_names.clone());
            self.servers_of_plugin(plugin, output, mcp, names, naming, servers);
            if self.diagnostics[found..].iter().any(Diagnostic::is_error) {
                (*names, *servers, self.places, self.unresolved_names) = before;
                let found = self.diagnostics.split_off(found);
                self.plugins_failed.extend(unusable_output(plugin, found));
                self.unusable_plugins.insert(plugin.name.value.clone());
                // The names that it would have brought may be named elsewhere.
                self.open_world = true;
            }
        }
    }

    fn servers_of_plugin(
        &mut self,
        plugin: &config::Plugin,
        output: &PluginOutput,
        mcp: &Mcp,
        names: &mut Names,
        naming: &Naming,
        servers: &mut Vec<Server>,
    ) {
        for entry in &output.servers {
            let Some(name) = self.written_name(entry) else {
                if entry.value.name.is_none() {
                    self.report(
                        Diagnostic::new(Code::MissingKey, entry.at, "a plugin's server needs a `name`")
                            .help(format!("have the plugin `{}` print one", plugin.name.value)),
                    );
                }
                // What else is wrong in it is told in this run too.
                self.server(entry, None, mcp, Origin::Plugin);
                continue;
            };
            let printed = |server: &Server| server.name == name.value && server.origin == Origin::Plugin;
            if servers.iter().any(printed) {
                let message = format!("plugins print `{}` twice; this one counts", name.value);
                let mut twice = Diagnostic::new(Code::PluginServerTwice, name.at, message)
                    .help(format!("have the plugin `{}` print another name, or print it once", plugin.name.value));
                if let Some(other) = self.places.servers.get(name.value.as_str()) {
                    twice = twice.related(other.at, "dropped");
                }
                self.report(twice);
                servers.retain(|server| server.name != name.value);
            } else if let Some(other) = names.place(&name.value) {
                self.report(
                    Diagnostic::new(
                        Code::Overridden,
                        name.at,
                        format!("`{}` of the plugin replaces the one written out", name.value),
                    )
                    .related(other, "replaced"),
                );
                servers.retain(|server| server.name != name.value);
            } else {
                self.claim(names, &name, naming, Origin::Plugin);
            }
            if let Some(mut server) = self.server(entry, Some(name), mcp, Origin::Plugin) {
                server.enabled &= value(&mcp.enabled) != Some(false) || plugin.activate.unwrap_or(true);
                servers.push(server);
            }
        }
    }
}

/// What is said of a plugin when there are errors in what it printed: these, as warnings, and one at its entry.
pub(crate) fn unusable_output(plugin: &config::Plugin, mut found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    // That an entry replaces another one doesn't hold any more.
    found.retain(|found| found.severity != Severity::Note);
    found.iter_mut().for_each(|found| found.severity = Severity::Warning);
    let message = format!("what the plugin `{}` printed can't be used; its servers are left out", plugin.name.value);
    found.push(
        Diagnostic::new(Code::BadPluginOutput, plugin.name.at, message)
            .help("it must print `{\"servers\": [...]}`, with entries as under `mcp_servers`"),
    );
    found
}
