//! `tidegate run`: the agent itself.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::agent;
use crate::agent::clock::SystemClock;
use crate::agent::{store, telemetry};
use crate::config::check::check;
use crate::engine::driver::Driver;

use super::read_text;

/// Runs the agent until SIGTERM or SIGINT.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file (TOML, or JSON by the name's ending)
    #[arg(long, value_name = "FILE", default_value = "/etc/tidegate/tidegate.toml")]
    config: PathBuf,

    /// What to log: error, warn, info, debug, trace, or per module as in
    /// `info,tidegate::agent=debug`; RUST_LOG says the same
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
}

/// Restores the state, connects both sides, and runs.
///
/// # Errors
/// A configuration with problems, a storage directory that cannot be used, or an
/// operating system that refuses threads or signals. Never the network.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = args.config.display().to_string();
    let text = read_text(&args.config)?;
    let config = match check(&text, &file) {
        Ok(checked) => {
            checked.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
            checked.config
        }
        Err(refused) => {
            refused.problems.iter().for_each(|problem| eprintln!("error: {problem}"));
            anyhow::bail!("{file}: {} problems; nothing was started", refused.problems.len());
        }
    };
    telemetry::init(args.log.as_deref()).context("starting the log")?;
    let clock = SystemClock::start();
    let path = &config.storage.path;
    let store = store::open(path).with_context(|| format!("opening the state in {}", path.display()))?;
    let driver = Driver::start(config.pipeline.clone(), store, clock.now())
        .with_context(|| format!("restoring the state in {}", path.display()))?;
    agent::run_engine(&config, driver, clock)?;
    Ok(ExitCode::SUCCESS)
}
