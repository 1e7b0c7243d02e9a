//! `mcplan test`: what holds and what doesn't, as people, CI systems and pre-commit see it.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use serde_json::Value;
use support::Project;

const SERVERS: &str = "\
fragments: [teams/*.yml]
mcp_servers:
  - name: notes
    command: mcplan
    args: [demo-server, --group, 'notes,server']
    tools: { exclude: [set_tool_visible], always: [list_notes] }
  - { name: there, command: mcplan, args: [demo-server, --group, math], workspaces: [/nowhere/**] }
mcp:
  denylist: [mcp__notes__delete_*]
policy:
  deny: ['mcp:call:notes:rename_*']
  default: deny
  allow:
    - mcp:call:*:*
agents:
  guest:
    tools: ['notes__*_note', notes__list_notes]
    policy: { read_only: true }
";

const HOLD: &str = "\
tests:
  - search: change what a note is called
    expect: { tool: mcp__notes__write_note, top: 5 }
  - { search: mcp__notes__echo, expect: { tool: mcp__notes__echo } }
  - { call: mcp__notes__write_note, expect: allowed }
  - { call: mcp__notes__rename_note, expect: denied }
  - { call: mcp__notes__delete_note, expect: hidden }
  - { call: mcp__notes__none, expect: hidden }
  - { call: mcp__there__calculate, expect: allowed }
  - { listed: mcp__notes__list_notes, expect: true }
  - { listed: search_mcp_tools, expect: true }
  - { listed: mcp__notes__echo, expect: false }
  - { deferred: mcp__notes__echo, expect: true }
  - { deferred: mcp__notes__list_notes, expect: false }
  - { deferred: mcp__notes__delete_note, expect: false }
  - block: { max_chars: 2000, max_tokens: 500, contains: [mcp__notes__echo], omits: [delete_] }
  - { agent: guest, call: mcp__notes__write_note, expect: denied }
  - { agent: guest, call: mcp__notes__echo, expect: hidden }
  - { agent: guest, block: { contains: [mcp__notes__read_note], omits: [mcp__notes__echo, math] } }
";

const FAIL: &str = "\
tests:
  - { search: write something down, expect: { tool: mcp__notes__search_notes } }
  - { search: quantum, expect: { tool: mcp__notes__search_notes, top: 3 } }
  - { search: write a note, expect: { tool: mcp__notes__count_to, top: 2 } }
  - { search: delete a note, expect: { tool: mcp__notes__delete_note, top: 50 } }
  - { search: mcp__notes__ech, expect: { tool: mcp__notes__ech } }
  - { call: mcp__notes__write_note, expect: denied }
  - { call: mcp__notes__write_note, expect: hidden }
  - { call: mcp__notes__rename_note, expect: allowed }
  - { call: mcp__notes__rename_note, expect: hidden }
  - { call: mcp__notes__set_tool_visible, expect: allowed }
  - { call: mcp__notes__delete_note, expect: denied }
  - { call: mcp__notes__raed_note, expect: allowed }
  - { listed: mcp__notes__echo, expect: true }
  - { listed: mcp__notes__list_notes, expect: false }
  - { listed: search_mcp_tools, expect: false }
  - { deferred: mcp__notes__list_notes, expect: true }
  - { deferred: mcp__notes__delete_note, expect: true }
  - { deferred: no_such_thing, expect: true }
  - { call: \"esc\\e[31m<b>\", expect: allowed }
  - block: { max_chars: 400, max_tokens: 40, contains: [\"none <of>\\a&it\"], omits: [write_note] }
  - { agent: guest, call: mcp__notes__write_note, expect: allowed }
  - { agent: guest, call: mcp__notes__read_note, expect: denied }
  - { agent: guest, listed: mcp__notes__echo, expect: true }
";

const FRAGMENT: &str = "\
mcp_servers:
  - { name: sums, command: mcplan, args: [demo-server, --group, math], tools: { exclude: [factorise] } }
tests:
  - { call: mcp__sums__calculate, expect: allowed }
  - { call: mcp__sums__factorise, expect: allowed }
";

fn project(tests: &str) -> Project {
    let project = Project::new(&format!("{SERVERS}{tests}"));
    std::fs::create_dir(project.path("teams")).unwrap();
    project.lock();
    project
}

/// With tests in a fragment too, one of which fails.
fn with_fragment(tests: &str) -> Project {
    let project = Project::new(&format!("{SERVERS}{tests}"));
    std::fs::create_dir(project.path("teams")).unwrap();
    project.write("teams/sums.yml", FRAGMENT);
    project.lock();
    project
}

#[test]
fn what_holds_is_a_line_each_and_exit_0() {
    let project = project(HOLD);
    let ran = project.run(&["test"]);
    assert_eq!((ran.code, &*ran.err), (0, ""), "{ran:?}");
    insta::assert_snapshot!(ran.out);
    let elsewhere = support::mcplan(&["test", "-c"]).arg(project.path("config.yml")).output().unwrap();
    assert!(elsewhere.status.success(), "the directory decides nothing: {elsewhere:?}");
}

#[test]
fn what_fails_says_what_came_instead_and_why() {
    insta::assert_snapshot!(with_fragment(FAIL).run(&["test"]).shown());
}

#[test]
fn one_agent_alone() {
    let project = with_fragment(HOLD);
    let guest = project.run(&["test", "--agent", "guest"]);
    assert!(guest.code == 0 && guest.out.ends_with("3 tests: 3 passed, 0 failed\n"), "{guest:?}");
    assert_eq!(project.run(&["test", "--agent", "lead"]).code, 1, "the fragment's fails");
    let nobody = project.run(&["test", "--agent", "nobody"]);
    assert_eq!(
        (nobody.code, &*nobody.out, &*nobody.err),
        (2, "", "error: there is no agent `nobody`; the agents are guest, lead\n")
    );
}

#[test]
fn results_are_data() {
    let project = with_fragment(FAIL);
    let ran = project.run(&["test", "--format", "json"]);
    assert_eq!((ran.code, &*ran.err), (1, ""));
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(
        (&json["passed"], &json["failed"], &json["lock_stale"]),
        (&1.into(), &24.into(), &false.into()),
        "{json}"
    );
    let last = json["tests"].as_array().unwrap().last().unwrap();
    insta::assert_snapshot!(serde_json::to_string_pretty(last).unwrap());
}

/// What the readers of CI systems take: counts that are right, a class and a name for each case, a file and a line.
fn assert_is_junit(text: &str) {
    let document = roxmltree::Document::parse(text).unwrap();
    let root = document.root_element();
    assert_eq!(root.tag_name().name(), "testsuites");
    let number = |node: roxmltree::Node<'_, '_>, name: &str| node.attribute(name).unwrap().parse::<usize>().unwrap();
    let count =
        |node: roxmltree::Node<'_, '_>, tag: &str| node.descendants().filter(|node| node.has_tag_name(tag)).count();
    for node in root.descendants().filter(|node| node.has_tag_name("testsuites") || node.has_tag_name("testsuite")) {
        assert_eq!(
            (number(node, "tests"), number(node, "failures")),
            (count(node, "testcase"), count(node, "failure"))
        );
        assert_eq!((number(node, "errors"), number(node, "skipped"), number(node, "time")), (0, 0, 0));
        assert!(node.attribute("name").is_some_and(|name| !name.is_empty()));
    }
    for case in root.descendants().filter(|node| node.has_tag_name("testcase")) {
        assert!(case.parent().unwrap().has_tag_name("testsuite"));
        assert!(
            ["classname", "name", "file"].iter().all(|name| case.attribute(*name).is_some_and(|text| !text.is_empty()))
        );
        for failure in case.children().filter(roxmltree::Node::is_element) {
            assert!(failure.has_tag_name("failure") && failure.attribute("type") == Some("failed"));
            let (message, text) = (failure.attribute("message").unwrap(), failure.text().unwrap());
            assert!(text.starts_with(message) && !message.is_empty(), "{message}: {text}");
        }
    }
}

#[test]
fn junit_is_xml_that_a_parser_takes() {
    let project = with_fragment(FAIL);
    let ran = project.run(&["test", "--format", "junit"]);
    assert_eq!((ran.code, &*ran.err), (1, ""));
    assert_is_junit(&ran.out);
    let document = roxmltree::Document::parse(&ran.out).unwrap();
    let suites: Vec<_> = document.root_element().children().filter(|node| node.is_element()).collect();
    let names: Vec<_> = suites.iter().map(|suite| (suite.attribute("name"), suite.attribute("tests"))).collect();
    assert_eq!(names, [(Some("config.yml"), Some("23")), (Some("teams/sums.yml"), Some("2"))]);
    let case = suites[1].children().filter(|node| node.is_element()).nth(1).unwrap();
    assert_eq!((case.attribute("file"), case.attribute("line")), (Some("teams/sums.yml"), Some("5")));
    assert_eq!(
        (case.attribute("classname"), case.attribute("name")),
        (Some("mcplan.lead"), Some("call mcp__sums__factorise is allowed"))
    );
    let block = document
        .descendants()
        .find(|node| node.attribute("name").is_some_and(|name| name.starts_with("block")))
        .unwrap();
    // A bell is nothing that XML can hold.
    assert!(block.attribute("name").unwrap().contains("with \"none <of> &it\""), "{block:?}");
    assert!(document.descendants().any(|node| node.attribute("name") == Some("call esc [31m<b> is allowed")));
    let failure = block.first_element_child().unwrap().text().unwrap();
    assert!(failure.contains("\n  <AVAILABLE_MCP_TOOLS>\n"), "{failure}");
}

/// The tests that hold of the lock say nothing about the config of now.
#[test]
fn a_stale_lock_fails_whatever_the_tests_say() {
    let project = project(HOLD);
    project
        .write("config.yml", &project.read("config.yml").replace("denylist: [mcp__notes__delete_*]", "denylist: []"));
    let ran = project.run(&["test"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.ends_with("17 tests: 17 passed, 0 failed\n"), "{ran:?}");
    assert_eq!(
        ran.err,
        "error: lock-stale: config.lock.json doesn't fit config.yml any more, and the tests ran against what is \
         locked: run 'mcplan lock'\n"
    );
    let json: Value = serde_json::from_str(&project.run(&["test", "--format", "json"]).out).unwrap();
    assert_eq!(json["lock_stale"], true);
    let junit = project.run(&["test", "--format", "junit"]);
    assert_is_junit(&junit.out);
    assert!(junit.out.contains("tests=\"18\" failures=\"1\""), "{junit:?}");
    // Locked again, the test that the change breaks fails.
    assert_eq!(project.run(&["lock", "--offline"]).code, 0);
    let offline = project.run(&["test"]);
    let unknown = "        what becomes of it isn't known: its text isn't locked; lock the server again\n";
    assert!(offline.code == 1 && offline.out.contains(unknown), "{offline:?}");
    project.lock();
    let again = project.run(&["test"]);
    assert!(
        again.code == 1 && again.out.contains("FAILED  config.yml:25  call mcp__notes__delete_note is hidden\n"),
        "{again:?}"
    );
    // An agent that only the config knows yet.
    project.write(
        "config.yml",
        &project.read("config.yml").replace("agents:\n", "agents:\n  new: { tools: [notes__echo] }\n"),
    );
    project.write(
        "config.yml",
        &format!("{}  - {{ agent: new, call: mcp__notes__echo, expect: allowed }}\n", project.read("config.yml")),
    );
    let new = project.run(&["test", "--agent", "new"]);
    assert!(new.code == 1 && new.out.contains("        the lock knows no agent `new`\n"), "{new:?}");
}

#[test]
fn nothing_to_test_is_said() {
    let project = project("");
    let ran = project.run(&["test"]);
    assert_eq!((ran.code, &*ran.out, &*ran.err), (0, "", "config.yml has no tests\n"));
    let guest = project.run(&["test", "--agent", "guest"]);
    assert_eq!((guest.code, &*guest.err), (0, "config.yml has no tests of the agent `guest`\n"));
    let junit = project.run(&["test", "--format", "junit"]);
    assert_eq!(junit.code, 0);
    assert_is_junit(&junit.out);
}

#[test]
fn what_cannot_be_found_out_is_exit_2() {
    let project = Project::new(
        "mcp_servers: [{ name: d, command: mcplan, args: [demo-server] }]\ntests: [{ call: mcp__d__echo, expect: allowed }]\n",
    );
    let unlocked = project.run(&["test"]);
    assert_eq!(
        (unlocked.code, &*unlocked.out, &*unlocked.err),
        (2, "", "error: no lock here (config.lock.json): run 'mcplan lock'\n")
    );
    project.lock();
    assert_eq!(project.run(&["test"]).code, 0);
    project.write(
        "config.yml",
        "mcp_servers: [{ name: d, comand: mcplan }]\ntests: [{ call: mcp__d__echo, expect: maybe }]\n",
    );
    let broken = project.run(&["test"]);
    assert_eq!((broken.code, &*broken.out), (2, ""), "{broken:?}");
    assert!(broken.err.contains("error[bad-test]") && broken.err.ends_with("error: 2 errors\n"), "{broken:?}");
    project.write("config.lock.json", "{");
    assert_eq!(project.run(&["test"]).code, 2);
}

#[test]
fn a_profile_adds_tests_of_its_own() {
    let project = Project::new(
        "mcp_servers: [{ name: d, command: mcplan, args: [demo-server, --group, notes] }]\ntests: [{ call: mcp__d__read_note, expect: allowed }]\n",
    );
    project.write(
        "config.prod.yml",
        "policy: { default: deny }\ntests:\n  - { call: mcp__d__read_note, expect: denied }\n",
    );
    assert_eq!(project.run(&["lock", "-q", "--profile", "prod"]).code, 0);
    let ran = project.run(&["test", "--profile", "prod"]);
    assert_eq!((ran.code, &*ran.err), (1, ""));
    assert_eq!(
        ran.out,
        "FAILED  config.yml:2  call mcp__d__read_note is allowed\n        it is denied: policy denies by default, and no \
         `allow` rule names it (config.prod.yml:1)\nok      config.prod.yml:3  call mcp__d__read_note is denied\n2 tests: 1 \
         passed, 1 failed\n"
    );
}

/// `serve.disclosure: all` lists what would be deferred.
#[test]
fn the_setting_of_disclosure_decides_what_is_listed() {
    let project = Project::new(
        "mcp_servers: [{ name: d, command: mcplan, args: [demo-server, --group, notes] }]\nserve: { disclosure: all }\ntests:\n  \
         - { listed: mcp__d__read_note, expect: true }\n  - { listed: search_mcp_tools, expect: false }\n  - { deferred: \
         mcp__d__read_note, expect: true }\n",
    );
    project.lock();
    let ran = project.run(&["test"]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("FAILED  config.yml:6  mcp__d__read_note is deferred\n        it is listed: `serve.disclosure: all` lists it (config.yml:2)\n3 tests: 2 passed, 1 failed\n"), "{ran:?}");
}
