//! Joins under a configuration that changes between two lives.

use serde_json::json;

use super::world::{WINDOWS, World, brief, pairs, parse, pipeline, stream};

#[test]
fn a_join_that_did_not_change_goes_on_beside_one_that_is_new() {
    let mut world = World::new(pipeline(WINDOWS));
    world.reading(0, "a/d", 1_000, 1.0);
    world.reading(0, "a/d", 10_000, 1.0);
    world.reading(0, "b/d", 2_000, 1.0);
    let more = format!("left = \"a\"\nright = \"b\"\nafter = \"0s\"\n[[joins]]\nname = \"k\"\n{WINDOWS}");
    let mut spec = pipeline(&more);
    // The one of before stands second now, under its old name.
    spec.joins[0].name = "new".parse_name();
    spec.joins[1].name = "j".parse_name();
    assert_eq!(world.restart_as(spec).len(), 0);
    let rows = world.reading(0, "b/d", 10_000, 1.0);
    assert_eq!(brief(&rows[..1]), [json!([0, "on_time", 0, 1, 1, []])]);
    // The interval join pairs what came after it began.
    assert_eq!(rows.len(), 1);
    assert_eq!(pairs(&world.reading(0, "a/d", 10_000, 7.0)), [json!([10_000, 10_000, 7, 1])]);
}

trait ParseName {
    fn parse_name(&self) -> tidegate::model::ids::Name;
}

impl ParseName for str {
    fn parse_name(&self) -> tidegate::model::ids::Name {
        tidegate::model::ids::Name::new(self).unwrap()
    }
}

#[test]
fn of_a_join_that_changed_what_is_complete_is_emitted_and_the_rest_is_counted() {
    let mut world = World::new(pipeline(WINDOWS));
    // [00,10) has both sides, though b's is not final: it is shown by falling idle.
    let idle = "disorder = \"0s\"\nidle_timeout = \"5s\"";
    let text = |mode: &str| {
        let streams = format!("{}{}", stream("a", idle, "lateness = \"1m\""), stream("b", idle, "lateness = \"1m\""));
        parse(&format!("{streams}\n[[joins]]\nname = \"j\"\n{WINDOWS}\n{mode}\n"))
    };
    world.restart_as(text(""));
    world.reading(0, "a/d", 1_000, 1.0);
    world.reading(0, "b/d", 1_000, 2.0);
    world.reading(0, "a/e", 1_000, 4.0);
    assert_eq!(world.tick(5_001).len(), 0);
    let rows = world.restart_as(text("mode = \"outer\""));
    assert_eq!(brief(&rows), [json!([0, "timeout", 0, 1, 2, []])]);
    assert_eq!(world.books()["ledger"]["abandoned"], 1);
    assert_eq!(world.books()["ledger"]["joined"], 1);
    // The new one may make a row of the same window: it is the newer one.
    world.reading(6_000, "a/d", 10_000, 1.0);
    let rows = world.reading(6_000, "b/d", 10_000, 1.0);
    assert_eq!(brief(&rows), [json!([0, "on_time", 1, 1, 2, []])]);
}

#[test]
fn a_join_that_is_taken_out_says_what_it_has() {
    let mut world = World::new(pipeline(&format!("{WINDOWS}\nmode = \"outer\"")));
    world.reading(0, "a/d", 1_000, 1.0);
    world.reading(0, "a/d", 10_000, 1.0);
    let mut spec = world.spec.clone();
    spec.joins.clear();
    assert_eq!(brief(&world.restart_as(spec)), [json!([0, "timeout", 0, 1, null, ["b"]])]);
}

#[test]
fn other_windows_under_the_same_names_are_another_join() {
    let mut world = World::new(pipeline(&format!("{WINDOWS}\nmode = \"outer\"")));
    world.reading(0, "a/d", 1_000, 1.0);
    world.reading(0, "a/d", 10_000, 1.0);
    let plain = "disorder = \"0s\"\nidle_timeout = \"off\"";
    let streams =
        format!("{}{}", stream("a", plain, ""), stream("b", plain, "")).replace("size = \"10s\"", "size = \"20s\"");
    let spec = parse(&format!("{streams}\n[[joins]]\nname = \"j\"\n{WINDOWS}\nmode = \"outer\"\n"));
    assert_eq!(brief(&world.restart_as(spec)), [json!([0, "timeout", 0, 1, null, ["b"]])]);
}
