//! `tidegate status`: what a running agent says about itself.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;

/// An engine that does not answer by then is stuck.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Prints the status document of the agent that runs on this machine.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The agent's control socket
    #[arg(long, value_name = "PATH", default_value = "/run/tidegate/control.sock")]
    socket: PathBuf,

    /// The document in one line, for programs
    #[arg(long)]
    compact: bool,
}

/// Asks once and prints the answer.
///
/// # Errors
/// When no agent listens there, or none answers within 5 s.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let path = args.socket.display();
    let mut stream = UnixStream::connect(&args.socket)
        .with_context(|| format!("no agent listens on {path} (is it running, and `control.socket` set to this path?)"))?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    stream.write_all(b"status\n").with_context(|| format!("asking on {path}"))?;
    let mut answer = String::new();
    BufReader::new(stream)
        .read_line(&mut answer)
        .with_context(|| format!("the agent on {path} does not answer within {} s", ANSWER_WITHIN.as_secs()))?;
    if args.compact {
        print!("{answer}");
        return Ok(ExitCode::SUCCESS);
    }
    let document: serde_json::Value =
        serde_json::from_str(&answer).with_context(|| format!("{path} answers, but not with a status"))?;
    println!("{document:#}");
    Ok(ExitCode::SUCCESS)
}
