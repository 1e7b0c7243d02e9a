//! What a check of one server gave.

use std::time::Duration;

use mcplan_compiler::hidden::hidden_places;
use mcplan_compiler::observed::Observed;
use mcplan_compiler::plan::{Launch, Server};
use serde::Serialize;

use super::fix::fix;
use crate::cli::project::Project;
use crate::cli::table::duration;
use crate::event::Event;
use crate::runtime::connection::ConnectError;
use crate::runtime::observe::Probed;

/// From this share of `timeout_seconds` on, a start is slow.
const SLOW_SHARE: f64 = 0.5;
/// Of many warnings of one kind, so many are told.
const SHOWN: usize = 5;

/// One server.
#[derive(Debug, Serialize)]
pub(super) struct Checked {
    pub(super) name: String,
    pub(super) transport: &'static str,
    pub(super) outcome: Verdict,
    /// Why it was left alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) reason: Option<String>,
    /// The program that is run.
    pub(super) program: Option<String>,
    pub(super) steps: Vec<StepTaken>,
    /// All steps together.
    pub(super) seconds: f64,
    pub(super) said: Option<Said>,
    pub(super) warnings: Vec<String>,
    pub(super) faults: Vec<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verdict {
    Ok,
    Fault,
    Skipped,
}

/// How long a step took.
#[derive(Debug, Serialize)]
pub(super) struct StepTaken {
    pub(super) step: &'static str,
    pub(super) seconds: f64,
}

/// What a server says of itself.
#[derive(Debug, Serialize)]
pub(super) struct Said {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) protocol_version: String,
    /// Tools that it lists and that can be used.
    pub(super) tools: usize,
    /// Tools that are offered after filters and policy.
    pub(super) offered: usize,
    pub(super) prompts: usize,
    pub(super) resource_templates: usize,
    /// What the offered tools cost when all are listed outright.
    pub(super) tokens: Option<usize>,
}

/// What keeps a server from serving.
#[derive(Debug, Serialize)]
pub(super) struct Fault {
    /// A word for its kind.
    pub(super) class: &'static str,
    pub(super) message: String,
    pub(super) fix: String,
}

impl Checked {
    /// A server that is left alone.
    pub(super) fn skipped(server: &Server, reason: String) -> Self {
        Self { outcome: Verdict::Skipped, reason: Some(reason), ..Self::untouched(server) }
    }

    /// A server that need not be tried.
    pub(super) fn broken(server: &Server, errors: &[ConnectError]) -> Self {
        let faults = errors.iter().map(|error| Fault::of(server, error)).collect();
        Self { outcome: Verdict::Fault, faults, ..Self::untouched(server) }
    }

    fn untouched(server: &Server) -> Self {
        Self {
            name: server.name.to_string(),
            transport: server.launch.kind().as_str(),
            outcome: Verdict::Ok,
            reason: None,
            program: None,
            steps: Vec::new(),
            seconds: 0.0,
            said: None,
            warnings: unpinned(server).into_iter().collect(),
            faults: Vec::new(),
        }
    }

    /// A server that was tried.
    pub(super) fn probed(server: &Server, program: Option<String>, probed: &Probed) -> Self {
        let is_process = matches!(server.launch, Launch::Stdio(_));
        // Before anything is said, a remote server has nothing to do.
        let steps = probed.steps.iter().filter(|(step, _)| is_process || step.is_some());
        let steps: Vec<_> = steps
            .map(|(step, took)| StepTaken { step: step.map_or("start", |step| step.word()), seconds: seconds(*took) })
            .collect();
        let took = probed.steps.iter().map(|(_, took)| *took).sum::<Duration>();
        let mut checked = Self { program, steps, seconds: seconds(took), ..Self::untouched(server) };
        match &probed.result {
            Err(error) => {
                checked.outcome = Verdict::Fault;
                checked.faults.push(Fault::of(server, error));
            }
            Ok(observed) => {
                checked.said = Some(said(observed));
                checked.warn_of_time(server);
                checked.warn_of_words(observed);
            }
        }
        checked.warn_of_noise(probed);
        checked
    }

    fn warn_of_time(&mut self, server: &Server) {
        let limit = server.limits.timeout_seconds;
        if self.seconds > limit * SLOW_SHARE {
            let took = duration(self.seconds);
            self.warnings.push(format!(
                "it needed {took} of the {limit} s that `timeout_seconds` gives it; raise that if it may be slower still"
            ));
        }
    }

    fn warn_of_words(&mut self, observed: &Observed) {
        self.warnings.extend(observed.warnings.iter().cloned());
        let unusable = observed.quarantined.iter();
        self.warn_of_each(unusable.map(|bad| format!("the tool `{}` can't be used: {}", bad.name, bad.reason)));
        let hidden =
            hidden_places(&observed.introduction, &observed.tools, &observed.prompts, &observed.resource_templates);
        self.warn_of_each(hidden.into_iter().map(|place| format!("characters that can't be seen are in {place}")));
    }

    fn warn_of_noise(&mut self, probed: &Probed) {
        self.warnings.extend(probed.oddities.iter().cloned());
        if let Some(first) = probed.noise.first() {
            self.warnings.push(format!(
                "its stdout has text that is no MCP message, which belongs on stderr; it is skipped: {first}"
            ));
        }
    }

    /// The first few, and how many more there are.
    fn warn_of_each(&mut self, warnings: impl Iterator<Item = String>) {
        let all: Vec<_> = warnings.collect();
        let more = all.len().saturating_sub(SHOWN);
        self.warnings.extend(all.into_iter().take(SHOWN));
        if more > 0 {
            self.warnings.push(format!("and {more} more of that kind"));
        }
    }

    /// What the lock makes of the server's words.
    pub(super) fn judged(&mut self, project: &Project, told: &[Event]) {
        let mut drifted = Vec::new();
        for event in told {
            match event {
                Event::ServerDrifted { change, .. } => drifted.push(format!("it isn't what was locked: {change}")),
                Event::ToolQuarantined { tool, reason, .. } => {
                    drifted.push(format!("the tool `{tool}` is quarantined, since it isn't what was locked: {reason}"));
                }
                Event::ServerRefused { reason, .. } => {
                    self.outcome = Verdict::Fault;
                    self.faults.push(Fault {
                        class: "refused_drift",
                        message: format!("nothing of it is offered, since it isn't what was locked: {reason}"),
                        fix: format!(
                            "look at it with '{}', and run '{}' if it is wanted",
                            project.command("diff --live"),
                            project.command("lock")
                        ),
                    });
                }
                _ => {}
            }
        }
        self.warn_of_each(drifted.into_iter());
    }

    /// What is left of its tools after filters and policy, and what they cost.
    pub(super) fn offers(&mut self, offered: usize, tokens: Option<usize>) {
        let Some(said) = &mut self.said else { return };
        (said.offered, said.tokens) = (offered, tokens);
        if said.tools == 0 {
            self.warnings.push("it has no tools".to_owned());
        } else if offered == 0 && self.faults.is_empty() {
            self.warnings.push("none of its tools is offered; 'mcplan explain TOOL' tells why".to_owned());
        }
    }
}

impl Fault {
    fn of(server: &Server, error: &ConnectError) -> Self {
        Self { class: error.class(), message: error.to_string(), fix: fix(server, error) }
    }
}

fn said(observed: &Observed) -> Said {
    let introduction = &observed.introduction;
    Said {
        name: introduction.name.clone(),
        version: introduction.version.clone(),
        protocol_version: introduction.protocol_version.clone(),
        tools: observed.tools.len(),
        offered: 0,
        prompts: observed.prompts.len(),
        resource_templates: observed.resource_templates.len(),
        tokens: None,
    }
}

fn unpinned(server: &Server) -> Option<String> {
    let (package, pinned) = server.launch.unpinned()?;
    Some(format!("`{package}` runs whatever version is newest that day; pin it: `{pinned}`"))
}

/// To the millisecond.
fn seconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::catalog::tests::plan;
    use crate::runtime::connection::Step;

    fn probed(start: f64, initialize: f64) -> Probed {
        let took = Duration::from_secs_f64;
        Probed {
            result: Ok(Observed::default()),
            steps: vec![(None, took(start)), (Some(Step::Initialize), took(initialize))],
            noise: Vec::new(),
            oddities: Vec::new(),
        }
    }

    #[test]
    fn a_start_that_comes_near_its_limit_is_slow() {
        let plan = plan("mcp_servers: [{ name: a, command: x, timeout_seconds: 10 }, { name: b, url: 'https://b' }]");
        let warnings = |server: usize, probed: Probed| Checked::probed(&plan.servers[server], None, &probed).warnings;
        assert_eq!(warnings(0, probed(1.0, 4.0)), [] as [&str; 0]);
        assert_eq!(
            warnings(0, probed(1.0, 4.1)),
            ["it needed 5 s of the 10 s that `timeout_seconds` gives it; raise that if it may be slower still"]
        );
        let steps = |server: usize| {
            let checked = Checked::probed(&plan.servers[server], None, &probed(0.001, 0.0));
            checked.steps.iter().map(|step| step.step).collect::<Vec<_>>()
        };
        assert_eq!((steps(0), steps(1)), (vec!["start", "initialize"], vec!["initialize"]));
    }

    #[test]
    fn many_warnings_of_a_kind_are_counted() {
        let plan = plan("mcp_servers: [{ name: a, command: x }]");
        let mut checked = Checked::skipped(&plan.servers[0], String::new());
        checked.warn_of_each((1..=8).map(|number| number.to_string()));
        assert_eq!(checked.warnings, ["1", "2", "3", "4", "5", "and 3 more of that kind"]);
    }
}
