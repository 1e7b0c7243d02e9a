//! How a tool is called downstream: the pattern filled in, odd characters replaced, made unique, cut to the limit.
//!
//! Names are looked up in a [`NameTable`], never split. The same plan and the same lists give the same names,
//! whatever connected first.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::name::ServerName;

/// The tools that mcplan serves itself; a server's tool can't take their names.
pub const OWN_TOOLS: [&str; 4] = ["search_mcp_tools", "call_mcp_tool", "mcp_resources_list", "mcp_resources_read"];

/// The pattern of exposed names and its limit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Naming {
    /// `mcp__{server}__{tool}`, `{server}__{tool}`, `{tool}` or any pattern that holds `{tool}`.
    pub pattern: String,
    /// Longest exposed name, in characters.
    pub limit: usize,
}

/// The name under which an agent sees a tool.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ExposedName(String);

impl ExposedName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ExposedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ExposedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl std::borrow::Borrow<str> for ExposedName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// `text` with every character outside `A-Za-z0-9_-` replaced by `_`.
pub fn sanitize(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') { c } else { '_' }).collect()
}

/// Characters of a [`suffix`].
const SUFFIX: usize = 7;

/// `_` and six hex digits that depend on nothing but server and tool.
pub fn suffix(server: &ServerName, tool: &str) -> String {
    let digest = Sha256::new().chain_update(server.as_str()).chain_update([0]).chain_update(tool).finalize();
    format!("_{}", crate::json::hex(&digest[..3]))
}

impl Naming {
    /// Whether the pattern keeps the tools of different servers apart.
    pub fn separates_servers(&self) -> bool {
        self.pattern.contains("{server}")
    }

    fn fill(&self, server: &ServerName, tool: &str) -> String {
        // Both placeholders are found in the pattern itself, so a tool called `{server}` stays a tool's name.
        let mut out = String::new();
        let mut rest = self.pattern.as_str();
        while let Some(at) = rest.find('{') {
            out.push_str(&rest[..at]);
            rest = &rest[at..];
            if let Some(after) = rest.strip_prefix("{server}") {
                out.push_str(server.as_str());
                rest = after;
            } else if let Some(after) = rest.strip_prefix("{tool}") {
                out.push_str(tool);
                rest = after;
            } else {
                out.push('{');
                rest = &rest[1..];
            }
        }
        out.push_str(rest);
        out
    }

    /// Whether some tool of `server` may be called `exposed`. Nothing is split: the pattern is filled in up to the tool.
    pub fn may_be_of(&self, exposed: &str, server: &ServerName) -> bool {
        let Some((head, _)) = self.pattern.split_once("{tool}") else { return false };
        let head = sanitize(&head.replace("{server}", server.as_str()));
        // A name at the limit may have been cut before the tool, to make room for the suffix.
        let kept = self.limit.saturating_sub(SUFFIX);
        exposed.starts_with(&head)
            || exposed.len() == self.limit && exposed.get(..kept).is_some_and(|cut| head.starts_with(cut))
    }

    /// `name` with the suffix of its owner, the head cut so that the whole keeps the limit.
    fn suffixed(&self, name: &str, server: &ServerName, tool: &str) -> String {
        let suffix = suffix(server, tool);
        // Sanitised, so a character is a byte.
        let head = &name[..name.len().min(self.limit.saturating_sub(SUFFIX))];
        format!("{head}{suffix}")
    }
}

/// Why a tool isn't called what the pattern says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameChange<'a> {
    /// It is.
    None,
    /// Characters that a name can't hold became `_`.
    Characters,
    /// That would have so many characters, more than the limit: it is cut and ends in a hash.
    Length(usize),
    /// Another tool's name is the same: it ends in a hash. Whose it is, unless all of them end in one.
    Taken(Option<(&'a ServerName, &'a str)>),
}

/// Exposed name to owner and back, built once for a set of lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NameTable {
    owners: BTreeMap<ExposedName, (ServerName, String)>,
    names: BTreeMap<(ServerName, String), ExposedName>,
    unbound: BTreeMap<(ServerName, String), String>,
    reserved: BTreeSet<String>,
}

impl NameTable {
    /// Names every tool of `tools`, which come in config order of their servers; within a server order is free.
    ///
    /// A tool whose finished name is one of our own tools, or one of `reserved`, the host's, is not bound.
    pub fn build<'a>(
        naming: &Naming,
        reserved: &[String],
        tools: impl IntoIterator<Item = (&'a ServerName, &'a str)>,
    ) -> Self {
        let mut per_server: Vec<(&ServerName, BTreeSet<&str>)> = Vec::new();
        for (server, tool) in tools {
            match per_server.iter_mut().find(|(name, _)| *name == server) {
                Some((_, set)) => {
                    set.insert(tool);
                }
                None => per_server.push((server, BTreeSet::from([tool]))),
            }
        }
        let mut table = Self { reserved: reserved.iter().cloned().collect(), ..Self::default() };
        for (server, tools) in per_server {
            table.add_server(naming, server, &tools);
        }
        table
    }

    fn add_server(&mut self, naming: &Naming, server: &ServerName, tools: &BTreeSet<&str>) {
        // A tool that needed no change has the first right to its name; then those that were changed, by raw name.
        let (plain, changed): (Vec<&str>, Vec<&str>) = tools.iter().partition(|tool| {
            let filled = naming.fill(server, tool);
            sanitize(&filled) == filled && filled.len() <= naming.limit
        });
        let mut count = BTreeMap::<String, usize>::new();
        for tool in tools {
            *count.entry(sanitize(&naming.fill(server, tool))).or_default() += 1;
        }
        for tool in plain {
            self.bind(naming, server, tool, naming.fill(server, tool));
        }
        for tool in changed {
            let name = sanitize(&naming.fill(server, tool));
            let clashes = count[&name] > 1;
            let name = if clashes || name.len() > naming.limit { naming.suffixed(&name, server, tool) } else { name };
            self.bind(naming, server, tool, name);
        }
    }

    fn bind(&mut self, naming: &Naming, server: &ServerName, tool: &str, mut name: String) {
        let key = (server.clone(), tool.to_owned());
        if self.owners.contains_key(name.as_str()) {
            name = naming.suffixed(&name, server, tool);
        }
        // A suffixed name that is taken all the same (a tool chosen to hit it) is left out rather than bound to two.
        if OWN_TOOLS.contains(&name.as_str())
            || self.reserved.contains(&name)
            || self.owners.contains_key(name.as_str())
        {
            self.unbound.insert(key, name);
            return;
        }
        let name = ExposedName(name);
        self.owners.insert(name.clone(), key.clone());
        self.names.insert(key, name);
    }

    /// Who owns an exposed name: the server and the tool's own name.
    pub fn owner(&self, exposed: &str) -> Option<(&ServerName, &str)> {
        self.owners.get(exposed).map(|(server, tool)| (server, tool.as_str()))
    }

    /// The exposed name of a server's tool.
    pub fn exposed(&self, server: &ServerName, tool: &str) -> Option<&ExposedName> {
        self.names.get(&(server.clone(), tool.to_owned()))
    }

    /// What had to be done to the pattern's own name for a tool to get the name it has, or would have had.
    pub fn change(&self, naming: &Naming, server: &ServerName, tool: &str) -> Option<NameChange<'_>> {
        let key = (server.clone(), tool.to_owned());
        let name = self.names.get(&key).map(ExposedName::as_str).or(self.unbound.get(&key).map(String::as_str))?;
        let filled = naming.fill(server, tool);
        let plain = sanitize(&filled);
        Some(if name == filled {
            NameChange::None
        } else if name == plain {
            NameChange::Characters
        } else if plain.len() > naming.limit {
            NameChange::Length(plain.len())
        } else {
            NameChange::Taken(self.owner(&plain))
        })
    }

    /// Tools that got no name, with the name they would have had.
    pub fn unbound(&self) -> impl Iterator<Item = (&ServerName, &str, &str)> {
        self.unbound.iter().map(|((server, tool), name)| (server, tool.as_str(), name.as_str()))
    }

    /// All bound names in order.
    pub fn iter(&self) -> impl Iterator<Item = (&ExposedName, &ServerName, &str)> {
        self.owners.iter().map(|(name, (server, tool))| (name, server, tool.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn naming(pattern: &str, limit: usize) -> Naming {
        Naming { pattern: pattern.to_owned(), limit }
    }

    fn server(name: &str) -> ServerName {
        ServerName::new(name).unwrap()
    }

    fn names(naming: &Naming, tools: &[(&str, &str)]) -> Vec<String> {
        let owned: Vec<_> = tools.iter().map(|(s, t)| (server(s), *t)).collect();
        let table = NameTable::build(naming, &[], owned.iter().map(|(s, t)| (s, *t)));
        owned.iter().map(|(s, t)| table.exposed(s, t).map_or("-".to_owned(), ToString::to_string)).collect()
    }

    #[test]
    fn plain_names_stay() {
        let n = naming("mcp__{server}__{tool}", 64);
        assert_eq!(names(&n, &[("fs", "read"), ("fs", "a.b")]), ["mcp__fs__read", "mcp__fs__a_b"]);
        assert_eq!(names(&naming("{tool}", 64), &[("fs", "{server}")]), ["_server_"]);
    }

    #[test]
    fn names_that_become_equal_are_told_apart_and_the_unchanged_keeps_its_own() {
        let n = naming("{server}__{tool}", 64);
        let got = names(&n, &[("s", "a_b"), ("s", "a.b"), ("s", "a b")]);
        assert_eq!(got[0], "s__a_b");
        assert!(got[1].starts_with("s__a_b_") && got[2].starts_with("s__a_b_") && got[1] != got[2], "{got:?}");
        let got = names(&n, &[("s", "x.y"), ("s", "x y")]);
        assert!(got.iter().all(|name| name.len() == "s__x_y_123456".len()), "neither was first: {got:?}");
    }

    #[test]
    fn long_names_are_cut_with_a_suffix() {
        let n = naming("mcp__{server}__{tool}", 64);
        let long = "t".repeat(90);
        let got = names(&n, &[("s", &long)]);
        assert_eq!(got[0].len(), 64);
        assert!(got[0].ends_with(&suffix(&server("s"), &long)));
    }

    #[test]
    fn without_server_the_first_in_order_keeps_the_plain_name() {
        let n = naming("{tool}", 64);
        let got = names(&n, &[("a", "search"), ("b", "search")]);
        assert_eq!(got[0], "search");
        assert_eq!(got[1], format!("search{}", suffix(&server("b"), "search")));
    }

    #[test]
    fn a_short_separator_still_gives_each_tool_a_name_of_its_own() {
        let n = naming("{server}_{tool}", 64);
        let suffixed = |s: &str, t: &str| format!("a_b_c{}", suffix(&server(s), t));
        assert_eq!(names(&n, &[("a_b", "c"), ("a", "b_c")]), ["a_b_c", &suffixed("a", "b_c")]);
        // The order of the config decides, not that of the connections.
        assert_eq!(names(&n, &[("a", "b_c"), ("a_b", "c")]), ["a_b_c", &suffixed("a_b", "c")]);
    }

    #[test]
    fn a_name_that_no_tool_of_a_server_can_have_is_told() {
        let n = naming("mcp__{server}__{tool}", 24);
        for (exposed, name, expected) in [
            ("mcp__a_b__x", "a.b", true),
            ("mcp__a.b__x", "a.b", false),
            ("mcp__a__x", "a.b", false),
            ("mcp__git", "github", false),
            ("mcp__a-long-name-_0a1b2c", "a-long-name-of-a-server", true),
            ("mcp__a-long-game-_0a1b2c", "a-long-name-of-a-server", false),
        ] {
            assert_eq!(n.may_be_of(exposed, &server(name)), expected, "{exposed} of {name}");
        }
        assert!(naming("{tool}", 64).may_be_of("anything", &server("a")));
    }

    #[test]
    fn a_changed_name_says_why_it_was_changed() {
        let n = naming("{tool}", 16);
        let (a, b, long) = (server("a"), server("b"), "t".repeat(20));
        let tools = [(&a, "x"), (&a, "d.e"), (&a, "y z"), (&a, "y_z"), (&a, &*long), (&b, "x"), (&b, "kept")];
        let table = NameTable::build(&n, &["kept".to_owned()], tools);
        let change = |server, tool| table.change(&n, server, tool).unwrap();
        assert_eq!(change(&a, "x"), NameChange::None);
        assert_eq!(change(&a, "d.e"), NameChange::Characters);
        assert_eq!(change(&a, "y z"), NameChange::Taken(Some((&a, "y_z"))));
        assert_eq!(change(&a, &long), NameChange::Length(20));
        assert_eq!(change(&b, "x"), NameChange::Taken(Some((&a, "x"))));
        assert_eq!(
            change(&b, "kept"),
            NameChange::None,
            "not bound, and what it would be called is as the pattern says"
        );
        assert_eq!(table.change(&n, &b, "nope"), None);
    }

    #[test]
    fn our_own_tools_are_not_bound_over() {
        assert_eq!(names(&naming("{tool}", 64), &[("a", "search_mcp_tools"), ("a", "x")]), ["-", "x"]);
    }

    #[test]
    fn the_hosts_own_tools_are_not_bound_over() {
        let table = NameTable::build(
            &naming("{tool}", 64),
            &["read".to_owned()],
            [(&server("a"), "read"), (&server("a"), "x")],
        );
        assert_eq!(table.exposed(&server("a"), "read"), None);
        assert_eq!(table.unbound().next().unwrap().2, "read");
    }

    proptest! {
        #[test]
        fn every_name_is_unique_valid_within_the_limit_and_leads_back(
            tools in proptest::collection::btree_set(("a|b|a_b", "[ab_. -]{1,12}"), 1..24),
            limit in 16usize..40,
            pattern in proptest::sample::select(vec![
                "mcp__{server}__{tool}", "{server}__{tool}", "{server}_{tool}", "{tool}",
            ]),
        ) {
            let naming = naming(pattern, limit);
            let owned: Vec<_> = tools.iter().map(|(s, t)| (server(s), t.as_str())).collect();
            let table = NameTable::build(&naming, &[], owned.iter().map(|(s, t)| (s, *t)));
            let of = |name| owned.iter().filter(move |(s, _)| s.as_str() == name).rev();
            let shuffled = of("a").chain(of("a_b")).chain(of("b")).map(|(s, t)| (s, *t));
            let shuffled = NameTable::build(&naming, &[], shuffled);
            prop_assert_eq!(&table, &shuffled, "order of lists within a server doesn't matter");
            for (s, t) in &owned {
                if let Some(name) = table.exposed(s, t) {
                    prop_assert!(name.as_str().len() <= limit);
                    prop_assert_eq!(sanitize(name.as_str()), name.as_str());
                    prop_assert_eq!(table.owner(name.as_str()), Some((s, *t)));
                    prop_assert!(naming.may_be_of(name.as_str(), s), "{}", name);
                }
            }
            prop_assert_eq!(table.unbound().count(), 0);
        }
    }
}
