//! Where log lines go: standard error, which systemd carries to the journal.

use std::env;
use std::io::{IsTerminal, stderr};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt;

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
    let filter = EnvFilter::try_new(&directives).map_err(|error| format!("{origin} = \"{directives}\": {error}"))?;
    let lines = fmt().with_env_filter(filter).with_writer(stderr).with_ansi(stderr().is_terminal()).with_target(false);
    // It would say on standard error that standard error takes nothing, and panic.
    let lines = lines.log_internal_errors(false);
    // The journal has its own time stamps. `try_init` fails when logging runs already.
    let _ = if env::var_os("JOURNAL_STREAM").is_some() { lines.without_time().try_init() } else { lines.try_init() };
    Ok(())
}
