//! Hot reload through real files: every way in which files change, and what happens to servers and calls meanwhile.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

mod support;

use std::path::Path;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use support::client::Client;
use support::{Project, config, scripted};

#[test]
#[ignore = "the server of the other tests"]
fn script_server() {
    support::server::main();
}

fn eager(more: Value) -> Value {
    let mut entry = json!({ "defer": false });
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    entry
}

/// A config whose one server lists what this filter leaves of `a`, `b` and `pid`.
fn including(tools: &[&str]) -> String {
    let entry = eager(json!({ "tools": { "include": tools } }));
    config(&[scripted("s", &json!({ "tools": ["a", "b", "pid"] }), entry)], json!({}))
}

fn reloaded(client: &Client, generation: u64) -> String {
    client.logged(&format!("plan.reloaded: generation {generation},"), 0)
}

/// How often the plan changed, which must be as often as expected.
fn count(log: &str, event: &str) -> usize {
    log.lines().filter(|line| line.contains(event)).count()
}

fn touch(path: &Path) {
    let file = std::fs::File::options().append(true).open(path).unwrap();
    file.set_modified(std::time::SystemTime::now()).unwrap();
}

#[test]
fn each_way_of_writing_is_one_reload_and_a_touch_is_none() {
    let project = Project::new(&including(&["a"]));
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), ["mcp__s__a"]);
    let main = project.path("config.yml");
    touch(&main);
    // As editors do: a new file in the old one's place.
    project.replace("config.yml", &including(&["b"]));
    assert!(reloaded(&client, 2).ends_with("no server touched"));
    client.notice("notifications/tools/list_changed");
    assert_eq!(client.names(), ["mcp__s__b"]);
    touch(&main);
    // In place.
    project.write("config.yml", &including(&["a", "b"]));
    reloaded(&client, 3);
    assert_eq!(client.names_when(|names| names.len() == 2), ["mcp__s__a", "mcp__s__b"]);
    // A comment is no change.
    project.write("config.yml", &format!("# hello\n{}", including(&["a", "b"])));
    // Deleted and made again.
    std::fs::remove_file(&main).unwrap();
    project.write("config.yml", &including(&["pid"]));
    reloaded(&client, 4);
    assert_eq!(client.names_when(|names| names.len() == 1), ["mcp__s__pid"]);
    let log = client.end();
    assert_eq!(count(&log, "plan.reloaded"), 3, "{log}");
    assert_eq!(count(&log, "server.connected"), 1, "{log}");
}

/// Whatever is a part of the config is followed like it.
#[test]
fn fragments_and_the_profile_are_followed_too() {
    let project = Project::new("");
    let mut whole: Value = serde_json::from_str(&including(&["a", "b", "pid"])).unwrap();
    whole["fragments"] = json!(["more/*.yml", "teams/*/*.yml", "own/one.yml"]);
    project.write("config.yml", &whole.to_string());
    for directory in ["more", "teams", "own"] {
        std::fs::create_dir(project.path(directory)).unwrap();
    }
    project.write("own/one.yml", "tests: []\n");
    let denying = |tool: &str| format!("mcp: {{ denylist: [{tool}] }}\n");
    project.write("config.prod.yml", "prompt: { budget: { chars: 1000 } }\n");
    let mut client = Client::start(&project, &["--profile", "prod"]);
    assert_eq!(client.names().len(), 3);
    project.write("more/new.yml", &denying("a"));
    reloaded(&client, 2);
    assert_eq!(client.names_when(|names| names.len() == 2), ["mcp__s__b", "mcp__s__pid"]);
    project.replace("more/new.yml", &denying("b"));
    reloaded(&client, 3);
    assert_eq!(client.names_when(|names| names[0] == "mcp__s__a"), ["mcp__s__a", "mcp__s__pid"]);
    touch(&project.path("more/new.yml"));
    std::fs::remove_file(project.path("more/new.yml")).unwrap();
    reloaded(&client, 4);
    assert_eq!(client.names_when(|names| names.len() == 3).len(), 3);
    touch(&project.path("config.prod.yml"));
    project.replace("config.prod.yml", &denying("pid"));
    reloaded(&client, 5);
    assert_eq!(client.names_when(|names| names.len() == 2), ["mcp__s__a", "mcp__s__b"]);
    // In a directory that nobody had.
    std::fs::create_dir(project.path("new")).unwrap();
    project.write("new/one.yml", &denying("a"));
    std::fs::rename(project.path("new"), project.path("teams/new")).unwrap();
    reloaded(&client, 6);
    assert_eq!(client.names_when(|names| names.len() == 1), ["mcp__s__b"]);
    // One that is named and missing is waited for.
    std::fs::remove_file(project.path("own/one.yml")).unwrap();
    client.logged("plan.rejected", 0);
    project.write("own/one.yml", &denying("b"));
    reloaded(&client, 7);
    assert_eq!(client.names_when(<[String]>::is_empty), [] as [&str; 0]);
    let log = client.end();
    assert_eq!((count(&log, "plan.reloaded"), count(&log, "plan.rejected")), (6, 1), "{log}");
    assert_eq!(count(&log, "server.connected"), 1, "{log}");
}

/// REL-02: the link is retargeted, to a directory that nobody watches yet.
#[test]
fn a_retargeted_link_is_noticed_and_its_new_target_followed() {
    let project = Project::new("");
    for (name, tools) in [("one", ["a"]), ("two", ["b"])] {
        std::fs::create_dir(project.path(name)).unwrap();
        project.write(&format!("{name}/real.yml"), &including(&tools));
    }
    let main = project.path("config.yml");
    std::fs::remove_file(&main).unwrap();
    std::os::unix::fs::symlink("one/real.yml", &main).unwrap();
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), ["mcp__s__a"]);
    std::os::unix::fs::symlink("two/real.yml", project.path("link")).unwrap();
    std::fs::rename(project.path("link"), &main).unwrap();
    reloaded(&client, 2);
    assert_eq!(client.names_when(|names| names == ["mcp__s__b"]).len(), 1);
    project.write("two/real.yml", &including(&["a", "b"]));
    reloaded(&client, 3);
    assert_eq!(client.names_when(|names| names.len() == 2).len(), 2);
    assert_eq!(count(&client.end(), "plan.reloaded"), 2);
}

/// How releases are switched: a directory on the way to the config is a link.
#[test]
fn a_retargeted_directory_is_noticed_and_its_new_target_followed() {
    for way in ["events", "poll"] {
        let project = Project::new("");
        for (name, tools) in [("one", ["a"]), ("two", ["b"])] {
            std::fs::create_dir_all(project.path(&format!("releases/{name}/conf"))).unwrap();
            project.write(&format!("releases/{name}/conf/config.yml"), &including(&tools));
        }
        std::os::unix::fs::symlink("releases/one", project.path("current")).unwrap();
        let mut client = Client::start(&project, &["-c", "current/conf/config.yml", "--watch", way]);
        assert_eq!(client.names(), ["mcp__s__a"]);
        std::os::unix::fs::symlink("releases/two", project.path("link")).unwrap();
        std::fs::rename(project.path("link"), project.path("current")).unwrap();
        reloaded(&client, 2);
        project.write("releases/two/conf/config.yml", &including(&["a", "b"]));
        reloaded(&client, 3);
        assert_eq!(client.names_when(|names| names.len() == 2).len(), 2);
        assert_eq!(count(&client.end(), "plan.reloaded"), 2);
    }
}

/// The directory itself goes away and comes back, as a checkout or a deployment does it: at once, or with a pause.
#[test]
fn a_directory_that_is_replaced_is_still_followed() {
    let project = Project::new("");
    let make = |directory: &str, tools: &[&str]| {
        std::fs::create_dir_all(project.path(directory)).unwrap();
        project.write(&format!("{directory}/config.yml"), &including(tools));
    };
    make("deployed/conf", &["a"]);
    let mut client = Client::start(&project, &["-c", "deployed/conf/config.yml"]);
    assert_eq!(client.names(), ["mcp__s__a"]);
    make("next", &["b"]);
    std::fs::rename(project.path("deployed/conf"), project.path("last")).unwrap();
    std::fs::rename(project.path("next"), project.path("deployed/conf")).unwrap();
    reloaded(&client, 2);
    make("deployed/conf", &["a", "b"]);
    reloaded(&client, 3);
    let mark = client.mark();
    std::fs::remove_dir_all(project.path("deployed")).unwrap();
    client.logged("plan.rejected: ", mark);
    make("deployed/conf", &["pid"]);
    reloaded(&client, 4);
    make("deployed/conf", &["a"]);
    reloaded(&client, 5);
    assert_eq!(client.names_when(|names| names == ["mcp__s__a"]).len(), 1);
    client.end();
}

/// So is one far above it: nothing happens in the config's own then, which goes on under another name.
#[cfg(target_os = "linux")]
#[test]
fn a_directory_far_above_that_is_replaced_is_noticed_and_followed() {
    let project = Project::new("");
    let make = |top: &str, tools: &[&str]| {
        std::fs::create_dir_all(project.path(&format!("{top}/b/c"))).unwrap();
        project.write(&format!("{top}/b/c/config.yml"), &including(tools));
    };
    make("a", &["a"]);
    let mut client = Client::start(&project, &["-c", "a/b/c/config.yml"]);
    assert_eq!(client.names(), ["mcp__s__a"]);
    make("next", &["b"]);
    std::fs::rename(project.path("a"), project.path("last")).unwrap();
    std::fs::rename(project.path("next"), project.path("a")).unwrap();
    reloaded(&client, 2);
    // What is followed is what is there now.
    make("a", &["a", "b"]);
    reloaded(&client, 3);
    // With a pause between, and one level down.
    let mark = client.mark();
    std::fs::rename(project.path("a/b"), project.path("before")).unwrap();
    client.logged("plan.rejected: ", mark);
    make("a", &["pid"]);
    reloaded(&client, 4);
    make("a", &["b"]);
    reloaded(&client, 5);
    assert_eq!(client.names_when(|names| names == ["mcp__s__b"]).len(), 1);
    let log = client.end();
    assert_eq!(count(&log, "plan.reloaded"), 4, "{log}");
}

/// How Kubernetes swaps a ConfigMap: files are links into `..data`, which is a link to a directory that is replaced.
#[test]
fn a_swapped_config_map_is_one_reload() {
    let project = Project::new("");
    std::fs::remove_file(project.path("config.yml")).unwrap();
    let swap = |name: &str, tools: &[&str]| {
        std::fs::create_dir(project.path(name)).unwrap();
        project.write(&format!("{name}/config.yml"), &including(tools));
        std::os::unix::fs::symlink(name, project.path("..data_tmp")).unwrap();
        std::fs::rename(project.path("..data_tmp"), project.path("..data")).unwrap();
    };
    swap("..1", &["a"]);
    std::os::unix::fs::symlink("..data/config.yml", project.path("config.yml")).unwrap();
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), ["mcp__s__a"]);
    for (number, tools) in [(2, &["b"][..]), (3, &["a", "b"]), (4, &["pid"])] {
        swap(&format!("..{number}"), tools);
        std::fs::remove_dir_all(project.path(&format!("..{}", number - 1))).unwrap();
        reloaded(&client, number);
        assert_eq!(client.names_when(|names| names.len() == tools.len()).len(), tools.len());
    }
    let log = client.end();
    assert_eq!(count(&log, "plan.reloaded"), 3, "{log}");
    assert_eq!(count(&log, "plan.rejected"), 0, "{log}");
}

/// REL-03: a file that doesn't compile changes nothing, and is reported once.
#[test]
fn half_a_file_an_empty_one_and_a_wrong_one_change_nothing() {
    let project = Project::new(&including(&["a", "pid"]));
    let mut client = Client::start(&project, &[]);
    let pid = client.text("mcp__s__pid", json!({}));
    let whole = including(&["b", "pid"]);
    let mut mark = client.mark();
    for (text, report) in [
        (&whole[..whole.len() / 2], "error["),
        ("", "error[empty-file]"),
        ("mcp_servers: [{ name: s, command: x, wrong: 1 }]\n", "unknown-key"),
    ] {
        project.write("config.yml", text);
        client.logged("plan.rejected: the old plan serves on", mark);
        client.logged(report, mark);
        // Once more the same is no news.
        touch(&project.path("config.yml"));
        assert_eq!(client.text("mcp__s__pid", json!({})), pid);
        assert_eq!(client.names(), ["mcp__s__a", "mcp__s__pid"]);
        mark = client.mark();
    }
    std::fs::remove_file(project.path("config.yml")).unwrap();
    client.logged("config.yml can't be read", mark);
    project.write("config.yml", &whole);
    reloaded(&client, 2);
    assert_eq!(client.names_when(|names| names[0] == "mcp__s__b").len(), 2);
    assert_eq!(client.text("mcp__s__pid", json!({})), pid);
    let log = client.end();
    assert_eq!(count(&log, "plan.rejected"), 4, "{log}");
    assert_eq!(count(&log, "plan.reloaded"), 1, "{log}");
}

#[test]
fn a_changed_template_changes_the_block() {
    let entry = scripted("s", &json!({ "tools": ["a"] }), json!({}));
    let project = Project::new(&config(&[entry], json!({ "prompt": { "template": "block.j2" } })));
    project.write("block.j2", "first: {{ total }}");
    let mut client = Client::stateless(&project, &[]);
    client.names();
    client.text("search_mcp_tools", json!({ "query": "a" }));
    assert_eq!(client.request("server/discover", json!({}))["instructions"], "first: 1");
    project.write("block.j2", "second: {{ nothing_of_that_name }}");
    client.logged("plan.rejected", 0);
    client.logged("nothing_of_that_name", 0);
    assert_eq!(client.request("server/discover", json!({}))["instructions"], "first: 1");
    project.write("block.j2", "");
    client.logged("block.j2 is empty", 0);
    project.write("block.j2", "second: {{ total }}");
    reloaded(&client, 2);
    assert_eq!(client.request("server/discover", json!({}))["instructions"], "second: 1");
    client.end();
}

/// A new lock counts without a restart: what it says of a server that is down is listed.
#[test]
fn a_new_lock_is_followed_too() {
    let project = Project::new("");
    let with = |script: Value| config(&[scripted("s", &script, eager(json!({})))], json!({}));
    project.write("config.yml", &with(json!({ "tools": ["a"] })));
    let lock = project.lock();
    std::fs::remove_file(project.path("config.lock.json")).unwrap();
    project.write("config.yml", &with(json!({ "exit": 1 })));
    let mut client = Client::start(&project, &[]);
    assert_eq!(client.names(), [] as [&str; 0]);
    project.replace("config.lock.json", &lock[..lock.len() / 2]);
    client.logged("plan.rejected", 0);
    client.logged("the lock can't be read", 0);
    project.replace("config.lock.json", &lock);
    assert!(reloaded(&client, 2).ends_with("no server touched"));
    client.logged("lock-stale: ", 0);
    assert_eq!(client.names_when(|names| names.len() == 1), ["mcp__s__a"]);
    client.end();
}

#[test]
fn without_a_watch_only_sighup_reads_the_files() {
    let project = Project::new(&including(&["a"]));
    let mut client = Client::start(&project, &["--no-watch"]);
    assert_eq!(client.names(), ["mcp__s__a"]);
    project.replace("config.yml", "mcp_servers: {\n");
    client.signal(Signal::SIGHUP);
    client.logged("plan.rejected", 0);
    let mark = client.mark();
    // Asked again, it says so again.
    client.signal(Signal::SIGHUP);
    client.logged("plan.rejected", mark);
    project.replace("config.yml", &including(&["b"]));
    client.signal(Signal::SIGHUP);
    reloaded(&client, 2);
    assert_eq!(client.names_when(|names| names == ["mcp__s__b"]).len(), 1);
    client.end();
}

/// Where the system tells of nothing.
#[test]
fn by_polling_each_change_is_noticed_too() {
    let project = Project::new("");
    std::fs::remove_file(project.path("config.yml")).unwrap();
    let fragments = |tools: &[&str]| {
        let mut whole: Value = serde_json::from_str(&including(tools)).unwrap();
        whole["fragments"] = json!(["more/*.yml"]);
        whole.to_string()
    };
    std::fs::create_dir(project.path("one")).unwrap();
    std::fs::create_dir(project.path("more")).unwrap();
    project.write("one/config.yml", &fragments(&["a"]));
    std::os::unix::fs::symlink("one/config.yml", project.path("config.yml")).unwrap();
    project.write("more/first.yml", "mcp: { denylist: [nothing] }\n");
    let mut client = Client::start(&project, &["--watch", "poll"]);
    assert_eq!(client.names(), ["mcp__s__a"]);
    touch(&project.path("one/config.yml"));
    project.write("one/config.yml", &fragments(&["b"]));
    reloaded(&client, 2);
    // The link is retargeted.
    std::fs::create_dir(project.path("two")).unwrap();
    project.write("two/config.yml", &fragments(&["a", "b"]));
    std::os::unix::fs::symlink("two/config.yml", project.path("link")).unwrap();
    std::fs::rename(project.path("link"), project.path("config.yml")).unwrap();
    reloaded(&client, 3);
    // A fragment that wasn't there.
    project.write("more/second.yml", "mcp: { denylist: [b] }\n");
    reloaded(&client, 4);
    assert_eq!(client.names_when(|names| names.len() == 1), ["mcp__s__a"]);
    let log = client.end();
    assert_eq!((count(&log, "plan.reloaded"), count(&log, "plan.rejected")), (3, 0), "{log}");
}

/// A directory in which something else is written all the time still gets its reload.
#[test]
fn a_busy_directory_does_not_hold_up_a_reload() {
    let project = Project::new(&including(&["a"]));
    let mut client = Client::start(&project, &[]);
    client.names();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let noisy = project.path("noise.log");
    let writer = std::thread::spawn(move || {
        // The wait is the noise's rhythm, nothing waits for it.
        while stopped.recv_timeout(std::time::Duration::from_millis(20)).is_err() {
            std::fs::write(&noisy, "x").unwrap();
        }
    });
    project.replace("config.yml", &including(&["b"]));
    reloaded(&client, 2);
    stop.send(()).unwrap();
    writer.join().unwrap();
    client.end();
}
