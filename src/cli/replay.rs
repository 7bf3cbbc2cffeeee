//! `tidegate replay`: a captured trace through the real engine.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;

use crate::config::check::check_for_replay;
use crate::engine::replay::Replay;

use super::read_text;
use super::run::CONFIG_DEFAULT;

/// Output is written when this much has gathered.
const OUT_BYTES: usize = 64 * 1024;

/// Feeds a captured trace to the engine; panes and late records come out as
/// JSON lines, the same bytes every time.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The trace, JSON lines in order of arrival; `-` for standard input
    #[arg(value_name = "TRACE")]
    trace: PathBuf,

    /// Configuration file; brokers and storage are not needed
    #[arg(long, value_name = "FILE", default_value = CONFIG_DEFAULT)]
    config: PathBuf,

    /// After the last line, fire the windows that are still open
    #[arg(long)]
    flush: bool,

    /// Print the books to standard error at the end, as JSON
    #[arg(long)]
    ledger: bool,
}

/// Replays to the end of the trace.
///
/// # Errors
/// A configuration with problems; a line that is none, with its number; a file
/// that cannot be read.
#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub fn run(args: Args) -> anyhow::Result<ExitCode> {
    let file = args.config.display().to_string();
    let checked = match check_for_replay(&read_text(&args.config)?, &file) {
        Ok(checked) => checked,
        Err(refused) => {
            refused.problems.iter().for_each(|problem| eprintln!("error: {problem}"));
            anyhow::bail!("{file}: {}", refused.count());
        }
    };
    checked.warnings.iter().for_each(|warning| eprintln!("warning: {warning}"));
    let mut replay = Replay::new(checked.config);
    let trace = args.trace.display();
    let mut input: Box<dyn BufRead> = if args.trace.as_os_str() == "-" {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(&args.trace).with_context(|| format!("{trace}: cannot be read"))?))
    };

    let (mut line, mut out, mut number) = (String::new(), Vec::new(), 0_u64);
    loop {
        line.clear();
        if input.read_line(&mut line).with_context(|| format!("{trace}: after line {number}"))? == 0 {
            break;
        }
        number += 1;
        if line.trim().is_empty() {
            continue;
        }
        if let Err(error) = replay.handle_line(&line, &mut out) {
            // What came before the wrong line is right, and is shown.
            write(&mut out)?;
            anyhow::bail!("{trace}:{number}: {error}");
        }
        if out.len() >= OUT_BYTES && !write(&mut out)? {
            return Ok(ExitCode::SUCCESS);
        }
    }
    if args.flush {
        replay.finish(&mut out);
    }
    write(&mut out)?;
    report(&args, &replay);
    Ok(ExitCode::SUCCESS)
}

/// False when nobody reads any more: the usual end of `replay … | head`.
fn write(out: &mut Vec<u8>) -> anyhow::Result<bool> {
    let result = io::stdout().lock().write_all(out);
    out.clear();
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error).context("writing to standard output"),
    }
}

fn report(args: &Args, replay: &Replay) {
    let status = replay.status();
    let open: usize = status.streams.iter().map(|stream| stream.open_windows).sum();
    if open > 0 && !args.flush {
        eprintln!("{open} windows are still open at the end of the trace; --flush fires them");
    }
    if status.unmatched > 0 {
        eprintln!("{} lines have a topic that no stream wants", status.unmatched);
    }
    for stream in status.streams.iter().filter(|stream| stream.ledger.rejected > 0) {
        let by_reason = stream.ledger.rejected_by.iter().map(|(reason, count)| format!("{count} {reason}"));
        let reasons = by_reason.collect::<Vec<_>>().join(", ");
        eprintln!("stream {}: {} records were rejected: {reasons}", stream.name, stream.ledger.rejected);
    }
    if args.ledger {
        let document = serde_json::to_value(&status).expect("a status is plain data");
        eprintln!("{document:#}");
    }
}
