//! Logs go to stderr, and only ours: other crates log requests and headers at their lower levels, and those hold
//! secrets. No setting lifts that.

mod lines;

use clap::{Args, ValueEnum};
use lines::Lines;
use tracing::Level;
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::fmt::writer::BoxMakeWriter;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

/// How much is logged, and how.
#[derive(Debug, Args)]
pub(super) struct Logging {
    /// Log less: only warnings (-q), only errors (-qq)
    #[arg(short, long, global = true, help_heading = super::COMMON, action = clap::ArgAction::Count)]
    quiet: u8,
    /// Log more: every call and search (-v), everything (-vv)
    #[arg(short, long, global = true, help_heading = super::COMMON, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// How logs are written
    #[arg(long, global = true, help_heading = super::COMMON, value_enum, default_value_t = LogFormat::Text, value_name = "FORMAT")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

impl Logging {
    /// Whether more is wanted than usual.
    pub(super) fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    /// Starts logging. RUST_LOG chooses among our own targets when it is set.
    ///
    /// A command that serves must not wait for whoever reads its log. One that prints a report must, so that both stay
    /// in order.
    pub(super) fn start(&self, serves: bool) -> Ending {
        let level = match (self.quiet, self.verbose) {
            (0, 0) => "info",
            (1, _) => "warn",
            (2.., _) => "error",
            (_, 1) => "debug",
            (_, 2..) => "trace",
        };
        let default = || EnvFilter::new(format!("mcplan={level},mcplan_executor={level},mcplan_compiler={level},warn"));
        let chosen = match std::env::var("RUST_LOG") {
            Ok(text) if !text.is_empty() => EnvFilter::try_new(&text).unwrap_or_else(|_| default()),
            _ => default(),
        };
        let ours = filter_fn(|meta| {
            let target = meta.target();
            // rmcp tells whole messages in its warnings; what it has to say we say ourselves, with the server's name.
            !target.starts_with("rmcp") && (target.starts_with("mcplan") || *meta.level() <= Level::WARN)
        });
        let lines = serves.then(|| Lines::start(std::io::stderr(), dropped).ok()).flatten();
        let writer = match lines.clone() {
            Some(lines) => BoxMakeWriter::new(move || lines.clone()),
            None => BoxMakeWriter::new(std::io::stderr),
        };
        let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_target(false);
        let layer = match self.log_format {
            LogFormat::Text => {
                use std::io::IsTerminal as _;
                layer.with_ansi(std::io::stderr().is_terminal()).boxed()
            }
            LogFormat::Json => layer.json().boxed(),
        };
        // A second start would be a bug of tests only.
        let _already = tracing_subscriber::registry().with(layer.with_filter(ours)).with(chosen).try_init();
        Ending(lines)
    }
}

fn dropped(lines: u64) {
    tracing::warn!(lines, "log lines were dropped: stderr wasn't read");
}

/// Writes what is still to be logged when it goes.
pub(super) struct Ending(Option<Lines>);

impl Drop for Ending {
    fn drop(&mut self) {
        if let Some(lines) = &self.0 {
            lines.finish();
        }
    }
}
