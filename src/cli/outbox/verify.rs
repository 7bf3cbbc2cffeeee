//! `tidegate outbox verify`: reads everything that is held.

use std::process::ExitCode;

use crate::agent::clock::SystemClock;
use crate::engine::outbox::LaneKind;
use crate::model::time::{ProcTime, Span};

use super::{Place, complaints, past_of, say_if_overtaken};

/// Between two words about how far it is.
const SAY_EVERY: Span = Span::from_secs(2);

/// Reads every block and every record that is held, and checks checksums, numbers and
/// books. Exit code 0: all is well. 1: something is not, and is listed.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,
}

#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let mut source = args.place.source()?;
    let clock = SystemClock::start();
    let overview = source.overview()?;
    let mut problems = complaints(&overview);
    let (mut records, mut blocks) = (0, 0);
    let mut say_at: ProcTime = clock.proc() + SAY_EVERY;
    for lane in LaneKind::ALL {
        source.pages((lane, past_of(&overview, lane)), (None, false), &mut |page| {
            blocks += u64::from(page.head.on_disk);
            match page.head.trouble {
                Some(trouble) => problems.push(trouble),
                None => records += page.head.records,
            }
            if clock.proc() >= say_at {
                say_at = clock.proc() + SAY_EVERY;
                eprintln!("lane {}: {records} records so far", lane.as_str());
            }
            Ok(true)
        })?;
    }
    // A running agent may have come upon something meanwhile.
    let found = complaints(&source.overview()?).into_iter().filter(|problem| !problems.contains(problem));
    problems.extend(found.collect::<Vec<_>>());
    say_if_overtaken(&source);
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() {
        println!("all is well: {records} records, {blocks} blocks on disk");
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "{} problems; {records} records can be read. `tidegate outbox repair`, or a start, makes gaps of the rest",
        problems.len()
    );
    Ok(ExitCode::FAILURE)
}
