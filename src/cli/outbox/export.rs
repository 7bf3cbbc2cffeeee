//! `tidegate outbox export`: all held records as JSON lines, without taking them out.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use serde_json::Value;

use crate::agent::outbox::source::Source;
use crate::engine::outbox::LaneKind;
use crate::model::time::EventTime;

use super::{Place, complaints, lane, of_lane, past_of, say_if_overtaken, time};

/// Writes all held records, gaps included, as the uplink publishes them: JSON lines, each
/// with gateway, epoch and lane. They stay in the outbox. What comes after the beginning is
/// left out. Exit code 1: something could not be read.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,

    /// Only this lane: alarm, live, update, backlog or late
    #[arg(long, value_name = "LANE", value_parser = lane)]
    lane: Option<LaneKind>,

    /// Only records of that time or later, by window start or event time: RFC 3339, or ms since 1970
    #[arg(long, value_name = "TIME", value_parser = time, allow_hyphen_values = true)]
    from: Option<EventTime>,

    /// File, written whole or not at all; standard output by default
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What came of it.
#[derive(Default)]
struct Outcome {
    records: usize,
    troubles: Vec<String>,
    /// The reader has gone.
    closed: bool,
}

#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut source = args.place.source()?;
    let before = source.overview()?;
    let outcome = match &args.output {
        None => export(&mut source, &before, &args, &mut BufWriter::new(io::stdout().lock()))?,
        Some(file) => into_file(&mut source, &before, &args, file)?,
    };
    let after = source.overview()?;
    if !outcome.closed {
        eprintln!("{} records exported", outcome.records);
    }
    for lane in LaneKind::ALL {
        if let Some(note) = moved(of_lane(&before, lane), of_lane(&after, lane)) {
            eprintln!("lane {}: meanwhile {note}", lane.as_str());
        }
    }
    say_if_overtaken(&source);
    let mut problems = complaints(&before);
    problems.extend(outcome.troubles);
    for problem in &problems {
        eprintln!("not exported: {problem}");
    }
    Ok(ExitCode::from(u8::from(!problems.is_empty())))
}

fn export(source: &mut Source, overview: &Value, args: &Args, out: &mut impl Write) -> anyhow::Result<Outcome> {
    let mut outcome = Outcome::default();
    for lane in LaneKind::ALL.into_iter().filter(|lane| args.lane.is_none_or(|only| only == *lane)) {
        source.pages((lane, past_of(overview, lane)), (args.from, true), &mut |page| {
            outcome.troubles.extend(page.head.trouble);
            outcome.records += page.lines.split(|byte| *byte == b'\n').count() - 1;
            outcome.closed = is_closed(out.write_all(&page.lines))?;
            Ok(!outcome.closed)
        })?;
        if outcome.closed {
            return Ok(outcome);
        }
    }
    outcome.closed = is_closed(out.flush())?;
    Ok(outcome)
}

/// Whoever reads may have seen enough.
fn is_closed(written: io::Result<()>) -> anyhow::Result<bool> {
    match written {
        Ok(()) => Ok(false),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(true),
        Err(error) => Err(error).context("writing the records"),
    }
}

/// Beside the file first, then under its name: what is there is whole.
fn into_file(source: &mut Source, overview: &Value, args: &Args, file: &Path) -> anyhow::Result<Outcome> {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = file.with_file_name(name);
    let mut write = || {
        let mut out = BufWriter::new(File::create(&temporary)?);
        let outcome = export(source, overview, args, &mut out)?;
        out.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
        fs::rename(&temporary, file)?;
        anyhow::Ok(outcome)
    };
    let written = write().with_context(|| format!("cannot write {}", file.display()));
    written.inspect_err(|_| {
        // The error that counts is the first one.
        let _ = fs::remove_file(&temporary);
    })
}

/// What left a lane, and what came, between two overviews.
fn moved(before: &Value, after: &Value) -> Option<String> {
    let change = |name: &str| after[name].as_u64().unwrap_or(0).saturating_sub(before[name].as_u64().unwrap_or(0));
    let (acked, evicted, queued) = (change("acked"), change("evicted") + change("dead_lettered"), change("queued"));
    let note = format!(
        "{acked} records were acknowledged and {evicted} given up, which may be missing here; {queued} came, which are"
    );
    (acked + evicted + queued > 0).then_some(note)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_moves_while_it_runs_is_said() {
        let books =
            |queued: u64, acked: u64| json!({"queued": queued, "acked": acked, "evicted": 1, "dead_lettered": 0});
        assert_eq!(moved(&books(5, 2), &books(5, 2)), None);
        let note = moved(&books(5, 2), &books(6, 4)).unwrap();
        assert!(note.starts_with("2 records were acknowledged and 0 given up") && note.contains("1 came"), "{note}");
    }
}
