//! The `tonnage` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    tonnage_cli::run(tonnage_cli::arguments())
}
