//! `mcplan call`: one call through the gate, by a running executor, else by starting the one server that owns the tool.

use std::collections::BTreeMap;

use clap::Args;
use mcplan_compiler::name::ServerName;
use serde_json::{Map, Value};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant};

use super::ask::{self, OneOf};
use super::project::{Project, Which};
use super::report::{self, CouldNot, Outcome};
use super::run::{or_outcome, program};
use super::{anyone, caller, until_signal, with_servers};
use crate::core::caller::Caller;
use crate::core::catalog::{Catalog, Listing};
use crate::core::gate::{Asked, Denied, gate};
use crate::core::results::{self, Cap, Text};
use crate::event::Event;
use crate::runtime::connection::{self, Context};
use crate::runtime::executor::Executor;
use crate::runtime::program::Program;
use crate::serve::control::{Answer, CallRequest, Request};

/// Call one tool and print its result
#[derive(Debug, Args)]
pub(super) struct CallCommand {
    /// The tool, as agents call it
    tool: String,
    /// Its arguments as a JSON object; - reads them from stdin
    #[arg(default_value = "{}", value_name = "JSON")]
    arguments: String,
    /// Print the whole result as JSON
    #[arg(long)]
    json: bool,
    /// As this agent [default: lead]
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    #[command(flatten)]
    of: OneOf,
}

impl CallCommand {
    pub(super) fn run(&self, which: &Which) -> anyhow::Result<Outcome> {
        let asked = Asked { name: self.tool.clone(), arguments: self.arguments()?, ..Asked::default() };
        let project = ask::project(which)?;
        if let Some(answer) = until_signal(self.of.ask_any(&project, &self.request(&asked)))?? {
            return self.answered(answer);
        }
        let program = match or_outcome(program(&project, project.compile()?))? {
            Ok(program) => program,
            Err(outcome) => return Ok(outcome),
        };
        let here = std::env::current_dir().ok();
        let caller = caller(&program.plan, self.agent.as_deref(), here.as_deref())?;
        // What is locked of a server that is still the same one, under the filters of now.
        let locked = program.baseline.iter().flat_map(|baseline| baseline.lock().baseline(&program.plan));
        let listings: BTreeMap<_, _> = locked.map(|(name, server)| (name.clone(), Listing::from(server))).collect();
        let catalog = Catalog::build(&program.plan, &listings);
        let is_known = catalog.tool(&asked.name).is_some()
            || program.plan.servers.iter().all(|server| !server.enabled || listings.contains_key(&server.name));
        let called = if is_known {
            // The lock knows whose tool it is: only that server is started.
            match gate(&catalog.narrowed(&program.plan, &caller), asked.clone()) {
                Ok(allowed) => {
                    let owner = allowed.get().server.clone();
                    with_servers(call_one(&project, &program, &owner, listings, &caller, asked))?
                }
                Err(reason) => Err(Failed::Denied(reason)),
            }
        } else {
            with_servers(call_among_all(&project, program, &caller, asked))?
        };
        match called {
            Ok(result) => Ok(self.print(&result)),
            Err(Failed::Denied(denied)) => {
                // On the command line the user is the owner of the config, so the reason may be told.
                report::error(denied.in_full());
                Ok(Outcome::DoesNotHold)
            }
            Err(Failed::NoResult(reason)) => {
                report::error(reason);
                Ok(Outcome::DoesNotHold)
            }
        }
    }

    /// What a running executor is asked.
    fn request(&self, asked: &Asked) -> Request {
        let here = std::env::current_dir().ok();
        let Caller { agent, workspace, home } = anyone(self.agent.as_deref(), here.as_deref());
        let (tool, arguments) = (asked.name.clone(), asked.arguments.clone());
        Request::Call(CallRequest { tool, arguments, agent, workspace, home })
    }

    fn answered(&self, answer: Answer) -> anyhow::Result<Outcome> {
        match answer {
            Answer::Result(result) => Ok(self.print(&result)),
            Answer::Refused(why) => {
                report::error(why);
                Ok(Outcome::DoesNotHold)
            }
            _ => Err(ask::other_answer().into()),
        }
    }

    fn arguments(&self) -> Result<Map<String, Value>, CouldNot> {
        let text = if self.arguments == "-" {
            std::io::read_to_string(std::io::stdin())
                .map_err(|error| CouldNot::new(format!("stdin can't be read: {error}")))?
        } else {
            self.arguments.clone()
        };
        serde_json::from_str(&text).map_err(|error| {
            CouldNot::new(format!(
                "the arguments are no JSON object: {error}; write them like '{{\"path\": \"a.txt\"}}'"
            ))
        })
    }

    /// Text blocks as text, everything else by its kind; the exit code tells whether the tool failed.
    fn print(&self, result: &Text) -> Outcome {
        let outcome = if results::is_error(result) { Outcome::DoesNotHold } else { Outcome::Fine };
        if self.json {
            report::result(mcplan_compiler::json::pretty(result.get()));
            return outcome;
        }
        let value: Value = serde_json::from_str(result.get()).unwrap_or_default();
        for block in value.get("content").and_then(Value::as_array).into_iter().flatten() {
            let kind = block.get("type").and_then(Value::as_str).unwrap_or("unknown");
            match block.get("text").and_then(Value::as_str) {
                Some(text) if kind == "text" => report::result(format_args!("{}\n", text.trim_end_matches('\n'))),
                _ => report::result(format_args!("[{kind}; --json shows it]\n")),
            }
        }
        outcome
    }
}

/// Why there is no result.
enum Failed {
    Denied(Denied),
    NoResult(String),
}

/// Starts the one server that owns the tool, and asks the gate again with what it says now.
async fn call_one(
    project: &Project,
    program: &Program,
    name: &ServerName,
    mut listings: BTreeMap<ServerName, Listing>,
    caller: &Caller,
    asked: Asked,
) -> Result<Text, Failed> {
    let plan = &program.plan;
    let Some(server) = plan.server(name.as_str()) else {
        return Err(Failed::NoResult(format!("there is no server `{name}`")));
    };
    let context = Context::of_process(&project.directory);
    if let Some(variable) = context.unmet(server) {
        let cause =
            format!("the server {name} is not started: its `when` needs the variable {variable}, which is not set");
        return Err(Failed::NoResult(cause));
    }
    let (events, mut heard) = mpsc::channel(64);
    let listener = tokio::spawn(async move { while heard.recv().await.is_some() {} });
    let failed = |error: String| Failed::NoResult(error);
    let (connection, observed) = connection::connect(server, &context, &program.terms(name), events)
        .await
        .map_err(|error| failed(error.to_string()))?;
    if observed.tools_unknown.is_none() {
        let before = listings.get(name);
        let heard = program.hear(server, &observed, &program.as_locked(&observed), before);
        heard.told.iter().for_each(Event::log);
        listings.insert(name.clone(), heard.listing);
    }
    let catalog = Catalog::build(plan, &listings).narrowed(plan, caller);
    let result = match gate(&catalog, asked) {
        Err(denied) => Err(Failed::Denied(denied)),
        Ok(allowed) => match connection.call(&allowed, connection::Client::default()).await {
            Err(error) => Err(failed(error.to_string())),
            Ok(result) => {
                let tool = allowed.get().exposed.as_str();
                let cap = Cap { limit: server.limits.max_result_chars, server: name.as_str(), tool };
                Ok(results::fit(result, cap).result)
            }
        },
    };
    connection.close(Instant::now() + Duration::from_secs(2)).await;
    listener.abort();
    result
}

/// Without a lock nobody knows whose tool it is until all are connected.
async fn call_among_all(project: &Project, program: Program, caller: &Caller, asked: Asked) -> Result<Text, Failed> {
    let (executor, task) = Executor::start(program, Context::of_process(&project.directory));
    executor.settled().await;
    let snapshot = executor.view().snapshot.clone();
    let result = match gate(&snapshot.catalog.narrowed(&snapshot.plan, caller), asked) {
        Err(denied) => Err(Failed::Denied(denied)),
        Ok(allowed) => executor
            .call(&allowed, connection::Client::default())
            .await
            .map_err(|error| Failed::NoResult(error.to_string())),
    };
    executor.shutdown(Instant::now()).await;
    // It has nothing left to do; a panic in it has been printed.
    let _ended = task.await;
    result
}
