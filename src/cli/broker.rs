//! `tidegate broker`: the listener alone. For the cloud's side of the demo and of tests, and
//! for whoever wants a broker whose acknowledgement means "on disk" and nothing else.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::anyhow;

use crate::agent::{self, telemetry};
use crate::config::check::check_for_broker;

use super::read_text;

/// Runs the MQTT broker alone, without windows and without an uplink, until SIGTERM or SIGINT.
/// What it acknowledges is on disk.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:1883", conflicts_with = "config")]
    pub listen: SocketAddr,

    /// Directory for sessions, retained messages and what waits for clients
    #[arg(long, value_name = "DIR", required_unless_present = "config")]
    pub state: Option<PathBuf>,

    /// Configuration file with `[listener]` and `[storage]`, instead of the two above
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// What to log: a level, or directives as for `RUST_LOG`
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    pub log: String,
}

/// Runs until told to end.
///
/// # Errors
/// What is wrong with the configuration, or what ended it, other than a signal.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    telemetry::init(Some(&args.log)).map_err(|error| anyhow!(error))?;
    let (text, file) = match &args.config {
        Some(path) => (read_text(path)?, path.display().to_string()),
        None => (document(&args), "the arguments".to_owned()),
    };
    let checked = check_for_broker(&text, &file)?;
    for warning in &checked.warnings {
        tracing::warn!(%warning, "configuration");
    }
    agent::run(&checked.config)?;
    Ok(ExitCode::SUCCESS)
}

/// The configuration that the arguments stand for.
fn document(args: &Args) -> String {
    let state = args.state.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    format!(
        "gateway.id = 'broker'\nlistener.tcp = {}\nstorage.path = {}\n",
        quoted(&args.listen.to_string()),
        quoted(&state)
    )
}
