//! The contract, promise by promise.

use serde_json::json;

use super::*;
use crate::model::rng::Rng;

fn envelope(epoch: u64, lane: &str, records: &[Value]) -> Vec<u8> {
    json!({"v": 1, "gw": "gw-1", "epoch": epoch, "lane": lane, "records": records}).to_string().into_bytes()
}

fn pane(id: &str, rev: u64, seq: u64, count: u64) -> Value {
    json!({"kind": "pane", "id": id, "rev": rev, "seq": seq, "count": count})
}

fn late(seq: u64) -> Value {
    json!({"kind": "late", "id": "x", "seq": seq, "event_ms": 7})
}

fn receive(messages: &[Vec<u8>]) -> Receiver {
    let mut receiver = Receiver::new();
    for message in messages {
        receiver.handle_message(message).expect("an envelope");
    }
    receiver
}

fn end_state(receiver: &Receiver) -> Vec<Value> {
    receiver.end_state().cloned().collect()
}

/// Id, epoch and count of the panes that stand.
fn standing(receiver: &Receiver) -> Vec<(String, u64, u64)> {
    let number = |record: &Value, field: &str| record[field].as_u64().expect("a number");
    receiver.panes().map(|(id, record)| (id.to_owned(), number(record, "epoch"), number(record, "count"))).collect()
}

#[test]
fn the_end_state_is_the_same_whatever_is_repeated_or_reordered() {
    let messages = [
        envelope(1, "live", &[pane("a", 0, 0, 5), pane("b", 0, 1, 1)]),
        envelope(1, "update", &[pane("a", 1, 0, 6)]),
        envelope(1, "update", &[pane("a", 2, 1, 7)]),
        envelope(1, "late", &[late(0), late(1)]),
        envelope(2, "live", &[pane("b", 0, 0, 9)]),
        envelope(2, "live", &[json!({"kind": "pane", "id": "m", "rev": 3, "seq": 1, "count": 2, "replaces": ["n"]})]),
        envelope(1, "live", &[pane("n", 9, 2, 1)]),
    ];
    let expected = end_state(&receive(&messages));
    assert_eq!(expected.len(), 5);
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut receiver = Receiver::new();
        let mut left: Vec<&Vec<u8>> = messages.iter().chain(&messages).collect();
        while !left.is_empty() {
            let next = left.swap_remove(usize::try_from(rng.below(left.len() as u64)).expect("small"));
            receiver.handle_message(next).expect("an envelope");
        }
        assert_eq!(end_state(&receiver), expected, "seed {seed}");
        assert_eq!(receiver.counts().conflicts, 0, "seed {seed}");
        assert_eq!(receiver.holes(), [], "seed {seed}");
    }
}

#[test]
fn the_highest_epoch_wins_before_the_highest_revision() {
    let receiver = receive(&[
        envelope(2, "live", &[pane("a", 0, 0, 2)]),
        envelope(1, "live", &[pane("a", 7, 0, 1)]),
        envelope(2, "update", &[pane("a", 1, 0, 3)]),
    ]);
    assert_eq!(standing(&receiver), [("a".to_owned(), 2, 3)]);
    assert_eq!(receiver.counts().superseded, 1);
}

#[test]
fn a_replaced_id_stays_dead_and_its_replacement_lives() {
    let merged = json!({"kind": "pane", "id": "a", "rev": 1, "seq": 2, "count": 2, "replaces": ["a", "b"]});
    let receiver =
        receive(&[envelope(1, "live", &[pane("a", 0, 0, 1), pane("b", 0, 1, 1), merged, pane("b", 1, 3, 1)])]);
    assert_eq!(standing(&receiver), [("a".to_owned(), 1, 2)]);
}

#[test]
fn a_late_record_counts_once_per_epoch_lane_and_number() {
    let receiver = receive(&[
        envelope(1, "late", &[late(4), late(4), late(5)]),
        envelope(2, "late", &[late(4)]),
        envelope(1, "late", &[late(5)]),
    ]);
    assert_eq!((receiver.late().count(), receiver.counts().repeats), (3, 2));
}

#[test]
fn a_hole_is_reported_until_its_number_or_a_gap_record_comes() {
    let mut receiver = receive(&[envelope(3, "live", &[pane("a", 0, 10, 1), pane("b", 0, 14, 1)])]);
    let lane = LaneKey { gw: "gw-1".into(), epoch: 3, lane: "live".into() };
    assert_eq!(receiver.holes(), [Hole { lane, first: 11, last: 13 }]);
    assert_eq!(receiver.lanes().map(|(_, low, high)| (low, high)).collect::<Vec<_>>(), [(10, 14)]);

    let gap = json!({"kind": "gap", "id": "g", "seq": 15, "first_seq": 11, "last_seq": 12});
    receiver.handle_message(&envelope(3, "live", &[gap])).expect("an envelope");
    receiver.handle_message(&envelope(3, "live", &[pane("c", 0, 13, 1)])).expect("an envelope");
    assert_eq!(receiver.holes(), []);
}

#[test]
fn two_records_under_one_identity_are_a_broken_contract() {
    let receiver = receive(&[envelope(1, "live", &[pane("a", 0, 0, 1)]), envelope(1, "live", &[pane("a", 0, 0, 2)])]);
    assert_eq!(receiver.counts().conflicts, 1);
    assert_eq!(standing(&receiver), [("a".to_owned(), 1, 1)], "the first one stands");
}

#[test]
fn both_encodings_say_the_same() {
    let json = envelope(1, "live", &[pane("a", 0, 0, 5), late(1)]);
    let value: Value = serde_json::from_slice(&json).expect("JSON");
    let cbor = serde_cbor::to_vec(&value).expect("CBOR");
    assert_eq!(end_state(&receive(std::slice::from_ref(&cbor))), end_state(&receive(std::slice::from_ref(&json))));
    assert!(matches!(Receiver::new().handle_message(&cbor[..20]), Err(Refused::Malformed(_))));
}

#[test]
fn what_is_no_envelope_is_refused_as_a_whole() {
    let mut receiver = Receiver::new();
    let headless = envelope(1, "live", &[pane("a", 0, 0, 1), json!({"kind": "pane", "seq": 1})]);
    let newer = json!({"v": 2, "gw": "g", "epoch": 1, "lane": "live", "records": []}).to_string();
    for bad in [b"".as_slice(), b"{}", b"[1]", &headless] {
        assert!(matches!(receiver.handle_message(bad), Err(Refused::Malformed(_))));
    }
    assert_eq!(receiver.handle_message(newer.as_bytes()), Err(Refused::Version(2)));
    assert_eq!((receiver.counts().refused, receiver.end_state().count()), (5, 0));
}

#[test]
fn a_joined_window_is_replaced_by_its_next_revision_and_a_pair_counts_once() {
    let window = |rev: u64, seq: u64, missing: &[&str]| json!({"kind": "join", "id": "gw-1/join/j/d/0", "rev": rev, "seq": seq, "missing": missing});
    let pair = |seq: u64| json!({"kind": "join", "id": "gw-1/join/p/d/5-7", "seq": seq, "left_ms": 5, "right_ms": 7});
    let first = envelope(1, "live", &[window(0, 0, &["b"]), pair(1), pair(2)]);
    let second = envelope(1, "update", &[window(1, 0, &[])]);
    let receiver = receive(&[second, first.clone(), first]);
    let joined: Vec<_> = receiver.joined().map(|(_, record)| record["missing"].clone()).collect();
    assert_eq!(joined, [json!([])]);
    assert_eq!(receiver.panes().count(), 0);
    assert_eq!(receiver.records(), 3, "two pairs of the same times are two");
    assert_eq!((receiver.counts().superseded, receiver.counts().repeats), (2, 2));
    assert_eq!(receiver.counts().conflicts, 0);
}
