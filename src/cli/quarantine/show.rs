//! `tidegate quarantine show`: the samples themselves.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::bail;
use serde_json::Value;

use crate::agent::rejected::query::{Query, Selection};
use crate::cli::outbox::shown;
use crate::model::ids::Name;
use crate::model::record::RejectReason;

use super::{Place, check_stream, is_plain, items, printable, reason, stream, text, title};

/// Bytes on one line of a dump.
const LINE: usize = 16;

/// Shows the samples of a stream: topic, time of receipt, a guess at what is wrong, and the payload
/// as text, or in hexadecimal where it is none.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The stream
    #[arg(value_name = "STREAM", value_parser = stream)]
    stream: Name,

    /// Only what was rejected for this reason, e.g. `not_json`
    #[arg(value_name = "REASON", value_parser = reason)]
    reason: Option<RejectReason>,

    #[command(flatten)]
    place: Place,

    /// Print the bytes of this sample, and nothing else
    #[arg(long, value_name = "N")]
    raw: Option<u64>,
}

pub(super) fn run(args: Args) -> anyhow::Result<ExitCode> {
    let source = args.place.source()?;
    check_stream(&args.stream, &args.place.streams(&source)?)?;
    let selection = Selection { stream: Some(args.stream), reason: args.reason };
    let document = source.answer(&Query::Show(selection))?;
    let samples = items(&document, "samples");
    let mut out = io::stdout().lock();
    if let Some(number) = args.raw {
        let found: Vec<&Value> = samples.iter().filter(|sample| sample["n"] == number).collect();
        match found[..] {
            [sample] => out.write_all(&payload(sample))?,
            [] => bail!("there is no sample {number}: `tidegate quarantine show` says which there are"),
            _ => bail!("there is a sample {number} of several reasons: name one"),
        }
        return Ok(ExitCode::SUCCESS);
    }
    // A closed pipe is no error.
    let _ = out.write_all(summary(&document).as_bytes());
    Ok(ExitCode::SUCCESS)
}

/// All of it, for a person.
fn summary(document: &Value) -> String {
    let mut out = String::new();
    for sample in items(document, "samples") {
        describe(&mut out, sample);
    }
    for ring in items(document, "damaged") {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{}: some samples cannot be read", printable(text(ring)));
    }
    if out.is_empty() {
        out.push_str("no such samples\n");
    }
    out
}

fn describe(out: &mut String, sample: &Value) {
    let payload = payload(sample);
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "{}: received {} on {}, {} bytes",
        title(sample),
        shown(&sample["received_ms"]),
        printable(text(&sample["topic"])),
        sample["payload_bytes"]
    );
    if sample["retained"] == true {
        out.push_str(", retained");
    }
    if sample["cut"] == true {
        let _ = write!(out, ", of which {} were kept: it cannot be replayed", payload.len());
    }
    if sample["in_doubt"] == true {
        out.push_str(", in doubt: a replay was interrupted");
    }
    out.push('\n');
    let records = &sample["records"];
    if records.is_object() {
        let rejected: Vec<String> = items(records, "rejected").iter().map(Value::to_string).collect();
        let _ = match records["of"].as_u64() {
            Some(of) => writeln!(out, "  of its {of} records, these were rejected: {}", rejected.join(", ")),
            None => writeln!(out, "  some of its many records were rejected: it cannot be replayed"),
        };
    }
    if let Some(hint) = sample["hint"].as_str() {
        let _ = writeln!(out, "  hint: {}", printable(hint));
    }
    match std::str::from_utf8(&payload) {
        Ok(text) if text.chars().all(|c| is_plain(c) || matches!(c, '\n' | '\r' | '\t')) => {
            text.lines().for_each(|line| writeln!(out, "  | {line}").unwrap_or_default());
        }
        Ok(_) | Err(_) => dump(out, &payload),
    }
}

/// Place, bytes, and those that are ASCII.
fn dump(out: &mut String, bytes: &[u8]) {
    for (place, line) in (0..).step_by(LINE).zip(bytes.chunks(LINE)) {
        let hex: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let ascii = line.iter().map(|byte| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' });
        let _ = writeln!(
            out,
            "  {place:04x}  {:width$}  {}",
            hex.join(" "),
            ascii.collect::<String>(),
            width = 3 * LINE - 1
        );
    }
}

/// The bytes that a document has in hexadecimal.
fn payload(sample: &Value) -> Vec<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok()).unwrap_or(0);
    text(&sample["payload"]).as_bytes().chunks_exact(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::rejected::document::hex;

    fn sample(payload: &[u8]) -> Value {
        serde_json::json!({"stream": "s", "reason": "not_json", "n": 3, "topic": "d/a", "payload": hex(payload),
            "received_ms": 1_700_000_000_000_u64, "payload_bytes": payload.len(), "retained": false, "cut": false,
            "in_doubt": false, "hint": null, "records": null})
    }

    #[test]
    fn text_is_shown_as_text_and_everything_else_in_hexadecimal() {
        let mut first = sample("{\"t\":1,\nü".as_bytes());
        first["hint"] = "cut short".into();
        let mut second = sample(b"a\x1b[2J\xff 0123456789");
        second["cut"] = true.into();
        second["payload_bytes"] = 9_000.into();
        second["records"] = serde_json::json!({"of": 4, "rejected": [1, 3]});
        let document = serde_json::json!({"samples": [first, second], "damaged": ["s not_json"]});
        assert_eq!(
            summary(&document),
            "s/not_json 3: received 2023-11-14T22:13:20Z on d/a, 10 bytes\n\
             \x20 hint: cut short\n\
             \x20 | {\"t\":1,\n\
             \x20 | ü\n\
             s/not_json 3: received 2023-11-14T22:13:20Z on d/a, 9000 bytes, of which 17 were kept: it cannot be replayed\n\
             \x20 of its 4 records, these were rejected: 1, 3\n\
             \x20 0000  61 1b 5b 32 4a ff 20 30 31 32 33 34 35 36 37 38  a.[2J. 012345678\n\
             \x20 0010  39                                               9\n\
             s not_json: some samples cannot be read\n"
        );
        assert_eq!(summary(&serde_json::json!({"samples": []})), "no such samples\n");
    }

    #[test]
    fn the_raw_bytes_are_those_that_came() {
        let all: Vec<u8> = (0..=255).collect();
        assert_eq!(payload(&sample(&all)), all);
    }
}
