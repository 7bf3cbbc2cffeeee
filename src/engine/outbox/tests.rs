//! The outbox alone, with a chain that is a map.

use std::collections::BTreeMap;

use super::*;
use crate::engine::encode::{Encoding, Envelope};
use crate::engine::spec::LaneSpec;
use crate::engine::step::{Batch, Refusal, UplinkTerms};
use crate::engine::wire::Reader;
use crate::model::limits::BATCH_PAYLOAD_BYTES_MAX;
use crate::model::time::{ClockQuality, Span};

mod model;

const ENVELOPE: Envelope<'static> = Envelope { topic_prefix: "t", gateway: "gw", encoding: Encoding::Json };

fn now(millis: u64) -> Now {
    Now { proc: ProcTime::from_millis(millis), wall: WallTime::from_millis(0), quality: ClockQuality::Synced }
}

fn push(outbox: &mut Outbox, kind: LaneKind, text: &str) {
    let row = AlarmRow { at: WallTime::from_millis(0), code: "code", text };
    outbox.push(kind, |out| row::write_alarm(out, &row));
}

fn outbox(bytes_max: usize) -> Outbox {
    Outbox::new(OutboxSpec::of(bytes_max), UplinkPolicy::default())
}

fn batches(outbox: &mut Outbox, at: u64) -> Vec<Batch> {
    let next = |outbox: &mut Outbox| match outbox.next(now(at), ENVELOPE) {
        Next::Batch(batch) => Some(batch),
        Next::Block { .. } => panic!("there is no chain"),
        Next::Nothing => None,
    };
    core::iter::from_fn(|| next(outbox)).collect()
}

fn text(batch: &Batch) -> &str {
    core::str::from_utf8(&batch.payload).unwrap()
}

/// Numbers of the records of a batch.
fn seqs(batch: &Batch) -> Vec<u64> {
    let envelope: serde_json::Value = serde_json::from_slice(&batch.payload).unwrap();
    envelope["records"].as_array().unwrap().iter().map(|record| record["seq"].as_u64().unwrap()).collect()
}

#[test]
fn a_gap_is_not_published_before_its_eviction_is_durable() {
    let mut outbox = outbox(60);
    for text in ["first", "second"] {
        push(&mut outbox, LaneKind::Late, text);
    }
    outbox.mark_committed();
    push(&mut outbox, LaneKind::Late, &"x".repeat(30));
    assert!(outbox.ledger(LaneKind::Late).evicted > 0, "it makes room at once");
    assert!(
        batches(&mut outbox, 0).iter().all(|batch| !text(batch).contains("gap")),
        "a crash would bring the row back"
    );
    outbox.handle_down();
    outbox.mark_committed();
    assert!(text(&batches(&mut outbox, 0)[0]).contains("\"gap\""));
}

#[test]
fn a_gap_that_was_restored_may_be_published() {
    let mut first = outbox(60);
    for text in ["first", "second", "a third one that needs the room of both others"] {
        push(&mut first, LaneKind::Late, text);
    }
    let mut page = Vec::new();
    first.write_changes(&mut page);
    let mut restored = outbox(60);
    restored.apply_changes(&mut Reader::new(&page)).unwrap();
    assert!(text(&batches(&mut restored, 0)[0]).contains("\"gap\""));
}

#[test]
fn a_batch_that_grows_in_its_encoding_is_divided() {
    let mut outbox = outbox(1 << 20);
    // Six characters each in JSON.
    let texts: Vec<String> = (0..60).map(|number| format!("{number}{}", "\u{1}".repeat(1_000))).collect();
    for text in &texts {
        push(&mut outbox, LaneKind::Live, text);
    }
    outbox.mark_committed();
    let batches = batches(&mut outbox, 0);
    assert!(batches.iter().all(|batch| batch.payload.len() <= BATCH_PAYLOAD_BYTES_MAX));
    assert_eq!(batches.iter().map(|batch| batch.records).sum::<u32>(), 60, "each once");
    assert!(batches[0].records > 10, "not smaller than necessary");
}

#[test]
fn what_is_new_goes_before_what_waited_and_order_is_kept_within_a_lane() {
    let mut outbox = outbox(8 << 20);
    for number in 0..3_000 {
        push(&mut outbox, LaneKind::Backlog, &format!("old {number}"));
    }
    push(&mut outbox, LaneKind::Live, "new");
    push(&mut outbox, LaneKind::Alarm, "alarm");
    outbox.mark_committed();
    let mut found = Vec::new();
    loop {
        let mut sent = batches(&mut outbox, 0);
        if sent.is_empty() {
            break;
        }
        for batch in &sent {
            outbox.handle_ack(now(1), batch.id);
        }
        found.append(&mut sent);
    }
    assert_eq!((found[0].lane, found[1].lane), (LaneKind::Alarm, LaneKind::Live));
    let backlog: Vec<u64> = found[2..].iter().flat_map(seqs).collect();
    assert_eq!(backlog, (0..3_000).collect::<Vec<_>>());
    let ledger = outbox.ledger(LaneKind::Backlog);
    assert_eq!((ledger.queued, ledger.acked, outbox.held(LaneKind::Backlog)), (3_000, 3_000, 0));
    assert_eq!(outbox.bytes(), 0, "everything is free again");
}

#[test]
fn rows_that_are_too_old_become_a_gap_and_a_clock_that_is_set_changes_nothing() {
    let mut spec = OutboxSpec::of(1 << 20);
    spec.lanes[LaneKind::Late as usize] = LaneSpec { age_max: Some(Span::from_secs(60)), ..LaneSpec::default() };
    let mut outbox = Outbox::new(spec, UplinkPolicy::default());
    outbox.set_now(now(0));
    push(&mut outbox, LaneKind::Late, "old");
    let set = Now { wall: WallTime::from_millis(i64::MAX / 2), ..now(30_000) };
    outbox.set_now(set);
    assert_eq!(outbox.next_eviction(), None);
    push(&mut outbox, LaneKind::Late, "younger");
    assert_eq!(outbox.next_deadline(), Some(ProcTime::from_millis(60_001)));
    outbox.set_now(now(60_000));
    assert_eq!(outbox.next_eviction(), None);
    outbox.set_now(now(60_001));
    outbox.evict(outbox.next_eviction().expect("it is too old"), None);
    assert_eq!(outbox.next_eviction(), None);
    outbox.mark_committed();
    let came: Vec<_> = batches(&mut outbox, 60_001).iter().map(|batch| text(batch).to_owned()).collect();
    assert!(came[0].contains("\"reason\":\"expired\"") && came[1].contains("younger"), "{came:?}");
    assert_eq!(outbox.ledger(LaneKind::Late).evicted, 1);
}

#[test]
fn a_batch_that_is_poison_is_halved_until_the_record_is_found() {
    let mut outbox = outbox(1 << 20);
    for number in 0..100 {
        push(&mut outbox, LaneKind::Live, if number == 37 { "poison" } else { "fine" });
    }
    outbox.mark_committed();
    let (mut taken, mut rounds) = (Vec::new(), 0);
    loop {
        let sent = batches(&mut outbox, 0);
        if sent.is_empty() {
            break;
        }
        for batch in sent {
            rounds += 1;
            if text(&batch).contains("poison") && !text(&batch).contains("gap") && batch.lane == LaneKind::Live {
                outbox.handle_refused(now(0), batch.id, Refusal::Poison);
            } else {
                taken.extend(seqs(&batch).into_iter().filter(|_| batch.lane == LaneKind::Live));
                outbox.handle_ack(now(0), batch.id);
            }
            outbox.mark_committed();
        }
    }
    taken.sort_unstable();
    assert_eq!(taken, (0..100).collect::<Vec<_>>(), "all others, and a gap for it");
    assert!(rounds < 30, "{rounds} messages");
    let ledger = outbox.ledger(LaneKind::Live);
    assert_eq!((ledger.acked, ledger.dead_lettered, outbox.held(LaneKind::Live)), (99, 1, 0));
    let letters: Vec<_> = outbox.dead_letters().map(|letter| (letter.lane, letter.seq)).collect();
    assert_eq!(letters, [(LaneKind::Live, 37)]);
    assert_eq!(outbox.ledger(LaneKind::Alarm).queued, 1, "a person hears of it");
}

/// Runs connections to a broker that closes when it gets `poison`; true when all is sent.
fn connections(outbox: &mut Outbox, count: usize, closes: impl Fn(usize, &Batch) -> bool) -> bool {
    for connection in 0..count {
        outbox.handle_up();
        let mut ended = false;
        loop {
            let sent = batches(outbox, 0);
            if sent.is_empty() {
                break;
            }
            for batch in sent {
                if closes(connection, &batch) {
                    ended = true;
                    break;
                }
                outbox.handle_ack(now(0), batch.id);
                outbox.mark_committed();
            }
            if ended {
                break;
            }
        }
        if ended {
            outbox.handle_closed_by_peer(now(0));
            outbox.mark_committed();
        } else if LaneKind::ALL.iter().all(|kind| outbox.held(*kind) == 0) {
            return true;
        }
    }
    false
}

#[test]
fn a_record_on_which_the_broker_closes_the_connection_is_found_too() {
    let mut outbox = outbox(1 << 20);
    for number in 0..20 {
        push(&mut outbox, LaneKind::Live, if number == 3 { "poison" } else { "fine" });
    }
    outbox.mark_committed();
    let is_poison = |_: usize, batch: &Batch| text(batch).contains("poison") && batch.lane == LaneKind::Live;
    assert!(connections(&mut outbox, 60, |at, batch| is_poison(at, batch) && !text(batch).contains("gap")));
    let ledger = outbox.ledger(LaneKind::Live);
    assert_eq!((ledger.acked, ledger.dead_lettered), (19, 1));
}

#[test]
fn a_broker_that_closes_every_connection_costs_nothing() {
    let mut outbox = outbox(1 << 20);
    for _ in 0..20 {
        push(&mut outbox, LaneKind::Live, "fine");
    }
    outbox.mark_committed();
    assert!(!connections(&mut outbox, 500, |_, _| true));
    assert_eq!(outbox.ledger(LaneKind::Live).dead_lettered, 0);
    assert!(connections(&mut outbox, 1, |_, _| false), "and all of it is sent when it takes something");
    assert_eq!(outbox.ledger(LaneKind::Live).acked, 20);
}

#[test]
fn not_now_waits_longer_each_time_and_loses_nothing() {
    let mut outbox = outbox(1 << 20);
    push(&mut outbox, LaneKind::Live, "a quota");
    outbox.mark_committed();
    let mut at = 0;
    for wait in [1_000, 2_000, 4_000] {
        let batch = batches(&mut outbox, at).remove(0);
        outbox.handle_refused(now(at), batch.id, Refusal::NotNow);
        assert!(batches(&mut outbox, at + wait - 1).is_empty());
        assert_eq!(outbox.next_deadline(), Some(ProcTime::from_millis(at + wait)));
        at += wait;
    }
    let batch = batches(&mut outbox, at).remove(0);
    outbox.handle_ack(now(at), batch.id);
    assert_eq!(outbox.held(LaneKind::Live), 0);
}

#[test]
fn a_connection_that_allows_little_gets_little_at_a_time() {
    let mut outbox = outbox(1 << 20);
    for number in 0..400 {
        push(&mut outbox, LaneKind::Live, &format!("{number} {}", "x".repeat(100)));
    }
    outbox.mark_committed();
    outbox.handle_up();
    outbox.handle_terms(UplinkTerms { payload_max: 5_000, window: 2 });
    let sent = batches(&mut outbox, 0);
    assert_eq!(sent.len(), 2);
    assert!(sent.iter().all(|batch| batch.payload.len() <= 5_000 && batch.records > 10));
}

#[test]
fn rates_and_the_daily_budget_hold_and_alarms_pass() {
    let policy = UplinkPolicy { bytes_per_day: Some(10_000), messages_per_second: Some(5), ..UplinkPolicy::default() };
    let mut outbox = Outbox::new(OutboxSpec::of(1 << 20), policy);
    let mut published = 0;
    for second in 0..100 {
        push(&mut outbox, LaneKind::Backlog, &"x".repeat(300));
        push(&mut outbox, LaneKind::Live, &"y".repeat(100));
        outbox.mark_committed();
        for batch in batches(&mut outbox, second * 1_000) {
            published += batch.payload.len();
            outbox.handle_ack(now(second * 1_000), batch.id);
            outbox.mark_committed();
        }
    }
    assert!((9_000..11_500).contains(&published), "{published}");
    push(&mut outbox, LaneKind::Alarm, "the budget is spent");
    outbox.mark_committed();
    assert_eq!(batches(&mut outbox, 200_000).len(), 1);
    assert!(outbox.next_deadline().is_some_and(|at| at > ProcTime::from_millis(80_000_000)), "the next day");
    let mut snapshot = Vec::new();
    outbox.write_all(&mut snapshot, &mut |_| ());
    let restored = Outbox::read_all(&mut Reader::new(&snapshot), OutboxSpec::of(1 << 20), policy).unwrap();
    assert!(restored.spent_today(now(0)) > 9_000, "a restart does not begin the day anew");
}
