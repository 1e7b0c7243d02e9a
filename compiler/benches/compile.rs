//! Compiling 10, 100 and 1 000 servers, right and wrong ones. Throughput in bytes of the config's text.

use divan::Bencher;
use divan::counter::BytesCount;
use mcplan_compiler::render::{Human, human};
use mcplan_compiler::source::MemorySources;
use mcplan_compiler::{Compilation, compile};

const SERVERS: [usize; 3] = [10, 100, 1000];

fn main() {
    divan::main();
}

/// A config of that many servers of every kind. `wrong` puts a mistake into each.
fn config(servers: usize, wrong: bool) -> String {
    let mut text = String::from(
        "version: 1\nmcp_builtins: [git, fetch, time]\nmcp:\n  timeout_seconds: 20\n  denylist: [\"mcp__*__delete_*\"]\nmcp_servers:\n",
    );
    for index in 0..servers {
        let command = if wrong && index % 2 == 0 { "comand" } else { "command" };
        let reference = if wrong { "${DATA_DIR" } else { "${DATA_DIR:-/data}" };
        text += &match index % 3 {
            0 => format!(
                "  - name: files-{index}\n    description: the files of team {index}\n    {command}: npx\n    args: [\"-y\", \"@modelcontextprotocol/server-filesystem@2026.8.31\", \"{reference}\"]\n    env: {{ LOG_LEVEL: info, API_TOKEN: \"${{TOKEN_{index}}}\" }}\n    tools:\n      include: [read_*, list_directory]\n      exclude: [read_media_file]\n"
            ),
            1 => format!(
                "  - name: remote-{index}\n    url: https://host-{index}.example.com/mcp{}\n    headers: {{ Authorization: \"Bearer ${{TOKEN_{index}}}\" }}\n    reconnect: {{ attempts: 3 }}\n",
                if wrong { " x" } else { "" }
            ),
            _ => format!(
                "  - {command}: uvx\n    args: [\"mcp-server-{index}==1.2.{index}\"]\n    timeout_seconds: {}\n",
                if wrong { "5s" } else { "5" }
            ),
        };
    }
    text
}

fn run(text: &str) -> Compilation {
    let files = MemorySources([("config.yml".to_owned(), text.as_bytes().to_vec())].into());
    compile("config.yml", &files).expect("the config is there")
}

#[divan::bench(args = SERVERS)]
fn right(bencher: Bencher, servers: usize) {
    let text = config(servers, false);
    assert!(run(&text).plan.is_some(), "it compiles");
    bencher.counter(BytesCount::of_str(&text)).bench(|| run(divan::black_box(&text)));
}

#[divan::bench(args = SERVERS)]
fn wrong(bencher: Bencher, servers: usize) {
    let text = config(servers, true);
    assert!(run(&text).diagnostics.len() >= servers, "every server has a mistake");
    bencher.counter(BytesCount::of_str(&text)).bench(|| {
        let compilation = run(divan::black_box(&text));
        human(&compilation.diagnostics, &compilation.texts, Human::default())
    });
}

/// What the executor does with a plan on every reload: its text and digest.
#[divan::bench(args = SERVERS)]
fn digest(bencher: Bencher, servers: usize) {
    let plan = run(&config(servers, false)).plan.expect("it compiles");
    bencher.bench(|| divan::black_box(&plan).digest());
}
