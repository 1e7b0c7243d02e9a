//! What the tests of the real binary share: a directory with a config, a client on `mcplan run --stdio`, and a server
//! that does what a script says. Nothing here sleeps; whatever is waited for is a line, an end of a process or a pipe.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used, reason = "each test file uses its part")]

pub mod client;
pub mod fault;
pub mod http;
pub mod remote;
pub mod server;
pub mod stage;
pub mod stream;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Map, Value, json};

/// Until something that must happen counts as not happening. Generous: a busy machine is no failure.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// A directory with a config in it.
pub struct Project {
    directory: tempfile::TempDir,
    /// Where its executors have their control sockets.
    runtime: tempfile::TempDir,
}

impl Project {
    /// With this `config.yml`.
    pub fn new(config: &str) -> Self {
        let project = Self { directory: tempfile::tempdir().unwrap(), runtime: tempfile::tempdir().unwrap() };
        project.write("config.yml", config);
        project
    }

    pub fn path(&self, name: &str) -> PathBuf {
        // As the processes see it, so that paths can be compared.
        self.directory.path().canonicalize().unwrap().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// As editors do: a new file takes the old one's place.
    pub fn replace(&self, name: &str, text: &str) {
        self.write(".new", text);
        std::fs::rename(self.path(".new"), self.path(name)).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// What is in a file by now, which may not be there yet.
    pub fn read_so_far(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    pub fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// A pipe with a name: whoever opens one end waits for the other.
    pub fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        path
    }

    /// `mcplan ARGS` in this directory, not started yet.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = mcplan(args);
        command.current_dir(self.path("")).env("XDG_RUNTIME_DIR", self.runtime.path());
        command
    }

    /// The names of the control sockets that are there.
    pub fn sockets(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.runtime.path().join("mcplan")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// The one control socket that is there.
    pub fn socket(&self) -> PathBuf {
        let names = self.sockets();
        assert_eq!(names.len(), 1, "{names:?}");
        self.runtime.path().join("mcplan").join(&names[0])
    }

    /// Runs `mcplan ARGS` in this directory to its end.
    pub fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).stdin(Stdio::null()).output().unwrap())
    }

    /// Locks and expects that to work.
    pub fn lock(&self) -> String {
        let ran = self.run(&["lock"]);
        assert_eq!(ran.code, 0, "{ran:?}");
        self.read("config.lock.json")
    }
}

/// The binary, without what a developer's shell may have set.
pub fn mcplan(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcplan"));
    command.args(args);
    for name in ["RUST_LOG", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "RUST_BACKTRACE"] {
        command.env_remove(name);
    }
    command
}

/// What a finished command left.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Ran {
    pub fn of(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap_or(-1);
        Self { code, out: text(output.stdout), err: text(output.stderr) }
    }

    /// For a snapshot: exit code and both streams, with `directory` and version taken out.
    pub fn shown(&self) -> String {
        format!("exit {}\n--- stdout\n{}--- stderr\n{}", self.code, self.out, self.err)
    }
}

/// A server entry whose process does what `script` says (see [`server`]); `more` is merged into the entry.
pub fn scripted(name: &str, script: &Value, more: Value) -> Value {
    // The test harness talks on stdout, so the server gets the real one under another number.
    let start = r#"exec "$0" script_server --ignored --exact --nocapture --test-threads=1 3>&1 >/dev/null"#;
    let own = std::env::current_exe().unwrap();
    let mut entry = json!({
        "name": name, "command": "sh", "args": ["-c", start, own], "env": { "SCRIPT": script.to_string() },
    });
    merge(&mut entry, more);
    entry
}

/// A server entry of the demo server.
pub fn demo(name: &str, arguments: &[&str], more: Value) -> Value {
    let args: Vec<_> = std::iter::once("demo-server").chain(arguments.iter().copied()).collect();
    let mut entry = json!({ "name": name, "command": "mcplan", "args": args });
    merge(&mut entry, more);
    entry
}

fn merge(into: &mut Value, more: Value) {
    if let Value::Object(more) = more {
        for (key, value) in more {
            match (into.get_mut(&key), value) {
                (Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
                (_, value) => into[key] = value,
            }
        }
    }
}

/// A config with these servers; `more` are further keys of the file.
pub fn config(servers: &[Value], more: Value) -> String {
    let mut whole = Map::from_iter([("mcp_servers".to_owned(), json!(servers))]);
    if let Value::Object(more) = more {
        whole.extend(more);
    }
    serde_json::to_string_pretty(&whole).unwrap()
}

/// Opens a named pipe's other end and closes it again, which lets go whoever waits for it.
pub fn release(pipe: &Path) {
    drop(std::fs::OpenOptions::new().write(true).open(pipe).unwrap());
}
