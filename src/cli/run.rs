//! `tidegate run`: the agent.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, anyhow};

use crate::agent::remote::Source;
use crate::agent::{self, Ended, telemetry};
use crate::config::check::check;

use super::read_text;

/// Where the package puts the configuration.
pub const CONFIG_DEFAULT: &str = "/etc/tidegate/tidegate.toml";

/// Exit code of a configuration that cannot be used: `EX_CONFIG` of sysexits.h.
/// The unit does not start again on it, because only a person can help.
const EX_CONFIG: u8 = 78;

/// Runs the agent until SIGTERM or SIGINT. Exit code 78 when the configuration
/// cannot be used, 1 for whatever else ended it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Configuration file, TOML or JSON
    #[arg(long, value_name = "FILE", default_value = CONFIG_DEFAULT)]
    pub config: PathBuf,

    /// What to log: a level, or directives as for `RUST_LOG`
    #[arg(long, value_name = "LEVEL")]
    pub log: Option<String>,
}

/// In place of this process; returns only why that did not work.
fn begin_again() -> std::io::Error {
    let program = std::env::current_exe();
    match program {
        Ok(program) => std::process::Command::new(program).args(std::env::args_os().skip(1)).exec(),
        Err(error) => error,
    }
}

/// Runs until told to end.
///
/// # Errors
/// What ended it, other than a signal.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    telemetry::init(args.log.as_deref()).map_err(|error| anyhow!(error))?;
    let file = args.config.display().to_string();
    let text = match read_text(&args.config) {
        Ok(text) => text,
        Err(error) => {
            eprintln!("{error}");
            return Ok(ExitCode::from(EX_CONFIG));
        }
    };
    match check(&text, &file) {
        Ok(checked) => {
            for warning in &checked.warnings {
                tracing::warn!(%warning, "configuration");
            }
            let source = Source { text, file: file.clone() };
            let ended = agent::run(&checked.config, Some(&source)).with_context(|| format!("running on {file}"))?;
            if ended == Ended::Restart && std::env::var_os("INVOCATION_ID").is_none() {
                // Nobody else starts it again: systemd would, and reads the unit again.
                return Err(begin_again()).context("starting again");
            }
            Ok(ExitCode::SUCCESS)
        }
        Err(refused) => {
            for problem in &refused.problems {
                eprintln!("error: {problem}");
            }
            eprintln!("{file}: {}", refused.count());
            Ok(ExitCode::from(EX_CONFIG))
        }
    }
}
