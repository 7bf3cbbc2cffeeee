//! `tidegate schema`: the JSON Schema of the configuration, for editors and for whoever sends
//! one over MQTT.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use anyhow::Context as _;

use crate::config::schema;

/// Prints the JSON Schema (2020-12) of the configuration file.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// That of the document that is sent over MQTT instead
    #[arg(long)]
    desired: bool,
}

/// Prints it.
///
/// # Errors
/// Standard output does not take it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let text = if args.desired { schema::desired() } else { schema::file() };
    match io::stdout().lock().write_all(text.as_bytes()) {
        // Whoever closed the pipe has seen enough.
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context("the schema cannot be written"),
        Ok(()) | Err(_) => Ok(ExitCode::SUCCESS),
    }
}
