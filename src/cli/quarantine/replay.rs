//! `tidegate quarantine replay`: samples through the present configuration of the running agent.
//!
//! Exit code 0: all that were asked for are taken in. 3: some were rejected again or not replayed. 1: there
//! is no agent that could take them in.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;

use crate::agent::rejected::query::{Query, Selection};
use crate::model::ids::Name;
use crate::model::record::RejectReason;

use super::{Place, check_stream, items, printable, reason, stream, text, title};

const EXIT_LEFT: u8 = 3;

/// Has the running agent take samples in again, by the configuration that it runs with now, with
/// their times of receipt. What is taken in is removed; what is rejected again stays. The rejected
/// messages of which no sample was kept cannot be brought back.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Only samples of this stream
    #[arg(value_name = "STREAM", value_parser = stream)]
    stream: Option<Name>,

    /// Only what was rejected for this reason, e.g. `not_json`
    #[arg(value_name = "REASON", value_parser = reason)]
    reason: Option<RejectReason>,

    #[command(flatten)]
    place: Place,

    /// Also samples in doubt: a replay of them was interrupted, and they may be counted twice
    #[arg(long)]
    again: bool,

    /// Print the whole document as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let source = args.place.source()?;
    if let Some(stream) = &args.stream {
        check_stream(stream, &args.place.streams(&source)?)?;
    }
    let selection = Selection { stream: args.stream, reason: args.reason };
    let document = source.answer(&Query::Replay { selection, again: args.again })?;
    let shown = if args.json { format!("{document}\n") } else { summary(&document) };
    // A closed pipe is no reason to change the verdict.
    let _ = io::stdout().lock().write_all(shown.as_bytes());
    let done = items(&document, "trouble").is_empty() && left(&document) == 0;
    Ok(if done { ExitCode::SUCCESS } else { ExitCode::from(EXIT_LEFT) })
}

/// Samples that are still there.
fn left(document: &Value) -> usize {
    items(document, "samples").iter().filter(|sample| sample["result"] != "taken").count()
}

/// A line for each, for a person.
fn summary(document: &Value) -> String {
    let mut out = String::new();
    let samples = items(document, "samples");
    // Writing to a string cannot fail.
    for sample in samples {
        let _ = writeln!(out, "{}: {}", title(sample), verdict(sample));
    }
    for trouble in items(document, "trouble") {
        let _ = writeln!(out, "! {}", text(trouble));
    }
    let (all, left) = (samples.len(), left(document));
    let _ = match all {
        0 => writeln!(out, "no such samples"),
        all => writeln!(out, "{} of {all} samples taken in, {left} left", all - left),
    };
    out
}

fn verdict(sample: &Value) -> String {
    let count = |name: &str| sample[name].as_u64().unwrap_or(0);
    let books = ["accepted", "duplicate", "future", "ignored", "filtered"].into_iter().filter(|name| count(name) > 0);
    let late = if count("late") > 0 { format!(" ({} too late for a window)", count("late")) } else { String::new() };
    let books = books.map(|name| format!("{} {name}{}", count(name), if name == "accepted" { &late } else { "" }));
    let books: Vec<String> = books.collect();
    let why = sample["hint"].as_str().map_or_else(String::new, |hint| format!(" ({})", printable(hint)));
    let why = format!("{}{why}", text(&sample["why"]));
    match text(&sample["result"]) {
        "taken" if books.is_empty() => "taken in: there is no record in it".to_owned(),
        "taken" => format!("taken in: {}", books.join(", ")),
        "partly" => format!("taken in in part: {}; {} rejected again: {why}", books.join(", "), count("rejected")),
        "rejected" => format!("rejected again: {why}"),
        "no_stream" => format!("not replayed: no stream takes {}", printable(text(&sample["topic"]))),
        "other_records" => "not replayed: some of its records were taken in before, and by this configuration it \
                            has other ones"
            .to_owned(),
        "cut" => format!("not replayed: only the begin of its {} bytes was kept", sample["payload_bytes"]),
        "in_doubt" => {
            "not replayed: a replay was interrupted, and it may have been taken in; --again does it again".to_owned()
        }
        "unknown_part" => {
            "not replayed: some of its many records were taken in before, and it is not known which".to_owned()
        }
        "stopping" => "not replayed: the agent is stopping".to_owned(),
        other => other.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_has_its_verdict_and_the_last_line_counts() {
        let sample = |n, result: &str| {
            serde_json::json!({"stream": "s", "reason": "bad_time", "n": n, "topic": "d/a", "result": result,
                "accepted": 2, "duplicate": 1, "rejected": 3, "why": "bad_time", "hint": "looks like seconds",
                "payload_bytes": 9_000})
        };
        let results = ["taken", "partly", "rejected", "no_stream", "cut", "in_doubt"];
        let mut samples: Vec<Value> = (1..).zip(results).map(|(n, result)| sample(n, result)).collect();
        samples[0]["late"] = 1.into();
        let document = serde_json::json!({"samples": samples, "trouble": ["disk full"]});
        assert_eq!(
            summary(&document),
            "s/bad_time 1: taken in: 2 accepted (1 too late for a window), 1 duplicate\n\
             s/bad_time 2: taken in in part: 2 accepted, 1 duplicate; 3 rejected again: bad_time (looks like seconds)\n\
             s/bad_time 3: rejected again: bad_time (looks like seconds)\n\
             s/bad_time 4: not replayed: no stream takes d/a\n\
             s/bad_time 5: not replayed: only the begin of its 9000 bytes was kept\n\
             s/bad_time 6: not replayed: a replay was interrupted, and it may have been taken in; --again does it again\n\
             ! disk full\n\
             1 of 6 samples taken in, 5 left\n"
        );
        assert_eq!(summary(&serde_json::json!({"samples": []})), "no such samples\n");
    }
}
