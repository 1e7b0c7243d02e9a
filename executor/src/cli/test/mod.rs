//! `mcplan test`: the `tests` of the config, held against the lock, offline.
//!
//! The lock decides, with its plan and its catalog: it is what is reviewed and deployed. A lock that doesn't fit the config
//! any more proves nothing about what is written now. Then the tests run all the same, so that one sees where things
//! stand, and the run fails with `lock-stale`: a warning is seen by nobody who has this run before a commit.

mod junit;
mod result;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use mcplan_compiler::Compilation;
use mcplan_compiler::lock::{Lock, Notice};
use serde_json::{Value, json};

use super::project::{Project, Which};
use super::report::{self, CouldNot, Outcome};
use super::why::Why;
use super::{caller, everywhere};
use result::{Subject, TestResult};

/// Run the tests of the config against the lock: nothing is started
#[derive(Debug, Args)]
pub(super) struct TestCommand {
    /// Only the tests of this agent
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// How to print the results: for people, as JSON, as JUnit XML
    #[arg(long, value_enum, default_value_t = Format::Human)]
    format: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Human,
    Json,
    Junit,
}

/// What one run gave.
struct Run {
    /// The config, as the user named it.
    config: String,
    /// Its lock.
    lock: String,
    /// The command that locks it anew.
    relock: String,
    /// Whether the lock fits the config.
    fits: bool,
    /// In the order of the files.
    results: Vec<TestResult>,
}

impl TestCommand {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let project = Project::find(which)?;
        let Ok(compilation) = report::plan(project.compile()?) else {
            // What has errors says nothing that could be held against anything.
            return Ok(Outcome::CouldNotFindOut);
        };
        let lock = project.need_lock()?;
        if let (Some(plan), Some(agent)) = (&compilation.plan, &self.agent) {
            caller(plan, Some(agent), None)?;
        }
        let run = Run {
            config: project.config.display().to_string(),
            lock: project.lock.display().to_string(),
            relock: project.command("lock"),
            fits: project.fits(&compilation, &lock),
            results: self.results(&project, &lock, &compilation)?,
        };
        match self.format {
            Format::Human => report::result(run.text()),
            Format::Json => report::result(mcplan_compiler::json::pretty(&run.as_json().to_string())),
            Format::Junit => report::result(junit::document(&run)),
        }
        if run.results.is_empty() {
            let whose = self.agent.as_ref().map(|agent| format!(" of the agent `{agent}`")).unwrap_or_default();
            report::note(format_args!("{} has no tests{whose}", run.config));
        } else if !run.fits {
            report::error(run.stale());
        }
        Ok(if run.holds() { Outcome::Fine } else { Outcome::DoesNotHold })
    }

    fn results(&self, project: &Project, lock: &Lock, compilation: &Compilation) -> Result<Vec<TestResult>, CouldNot> {
        let plan = everywhere(&lock.plan);
        let why = Why::new(project, lock, &plan, compilation)?;
        let mut agents = BTreeMap::new();
        let mut results = Vec::new();
        for test in compilation.tests.iter().filter(|test| self.agent.as_ref().is_none_or(|only| test.agent == *only)) {
            let subject = agents.entry(test.agent.as_str()).or_insert_with(|| Subject::new(&why, &test.agent));
            results.push(subject.result(test)?);
        }
        Ok(results)
    }
}

impl Run {
    fn failed(&self) -> usize {
        self.results.iter().filter(|result| !result.holds).count()
    }

    /// Without a test there is nothing that a stale lock could prove wrongly.
    fn holds(&self) -> bool {
        self.failed() == 0 && (self.fits || self.results.is_empty())
    }

    fn stale(&self) -> String {
        let Self { lock, config, relock, .. } = self;
        let stale = Notice::Stale;
        format!(
            "{stale}: {lock} doesn't fit {config} any more, and the tests ran against what is locked: run '{relock}'"
        )
    }

    /// A line for each test, why under those that fail, and the count.
    fn text(&self) -> String {
        let mut out = String::new();
        for result in &self.results {
            let word = if result.holds { "\u{1b}[32mok\u{1b}[0m    " } else { "\u{1b}[31mFAILED\u{1b}[0m" };
            let _ = writeln!(out, "{word}  {}  {}", result.place, result.title());
            for line in &result.why {
                let _ = writeln!(out, "        {line}");
            }
        }
        if !self.results.is_empty() {
            let (all, failed) = (self.results.len(), self.failed());
            let tests = if all == 1 { "test" } else { "tests" };
            let _ = writeln!(out, "{all} {tests}: {} passed, {failed} failed", all - failed);
        }
        out
    }

    fn as_json(&self) -> Value {
        let tests: Vec<_> = self.results.iter().map(TestResult::as_json).collect();
        json!({
            "config": self.config,
            "lock": self.lock,
            "lock_stale": !self.fits,
            "tests": tests,
            "passed": self.results.len() - self.failed(),
            "failed": self.failed(),
        })
    }
}
