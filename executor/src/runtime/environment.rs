//! What a child process finds in its environment: an allow-list of ours plus what its entry declares.
//!
//! Works on a given map, never on the process's own environment, so one server's credentials can't reach another by
//! way of a global and every rule can be tested.

use std::collections::BTreeMap;

use mcplan_compiler::plan::Environment;
use mcplan_compiler::secret::name_looks_secret;

/// Variables that `minimal` passes on, beside `LC_*`, `XDG_*_HOME` and the proxies.
const MINIMAL: [&str; 16] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "TERM",
    "TMPDIR",
    "TZ",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "NPM_CONFIG_REGISTRY",
    "NPM_CONFIG_CACHE",
    "UV_INDEX_URL",
    "UV_CACHE_DIR",
];

/// What Windows programs don't start without.
const WINDOWS: [&str; 4] = ["SYSTEMROOT", "APPDATA", "LOCALAPPDATA", "PATHEXT"];

/// In upper case here; the lower-case spelling is as common and passes too.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

/// The variable by which the guard and the executor know each other; nobody else's business.
pub const GUARD: &str = "MCPLAN_GUARD";

/// The environment of a child: what `inherit` lets through of `parent`, and `declared` over it.
pub fn of_child(
    inherit: Environment,
    parent: &BTreeMap<String, String>,
    declared: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut all: BTreeMap<_, _> = parent
        .iter()
        .filter(|(name, _)| name.as_str() != GUARD && passes(inherit, name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    all.extend(declared);
    all
}

fn passes(inherit: Environment, name: &str) -> bool {
    match inherit {
        Environment::Minimal => is_minimal(name),
        // The SSH agent's socket is no secret, but whoever has it can sign.
        Environment::Filtered => !name_looks_secret(&name.to_ascii_uppercase()) && name != "SSH_AUTH_SOCK",
        Environment::All => true,
    }
}

fn is_minimal(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    // Windows doesn't tell `Path` from `PATH`; elsewhere they are two variables.
    let exact = if cfg!(windows) { upper.as_str() } else { name };
    MINIMAL.contains(&exact)
        || (cfg!(windows) && WINDOWS.contains(&exact))
        || exact.starts_with("LC_")
        || (exact.starts_with("XDG_") && exact.ends_with("_HOME"))
        || (PROXIES.contains(&upper.as_str()) && (name == upper || name == upper.to_ascii_lowercase()))
}

/// Passwords inside URLs of the environment (`http://user:password@proxy`), with the variable that holds them.
pub fn url_passwords(environment: &BTreeMap<String, String>) -> Vec<(String, String)> {
    environment
        .iter()
        .filter_map(|(name, value)| {
            let authority = value.split_once("://")?.1.split(['/', '?', '#']).next()?;
            let password = authority.rsplit_once('@')?.0.split_once(':')?.1;
            Some((name.clone(), password.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn names(inherit: Environment, parent: &[(&str, &str)]) -> Vec<String> {
        of_child(inherit, &map(parent), BTreeMap::new()).into_keys().collect()
    }

    const PARENT: &[(&str, &str)] = &[
        ("ANTHROPIC_API_KEY", "k"),
        ("AUTHORIZATION", "a"),
        ("DB_PW", "p"),
        ("DB_PWD", "p"),
        ("EDITOR", "vi"),
        ("GITHUB_TOKEN", "t"),
        ("HOME", "/h"),
        ("HTTPS_PROXY", "http://u:hunter22@p:1"),
        ("LC_ALL", "C"),
        ("LD_PRELOAD", "x"),
        ("PATH", "/bin"),
        ("PWD", "/here"),
        ("SSH_AUTH_SOCK", "/s"),
        ("XDG_CACHE_HOME", "/c"),
        ("XDG_RUNTIME_DIR", "/r"),
        ("http_proxy", "http://p:1"),
        ("Http_Proxy", "odd"),
        ("MCPLAN_GUARD", "7"),
    ];

    #[test]
    fn minimal_is_the_published_list() {
        assert_eq!(
            names(Environment::Minimal, PARENT),
            ["HOME", "HTTPS_PROXY", "LC_ALL", "PATH", "XDG_CACHE_HOME", "http_proxy"]
        );
        for name in MINIMAL {
            assert!(is_minimal(name), "{name}");
        }
    }

    #[test]
    fn filtered_drops_what_looks_like_a_secret() {
        let passed = names(Environment::Filtered, PARENT);
        for name in ["EDITOR", "PWD", "PATH", "XDG_RUNTIME_DIR", "HTTPS_PROXY"] {
            assert!(passed.iter().any(|other| other == name), "{name} is missing in {passed:?}");
        }
        for name in "ANTHROPIC_API_KEY AUTHORIZATION DB_PW DB_PWD GITHUB_TOKEN SSH_AUTH_SOCK MCPLAN_GUARD".split(' ') {
            assert!(!passed.iter().any(|other| other == name), "{name} is in {passed:?}");
        }
    }

    #[test]
    fn all_is_all_but_our_own_mark() {
        assert_eq!(names(Environment::All, PARENT).len(), PARENT.len() - 1);
    }

    #[test]
    fn what_is_declared_wins() {
        let child = of_child(Environment::Minimal, &map(PARENT), map(&[("PATH", "/mine"), ("GITHUB_TOKEN", "mine")]));
        assert_eq!(child["PATH"], "/mine");
        assert_eq!(child["GITHUB_TOKEN"], "mine");
    }

    #[test]
    fn passwords_in_urls_are_found() {
        assert_eq!(url_passwords(&map(PARENT)), [("HTTPS_PROXY".to_owned(), "hunter22".to_owned())]);
        assert_eq!(url_passwords(&map(&[("A", "http://h/p@q:r"), ("B", "user:pw@x"), ("C", "://@")])), []);
    }
}
