//! One piece of a lane as text: a line about it, and a line for each record as the uplink
//! publishes it, with gateway, epoch and lane in front.

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::engine::encode::record_json;
use crate::engine::outbox::{LaneKind, Piece};
use crate::model::time::EventTime;

/// Which page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Of this lane.
    pub lane: LaneKind,
    /// The first rows at or after this position.
    pub from: u64,
    /// Only records of that time or later: window starts or event times.
    pub since: Option<EventTime>,
    /// With the records; else they are only read.
    pub records: bool,
}

/// The first line.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Head {
    /// Records in the piece, whatever their time; a gap is none.
    pub records: u64,
    /// Where to go on; null: nothing is held behind this.
    pub next: Option<u64>,
    /// What cannot be read, and why; null: all of it could.
    pub trouble: Option<String>,
    /// It lies in the chain.
    pub on_disk: bool,
}

/// A page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// About it.
    pub head: Head,
    /// JSON lines, each with its line feed.
    pub lines: Vec<u8>,
}

/// An answer that is none: what the agent says instead.
#[derive(Deserialize)]
struct Refusal {
    error: String,
}

impl Page {
    /// Of a piece whose rows are known. `block`: what the chain has, or why it has nothing.
    pub fn of(gateway: &str, piece: &Piece, block: Result<&[u8], &str>, wanted: Wanted) -> Page {
        let on_disk = piece.block().is_some();
        let head = Head { records: piece.records(), next: Some(piece.past()), trouble: None, on_disk };
        let mut page = Page { head, lines: Vec::new() };
        let prefix = prefix(gateway, piece.epoch(), piece.lane);
        let read = piece.read(block.ok(), &mut |seq, row| {
            let is_wanted = wanted.records && wanted.since.is_none_or(|since| row.time() >= since);
            if is_wanted {
                page.lines.extend_from_slice(prefix.as_bytes());
                // Behind the brace that the prefix has.
                page.lines.extend_from_slice(&record_json(gateway, seq, row)[1..]);
                page.lines.push(b'\n');
            }
        });
        if read.is_err() {
            let why = block.err().unwrap_or("it is not the one that was written");
            page.head.trouble = Some(match piece.block() {
                Some(number) => format!("{piece}: block {number} cannot be read: {why}"),
                None => format!("{piece}: cannot be read"),
            });
        }
        page
    }

    /// As it is sent.
    pub fn document(&self) -> Vec<u8> {
        let mut document = serde_json::to_vec(&self.head).expect("plain data, and memory does not fail");
        document.push(b'\n');
        document.extend_from_slice(&self.lines);
        document
    }

    /// From what was sent.
    ///
    /// # Errors
    /// It is no page: the agent says why, or it is of another version.
    pub fn read(document: &str) -> anyhow::Result<Page> {
        let (head, lines) = document.split_once('\n').unwrap_or((document, ""));
        if let Ok(refusal) = serde_json::from_str::<Refusal>(head) {
            bail!("the agent refuses: {}", refusal.error);
        }
        let head =
            serde_json::from_str(head).context("the agent's answer is not understood: is it of this version?")?;
        let mut lines = lines.as_bytes().to_vec();
        if lines.last().is_some_and(|last| *last != b'\n') {
            lines.push(b'\n');
        }
        Ok(Page { head, lines })
    }
}

/// The begin of an object with what an envelope says once for all of its records.
fn prefix(gateway: &str, epoch: u64, lane: LaneKind) -> String {
    let gateway = serde_json::Value::from(gateway);
    format!(r#"{{"gw":{gateway},"epoch":{epoch},"lane":"{}","#, lane.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::outbox::Outbox;
    use crate::engine::spec::{OutboxSpec, UplinkPolicy};
    use crate::model::time::{ClockQuality, Now, ProcTime, WallTime};

    fn at(millis: i64) -> Now {
        Now { proc: ProcTime::from_millis(1), wall: WallTime::from_millis(millis), quality: ClockQuality::Synced }
    }

    #[test]
    fn a_page_is_a_line_about_it_and_the_records_as_they_are_published() {
        let mut outbox = Outbox::new(OutboxSpec::default(), UplinkPolicy::default());
        outbox.alarm(at(5), "a", "first");
        outbox.alarm(at(7), "b", "second");
        let piece = outbox.piece(LaneKind::Alarm, 0).expect("something is held");
        let mut wanted = Wanted { lane: LaneKind::Alarm, from: 0, since: None, records: true };
        let page = Page::of("g\"1", &piece, Err("no block"), wanted);
        assert_eq!(
            String::from_utf8(page.document()).expect("text"),
            concat!(
                r#"{"records":2,"next":2,"trouble":null,"on_disk":false}"#,
                "\n",
                r#"{"gw":"g\"1","epoch":0,"lane":"alarm","kind":"alarm","id":"g%221/alarm/a//5","seq":0,"at_ms":5,"code":"a","text":"first"}"#,
                "\n",
                r#"{"gw":"g\"1","epoch":0,"lane":"alarm","kind":"alarm","id":"g%221/alarm/b//7","seq":1,"at_ms":7,"code":"b","text":"second"}"#,
                "\n",
            )
        );
        let sent = String::from_utf8(page.document()).expect("text");
        assert_eq!(Page::read(sent.trim_end()).expect("a page"), page);
        wanted.since = Some(EventTime::from_millis(6));
        let later = Page::of("g", &piece, Err("no block"), wanted);
        assert_eq!((later.head.records, later.lines.split(|byte| *byte == b'\n').count() - 1), (2, 1));
        assert!(outbox.piece(LaneKind::Alarm, 2).is_none() && outbox.piece(LaneKind::Live, 0).is_none());
    }

    #[test]
    fn an_answer_that_is_no_page_says_why() {
        let of = |text: &str| Page::read(text).expect_err("no page").to_string();
        assert_eq!(of(r#"{"error":"the agent is stopping"}"#), "the agent refuses: the agent is stopping");
        assert!(of("").contains("version") && of("<html>").contains("version"));
    }
}
