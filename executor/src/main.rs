//! The binary `mcplan`.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcplan_executor::cli::main(std::env::args_os().collect::<Vec<_>>())
}
