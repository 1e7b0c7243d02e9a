//! Compiles every folder of `tests/compile` and compares what comes out with the files in it.
//!
//! ```text
//! tests/compile/ok/NAME/config.yml    compiles: plan.json, and report.txt when there are warnings or notes
//! tests/compile/err/NAME/config.yml   doesn't: report.txt, the whole text that a user sees
//! ```
//!
//! A case may bring more, in files beside its config:
//!
//! ```text
//! any file that the config names   fragments, templates, …
//! config.prod.yml                  the profile `prod` is laid over the config
//! host-keys                        empty: the config is another program's file (`--host-keys`)
//! fragment                         empty: the config is checked as a fragment
//! printed/NAME.json                what the plugin NAME printed when it was locked
//! failed/NAME.txt                  why the plugin NAME failed
//! locked/NAME.json                 what the server NAME said when it was locked: {"instructions": …, "tools": […],
//!                                  "prompts": […], "resource_templates": […]}; with the folder there is a lock, and what a lock tells is reported
//! padding                          a number: instructions of locked servers are filled up by so many characters
//! tools.txt                        with `locked`: what each agent sees of these tools, compared in `tests/cases.rs`
//! target                           the word behind `--target`, with `locked`
//! block                            empty: with the lock the prompt block is rendered too, as `mcplan validate` does;
//!                                  its report is compared in `tests/cases.rs`
//! machine.json                     the machine of `--env`: {"variables": {…}, "commands": […], "files": […]}
//! size                             a number: the config is filled up with `#` to that many bytes
//! ```
//!
//! After a wanted change run `UPDATE=1 cargo test -p mcplan-compiler --test compile` and read the difference in git, which
//! leaves the bytes of these files alone (`.gitattributes`). `tests/cases.rs` shows that each report is what the
//! binary prints.

#[path = "compile/folder.rs"]
mod folder;

use std::collections::BTreeSet;

use folder::{cases, check, finish, report};
use mcplan_compiler::code::Code;
use mcplan_compiler::diagnostic::Severity;
use mcplan_compiler::explain::explain;
use mcplan_compiler::json;
use mcplan_compiler::plan::Plan;

#[test]
fn what_compiles_gives_its_plan() {
    let mut wrong = Vec::new();
    for case in cases("ok") {
        let compilation = case.compile();
        let Some(plan) = &compilation.plan else {
            wrong.push(format!("{} doesn't compile:\n{}", case.0.display(), report(&compilation)));
            continue;
        };
        let text = plan.text();
        check(&case.0.join("plan.json"), &json::pretty(&text), &mut wrong);
        if !case.has("block") {
            check(&case.0.join("report.txt"), &report(&compilation), &mut wrong);
        }
        let again: Plan = serde_json::from_str(&text).expect("a plan reads its own text");
        assert_eq!((&again, again.text()), (plan, text), "{}: read back", case.0.display());
    }
    finish(&wrong);
}

#[test]
fn what_does_not_compile_says_why() {
    let mut wrong = Vec::new();
    for case in cases("err") {
        let compilation = case.compile();
        if compilation.plan.is_some() {
            wrong.push(format!("{} compiles:\n{}", case.0.display(), report(&compilation)));
        }
        check(&case.0.join("report.txt"), &report(&compilation), &mut wrong);
    }
    finish(&wrong);
}

/// What no case can show, and why.
const WITHOUT_CASE: [(Code, &str); 1] =
    [(Code::Internal, "it reports a bug of ours, and a known one is mended instead")];

#[test]
fn every_error_and_warning_says_what_to_do() {
    let mut silent = BTreeSet::new();
    for case in ["ok", "err"].into_iter().flat_map(cases) {
        for found in case.compile().diagnostics {
            if found.severity != Severity::Note && found.help.is_none() {
                silent.insert(format!("{}: {}: {}", case.0.display(), found.code, found.message));
            }
        }
    }
    assert!(silent.is_empty(), "{silent:#?}");
}

/// The other half of a code, its explanation, is there when the compiler compiles.
#[test]
fn every_code_has_a_case() {
    let reports: Vec<_> =
        ["ok", "err"].into_iter().flat_map(cases).filter_map(|case| case.text("report.txt")).collect();
    let is_shown = |code: Code| {
        let head = format!("[{code}]: ");
        reports.iter().flat_map(|report| report.lines()).any(|line| line.contains(&head) && !line.starts_with(' '))
    };
    for code in Code::ALL {
        match WITHOUT_CASE.iter().find(|(without, _)| without == code) {
            None => assert!(is_shown(*code), "no case shows {code}: add a folder to tests/compile"),
            Some((_, why)) => assert!(!is_shown(*code), "a case shows {code}, though {why}"),
        }
        assert!(explain(*code).meaning.len() > 60, "{code} isn't explained");
    }
}
