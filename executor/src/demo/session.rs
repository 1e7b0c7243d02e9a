//! One client's session: a request in, a result and notices out. No IO and no threads here.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::count::Counting;
use super::store::{Change, Store};
use super::tool::{Answer, Arguments, Run, Tool, failed};
use super::wire::RpcError;
use super::{Group, Options, dates, issues, math, notes, prompts, resources, server, text};

/// Revisions of the protocol that have `initialize`, newest first.
pub(super) const REVISIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

const INSTRUCTIONS: &str = "The issue tracker and the notes of the Harbour Bakery's web shop, with a few tools for \
                            dates, texts and numbers. Everything is in memory: changes are gone when the server stops.";

/// The state of a session.
pub(super) struct Session {
    tools: Vec<&'static Tool>,
    hidden: BTreeSet<String>,
    tools_changed: bool,
    kinds: resources::Kinds,
    store: Store,
    subscriptions: BTreeSet<String>,
    /// Whether the client wants log lines; our lines are of level info.
    logs: bool,
}

/// What a request leads to.
#[derive(Debug, PartialEq)]
pub(super) enum Outcome {
    /// The result.
    Now(Value),
    /// A call that takes its time.
    Slow(Counting),
}

/// Every tool there is, in the order of listing.
pub(super) fn all_tools() -> impl Iterator<Item = &'static Tool> {
    [issues::TOOLS, notes::TOOLS, dates::TOOLS, text::TOOLS, math::TOOLS, server::TOOLS].into_iter().flatten()
}

impl Session {
    /// # Errors
    /// When an option names a tool that isn't there.
    pub(super) fn new(options: &Options) -> Result<Self, String> {
        let has = |group: Group| options.groups.is_empty() || options.groups.contains(&group);
        let tools: Vec<_> = all_tools().filter(|tool| has(tool.group)).collect();
        if let Some(name) = options.hidden.iter().find(|name| tools.iter().all(|tool| tool.name != name.as_str())) {
            return Err(format!("there is no tool {name:?} to hide"));
        }
        Ok(Self {
            tools,
            hidden: options.hidden.iter().cloned().collect(),
            tools_changed: false,
            kinds: resources::Kinds { notes: has(Group::Notes), issues: has(Group::Issues) },
            store: Store::seeded(),
            subscriptions: BTreeSet::new(),
            logs: false,
        })
    }

    /// Answers a request.
    ///
    /// # Errors
    /// Those of the protocol; what a model can put right is a result with `isError`.
    pub(super) fn request(&mut self, method: &str, params: Map<String, Value>) -> Result<Outcome, RpcError> {
        let resources = self.kinds.notes || self.kinds.issues;
        let result = match method {
            "initialize" => self.initialize(&params)?,
            "ping" => json!({}),
            "tools/list" => one_page(&params, || json!({ "tools": self.listing() }))?,
            "tools/call" => return self.call(params),
            "logging/setLevel" => self.set_level(&params)?,
            "prompts/list" if self.kinds.issues => one_page(&params, prompts::list)?,
            "prompts/get" if self.kinds.issues => {
                let name = text_of(&params, "name")?.to_owned();
                prompts::get(&self.store, &name, arguments_of(params)?)?
            }
            "resources/list" if resources => one_page(&params, || resources::list(&self.store, self.kinds))?,
            "resources/templates/list" if resources => one_page(&params, || resources::templates(self.kinds))?,
            "resources/read" if resources => resources::read(&self.store, self.kinds, text_of(&params, "uri")?)?,
            "resources/subscribe" if resources => {
                let uri = text_of(&params, "uri")?;
                resources::read(&self.store, self.kinds, uri)?;
                self.subscriptions.insert(uri.to_owned());
                json!({})
            }
            "resources/unsubscribe" if resources => {
                self.subscriptions.remove(text_of(&params, "uri")?);
                json!({})
            }
            "completion/complete" if resources => self.complete(&params)?,
            _ => return Err(RpcError::new(-32601, format!("Method not found: {method}"))),
        };
        Ok(Outcome::Now(result))
    }

    /// What the client should be told of the last requests, in order: method and parameters.
    pub(super) fn notices(&mut self) -> Vec<(&'static str, Option<Value>)> {
        let mut notices = Vec::new();
        if std::mem::take(&mut self.tools_changed) {
            notices.push(("notifications/tools/list_changed", None));
        }
        let mut changes = std::mem::take(&mut self.store.changes);
        // A rename changes the list twice, but it is one piece of news.
        let mut listed = false;
        changes.retain(|change| *change != Change::ResourceList || !std::mem::replace(&mut listed, true));
        for change in changes {
            match change {
                Change::ResourceList => notices.push(("notifications/resources/list_changed", None)),
                Change::Resource(uri) if self.subscriptions.contains(&uri) => {
                    notices.push(("notifications/resources/updated", Some(json!({ "uri": uri }))));
                }
                Change::Log(line) if self.logs => {
                    let params = json!({ "level": "info", "logger": "bakery", "data": line });
                    notices.push(("notifications/message", Some(params)));
                }
                Change::Resource(_) | Change::Log(_) => {}
            }
        }
        notices
    }

    fn initialize(&mut self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let wanted = text_of(params, "protocolVersion")?;
        let revision = REVISIONS.into_iter().find(|known| *known == wanted).unwrap_or(REVISIONS[0]);
        let mut capabilities = json!({ "tools": { "listChanged": true }, "logging": {} });
        if self.kinds.issues {
            capabilities["prompts"] = json!({});
        }
        if self.kinds.notes || self.kinds.issues {
            capabilities["resources"] = json!({ "subscribe": true, "listChanged": true });
            capabilities["completions"] = json!({});
        }
        Ok(json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "serverInfo": {
                "name": "mcplan-demo", "title": "Harbour Bakery", "version": env!("CARGO_PKG_VERSION"),
            },
            "instructions": INSTRUCTIONS,
        }))
    }

    fn visible(&self) -> impl Iterator<Item = &'static Tool> {
        self.tools.iter().copied().filter(|tool| !self.hidden.contains(tool.name))
    }

    fn listing(&self) -> Vec<Value> {
        self.visible().map(Tool::listing).collect()
    }

    fn call(&mut self, params: Map<String, Value>) -> Result<Outcome, RpcError> {
        let name = text_of(&params, "name")?;
        let unknown = || RpcError::parameters(format!("Unknown tool: {name}"));
        let tool = self.visible().find(|tool| tool.name == name).ok_or_else(unknown)?;
        let token = params.get("_meta").and_then(|meta| meta.get("progressToken"));
        let token = token.filter(|token| token.is_string() || token.is_number()).cloned();
        let outcome = tool.check(arguments_of(params)?).and_then(|arguments| match tool.run {
            Run::Now(run) => run(&mut self.store, &arguments).map(|answer| Outcome::Now(answer.into_result())),
            Run::Counting => Counting::new(&arguments, token).map(Outcome::Slow),
            Run::Visibility => self.set_visible(&arguments).map(|answer| Outcome::Now(answer.into_result())),
        });
        Ok(outcome.unwrap_or_else(|error| Outcome::Now(failed(&error))))
    }

    fn set_visible(&mut self, arguments: &Arguments) -> Result<Answer, String> {
        let (name, visible) = (arguments.text("name")?, arguments.flag("visible"));
        let tool = self.tools.iter().find(|tool| tool.name == name);
        let tool = tool.ok_or_else(|| format!("there is no tool {name:?}"))?;
        if matches!(tool.run, Run::Visibility) {
            return Err(format!("{name} can't hide itself"));
        }
        self.tools_changed = if visible { self.hidden.remove(name) } else { self.hidden.insert(name.to_owned()) };
        Ok(Answer::text(format!("{name} is {} now.", if visible { "visible" } else { "hidden" })))
    }

    fn set_level(&mut self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let level = text_of(params, "level")?;
        let place = LEVELS.iter().position(|known| *known == level);
        let place = place.ok_or_else(|| RpcError::parameters(format!("there is no level {level:?}")))?;
        self.logs = LEVELS[place..].contains(&"info");
        Ok(json!({}))
    }

    fn complete(&self, params: &Map<String, Value>) -> Result<Value, RpcError> {
        let part = |object: &str, key: &str| {
            let text = params.get(object).and_then(|object| object.get(key)).and_then(Value::as_str);
            text.ok_or_else(|| RpcError::parameters(format!("`{object}.{key}` must be a string")))
        };
        let (name, typed) = (part("argument", "name")?, part("argument", "value")?);
        let all = match part("ref", "type")? {
            "ref/prompt" if self.kinds.issues => prompts::suggestions(&self.store, part("ref", "name")?, name)?,
            "ref/resource" => resources::suggestions(&self.store, self.kinds, part("ref", "uri")?, name)?,
            other => return Err(RpcError::parameters(format!("nothing can be completed for {other:?}"))),
        };
        let mut values: Vec<_> = all.into_iter().filter(|value| value.starts_with(typed)).collect();
        let total = values.len();
        // The protocol's own bound.
        values.truncate(100);
        Ok(json!({ "completion": { "hasMore": total > values.len(), "total": total, "values": values } }))
    }
}

/// All lists fit on one page, so there is no cursor that could be right.
fn one_page(params: &Map<String, Value>, list: impl FnOnce() -> Value) -> Result<Value, RpcError> {
    match params.get("cursor") {
        None => Ok(list()),
        Some(cursor) => Err(RpcError::parameters(format!("there is no page {cursor}"))),
    }
}

fn text_of<'a>(params: &'a Map<String, Value>, key: &str) -> Result<&'a str, RpcError> {
    let text = params.get(key).and_then(Value::as_str);
    text.ok_or_else(|| RpcError::parameters(format!("`{key}` must be a string")))
}

fn arguments_of(mut params: Map<String, Value>) -> Result<Map<String, Value>, RpcError> {
    match params.remove("arguments") {
        None => Ok(Map::new()),
        Some(Value::Object(arguments)) => Ok(arguments),
        Some(_) => Err(RpcError::parameters("`arguments` must be an object")),
    }
}
