//! What a running executor answers.

use std::sync::Arc;
use std::time::Instant;

use mcplan_compiler::name::ServerName;
use tokio_util::sync::CancellationToken;

use super::message::{
    Answer, CallRequest, Change, ProcessStatus, RejectedStatus, Reload, ReloadOutcome, Request, Status,
};
use crate::core::caller::Caller;
use crate::core::gate::Asked;
use crate::core::reconcile::Step;
use crate::core::status::{McpStatus, PlanStatus, ServerStatus, seconds};
use crate::runtime::connection::Client;
use crate::runtime::executor::Executor;
use crate::runtime::reload::{Files, Judgement};
use crate::runtime::supervisor::Reloaded;
use crate::runtime::view::View;
use crate::serve::allow::allow;

/// Lines of stderr that a status has of each server, and characters of each.
const STDERR_LINES: usize = 10;
const STDERR_CHARS: usize = 400;

/// What an executor says of itself that its plan doesn't.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The absolute path of its config.
    pub config: String,
    /// What is laid over that.
    pub profile: Option<String>,
    /// Whether only what is locked is served.
    pub locked: bool,
    /// Whether the lock alone is the plan.
    pub frozen: bool,
    /// Whom it serves.
    pub caller: Caller,
    /// When it began.
    pub began: Instant,
}

/// A running executor, as the control socket knows it.
#[derive(Clone, Debug)]
pub struct Control {
    /// What runs.
    pub executor: Executor,
    /// What it runs from.
    pub files: Files,
    /// What else there is to say.
    pub identity: Arc<Identity>,
}

impl Control {
    /// Answers a request. Once `gone` is cancelled nobody waits for the answer any more.
    pub(in crate::serve) async fn answer(&self, request: Request, gone: CancellationToken) -> Answer {
        match request {
            Request::Status => Answer::Status(Box::new(self.status())),
            Request::Reconnect { server } => self.reconnect(&server).await,
            Request::Reload => self.reload().await,
            Request::Call(call) => self.call(call, gone).await,
        }
    }

    pub(in crate::serve) fn status(&self) -> Status {
        let (view, now) = (self.executor.view(), Instant::now());
        let Identity { config, profile, caller, began, .. } = &*self.identity;
        let rejected = self.files.rejected();
        Status {
            process: ProcessStatus {
                pid: std::process::id(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
                since: seconds(*began, now),
                tasks: tokio::runtime::Handle::current().metrics().num_alive_tasks(),
                agent: caller.agent.clone(),
                workspace: caller.workspace.clone(),
            },
            config: config.clone(),
            profile: profile.clone(),
            plan: self.plan(&view),
            mcp: McpStatus::of(&view.snapshot, now, |server| stderr(&view, &server.name)),
            rejected: rejected.map(|rejected| RejectedStatus {
                since: seconds(rejected.since.into_std(), now),
                report: rejected.report,
            }),
        }
    }

    fn plan(&self, view: &View) -> PlanStatus {
        let Identity { locked, frozen, .. } = *self.identity;
        PlanStatus { generation: view.snapshot.generation, digest: view.snapshot.plan.digest(), locked, frozen }
    }

    async fn reconnect(&self, server: &str) -> Answer {
        let plan = self.executor.view().snapshot.plan.clone();
        let Some(server) = plan.server(server) else {
            let known: Vec<_> = plan.servers.iter().map(|server| server.name.as_str()).collect();
            return Answer::CouldNot(format!("there is no server `{server}`; the servers are {}", known.join(", ")));
        };
        let view = self.executor.reconnect(&server.name).await;
        match view.and_then(|view| of_server(&view, &server.name)) {
            Some(status) => Answer::Reconnected(Box::new(status)),
            None => Answer::Refused(format!("the server `{}` was removed from the plan meanwhile", server.name)),
        }
    }

    async fn reload(&self) -> Answer {
        let before = self.plan(&self.executor.view());
        let Some(judgement) = self.files.read().await else {
            return Answer::CouldNot("the executor is ending and reads no files any more".to_owned());
        };
        let (outcome, reloaded, warnings, report) = match judgement {
            Judgement::Unchanged => (ReloadOutcome::Unchanged, None, Vec::new(), None),
            Judgement::Reloaded { reloaded, warnings } => (ReloadOutcome::Reloaded, Some(reloaded), warnings, None),
            Judgement::Rejected(report) => (ReloadOutcome::Rejected, None, Vec::new(), Some(report)),
        };
        let view = match &reloaded {
            Some(reloaded) => self.executor.reloaded(reloaded).await,
            None => self.executor.view(),
        };
        let steps = reloaded.map(|Reloaded { steps, .. }| steps).unwrap_or_default();
        let servers = steps.iter().filter_map(Step::connects).filter_map(|name| of_server(&view, name)).collect();
        let changes =
            steps.iter().map(|step| Change { server: step.server().to_string(), change: step.word().to_owned() });
        Answer::Reload(Box::new(Reload {
            outcome,
            before,
            plan: self.plan(&view),
            changes: changes.collect(),
            servers,
            warnings,
            report,
        }))
    }

    /// Through the same gate as the agent's own calls.
    async fn call(&self, call: CallRequest, gone: CancellationToken) -> Answer {
        let CallRequest { tool, arguments, agent, workspace, home } = call;
        let caller = Caller { agent, workspace, home };
        if let Err(unknown) = caller.check(&self.executor.view().snapshot.plan) {
            return Answer::CouldNot(unknown.to_string());
        }
        let asked = Asked { name: tool, arguments, ..Asked::default() };
        let allowed = allow(&self.executor, asked, |snapshot| {
            snapshot.with_catalog(snapshot.catalog.narrowed(&snapshot.plan, &caller).into()).into()
        });
        match allowed.await {
            // Whoever asks is the owner of the config, so the reason may be told.
            Err(denied) => Answer::Refused(denied.in_full()),
            Ok((_, allowed)) => {
                match self.executor.call(&allowed, Client { cancel: gone, ..Client::default() }).await {
                    Ok(result) => Answer::Result(result),
                    Err(error) => Answer::Refused(error.to_string()),
                }
            }
        }
    }
}

fn of_server(view: &View, name: &ServerName) -> Option<ServerStatus> {
    let server = view.snapshot.plan.server(name.as_str())?;
    ServerStatus::of(&view.snapshot, server, Instant::now(), stderr(view, name))
}

fn stderr(view: &View, name: &ServerName) -> Vec<String> {
    let short = |line: String| match line.char_indices().nth(STDERR_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    };
    view.stderr(name, STDERR_LINES).into_iter().map(short).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use mcplan_compiler::observed::Quarantined;
    use mcplan_compiler::prompt_template::Template;

    use super::*;
    use crate::core::catalog::Catalog;
    use crate::core::catalog::tests::{listings, plan};
    use crate::core::lifecycle::{Epoch, State};
    use crate::core::snapshot::{Health, Snapshot};
    use crate::core::status::QuarantinedTool;

    #[test]
    fn each_server_is_there_with_its_tools_and_what_hides_them() {
        let plan = plan(
            "mcp_servers:\n  - { name: a, command: x, tools: { exclude: [drop] } }\n  - { name: b, url: 'https://b' }\n  - { name: off, command: x, enabled: false }\n\
             mcp: { reserved: [mcp__a__mine] }",
        );
        let catalog = Catalog::build(&plan, &listings(&[("a", &["drop", "keep", "mine"]), ("b", &["one", "two"])]));
        let now = Instant::now();
        let health = |state, quarantined: &[&str]| Health {
            state,
            since: now,
            attempts: 2,
            settled: true,
            tried: true,
            unstable: false,
            replacing: false,
            quarantined: quarantined
                .iter()
                .map(|name| Quarantined { name: (*name).to_owned(), reason: "odd".to_owned() })
                .collect(),
            refused: None,
            drift: Vec::new(),
            warnings: Vec::new(),
        };
        let states = [
            health(State::Ready { epoch: Epoch(1) }, &["bad"]),
            health(State::Failed { cause: "gone".to_owned() }, &[]),
            health(State::Parked, &[]),
        ];
        let health: BTreeMap<_, _> = plan.servers.iter().map(|server| server.name.clone()).zip(states).collect();
        let template = Template::parse(plan.prompt.template.content.text()).unwrap();
        let snapshot = Snapshot::new(3, plan.into(), catalog.into(), health, template.into());
        let later = now + Duration::from_micros(1_500_400);
        let status = McpStatus::of(&snapshot, later, |server| vec![format!("{} speaks", server.name)]);
        let rows: Vec<_> = status
            .servers
            .iter()
            .map(|server| (&*server.name, &*server.state, server.tool_count, server.hidden_count, server.since))
            .collect();
        assert_eq!(
            rows,
            [("a", "ready", 1, 2, 1.5), ("b", "failed", 2, 0, 1.5), ("off", "parked", 0, 0, 1.5)],
            "what is listed of a failed server stays"
        );
        assert_eq!(status.tool_count, 3);
        assert!(status.has_failed());
        let first = &status.servers[0];
        assert_eq!(first.reserved, ["mcp__a__mine"]);
        assert_eq!(first.quarantined, [QuarantinedTool { tool: "bad".to_owned(), reason: "odd".to_owned() }]);
        assert_eq!(first.stderr, ["a speaks"]);
        assert_eq!(status.servers[1].cause.as_deref(), Some("gone"));
    }
}
