//! Answers about samples, as JSON documents of version 1. Payloads are hexadecimal: they are any bytes.
//!
//! ```text
//! list     {v, entries: [{stream, reason, kept, bytes, in_doubt, oldest_ms, newest_ms, topic, hint, damaged}]}
//! show     {v, samples: [{stream, reason, n, topic, received_ms, retained, hint, payload_bytes, payload,
//!           cut, in_doubt, records}], damaged: [..]}
//! replay   {v, samples: [{stream, reason, n, topic, received_ms, result, ...}], trouble: [..]}
//! ```
//!
//! `result` is `taken` (nothing is left of it), `partly`, `rejected`, `no_stream`, `other_records`, or why it was
//! not replayed: `cut`, `in_doubt`, `unknown_part`, `stopping`. With the first three come the books of it;
//! `late` are those of `accepted` that were too late for a window.

use std::fmt::Write as _;
use std::io;

use serde_json::{Value, json};

use crate::engine::samples::{Outcome, Part, Verdict};
use crate::model::record::RejectReason;

use super::frame::Kept;
use super::query::{Query, Selection};
use super::shelf::{Key, Obstacle, Shelf};

/// Version of the documents.
const VERSION: u32 = 1;

/// What a replay came to.
#[derive(Debug, Default)]
pub(super) struct Tale {
    /// With what became of each.
    pub(super) replayed: Vec<(Kept, Option<Verdict>)>,
    /// What was not replayed.
    pub(super) left: Vec<(Kept, Obstacle)>,
    /// Why not all were begun.
    pub(super) marked: Option<io::Error>,
    /// Why not all that were taken in could be removed.
    pub(super) settled: Option<io::Error>,
}

/// What is on the shelf.
pub fn of(shelf: &Shelf, query: &Query) -> Value {
    match query {
        Query::List => list(shelf),
        Query::Show(selection) => show(shelf, selection),
        Query::Replay { .. } => refusal("a replay needs an agent that runs"),
    }
}

pub(super) fn refusal(text: &str) -> Value {
    json!({ "error": text })
}

pub(super) fn not_durable() -> Value {
    refusal(
        "the samples were handed to the engine and are not durable yet; until they are, `tidegate quarantine list` \
         shows them as in doubt",
    )
}

fn list(shelf: &Shelf) -> Value {
    let all = Selection::default();
    let entries: Vec<Value> = shelf.select(&all).map(|(key, kept, damaged)| entry(key, &kept, damaged)).collect();
    json!({ "v": VERSION, "entries": entries })
}

fn entry((stream, reason): &Key, kept: &[Kept], damaged: bool) -> Value {
    let (oldest, newest) = (kept.first().map(|kept| &kept.sample), kept.last().map(|kept| &kept.sample));
    json!({
        "stream": stream.as_str(),
        "reason": reason.as_str(),
        "kept": kept.len(),
        "bytes": kept.iter().map(|kept| kept.sample.payload.len()).sum::<usize>(),
        "in_doubt": kept.iter().filter(|kept| kept.in_doubt).count(),
        "oldest_ms": oldest.map(|sample| sample.received.as_millis()),
        "newest_ms": newest.map(|sample| sample.received.as_millis()),
        "topic": oldest.map(|sample| &sample.topic),
        "hint": newest.and_then(|sample| sample.hint.as_deref()),
        "damaged": damaged,
    })
}

fn show(shelf: &Shelf, selection: &Selection) -> Value {
    let (mut samples, mut broken) = (Vec::new(), Vec::new());
    for (key, kept, damaged) in shelf.select(selection) {
        samples.extend(kept.iter().map(whole));
        if damaged {
            broken.push(format!("{} {}", key.0, key.1.as_str()));
        }
    }
    json!({ "v": VERSION, "samples": samples, "damaged": broken })
}

fn whole(kept: &Kept) -> Value {
    let sample = &kept.sample;
    let mut value = head(kept);
    value["retained"] = sample.retain.into();
    value["hint"] = sample.hint.as_deref().into();
    value["payload_bytes"] = sample.payload_bytes.into();
    value["payload"] = hex(&sample.payload).into();
    value["cut"] = (!sample.is_whole).into();
    value["in_doubt"] = kept.in_doubt.into();
    value["records"] = match sample.part {
        Part::Whole => Value::Null,
        Part::Records { of, places } => {
            let rejected: Vec<u32> = (0..u64::BITS).filter(|at| places & (1 << at) != 0).map(|at| at + 1).collect();
            json!({ "of": of, "rejected": rejected })
        }
        Part::Unknown => json!({ "of": null, "rejected": null }),
    };
    value
}

fn head(kept: &Kept) -> Value {
    let sample = &kept.sample;
    json!({
        "stream": sample.stream.as_str(),
        "reason": sample.reason.as_str(),
        "n": kept.number,
        "topic": sample.topic,
        "received_ms": sample.received.as_millis(),
    })
}

impl Tale {
    pub(super) fn document(&self) -> Value {
        let replayed = self.replayed.iter().map(|(kept, verdict)| settled(kept, verdict.as_ref()));
        let left = self.left.iter().map(|(kept, obstacle)| {
            let mut value = head(kept);
            value["result"] = obstacle.as_str().into();
            value["payload_bytes"] = kept.sample.payload_bytes.into();
            value
        });
        let samples: Vec<Value> = replayed.chain(left).collect();
        let marked = self.marked.as_ref().map(|error| format!("not all were replayed: they cannot be marked: {error}"));
        let settled = self.settled.as_ref().map(|error| format!("what was taken in stays in doubt: {error}"));
        let trouble: Vec<String> = marked.into_iter().chain(settled).collect();
        json!({ "v": VERSION, "samples": samples, "trouble": trouble })
    }
}

fn settled(kept: &Kept, verdict: Option<&Verdict>) -> Value {
    let mut value = head(kept);
    value["result"] = match verdict {
        None => "stopping",
        Some(Verdict::NoStream) => "no_stream",
        Some(Verdict::OtherRecords) => "other_records",
        Some(Verdict::Taken(outcome)) => {
            let Outcome { accepted, late, duplicate, future, ignored, filtered, rejected, reason, hint, rest } =
                outcome;
            let books = [
                ("accepted", accepted),
                ("late", late),
                ("duplicate", duplicate),
                ("future", future),
                ("ignored", ignored),
                ("filtered", filtered),
            ];
            for (name, count) in books.into_iter().chain([("rejected", rejected)]) {
                value[name] = (*count).into();
            }
            value["why"] = reason.map(RejectReason::as_str).into();
            value["hint"] = hint.as_deref().into();
            match rest {
                None => "taken",
                Some(_) if accepted + duplicate + future + ignored + filtered > 0 => "partly",
                Some(_) => "rejected",
            }
        }
    }
    .into();
    value
}

impl Obstacle {
    fn as_str(self) -> &'static str {
        match self {
            Obstacle::Cut => "cut",
            Obstacle::InDoubt => "in_doubt",
            Obstacle::UnknownPart => "unknown_part",
        }
    }
}

/// Two digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("memory does not fail");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::super::frame::tests::sample;
    use super::*;

    fn kept(number: u64) -> Kept {
        Kept { number, in_doubt: number == 2, sample: sample("s", RejectReason::NotJson, &[0x7b, 0xff]) }
    }

    #[test]
    fn what_is_kept_is_listed_and_shown() {
        let dir = tempfile::tempdir().unwrap();
        let mut shelf = Shelf::look(dir.path(), 0);
        shelf.keep(kept(1).sample).unwrap();
        shelf.keep(kept(2).sample).unwrap();
        assert_eq!(
            of(&shelf, &Query::List),
            json!({"v": 1, "entries": [{"stream": "s", "reason": "not_json", "kept": 2, "bytes": 4, "in_doubt": 0,
                "oldest_ms": 1_700_000_000_000_u64, "newest_ms": 1_700_000_000_000_u64, "topic": "d/ä\n",
                "hint": "looks like seconds", "damaged": false}]})
        );
        let shown = of(&shelf, &Query::Show(Selection::default()));
        assert_eq!(shown["samples"].as_array().map(Vec::len), Some(2));
        let rejected: Vec<u32> = (2..=64).collect();
        assert_eq!(
            shown["samples"][1],
            json!({"stream": "s", "reason": "not_json", "n": 2, "topic": "d/ä\n", "received_ms": 1_700_000_000_000_u64,
                "retained": true, "hint": "looks like seconds", "payload_bytes": 2, "payload": "7bff", "cut": false,
                "in_doubt": false, "records": {"of": 64, "rejected": rejected}})
        );
        assert!(of(&shelf, &Query::Replay { selection: Selection::default(), again: false })["error"].is_string());
    }

    #[test]
    fn each_sample_of_a_replay_says_what_became_of_it() {
        let outcome = |accepted, rest: Option<Part>| {
            let reason = rest.map(|_| RejectReason::WrongType);
            Some(Verdict::Taken(Outcome { accepted, rejected: 2, reason, rest, ..Outcome::default() }))
        };
        let replayed = vec![
            (kept(1), outcome(3, None)),
            (kept(2), outcome(1, Some(Part::Whole))),
            (kept(3), outcome(0, Some(Part::Whole))),
            (kept(4), Some(Verdict::NoStream)),
            (kept(5), Some(Verdict::OtherRecords)),
            (kept(6), None),
        ];
        let left = vec![(kept(7), Obstacle::Cut)];
        let settled = Some(io::Error::other("no"));
        let told = Tale { replayed, left, settled, marked: None }.document();
        let results: Vec<&str> =
            told["samples"].as_array().unwrap().iter().map(|sample| sample["result"].as_str().unwrap()).collect();
        assert_eq!(results, ["taken", "partly", "rejected", "no_stream", "other_records", "stopping", "cut"]);
        assert_eq!(told["samples"][1]["why"], "wrong_type");
        assert_eq!(told["trouble"], json!(["what was taken in stays in doubt: no"]));
    }
}
