//! Prompts and resources of all servers: under which names and addresses an agent has them, and whose they are.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use mcplan_compiler::json;
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::{self, Entry};
use mcplan_compiler::plan::{ExposedName, NameTable, Operation, Plan, Server, Verb, normalize_uri};

use super::caller::Caller;
use super::catalog::{Hidden, Listing, judged};
use super::uri_template::{Looks, UriTemplate};

/// What an address of ours begins with, for a resource whose own address another server has too.
pub const OURS: &str = "mcplan://";

/// A prompt that an agent may fetch.
#[derive(Clone, Debug)]
pub struct Prompt {
    /// The server that owns it.
    pub server: ServerName,
    /// Its name downstream.
    pub exposed: ExposedName,
    /// What the server said of it.
    pub entry: Arc<Entry<observed::Prompt>>,
}

/// A resource that an agent may read.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The server that has it.
    pub server: ServerName,
    /// Its address downstream.
    pub uri: String,
    /// What the server said of it.
    pub entry: Arc<Entry<observed::Resource>>,
    /// Whether it may be listed too.
    is_listed: bool,
}

/// Resources that a server makes of an address.
#[derive(Clone, Debug)]
pub struct Template {
    /// The server that has them.
    pub server: ServerName,
    /// What the server said of them.
    pub entry: Arc<Entry<observed::ResourceTemplate>>,
    /// Which addresses; `None` for one that gives none.
    pattern: Option<Arc<UriTemplate>>,
    /// Whether it may be listed too.
    is_listed: bool,
}

/// What of a server's resources the lock speaks against.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Distrust {
    all: Option<Hidden>,
    /// Those of these templates.
    templates: Vec<(UriTemplate, Hidden)>,
    /// Those of no template.
    others: Option<Hidden>,
}

/// Every prompt, resource and template of every server: config order of servers, then name; resources as their server
/// has them.
#[derive(Clone, Debug, Default)]
pub struct Offers {
    prompts: Vec<Prompt>,
    hidden: BTreeMap<String, (ServerName, Hidden)>,
    resources: Vec<Resource>,
    templates: Vec<Template>,
    /// The servers that have resources of any kind.
    providers: Vec<ServerName>,
    /// Of all servers of the plan, whoever sees them, the only one that can have any.
    only: Option<ServerName>,
    /// Resources that are listed and may not be read, by the servers' own addresses.
    denied: BTreeMap<String, (ServerName, Hidden)>,
    /// Those of them whose resources aren't known yet.
    unheard: Vec<ServerName>,
    /// The servers of whose resources the lock speaks against some.
    distrusted: BTreeMap<ServerName, Arc<Distrust>>,
}

/// What an address leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Whose it is.
    pub server: ServerName,
    /// The address as the server is asked for it.
    pub uri: String,
}

impl Offers {
    /// Puts the listings of the plan's servers together. What policy denies to everyone isn't there.
    pub fn build<L: Borrow<Listing>>(plan: &Plan, listings: &BTreeMap<ServerName, L>) -> Self {
        let active: Vec<_> = plan.servers.iter().filter(|server| plan.enabled && server.enabled).collect();
        let listed: Vec<(&Server, &Listing)> =
            active.iter().filter_map(|server| Some((*server, listings.get(&server.name)?.borrow()))).collect();
        let silent = active.len() - listed.len();
        let names = listed.iter().flat_map(|(server, listing)| {
            listing.prompts.iter().map(move |prompt| (&server.name, prompt.known.name.as_str()))
        });
        let names = NameTable::build(&plan.naming, &plan.reserved, names);
        let mut offers = Self::default();
        for (server, _, exposed) in names.unbound() {
            offers.hidden.insert(exposed.to_owned(), (server.clone(), Hidden::Reserved));
        }
        for (server, listing) in listed {
            offers.add_prompts(plan, server, listing, &names);
            offers.add_resources(plan, server, listing);
        }
        offers.only = match &offers.providers[..] {
            // Of one that hasn't spoken nobody knows.
            [only] if silent == 0 => Some(only.clone()),
            _ => None,
        };
        offers.address();
        offers
    }

    fn add_prompts(&mut self, plan: &Plan, server: &Server, listing: &Listing, names: &NameTable) {
        let first = self.prompts.len();
        let mut seen = BTreeSet::new();
        // Of two with one name the first is kept, as of tools.
        let named = listing.prompts.iter().filter(|entry| !entry.known.name.is_empty());
        for entry in named.filter(|entry| seen.insert(&*entry.known.name)) {
            let prompt = entry.known.name.as_str();
            let Some(exposed) = names.exposed(&server.name, prompt).cloned() else { continue };
            let distrusted = listing.distrusted.prompts.get(prompt).cloned().map_or(Ok(()), Err);
            let operation = Operation::Invoke { server: &server.name, prompt };
            match judged(plan, None, &operation).and(distrusted) {
                Ok(()) => self.prompts.push(Prompt { server: server.name.clone(), exposed, entry: entry.clone() }),
                Err(why) => drop(self.hidden.insert(exposed.to_string(), (server.name.clone(), why))),
            }
        }
        self.prompts[first..].sort_by(|a, b| a.exposed.cmp(&b.exposed));
    }

    fn add_resources(&mut self, plan: &Plan, server: &Server, listing: &Listing) {
        let name = &server.name;
        let resources = listing.resources.as_deref();
        if resources.is_none_or(|resources| !resources.is_empty()) || !listing.templates.is_empty() {
            self.providers.push(name.clone());
        }
        if resources.is_none() {
            self.unheard.push(name.clone());
        }
        let read = |uri: &String, why: &Hidden| Some((UriTemplate::read(uri)?, why.clone()));
        let distrust = Distrust {
            all: listing.distrusted.all.clone(),
            templates: listing.distrusted.templates.iter().filter_map(|(uri, why)| read(uri, why)).collect(),
            others: listing.distrusted.resources.clone(),
        };
        let is_trusted = distrust == Distrust::default();
        let (no_resources, nothing) = (distrust.others.is_some() || distrust.all.is_some(), distrust.all.is_some());
        if !is_trusted {
            self.distrusted.insert(name.clone(), Arc::new(distrust));
        }
        let is_listed = judged(plan, None, &Operation::List { server: name }).is_ok();
        let mut seen = BTreeSet::new();
        for entry in resources.unwrap_or_default().iter().filter(|_| !no_resources) {
            let uri = &entry.known.uri;
            if !seen.insert(uri) {
                continue;
            }
            match readable(plan, None, name, uri) {
                Ok(_) => {
                    let (uri, entry) = (uri.clone(), entry.clone());
                    self.resources.push(Resource { server: name.clone(), uri, entry, is_listed });
                }
                Err(why) => drop(self.denied.insert(uri.clone(), (name.clone(), why))),
            }
        }
        let mut seen = BTreeSet::new();
        for entry in listing.templates.iter().filter(|_| !nothing) {
            let uri = &entry.known.uri_template;
            // What begins as ours do leads to whom it names.
            let is_out = uri.starts_with(OURS) || listing.distrusted.templates.contains_key(uri);
            if seen.insert(uri) && !is_out {
                let pattern = UriTemplate::read(uri).map(Arc::new);
                let head = pattern.as_ref().map_or(uri.as_str(), |pattern| pattern.head());
                // Strict clients throw the whole list away where a name is missing.
                let is_listed = is_listed && entry.known.name.is_some() && plan.policy.may_read_some(name, head);
                self.templates.push(Template { server: name.clone(), entry: entry.clone(), pattern, is_listed });
            }
        }
    }

    /// What one caller has of it.
    pub fn narrowed(&self, plan: &Plan, caller: &Caller) -> Self {
        let may = |operation: &Operation<'_>| judged(plan, Some(caller), operation);
        let (hidden, denied, distrusted) = (self.hidden.clone(), self.denied.clone(), self.distrusted.clone());
        let mut narrowed = Self { hidden, denied, distrusted, ..Self::default() };
        for prompt in &self.prompts {
            match may(&Operation::Invoke { server: &prompt.server, prompt: &prompt.entry.known.name }) {
                Ok(()) => narrowed.prompts.push(prompt.clone()),
                Err(why) => drop(narrowed.hidden.insert(prompt.exposed.to_string(), (prompt.server.clone(), why))),
            }
        }
        let here =
            |name: &ServerName| plan.server(name.as_str()).is_some_and(|server| caller.is_in_workspace_of(server));
        let lists: BTreeMap<_, _> =
            self.providers.iter().map(|name| (name, may(&Operation::List { server: name }).is_ok())).collect();
        let lists = |name: &ServerName| lists.get(name).copied().unwrap_or(false);
        for resource in &self.resources {
            let uri = resource.entry.known.uri.clone();
            match readable(plan, Some(caller), &resource.server, &uri) {
                Ok(_) => {
                    let is_listed = resource.is_listed && lists(&resource.server);
                    narrowed.resources.push(Resource { uri, is_listed, ..resource.clone() });
                }
                Err(why) => drop(narrowed.denied.insert(uri, (resource.server.clone(), why))),
            }
        }
        let agent = plan.agents.get(&caller.agent);
        for template in self.templates.iter().filter(|template| here(&template.server)) {
            let head = template.pattern.as_ref().map_or("", |pattern| pattern.head());
            let some = agent.is_some_and(|agent| agent.may_read_some(&template.server, head));
            let is_listed = template.is_listed && lists(&template.server) && some;
            narrowed.templates.push(Template { is_listed, ..template.clone() });
        }
        narrowed.only = self.only.clone().filter(|name| here(name));
        narrowed.providers = self.providers.iter().filter(|name| here(name)).cloned().collect();
        narrowed.unheard = self.unheard.iter().filter(|name| here(name)).cloned().collect();
        narrowed.address();
        narrowed
    }

    /// An address that several servers have belongs to the first of them; the others' resources get one of ours. So does
    /// one that only looks like ours.
    fn address(&mut self) {
        let mut taken = BTreeSet::new();
        for resource in &mut self.resources {
            let uri = &resource.entry.known.uri;
            if uri.starts_with(OURS) || !taken.insert(uri.clone()) {
                resource.uri = format!("{OURS}{}/{}", resource.server, encoded(&resource.entry.known.uri));
            }
        }
    }

    /// All prompts.
    pub fn prompts(&self) -> &[Prompt] {
        &self.prompts
    }

    /// The prompt of that exposed name.
    pub fn prompt(&self, exposed: &str) -> Option<&Prompt> {
        self.prompts.iter().find(|prompt| prompt.exposed.as_str() == exposed)
    }

    /// Why the prompt of that exposed name isn't offered, when a server has it.
    pub fn hidden(&self, exposed: &str) -> Option<(&ServerName, &Hidden)> {
        self.hidden.get(exposed).map(|(server, why)| (server, why))
    }

    /// The resources that may be listed.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.resources.iter().filter(|resource| resource.is_listed)
    }

    /// The templates that may be listed.
    pub fn templates(&self) -> impl Iterator<Item = &Template> {
        self.templates.iter().filter(|template| template.is_listed)
    }

    /// Whether the lock lets an address of a server's be read, as the server is asked for it.
    ///
    /// # Errors
    /// Why not.
    pub fn trusts(&self, server: &ServerName, uri: &str) -> Result<(), &Hidden> {
        let Some(distrust) = self.distrusted.get(server) else { return Ok(()) };
        if let Some(why) = &distrust.all {
            return Err(why);
        }
        let mut looks = Looks::default();
        if let Some((_, why)) = distrust.templates.iter().find(|(template, _)| template.gives(uri, &mut looks)) {
            return Err(why);
        }
        let Some(why) = &distrust.others else { return Ok(()) };
        let own = self.templates.iter().filter(|template| template.server == *server);
        let is_given = own.flat_map(|template| &template.pattern).any(|pattern| pattern.gives(uri, &mut looks));
        if is_given { Ok(()) } else { Err(why) }
    }

    /// Whether a resource is known by that address.
    pub fn lists(&self, uri: &str) -> bool {
        self.resources.iter().any(|resource| resource.uri == uri)
    }

    /// The servers that have resources, and which ones isn't known yet.
    pub fn unheard(&self) -> &[ServerName] {
        &self.unheard
    }

    /// Where an address leads to: to the resource that is listed so, else to the first server with a template that gives
    /// it, else to the only server with resources. `self` is what `caller` has of it.
    ///
    /// # Errors
    /// Nothing, when no server can have it; who has it and why it may not be read otherwise.
    pub fn find(&self, plan: &Plan, caller: Option<&Caller>, uri: &str) -> Result<Found, Option<(ServerName, Hidden)>> {
        let asked = |server: &ServerName, uri: &str| {
            self.trusts(server, uri)
                .map_err(Clone::clone)
                .and_then(|()| readable(plan, caller, server, uri))
                .map(|uri| Found { server: server.clone(), uri })
                .map_err(|why| Some((server.clone(), why)))
        };
        if let Some(resource) = self.resources.iter().find(|resource| resource.uri == uri) {
            return asked(&resource.server, &resource.entry.known.uri);
        }
        if let Some((server, encoded)) = uri.strip_prefix(OURS).and_then(|rest| rest.split_once('/')) {
            let server = self.providers.iter().find(|name| name.as_str() == server).ok_or(None)?;
            return asked(server, &decoded(encoded).ok_or(None)?);
        }
        let mut looks = Looks::default();
        let given = self
            .templates
            .iter()
            .filter(|template| template.pattern.as_ref().is_some_and(|pattern| pattern.gives(uri, &mut looks)));
        let mut denied = self.denied.get(uri).cloned();
        for server in given.map(|template| &template.server).chain(&self.only) {
            match asked(server, uri) {
                Ok(found) => return Ok(found),
                Err(why) => denied = denied.or(why),
            }
        }
        Err(denied)
    }

    /// Whether the other one holds the same.
    pub fn same(&self, other: &Self) -> bool {
        fn of<T>((a, b): (&Entry<T>, &Entry<T>)) -> bool {
            a.raw.get() == b.raw.get()
        }
        let prompts = self.prompts.iter().zip(&other.prompts);
        let resources = self.resources.iter().zip(&other.resources);
        let templates = self.templates.iter().zip(&other.templates);
        (self.prompts.len(), self.resources.len(), self.templates.len())
            == (other.prompts.len(), other.resources.len(), other.templates.len())
            && self.hidden == other.hidden
            && (&self.providers, &self.unheard, &self.only) == (&other.providers, &other.unheard, &other.only)
            && (&self.distrusted, &self.denied) == (&other.distrusted, &other.denied)
            && prompts.into_iter().all(|(a, b)| a.exposed == b.exposed && of((&a.entry, &b.entry)))
            && resources.into_iter().all(|(a, b)| {
                (&a.server, &a.uri, a.is_listed) == (&b.server, &b.uri, b.is_listed) && of((&a.entry, &b.entry))
            })
            && templates
                .into_iter()
                .all(|(a, b)| (&a.server, a.is_listed) == (&b.server, b.is_listed) && of((&a.entry, &b.entry)))
    }
}

impl Prompt {
    /// The server's own text with the exposed name in it.
    pub fn text(&self) -> String {
        json::with_string_member(self.entry.raw.get(), "name", self.exposed.as_str())
    }
}

impl Resource {
    /// The server's own text with the address downstream in it.
    pub fn text(&self) -> String {
        if self.uri == self.entry.known.uri {
            return self.entry.raw.get().to_owned();
        }
        json::with_string_member(self.entry.raw.get(), "uri", &self.uri)
    }
}

impl Template {
    /// The server's own text.
    pub fn text(&self) -> String {
        self.entry.raw.get().to_owned()
    }
}

/// The address that a server is asked for, when it may be read. Rules look at the normalised form, and once there are any
/// it is that which is asked for, so that nobody means another resource by it than they do. Without rules it is what was
/// asked for: many servers have names of their own in place of a host, in which case counts.
///
/// # Errors
/// Why it may not be read.
pub(super) fn readable(plan: &Plan, caller: Option<&Caller>, server: &ServerName, uri: &str) -> Result<String, Hidden> {
    let is_free = reads_freely(plan, caller);
    match normalize_uri(uri) {
        Some(normalized) => {
            judged(plan, caller, &Operation::Read { server, uri: &normalized })?;
            Ok(if is_free { uri.to_owned() } else { normalized })
        }
        // Whose it is decides in any case.
        None => {
            judged(plan, caller, &Operation::Read { server, uri })?;
            if is_free { Ok(uri.to_owned()) } else { Err(Hidden::OddUri) }
        }
    }
}

/// Whether no rule says which resources may be read.
fn reads_freely(plan: &Plan, caller: Option<&Caller>) -> bool {
    use mcplan_compiler::config::Verdict;
    let free = |policy: &mcplan_compiler::plan::Policy| {
        policy.default == Verdict::Allow
            && !policy.deny.iter().chain(&policy.allow).any(|rule| rule.verb() == Verb::Read)
    };
    let agent = caller.and_then(|caller| plan.agents.get(&caller.agent));
    free(&plan.policy) && agent.is_none_or(|agent| agent.resources.is_none() && free(&agent.policy))
}

/// `text` with every byte but unreserved characters as a percent-code.
fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// What [`encoded`] was made of.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first == b'%' {
            let code = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(code, 16).ok().filter(|_| !code.starts_with('+'))?);
            rest = &rest[2..];
        } else {
            bytes.push(*first);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests;
