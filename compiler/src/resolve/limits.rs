//! Numbers: the server's own, else the section's, else ours.

use crate::code::Code;
use crate::config::{self, Mcp, Number, ServerEntry};
use crate::diagnostic::Diagnostic;
use crate::plan::{Limits, Reconnect};
use crate::source::Spanned;

use super::Resolver;

/// From here on a number of seconds for one connect or request was probably meant as milliseconds.
const SUSPICIOUS_SECONDS: f64 = 1000.0;

impl Resolver<'_> {
    /// The limits of one server. `mcp`'s own are looked at once, by [`Resolver::check_seconds`].
    pub(super) fn limits(&mut self, entry: &ServerEntry, mcp: &Mcp) -> Limits {
        self.check_seconds("timeout_seconds", entry.timeout_seconds.as_ref());
        self.check_seconds("request_timeout_seconds", entry.request_timeout_seconds.as_ref());
        let pick = |own: &Option<Spanned<Number>>, shared: &Option<Spanned<Number>>, default: f64| {
            own.as_ref().or(shared.as_ref()).map_or(default, |number| number.value.0)
        };
        Limits {
            timeout_seconds: pick(&entry.timeout_seconds, &mcp.timeout_seconds, 20.0),
            request_timeout_seconds: pick(&entry.request_timeout_seconds, &mcp.request_timeout_seconds, 60.0),
            call_timeout_seconds: pick(&entry.call_timeout_seconds, &mcp.call_timeout_seconds, 300.0),
            idle_timeout_seconds: pick(&entry.idle_timeout_seconds, &mcp.idle_timeout_seconds, 0.0),
            max_result_chars: entry.max_result_chars.or(mcp.max_result_chars).unwrap_or(50_000) as usize,
        }
    }

    /// Warns of what looks like milliseconds.
    pub(super) fn check_seconds(&mut self, field: &str, number: Option<&Spanned<Number>>) {
        let Some(number) = number.filter(|number| number.value.0 >= SUSPICIOUS_SECONDS) else { return };
        let seconds = number.value.0;
        self.report(
            Diagnostic::new(Code::Milliseconds, number.at, format!("`{field}` is in seconds, and {seconds} is many"))
                .label(format!("{} minutes", (seconds / 60.0).round()))
                .help(format!("if milliseconds were meant, write `{}`", seconds / 1000.0)),
        );
    }

    /// The backoff: the server's own fields, else the section's, else ours.
    pub(super) fn reconnect(&mut self, entry: &ServerEntry, mcp: &Mcp) -> Reconnect {
        let own = entry.reconnect.as_ref().map(|reconnect| &reconnect.value);
        if let Some(own) = own {
            self.check_waits(own, mcp.reconnect.as_ref());
        }
        let shared = mcp.reconnect.as_ref();
        let default = Reconnect::default();
        let written = |field: fn(&config::Reconnect) -> Option<&Spanned<Number>>| {
            own.and_then(field).or_else(|| shared.and_then(field)).map(|number| number.value.0)
        };
        // A required server is never given up on, unless its entry says how often.
        let required = entry.required.unwrap_or(false);
        let attempts = own
            .and_then(|reconnect| reconnect.attempts)
            .or_else(|| if required { Some(0) } else { shared.and_then(|reconnect| reconnect.attempts) });
        let max_seconds = written(|reconnect| reconnect.max_seconds.as_ref()).unwrap_or(default.max_seconds);
        Reconnect {
            attempts: attempts.unwrap_or(default.attempts),
            // A shorter longest wait takes our own first one along.
            initial_seconds: written(|reconnect| reconnect.initial_seconds.as_ref())
                .unwrap_or(default.initial_seconds.min(max_seconds)),
            max_seconds,
            jitter_seconds: written(|reconnect| reconnect.jitter_seconds.as_ref()).unwrap_or(default.jitter_seconds),
        }
    }

    /// A first wait that is written must not be longer than the longest. `shared` says what `own` leaves open.
    pub(super) fn check_waits(&mut self, own: &config::Reconnect, shared: Option<&config::Reconnect>) {
        if own.initial_seconds.is_none() && own.max_seconds.is_none() {
            return;
        }
        let first = own.initial_seconds.as_ref().or_else(|| shared?.initial_seconds.as_ref());
        let longest = own.max_seconds.as_ref().or_else(|| shared?.max_seconds.as_ref());
        let Some(first) = first else { return };
        let most = longest.map_or(Reconnect::default().max_seconds, |longest| longest.value.0);
        if first.value.0 <= most {
            return;
        }
        let whose = if longest.is_none() { " (the default)" } else { "" };
        let message = format!("`initial_seconds`, {}, is more than `max_seconds`, {most}{whose}", first.value.0);
        let mut diagnostic = Diagnostic::new(Code::OutOfRange, first.at, message)
            .help(format!("set `initial_seconds` to {most} or less, or `max_seconds` to {} or more", first.value.0));
        if let Some(longest) = longest {
            diagnostic = diagnostic.related(longest.at, "the longest");
        }
        self.report(diagnostic);
    }
}
