//! `init`, `add`, `remove`, `import` and `export` as a user types them.

#![expect(clippy::unwrap_used, reason = "an integration test")]

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// What a command did.
struct Ran {
    code: i32,
    out: String,
    err: String,
}

/// A directory with a config in it.
struct Here(tempfile::TempDir);

impl Here {
    fn with(config: &str) -> Self {
        let here = Self(tempfile::tempdir().unwrap());
        here.write("config.yml", config);
        here
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    fn config(&self) -> String {
        std::fs::read_to_string(self.path().join("config.yml")).unwrap()
    }

    fn run(&self, arguments: &[&str]) -> Ran {
        self.run_with(arguments, "")
    }

    fn run_with(&self, arguments: &[&str], stdin: &str) -> Ran {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mcplan"))
            .args(arguments)
            .current_dir(self.path())
            .env_remove("RUST_LOG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that doesn't read may be gone already.
        let _gone = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        let output = child.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Ran { code: output.status.code().unwrap(), out: text(output.stdout), err: text(output.stderr) }
    }
}

const CONFIG: &str = "# ours\nmcp_servers:\n  - name: echo # the first\n    command: mcplan\n    args: [demo-server]\n";

#[test]
fn init_writes_a_config_that_validates_and_never_overwrites_one() {
    let here = Here(tempfile::tempdir().unwrap());
    assert_eq!(here.run(&["init"]).code, 0);
    let checked = here.run(&["validate", "--deny-warnings"]);
    assert_eq!((checked.code, checked.out.as_str()), (0, "config.yml: ok, 0 servers\n"), "{}", checked.err);
    let before = here.config();
    let again = here.run(&["init"]);
    assert_eq!((again.code, here.config() == before), (1, true), "{}", again.err);
    assert_eq!(here.run(&["-c", "other.yml", "init"]).code, 0);
    // A config beside it under the other name counts too.
    let beside = Here(tempfile::tempdir().unwrap());
    beside.write("mcplan.yml", "version: 1\n");
    assert_eq!(beside.run(&["init"]).code, 1);
    assert!(!beside.path().join("config.yml").exists());
    // What is commented out is right too.
    let text = before.replace("\n#  ", "\n   ").replace("\n# mcp_b", "\nmcp_b").replace("\n# prompt", "\nprompt");
    let text = text.replace("_servers: []", "_servers:").replace("denylist: []", "denylist:");
    let full = Here::with(&text);
    let checked = full.run(&["validate"]);
    assert_eq!(checked.out, "config.yml: ok, 4 servers\n", "{text}\n{}", checked.err);
}

#[test]
fn add_and_remove_leave_the_rest_alone() {
    let here = Here::with(CONFIG);
    let shown = here.run(&["add", "fs", "--dry-run", "--", "npx", "-y", "@x/fs@1.0", "${DIR}"]);
    assert_eq!((shown.code, here.config().as_str()), (0, CONFIG), "a dry run writes nothing");
    assert!(shown.out.contains("+    args: [\"-y\", \"@x/fs@1.0\", \"${DIR}\"]"), "{}", shown.out);
    assert_eq!(here.run(&["add", "fs", "--env", "A=b c", "--", "npx", "-y", "@x/fs@1.0", "${DIR}"]).code, 0);
    let local =
        "  - name: fs\n    command: npx\n    args: [\"-y\", \"@x/fs@1.0\", \"${DIR}\"]\n    env:\n      A: b c\n";
    assert_eq!(here.config(), format!("{CONFIG}{local}"));
    assert_eq!(here.run(&["add", "w", "--url", "https://w.dev/mcp", "--header", "X-Mode: fast"]).code, 0);
    let remote = "  - name: w\n    url: https://w.dev/mcp\n    headers:\n      X-Mode: fast\n";
    assert_eq!(here.config(), format!("{CONFIG}{local}{remote}"));
    assert_eq!(here.run(&["add", "--builtin", "git"]).code, 0);
    assert_eq!(here.config(), format!("{CONFIG}{local}{remote}mcp_builtins:\n  - git\n"));
    assert_eq!(here.run(&["remove", "git"]).code, 0);
    assert_eq!(here.run(&["remove", "fs"]).code, 0);
    assert_eq!(here.config(), format!("{CONFIG}{remote}mcp_builtins: []\n"));
}

#[test]
fn what_can_not_be_added_is_said_and_nothing_is_written() {
    let here = Here::with(CONFIG);
    for (arguments, code, said) in [
        (&["add", "echo", "--", "x"][..], 1, "`echo` is in config.yml already"),
        (&["add", "a__b", "--", "x"], 2, "for instance `a_b`"),
        (&["add", "x"], 2, "--url URL, or -- COMMAND ARGS"),
        (&["add", "x", "--url", "nowhere"], 1, "no absolute URL"),
        (&["add", "x", "--env", "A", "--", "y"], 2, "not NAME=VALUE"),
        (&["add", "--builtin", "gitt"], 2, "did you mean `git`?"),
        (&["add", "x", "--header", "A=b", "--", "y"], 2, "'--header <NAME=VALUE>' cannot be used with"),
        (&["add", "x", "--transport", "sse", "--", "y"], 2, "'--transport <TRANSPORT>' cannot be used with"),
        (&["--profile", "prod", "add", "x", "--", "y"], 2, "name the profile's own file with -c (config.prod.yml)"),
        (&["--profile", "prod", "remove", "echo"], 2, "name the profile's own file with -c (config.prod.yml)"),
        (&["remove", "ehco"], 1, "did you mean `echo`?"),
        (&["import", "missing.json"], 2, "missing.json can't be read: no such file"),
        (&["-c", "none.yml", "add", "x", "--", "y"], 2, "none.yml can't be read: no such file; 'mcplan init'"),
    ] {
        let ran = here.run(arguments);
        assert_eq!(ran.code, code, "{arguments:?}: {}", ran.err);
        assert!(ran.err.contains(said), "{arguments:?}: {}", ran.err);
        assert_eq!(here.config(), CONFIG, "{arguments:?}");
    }
    // What can't be edited safely comes as a text to paste.
    let shape = Here::with("x-s: &s\n  - name: a\n    command: b\nmcp_servers: *s\n");
    let ran = shape.run(&["add", "new", "--", "srv"]);
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("alias") && ran.err.contains("  - name: new\n    command: srv\n"), "{}", ran.err);
    assert!(shape.config().starts_with("x-s: &s"));
    // In the words of the file, with the key where there is none.
    let json = Here::with("{ \"version\": 1 }\n");
    let ran = json.run(&["add", "new", "--", "srv"]);
    assert!(
        ran.err.contains("beside the other keys of the file:\n\"mcp_servers\": [\n  {\n    \"name\": \"new\""),
        "{}",
        ran.err
    );
    // Pasted, an entry with an error has it still.
    let faulty = Here::with("{ \"version\": 1 }\n").run(&["add", "x", "--url", "nowhere"]);
    assert!(faulty.err.contains("the file is written in braces"), "{}", faulty.err);
    let faulty = Here::with(CONFIG).run(&["add", "x", "--url", "nowhere"]);
    assert!(faulty.err.contains("error[bad-url]") && !faulty.err.contains("to paste"), "{}", faulty.err);
}

#[test]
fn a_file_that_is_no_yaml_is_shown_with_the_place_and_left_alone() {
    const BROKEN: &str = "mcp_servers:\n  - name: a\n   command: x\n";
    let here = Here::with(BROKEN);
    here.write("their.json", FOREIGN);
    for arguments in [&["add", "b", "--", "x"][..], &["remove", "a"], &["import", "their.json"]] {
        let ran = here.run(arguments);
        assert_eq!((ran.code, here.config().as_str()), (1, BROKEN), "{arguments:?}");
        for part in [
            "error[syntax]: this line is indented by 3 spaces",
            " --> config.yml:3:4\n",
            "error: config.yml has errors and is left as it is: mend them first\n",
        ] {
            assert!(ran.err.contains(part), "{arguments:?}: {}", ran.err);
        }
    }
}

#[test]
fn a_server_of_another_file_is_found_there() {
    let here = Here::with("fragments: [teams/*.yml]\n");
    std::fs::create_dir(here.path().join("teams")).unwrap();
    here.write("teams/a.yml", "mcp_servers:\n  - name: wiki\n    command: ./x\n");
    here.write("config.prod.yml", "mcp_servers:\n  - name: late\n    command: ./y\n");
    for (name, place, file) in
        [("wiki", "teams/a.yml:2:11", "teams/a.yml"), ("late", "config.prod.yml:2:11", "config.prod.yml")]
    {
        let ran = here.run(&["remove", name]);
        assert_eq!(ran.code, 1);
        let advice = format!("it stands in {place}, so run 'mcplan remove {name} -c {file}'\n");
        assert!(ran.err.ends_with(&advice), "{}", ran.err);
        assert_eq!(here.run(&["remove", name, "-c", file]).code, 0, "{name}");
        assert!(here.run(&["remove", name]).err.contains("there is no entry"), "{name}");
    }
}

/// The summary is about servers, and a mistake of the file is none.
#[test]
fn only_entries_are_counted() {
    let here = Here::with(CONFIG);
    let ran = here.run_with(&["import", "-"], "mcp_servers:\n  - name: a\n   command: x\n");
    assert_eq!(ran.code, 1);
    assert!(ran.err.ends_with("no server is added to config.yml\n"), "{}", ran.err);
    let ran = here.run_with(&["import", "-"], "mcp_servers:\n  - name: a\n    command: x\n    command: y\n");
    assert!(ran.code == 1 && ran.err.ends_with("1 of 1 server added to config.yml\n"), "{}", ran.err);
}

/// Of the first value nothing is known any more but the name that it was given.
#[test]
fn a_variable_that_the_config_reads_already_is_said() {
    let here = Here::with(CONFIG);
    let import = |name: &str, token: &str| {
        let text = format!(
            "{{\"mcpServers\": {{\"{name}\": {{\"command\": \"x\", \"env\": {{\"GITHUB_TOKEN\": \"ghp_{token}ijklmnop0123\"}}}}}}}}"
        );
        here.run_with(&["import", "-"], &text).err
    };
    assert!(!import("one", "abcdefgh").contains("already"));
    let second = import("two", "hgfedcba");
    assert!(
        second.contains("note: stdin:1: `${GITHUB_TOKEN}` was in config.yml already: if this is to be another"),
        "{second}"
    );
}

#[test]
fn what_was_imported_gives_no_warning_of_dollars() {
    let here = Here::with(CONFIG);
    let text = r#"{"mcpServers": {"d": {"command": "x", "args": ["$$$ $X pa$$wd a$HOME $home ${"]}}}"#;
    assert_eq!(here.run_with(&["import", "-"], text).code, 0);
    let shown = here.run(&["validate"]);
    assert_eq!((shown.code, &*shown.err), (0, ""), "{}", here.config());
}

#[test]
fn an_entry_that_a_profile_builds_on_is_not_removed() {
    let here = Here::with(CONFIG);
    here.write("config.prod.yml", "mcp_servers:\n  - name: echo\n    env: { X: \"1\" }\n");
    let ran = here.run(&["remove", "echo"]);
    assert_eq!((ran.code, here.config().as_str()), (1, CONFIG), "{}", ran.err);
    assert!(ran.err.contains("config.prod.yml") && ran.err.contains("the config would have new errors"), "{}", ran.err);
    here.write("config.prod.yml", "mcp_servers: []\n");
    assert_eq!(here.run(&["remove", "echo"]).code, 0);
}

#[test]
fn a_config_with_errors_of_its_own_can_still_be_added_to() {
    let here = Here::with("mcp_servers:\n  - name: a\n    comand: x\n");
    let ran = here.run(&["add", "b", "--", "srv"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(here.config().ends_with("  - name: b\n    command: srv\n"));
}

const FOREIGN: &str = r#"{
  "mcpServers": {
    // secrets never come through
    "git hub": { "command": "npx", "args": ["-y", "gh@1.0"], "env": { "GITHUB_TOKEN": "ghp_abcdefghijkl0123" }, "autoApprove": ["x"] },
    "echo": { "command": "other" },
    "bad": { "foo": 1 },
    "wiki": { "type": "http", "url": "https://wiki.dev/mcp", "timeout": 30000, },
  },
}"#;

#[test]
fn import_adds_all_it_can_and_reports_the_rest() {
    let here = Here::with(CONFIG);
    here.write("their.json", FOREIGN);
    let shown = here.run(&["import", "their.json", "--dry-run"]);
    assert_eq!((shown.code, here.config().as_str()), (1, CONFIG));
    assert!(shown.out.starts_with("--- config.yml\n+++ config.yml\n@@"), "{}", shown.out);
    let ran = here.run_with(&["import", "-"], FOREIGN);
    insta::assert_snapshot!(format!("exit {}\n--- stderr\n{}--- config.yml\n{}", ran.code, ran.err, here.config()));
    assert!(!format!("{}{}{}", ran.out, ran.err, here.config()).contains("ghp_"));
    let again = here.run(&["import", "their.json"]);
    assert!(again.err.contains("0 of 4 servers added"), "{}", again.err);
}

#[test]
fn import_of_one_server_takes_a_name_and_nothing_is_an_error() {
    let here = Here::with("version: 1\n");
    let ran = here.run_with(&["import", "-", "--name", "mine"], "{\"command\": \"x\"}");
    assert_eq!((ran.code, here.config().as_str()), (0, "version: 1\nmcp_servers:\n  - name: mine\n    command: x\n"));
    let ran = here.run_with(&["import", "-"], "{\"permissions\": {}}");
    assert_eq!(ran.code, 1);
    assert!(ran.err.contains("stdin:1: no MCP server in this file"), "{}", ran.err);
    let mut utf16 = here.path().join("u.json");
    std::fs::write(&utf16, b"\xff\xfe{\0}\0").unwrap();
    let ran = here.run(&["import", utf16.as_mut_os_string().to_str().unwrap()]);
    assert_eq!(ran.code, 2);
    assert!(ran.err.contains("UTF-16"), "{}", ran.err);
}

#[cfg(unix)]
#[test]
fn a_symlink_stays_one_and_permissions_stay() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let here = Here(tempfile::tempdir().unwrap());
    here.write("real.yml", "version: 1\n");
    let real = here.path().join("real.yml");
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real.yml", here.path().join("config.yml")).unwrap();
    assert_eq!(here.run(&["add", "a", "--", "x"]).code, 0);
    assert!(here.path().join("config.yml").is_symlink());
    assert_eq!(std::fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(std::fs::read_to_string(&real).unwrap().contains("name: a"));
    let names: Vec<_> = std::fs::read_dir(here.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing is left behind: {names:?}");
}

#[test]
fn export_prints_a_file_and_its_notes_apart() {
    let here = Here::with("mcp_servers:\n  - name: a\n    command: x\n    env: { TOKEN: \"${TOKEN}\" }\n");
    let host = here.run(&["export", "--to", "claude-code"]);
    let json: serde_json::Value = serde_json::from_str(&host.out).unwrap();
    let args = json["mcpServers"]["mcplan"]["args"].as_array().unwrap();
    let config = args.last().unwrap().as_str().unwrap();
    assert!(Path::new(config).is_absolute() && config.ends_with("config.yml"), "{config}");
    assert!(host.err.contains("`mcp__mcplan__`") && host.err.contains("naming: \"{server}__{tool}\""), "{}", host.err);
    let direct = here.run(&["export", "--to", "vscode", "--direct"]);
    let json: serde_json::Value = serde_json::from_str(&direct.out).unwrap();
    assert_eq!(json["servers"]["a"]["env"]["TOKEN"], "${input:TOKEN}");
    let codex = here.run(&["export", "--to", "codex", "--direct"]);
    assert!(codex.out.contains("[mcp_servers.a]") && codex.out.contains("env_vars = [\"TOKEN\"]"), "{}", codex.out);
    // And what was printed can be read again.
    let other = Here::with("version: 1\n");
    assert_eq!(other.run_with(&["import", "-"], &direct.out).code, 0);
    assert!(other.config().contains("TOKEN: \"${TOKEN}\""), "{}", other.config());
}
