//! Interval joins. The rules are those of Flink's `IntervalJoinOperator`.

use serde_json::json;
use tidegate::model::limits::JOIN_RECORDS_PER_KEY_MAX;
use tidegate::model::time::ProcTime;

use super::world::{START_MS, World, pairs, pipeline};

const INTERVAL: &str = "left = \"a\"\nright = \"b\"\nafter = \"10s\"\nbefore = \"2s\"";

#[test]
fn a_pair_is_made_at_once_when_both_are_there_whoever_comes_first() {
    let mut world = World::new(pipeline(INTERVAL));
    assert_eq!(world.reading(0, "a/d", 5_000, 1.0).len(), 0);
    let rows = world.reading(0, "b/d", 7_000, 2.0);
    assert_eq!(
        rows,
        [json!({
            "lane": "live", "kind": "join", "id": format!("gw/join/j/d/{}-{}", START_MS + 5_000, START_MS + 7_000),
            "seq": 0, "join": "j", "key": "d", "event_ms": START_MS + 7_000,
            "left_ms": START_MS + 5_000, "right_ms": START_MS + 7_000,
            "values": {"a": {"v": 1}, "b": {"v": 2}}, "time_source": "device", "time_quality": "synced"
        })]
    );
    assert_eq!(pairs(&world.reading(0, "a/d", 8_000, 3.0)), [json!([8_000, 7_000, 3, 2])]);
    assert_eq!(world.reading(0, "b/other", 7_000, 2.0).len(), 0, "of the same key alone");
}

#[test]
fn both_bounds_belong_to_the_interval() {
    for (left, right, pairs) in [(10_000, 7_999, 0), (10_000, 8_000, 1), (10_000, 20_000, 1), (10_000, 20_001, 0)] {
        for left_first in [true, false] {
            let mut world = World::new(pipeline(INTERVAL));
            let mut records = [("a/d", left), ("b/d", right)];
            records.sort_by_key(|(topic, _)| (*topic == "a/d") != left_first);
            for (topic, ts) in records {
                world.reading(0, topic, ts, 1.0);
            }
            assert_eq!(world.rows.len(), pairs, "{left} {right} {left_first}");
        }
    }
}

#[test]
fn a_record_behind_the_lower_watermark_of_both_sides_is_late_and_not_joined() {
    let mut world = World::new(pipeline(INTERVAL));
    world.reading(0, "a/d", 20_000, 1.0);
    world.reading(0, "b/d", 12_000, 1.0);
    // W = min(19.999, 11.999). At W itself a record is not late.
    assert_eq!(world.reading(0, "b/d", 11_998, 1.0).len(), 0);
    assert_eq!(world.books()["right"]["late"], 1);
    world.reading(0, "a/d", 11_999, 2.0);
    assert_eq!(world.books()["left"]["late"], 0);
    assert_eq!(pairs(&world.rows), [json!([11_999, 12_000, 2, 1])]);
}

#[test]
fn a_record_is_kept_until_the_lower_watermark_says_that_no_partner_can_come() {
    let mut world = World::new(pipeline(INTERVAL));
    world.reading(0, "a/d", 5_000, 1.0);
    world.reading(0, "b/d", 6_000, 1.0);
    world.reading(0, "a/d", 30_000, 1.0);
    // The left one waits for b to get to 15 s, the right one for both to get to 8 s.
    assert_eq!(world.books()["left"]["open"], 2);
    world.reading(0, "b/d", 8_000, 1.0);
    assert_eq!(world.books()["right"]["open"], 2, "W = 7.999");
    world.reading(0, "b/d", 8_001, 1.0);
    assert_eq!(world.books()["right"]["matched"], 1);
    world.reading(0, "b/d", 15_000, 2.0);
    assert_eq!(pairs(&world.rows).last(), Some(&json!([5_000, 15_000, 1, 2])), "the last that it could have");
    assert_eq!(world.books()["left"]["open"], 2, "W = 14.999");
    world.reading(0, "b/d", 15_001, 2.0);
    assert_eq!(world.books()["left"]["open"], 1);
    assert_eq!(world.books()["left"]["matched"], 1);
}

#[test]
fn a_side_that_never_comes_is_waited_for_exactly_as_long_as_ttl() {
    let mut world = World::new(pipeline(&format!("{INTERVAL}\nttl = \"1m\"")));
    world.reading(1_000, "a/d", 5_000, 1.0);
    assert_eq!(world.driver.engine().next_deadline(), Some(ProcTime::from_millis(61_000)));
    world.tick(60_999);
    assert_eq!(world.books()["left"]["open"], 1);
    world.tick(61_000);
    assert_eq!((&world.books()["left"]["open"], &world.books()["left"]["expired"]), (&json!(0), &json!(1)));
    assert_eq!(world.reading(61_001, "b/d", 5_000, 1.0).len(), 0);
}

#[test]
fn an_interval_may_begin_after_its_record() {
    let mut world = World::new(pipeline("left = \"a\"\nright = \"b\"\nafter = \"10s\"\nbefore = \"-2s\""));
    world.reading(0, "a/d", 10_000, 1.0);
    for ts in [11_999, 12_000, 20_000, 20_001] {
        world.reading(0, "b/d", ts, 1.0);
    }
    assert_eq!(pairs(&world.rows), [json!([10_000, 12_000, 1, 1]), json!([10_000, 20_000, 1, 1])]);
}

#[test]
fn the_records_of_a_key_are_bounded_and_the_oldest_makes_room() {
    let mut world = World::new(pipeline(&format!("{INTERVAL}\nttl = \"1d\"")));
    let all = i64::try_from(JOIN_RECORDS_PER_KEY_MAX).unwrap() + 5;
    for number in 0..all {
        world.reading(0, "a/d", number, 1.0);
    }
    assert_eq!(world.books()["left"]["evicted"], 5);
    assert_eq!(world.books()["left"]["open"], JOIN_RECORDS_PER_KEY_MAX);
    // The interval reaches back to 4 ms, which is gone.
    let rows = world.reading(0, "b/d", 10_004, 1.0);
    assert_eq!(rows.len(), JOIN_RECORDS_PER_KEY_MAX - 1, "and 5 ms made room for this one");
    assert_eq!(pairs(&rows)[0][0], 6);
}

#[test]
fn records_of_one_group_make_pairs_whatever_their_devices() {
    let one = |name: &str| {
        let lines = "group = \"{room}\"\ndisorder = \"0s\"\nidle_timeout = \"off\"\nscope = \"group\"";
        super::world::stream(name, lines, "").replace("/{device}", "/{room}/{device}")
    };
    let join = format!("[[joins]]\nname = \"j\"\n{INTERVAL}\nkey = \"group\"");
    let mut world = World::new(super::world::parse(&format!("{}{}\n{join}\n", one("a"), one("b"))));
    world.reading(0, "a/hall/door", 5_000, 1.0);
    assert_eq!(world.reading(0, "b/attic/lamp", 6_000, 2.0).len(), 0);
    let rows = world.reading(0, "b/hall/lamp", 7_000, 3.0);
    assert_eq!(pairs(&rows), [json!([5_000, 7_000, 1, 3])]);
    assert_eq!(rows[0]["key"], "hall");
}
