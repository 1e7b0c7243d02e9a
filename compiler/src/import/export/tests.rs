//! What is exported comes back as it was, as far as both can say it.

use std::collections::BTreeMap;

use super::*;
use crate::edit::{List, add};
use crate::import::import;
use crate::interpolate::Template;
use crate::plan::{Launch, ToolFilter};
use crate::source::MemorySources;
use proptest::prelude::*;

fn plan(config: &str) -> Plan {
    let files = MemorySources(BTreeMap::from([("config.yml".to_owned(), config.as_bytes().to_vec())]));
    let compilation = crate::compile("config.yml", &files).unwrap();
    let problems: Vec<_> = compilation.diagnostics.iter().map(|problem| &problem.message).collect();
    compilation.plan.unwrap_or_else(|| panic!("{config}\n{problems:?}"))
}

/// The plan of what a client's file says.
fn back(text: &str) -> Plan {
    let imported = import(text, "client", None);
    assert_eq!(imported.problems, [], "{text}");
    let mut config = String::new();
    for server in &imported.servers {
        config = add(&config, List::Servers, &server.entry).unwrap();
    }
    plan(&config)
}

const CONFIG: &str = r#"
mcp_servers:
  - name: local
    command: npx
    args: ["-y", "pkg@1.0", "--dir=${DATA_DIR}"]
    env: { API_TOKEN: "${API_TOKEN}", MODE: "a b", LEVEL: "${LEVEL:-info}" }
  - name: remote.one
    url: https://example.com/mcp?a=%20b
    headers: { Authorization: "Bearer ${REMOTE_TOKEN}", X-Kind: plain }
  - name: off
    command: x
    enabled: false
  - name: filtered
    command: y
    env: { KEY: "${KEY}" }
    tools: { include: [a, b], exclude: [c] }
    timeout_seconds: 7
  - name: secret
    command: z
    args: ["${file:/run/secret}"]
mcp: { denylist: ["*__delete_*"] }
"#;

#[test]
fn each_client_gets_its_own_words() {
    for client in Client::ALL {
        let exported = servers(client, &plan(CONFIG));
        let shown = format!("{}\n--- notes\n{}\n", exported.text, exported.notes.join("\n"));
        insta::assert_snapshot!(format!("direct_{client:?}"), shown);
        let command = ["mcplan", "run", "--stdio", "-c", "/srv/agents/config.yml"].map(str::to_owned);
        let exported = executor(client, &command, &plan(CONFIG));
        insta::assert_snapshot!(
            format!("executor_{client:?}"),
            format!("{}\n--- notes\n{}\n", exported.text, exported.notes.join("\n"))
        );
    }
}

#[test]
fn a_path_that_looks_like_another_transport_comes_back_as_it_was() {
    let plan = plan("mcp_servers:\n  - name: a\n    url: https://example.com/sse\n");
    for client in [Client::ClaudeCode, Client::Cursor, Client::Vscode, Client::Codex] {
        let exported = servers(client, &plan);
        assert_eq!(launches(&back(&exported.text)), launches(&plan), "{}", exported.text);
    }
}

#[test]
fn what_keeps_an_agent_from_a_tool_is_not_lost_in_silence() {
    let guarded =
        "mcp_servers: [{ name: a, command: x }]\npolicy: { deny: [\"mcp:call:a:drop\"] }\nagents: { helper: {} }\n";
    let notes = servers(Client::Cursor, &plan(guarded)).notes;
    let said = |guard: &str| format!("`{guard}` is left out: only mcplan holds to it");
    assert_eq!(notes, [said("policy"), said("agents")]);
    assert_eq!(servers(Client::Cursor, &plan("mcp_servers: [{ name: a, command: x }]\n")).notes, [""; 0]);
}

#[test]
fn a_list_of_no_tools_stays_one_where_it_means_none() {
    let none = "[mcp_servers.a]\ncommand = \"x\"\nenabled_tools = []\n";
    assert_eq!(back(none).servers[0].tools.include, Some(Vec::new()));
    let all = r#"{ "mcpServers": { "a": { "command": "x", "includeTools": [] } } }"#;
    assert_eq!(back(all).servers[0].tools.include, None);
}

fn launches(plan: &Plan) -> Vec<(String, Launch, bool)> {
    plan.servers.iter().map(|server| (server.name.to_string(), server.launch.clone(), server.enabled)).collect()
}

/// A text that every client can say: no `$`, nothing that some client fills in, nothing that looks like a secret.
fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[ -!#&-Z^-z|~äß€]{1,12}", "[a-z\\\\\"'#:,.{}\\[\\]\n\t-]{1,10}", "\\PC{1,8}"]
        .prop_filter("filled in by some client", |text| !text.contains(['$', '%', '{', '<']) && !text.trim().is_empty())
}

/// Names under which no secret is expected: a literal there stays one.
fn harmless(names: &'static str) -> impl Strategy<Value = String> {
    names.prop_filter("a secret's name", |name| !crate::secret::name_looks_secret(name))
}

fn config() -> impl Strategy<Value = String> {
    let word = "[a-z]{2,8}";
    let local = (
        word,
        prop::collection::vec(text(), 0..4),
        prop::collection::btree_map(harmless("[A-Z]{2,6}"), text(), 0..3),
        any::<bool>(),
    )
        .prop_map(|(command, args, env, reference)| {
            let mut entry = json!({ "command": command, "args": args, "env": env });
            if reference {
                entry["env"]["SOME_TOKEN"] = json!("${SOME_TOKEN}");
            }
            entry
        });
    let remote = (
        "[a-z]{2,8}",
        "[a-z/]{0,8}",
        prop::collection::btree_map(harmless("X-[A-Z][a-z]{1,5}"), "[a-z0-9 ]{1,5}[a-z]", 0..3),
        any::<bool>(),
    )
        .prop_map(|(host, path, headers, reference)| {
            let mut entry = json!({ "url": format!("https://{host}.dev/{path}"), "headers": headers });
            if reference {
                entry["headers"]["Authorization"] = json!("Bearer ${SOME_TOKEN}");
            }
            entry
        });
    prop::collection::btree_map("[a-z][a-z0-9]{0,5}", prop_oneof![local, remote], 1..4).prop_map(|servers| {
        let servers = servers.into_iter().map(|(name, mut entry)| {
            entry["name"] = json!(name);
            entry
        });
        json!({ "mcp_servers": servers.collect::<Vec<_>>() }).to_string()
    })
}

/// The same with what only some clients can say.
fn odd_config() -> impl Strategy<Value = String> {
    let odd = (
        0..64_u8,
        prop::option::of("[a-z]{2,8}(/[a-z]{1,4})?"),
        prop::collection::vec("[a-z_]{1,6}|[a-z]{1,3}\\*", 0..3),
    );
    (config(), prop::collection::vec(odd, 4)).prop_map(|(text, odd)| {
        let mut config: Value = serde_json::from_str(&text).unwrap();
        let entries = config["mcp_servers"].as_array_mut().unwrap();
        for (entry, (bits, cwd, tools)) in entries.iter_mut().zip(odd) {
            let is = |bit: u8| bits & (1 << bit) != 0;
            match (entry.get("command").is_some(), cwd) {
                (true, Some(cwd)) => entry["cwd"] = json!(cwd),
                (false, Some(_)) => entry["transport"] = json!("sse"),
                _ => {}
            }
            if is(0) {
                entry["enabled"] = json!(false);
            }
            if is(1) {
                entry["tools"] = json!({ "include": tools });
            } else if is(2) {
                entry["tools"] = json!({ "exclude": tools });
            }
            if is(3) {
                entry["timeout_seconds"] = json!(f64::from(bits) + 0.5);
            }
            if is(4) && entry.get("command").is_some() {
                entry["env"]["LEVEL"] = json!("${LEVEL:-info}");
            }
            if is(5) {
                entry["when"] = json!({ "env": ["WANTED"] });
            }
        }
        config.to_string()
    })
}

/// What a client's file says of a server, by what the notes say it can't.
fn sayable(client: Client, server: &Server, notes: &[String]) -> Option<(Launch, bool, ToolFilter)> {
    let name = &server.name;
    if notes.iter().any(|note| note.starts_with(&format!("`{name}` is left out: "))) {
        return None;
    }
    let noted = |field: &str| notes.iter().any(|note| note.starts_with(&format!("`{name}`: `{field}` is left out")));
    let mut launch = server.launch.clone();
    if let Launch::Stdio(stdio) = &mut launch {
        if noted("cwd") {
            stdio.cwd = Template::literal(".");
        }
        stdio.env.retain(|key, _| !noted(&format!("env.{key}")));
        for (key, value) in &mut stdio.env {
            let lost = format!("`{name}`: the default of `${{LEVEL}}` in `env.{key}` is left out");
            if notes.iter().any(|note| note.starts_with(&lost)) {
                *value = Template::parse("${LEVEL}").0;
            }
        }
    }
    let mut tools = server.tools.clone();
    tools.include = tools.include.filter(|_| !noted("tools.include"));
    tools.exclude.retain(|_| !noted("tools.exclude"));
    assert!(server.when_env.is_empty() || noted("when"), "{notes:?}");
    assert!(client == Client::Codex || tools == ToolFilter::default(), "{notes:?}");
    Some((launch, server.enabled, tools))
}

proptest! {
    /// What a client can't say is named, and everything else comes back.
    #[test]
    fn what_does_not_come_back_was_named(config in odd_config()) {
        let plan = plan(&config);
        for client in Client::ALL {
            let exported = servers(client, &plan);
            let wanted = plan.servers.iter().filter_map(|server| {
                let said = sayable(client, server, &exported.notes)?;
                let seconds = (client == Client::Codex).then_some(server.limits.timeout_seconds);
                Some((server.name.to_string(), said, seconds))
            });
            let wanted: Vec<_> = wanted.collect();
            if wanted.is_empty() {
                continue;
            }
            let back = back(&exported.text).servers.into_iter().map(|server| {
                let seconds = (client == Client::Codex).then_some(server.limits.timeout_seconds);
                (server.name.to_string(), (server.launch, server.enabled, server.tools), seconds)
            });
            prop_assert_eq!(back.collect::<Vec<_>>(), wanted, "{:?}\n{}\n{:?}", client, exported.text, exported.notes);
        }
    }

    #[test]
    fn what_is_exported_comes_back(config in config()) {
        let plan = plan(&config);
        for client in [Client::ClaudeCode, Client::Cursor, Client::Vscode, Client::Codex] {
            let exported = servers(client, &plan);
            let skipped = |name: &str| exported.notes.iter().any(|note| note.starts_with(&format!("`{name}` is left out")));
            let wanted: Vec<_> = launches(&plan).into_iter().filter(|(name, ..)| !skipped(name)).collect();
            prop_assert!(exported.notes.is_empty(), "{:?}", exported.notes);
            prop_assert_eq!(launches(&back(&exported.text)), wanted, "{}", exported.text);
        }
    }
}
