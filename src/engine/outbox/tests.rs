//! What the simulator found, small enough to read.

use super::*;
use crate::engine::encode::Envelope;
use crate::engine::wire::Reader;
use crate::model::limits::BATCH_PAYLOAD_BYTES_MAX;

const ENVELOPE: Envelope<'static> =
    Envelope { topic_prefix: "t", gateway: "gw", encoding: crate::engine::encode::Encoding::Json };

fn push(outbox: &mut Outbox, kind: LaneKind, text: &str) {
    let row = AlarmRow { at: WallTime::from_millis(0), code: "code", text };
    outbox.push(kind, |out| row::write_alarm(out, &row));
}

fn published(outbox: &mut Outbox) -> Vec<String> {
    let batches = core::iter::from_fn(|| outbox.next_batch(ENVELOPE));
    batches.map(|batch| String::from_utf8(batch.payload).unwrap()).collect()
}

#[test]
fn a_gap_is_not_published_before_its_eviction_is_durable() {
    let mut outbox = Outbox::new(60);
    for text in ["first", "second"] {
        push(&mut outbox, LaneKind::Late, text);
    }
    outbox.mark_committed();
    push(&mut outbox, LaneKind::Late, &"x".repeat(30));
    assert!(outbox.ledger(LaneKind::Late).evicted > 0, "it makes room at once");
    assert!(published(&mut outbox).is_empty(), "a crash would bring the row back");
    outbox.mark_committed();
    assert!(published(&mut outbox)[0].contains("\"gap\""));
}

#[test]
fn rows_behind_a_gap_that_waits_do_not_overtake_it() {
    let mut outbox = Outbox::new(60);
    push(&mut outbox, LaneKind::Update, "first");
    push(&mut outbox, LaneKind::Update, "second");
    push(&mut outbox, LaneKind::Live, "third");
    outbox.mark_committed();
    push(&mut outbox, LaneKind::Alarm, &"x".repeat(30));
    assert!(outbox.ledger(LaneKind::Update).evicted > 0);
    assert!(published(&mut outbox).is_empty(), "`third` was made after the row that is now a gap");
    outbox.mark_committed();
    let lanes: Vec<_> = published(&mut outbox);
    let place = |lane: &str| lanes.iter().position(|batch| batch.contains(&format!("\"lane\":\"{lane}\"")));
    assert!(place("update") < place("live"), "{lanes:?}");
}

#[test]
fn a_gap_that_was_restored_may_be_published() {
    let mut outbox = Outbox::new(60);
    push(&mut outbox, LaneKind::Late, "first");
    push(&mut outbox, LaneKind::Late, "second");
    push(&mut outbox, LaneKind::Late, &"x".repeat(30));
    let mut page = Vec::new();
    outbox.write_changes(&mut page);
    let mut restored = Outbox::new(60);
    restored.apply_changes(&mut Reader::new(&page)).unwrap();
    assert!(published(&mut restored)[0].contains("\"gap\""));
}

#[test]
fn a_batch_that_grows_in_its_encoding_is_divided() {
    let mut outbox = Outbox::new(1 << 20);
    // Six characters each in JSON.
    let texts: Vec<String> = (0..60).map(|number| format!("{number}{}", "\u{1}".repeat(1_000))).collect();
    for text in &texts {
        push(&mut outbox, LaneKind::Live, text);
    }
    outbox.mark_committed();
    let batches = published(&mut outbox);
    assert!(batches.iter().all(|batch| batch.len() <= BATCH_PAYLOAD_BYTES_MAX), "{:?}", batches[0].len());
    let records = |batch: &String| batch.matches("\"kind\"").count();
    assert_eq!(batches.iter().map(records).sum::<usize>(), texts.len(), "each once");
    assert!(records(&batches[0]) > 10, "not smaller than necessary");
}

#[test]
fn an_eviction_behind_a_gap_under_way_is_done_again_in_the_same_way() {
    let mut outbox = Outbox::new(50);
    for (kind, text) in [(LaneKind::Live, "row 0"), (LaneKind::Update, "row 1"), (LaneKind::Live, "row 2")] {
        push(&mut outbox, kind, text);
    }
    push(&mut outbox, LaneKind::Live, "row 3");
    outbox.mark_committed();
    let mut snapshot = Vec::new();
    outbox.write_all(&mut snapshot, &mut |_| ());
    let batch = outbox.next_batch(ENVELOPE).map(|batch| (batch.topic, batch.records));
    assert_eq!(batch, Some(("t/gw/data/live".to_owned(), 1)), "the gap alone: `row 1` comes before `row 2`");
    push(&mut outbox, LaneKind::Alarm, "urgent");
    assert_eq!(outbox.ledger(LaneKind::Live).evicted, 2);

    let (mut page, mut before, mut after) = (Vec::new(), Vec::new(), Vec::new());
    outbox.write_changes(&mut page);
    outbox.write_all(&mut before, &mut |_| ());
    let mut restored = Outbox::read_all(&mut Reader::new(&snapshot), 50).unwrap();
    restored.apply_changes(&mut Reader::new(&page)).unwrap();
    restored.write_all(&mut after, &mut |_| ());
    assert_eq!(before, after);
}
