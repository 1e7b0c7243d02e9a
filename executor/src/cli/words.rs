//! A decision about a tool in words, with the place where it is written.

use mcplan_compiler::places::{Places, PolicyPlaces, ServerPlaces};
use mcplan_compiler::plan::Plan;
use mcplan_compiler::source::Span;

use super::why::{Place, Why};
use crate::core::caller::Caller;
use crate::core::catalog::Hidden;
use crate::core::decisions::{About, Decided, Decision, Naming, Ruling};
use crate::core::written::rule;

/// A decision as a person reads it.
pub(super) struct Told {
    /// What it is about, in a word.
    pub about: &'static str,
    /// What was decided.
    pub text: String,
    /// Where that is written, when somebody wrote it.
    pub place: Option<Place>,
    /// What decided it is in the lock and no longer in the config.
    pub gone: bool,
}

impl Told {
    /// The place, or that there is none any more, in brackets.
    pub(super) fn bracket(&self) -> String {
        match &self.place {
            Some(place) => format!(" ({place})"),
            None if self.gone => " (locked, no longer in the config)".to_owned(),
            None => String::new(),
        }
    }
}

/// What the words depend on.
pub(super) struct Teller<'a> {
    pub why: &'a Why<'a>,
    pub caller: &'a Caller,
    pub decided: &'a Decided,
}

/// A text, where it is written, and whether it has to be written somewhere.
struct Words(String, Option<Span>, bool);

/// What nobody has to write.
fn unwritten(text: impl Into<String>) -> Words {
    Words(text.into(), None, false)
}

/// What is there because it was written.
fn written(text: impl Into<String>, at: Option<Span>) -> Words {
    Words(text.into(), at, true)
}

impl Teller<'_> {
    /// The reason of the conclusion: the decision behind it, as a sentence that stands alone, with its place.
    pub(super) fn reason(&self) -> String {
        let decisive = self.decided.decisive();
        let told = self.tell(decisive);
        match &decisive.why {
            Some(why) => format!("{why}{}", told.bracket()),
            None => format!("{}{}", told.text, told.bracket()),
        }
    }

    /// One decision.
    pub(super) fn tell(&self, decision: &Decision) -> Told {
        let places = &self.why.compilation.places;
        let none = ServerPlaces::default();
        // A server that the config no longer has is found nowhere in it.
        let server = places.servers.get(self.decided.server.as_str()).unwrap_or(&none);
        // What takes the tool away, found as the log of a running executor finds it.
        let Decided { server: name, exposed, .. } = self.decided;
        let by = decision.why.as_ref().and_then(|why| rule(places, self.plan(), name, exposed, why));
        let (about, Words(text, at, must)) = match &decision.about {
            About::Enabled => ("server", self.enabled(decision.drops, places, server)),
            About::When { needs, unmet } => ("when", when(needs, unmet.as_deref(), server)),
            About::Include { .. } | About::Exclude { .. } | About::Denylist { .. } => {
                filter(&decision.about, by, server)
            }
            About::Text => {
                let command = self.why.project.command(&format!("lock --server {}", self.decided.server));
                ("text", unwritten(format!("not locked: run '{command}'")))
            }
            About::Policy(ruling) => ("policy", policy(ruling, decision.why.as_ref(), by, &places.policy)),
            About::Quarantine => ("drift", unwritten(quarantine(decision.why.as_ref()))),
            About::Agent { listed, by: pattern } => ("agent", self.agent(*listed, pattern.as_deref(), by, places)),
            About::AgentPolicy(ruling) => {
                let none = PolicyPlaces::default();
                let own = places.agents.get(&self.caller.agent).map_or(&none, |agent| &agent.policy);
                ("agent-policy", policy(ruling, decision.why.as_ref(), by, own))
            }
            About::Workspace { needs } => ("workspace", self.workspace(needs, decision.drops, by, server)),
            About::Deferral { always, defer, all } => {
                ("defer", deferral(always.as_deref(), *defer, *all, places, server))
            }
            About::Naming(naming) => ("naming", self.naming(naming, places)),
            About::Reserved { ours } => ("reserved", self.reserved(decision.drops, *ours, by)),
        };
        Told { about, text, gone: must && at.is_none(), place: at.map(|at| self.why.place(at)) }
    }

    fn plan(&self) -> &Plan {
        self.why.plan()
    }

    fn enabled(&self, off: bool, places: &Places, server: &ServerPlaces) -> Words {
        let name = &self.decided.server;
        let at = places.server(name);
        let is_false = |enabled: &&mcplan_compiler::source::Spanned<bool>| !enabled.value;
        if !off {
            return written(format!("`{name}` is on"), at);
        }
        if let Some(own) = server.enabled.as_ref().filter(is_false) {
            return written(format!("`{name}` is off with `enabled: false`"), Some(own.at));
        }
        match places.enabled.as_ref().filter(is_false) {
            Some(all) => written(format!("`{name}` is off with `mcp.enabled: false`"), Some(all.at)),
            None => written(format!("`{name}` is off"), None),
        }
    }

    fn agent(&self, listed: bool, pattern: Option<&str>, by: Option<Span>, places: &Places) -> Words {
        let agent = &self.caller.agent;
        let own = places.agents.get(agent);
        match pattern {
            Some(pattern) => {
                written(format!("`{pattern}` of `{agent}` names it"), own.and_then(|own| own.tools.find(pattern)))
            }
            None if listed => written(format!("no pattern of `{agent}` names it"), by),
            None => unwritten(format!("`{agent}` has no list and sees every tool")),
        }
    }

    fn workspace(&self, needs: &[String], elsewhere: bool, by: Option<Span>, server: &ServerPlaces) -> Words {
        let Some(first) = needs.first() else { return unwritten("in every workspace") };
        let globs = needs.iter().map(|glob| format!("`{glob}`")).collect::<Vec<_>>().join(", ");
        let here = self.caller.workspace.as_deref().unwrap_or("no workspace");
        let (is, at) = if elsewhere { ("isn't", by) } else { ("is", server.workspaces.find(first)) };
        written(format!("only under {globs}, and {here} {is}"), at)
    }

    fn naming(&self, naming: &Naming, places: &Places) -> Words {
        let plan = self.plan();
        let (pattern, limit) = (&plan.naming.pattern, plan.naming.limit);
        let (text, at) = match naming {
            Naming::AsWritten => (format!("as `{pattern}` says"), places.naming),
            Naming::Characters => (format!("as `{pattern}` says, with `_` for what a name can't hold"), places.naming),
            Naming::Length(length) => (
                format!("`{pattern}` gives {length} characters: cut to {limit}, with a hash at the end"),
                places.name_limit,
            ),
            Naming::Shared => (
                format!("`{pattern}` could give a tool of another server this name: with a hash at the end"),
                places.naming,
            ),
            Naming::Taken(Some((server, tool))) => {
                (format!("`{pattern}` gives the name of `{tool}` of `{server}`: with a hash at the end"), places.naming)
            }
            Naming::Taken(None) => {
                (format!("`{pattern}` gives several tools this name: each with a hash at the end"), places.naming)
            }
        };
        Words(text, at, false)
    }

    fn reserved(&self, taken: bool, ours: bool, by: Option<Span>) -> Words {
        let name = &self.decided.exposed;
        match (taken, ours) {
            (false, _) => unwritten("the name is free"),
            (true, true) => unwritten(format!("`{name}` is one of mcplan's own tools")),
            (true, false) if self.plan().reserved.contains(name) => {
                written(format!("`{name}` is the host's, by `mcp.reserved`"), by)
            }
            (true, false) => unwritten(format!("another tool is called `{name}`")),
        }
    }
}

fn when(needs: &[String], unmet: Option<&str>, server: &ServerPlaces) -> Words {
    let all = needs.join(", ");
    match unmet {
        Some(variable) => {
            written(format!("`when` needs {variable}, which is not set here"), server.when.find(variable))
        }
        None => written(
            format!("`when` needs {all}, set here"),
            needs.first().and_then(|variable| server.when.find(variable)),
        ),
    }
}

fn filter(about: &About, at: Option<Span>, server: &ServerPlaces) -> (&'static str, Words) {
    match about {
        About::Include { listed: false, .. } => ("include", unwritten("there is no list, so every tool is kept")),
        About::Include { by: Some(pattern), .. } => {
            ("include", written(format!("`{pattern}` names it"), server.include.find(pattern)))
        }
        About::Include { .. } => ("include", written("no pattern names it", at)),
        About::Exclude { by: Some(pattern), literal: Some(literal) } => {
            let text = format!("`{pattern}` names it, and `include` keeps it as `{literal}`");
            ("exclude", written(text, server.exclude.find(pattern)))
        }
        About::Exclude { by: Some(pattern), .. } => ("exclude", written(format!("`{pattern}` drops it"), at)),
        About::Denylist { by: Some(pattern) } => ("denylist", written(format!("`{pattern}` drops it"), at)),
        _ => {
            debug_assert!(at.is_none());
            let word = if matches!(about, About::Exclude { .. }) { "exclude" } else { "denylist" };
            (word, unwritten("no pattern names it"))
        }
    }
}

fn policy(ruling: &Ruling, why: Option<&Hidden>, at: Option<Span>, places: &PolicyPlaces) -> Words {
    match (ruling, why) {
        (Ruling::Default, _) => unwritten("no rule denies it"),
        (Ruling::Allow(rule), _) => written(format!("`{rule}` allows it"), places.allow.find(rule)),
        (Ruling::ReadOnly, _) => {
            written("`read_only`, and the tool is locked as one that changes nothing", places.read_only)
        }
        (Ruling::ReadOnlyUnknown, _) => written(
            "`read_only`, and whether it changes anything isn't locked of a tool that is filtered",
            places.read_only,
        ),
        (Ruling::Refused, Some(Hidden::Rule(_, rule))) => written(format!("`{rule}` denies it"), at),
        (Ruling::Refused, Some(Hidden::DeniedByDefault(_))) => {
            written("denied by default, and no rule of `allow` names it", at)
        }
        (Ruling::Refused, _) => written("`read_only`, and the tool isn't locked as one that changes nothing", at),
    }
}

fn quarantine(why: Option<&Hidden>) -> String {
    match why {
        Some(why) => why.to_string(),
        None => "not known offline: what a server says now is compared when it is connected".to_owned(),
    }
}

fn deferral(always: Option<&str>, defer: bool, all: bool, places: &Places, server: &ServerPlaces) -> Words {
    match (always, defer, all) {
        (Some(pattern), ..) => written(format!("`{pattern}` of `tools.always` lists it"), server.always.find(pattern)),
        (None, false, _) => written("`defer: false` lists it", server.defer),
        (None, true, true) => written("`serve.disclosure: all` lists it", places.disclosure),
        (None, true, false) => match server.defer {
            Some(at) => written("`defer: true` leaves it to search", Some(at)),
            None => unwritten("left to search by default"),
        },
    }
}
