//! Arguments in, exit code out.

use std::process::ExitCode;

use clap::Parser;
use tidegate::cli;

/// Event-time windows on the edge: MQTT in, per-device windows that survive
/// power cuts, MQTT out.
#[derive(Parser)]
#[command(version)]
enum Command {
    Run(cli::run::Args),
    /// Check a configuration and report every problem at once.
    Check {
        /// Configuration file, TOML or JSON.
        #[arg(value_name = "FILE", default_value = cli::run::CONFIG_DEFAULT)]
        file: std::path::PathBuf,
    },
    Status(cli::status::Args),
    Receive(cli::receive::Args),
    Demo(cli::demo::Args),
}

fn main() -> ExitCode {
    let ended = match Command::parse() {
        Command::Run(args) => cli::run::run(args),
        Command::Check { file } => Ok(cli::check::run(&file)),
        Command::Status(args) => cli::status::run(args),
        Command::Receive(args) => cli::receive::run(args),
        Command::Demo(args) => cli::demo::run(args),
    };
    ended.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
