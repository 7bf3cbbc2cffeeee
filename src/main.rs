//! Arguments in, exit code out.

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match tidegate::cli::run(tidegate::cli::Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            // The exit code counts, also where nobody reads the reason.
            let _ = writeln!(std::io::stderr(), "tidegate: {error:#}");
            ExitCode::FAILURE
        }
    }
}
