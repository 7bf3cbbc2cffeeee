//! Where log lines go: standard error, which systemd carries to the journal.

use std::env;
use std::io::{IsTerminal, stderr};

use std::sync::OnceLock;

use tracing_subscriber::filter::Targets;
use tracing_subscriber::prelude::*;
use tracing_subscriber::{Registry, fmt, reload};

/// Without a wish: state changes and trouble.
const LEVEL_DEFAULT: &str = "info";

/// By which the level can be changed while the agent runs.
static FILTER: OnceLock<reload::Handle<Targets, Registry>> = OnceLock::new();

/// Logs by other directives from now on.
///
/// # Errors
/// They cannot be read, or nothing is logged here.
pub fn set_level(directives: &str) -> Result<(), String> {
    let filter: Targets = directives.parse().map_err(|error| format!("\"{directives}\": {error}"))?;
    let handle = FILTER.get().ok_or("nothing is logged here")?;
    handle.reload(filter).map_err(|error| error.to_string())
}

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
    let (filter, handle) = reload::Layer::new(filter);
    // Fails when logging runs already.
    if tracing_subscriber::registry().with(lines.with_filter(filter)).try_init().is_ok() {
        let _ = FILTER.set(handle);
    }
    Ok(())
}
