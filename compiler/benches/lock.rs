//! Reading and writing the lock of 10 and 100 servers with 20 tools each. Throughput in bytes of the file.

use std::collections::BTreeMap;

use divan::Bencher;
use divan::counter::BytesCount;
use mcplan_compiler::compile;
use mcplan_compiler::lock::{Lock, make};
use mcplan_compiler::name::ServerName;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::source::MemorySources;
use serde_json::value::{RawValue, to_raw_value};

const SERVERS: [usize; 2] = [10, 100];
const TOOLS: usize = 20;

fn main() {
    divan::main();
}

/// A tool as servers have them: a few arguments, each explained.
fn tool(server: usize, index: usize) -> Box<RawValue> {
    let argument = |what: &str, kind: &str| {
        let description =
            format!("The {what} to use; \"latest\" and relative ones are resolved at the time of the call.");
        serde_json::json!({ "type": kind, "description": description })
    };
    let tool = serde_json::json!({
        "name": format!("list_records_{index}"),
        "description": format!("Lists the records of table {index} in store {server}, newest first, a page at a time."),
        "inputSchema": {
            "type": "object",
            "properties": {
                "path": argument("path", "string"),
                "since": argument("date", "string"),
                "limit": argument("number of records", "integer"),
                "fields": { "type": "array", "items": { "type": "string", "enum": ["id", "name", "owner", "changed"] } },
            },
            "required": ["path"],
        },
        "annotations": { "readOnlyHint": true },
    });
    to_raw_value(&tool).expect("it serializes")
}

fn lock(servers: usize) -> Lock {
    let entries = (0..servers).map(|index| format!("  - {{ name: s{index}, command: serve, args: [\"{index}\"] }}\n"));
    let text = format!("mcp_servers:\n{}", entries.collect::<String>());
    let files = MemorySources([("config.yml".to_owned(), text.into_bytes())].into());
    let plan = compile("config.yml", &files).expect("it is there").plan.expect("it compiles");
    let observed: BTreeMap<ServerName, Observed> = plan
        .servers
        .iter()
        .enumerate()
        .map(|(index, server)| {
            let mut observed = Observed::default();
            let tools: Vec<_> = (0..TOOLS).map(|tool_index| tool(index, tool_index)).collect();
            observed.add_tools(tools.iter().map(|tool| &**tool));
            (server.name.clone(), observed)
        })
        .collect();
    make(plan, vec!["config.yml".to_owned()], observed, None).lock
}

#[divan::bench(args = SERVERS)]
fn read(bencher: Bencher, servers: usize) {
    let text = lock(servers).text();
    bencher.counter(BytesCount::of_str(&text)).bench(|| Lock::read(divan::black_box(&text)));
}

#[divan::bench(args = SERVERS)]
fn write(bencher: Bencher, servers: usize) {
    let lock = lock(servers);
    bencher.counter(BytesCount::of_str(&lock.text())).bench(|| divan::black_box(&lock).text());
}
