//! A checkup as a person reads it.

use std::fmt::Write as _;

use mcplan_compiler::diagnostic::one_line;

use super::checked::{Checked, Said, Verdict};
use super::{Checkup, Cost};
use crate::cli::report::counted;
use crate::cli::table::{duration, wrapped};
use crate::core::tokens;

/// Longest that a server's own name or version is shown, in characters.
const OWN_NAME: usize = 40;

pub(super) fn text(checkup: &Checkup) -> String {
    let mut out = String::new();
    for checked in &checkup.servers {
        server(&mut out, checked);
    }
    if checkup.servers.is_empty() {
        out.push_str("no servers\n");
    }
    out.push('\n');
    if let Some(cost) = &checkup.cost {
        say(&mut out, &costs(cost), "");
    }
    for warning in &checkup.warnings {
        say(&mut out, &format!("warning: {warning}"), "");
    }
    let faults = checkup.servers.iter().filter(|checked| checked.outcome == Verdict::Fault).count();
    let checked = checkup.servers.iter().filter(|checked| checked.outcome != Verdict::Skipped).count();
    let _ = match faults {
        0 => writeln!(out, "{} checked, no fault found", counted(checked, "server")),
        _ => writeln!(out, "{faults} of {} can't serve", counted(checked, "server")),
    };
    out
}

fn server(out: &mut String, checked: &Checked) {
    let name = &checked.name;
    let time = duration(checked.seconds);
    match (&checked.outcome, &checked.said) {
        (Verdict::Skipped, _) => {
            say(out, &format!("{name}: not checked: {}", checked.reason.as_deref().unwrap_or_default()), "");
        }
        (Verdict::Ok, Some(said)) => say(out, &format!("{name}: ok in {time}, {}", has(said)), ""),
        _ => say(out, &format!("{name}: fault"), ""),
    }
    if let Some(said) = &checked.said {
        let (own, version) = (one_line(&said.name, OWN_NAME), one_line(&said.version, OWN_NAME));
        say(out, &format!("{own} {version}, protocol {}, over {}", said.protocol_version, checked.transport), INDENT);
    }
    let steps: Vec<_> = checked.steps.iter().map(|step| format!("{} {}", step.step, duration(step.seconds))).collect();
    if let Some(program) = &checked.program {
        say(out, &format!("runs {program}"), INDENT);
    }
    if !steps.is_empty() {
        say(out, &steps.join(", "), INDENT);
    }
    for fault in &checked.faults {
        say(out, &fault.message, INDENT);
        say(out, &format!("fix: {}", fault.fix), INDENT);
    }
    for warning in &checked.warnings {
        say(out, &format!("warning: {warning}"), INDENT);
    }
}

const INDENT: &str = "    ";

fn say(out: &mut String, text: &str, indent: &str) {
    out.push_str(&wrapped(text, indent));
    out.push('\n');
}

/// What a server has: tools, as many as are offered of them, prompts, tokens.
fn has(said: &Said) -> String {
    let tools = counted(said.tools, "tool");
    let mut has = vec![if said.offered == said.tools { tools } else { format!("{} of {tools} offered", said.offered) }];
    if said.prompts > 0 {
        has.push(counted(said.prompts, "prompt"));
    }
    if said.resource_templates > 0 {
        has.push(counted(said.resource_templates, "resource template"));
    }
    has.extend(said.tokens.map(|tokens| counted(tokens, "token")));
    has.join(", ")
}

fn costs(cost: &Cost) -> String {
    format!(
        "{} cost {} when all are listed outright, {} as an agent is served: {} in the list, {} in the block ({})",
        counted(cost.tools, "tool"),
        counted(cost.outright, "token"),
        cost.list + cost.block,
        cost.list,
        cost.block,
        tokens::ENCODING,
    )
}
