//! `mcplan validate --format sarif` and `--format github`: what other programs read. SARIF is held against the official
//! schema, both against what `--format json` says of the same files.

use std::path::Path;
use std::process::{Command, Output};

use mcplan_compiler::code::Code;
use mcplan_compiler::explain::{NEEDS_MORE, explain};
use serde_json::Value;

/// A repository with a config below it.
struct Repository(tempfile::TempDir);

impl Repository {
    fn new(files: &[(&str, &str)]) -> Self {
        let repository = Self(tempfile::tempdir().expect("a temporary directory"));
        for (path, text) in files {
            let path = repository.0.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        repository
    }

    fn validate(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcplan"));
        command.arg("validate").args(arguments).current_dir(self.0.path());
        command.output().expect("mcplan runs")
    }

    fn sarif(&self, arguments: &[&str]) -> Value {
        let output = self.validate(&[&["--format", "sarif"], arguments].concat());
        let log: Value = serde_json::from_slice(&output.stdout).expect("SARIF is JSON");
        assert_fits_schema(&log);
        log
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.validate(&[&["--format", "json"], arguments].concat());
        serde_json::from_slice(&output.stdout).expect("JSON")
    }
}

fn assert_fits_schema(log: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/sarif/schema-2.1.0.json");
    let schema = std::fs::read_to_string(path).expect("the schema");
    // As published, the pattern of languages has a `]` too many, which not every reader of patterns takes.
    let schema = schema.replace("[a-zA-Z]{2}]?$", "[a-zA-Z]{2}$");
    let schema: Value = serde_json::from_str(&schema).expect("JSON");
    let validator = jsonschema::options().should_validate_formats(true).build(&schema).expect("the schema is a schema");
    let errors: Vec<_> = validator.iter_errors(log).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}

const TWICE: &str = "\
mcp:
  timeout_secnds: 5 # é
mcp_servers:
  - name: files
    command: npx
    args: [\"-y\", \"päckage\"]
  - name: files
    url: http://example.com/mcp
    headers: {
      \"a b\": c }
  - url: https://weather.example.com/mcp
    defer: false
";

#[test]
fn results_stand_where_the_json_report_says() {
    let repository = Repository::new(&[("agents/config.yml", TWICE)]);
    let log = repository.sarif(&["./agents/config.yml"]);
    let run = &log["runs"][0];
    assert_eq!(run["columnKind"], "unicodeCodePoints");
    assert_eq!(run["invocations"][0]["executionSuccessful"], true);
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    let json = repository.json(&["./agents/config.yml"]);
    let expected = json["files"][0]["diagnostics"].as_array().expect("diagnostics");
    let results = run["results"].as_array().expect("results");
    assert_eq!(results.len(), expected.len());
    assert!(results.len() >= 5, "{results:#?}");
    for (result, diagnostic) in results.iter().zip(expected) {
        assert_eq!(result["ruleId"], diagnostic["code"]);
        let rule = &rules[result["ruleIndex"].as_u64().expect("an index") as usize];
        assert_eq!(rule["id"], diagnostic["code"]);
        assert_eq!(result["level"], diagnostic["severity"]);
        assert_place(&result["locations"][0], diagnostic);
        let text = result["message"]["text"].as_str().expect("a text");
        assert!(text.starts_with(diagnostic["message"].as_str().expect("a message")), "{text}");
        assert!(diagnostic["help"].as_str().is_none_or(|help| text.ends_with(help)), "{text}");
        let related = diagnostic["related"].as_array().expect("places");
        assert_eq!(result["relatedLocations"].as_array().map_or(0, Vec::len), related.len());
        for (index, place) in related.iter().enumerate() {
            assert_place(&result["relatedLocations"][index], place);
            assert_eq!(result["relatedLocations"][index]["message"]["text"], place["label"]);
        }
    }
}

fn assert_place(location: &Value, place: &Value) {
    let physical = &location["physicalLocation"];
    assert_eq!(physical["artifactLocation"]["uri"], "agents/config.yml");
    for (sarif, json) in
        [("startLine", "line"), ("startColumn", "column"), ("endLine", "end_line"), ("endColumn", "end_column")]
    {
        assert_eq!(physical["region"][sarif], place[json], "{sarif}");
    }
}

#[test]
fn every_rule_says_what_it_means() {
    let by_config = Code::ALL.iter().filter(|code| !NEEDS_MORE.contains(code));
    let examples: Vec<_> = by_config.filter_map(|code| Some((*code, explain(*code).example?))).collect();
    let mut files = Vec::new();
    for (code, example) in &examples {
        files.push((format!("{code}/config.yml"), example.wrong.config.as_str()));
        files.extend(example.wrong.beside.iter().map(|(path, text)| (format!("{code}/{path}"), text.as_str())));
    }
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
    let configs: Vec<_> = files.iter().map(|(path, _)| *path).filter(|path| path.ends_with("config.yml")).collect();
    let log = Repository::new(&files).sarif(&configs);
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().expect("rules");
    assert_eq!(rules.len(), examples.len(), "each code occurs, each once");
    for rule in rules {
        let code = mcplan_compiler::explain::find(rule["id"].as_str().expect("a word")).expect("a code");
        assert_eq!(rule["defaultConfiguration"]["level"], code.severity().word());
        assert_eq!(rule["shortDescription"]["text"], code.summary());
        assert!(rule["help"]["markdown"].as_str().is_some_and(|text| text.contains("```yaml")), "{rule}");
    }
    for result in log["runs"][0]["results"].as_array().expect("results") {
        let path = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"].as_str().expect("a path");
        let folder = result["ruleId"].as_str().expect("a word");
        let inside = path.strip_prefix(folder).expect("a file of that example");
        // What is wrong with a template or a fragment stands there, which the config names relative to itself.
        let wrong_inside = match folder {
            "bad-template" => "/prompts/tools.j2",
            "not-in-fragment" => "/team.yml",
            _ => "/config.yml",
        };
        assert_eq!(inside, wrong_inside, "{folder}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_said_in_every_format() {
    let repository = Repository::new(&[("good.yml", "mcp_servers: []\n")]);
    let files = ["good.yml", "gone.yml"];
    let log = repository.sarif(&files);
    let invocation = &log["runs"][0]["invocations"][0];
    assert_eq!(invocation["executionSuccessful"], false);
    let notification = &invocation["toolExecutionNotifications"][0];
    assert_eq!(notification["locations"][0]["physicalLocation"]["artifactLocation"]["uri"], "gone.yml");
    let output = repository.validate(&[&["--format", "github"], &files[..]].concat());
    let shown = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(shown, "::error file=gone.yml::gone.yml can't be read: no such file\n");
    for format in ["sarif", "github", "json"] {
        assert_eq!(repository.validate(&["--format", format, "good.yml", "gone.yml"]).status.code(), Some(2));
    }
}

#[test]
fn paths_are_relative_to_where_mcplan_runs() {
    let repository = Repository::new(&[("a dir/config#1.yml", "mcp: { defre: true }\n")]);
    let absolute = repository.0.path().canonicalize().expect("it is there").join("a dir/config#1.yml");
    let uri = |log: &Value| {
        let location = &log["runs"][0]["results"][0]["locations"][0];
        location["physicalLocation"]["artifactLocation"]["uri"].as_str().expect("a URI").to_owned()
    };
    for given in ["a dir/config#1.yml", absolute.to_str().expect("UTF-8")] {
        assert_eq!(uri(&repository.sarif(&[given])), "a%20dir/config%231.yml", "{given}");
    }
    let elsewhere = Repository::new(&[]);
    let outside = uri(&elsewhere.sarif(&[absolute.to_str().expect("UTF-8")]));
    assert!(outside.starts_with("file:///") && outside.ends_with("/a%20dir/config%231.yml"), "{outside}");
}

#[test]
fn denied_warnings_are_errors_everywhere() {
    let repository = Repository::new(&[("config.yml", "mcp_servers: [{ name: a, command: npx, args: [-y, b] }]\n")]);
    assert_eq!(repository.sarif(&[])["runs"][0]["results"][0]["level"], "warning");
    assert_eq!(repository.sarif(&["--deny-warnings"])["runs"][0]["results"][0]["level"], "error");
    for (arguments, start, status) in [(&[][..], "::warning ", 0), (&["--deny-warnings"][..], "::error ", 1)] {
        let output = repository.validate(&[&["--format", "github"], arguments].concat());
        assert!(output.stdout.starts_with(start.as_bytes()), "{output:?}");
        assert_eq!(output.status.code(), Some(status));
    }
    let human = repository.validate(&["--deny-warnings"]);
    assert!(String::from_utf8_lossy(&human.stderr).starts_with("error[unpinned]: "), "{human:?}");
}

/// A workflow command as the runner reads it: its name, its properties, its message.
fn command(line: &str) -> (String, Vec<(String, String)>, String) {
    let plain = |text: &str| {
        text.replace("%2C", ",").replace("%3A", ":").replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")
    };
    let (head, message) = line.strip_prefix("::").and_then(|line| line.split_once("::")).expect("a command");
    let (name, properties) = head.split_once(' ').expect("properties");
    let properties = properties.split(',').map(|property| {
        let (key, value) = property.split_once('=').expect("a value");
        (key.to_owned(), plain(value))
    });
    (name.to_owned(), properties.collect(), plain(message))
}

#[test]
fn annotations_say_what_the_json_report_says() {
    // Everything that a command must escape, in the path and in the message.
    let path = "a,b:c%2C.yml";
    let odd = "mcp:\n  \"100%\\r::x, y: z\": 1\n";
    let repository = Repository::new(&[(path, odd), ("twice.yml", TWICE)]);
    let output = repository.validate(&["--format", "github", path, "twice.yml"]);
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout).expect("UTF-8");
    let commands: Vec<_> = shown.lines().map(command).collect();
    let json = repository.json(&[path, "twice.yml"]);
    let expected: Vec<&Value> = json["files"]
        .as_array()
        .expect("files")
        .iter()
        .flat_map(|f| f["diagnostics"].as_array().expect("a list"))
        .collect();
    assert_eq!(commands.len(), expected.len(), "{shown}");
    let mut spanning = 0;
    for ((name, properties, message), diagnostic) in commands.iter().zip(expected) {
        let severity = diagnostic["severity"].as_str().expect("a word");
        assert_eq!(name, if severity == "note" { "notice" } else { severity });
        let is_one_line = diagnostic["line"] == diagnostic["end_line"];
        let columns = [("col", "column"), ("endColumn", "end_column")].into_iter().filter(|_| is_one_line);
        let places = [("file", "path"), ("line", "line"), ("endLine", "end_line"), ("title", "code")];
        let wanted: Vec<_> = places.into_iter().chain(columns).collect();
        spanning += usize::from(!is_one_line);
        assert_eq!(properties.len(), wanted.len(), "{properties:?}");
        for (key, field) in wanted {
            let value = diagnostic[field].as_str().map_or_else(|| diagnostic[field].to_string(), str::to_owned);
            assert!(properties.contains(&(key.to_owned(), value)), "{key}: {properties:?} {diagnostic}");
        }
        assert!(message.starts_with(diagnostic["message"].as_str().expect("a text")), "{message}");
        assert!(diagnostic["help"].as_str().is_none_or(|help| message.ends_with(help)), "{message}");
    }
    let duplicate = commands.iter().find(|(_, _, message)| message.contains("two servers")).expect("it is there");
    assert!(duplicate.2.contains("\ntwice.yml:4:11: first here\n"), "{}", duplicate.2);
    assert!(spanning > 0, "no place that spans lines: {shown}");
}
