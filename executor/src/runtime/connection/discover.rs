//! All pages of all lists of a server, into plain data; bounded against servers that never stop.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use mcplan_compiler::json;
use mcplan_compiler::observed::{Entry, Introduction, Observed, Prompt, Quarantined, Resource, ResourceTemplate};
use rmcp::model::ServerCapabilities;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, json};
use tokio::time::Instant;

use super::Inner;
use super::call::{self, Client, Request};
use super::call_error::{CallError, Limit};
use super::error::Step;
use crate::core::results::Text;

/// Most pages of one list.
pub const PAGES_MAX: usize = 1_000;
/// Most items of one list.
pub const ITEMS_MAX: usize = 10_000;

/// A list that a server may have.
struct List {
    method: &'static str,
    key: &'static str,
    /// For people.
    words: &'static str,
    step: Step,
    /// Whether it may be as long as the server's data is, and a part of it is worth more than none.
    is_data: bool,
}

const TOOLS: List = List { method: "tools/list", key: "tools", words: "tools", step: Step::Tools, is_data: false };
const PROMPTS: List =
    List { method: "prompts/list", key: "prompts", words: "prompts", step: Step::Prompts, is_data: false };
const TEMPLATES: List = List {
    method: "resources/templates/list",
    key: "resourceTemplates",
    words: "resource templates",
    step: Step::ResourceTemplates,
    is_data: false,
};
const RESOURCES: List =
    List { method: "resources/list", key: "resources", words: "resources", step: Step::Resources, is_data: true };

impl Inner {
    /// Asks for everything that the server says it has. `step` is told where we are.
    ///
    /// # Errors
    /// Only when the connection ends; a list that fails is unknown, with a warning.
    pub(super) async fn discover(&self, step: &(dyn Fn(Step) + Sync)) -> Result<Observed, CallError> {
        let (introduction, capabilities) = self.introduction();
        let mut observed = Observed { introduction, ..Observed::default() };
        let warnings = &mut Vec::new();
        if capabilities.tools.is_some() {
            match self.list(&TOOLS, step, warnings).await? {
                Ok(items) => {
                    observed.add_tools(items.iter().map(|item| &**item));
                    self.mirror(&mut observed);
                }
                Err(cause) => observed.tools_unknown = Some(cause),
            }
        }
        if capabilities.prompts.is_some() {
            match self.list(&PROMPTS, step, warnings).await? {
                Ok(items) => observed.prompts = entries::<Prompt>(&items, &mut observed.quarantined),
                Err(cause) => observed.prompts_unknown = Some(cause),
            }
        }
        if capabilities.resources.is_some() {
            match self.list(&TEMPLATES, step, warnings).await? {
                Ok(items) => {
                    observed.resource_templates = entries::<ResourceTemplate>(&items, &mut observed.quarantined);
                }
                Err(cause) => observed.resource_templates_unknown = Some(cause),
            }
            match self.list(&RESOURCES, step, warnings).await? {
                Ok(items) => {
                    // One warning for all of them: they are data, and may be many.
                    let mut bad = Vec::new();
                    observed.resources = entries::<Resource>(&items, &mut bad).into_iter().map(Arc::new).collect();
                    if let [first, ..] = &bad[..] {
                        let (count, reason) = (bad.len(), &first.reason);
                        warnings.push(format!("{count} of its resources can't be used and are left out: {reason}"));
                    }
                }
                Err(cause) => observed.resources_unknown = Some(cause),
            }
        }
        observed.warnings.append(warnings);
        if observed.tools_unknown.is_none() {
            self.learn(&observed);
        }
        Ok(observed)
    }

    fn introduction(&self) -> (Introduction, ServerCapabilities) {
        let Some(info) = self.peer.peer_info() else { return Default::default() };
        let introduction = Introduction {
            protocol_version: info.protocol_version.as_str().to_owned(),
            name: info.server_info.as_ref().map(|info| info.name.clone()).unwrap_or_default(),
            version: info.server_info.as_ref().map(|info| info.version.clone()).unwrap_or_default(),
            instructions: info.instructions.clone(),
        };
        (introduction, info.capabilities.clone())
    }

    /// All of a list, or why it isn't known.
    async fn list(
        &self,
        list: &List,
        step: &(dyn Fn(Step) + Sync),
        warnings: &mut Vec<String>,
    ) -> Result<Result<Vec<Box<RawValue>>, String>, CallError> {
        step(list.step);
        match self.pages(list, warnings).await {
            Ok(items) => Ok(Ok(items)),
            Err(error @ (CallError::Lost { .. } | CallError::Cancelled { .. })) => Err(error),
            Err(error) => {
                let cause = format!("{} failed, so its {} are unknown: {error}", list.method, list.words);
                warnings.push(cause.clone());
                Ok(Err(cause))
            }
        }
    }

    async fn pages(&self, list: &List, warnings: &mut Vec<String>) -> Result<Vec<Box<RawValue>>, CallError> {
        let mut pages = Pages::default();
        let mut cursor: Option<String> = None;
        // What isn't about tools must not cost the server its time to connect.
        let share = if list.step == Step::Tools { 0.0 } else { self.limits.timeout_seconds / 4.0 };
        let until = call::after(Instant::now(), share);
        for _ in 0..PAGES_MAX {
            let page = self.page(list, cursor.as_deref());
            let page = match until {
                None => page.await?,
                Some(until) => match tokio::time::timeout_at(until, page).await {
                    Ok(page) => page?,
                    Err(_) if list.is_data && cursor.is_some() => {
                        let why = "its pages take more than a quarter of `timeout_seconds`";
                        warnings.push(self.stopped(list, why, pages.items.len()));
                        return Ok(pages.items);
                    }
                    Err(_) => {
                        let cause = format!("no answer in {share} s, a quarter of `timeout_seconds`");
                        return Err(CallError::Protocol { server: self.server.clone(), cause });
                    }
                },
            };
            match pages.add(page) {
                Next::Page(next) => cursor = Some(next),
                Next::End => return Ok(pages.items),
                Next::Stop(why) => {
                    warnings.push(self.stopped(list, &why, pages.items.len()));
                    return Ok(pages.items);
                }
            }
        }
        warnings.push(self.stopped(list, &format!("it has more than {PAGES_MAX} pages"), pages.items.len()));
        Ok(pages.items)
    }

    fn stopped(&self, list: &List, why: &str, kept: usize) -> String {
        format!("{} of server `{}` was stopped: {why}; {kept} items are kept", list.method, self.server)
    }

    async fn page(&self, list: &List, cursor: Option<&str>) -> Result<Page, CallError> {
        let mut params = Map::new();
        if let Some(cursor) = cursor {
            params.insert("cursor".to_owned(), json!(cursor));
        }
        let request = Request {
            method: list.method,
            params,
            meta: Map::new(),
            limits: vec![(Limit::Request, self.limits.request_timeout_seconds)],
            repeatable: true,
        };
        let result = self.request(request, Client::default()).await?;
        Page::read(&result, list.key).map_err(|cause| CallError::Protocol { server: self.server.clone(), cause })
    }
}

fn entries<T: DeserializeOwned>(items: &[Box<RawValue>], quarantined: &mut Vec<Quarantined>) -> Vec<Entry<T>> {
    let mut entries = Vec::new();
    for item in items {
        match Entry::parse(item.get()) {
            Ok(entry) => entries.push(entry),
            Err(error) => {
                let name = serde_json::from_str::<serde_json::Value>(item.get())
                    .ok()
                    .and_then(|value| Some(value.get("name")?.as_str()?.to_owned()));
                quarantined
                    .push(Quarantined { name: name.unwrap_or("(no name)".to_owned()), reason: error.to_string() });
            }
        }
    }
    entries
}

/// One page of a list.
#[derive(Debug, Default)]
struct Page {
    items: Vec<Box<RawValue>>,
    next: Option<String>,
}

impl Page {
    fn read(result: &Text, key: &str) -> Result<Self, String> {
        let fields: BTreeMap<String, Box<RawValue>> =
            serde_json::from_str(result.get()).map_err(|_| "an object was expected".to_owned())?;
        let items = fields.get(key).ok_or_else(|| format!("`{key}` is missing"))?;
        let items = serde_json::from_str(items.get()).map_err(|_| format!("`{key}` is not a list"))?;
        // An empty text is a cursor like any other; what is no text at all ends the list.
        let next = fields.get("nextCursor").and_then(|next| serde_json::from_str(next.get()).ok().flatten());
        Ok(Self { items, next })
    }
}

/// What to do after a page.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Page(String),
    End,
    Stop(String),
}

/// Pages so far, with what is needed to see that a server runs in circles.
#[derive(Debug, Default)]
struct Pages {
    items: Vec<Box<RawValue>>,
    seen: HashSet<String>,
    cursors: HashSet<String>,
}

impl Pages {
    fn add(&mut self, page: Page) -> Next {
        let (before, is_first) = (self.items.len(), self.cursors.is_empty());
        // Two equal items on one page are the server's mistake, to be told; from two pages they are a circle.
        let mut new: Vec<_> = page
            .items
            .into_iter()
            .map(|item| (json::digest(json::compact(item.get()).as_bytes()), item))
            .filter(|(digest, _)| !self.seen.contains(digest))
            .collect();
        let is_full = before + new.len() > ITEMS_MAX;
        new.truncate(ITEMS_MAX - before);
        for (digest, item) in new {
            self.seen.insert(digest);
            self.items.push(item);
        }
        if is_full {
            return Next::Stop(format!("it has more than {ITEMS_MAX} items"));
        }
        match page.next {
            None => Next::End,
            Some(next) if !self.cursors.insert(next.clone()) => {
                Next::Stop(format!("the cursor {} came twice", json::string(&next)))
            }
            Some(_) if self.items.len() == before && !is_first => Next::Stop("a page brought nothing new".to_owned()),
            Some(next) => Next::Page(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(names: std::ops::Range<usize>, next: Option<&str>) -> Page {
        let items = names.map(|index| RawValue::from_string(format!("{{\"name\":\"t{index}\"}}")).unwrap()).collect();
        Page { items, next: next.map(str::to_owned) }
    }

    #[test]
    fn three_pages_are_one_list() {
        let mut pages = Pages::default();
        assert_eq!(pages.add(page(0..20, Some("a"))), Next::Page("a".to_owned()));
        assert_eq!(pages.add(page(20..40, Some("b"))), Next::Page("b".to_owned()));
        assert_eq!(pages.add(page(40..44, None)), Next::End);
        assert_eq!(pages.items.len(), 44);
    }

    #[test]
    fn a_constant_cursor_ends_and_nothing_is_doubled() {
        for cursor in ["same", ""] {
            let mut pages = Pages::default();
            assert_eq!(pages.add(page(0..8, Some(cursor))), Next::Page(cursor.to_owned()));
            assert!(matches!(pages.add(page(0..8, Some(cursor))), Next::Stop(why) if why.contains("twice")));
            assert_eq!(pages.items.len(), 8);
        }
    }

    #[test]
    fn changing_cursors_without_news_end() {
        let mut pages = Pages::default();
        pages.add(page(0..8, Some("1")));
        assert!(matches!(pages.add(page(0..8, Some("2"))), Next::Stop(why) if why.contains("nothing new")));
        let mut empty_first = Pages::default();
        assert_eq!(empty_first.add(page(0..0, Some("1"))), Next::Page("1".to_owned()), "an odd but honest start");
    }

    #[test]
    fn no_list_is_longer_than_the_limit() {
        let mut pages = Pages::default();
        assert!(matches!(pages.add(page(0..ITEMS_MAX + 5, None)), Next::Stop(why) if why.contains("10000")));
        assert_eq!(pages.items.len(), ITEMS_MAX);
    }

    #[test]
    fn odd_pages_are_told_apart() {
        let read = |text: &str| Page::read(&Text::new(text.to_owned()).unwrap(), "tools");
        assert_eq!(read("[]").unwrap_err(), "an object was expected");
        assert_eq!(read("{}").unwrap_err(), "`tools` is missing");
        assert_eq!(read(r#"{"tools":{}}"#).unwrap_err(), "`tools` is not a list");
        assert_eq!(read(r#"{"tools":[],"nextCursor":null}"#).unwrap().next, None);
        assert_eq!(read(r#"{"tools":[],"nextCursor":""}"#).unwrap().next, Some(String::new()));
    }
}
