//! Every record is in exactly one place: the books balance after every message, and what
//! they say is what came out.

use tidegate::engine::spec::WindowKind;

use crate::draw::{Case, Wishes, case};
use crate::law;
use crate::run::{Run, spec};

#[test]
fn every_record_is_in_exactly_one_place() {
    law(|random| case(random, Wishes::Any), holds);
}

fn holds(case: &Case) -> Result<(), String> {
    let mut run = Run::new(&case.config);
    for (number, message) in (1..).zip(&case.messages) {
        run.take(message);
        if !run.driver.engine().balances() {
            return Err(format!("the books do not balance after message {number}"));
        }
    }
    let run = Run::of(case);
    let status = run.status();
    let stream = &status.streams[0];
    if !status.balanced || stream.ledger.received != case.messages.len() as u64 {
        return Err(format!("{} messages, {:?}", case.messages.len(), stream.ledger));
    }
    let results = run.results();
    for (window, kind) in stream.windows.iter().zip(spec(&case.config).streams[0].windows.iter().map(|spec| spec.kind))
    {
        let raw = run.rows.iter().filter(|row| row["kind"] == "late" && row["window"] == window.name.as_str()).count();
        if raw as u64 != window.side_output || window.open != 0 {
            return Err(format!("{raw} raw readings for {window:?}"));
        }
        // In a sliding window a record is in several, and counts once in the books.
        if !matches!(kind, WindowKind::Sliding { .. }) {
            let counted: u64 = results
                .iter()
                .filter(|((_, name, ..), _)| *name == window.name)
                .map(|(_, row)| row["count"].as_u64().unwrap())
                .sum();
            let deltas = run.rows.iter().filter(|row| row["kind"] == "delta" && row["window"] == window.name.as_str());
            let added: u64 = deltas.map(|row| row["count"].as_u64().unwrap()).sum();
            if added != window.backfilled {
                return Err(format!("{added} in deltas, {window:?}"));
            }
            if counted + window.side_output + window.backfilled + window.dropped != window.accepted {
                return Err(format!("{counted} in windows, {window:?}"));
            }
        }
    }
    Ok(())
}
