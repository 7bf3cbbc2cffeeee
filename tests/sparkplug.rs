//! Sparkplug B through the whole engine: names by birth, who is there, what is asked for, and
//! all of it over restarts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::{MemoryStore, memory_store};
use tidegate::engine::ring::{Packing, Ring};
use tidegate::engine::status::StreamStatus;
use tidegate::engine::step::{Command, DeliveryTag, Effect, Event, Message};
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

#[path = "world/edge_node.rs"]
mod edge_node;
mod world;

use edge_node::{EdgeNode, Sent, alias, named};
use world::{Restart, START_MS, World, brief, pipeline, silent_alike, told_alike};

/// One topic for edge nodes and devices: the id of a device is behind that of its edge node.
const STREAM: &str = r#"
topic = "spBv1.0/{group}/+/{device...}"
device = "{group}/{device}"
format = "sparkplug-b"
time = { source = "payload" }
fields = { temp = "/temp", flow = "/line~1flow" }
"#;

const WINDOW: &str = "[[streams.windows]]\nname = \"w\"\nsize = \"10s\"\naggregates = [\"count\", \"sum\"]";

fn readings() -> String {
    format!("{STREAM}watermark = \"monotonic\"\nrecords = \"arrival\"\n")
}

fn windows(more: &str) -> String {
    format!("{STREAM}watermark = \"monotonic\"\n{more}\n{WINDOW}")
}

fn ms(at: i64) -> i64 {
    START_MS + at
}

fn message(sent: &Sent) -> Message<'_> {
    Message { topic: &sent.topic, payload: &sent.payload, retain: false, dup: false, tag: None }
}

fn take(world: &mut World, at: u64, sent: &Sent) -> Vec<Value> {
    world.event(at, Event::Message(message(sent)))
}

fn values(rows: &[Value]) -> Vec<(String, Value)> {
    rows.iter().map(|row| (row["key"].as_str().unwrap().to_owned(), row["values"].clone())).collect()
}

/// An edge node with a device, both born at 0.
fn born(world: &mut World) -> EdgeNode {
    let mut edge = EdgeNode::new("e");
    let birth = edge.birth(ms(0), &[named("temp", 1).value(20.0)]);
    take(world, 0, &birth);
    let device = edge.device_birth("d", ms(0), &[named("line/flow", 2).value(5.0)]);
    take(world, 0, &device);
    edge
}

#[test]
fn data_by_alias_have_the_names_of_the_birth_whatever_restarts() {
    let rows = told_alike(&readings(), |world| {
        let mut edge = EdgeNode::new("e");
        let birth = edge.birth(ms(0), &[named("temp", 1).value(20.0)]);
        let mut rows = take(world, 0, &birth);
        rows.extend(take(world, 10, &edge.device_birth("d", ms(10), &[named("line/flow", 2).value(5.0)])));
        // Round the sequence, so that a number that was lost would show.
        for number in 1..=300 {
            let data = edge.data(ms(number), &[alias(1).value(21.0)]);
            let more = take(world, 20, &data);
            if number == 300 {
                rows.extend(more);
            }
        }
        rows.extend(take(world, 30, &edge.device_data("d", ms(400), &[alias(2).value(6.5)])));
        assert_eq!(world.status(30).ledger.rebirths_requested, 0);
        rows
    });
    let expected = [("G/e", json!({"temp": 20})), ("G/e/d", json!({"flow": 5}))];
    let later = [("G/e", json!({"temp": 21})), ("G/e/d", json!({"flow": 6.5}))];
    let expected: Vec<_> = expected.into_iter().chain(later).map(|(key, value)| (key.to_owned(), value)).collect();
    assert_eq!(values(&rows), expected);
}

#[test]
fn a_restart_sees_what_was_missed_meanwhile() {
    for restart in [Restart::FromPages, Restart::FromSnapshot] {
        let mut world = World::new(&readings(), restart);
        let mut edge = born(&mut world);
        let _missed = edge.data(ms(1), &[alias(1).value(1.0)]);
        let data = edge.data(ms(2), &[alias(1).value(2.0)]);
        assert_eq!(take(&mut world, 10, &data).len(), 1, "told all the same");
        assert_eq!(world.status(10).ledger.rebirths_requested, 1, "{restart:?}");
    }
}

#[test]
fn what_is_no_reading_is_no_mistake() {
    let mut world = World::new(&readings(), Restart::FromPages);
    let edge = born(&mut world);
    let before = world.status(0).ledger;
    let command = Sent { topic: edge.command_topic(), payload: b"anything".to_vec() };
    assert_eq!(take(&mut world, 10, &command), Vec::<Value>::new());
    let state = Sent { topic: "spBv1.0/STATE/host/1".to_owned(), payload: b"{}".to_vec() };
    take(&mut world, 10, &state);
    let other = EdgeNode::new("e").on_connection(0);
    take(&mut world, 10, &other.death());
    let after = world.status(10).ledger;
    assert_eq!(after.ignored, before.ignored + 2, "a command, and the will of an earlier connection");
    assert_eq!(after.rejected_by, [("not_in_format", 1)].into(), "no topic of Sparkplug");
    assert_eq!(after.availability, before.availability);

    let mut world = World::new(&readings().replace("/+/{device...}", "/{device...}"), Restart::Never);
    take(&mut world, 10, &Sent { topic: "spBv1.0/STATE/host".to_owned(), payload: b"{\"online\":true}".to_vec() });
    let ledger = world.status(10).ledger;
    assert_eq!((ledger.received, ledger.ignored, ledger.rejected), (1, 1, 0));
}

#[test]
fn the_death_of_an_edge_node_turns_all_that_is_behind_it_idle_at_once() {
    let rows = silent_alike(&windows("idle_timeout = \"1h\""), |world| {
        let mut edge = born(world);
        let device = edge.device_birth("other", ms(0), &[named("line/flow", 3).value(7.0)]);
        take(world, 1, &device);
        let stale = EdgeNode::new("e").on_connection(0);
        assert_eq!(take(world, 2, &stale.death()), Vec::<Value>::new(), "of an earlier connection");
        assert_eq!(world.status(2).ledger.idled, 0);
        let rows = take(world, 3, &edge.death());
        let ledger = world.status(3).ledger;
        assert_eq!((ledger.idled, ledger.rejected, ledger.availability), (3, 0, 4));
        assert_eq!(take(world, 4, &edge.death()), Vec::<Value>::new());
        rows
    });
    assert_eq!(brief(&rows), ["live pane G/e 0 idle", "live pane G/e/d 0 idle", "live pane G/e/other 0 idle"]);
}

#[test]
fn all_of_an_edge_node_leave_a_common_watermark_together_and_come_back_with_their_births() {
    silent_alike(
        &windows("scope = \"stream\"\nidle_timeout = \"1h\"\non_idle = \"hold\"\nresume = \"hold\""),
        |world| {
            let mut edge = born(world);
            let mut other = EdgeNode::new("f");
            let birth = other.birth(ms(0), &[named("temp", 1).value(1.0)]);
            take(world, 1, &birth);
            let data = other.data(ms(25_000), &[alias(1).value(2.0)]);
            assert_eq!(take(world, 2, &data), Vec::<Value>::new(), "the others are behind");
            let rows = take(world, 3, &edge.death());
            assert_eq!(rows.len(), 3, "{rows:?}");
            assert!(rows.iter().all(|row| row["pane"] == "on_time"));

            // Birth without a reading that counts: it is there all the same.
            edge.bd_seq += 1;
            let birth = edge.birth(ms(26_000), &[]);
            take(world, 4, &birth);
            assert_eq!(world.status(4).ledger.rejected, 0);
            let data = other.data(ms(50_000), &[alias(1).value(2.0)]);
            assert_eq!(take(world, 5, &data), Vec::<Value>::new(), "one is waited for");
            take(world, 6, &edge.death())
        },
    );
}

#[test]
fn a_device_that_dies_is_idle_and_the_others_are_not() {
    let rows = silent_alike(&windows("idle_timeout = \"1h\""), |world| {
        let mut edge = born(world);
        take(world, 1, &edge.device_death("d", ms(1)))
    });
    assert_eq!(brief(&rows), ["live pane G/e/d 0 idle"]);
}

#[test]
fn f122_buffered_samples_are_records_at_their_own_times() {
    let rows = told_alike(&format!("{}dedup = {{ by = \"time_and_values\" }}\n", readings()), |world| {
        let mut edge = born(world);
        let buffered: Vec<_> = [1_000, 2_000, 3_000].map(|at| alias(1).at(ms(at)).historical().value(21.0)).into();
        let rows = take(world, 10, &edge.data(ms(9_000), &buffered));
        assert_eq!(world.status(10).ledger.historical, 3);
        rows
    });
    assert_eq!(brief(&rows), ["live record G/e 1000", "live record G/e 2000", "live record G/e 3000"]);
}

/// A gateway that is asked what it wants to be sent.
struct Gateway {
    driver: Driver<MemoryStore>,
    packet: u16,
}

fn now(at: u64) -> Now {
    let wall = WallTime::from_millis(ms(i64::try_from(at).unwrap()));
    Now { proc: ProcTime::from_millis(at), wall, quality: ClockQuality::Synced }
}

impl Gateway {
    fn start(store: MemoryStore, at: u64) -> Gateway {
        Gateway::configured(&readings(), store, at)
    }

    fn configured(stream: &str, store: MemoryStore, at: u64) -> Gateway {
        let mut driver = Driver::start(pipeline(stream), store, now(at)).unwrap();
        driver.handle(now(at), Event::SessionStarted { resumed: true });
        Gateway { driver, packet: 0 }
    }

    /// As after a power cut.
    fn start_again(self, at: u64) -> Gateway {
        let slots = self.driver.into_store().into_slots().reopen();
        Gateway { packet: self.packet, ..Gateway::start(Ring::new(slots, Packing::NONE), at) }
    }

    fn take(&mut self, at: u64, sent: &Sent) {
        self.packet += 1;
        let tag = Some(DeliveryTag { connection: 1, packet: self.packet });
        self.driver.handle(now(at), Event::Message(Message { tag, ..message(sent) }));
    }

    /// The last message once more.
    fn take_again(&mut self, at: u64, sent: &Sent) {
        let tag = Some(DeliveryTag { connection: 1, packet: self.packet });
        self.driver.handle(now(at), Event::Message(Message { tag, dup: true, ..message(sent) }));
    }

    /// What is allowed at this moment: acknowledgements, and topics of commands.
    fn effects(&mut self, at: u64) -> (usize, Vec<Command>) {
        let (mut acks, mut commands) = (0, Vec::new());
        self.driver.advance(now(at), &mut |effect| match effect {
            Effect::Ack(_) => acks += 1,
            Effect::Command(command) => commands.push(command),
            Effect::Publish(_) | Effect::PublishLocal(_) | Effect::Replayed(_) | Effect::Tell { .. } => {
                panic!("nobody is there to publish to")
            }
        });
        (acks, commands)
    }

    fn status(&self) -> StreamStatus {
        let status = self.driver.status(now(0));
        assert!(status.balanced);
        status.streams[0].clone()
    }
}

/// A gateway, and an edge node that was born and is committed at 5 s.
fn gateway() -> (Gateway, EdgeNode) {
    let mut gateway = Gateway::start(memory_store(), 0);
    let mut edge = EdgeNode::new("e");
    gateway.take(0, &edge.birth(ms(0), &[named("temp", 1).value(20.0)]));
    assert_eq!(gateway.effects(5_000), (1, vec![]));
    (gateway, edge)
}

#[test]
fn f123_a_gap_asks_for_one_rebirth_after_the_commit_and_again_when_there_is_no_answer() {
    let (mut gateway, mut edge) = gateway();
    let _lost = edge.data(ms(5_000), &[alias(1).value(1.0)]);
    gateway.take(6_000, &edge.data(ms(6_000), &[alias(1).value(2.0)]));
    assert_eq!(gateway.effects(6_000), (0, vec![]), "nothing before the commit");
    gateway.take(6_500, &edge.data(ms(6_500), &[alias(1).value(2.0)]));
    let (acks, commands) = gateway.effects(12_000);
    assert_eq!((acks, commands.len()), (2, 1));
    assert_eq!(commands[0].topic, "spBv1.0/G/NCMD/e");
    assert!(commands[0].payload.windows(20).any(|part| part == b"Node Control/Rebirth"));

    gateway.take(35_999, &edge.data(ms(35_999), &[alias(1).value(2.0)]));
    assert_eq!(gateway.effects(35_999 + 5_000), (1, vec![]), "asked less than 30 s ago");
    gateway.take(41_000, &edge.data(ms(41_000), &[alias(1).value(2.0)]));
    let (_, commands) = gateway.effects(46_000);
    assert_eq!(commands.len(), 1, "no answer");
    gateway.take(47_000, &edge.birth(ms(47_000), &[named("temp", 1).value(20.0)]));
    gateway.take(90_000, &edge.data(ms(90_000), &[alias(1).value(2.0)]));
    assert_eq!(gateway.effects(95_000), (2, vec![]), "it was born again");
    let ledger = gateway.status().ledger;
    assert_eq!((ledger.rebirths_requested, ledger.accepted, ledger.rejected), (2, 7, 0), "all of it was told");
}

#[test]
fn an_alias_that_nobody_has_named_is_rejected_and_asked_for() {
    let (mut gateway, mut edge) = gateway();
    gateway.take(6_000, &edge.data(ms(6_000), &[alias(9).value(1.0)]));
    let mut other = EdgeNode::new("never-born");
    gateway.take(6_000, &other.device_data("d", ms(6_000), &[alias(1).value(1.0)]));
    gateway.take(6_000, &edge.data(ms(6_001), &[alias(9).value(1.0), alias(1).value(3.0)]));
    let topics: Vec<_> = gateway.effects(12_000).1.into_iter().map(|command| command.topic).collect();
    assert_eq!(topics, ["spBv1.0/G/NCMD/e", "spBv1.0/G/NCMD/never-born"]);
    let ledger = gateway.status().ledger;
    assert_eq!(ledger.rejected_by, [("unknown_alias", 2)].into());
    assert_eq!((ledger.fields_left_out, ledger.accepted), (3, 2));
}

#[test]
fn after_a_power_cut_the_sequence_goes_on_where_it_was_acknowledged() {
    let (mut gateway, mut edge) = gateway();
    gateway.take(6_000, &edge.data(ms(6_000), &[alias(1).value(1.0)]));
    assert_eq!(gateway.effects(12_000), (1, vec![]));
    // Taken in, not committed: the broker has it still.
    let unacknowledged = edge.data(ms(13_000), &[alias(1).value(2.0)]);
    gateway.take(13_000, &unacknowledged);
    let mut gateway = gateway.start_again(14_000);
    gateway.take_again(14_000, &unacknowledged);
    gateway.take(14_100, &edge.data(ms(14_100), &[alias(1).value(3.0)]));
    assert_eq!(gateway.effects(20_000), (2, vec![]), "no gap");
    assert_eq!(gateway.status().ledger.accepted, 4);
}

#[test]
fn a_gap_that_nobody_has_answered_outlives_a_power_cut() {
    let (mut gateway, mut edge) = gateway();
    let _lost = edge.data(ms(5_000), &[alias(1).value(1.0)]);
    gateway.take(6_000, &edge.data(ms(6_000), &[alias(1).value(2.0)]));
    // Committed, and the power goes off before it is carried out.
    assert_eq!(gateway.effects(12_000).1.len(), 1);
    let mut gateway = gateway.start_again(14_000);
    gateway.take(14_000, &edge.data(ms(14_000), &[alias(1).value(3.0)]));
    assert_eq!(gateway.effects(20_000).1.len(), 1, "asked again, although this one follows");
    assert_eq!(gateway.status().ledger.rebirths_requested, 2);
}

#[test]
fn a_redelivery_does_not_pass_through_the_session_twice() {
    let (mut gateway, mut edge) = gateway();
    let data = edge.data(ms(6_000), &[alias(1).value(1.0)]);
    gateway.take(6_000, &data);
    gateway.take_again(6_100, &data);
    gateway.take(6_200, &edge.data(ms(6_200), &[alias(1).value(1.0)]));
    assert_eq!(gateway.effects(12_000), (3, vec![]), "a number that comes twice would be a gap");
    let ledger = gateway.status().ledger;
    assert_eq!((ledger.redelivered, ledger.rebirths_requested), (1, 0));
}

#[test]
fn who_is_meant_by_no_topic_of_the_stream_is_not_counted_and_who_was_never_heard_is() {
    let (mut gateway, mut edge) = gateway();
    gateway.take(6_000, &edge.device_birth("silent", ms(6_000), &[]));
    gateway.take(6_000, &EdgeNode::new("stranger").death());
    let unknown = |gateway: &Gateway| gateway.driver.status(now(7_000)).unknown_devices;
    assert_eq!(unknown(&gateway), 2, "neither has sent a reading");

    let ignoring = readings().replace("format =", "deny = \"G/e/*\"\nignore = \"spBv1.0/+/NDATA/+\"\nformat =");
    let mut gateway = Gateway::configured(&ignoring, memory_store(), 0);
    gateway.take(0, &edge.birth(ms(0), &[]));
    gateway.take(0, &edge.device_birth("d", ms(0), &[]));
    gateway.take(0, &edge.death());
    assert_eq!((unknown(&gateway), gateway.status().ledger.availability), (0, 2), "nothing of a denied device is read");
}

#[test]
fn a_stream_that_takes_a_part_is_warned_of_and_asks_nobody_for_what_it_does_not_hear() {
    let devices_only =
        readings().replace("/+/{device...}", "/+/{edge}/{device}").replace("{group}/{device}", "{device}");
    let warnings = |more: &str| -> usize {
        let text = format!("[gateway]\nid = \"gw\"\n[[streams]]\nname = \"s\"\n{more}");
        let checked = tidegate::config::check::check_for_replay(&text, "test.toml").unwrap();
        checked.warnings.iter().filter(|warning| warning.to_string().contains("a part of what edge nodes send")).count()
    };
    assert_eq!((warnings(&readings()), warnings(&devices_only)), (0, 1));

    let mut gateway = Gateway::configured(&devices_only, memory_store(), 0);
    let mut edge = EdgeNode::new("e");
    gateway.take(0, &edge.device_birth("d", ms(0), &[named("temp", 1).value(20.0)]));
    let _elsewhere = edge.data(ms(1), &[]);
    gateway.take(0, &edge.device_data("d", ms(2), &[alias(1).value(21.0)]));
    assert_eq!(gateway.effects(5_000), (2, vec![]));
    assert_eq!(gateway.status().ledger.accepted, 2);
}

#[test]
fn a_stream_that_was_of_another_format_knows_no_aliases() {
    for restart in [Restart::FromSnapshot, Restart::FromPages] {
        let mut world = World::new(&readings(), restart);
        let mut edge = born(&mut world);
        world.start_again(
            10,
            Some(&readings().replace("sparkplug-b", "json").replace("source = \"payload\"", "source = \"receive\"")),
        );
        take(&mut world, 20, &Sent { topic: "spBv1.0/G/NDATA/e".to_owned(), payload: b"{}".to_vec() });
        world.start_again(30, Some(&readings()));
        assert_eq!(take(&mut world, 40, &edge.data(ms(40), &[alias(1).value(1.0)])), Vec::<Value>::new());
        let ledger = world.status(40).ledger;
        assert_eq!(ledger.rejected_by.get("unknown_alias"), Some(&1), "{restart:?}");
    }
}
