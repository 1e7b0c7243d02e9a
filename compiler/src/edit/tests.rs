//! Every shape of a list, added to and taken from, and any text at all.

use super::*;
use proptest::prelude::*;

fn server(name: &str) -> Value {
    Value::Map(vec![
        ("name".to_owned(), Value::text(name)),
        ("command".to_owned(), Value::text("npx")),
        ("args".to_owned(), Value::texts(["-y", "pkg@1.0"])),
    ])
}

#[track_caller]
fn added(before: &str, after: &str) {
    let got = add(before, List::Servers, &server("new")).unwrap();
    assert_eq!(got, after, "\n--- got\n{got}\n--- wanted\n{after}");
    // What was added can be taken out again, and what remains says what was said before.
    let back = remove(&got, "new").unwrap();
    assert_eq!(back.entry, server("new"));
    let said = |text: &str| Original::read(text).unwrap().tree;
    let (back, before) = (said(&back.text), said(before));
    let list = |tree: &Value| match tree.get("mcp_servers").or_else(|| tree.get("mcp")?.get("servers")) {
        Some(Value::List(items)) => items.clone(),
        _ => Vec::new(),
    };
    assert_eq!(list(&back), list(&before));
}

#[track_caller]
fn refused(before: &str, why: &str) {
    let refused = add(before, List::Servers, &server("new")).unwrap_err();
    assert!(refused.to_string().contains(why), "{refused}");
}

const ITEM: &str = "  - name: new\n    command: npx\n    args: [\"-y\", pkg@1.0]\n";

#[test]
fn a_missing_list_is_made_at_the_end() {
    added("", &format!("mcp_servers:\n{ITEM}"));
    added("# only this\n", &format!("# only this\nmcp_servers:\n{ITEM}"));
    added("version: 1\n", &format!("version: 1\nmcp_servers:\n{ITEM}"));
    added("version: 1", &format!("version: 1\nmcp_servers:\n{ITEM}"));
    added("mcp:\n  defer: true\n", &format!("mcp:\n  defer: true\nmcp_servers:\n{ITEM}"));
    added("---\nx-a: |+\n  text\n\n", &format!("---\nx-a: |+\n  text\n\nmcp_servers:\n{ITEM}"));
    // The file's own way to place dashes.
    added(
        "mcp_builtins:\n- git\n",
        "mcp_builtins:\n- git\nmcp_servers:\n- name: new\n  command: npx\n  args: [\"-y\", pkg@1.0]\n",
    );
}

#[test]
fn an_empty_list_becomes_a_block() {
    added("mcp_servers:\nversion: 1\n", &format!("mcp_servers:\n{ITEM}version: 1\n"));
    added("mcp_servers: # ours\nversion: 1\n", &format!("mcp_servers: # ours\n{ITEM}version: 1\n"));
    added("mcp_servers: ~\n", &format!("mcp_servers:\n{ITEM}"));
    added("mcp_servers: null  # none\n", &format!("mcp_servers:  # none\n{ITEM}"));
    added("mcp_servers: []\n", &format!("mcp_servers:\n{ITEM}"));
    added("mcp_servers: []", &format!("mcp_servers:\n{}", ITEM.trim_end()));
    added("mcp_servers: [] # none\nversion: 1", &format!("mcp_servers: # none\n{ITEM}version: 1"));
    added(
        "mcp_servers: []\n  # - command: npx\n  #   args: [x]\nversion: 1\n",
        &format!("mcp_servers:\n{ITEM}  # - command: npx\n  #   args: [x]\nversion: 1\n"),
    );
    // What stands between the key and the value stays.
    added("mcp_servers: # ours\n  []\nversion: 1\n", &format!("mcp_servers: # ours\n{ITEM}version: 1\n"));
    added("mcp_servers: # ours\n  [] # none\n", &format!("mcp_servers: # ours\n  # none\n{ITEM}"));
    added("mcp_servers:\n  # ours\n  ~\n", &format!("mcp_servers:\n  # ours\n{ITEM}"));
    added("mcp_servers: &all []\nversion: 1\n", &format!("mcp_servers: &all\n{ITEM}version: 1\n"));
    added("mcp: {servers: []}\n", "mcp: {servers: [{ name: new, command: npx, args: [\"-y\", pkg@1.0] }]}\n");
}

#[test]
fn a_block_list_gets_one_more_item_as_the_others_are_written() {
    added("mcp_servers:\n  - name: a\n    command: x\n", &format!("mcp_servers:\n  - name: a\n    command: x\n{ITEM}"));
    // Items at the key's own indent.
    added(
        "mcp_servers:\n- name: a\n  command: x\nversion: 1\n",
        "mcp_servers:\n- name: a\n  command: x\n- name: new\n  command: npx\n  args: [\"-y\", pkg@1.0]\nversion: 1\n",
    );
    // Deeper, with a wide gap, lists with dashes.
    added(
        "mcp:\n    servers:\n      -   name: a\n          args:\n            - x\n",
        "mcp:\n    servers:\n      -   name: a\n          args:\n            - x\n      -   name: new\n          \
         command: npx\n          args:\n            - \"-y\"\n            - pkg@1.0\n",
    );
    // A blank line between items.
    added(
        "mcp_servers:\n  - name: a\n    command: x\n\n  - name: b\n    command: y\n\nversion: 1\n",
        &format!("mcp_servers:\n  - name: a\n    command: x\n\n  - name: b\n    command: y\n\n{ITEM}\nversion: 1\n"),
    );
    // Comments on, in and behind the last item; one that stands at the dash's column stays behind.
    added(
        "mcp_servers:\n  # first\n  - name: a # one\n    command: x # two\n    # env:\n  # - name: old\nversion: 1\n",
        &format!(
            "mcp_servers:\n  # first\n  - name: a # one\n    command: x # two\n    # env:\n{ITEM}  # - name: \
             old\nversion: 1\n"
        ),
    );
    // An empty value at the end of the last item.
    added(
        "mcp_servers:\n  - name: a\n    command: x\n    cwd:\n\n\nversion: 1\n",
        &format!("mcp_servers:\n  - name: a\n    command: x\n    cwd:\n{ITEM}\n\nversion: 1\n"),
    );
    added("mcp_servers:\n  - a\n  -\n", &format!("mcp_servers:\n  - a\n  -\n{ITEM}"));
    // A dash on a line of its own.
    added(
        "mcp_servers:\n  -\n    name: a\n    command: x\n",
        &format!("mcp_servers:\n  -\n    name: a\n    command: x\n{ITEM}"),
    );
}

#[test]
fn the_last_line_may_lack_its_end_and_lines_may_end_in_crlf() {
    added(
        "mcp_servers:\n  - name: a\n    command: x",
        &format!("mcp_servers:\n  - name: a\n    command: x\n{}", ITEM.trim_end()),
    );
    added(
        "mcp_servers:\r\n  - name: a\r\n    command: x\r\nversion: 1\r\n",
        &format!("mcp_servers:\r\n  - name: a\r\n    command: x\r\n{}version: 1\r\n", ITEM.replace('\n', "\r\n")),
    );
    added(
        "mcp_servers:\r\n  - name: a\r\n    command: x",
        &format!("mcp_servers:\r\n  - name: a\r\n    command: x\r\n{}", ITEM.trim_end().replace('\n', "\r\n")),
    );
    added("\u{feff}mcp_servers: []\r\n", &format!("\u{feff}mcp_servers:\r\n{}", ITEM.replace('\n', "\r\n")));
}

#[test]
fn block_scalars_at_the_end_keep_their_lines() {
    for header in ["|", "|-", ">", "|+"] {
        let before = format!("mcp_servers:\n  - name: a\n    description: {header}\n      one\n      two\n");
        added(&before, &format!("{before}{ITEM}"));
    }
    // Blank lines behind `|` and `|-` are nobody's, behind `|+` they belong to the text.
    let head = "mcp_servers:\n  - name: a\n    description: ";
    added(&format!("{head}|\n      one\n\nversion: 1\n"), &format!("{head}|\n      one\n{ITEM}\nversion: 1\n"));
    added(&format!("{head}|+\n      one\n\nversion: 1\n"), &format!("{head}|+\n      one\n\n{ITEM}version: 1\n"));
}

#[test]
fn a_list_in_brackets_stays_one() {
    let flow = "{ name: new, command: npx, args: [\"-y\", pkg@1.0] }";
    added("mcp_servers: [{name: a, command: x}]\n", &format!("mcp_servers: [{{name: a, command: x}}, {flow}]\n"));
    added("mcp_servers: [ {name: a, command: x}, ]\n", &format!("mcp_servers: [ {{name: a, command: x}}, {flow}, ]\n"));
    added(
        "mcp_servers: [\n  {name: a, command: x}\n]\n",
        &format!("mcp_servers: [\n  {{name: a, command: x}},\n  {flow}\n]\n"),
    );
}

#[test]
fn what_is_not_edited_says_why() {
    refused("mcp_servers: [ {name: a}, # one\n {name: b}]\n", "comments stand between the brackets");
    refused("x-s: &s\n  - name: a\nmcp_servers: *s\n", "alias");
    refused("x-m: &m\n  servers:\n    - name: a\nmcp:\n  <<: *m\n", "alias or a merge key");
    refused("mcp_servers: &s\n  - name: a\nx-copy: *s\n", "isn't edited");
    refused("mcp_servers:\n  a: {command: x}\n", "something else than a list");
    refused("mcp_servers:\n  - &a\n    name: a\n", "an anchor, a tag or a comment stands between the dash");
    let named = remove("mcp_servers:\n  - &a\n    name: a\n  - name: b\n", "a").unwrap_err();
    assert!(named.to_string().contains("an anchor, a tag or a comment stands between its dash"), "{named}");
    refused("{\"mcp_servers\": []}\n", "written in braces");
    refused("- a\n- b\n", "no map");
    refused("mcp_servers: [\n", "has errors");
    refused("version: 1\n...\n", "isn't edited");
}

#[test]
fn builtins_are_names() {
    let add = |text: &str| add(text, List::Builtins, &Value::text("time")).unwrap();
    assert_eq!(add("mcp_builtins: [git, fetch]\n"), "mcp_builtins: [git, fetch, time]\n");
    assert_eq!(add("mcp_builtins:\n  - git\nversion: 1\n"), "mcp_builtins:\n  - git\n  - time\nversion: 1\n");
    assert_eq!(add("version: 1\n"), "version: 1\nmcp_builtins:\n  - time\n");
}

#[test]
fn removing_takes_the_entry_and_its_inner_comments_only() {
    let check = |before: &str, name: &str, after: &str| {
        let got = remove(before, name).unwrap().text;
        assert_eq!(got, after, "\n--- got\n{got}\n--- wanted\n{after}");
    };
    let two = "# top\nmcp_servers:\n  # about a\n  - name: a\n    command: x # why\n    # env:\n  # about b\n  - name: b\n    command: y\nversion: 1\n";
    check(two, "a", "# top\nmcp_servers:\n  # about a\n  # about b\n  - name: b\n    command: y\nversion: 1\n");
    check(
        two,
        "b",
        "# top\nmcp_servers:\n  # about a\n  - name: a\n    command: x # why\n    # env:\n  # about b\nversion: 1\n",
    );
    check(
        "mcp_servers: # ours\n  - name: a\n    command: x\nversion: 1\n",
        "a",
        "mcp_servers: [] # ours\nversion: 1\n",
    );
    check("mcp_servers:\n  - name: a\n    command: x", "a", "mcp_servers: []");
    check("mcp_servers:\r\n  - name: a\r\n  - name: b", "b", "mcp_servers:\r\n  - name: a");
    check("mcp_servers: [{name: a}, {name: b}, {name: c}]\n", "b", "mcp_servers: [{name: a}, {name: c}]\n");
    check("mcp_servers: [{name: a}, {name: b}]\n", "b", "mcp_servers: [{name: a}]\n");
    check("mcp_servers: [ {name: a}, ]\n", "a", "mcp_servers: []\n");
    check("mcp_builtins:\n  - git\n  - {name: github, as: gh}\n", "gh", "mcp_builtins:\n  - git\n");
    // The name that compiling derives counts where none is written.
    let nameless = "mcp_servers:\n  - command: npx\n    args: [-y, \"@x/server-files@1\"]\n  - name: b\n";
    check(nameless, "files", "mcp_servers:\n  - name: b\n");
    check("mcp_builtins: [git, fetch]\n", "git", "mcp_builtins: [fetch]\n");
    check(
        "mcp_servers:\n  - name: a\n\n  - name: b\n\n  - name: c\n",
        "b",
        "mcp_servers:\n  - name: a\n\n  - name: c\n",
    );
    check(
        "mcp:\n  servers:\n    - name: a\n      description: |+\n        one\n\n    - name: b\nx-a: 1\n",
        "b",
        "mcp:\n  servers:\n    - name: a\n      description: |+\n        one\n\nx-a: 1\n",
    );
}

#[test]
fn removing_what_is_not_there_or_not_alone_says_so() {
    let error = |text: &str, name: &str| remove(text, name).unwrap_err().to_string();
    assert_eq!(
        error("mcp_servers:\n  - name: github\n", "githb"),
        "there is no entry `githb` in this file; did you mean `github`?"
    );
    assert_eq!(error("# nothing\n", "a"), "there is no entry `a` in this file");
    assert!(error("mcp_servers:\n  - name: a\n  - name: a\n", "a").contains("2 entries"));
    assert!(error("mcp_servers:\n  - &a {name: a}\n  - {<<: *a, name: b}\n", "a").contains("by hand"));
    assert!(error("x-s: &s\n  - name: a\nmcp_servers: *s\n", "a").contains("alias"));
}

/// A config in pieces, so that many shapes meet.
fn any_config() -> impl Strategy<Value = String> {
    let before = prop_oneof![Just(""), Just("# top\n"), Just("version: 1\n"), Just("---\n"), Just("x-a: |+\n  t\n\n")];
    let list = prop_oneof![
        Just(""),
        Just("mcp_servers:\n"),
        Just("mcp_servers: []  # c\n"),
        Just("mcp_servers: [{name: a}]\n"),
        Just("mcp_servers:\n  - name: a\n    command: x # c\n    # d\n  # e\n"),
        Just("mcp_servers:\n- name: a\n  env: {A: b}\n\n- name: b\n"),
        Just("mcp_servers:\n    -  name: a\n       description: |\n          x\n\n"),
        Just("mcp_servers:\n  - name: a\n    description: >+\n      x\n\n\n"),
        Just("mcp:\n  defer: false\n  servers:\n  - name: a\n    cwd:\n"),
        Just("mcp:\n  servers: &s\n  # c\n  - name: a\n    args:\n    - x\n    - y\n"),
    ];
    let after = prop_oneof![Just(""), Just("# end"), Just("x-b: 1\n"), Just("\n\nx-b: [1,\n 2]\n"), Just("x-b:\n- 1")];
    (before, list, after, any::<bool>(), any::<bool>()).prop_map(|(before, list, after, crlf, cut)| {
        let text = format!("{before}{list}{after}");
        let text = if crlf { text.replace('\n', "\r\n") } else { text };
        if cut { text.trim_end().to_owned() } else { text }
    })
}

/// Every byte of `inner` stands in `outer`, in this order, around one place.
fn is_insertion(inner: &str, outer: &str) -> bool {
    let same =
        |a: &mut dyn Iterator<Item = u8>, b: &mut dyn Iterator<Item = u8>| a.zip(b).take_while(|(a, b)| a == b).count();
    let head = same(&mut inner.bytes(), &mut outer.bytes());
    let tail = same(&mut inner.bytes().rev(), &mut outer.bytes().rev());
    head + tail >= inner.len()
}

proptest! {
    #[test]
    fn an_edit_changes_no_other_byte(config in any_config(), name in "[a-z]{3}", text in "\\PC{0,20}", odd in any::<String>()) {
        let entry = Value::Map(vec![
            ("name".to_owned(), Value::text(name.clone())),
            ("command".to_owned(), Value::Text(text.clone())),
            ("args".to_owned(), Value::texts([odd, text])),
        ]);
        let Ok(got) = add(&config, List::Servers, &entry) else {
            prop_assert!(config.contains("&s") || Original::read(&config).is_err(), "refused:\n{}", config);
            return Ok(());
        };
        // `[]` and a null's blanks are the only bytes that may go.
        let kept = config.replace("mcp_servers: []  # c", "mcp_servers:  # c");
        prop_assert!(is_insertion(&kept, &got), "{}\n---\n{}", config, got);
        let back = remove(&got, &name).unwrap();
        prop_assert_eq!(&back.entry, &entry);
        let kept = back.text.replace("mcp_servers: []", "mcp_servers:");
        prop_assert!(is_insertion(&kept, &got), "{}\n---\n{}", got, back.text);
        if config.contains("name: a") {
            prop_assert!(!back.text.contains("[]"), "{}", back.text);
        }
    }

    #[test]
    fn any_text_is_edited_or_refused(text in any::<String>(), yaml in "[-a-z:#&*!|>'\"\\[\\]{}, \n]{0,40}") {
        for text in [text, format!("mcp_servers:{yaml}"), format!("mcp_servers:\n{yaml}")] {
            let _either = add(&text, List::Servers, &server("new"));
            let _either = remove(&text, "a");
        }
    }
}
