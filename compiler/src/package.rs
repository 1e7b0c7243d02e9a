//! What a launch fetches before it runs: the package or image that its command line names.
//!
//! Knows the launchers of the field (`npx`, `uvx`, `docker run` …) and which of their options take a value; knows no
//! registry and asks none. Lints say whether what is named is pinned, derived names say what it is called.

/// Where a launch fetches from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    /// npm's, with `npx` and its relatives.
    Npm,
    /// Python's, with `uvx` and `pipx`.
    PyPi,
    /// npm's or JSR's, by `npm:x` and `jsr:@x/y`, with `deno run`.
    Deno,
    /// One of container images, with `docker run`.
    Image,
}

/// A package or image as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched<'a> {
    /// Where it comes from.
    pub registry: Registry,
    /// The name, with what is said about its version.
    pub text: &'a str,
    /// Which of the arguments holds it, from 0.
    pub at: usize,
}

/// The package or image that a command line fetches; `None` where it starts what is there already.
pub fn fetched<'a>(command: &str, args: &[&'a str]) -> Option<Fetched<'a>> {
    if let Some(at) = script_of(command, args) {
        return in_script(args[at]).map(|fetched| Fetched { at, ..fetched });
    }
    let (registry, rest) = runner(program(command), args)?;
    let named = registry.naming_options();
    let mut rest = rest.iter().copied().zip(args.len() - rest.len()..);
    while let Some((text, at)) = rest.next() {
        let (option, joined) = text.split_once('=').map_or((text, None), |(option, value)| (option, Some(value)));
        if named.contains(&option) {
            let (text, at) = joined.map(|value| (value, at)).or_else(|| rest.next())?;
            return Some(Fetched { registry, text, at });
        }
        if registry.value_options().contains(&text) {
            rest.next();
        } else if !text.starts_with('-') {
            return Some(Fetched { registry, text, at });
        }
    }
    None
}

/// The argument that a shell reads as a script: the one behind `-c`, `-lc` and their like.
fn script_of(command: &str, args: &[&str]) -> Option<usize> {
    if !["sh", "bash", "zsh", "dash", "ksh", "fish"].contains(&program(command)) {
        return None;
    }
    let takes = |arg: &&str| arg.starts_with('-') && !arg.starts_with("--") && arg.ends_with('c');
    let flag = args.iter().position(takes).filter(|at| args[..*at].iter().all(|arg| arg.starts_with('-')))?;
    (flag + 1 < args.len()).then_some(flag + 1)
}

/// What the first command of a script that fetches anything fetches. Of a script only plain words are understood.
fn in_script(script: &str) -> Option<Fetched<'_>> {
    script.split(['\n', ';', '&', '|']).find_map(|command| {
        let words = command.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
        let is_before =
            |word: &&str| *word == "exec" || word.split_once('=').is_some_and(|(name, _)| is_variable(name));
        let words: Vec<_> = words.skip_while(is_before).collect();
        let (program, args) = words.split_first()?;
        fetched(program, args)
    })
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// The program's own name: `C:\tools\npx.cmd` is `npx`.
pub fn program(command: &str) -> &str {
    let base = command.rsplit(['/', '\\']).next().unwrap_or(command);
    [".cmd", ".exe", ".bat"].iter().find_map(|ending| base.strip_suffix(ending)).unwrap_or(base)
}

/// The registry that a command line fetches from, and its words after the launcher's own.
fn runner<'a, 'b>(program: &str, args: &'b [&'a str]) -> Option<(Registry, &'b [&'a str])> {
    match program {
        "npx" | "bunx" | "pnpx" => Some((Registry::Npm, args)),
        "uvx" => Some((Registry::PyPi, args)),
        "npm" => after(args, &["exec", "x"]).map(|rest| (Registry::Npm, rest)),
        "pnpm" | "yarn" => after(args, &["dlx"]).map(|rest| (Registry::Npm, rest)),
        "deno" => after(args, &["run"]).map(|rest| (Registry::Deno, rest)),
        "bun" => after(args, &["x"]).map(|rest| (Registry::Npm, rest)),
        "pipx" => after(args, &["run"]).map(|rest| (Registry::PyPi, rest)),
        "uv" => after(after(args, &["tool"])?, &["run"]).map(|rest| (Registry::PyPi, rest)),
        "docker" | "podman" => {
            let args = after(args, &["container"]).unwrap_or(args);
            after(args, &["run"]).map(|rest| (Registry::Image, rest))
        }
        "cmd" => match after(args, &["/c", "/C"])? {
            [inner, rest @ ..] => runner(self::program(inner), rest),
            [] => None,
        },
        _ => None,
    }
}

fn after<'a, 'b>(args: &'b [&'a str], words: &[&str]) -> Option<&'b [&'a str]> {
    let (first, rest) = args.split_first()?;
    words.contains(first).then_some(rest)
}

impl Registry {
    /// Options whose value is what is fetched; the first plain word is then only the program in it.
    fn naming_options(self) -> &'static [&'static str] {
        match self {
            Self::Npm => &["--package", "-p"],
            Self::PyPi => &["--from", "--spec"],
            Self::Deno | Self::Image => &[],
        }
    }

    /// Other options that take the next word as their value.
    fn value_options(self) -> &'static [&'static str] {
        match self {
            Self::Deno => &["--config", "-c", "--import-map", "--lock", "--cert", "--env-file", "--location", "--seed"],
            Self::Npm => &["--registry", "--cache", "--userconfig", "--prefix", "--loglevel"],
            Self::PyPi => &[
                "--python",
                "-p",
                "--with",
                "--with-editable",
                "--with-requirements",
                "--index",
                "--index-url",
                "--default-index",
                "--extra-index-url",
                "--directory",
                "--project",
                "--env-file",
            ],
            Self::Image => &[
                "-e",
                "--env",
                "--env-file",
                "-v",
                "--volume",
                "--mount",
                "--name",
                "-p",
                "--publish",
                "--network",
                "--net",
                "-w",
                "--workdir",
                "-u",
                "--user",
                "--platform",
                "--entrypoint",
                "-l",
                "--label",
                "--add-host",
                "-m",
                "--memory",
                "--cpus",
                "-h",
                "--hostname",
                "--pull",
                "--restart",
                "--gpus",
                "--device",
                "--ipc",
                "--shm-size",
                "--tmpfs",
                "--dns",
                "--cap-add",
                "--cap-drop",
                "--security-opt",
                "--ulimit",
            ],
        }
    }
}

impl Fetched<'_> {
    /// Whether it names a folder, an address or a variable, of which nothing can be said.
    pub fn is_elsewhere(&self) -> bool {
        self.text.starts_with(['.', '/', '~'])
            || ["://", "${", "$<"].iter().any(|part| self.text.contains(part))
            || match self.registry {
                Registry::Image => false,
                // A script of one's own is no package.
                Registry::Deno => !self.text.starts_with("npm:") && !self.text.starts_with("jsr:"),
                Registry::Npm | Registry::PyPi => self.text.contains(':'),
            }
    }

    /// What to write in place of a repository of source code that names no commit; `None` for everything else.
    pub fn repository_without_commit(&self) -> Option<String> {
        let text = self.text;
        if ["${", "$<"].iter().any(|part| text.contains(part)) {
            return None;
        }
        let is_short = ["github:", "gitlab:", "bitbucket:", "gist:"].iter().any(|host| text.starts_with(host));
        let is_git = text.starts_with("git+") || text.starts_with("git://");
        match self.registry {
            Registry::Npm if (is_short || is_git) && !text.contains('#') => Some(format!("{text}#COMMIT")),
            // A name may come before it: `mcp-x @ git+https://…`. An `@` before the host is a user's.
            Registry::PyPi => {
                let url = &text[text.find("git+")?..];
                let path =
                    url.split_once("://").map_or(url, |(_, rest)| rest).split_once('/').map_or("", |(_, path)| path);
                (!path.contains('@')).then(|| format!("{text}@COMMIT"))
            }
            _ => None,
        }
    }

    /// Whether it names one version for ever.
    pub fn is_pinned(&self) -> bool {
        let digit = |version: &str| version.starts_with(|c: char| c.is_ascii_digit()) && !version.contains(['*', '|']);
        match self.registry {
            Registry::Npm | Registry::Deno => self.parts().1.is_some_and(|version| {
                // `@1` and `@1.2` are ranges.
                let version = version.trim_start_matches('v');
                digit(version) && version.split(['-', '+']).next().unwrap_or_default().split('.').count() >= 3
            }),
            Registry::PyPi => {
                let exact = self.text.split_once("==").or_else(|| self.text.split_once('@'));
                exact.is_some_and(|(_, version)| digit(version) && !version.contains(','))
            }
            Registry::Image => {
                self.text.contains("@sha256:")
                    || self
                        .parts()
                        .1
                        .is_some_and(|tag| !["latest", "main", "master", "edge", "nightly", "stable"].contains(&tag))
            }
        }
    }

    /// What to write in its place, with `VERSION` where the version goes.
    pub fn pinned_form(&self) -> String {
        let bare = self.parts().0;
        match self.registry {
            Registry::Npm | Registry::Deno => format!("{bare}@VERSION"),
            Registry::PyPi => format!("{bare}==VERSION"),
            Registry::Image => format!("{bare}:VERSION"),
        }
    }

    /// The version that it is pinned to; `None` where it isn't, or by a digest.
    pub fn version(&self) -> Option<&str> {
        let said = self.parts().1.filter(|_| self.is_pinned() && !self.is_elsewhere())?;
        let version = said.trim_start_matches('=').trim();
        version.starts_with(|c: char| c.is_ascii_digit()).then_some(version)
    }

    /// The name alone, and what follows it about the version.
    pub fn parts(&self) -> (&str, Option<&str>) {
        let text = self.text;
        let cut = match self.registry {
            Registry::Npm => text.rfind('@').filter(|at| *at > 0),
            // `npm:@scope/x` has an `@` of its own.
            Registry::Deno => text.rfind('@').filter(|at| !text[..*at].ends_with([':', '/'])),
            Registry::PyPi => text.find(['=', '<', '>', '!', '~', '@', ';', ' ']),
            // A colon before a slash is a port.
            Registry::Image => text.find('@').or_else(|| text.rfind(':').filter(|colon| !text[*colon..].contains('/'))),
        };
        cut.map_or((text, None), |at| (&text[..at], Some(&text[at + 1..])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_version_is_read_where_there_is_one() {
        for (line, expected) in [
            ("npx -y @scope/server@2026.8.31 .", Some("2026.8.31")),
            ("npx -y --package=@scope/server@1.2.3 server", Some("1.2.3")),
            ("uvx mcp-server-git==2026.1.14", Some("2026.1.14")),
            ("uvx --from mcp==1.9 mcp-run", Some("1.9")),
            ("docker run -i --rm ghcr.io/a/b:1.4.0", Some("1.4.0")),
            ("docker run ghcr.io/a/b@sha256:0123", None),
            ("npx -y server", None),
            ("npx -y server@latest", None),
            ("npx -y server@^1.2.0", None),
            ("uvx mcp-server-git>=2", None),
            ("npx -y ./server@1.2.3", None),
            ("node server.js", None),
        ] {
            let mut words = line.split(' ');
            let command = words.next().unwrap();
            let args: Vec<_> = words.collect();
            assert_eq!(
                fetched(command, &args).and_then(|f| f.version().map(str::to_owned)).as_deref(),
                expected,
                "{line}"
            );
        }
    }

    #[test]
    fn a_repository_is_pinned_by_a_commit() {
        for (line, expected) in [
            ("npx -y github:a/b", Some("github:a/b#COMMIT")),
            ("npx -y github:a/b#0123abc", None),
            ("npx git+https://g.example/a/b.git", Some("git+https://g.example/a/b.git#COMMIT")),
            ("uvx --from git+https://g.example/a/b x", Some("git+https://g.example/a/b@COMMIT")),
            ("uvx --from git+ssh://git@g.example/a/b x", Some("git+ssh://git@g.example/a/b@COMMIT")),
            ("uvx --from git+https://g.example/a/b@v1.2 x", None),
            ("uvx --from ${SOURCE} x", None),
            ("npx -y ./here", None),
            ("npx -y server", None),
        ] {
            let mut words = line.split(' ');
            let command = words.next().unwrap();
            let args: Vec<_> = words.collect();
            let found = fetched(command, &args).and_then(|fetched| fetched.repository_without_commit());
            assert_eq!(found.as_deref(), expected, "{line}");
        }
    }
}
