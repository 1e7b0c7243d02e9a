//! What to do about a server that can't be connected, in a sentence.

use mcplan_compiler::diagnostic::shown;
use mcplan_compiler::interpolate::Template;
use mcplan_compiler::package::program;
use mcplan_compiler::plan::{Launch, Server};

use crate::cli::project::word;
use crate::runtime::connection::ConnectError;
use crate::runtime::secrets::SecretError;

/// The fix for a fault.
pub(super) fn fix(server: &Server, error: &ConnectError) -> String {
    match error {
        ConnectError::Secret(secret) => of_secret(secret),
        ConnectError::NotFound { cause, .. } => of_command(&cause.program, cause.searched.is_some()),
        ConnectError::Directory { .. } => "make the directory, or correct `cwd`".to_owned(),
        ConnectError::Spawn { .. } => {
            "see that the file is a program for this machine and that you may execute it".to_owned()
        }
        ConnectError::Unfit { .. } => "see that the file is whole and meant for this machine, and what its first line names".to_owned(),
        ConnectError::Exited { exit, stderr, .. } => of_exit(server, exit.code, stderr),
        ConnectError::HungUp { .. } => format!(
            "a server must keep its stdout open for MCP: see whether {} needs an argument to speak MCP over stdio, such as `stdio`",
            by_hand(server)
        ),
        ConnectError::TimedOut { seconds, .. } => format!(
            "raise `timeout_seconds` of this server, which is {seconds} now, if it only needs longer, as at a first start that downloads something; {}",
            match &server.launch {
                Launch::Stdio(_) => format!("if it never answers, {} may not speak MCP over stdio", by_hand(server)),
                _ => "if it never answers, the address in `url` may be another one's".to_owned(),
            }
        ),
        ConnectError::Unauthorized { status, sent, .. } => of_credentials(*status, sent),
        ConnectError::Status { status, .. } => of_status(*status),
        ConnectError::Unreachable { cause, .. } => of_network(cause),
        ConnectError::Refused { .. } => {
            "the server itself refuses: see what it asks for, in its message or its documentation".to_owned()
        }
        ConnectError::Version { .. } => "use a version of the server that speaks one of the supported revisions".to_owned(),
        ConnectError::Header(_) => "correct `headers`, or the value of the variable that it takes".to_owned(),
        ConnectError::Url { .. } => "correct `url`".to_owned(),
        ConnectError::Protocol { .. } | ConnectError::Malformed { .. } => match &server.launch {
            Launch::Stdio(_) => format!("see whether {} is an MCP server at all", by_hand(server)),
            _ => "see that `url` is the address at which the server speaks MCP, often one that ends in /mcp, and not a web page".to_owned(),
        },
        _ => "see `url` and `transport` of this server".to_owned(),
    }
}

fn of_secret(error: &SecretError) -> String {
    match error {
        SecretError::Unset { variable, .. } => format!(
            "set {variable} in the environment that mcplan is started in, or write `${{{variable}:-TEXT}}` if it may be missing"
        ),
        SecretError::Required { variable, .. } => {
            format!("set {variable} in the environment that mcplan is started in")
        }
        SecretError::File { path, .. } => format!("put the file at {path}, or correct the reference"),
    }
}

/// How to come by a program.
fn of_command(command: &str, was_searched: bool) -> String {
    if !was_searched && command.contains('/') {
        return "correct the path in `command`, or make the file executable with chmod +x".to_owned();
    }
    let install = match program(command) {
        "npx" | "npm" | "node" => "install Node.js, which has npx: https://nodejs.org",
        "uvx" | "uv" => "install uv, which has uvx: https://docs.astral.sh/uv",
        "docker" => "install Docker, and see that you may use it: https://docs.docker.com/get-docker",
        "podman" => "install Podman: https://podman.io",
        "bunx" | "bun" => "install Bun: https://bun.sh",
        "pnpx" | "pnpm" => "install pnpm: https://pnpm.io",
        "yarn" => "install Yarn: https://yarnpkg.com",
        "deno" => "install Deno: https://deno.com",
        "pipx" => "install pipx: https://pipx.pypa.io",
        "python" | "python3" => "install Python: https://www.python.org",
        "go" => "install Go: https://go.dev",
        "dotnet" => "install .NET: https://dotnet.microsoft.com",
        "java" => "install a Java runtime: https://adoptium.net",
        _ => "install it",
    };
    format!("{install}; where it is installed already, write its full path as `command`, or set PATH in `env`")
}

fn of_exit(server: &Server, code: Option<i32>, stderr: &[String]) -> String {
    let said = stderr.join("\n").to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
    if says(&["e404", "404 not found - get", "was not found in the package registry", "pull access denied"]) {
        return "correct the name of the package or image in `args`: the registry doesn't know it".to_owned();
    }
    if says(&["enotfound", "eai_again", "dns error", "network is unreachable", "could not resolve"]) {
        return "see that this machine reaches the package registry, also through the proxy if it needs one".to_owned();
    }
    if says(&["docker daemon", "docker.sock"]) {
        return "start Docker, and see that you may use it".to_owned();
    }
    if code == Some(0) {
        return format!(
            "it ended without an error: see whether {} needs an argument to stay and speak MCP over stdio, such as `stdio`",
            by_hand(server)
        );
    }
    if stderr.is_empty() {
        return format!("start it by hand to see why it ends: {}", by_hand(server));
    }
    format!("mend what it says in its last words; by hand it is started with {}", by_hand(server))
}

fn of_credentials(status: u16, sent: &[String]) -> String {
    match (status, sent.is_empty()) {
        (_, true) => {
            "give it a token: `headers: { Authorization: \"Bearer ${TOKEN}\" }`, with TOKEN set in the environment"
                .to_owned()
        }
        (403, false) => {
            "it knows the token and doesn't allow it this: give the token the rights that the server asks for"
                .to_owned()
        }
        (_, false) => {
            "see that the value is a token of this server and has not expired, and that the header is the one it takes"
                .to_owned()
        }
    }
}

fn of_status(status: u16) -> String {
    match status {
        300..=399 => {
            "write the address that it sends us to as `url`: it isn't followed, since it would get our headers"
        }
        404 => "correct the path of `url`: nothing is there; many servers speak MCP at /mcp",
        405 => "correct `url`, or use the `transport` that the server offers: it takes no messages there",
        408 | 425 | 429 => "wait and try again: it has too much to do",
        500..=599 => "see the server's own log, or try again later: the fault is there",
        _ => "see the server's documentation for the address and the headers that it takes",
    }
    .to_owned()
}

fn of_network(cause: &str) -> String {
    let cause = cause.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| cause.contains(word));
    if says(&["does not speak tls", "corrupt message", "invalidcontenttype", "wrong version number"]) {
        return "write http:// in `url`, or the port that speaks TLS: this one doesn't".to_owned();
    }
    if says(&["certificate", "unknownissuer", "self-signed", "tls", "handshake"]) {
        return "trust the authority that signed its certificate: name a PEM file with the authority in `mcp.ca_bundle`, or in the variable SSL_CERT_FILE".to_owned();
    }
    if says(&["dns", "lookup", "name or service not known", "nodename"]) {
        return "correct the host in `url`: nobody knows a machine of that name".to_owned();
    }
    if says(&["refused"]) {
        return "start the server, or correct host and port in `url`: nothing listens there".to_owned();
    }
    "see that this machine reaches the host in `url`, also through the proxy if it needs one".to_owned()
}

/// The command line as the config writes it: references, never values.
fn by_hand(server: &Server) -> String {
    let Launch::Stdio(stdio) = &server.launch else { return format!("`{}`", server.name) };
    let words: Vec<_> = std::iter::once(&stdio.command).chain(&stdio.args).map(for_shell).collect();
    format!("`{}`", shown(&words.join(" ")))
}

/// A word of a launch as a shell takes it: what is text here is text there, and references look up the same variables.
fn for_shell(written: &Template) -> String {
    match written.as_literal() {
        Some(text) => word(&text),
        None => format!("\"{written}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_can_be_pasted_into_a_shell() {
        for (written, expected) in [
            ("npx", "npx"),
            ("kill -SEGV $$$$", r#""kill -SEGV \$\$""#),
            ("it's", r#""it's""#),
            ("${HOME}/my notes", r#""${HOME}/my notes""#),
        ] {
            assert_eq!(for_shell(&Template::parse(written).0), expected);
        }
    }

    #[test]
    fn a_missing_program_is_installed_by_its_name() {
        assert!(of_command("npx", true).starts_with("install Node.js, which has npx: https://nodejs.org; "));
        assert!(of_command("uvx", true).starts_with("install uv, which has uvx"));
        assert!(of_command("mine", true).starts_with("install it; where it is installed"));
        assert!(of_command("./bin/mine", false).starts_with("correct the path in `command`"));
    }

    #[test]
    fn each_way_the_network_fails_has_its_own_fix() {
        for (cause, start) in [
            ("invalid peer certificate: UnknownIssuer", "trust the authority"),
            ("received corrupt message of type InvalidContentType", "write http:// in `url`"),
            ("it does not speak TLS there; if it is a server without it", "write http:// in `url`"),
            ("failed to lookup address information: Name or service not known", "correct the host"),
            ("Connection refused (os error 111)", "start the server"),
            ("operation timed out", "see that this machine reaches"),
        ] {
            assert!(of_network(cause).starts_with(start), "{cause}: {}", of_network(cause));
        }
    }

    #[test]
    fn each_status_has_its_own_fix() {
        for (status, start) in [
            (307, "write the address"),
            (404, "correct the path"),
            (405, "correct `url`, or use the `transport`"),
            (429, "wait"),
            (503, "see the server's own log"),
            (418, "see the server's documentation"),
        ] {
            assert!(of_status(status).starts_with(start), "{status}");
        }
        assert!(of_credentials(401, &[]).starts_with("give it a token"));
        assert!(of_credentials(401, &["the header `X`".to_owned()]).starts_with("see that the value"));
        assert!(of_credentials(403, &["the header `X`".to_owned()]).starts_with("it knows the token"));
    }
}
