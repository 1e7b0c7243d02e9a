//! A running executor asked, for whatever command needs one.

use std::time::Duration;

use clap::Args;

use super::project::{Project, Which};
use super::report::{CouldNot, Outcome, counted};
use crate::core::status::ServerStatus;
use crate::serve::control::{self, Answer, ControlError, Request, Running, Status};

/// How long an executor may take to say how it stands.
const STATUS_PATIENCE: Duration = Duration::from_secs(10);

/// Which executor is meant.
#[derive(Debug, Args)]
pub(super) struct OneOf {
    /// Of several executors of the config, the one with this process id
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
}

impl OneOf {
    /// Asks the executor that runs for a config.
    ///
    /// # Errors
    /// When there is none, or several and none was chosen, or no answer.
    pub(super) async fn ask(&self, project: &Project, request: &Request) -> Result<Answer, CouldNot> {
        let could_not = |error: ControlError| CouldNot::new(error.to_string());
        let mut found = control::find(&project.key()).await.map_err(could_not)?;
        if let Some(pid) = self.pid {
            found.retain(|running| running.pid == pid);
        }
        let running = match (found.pop(), self.pid) {
            (Some(running), _) if found.is_empty() => running,
            (Some(last), _) => {
                found.push(last);
                return Err(CouldNot::new(several(project, found).await));
            }
            (None, Some(pid)) => {
                let what = project.shown();
                return Err(CouldNot::new(format!("no executor with the process id {pid} runs for {what}")));
            }
            (None, None) => return Err(CouldNot::new(nobody(project))),
        };
        let patience = matches!(request, Request::Status).then_some(STATUS_PATIENCE);
        match running.ask(request, patience).await.map_err(could_not)? {
            Answer::CouldNot(why) => Err(CouldNot::new(why)),
            answer => Ok(answer),
        }
    }

    /// Asks the chosen executor, else any of the config's, since all of them run the same. `None` when there is none.
    ///
    /// # Errors
    /// When the chosen one isn't there, or there is no answer.
    pub(super) async fn ask_any(&self, project: &Project, request: &Request) -> Result<Option<Answer>, CouldNot> {
        if self.pid.is_some() {
            return self.ask(project, request).await.map(Some);
        }
        // Where nobody can be found there is nobody.
        let Some(running) = control::find(&project.key()).await.unwrap_or_default().into_iter().next() else {
            return Ok(None);
        };
        tracing::debug!("the executor with the process id {} is asked", running.pid);
        match running.ask(request, None).await {
            Ok(Answer::CouldNot(why)) => Err(CouldNot::new(why)),
            Ok(answer) => Ok(Some(answer)),
            Err(error) => Err(CouldNot::new(error.to_string())),
        }
    }
}

/// The project whose executor is asked: of a config, or of a lock alone, which `run --frozen` needs nothing more than.
pub(super) fn project(which: &Which) -> Result<Project, CouldNot> {
    Project::find(which).or_else(|none| match Project::find_locked(which) {
        Ok(project) if project.lock.exists() => Ok(project),
        _ => Err(none),
    })
}

fn nobody(project: &Project) -> String {
    format!(
        "no executor runs for {}; start one with '{}', or start the client that does",
        project.shown(),
        project.command("run --stdio")
    )
}

/// Tells several executors apart, by what each says of itself.
async fn several(project: &Project, found: Vec<Running>) -> String {
    let mut lines = vec![format!("{} executors run for {}; choose one with --pid", found.len(), project.shown())];
    for running in found {
        let pid = running.pid;
        lines.push(match running.ask(&Request::Status, Some(STATUS_PATIENCE)).await {
            Ok(Answer::Status(status)) => format!("  {pid}: {}", who(&status)),
            Ok(_) => format!("  {pid}"),
            Err(error) => format!("  {pid}: {error}"),
        });
    }
    lines.join("\n")
}

/// Whom an executor serves, and since when.
pub(super) fn who(status: &Status) -> String {
    let process = &status.process;
    let place = process.workspace.as_ref().map(|place| format!(" in {place}")).unwrap_or_default();
    format!("serves {}{place}, for {}", process.agent, super::table::duration(process.since))
}

/// An executor that answers another question than it was asked.
pub(super) fn other_answer() -> CouldNot {
    CouldNot::new("the executor answered another question; is it another version of mcplan?")
}

/// What became of a server that was told to connect, in a line.
pub(super) fn outcome(server: &ServerStatus) -> String {
    let ServerStatus { name, state, cause, .. } = server;
    let cause = cause.as_ref().map(|cause| format!(": {cause}")).unwrap_or_default();
    match state.as_str() {
        "ready" => format!("{name}: ready, {}", counted(server.tool_count, "tool")),
        "parked" => format!("{name}: not connected, because it is disabled in the config"),
        "waiting" => format!("{name}: not ready, tried again soon{cause}"),
        // One that rests on purpose says why.
        "configured" | "connecting" if server.cause.is_none() => {
            format!("{name}: still {state}; 'mcplan status' tells how it goes on")
        }
        _ => format!("{name}: {state}{cause}"),
    }
}

/// The exit code for it.
pub(super) fn judged(server: &ServerStatus) -> Outcome {
    match server.state.as_str() {
        "ready" => Outcome::Fine,
        "configured" | "connecting" if server.cause.is_none() => Outcome::CouldNotFindOut,
        _ => Outcome::DoesNotHold,
    }
}
