//! Compiles every folder of `tests/compile` and compares what comes out with the files in it.
//!
//! ```text
//! tests/compile/ok/NAME/config.yml    compiles: plan.json, and report.txt when there are warnings or notes
//! tests/compile/err/NAME/config.yml   doesn't: report.txt, the whole text that a user sees
//! ```
//!
//! A config may name other files of its folder. After a wanted change run
//! `UPDATE=1 cargo test -p mcplan-compiler --test compile` and read the difference in git, which leaves the bytes of
//! these files alone (`.gitattributes`).

#[path = "compile/folder.rs"]
mod folder;

use std::collections::BTreeSet;

use folder::{cases, check, finish, report};
use mcplan_compiler::code::Code;
use mcplan_compiler::diagnostic::Severity;
use mcplan_compiler::plan::Plan;
use mcplan_compiler::source::MemorySources;
use mcplan_compiler::{compile, json};

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
        check(&case.0.join("report.txt"), &report(&compilation), &mut wrong);
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

/// The one kind of mistake that would be too large to keep.
#[test]
fn a_file_over_four_mebibytes_is_refused() {
    let files = MemorySources([("config.yml".to_owned(), vec![b'#'; (4 << 20) + 1])].into());
    let compilation = compile("config.yml", &files).expect("it is there");
    assert!(compilation.plan.is_none());
    insta::assert_snapshot!(report(&compilation), @r"
    error[file-too-large]: the file is longer than the limit of 4194304 bytes
    --> config.yml:1:1
     = help: a config holds servers and rules; move everything else out of it
    ");
}

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

#[test]
fn every_code_has_a_case() {
    let seen: BTreeSet<_> = ["ok", "err"]
        .into_iter()
        .flat_map(cases)
        .flat_map(|case| case.compile().diagnostics)
        .map(|diagnostic| diagnostic.code)
        // One is tested above; the other needs the block rendered, which the executor's `validate` does.
        .chain([Code::FileTooLarge, Code::ListingOverBudget])
        .collect();
    let missing: Vec<_> = Code::ALL.iter().filter(|code| **code != Code::Internal && !seen.contains(code)).collect();
    assert!(missing.is_empty(), "no case shows {missing:?}");
    assert!(!seen.contains(&Code::Internal), "no case is a bug of ours");
}
