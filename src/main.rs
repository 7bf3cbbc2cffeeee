//! Arguments in, exit code out.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match tidegate::cli::run(tidegate::cli::Cli::parse()) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tidegate: {error:#}");
            ExitCode::FAILURE
        }
    }
}
