//! `tidegate quarantine list`: what is kept, by stream and reason.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use serde_json::Value;

use crate::agent::rejected::query::Query;
use crate::cli::outbox::shown;

use super::{Place, items, printable, text};

/// Lists the samples by stream and reason: how many, when the newest came, on which topic the
/// first, and a guess at what is wrong.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    place: Place,

    /// Print the whole document as JSON
    #[arg(long)]
    json: bool,
}

#[expect(clippy::needless_pass_by_value, reason = "every subcommand is called alike")]
pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let document = args.place.source()?.answer(&Query::List)?;
    let shown = if args.json { format!("{document}\n") } else { summary(&document) };
    // A closed pipe is no error.
    let _ = io::stdout().lock().write_all(shown.as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// Two lines for each, for a person.
fn summary(document: &Value) -> String {
    let mut out = String::new();
    for entry in items(document, "entries") {
        // Writing to a string cannot fail.
        let _ = write!(out, "{}/{}: ", printable(text(&entry["stream"])), text(&entry["reason"]));
        if entry["kept"] == 0 {
            out.push_str("none can be read\n");
            continue;
        }
        let samples = if entry["kept"] == 1 { "sample" } else { "samples" };
        let _ = write!(
            out,
            "{} {samples}, the newest of {}, the first on {}",
            entry["kept"],
            shown(&entry["newest_ms"]),
            printable(text(&entry["topic"]))
        );
        if entry["in_doubt"] != 0 {
            let _ = write!(out, "; {} in doubt: a replay was interrupted", entry["in_doubt"]);
        }
        if entry["damaged"] == true {
            out.push_str("; some cannot be read");
        }
        out.push('\n');
        if let Some(hint) = entry["hint"].as_str() {
            let _ = writeln!(out, "  hint: {}", printable(hint));
        }
    }
    if out.is_empty() {
        out.push_str("no samples of rejected messages\n");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_sees_what_came_from_where_and_what_may_be_wrong() {
        let entry = |kept, in_doubt, damaged, hint: Option<&str>| {
            serde_json::json!({"stream": "s", "reason": "bad_time", "kept": kept, "newest_ms": 1_700_000_000_000_u64,
                "topic": "d/a", "in_doubt": in_doubt, "damaged": damaged, "hint": hint})
        };
        let document = serde_json::json!({"entries": [
            entry(16, 0, false, Some("looks like seconds, configured ms")), entry(1, 1, true, None), entry(0, 0, true, None)]});
        assert_eq!(
            summary(&document),
            "s/bad_time: 16 samples, the newest of 2023-11-14T22:13:20Z, the first on d/a\n\
             \x20 hint: looks like seconds, configured ms\n\
             s/bad_time: 1 sample, the newest of 2023-11-14T22:13:20Z, the first on d/a; 1 in doubt: a replay was \
             interrupted; some cannot be read\n\
             s/bad_time: none can be read\n"
        );
        assert_eq!(summary(&serde_json::json!({"entries": []})), "no samples of rejected messages\n");
    }
}
