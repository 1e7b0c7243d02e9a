//! Config → plan → lock → lock: never a panic, never a bug of ours reported, no plan exactly when there is an error, the
//! same bytes each time, and a lock that reads as it was written.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use mcplan_compiler::code::Code;
use mcplan_compiler::lock::{Lock, make};
use mcplan_compiler::render::{self, Human};
use mcplan_compiler::source::MemorySources;
use mcplan_compiler::{Compilation, compile};

fn run(files: &MemorySources) -> Compilation {
    compile("config.yml", files).expect("the config is there")
}

fuzz_target!(|bytes: &[u8]| {
    let template = b"{% for tool in tools %}{{ tool.name }}\n{% endfor %}".to_vec();
    let files = [("config.yml".to_owned(), bytes.to_vec()), ("tools.j2".to_owned(), template)];
    let files = MemorySources(BTreeMap::from(files));
    let first = run(&files);
    assert!(first.diagnostics.iter().all(|diagnostic| diagnostic.code != Code::Internal), "{:?}", first.diagnostics);
    assert_eq!(first.plan.is_none(), first.diagnostics.iter().any(|diagnostic| diagnostic.is_error()));
    let second = run(&files);
    assert_eq!(first.diagnostics, second.diagnostics);
    assert_eq!(first.plan, second.plan);
    render::human(&first.diagnostics, &first.texts, Human { styled: true, ..Human::default() });
    render::json(&first.diagnostics, &first.texts);
    let checked = [render::Checked::Read { diagnostics: &first.diagnostics, texts: &first.texts }];
    render::sarif(&checked, Some("/work"));
    // One command a line, whatever the text of the config holds.
    let commands = render::github(&checked, None);
    assert_eq!(commands.lines().count(), first.diagnostics.len(), "{commands}");
    assert!(commands.lines().all(|line| line.starts_with("::")), "{commands}");
    let Some(plan) = first.plan else { return };
    let lock = make(plan, first.files, BTreeMap::new(), None).lock;
    let text = lock.text();
    let read = Lock::read(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read.text(), text);
    assert_eq!(read.plan, lock.plan);
});
