//! Local wiring, not committed.
use clap::Parser;
use std::process::ExitCode;
#[derive(Parser)]
enum Cli {
    Receive(tidegate::cli::receive::Args),
    Demo(tidegate::cli::demo::Args),
}
fn main() -> ExitCode {
    let r = match Cli::parse() {
        Cli::Receive(a) => tidegate::cli::receive::run(a),
        Cli::Demo(a) => tidegate::cli::demo::run(a),
    };
    r.unwrap_or_else(|e| {
        eprintln!("error: {e:#}");
        ExitCode::FAILURE
    })
}
