//! What the executor makes of the cases of `tests/compile`, which says what is in one: `mcplan validate` prints the report
//! of each, to the byte, and the tools of `locked` are named, filtered and shared out among the agents as `tools.txt` says.
//!
//! `UPDATE=1` writes both anew.

#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "an integration test")]

#[path = "compile/folder.rs"]
mod folder;
mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use folder::{CONFIG, Folder, cases, check, finish};
use mcplan_compiler::diagnostic::Severity;
use mcplan_compiler::lock::{Lock, LockedServer, make};
use mcplan_compiler::name::ServerName;
use mcplan_compiler::plan::{NameTable, Plan};
use mcplan_compiler::source::Sources as _;
use mcplan_executor::core::caller::Caller;
use mcplan_executor::core::catalog::{Catalog, Listing};
use support::{Project, Ran};

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            fs::create_dir_all(to.join(&name)).unwrap();
            copy(&path, &to.join(&name));
        } else {
            fs::copy(&path, to.join(&name)).unwrap();
        }
    }
}

/// The case as a project on disk, and `mcplan validate` as it is asked for there.
fn validate(case: &Folder) -> Ran {
    let project = Project::new("");
    copy(&case.0, &project.path(""));
    fs::write(project.path(CONFIG), case.read(CONFIG).unwrap()).unwrap();
    let lock = case.compile().plan.and_then(|plan| {
        // What a plugin printed is in a lock too, though nothing that a server said.
        let printed = || case.has("printed").then(|| make(plan.clone(), Vec::new(), BTreeMap::new(), None).lock);
        case.lock(&plan).or_else(printed)
    });
    if let Some(lock) = lock {
        let profile = if case.has("config.prod.yml") { ".prod" } else { "" };
        project.write(&format!("config{profile}.lock.json"), &lock.text());
    }
    let mut arguments = vec!["validate".to_owned()];
    arguments.extend(case.has("host-keys").then(|| "--host-keys".to_owned()));
    arguments.extend(case.has("config.prod.yml").then(|| "--profile=prod".to_owned()));
    arguments.extend(case.text("target").map(|word| format!("--target={}", word.trim())));
    arguments.extend(case.has("machine.json").then(|| "--env".to_owned()));
    arguments.push(CONFIG.to_owned());
    let mut command = project.command(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    if let Some(machine) = case.machine() {
        fs::create_dir(project.path("bin")).unwrap();
        for program in machine.0["commands"].as_array().into_iter().flatten() {
            let program = program.as_str().unwrap();
            // One with a slash is a file of the project, as it would be started.
            let path = project.path(if program.contains('/') { "" } else { "bin" }).join(program);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let variables = machine.0["variables"].as_object().unwrap();
        command.env_clear().env("PATH", project.path("bin"));
        command.envs(variables.iter().map(|(name, value)| (name, value.as_str().unwrap())));
        assert_eq!(machine.0["files"].as_array().map(Vec::len), Some(0), "files of a machine lie at fixed paths");
    }
    Ran::of(command.output().unwrap())
}

#[test]
fn the_report_of_every_case_is_what_the_binary_prints() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for (kind, code) in [("ok", 0), ("err", 1)] {
        for case in cases(kind) {
            // There is no lock for what a plugin printed when that can't be used.
            if case.has("printed") && kind == "err" || case.has("failed") {
                continue;
            }
            let ran = validate(&case);
            let name = case.0.display();
            // What a machine lacks is an error of the machine, not of the config.
            let lacks = case.compile().diagnostics.iter().any(|found| found.severity == Severity::Error);
            assert_eq!(ran.code, i32::from(lacks).max(code), "{name}\n{}{}", ran.out, ran.err);
            let profile = if case.has("config.prod.yml") { " with profile prod" } else { "" };
            let summary =
                ran.err.rfind(&format!("{CONFIG}{profile}: ")).filter(|_| ran.code != 0).unwrap_or(ran.err.len());
            check(&case.0.join("report.txt"), &ran.err[..summary], &mut wrong);
            seen += 1;
        }
    }
    assert!(seen > 150, "only {seen} cases");
    finish(&wrong);
}

/// What every agent sees of the tools that were locked, and why it doesn't see the others.
fn tools(plan: &Plan, lock: &Lock) -> String {
    let listings = lock.catalog.iter().map(|(name, server)| (name.clone(), Listing::from(server))).collect();
    let whole = Catalog::build(plan, &listings);
    let names = |(name, server): (&ServerName, &LockedServer)| {
        let kept = server.tools.iter().map(|tool| tool.known.name.clone());
        let all = kept.chain(server.filtered.iter().map(|tool| tool.name.clone()));
        all.map(|tool| (name.clone(), tool)).collect::<Vec<_>>()
    };
    let order = |name: &ServerName| plan.servers.iter().position(|server| server.name == *name).unwrap_or(usize::MAX);
    let mut all: Vec<_> = lock.catalog.iter().flat_map(names).collect();
    all.sort_by(|a, b| (order(&a.0), &a.1).cmp(&(order(&b.0), &b.1)));
    let table =
        NameTable::build(&plan.naming, &plan.reserved, all.iter().map(|(server, tool)| (server, tool.as_str())));
    let unbound: BTreeMap<_, _> = table.unbound().map(|(server, tool, name)| ((server, tool), name)).collect();
    let mut out = String::new();
    for agent in plan.agents.keys() {
        let catalog = whole.narrowed(plan, &Caller { agent: agent.clone(), ..Caller::lead() });
        let _ = writeln!(out, "{agent}");
        for (server, tool) in &all {
            let name =
                table.exposed(server, tool).map_or_else(|| unbound[&(server, tool.as_str())], |name| name.as_str());
            let fate = match (catalog.tool(name), catalog.hidden(name)) {
                (Some(seen), _) if seen.server == *server && seen.deferred => "deferred".to_owned(),
                (Some(seen), _) if seen.server == *server => "listed".to_owned(),
                (_, Some((_, why))) => why.to_string(),
                _ => "its server is not connected".to_owned(),
            };
            let _ = writeln!(out, "  {server} {tool}: {name}, {fate}");
        }
    }
    out
}

#[test]
fn tools_are_named_filtered_and_shared_out_as_the_config_says() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for case in cases("ok") {
        let Some(plan) = case.compile().plan else { continue };
        let Some(lock) = case.lock(&plan) else { continue };
        if case.has("tools.txt") {
            check(&case.0.join("tools.txt"), &tools(&plan, &lock), &mut wrong);
            seen += 1;
        }
    }
    assert!(seen > 4, "only {seen} cases show their tools");
    finish(&wrong);
}
