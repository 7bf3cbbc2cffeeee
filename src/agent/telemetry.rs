//! Where log lines go: standard error, which systemd carries to the journal.

use std::env;
use std::io::{IsTerminal, stderr};

use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::prelude::*;

/// Without a wish: state changes and trouble.
const LEVEL_DEFAULT: &str = "info";

/// Starts logging. `level` is the command line's wish (a level, or directives
/// as for `RUST_LOG`) and wins over the environment. A second call does nothing.
///
/// # Errors
/// `level` or `RUST_LOG` cannot be read; the text says where.
pub fn init(level: Option<&str>) -> Result<(), String> {
    let (origin, directives) = match level {
        Some(level) => ("--log", level.to_owned()),
        None => ("RUST_LOG", env::var("RUST_LOG").unwrap_or_else(|_| LEVEL_DEFAULT.to_owned())),
    };
    let filter: Targets = directives.parse().map_err(|error| format!("{origin} = \"{directives}\": {error}"))?;
    let lines = fmt::layer().with_writer(stderr).with_ansi(stderr().is_terminal()).with_target(false);
    // It would say on standard error that standard error takes nothing, and panic.
    let lines = lines.log_internal_errors(false);
    // The journal has its own time stamps.
    let lines = if env::var_os("JOURNAL_STREAM").is_some() { lines.without_time().boxed() } else { lines.boxed() };
    // Fails when logging runs already.
    let _ = tracing_subscriber::registry().with(lines.with_filter(filter)).try_init();
    Ok(())
}
