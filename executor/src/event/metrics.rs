//! What events add up to, in the text format of Prometheus. Nothing in it grows with the number of calls: there is a
//! count for each server and each kind of event.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Mutex, PoisonError};

use mcplan_compiler::name::ServerName;

use super::Event;

/// Upper bounds of the buckets of a call's duration, seconds.
const BUCKETS: [f64; 11] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0];

/// Calls of one server.
#[derive(Clone, Debug, Default, PartialEq)]
struct Calls {
    succeeded: u64,
    failed: u64,
    timed_out: u64,
    /// Calls that took no longer than each bound.
    within: [u64; BUCKETS.len()],
    seconds: f64,
}

/// What has been counted since the process began.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    events: BTreeMap<&'static str, u64>,
    calls: BTreeMap<ServerName, Calls>,
}

static COUNTS: Mutex<Counts> = Mutex::new(Counts { events: BTreeMap::new(), calls: BTreeMap::new() });

/// Counts an event of this process.
pub(super) fn count(event: &Event) {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner).count(event);
}

/// What this process has counted until now.
pub fn counted() -> Counts {
    COUNTS.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Counts {
    fn count(&mut self, event: &Event) {
        *self.events.entry(event.name()).or_default() += 1;
        match event {
            Event::ToolInvoked { server, latency_ms, success, .. } => {
                let calls = self.of(server);
                *(if *success { &mut calls.succeeded } else { &mut calls.failed }) += 1;
                let seconds = *latency_ms as f64 / 1000.0;
                calls.seconds += seconds;
                for (count, bound) in calls.within.iter_mut().zip(BUCKETS) {
                    *count += u64::from(seconds <= bound);
                }
            }
            Event::ToolTimeout { server, .. } => self.of(server).timed_out += 1,
            _ => {}
        }
    }

    fn of(&mut self, server: &ServerName) -> &mut Calls {
        if !self.calls.contains_key(server) {
            self.calls.insert(server.clone(), Calls::default());
        }
        self.calls.get_mut(server).expect("it was just put there")
    }

    /// Forgets servers that `keep` doesn't know, so that a plan that changes for years leaves nothing behind.
    pub fn kept(mut self, keep: impl Fn(&ServerName) -> bool) -> Self {
        self.calls.retain(|server, _| keep(server));
        self
    }

    /// The counts as Prometheus reads them.
    pub fn text(&self) -> String {
        let mut text = Exposition::default();
        text.family("mcplan_events_total", "counter", "Events by name, as they stand in the log.");
        for (event, count) in &self.events {
            text.sample("mcplan_events_total", &[("event", event)], *count as f64);
        }
        text.family(
            "mcplan_tool_calls_total",
            "counter",
            "Tool calls by server and outcome; an error of the tool's is one.",
        );
        for (server, calls) in &self.calls {
            for (outcome, count) in [("ok", calls.succeeded), ("error", calls.failed)] {
                let labels = [("server", server.as_str()), ("outcome", outcome)];
                text.sample("mcplan_tool_calls_total", &labels, count as f64);
            }
        }
        text.family("mcplan_tool_timeouts_total", "counter", "Tool calls that were stopped by a limit.");
        for (server, calls) in &self.calls {
            text.sample("mcplan_tool_timeouts_total", &[("server", server.as_str())], calls.timed_out as f64);
        }
        let name = "mcplan_tool_call_duration_seconds";
        text.family(name, "histogram", "From the moment that a call was allowed to its end.");
        for (server, calls) in &self.calls {
            let all = calls.succeeded + calls.failed;
            let bucket = format!("{name}_bucket");
            for (count, bound) in calls.within.iter().zip(BUCKETS) {
                text.sample(&bucket, &[("server", server.as_str()), ("le", &bound.to_string())], *count as f64);
            }
            text.sample(&bucket, &[("server", server.as_str()), ("le", "+Inf")], all as f64);
            text.sample(&format!("{name}_sum"), &[("server", server.as_str())], calls.seconds);
            text.sample(&format!("{name}_count"), &[("server", server.as_str())], all as f64);
        }
        text.0
    }
}

/// Text in the format of Prometheus.
#[derive(Debug, Default)]
pub struct Exposition(pub String);

impl Exposition {
    /// The head of what follows.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        // Writing to a string doesn't fail.
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One figure.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let labels: Vec<_> = labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_server_and_outcome() {
        let server = |name| ServerName::new(name).unwrap();
        let call = |name, latency_ms, success| Event::ToolInvoked {
            server: server(name),
            tool: "t".to_owned(),
            latency_ms,
            success,
            result_chars: 5,
        };
        let mut counts = Counts::default();
        for event in [call("a", 3, true), call("a", 70, true), call("a", 400_000, false), call("b", 1, true)] {
            counts.count(&event);
        }
        counts.count(&Event::ToolTimeout { server: server("a"), tool: "t".to_owned(), timeout_s: 1.0 });
        let text = counts.clone().kept(|name| name.as_str() == "a").text();
        for line in [
            "# TYPE mcplan_tool_call_duration_seconds histogram",
            "mcplan_events_total{event=\"tool.invoked\"} 4",
            "mcplan_tool_calls_total{server=\"a\",outcome=\"ok\"} 2",
            "mcplan_tool_calls_total{server=\"a\",outcome=\"error\"} 1",
            "mcplan_tool_timeouts_total{server=\"a\"} 1",
            "mcplan_tool_call_duration_seconds_bucket{server=\"a\",le=\"0.001\"} 0",
            "mcplan_tool_call_duration_seconds_bucket{server=\"a\",le=\"0.005\"} 1",
            "mcplan_tool_call_duration_seconds_bucket{server=\"a\",le=\"300\"} 2",
            "mcplan_tool_call_duration_seconds_bucket{server=\"a\",le=\"+Inf\"} 3",
            "mcplan_tool_call_duration_seconds_count{server=\"a\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("\"b\""));
    }

    #[test]
    fn labels_are_escaped() {
        let mut text = Exposition::default();
        text.sample("x", &[("a", "\"q\"\\\n")], 1.5);
        assert_eq!(text.0, "x{a=\"\\\"q\\\"\\\\\\n\"} 1.5\n");
    }
}
