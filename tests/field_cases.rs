//! What people who run edge agents reported in public, as promises that hold here: the
//! parts "Offline buffer", "Disk full, flash wear, corruption" and "Memory". Each test is
//! named by its case; those of connections are in `tests/shell` and `tests/torture`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, VecDeque};

use serde_json::Value;
use tidegate::engine::chain::Chain;
use tidegate::engine::driver::Driver;
use tidegate::engine::memory_store::MemorySlots;
use tidegate::engine::outbox::LaneKind;
use tidegate::engine::ring::slots::{SlotError, SlotId, Slots};
use tidegate::engine::ring::{Packing, Ring};
use tidegate::engine::spec::{OutboxSpec, PipelineSpec, Records, StreamSpec, UplinkPolicy};
use tidegate::engine::step::{Batch, DeliveryTag, Effect, Event, Message, Refusal};
use tidegate::engine::store::{Store, StoreError};
use tidegate::model::ids::Name;
use tidegate::model::template::Template;
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};
use tidegate::model::topic::TopicPattern;

const START_MS: i64 = 1_790_000_000_000;

type MemoryStore = Ring<MemorySlots>;

/// Every reading is a record of the outbox.
fn pipeline(outbox: OutboxSpec, uplink: UplinkPolicy) -> PipelineSpec {
    let name = |text: &str| Name::new(text).unwrap();
    let topic = TopicPattern::parse("s/{device}").unwrap();
    let device = Template::parse("{device}", &topic).unwrap();
    let stream = StreamSpec { records: Records::Arrival, ..StreamSpec::new(name("s"), topic, device) };
    PipelineSpec { outbox, uplink, ..PipelineSpec::new(name("gw"), vec![stream]) }
}

/// A gateway on a store, and a cloud that takes what it is told to.
struct Gateway<S: Store + Chain> {
    driver: Driver<S>,
    millis: u64,
    sent: VecDeque<Batch>,
    acks: u64,
    packet: u16,
}

fn memory() -> MemoryStore {
    Ring::new(MemorySlots::new(1), Packing::NONE)
}

impl Gateway<MemoryStore> {
    fn new(outbox: OutboxSpec, uplink: UplinkPolicy) -> Self {
        Gateway::on(memory(), outbox, uplink)
    }

    fn plain() -> Self {
        Gateway::new(OutboxSpec::default(), UplinkPolicy::default())
    }

    /// The power goes, and comes back.
    fn restarted(self, outbox: OutboxSpec) -> Self {
        let slots = self.driver.into_store().into_slots().reopen();
        Gateway::on(Ring::new(slots, Packing::NONE), outbox, UplinkPolicy::default())
    }
}

impl<S: Store + Chain> Gateway<S> {
    fn on(store: S, outbox: OutboxSpec, uplink: UplinkPolicy) -> Self {
        let driver = Driver::start(pipeline(outbox, uplink), store, now(0)).unwrap();
        let mut gateway = Gateway { driver, millis: 0, sent: VecDeque::new(), acks: 0, packet: 0 };
        gateway.event(Event::SessionStarted { resumed: true });
        gateway
    }

    fn event(&mut self, event: Event<'_>) {
        self.driver.handle(now(self.millis), event);
        self.advance();
    }

    fn advance(&mut self) {
        let (sent, acks) = (&mut self.sent, &mut self.acks);
        self.driver.advance(now(self.millis), &mut |effect| match effect {
            Effect::Publish(batch) => sent.push_back(batch),
            Effect::Ack(_) => *acks += 1,
            Effect::Tell { .. } | Effect::PublishLocal(_) | Effect::Command(_) | Effect::Replayed(_) => {
                panic!("nobody asked for it")
            }
        });
    }

    fn reading(&mut self, device: &str, value: u64) {
        let (topic, payload) = (format!("s/{device}"), format!("{{\"v\":{value}}}"));
        self.packet = self.packet.checked_add(1).unwrap_or(1);
        let tag = Some(DeliveryTag { connection: 1, packet: self.packet });
        let message = Message { topic: &topic, payload: payload.as_bytes(), retain: false, dup: false, tag };
        self.driver.handle(now(self.millis), Event::Message(message));
    }

    /// Readings of four devices, some thousand a second.
    fn readings(&mut self, count: u64) {
        for number in 0..count {
            self.reading(["a", "b", "c", "d"][usize::try_from(number % 4).unwrap()], number);
            if number % 1_000 == 999 {
                self.pass(1_000);
            }
        }
        self.pass(1_000);
    }

    fn pass(&mut self, millis: u64) {
        self.millis += millis;
        self.advance();
    }

    /// Takes everything the agent sends until it sends nothing more.
    fn drain(&mut self) -> Vec<Batch> {
        let mut taken = Vec::new();
        for _ in 0..200_000 {
            self.advance();
            let Some(batch) = self.sent.pop_front() else {
                if self.held() == 0 && self.driver.engine().is_committed() {
                    return taken;
                }
                self.pass(1_000);
                continue;
            };
            self.event(Event::UplinkAcked(batch.id));
            taken.push(batch);
        }
        panic!("it does not come to an end");
    }

    fn held(&self) -> u64 {
        LaneKind::ALL.iter().map(|kind| self.driver.engine().outbox().held(*kind)).sum()
    }

    fn balances(&self) -> bool {
        self.driver.engine().balances()
    }
}

fn now(millis: u64) -> Now {
    let wall = WallTime::from_millis(START_MS + i64::try_from(millis).unwrap());
    Now { proc: ProcTime::from_millis(millis), wall, quality: ClockQuality::Synced }
}

fn records(batch: &Batch) -> Vec<Value> {
    let envelope: Value = serde_json::from_slice(&batch.payload).unwrap();
    envelope["records"].as_array().unwrap().clone()
}

/// By lane and device: the values in the order in which they came.
fn by_device(batches: &[Batch]) -> BTreeMap<(LaneKind, String), Vec<u64>> {
    let mut found = BTreeMap::<_, Vec<u64>>::new();
    for batch in batches {
        for record in records(batch).iter().filter(|record| record["kind"] == "record") {
            let key = (batch.lane, record["key"].as_str().unwrap().to_owned());
            found.entry(key).or_default().push(record["values"]["v"].as_u64().unwrap());
        }
    }
    found
}

// --- Offline buffer, order, duplicates

#[test]
fn f37_what_was_in_flight_when_the_connection_was_lost_is_sent_again_whatever_the_broker_remembers() {
    let mut gateway = Gateway::plain();
    gateway.event(Event::UplinkUp);
    gateway.readings(5_000);
    assert!(gateway.sent.len() > 1);
    gateway.sent.clear();
    gateway.event(Event::UplinkDown);
    gateway.event(Event::UplinkUp);
    let came: u32 = gateway.drain().iter().map(|batch| batch.records).sum();
    assert_eq!(came, 5_000);
}

#[test]
fn f45_a_backlog_leaves_in_a_pipeline_as_fast_as_it_is_taken_and_as_slowly_as_is_asked() {
    let mut gateway = Gateway::plain();
    gateway.readings(30_000);
    gateway.event(Event::UplinkUp);
    assert!(gateway.sent.len() > 1, "at once, and more than one at a time");
    let before = gateway.millis;
    gateway.drain();
    assert!(gateway.millis - before < 10_000, "no pause between messages");

    let policy = UplinkPolicy { messages_per_second: Some(10), ..UplinkPolicy::default() };
    let mut gateway = Gateway::new(OutboxSpec::default(), policy);
    gateway.readings(20_000);
    gateway.event(Event::UplinkUp);
    let before = gateway.millis;
    let messages = gateway.drain().len() as u64;
    assert!(gateway.millis - before >= (messages - 20) * 100, "ten a second: {messages}");
}

#[test]
fn f48_forty_thousand_old_records_do_not_hold_up_a_new_one() {
    let mut gateway = Gateway::plain();
    gateway.readings(40_000);
    gateway.event(Event::UplinkUp);
    let waiting = gateway.sent.len();
    gateway.reading("a", 777_777);
    gateway.pass(1_000);
    let new = gateway.sent.iter().position(|batch| batch.lane == LaneKind::Live);
    assert!(new.is_some_and(|place| place <= waiting), "right behind what was under way: {new:?}");
    assert!(waiting <= 4, "and that is little: {waiting}");
    let rest = gateway.drain();
    assert_eq!(rest.iter().map(|batch| batch.records).sum::<u32>(), 40_001);
}

#[test]
fn f49_each_device_keeps_its_order_within_a_lane_after_an_outage() {
    let mut gateway = Gateway::plain();
    gateway.readings(20_000);
    gateway.event(Event::UplinkUp);
    gateway.readings(2_000);
    let found = by_device(&gateway.drain());
    assert_eq!(found.len(), 8, "two lanes, four devices");
    assert!(found.values().all(|values| values.is_sorted()));
}

#[test]
fn f50_sending_begins_with_the_connection_and_not_with_a_timer() {
    let mut gateway = Gateway::plain();
    gateway.readings(100);
    gateway.event(Event::UplinkUp);
    assert!(!gateway.sent.is_empty(), "in the same moment");
}

#[test]
fn f55_a_restart_sends_what_was_not_acknowledged_and_nothing_else() {
    let mut gateway = Gateway::plain();
    gateway.readings(3_000);
    gateway.event(Event::UplinkUp);
    let first = gateway.sent.pop_front().unwrap();
    gateway.event(Event::UplinkAcked(first.id));
    gateway.pass(1_000);
    let mut gateway = gateway.restarted(OutboxSpec::default());
    gateway.event(Event::UplinkUp);
    let again: u32 = gateway.drain().iter().map(|batch| batch.records).sum();
    assert_eq!(again, 3_000 - first.records);
}

#[test]
fn f57_hours_offline_take_no_memory() {
    let mut gateway = Gateway::plain();
    let mut most = 0;
    for _ in 0..20 {
        gateway.readings(4_000);
        most = most.max(gateway.driver.engine().outbox().memory());
    }
    assert!(most < 1 << 20, "{most} bytes of 80,000 records");
    assert_eq!(gateway.held(), 80_000);
    assert_eq!(gateway.acks, 80_000, "the devices' broker has nothing left to keep");
}

#[test]
fn f59_what_waited_comes_on_a_topic_of_its_own_and_never_in_one_message_with_what_is_new() {
    let mut gateway = Gateway::plain();
    gateway.readings(500);
    gateway.pass(1_000);
    let back = START_MS + i64::try_from(gateway.millis).unwrap();
    gateway.event(Event::UplinkUp);
    gateway.readings(500);
    let batches = gateway.drain();
    for lane in ["backlog", "live"] {
        let of_lane = batches.iter().filter(|batch| batch.topic.ends_with(&format!("/data/{lane}")));
        let received: Vec<i64> =
            of_lane.flat_map(records).map(|record| record["received_ms"].as_i64().unwrap()).collect();
        assert_eq!(received.len(), 500, "{lane}");
        assert!(received.iter().all(|at| (*at < back) == (lane == "backlog")), "{lane}");
    }
}

// --- Disk full, flash wear, corruption

/// A disk whose chains take nothing.
struct NoRoom(MemoryStore);

impl Store for NoRoom {
    fn load(&mut self) -> Result<tidegate::engine::store::Loaded, StoreError> {
        self.0.load()
    }
    fn commit(&mut self, page: &[u8]) -> Result<(), StoreError> {
        self.0.commit(page)
    }
    fn snapshot(&mut self, state: &[u8]) -> Result<(), StoreError> {
        self.0.snapshot(state)
    }
    fn wants_snapshot(&self) -> bool {
        self.0.wants_snapshot()
    }
    fn bytes_written(&self) -> u64 {
        self.0.bytes_written()
    }
}

impl Chain for NoRoom {}

#[test]
fn f60_a_disk_without_room_for_the_backlog_keeps_the_live_path_and_says_what_was_given_up() {
    let outbox = OutboxSpec { memory_max: 1 << 19, ..OutboxSpec::default() };
    let mut gateway = Gateway::on(NoRoom(memory()), outbox, UplinkPolicy::default());
    for round in 1..=15_u64 {
        gateway.readings(4_000);
        assert_eq!(gateway.acks, round * 4_000, "what comes is taken and acknowledged");
        assert!(gateway.driver.engine().outbox().memory() <= 1 << 19);
    }
    assert!(gateway.driver.storage_status().outbox_failure.is_some(), "health says it");
    let given_up = gateway.driver.engine().outbox().ledger(LaneKind::Backlog).evicted;
    assert!(given_up > 0 && gateway.balances());
    gateway.event(Event::UplinkUp);
    gateway.reading("a", 5);
    gateway.pass(1_000);
    assert!(gateway.sent.iter().any(|batch| batch.lane == LaneKind::Live), "what is new goes out");
    let gaps: Vec<Value> = gateway.drain().iter().flat_map(records).filter(|record| record["kind"] == "gap").collect();
    assert_eq!(gaps.iter().map(|gap| gap["count"].as_u64().unwrap()).sum::<u64>(), given_up);
    assert!(gaps.iter().all(|gap| gap["reason"] == "evicted" && gap["lost"][0]["stream"] == "s"));
}

/// A disk that reads, and has no room for more from some moment on; or does not even read.
struct Worn {
    store: MemoryStore,
    full: std::rc::Rc<std::cell::Cell<bool>>,
    silent: std::rc::Rc<std::cell::Cell<bool>>,
}

impl Store for Worn {
    fn load(&mut self) -> Result<tidegate::engine::store::Loaded, StoreError> {
        self.store.load()
    }
    fn commit(&mut self, page: &[u8]) -> Result<(), StoreError> {
        self.store.commit(page)
    }
    fn snapshot(&mut self, state: &[u8]) -> Result<(), StoreError> {
        self.store.snapshot(state)
    }
    fn wants_snapshot(&self) -> bool {
        self.store.wants_snapshot()
    }
    fn bytes_written(&self) -> u64 {
        self.store.bytes_written()
    }
}

impl Chain for Worn {
    fn append_block(&mut self, lane: u8, number: u64, block: &[u8]) -> Result<u64, StoreError> {
        if self.full.get() { Err(StoreError::Full) } else { self.store.append_block(lane, number, block) }
    }
    fn sync_blocks(&mut self) -> Result<(), StoreError> {
        self.store.sync_blocks()
    }
    fn read_block(&mut self, lane: u8, number: u64, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        if self.silent.get() {
            return Err(StoreError::Failed("no answer".into()));
        }
        self.store.read_block(lane, number, into)
    }
    fn free_blocks(&mut self, lane: u8, first: u64) -> Result<(), StoreError> {
        self.store.free_blocks(lane, first)
    }
}

#[test]
fn f60_a_full_disk_gives_back_what_it_holds_and_one_that_is_silent_holds_up_only_that() {
    let (full, silent) = <(std::rc::Rc<std::cell::Cell<bool>>, std::rc::Rc<std::cell::Cell<bool>>)>::default();
    let store = Worn { store: memory(), full: std::rc::Rc::clone(&full), silent: std::rc::Rc::clone(&silent) };
    let outbox = OutboxSpec { memory_max: 400_000, ..OutboxSpec::default() };
    let mut gateway = Gateway::on(store, outbox, UplinkPolicy::default());
    gateway.readings(20_000);
    full.set(true);
    gateway.readings(2_000);
    assert!(gateway.driver.storage_status().outbox_failure.is_some());
    silent.set(true);
    gateway.event(Event::UplinkUp);
    gateway.reading("a", 1);
    gateway.pass(1_000);
    assert!(gateway.sent.iter().any(|batch| batch.lane == LaneKind::Live), "what is in memory goes on");
    silent.set(false);
    let came: u32 = gateway.drain().iter().map(|batch| batch.records).sum();
    assert_eq!(came, 22_001, "the disk is still full, and all of it has been sent");
    assert!(gateway.balances());
}

#[test]
fn f60_a_burst_between_two_commits_costs_nothing_while_the_disk_has_room() {
    let mut gateway = Gateway::plain();
    // As many rows as 100,000 windows that close at once; nothing is committed meanwhile.
    for number in 0..300_000 {
        gateway.reading("a", number);
    }
    assert!(gateway.driver.engine().outbox().memory() <= 8 << 20);
    gateway.pass(1_000);
    assert_eq!((gateway.held(), gateway.acks), (300_000, 300_000), "nothing was given up");

    let outbox = OutboxSpec { bytes_max: 4 << 20, memory_max: 4 << 20, ..OutboxSpec::default() };
    let mut gateway = Gateway::new(outbox, UplinkPolicy::default());
    gateway.readings(60_000);
    gateway.reading("a", 1);
    assert_eq!(gateway.driver.engine().outbox().ledger(LaneKind::Backlog).evicted, 0);
}

#[test]
fn f70_a_broker_that_refuses_everything_for_a_while_costs_next_to_nothing_and_every_number_is_told() {
    let mut gateway = Gateway::plain();
    gateway.readings(3_000);
    gateway.event(Event::UplinkUp);
    for _ in 0..120 {
        gateway.pass(1_000);
        while let Some(batch) = gateway.sent.pop_front() {
            gateway.event(Event::UplinkRefused(batch.id, Refusal::Poison));
        }
    }
    let dead: u64 = gateway.driver.status(now(0)).outbox.lanes.iter().map(|lane| lane.dead_lettered).sum();
    assert!(dead <= 8, "{dead} of 3,000");
    let came: Vec<Value> =
        gateway.drain().iter().filter(|batch| batch.lane == LaneKind::Backlog).flat_map(records).collect();
    let told = |record: &Value| if record["kind"] == "gap" { record["count"].as_u64().unwrap() } else { 1 };
    assert_eq!(came.iter().map(told).sum::<u64>(), 3_000, "each number, as a record or in a gap");
    assert!(gateway.balances());
}

#[test]
fn f62_a_trickle_costs_one_commit_each_interval() {
    let mut gateway = Gateway::plain();
    let before = gateway.driver.storage_status().commits;
    for number in 0..1_000 {
        gateway.reading("a", number);
        gateway.pass(100);
    }
    let commits = gateway.driver.storage_status().commits - before;
    assert!((80..=101).contains(&commits), "{commits} commits in 100 s at 10 messages a second");
}

#[test]
fn f63_f65_a_block_that_cannot_be_read_becomes_a_gap_and_holds_up_nothing() {
    let mut gateway = Gateway::plain();
    gateway.readings(50_000);
    gateway.pass(200_000);
    let mut slots = gateway.driver.into_store().into_slots();
    let blocks: Vec<_> = slots.blocks().collect();
    assert!(blocks.len() > 10, "the backlog is on disk");
    slots.block_mut(blocks[3].0, blocks[3].1).unwrap()[40] ^= 1;
    slots.block_mut(blocks[5].0, blocks[5].1).unwrap().truncate(100);
    let mut gateway = Gateway::on(Ring::new(slots, Packing::NONE), OutboxSpec::default(), UplinkPolicy::default());
    gateway.event(Event::UplinkUp);
    let came: Vec<Value> = gateway.drain().iter().flat_map(records).collect();
    let lost: u64 =
        came.iter().filter(|record| record["kind"] == "gap").map(|gap| gap["count"].as_u64().unwrap()).sum();
    assert!(lost > 0 && lost < 5_000, "two blocks: {lost}");
    assert!(came.iter().all(|record| record["kind"] != "gap" || record["reason"] == "damaged"));
    let whole = came.iter().filter(|record| record["kind"] == "record").count() as u64;
    assert_eq!(whole + lost, 50_000);
    assert!(gateway.balances());
}

#[test]
fn f64_f73_the_power_may_go_at_any_write_of_an_outage_and_of_the_drain_after_it() {
    let outbox = OutboxSpec { memory_max: 100_000, ..OutboxSpec::default() };
    // Every write and sync of a run without a cut is a place for one.
    let life = |mut gateway: Gateway<MemoryStore>| {
        gateway.readings(4_000);
        gateway.event(Event::UplinkUp);
        for _ in 0..10 {
            if let Some(batch) = gateway.sent.pop_front() {
                gateway.event(Event::UplinkAcked(batch.id));
            }
            gateway.pass(1_000);
        }
        gateway
    };
    let whole = life(Gateway::new(outbox, UplinkPolicy::default()));
    let operations = whole.driver.into_store().into_slots().operations();
    assert!(operations > 30, "{operations}");
    for cut in 1..=operations {
        let mut slots = MemorySlots::new(cut);
        slots.crash_after(cut);
        let gateway = life(Gateway::on(Ring::new(slots, Packing::NONE), outbox, UplinkPolicy::default()));
        let acknowledged = gateway.acks;
        let mut gateway = gateway.restarted(outbox);
        assert!(gateway.balances(), "cut {cut}");
        let received = gateway.driver.status(now(0)).streams[0].ledger.received;
        assert!(received >= acknowledged, "cut {cut}: {received} of {acknowledged} acknowledged messages are there");
        gateway.event(Event::UplinkUp);
        gateway.drain();
        let ledger = gateway.driver.engine().outbox().ledger(LaneKind::Backlog);
        assert_eq!((ledger.evicted, ledger.acked), (0, ledger.queued), "cut {cut}: all of it arrived");
    }
}

#[test]
fn f67_what_was_queued_is_acknowledged_given_up_set_aside_or_held_always() {
    let outbox = OutboxSpec { bytes_max: 64 << 10, memory_max: 32 << 10, ..OutboxSpec::default() };
    let mut gateway = Gateway::new(outbox, UplinkPolicy::default());
    gateway.readings(5_000);
    assert!(gateway.balances() && gateway.driver.engine().outbox().ledger(LaneKind::Backlog).evicted > 0);
    gateway.event(Event::UplinkUp);
    for round in 0.. {
        assert!(gateway.balances());
        gateway.pass(1_000);
        let Some(batch) = gateway.sent.pop_front() else { break };
        if round % 3 == 0 {
            gateway.event(Event::UplinkRefused(batch.id, Refusal::Poison));
        } else {
            gateway.event(Event::UplinkAcked(batch.id));
        }
    }
    let sum = |count: fn(&tidegate::engine::status::LaneStatus) -> u64| -> u64 {
        gateway.driver.status(now(0)).outbox.lanes.iter().map(count).sum()
    };
    let gone = sum(|lane| lane.acked) + sum(|lane| lane.evicted) + sum(|lane| lane.dead_lettered);
    assert_eq!(sum(|lane| lane.queued), gone + sum(|lane| lane.held));
}

#[test]
fn f69_an_outbox_that_has_drained_takes_no_space_on_disk() {
    let mut gateway = Gateway::plain();
    for _ in 0..3 {
        gateway.readings(20_000);
        gateway.pass(130_000);
        assert!(gateway.driver.storage_status().outbox_disk_bytes > 100 << 10);
        gateway.event(Event::UplinkUp);
        gateway.drain();
        gateway.event(Event::UplinkDown);
        assert_eq!(gateway.driver.storage_status().outbox_disk_bytes, 0);
    }
}

#[test]
fn f70_a_record_that_is_refused_for_ever_is_found_set_aside_and_told() {
    let mut gateway = Gateway::plain();
    gateway.event(Event::UplinkUp);
    for number in 0..200 {
        gateway.reading("a", number);
    }
    gateway.pass(1_000);
    let mut taken = 0;
    for _ in 0..500 {
        gateway.pass(1_000);
        let Some(batch) = gateway.sent.pop_front() else { break };
        let is_poison = |record: &Value| record["kind"] == "record" && record["values"]["v"] == 77;
        if records(&batch).iter().any(is_poison) {
            gateway.event(Event::UplinkRefused(batch.id, Refusal::Poison));
        } else {
            taken += records(&batch).iter().filter(|record| record["kind"] == "record").count();
            gateway.event(Event::UplinkAcked(batch.id));
        }
    }
    let ledger = gateway.driver.engine().outbox().ledger(LaneKind::Live);
    assert_eq!((taken, ledger.dead_lettered, gateway.held()), (199, 1, 0));
    assert_eq!(gateway.driver.engine().outbox().dead_letters().count(), 1);
}

/// Slots that count what is read at a start.
struct Counted {
    slots: MemorySlots,
    reads: std::rc::Rc<std::cell::Cell<u64>>,
}

impl Slots for Counted {
    fn read(&mut self, slot: SlotId, into: &mut Vec<u8>) -> Result<bool, SlotError> {
        self.slots.read(slot, into)
    }
    fn write(&mut self, slot: SlotId, value: &[u8]) -> Result<(), SlotError> {
        self.slots.write(slot, value)
    }
    fn sync(&mut self) -> Result<(), SlotError> {
        self.slots.sync()
    }
}

impl Chain for Counted {
    fn read_block(&mut self, lane: u8, number: u64, into: &mut Vec<u8>) -> Result<bool, StoreError> {
        self.reads.set(self.reads.get() + 1);
        self.slots.read_block(lane, number, into)
    }
    fn free_blocks(&mut self, lane: u8, first: u64) -> Result<(), StoreError> {
        self.slots.free_blocks(lane, first)
    }
    fn find_blocks(&mut self, lane: u8) -> Result<Vec<u64>, StoreError> {
        self.slots.find_blocks(lane)
    }
}

#[test]
fn f76_a_start_reads_none_of_the_backlog() {
    let mut gateway = Gateway::plain();
    gateway.readings(40_000);
    gateway.driver.stop(now(200_000), &mut |_| ());
    let slots = gateway.driver.into_store().into_slots().reopen();
    let reads = std::rc::Rc::new(std::cell::Cell::new(0));
    let counted = Counted { slots, reads: std::rc::Rc::clone(&reads) };
    let gateway = Gateway::on(Ring::new(counted, Packing::NONE), OutboxSpec::default(), UplinkPolicy::default());
    assert_eq!((gateway.held(), reads.get()), (40_000, 0));
    assert!(gateway.driver.engine().outbox().memory() < 1 << 17);
}

// --- Memory on small boxes

#[test]
fn f79_a_store_that_takes_nothing_stops_the_intake_instead_of_filling_memory() {
    let mut slots = MemorySlots::new(1);
    slots.crash_after(20);
    let mut gateway = Gateway::on(Ring::new(slots, Packing::NONE), OutboxSpec::default(), UplinkPolicy::default());
    gateway.readings(20_000);
    let waiting = gateway.driver.storage_status().unacknowledged;
    assert!(waiting as u64 + gateway.acks == 20_000, "acknowledged is what was stored");
    assert!(gateway.driver.storage_status().failure.is_some());
    assert!(gateway.driver.engine().outbox().memory() <= 8 << 20);
}
