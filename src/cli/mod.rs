//! One file per subcommand.

pub mod broker;
#[cfg(feature = "tools")]
pub mod broker_args;
#[cfg(feature = "tools")]
pub mod broker_url;
pub mod check;
pub mod decode;
#[cfg(feature = "tools")]
pub mod demo;
#[cfg(feature = "tools")]
pub mod fleet;
pub mod outbox;
pub mod password;
mod printable;
pub mod quarantine;
#[cfg(feature = "tools")]
pub mod receive;
#[cfg(feature = "tools")]
pub mod remote;
pub mod replay;
pub mod run;
#[cfg(feature = "schema")]
pub mod schema;
pub mod status;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::model::limits::CONFIG_BYTES_MAX;

/// Exit code of a wrong invocation, or of a file that cannot be read.
pub const EXIT_USAGE: u8 = 2;

/// Edge agent: MQTT in, per-device event-time windows that survive power cuts,
/// MQTT out.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(run::Args),
    Broker(broker::Args),
    Check(check::Args),
    #[cfg(feature = "schema")]
    Schema(schema::Args),
    Password(password::Args),
    Decode(decode::Args),
    Replay(replay::Args),
    #[cfg(feature = "tools")]
    Demo(demo::Args),
    #[cfg(feature = "tools")]
    Fleet(Box<fleet::Args>),
    #[cfg(feature = "tools")]
    Receive(receive::Args),
    #[cfg(feature = "tools")]
    Remote(Box<remote::Args>),
    Status(status::Args),
    Outbox(outbox::Args),
    Quarantine(quarantine::Args),
}

/// Runs the subcommand that the arguments name.
///
/// # Errors
/// What the subcommand cannot deal with; the text is for a person.
pub fn run(cli: Cli) -> anyhow::Result<ExitCode> {
    match cli.command {
        Command::Run(args) => run::run(args),
        Command::Broker(args) => broker::run(args),
        Command::Check(args) => check::run(args),
        #[cfg(feature = "schema")]
        Command::Schema(args) => schema::run(&args),
        Command::Password(args) => password::run(args),
        Command::Decode(args) => decode::run(args),
        Command::Replay(args) => replay::run(args),
        #[cfg(feature = "tools")]
        Command::Demo(args) => demo::run(args),
        #[cfg(feature = "tools")]
        Command::Fleet(args) => fleet::run(*args),
        #[cfg(feature = "tools")]
        Command::Receive(args) => receive::run(args),
        #[cfg(feature = "tools")]
        Command::Remote(args) => remote::run(*args),
        Command::Status(args) => status::run(args),
        Command::Outbox(args) => outbox::run(args),
        Command::Quarantine(args) => quarantine::run(args),
    }
}

/// The text of a configuration file.
///
/// # Errors
/// One sentence that names the file.
pub fn read_text(path: &Path) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    // Whatever the name leads to, be it endless: one byte too many is enough for the check to say so.
    File::open(path)
        .and_then(|file| file.take(CONFIG_BYTES_MAX as u64 + 1).read_to_end(&mut bytes))
        .map_err(|error| anyhow::anyhow!("{}: cannot be read: {error}", path.display()))?;
    String::from_utf8(bytes).map_err(|error| anyhow::anyhow!("{}: not UTF-8: {error}", path.display()))
}
