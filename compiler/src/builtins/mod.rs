//! The curated catalogue, as data: what an entry of `mcp_builtins` stands for.
//!
//! Each version is pinned here and changes with a release of ours, never by itself.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// One server of the catalogue.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Builtin {
    /// What it is for.
    pub description: String,
    /// What has to be on PATH: `npx` or `uvx`.
    pub runner: Runner,
    /// The package as its registry names it.
    pub package: String,
    /// The pinned version.
    pub version: String,
    /// Arguments after the package.
    pub args: Vec<String>,
    /// Variables, with their references.
    pub env: BTreeMap<String, String>,
    /// Licence of the package, SPDX.
    pub licence: String,
    /// Where its documentation is.
    pub documentation: String,
    /// Set when upstream no longer maintains it: what to use instead.
    #[serde(default)]
    pub archived: Option<String>,
}

/// The program that fetches and starts a package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runner {
    /// npm's.
    Npx,
    /// uv's.
    Uvx,
}

impl Runner {
    /// The program.
    pub fn command(self) -> &'static str {
        match self {
            Self::Npx => "npx",
            Self::Uvx => "uvx",
        }
    }
}

impl Builtin {
    /// The arguments that start `version` of the package.
    pub fn launch_args(&self, version: &str) -> Vec<String> {
        let mut args = match self.runner {
            Runner::Npx => vec!["-y".to_owned(), format!("{}@{version}", self.package)],
            Runner::Uvx => vec![format!("{}=={version}", self.package)],
        };
        args.extend(self.args.iter().cloned());
        args
    }
}

/// The whole catalogue by name.
pub fn catalogue() -> &'static BTreeMap<String, Builtin> {
    static CATALOGUE: LazyLock<BTreeMap<String, Builtin>> = LazyLock::new(|| {
        serde_json::from_str(include_str!("catalogue.json")).expect("a test reads the catalogue on every build")
    });
    &CATALOGUE
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interpolate::Template;
    use crate::name::ServerName;

    #[test]
    fn every_entry_is_usable() {
        for name in [
            "github",
            "playwright",
            "postgres",
            "slack",
            "gdrive",
            "chrome-devtools",
            "git",
            "fetch",
            "memory",
            "sequential-thinking",
            "time",
            "brave-search",
            "everything",
            "filesystem",
        ] {
            assert!(catalogue().contains_key(name), "{name}");
        }
        for (name, builtin) in catalogue() {
            assert!(ServerName::new(name.as_str()).is_ok(), "{name}");
            assert!(builtin.version.starts_with(|c: char| c.is_ascii_digit()), "{name} is pinned");
            assert!(builtin.documentation.starts_with("https://"), "{name}");
            for text in builtin.args.iter().chain(builtin.env.values()) {
                assert_eq!(Template::parse(text).1, [], "{name}: {text}");
            }
        }
    }

    #[test]
    fn runners_pin_in_their_own_spelling() {
        assert_eq!(catalogue()["memory"].launch_args("1.2.3"), ["-y", "@modelcontextprotocol/server-memory@1.2.3"]);
        assert_eq!(catalogue()["git"].launch_args("1.2.3"), ["mcp-server-git==1.2.3"]);
    }
}
