//! What the simulator found, small enough to read.

use super::*;
use crate::engine::aggregate::{Aggregates, Kind};
use crate::engine::memory_store::{MemorySlots, MemoryStore, memory_store};
use crate::engine::outbox::LaneKind;
use crate::engine::ring::slots::SlotKind;
use crate::engine::ring::{Packing, Ring};
use crate::engine::spec::{
    BudgetSpec, CommitSpec, FieldSpec, FieldsSpec, OutboxSpec, Scope, StreamSpec, WindowKind, WindowSpec,
};
use crate::engine::step::{DeliveryTag, Message};
use crate::model::ids::Name;
use crate::model::template::Template;
use crate::model::time::{ClockQuality, WallTime};
use crate::model::topic::TopicPattern;

fn pipeline() -> PipelineSpec {
    let name = |text: &str| Name::new(text).unwrap();
    let topic = TopicPattern::parse("s/{device}").unwrap();
    let device = Template::parse("{device}", &topic).unwrap();
    let kind = WindowKind::Tumbling { size: Span::from_secs(60), offset_ms: 0 };
    let windows = vec![WindowSpec { aggregates: Aggregates::of(&[Kind::Count]), ..WindowSpec::new(name("w"), kind) }];
    let stream = StreamSpec { devices_max: 10, windows, ..StreamSpec::new(name("s"), topic, device) };
    PipelineSpec {
        outbox: OutboxSpec::of(1 << 20),
        commit: CommitSpec { interval: Span::from_secs(1), snapshot_interval: Span::from_millis(150), budget: None },
        ..PipelineSpec::new(name("gw"), vec![stream])
    }
}

fn at(millis: u64) -> Now {
    let wall = WallTime::from_millis(1_700_000_000_000 + i64::try_from(millis).unwrap());
    Now { proc: ProcTime::from_millis(millis), wall, quality: ClockQuality::Synced }
}

fn take<S: Store + Chain>(driver: &mut Driver<S>, millis: u64, topic: &str) {
    let tag = Some(DeliveryTag { connection: 1, packet: u16::try_from(millis).unwrap() });
    let message = Message { topic, payload: b"{\"v\":1}", retain: false, dup: false, tag };
    driver.handle(at(millis), Event::Message(message));
}

fn restarted(driver: Driver<MemoryStore>) -> Driver<MemoryStore> {
    restarted_as(driver, pipeline())
}

fn restarted_as(driver: Driver<MemoryStore>, pipeline: PipelineSpec) -> Driver<MemoryStore> {
    let slots = driver.into_store().into_slots().reopen();
    Driver::start(pipeline, Ring::new(slots, Packing::NONE), at(9_000)).unwrap()
}

fn with_fields(names: &[&str]) -> PipelineSpec {
    let mut pipeline = pipeline();
    let fields = names.iter().map(|name| FieldSpec::number(Name::new(name).unwrap(), format!("/{name}")));
    pipeline.streams[0].mapping.fields = FieldsSpec::Named(fields.collect());
    pipeline
}

#[test]
fn a_snapshot_that_is_due_while_changes_wait_does_not_do_them_twice() {
    let mut driver = Driver::start(pipeline(), memory_store(), at(0)).unwrap();
    take(&mut driver, 1, "s/a");
    driver.advance(at(1_001), &mut |_| ());
    take(&mut driver, 1_100, "s/b");
    driver.advance(at(1_151), &mut |_| ());
    assert!(driver.next_deadline().is_some_and(|due| due > at(1_151).proc), "a wait, no spinning");
    driver.advance(at(2_100), &mut |_| ());

    let epoch = driver.engine().outbox().epoch();
    let driver = restarted(driver);
    assert_eq!(driver.engine().outbox().epoch(), epoch, "nothing was damaged");
    let stream = &driver.status(at(9_000)).streams[0];
    assert_eq!((stream.devices, stream.ledger.accepted), (2, 2));
}

#[test]
fn the_alarms_of_a_start_are_queued_once() {
    let mut driver = Driver::start(pipeline(), memory_store(), at(0)).unwrap();
    take(&mut driver, 1, "s/a");
    driver.advance(at(1_001), &mut |_| ());
    let mut slots = driver.into_store().into_slots();
    let snapshots: Vec<_> = slots.slots().filter(|slot| slot.kind == SlotKind::Snapshot).collect();
    for slot in snapshots {
        *slots.value_mut(slot).unwrap() = b"damaged".to_vec();
    }
    let mut driver = Driver::start(pipeline(), Ring::new(slots, Packing::NONE), at(2_000)).unwrap();
    let alarms = driver.engine().outbox().held(LaneKind::Alarm);
    assert!(alarms > 0);
    assert!(driver.engine().is_committed(), "the snapshot holds them");
    take(&mut driver, 2_001, "s/a");
    driver.advance(at(3_001), &mut |_| ());
    assert_eq!(restarted(driver).engine().outbox().held(LaneKind::Alarm), alarms);
}

/// A store whose witness cannot be written.
#[derive(Debug)]
struct Unwitnessed(Ring<MemorySlots>);

impl Chain for Unwitnessed {}

impl Store for Unwitnessed {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.0.load()
    }
    fn commit(&mut self, page: &[u8]) -> Result<(), StoreError> {
        self.0.commit(page)
    }
    fn snapshot(&mut self, state: &[u8]) -> Result<(), StoreError> {
        self.0.snapshot(state)
    }
    fn witness(&mut self, _epoch: u64) -> Result<(), StoreError> {
        Err(StoreError::Full)
    }
    fn wants_snapshot(&self) -> bool {
        self.0.wants_snapshot()
    }
    fn bytes_written(&self) -> u64 {
        self.0.bytes_written()
    }
}

#[test]
fn a_snapshot_without_its_witness_is_a_snapshot() {
    let mut driver = Driver::start(pipeline(), Unwitnessed(memory_store()), at(0)).unwrap();
    let mut acks = 0;
    take(&mut driver, 1, "s/a");
    driver.advance(at(1_001), &mut |_| acks += 1);
    assert_eq!((acks, driver.storage_status().failure), (1, None));
}

#[test]
fn a_new_session_is_durable_before_its_first_message() {
    let mut driver = Driver::start(pipeline(), memory_store(), at(0)).unwrap();
    let twin = |driver: &mut Driver<MemoryStore>, dup| {
        let tag = Some(DeliveryTag { connection: 1, packet: 1 });
        let message = Message { topic: "s/a", payload: b"{\"v\":1}", retain: false, dup, tag };
        driver.handle(at(10), Event::Message(message));
    };
    twin(&mut driver, false);
    driver.advance(at(1_010), &mut |_| ());
    // The broker lost its session and counts from 1 again: another message, alike.
    driver.handle(at(2_000), Event::SessionStarted { resumed: false });
    driver.advance(at(2_000), &mut |_| ());
    twin(&mut driver, false);

    // A crash before its commit; the broker sends it again.
    let mut driver = restarted(driver);
    driver.handle(at(9_000), Event::SessionStarted { resumed: true });
    twin(&mut driver, true);
    assert_eq!(driver.status(at(9_000)).streams[0].ledger.accepted, 2);
}

#[test]
fn a_new_order_of_fields_does_not_reach_pages_under_the_old_one() {
    let driver = Driver::start(with_fields(&["v"]), memory_store(), at(0)).unwrap();
    let mut driver = restarted_as(driver, with_fields(&["new", "v"]));
    let epoch = driver.engine().outbox().epoch();
    take(&mut driver, 9_001, "s/a");
    driver.advance(at(10_001), &mut |_| ());

    let driver = restarted_as(driver, with_fields(&["new", "v"]));
    assert_eq!(driver.engine().outbox().epoch(), epoch, "nothing is damaged");
    assert_eq!(driver.status(at(9_000)).streams[0].ledger.accepted, 1);
}

#[test]
fn a_window_that_a_wider_scope_has_passed_fires_at_the_start() {
    let mut driver = Driver::start(pipeline(), memory_store(), at(0)).unwrap();
    take(&mut driver, 1, "s/slow");
    take(&mut driver, 60_001, "s/fast");
    driver.advance(at(61_001), &mut |_| ());

    let mut wider = pipeline();
    wider.streams[0].watermark.scope = Scope::Shared;
    wider.streams[0].windows[0].lateness = Span::from_secs(600);
    let mut driver = restarted_as(driver, wider);
    let books = |driver: &Driver<MemoryStore>| {
        let window = driver.status(at(9_000)).streams[0].windows[0].clone();
        (window.open, window.on_time, window.late_update)
    };
    assert_eq!(books(&driver), (1, 1, 0));
    take(&mut driver, 9_001, "s/slow");
    assert_eq!(books(&driver), (1, 1, 1));
    assert!(driver.engine().balances());
}

/// A store that has little room for snapshots.
#[derive(Debug)]
struct Cramped(Ring<MemorySlots>, usize);

impl Chain for Cramped {}

impl Store for Cramped {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.0.load()
    }
    fn commit(&mut self, page: &[u8]) -> Result<(), StoreError> {
        self.0.commit(page)
    }
    fn snapshot(&mut self, state: &[u8]) -> Result<(), StoreError> {
        if state.len() > self.1 {
            return Err(StoreError::TooLarge { bytes: state.len() });
        }
        self.0.snapshot(state)
    }
    fn wants_snapshot(&self) -> bool {
        self.0.wants_snapshot()
    }
    fn bytes_written(&self) -> u64 {
        self.0.bytes_written()
    }
}

#[test]
fn a_snapshot_without_room_gives_up_old_results_rather_than_the_agent() {
    let mut driver = Driver::start(pipeline(), Cramped(memory_store(), 9_000), at(0)).unwrap();
    let mut acks = 0;
    for minute in 1..=400 {
        // Each reading fires the window of the one before; nothing is sent.
        let now = at(minute * 60_000);
        let tag = Some(DeliveryTag { connection: 1, packet: u16::try_from(minute).unwrap() });
        let message = Message { topic: "s/a", payload: b"{\"v\":1}", retain: false, dup: false, tag };
        driver.handle(now, Event::Message(message));
        driver.advance(at(minute * 60_000 + 1_000), &mut |_| acks += 1);
        assert_eq!(driver.storage_status().failure, None, "minute {minute}");
    }
    assert_eq!(acks, 400, "everything was committed and acknowledged");
    let backlog = driver.engine().outbox().ledger(LaneKind::Backlog);
    assert!(backlog.evicted > 0 && backlog.queued == 399, "{backlog:?}");
    let slots = driver.into_store().0.into_slots().reopen();
    let driver = Driver::start(pipeline(), Ring::new(slots, Packing::NONE), at(90_000_000)).unwrap();
    assert_eq!(driver.engine().outbox().ledger(LaneKind::Backlog), backlog);
    assert!(driver.engine().balances());
    assert_eq!(driver.engine().outbox().held(LaneKind::Alarm), 0, "read without damage");
}

#[test]
fn silence_before_a_crash_counts_also_for_devices_that_later_pages_do_not_name() {
    let mut pipeline = pipeline();
    pipeline.commit.snapshot_interval = Span::from_secs(3_600);
    pipeline.streams[0].watermark.idle_timeout = Some(Span::from_secs(60));
    let mut driver = Driver::start(pipeline.clone(), memory_store(), at(0)).unwrap();
    driver.handle(at(0), Event::InputLive(true));
    take(&mut driver, 1_000, "s/quiet");
    for second in 2..=50 {
        take(&mut driver, second * 1_000, "s/busy");
        driver.advance(at(second * 1_000 + 999), &mut |_| ());
    }
    assert!(driver.engine().is_committed());
    let slots = driver.into_store();
    let mut driver = Driver::start(pipeline, slots, at(0)).unwrap();
    driver.handle(at(0), Event::InputLive(true));
    // The last page was written at 50.999 or later; 61.001 is the deadline.
    driver.handle(at(10_003), Event::Tick);
    assert!(driver.engine().device(0, "quiet").unwrap().is_idle);
    assert!(!driver.engine().device(0, "busy").unwrap().is_idle);
}

/// How often a minute of ten messages a second is committed.
fn commits_in_a_minute(driver: &mut Driver<MemoryStore>) -> u64 {
    let before = driver.storage_status().commits;
    for tick in 0..600 {
        let now = at(10_000 + tick * 100);
        let tag = Some(DeliveryTag { connection: 1, packet: u16::try_from(tick + 1).unwrap() });
        driver.handle(
            now,
            Event::Message(Message { topic: "s/a", payload: b"{\"v\":1}", retain: false, dup: false, tag }),
        );
        driver.advance(now, &mut |_| ());
    }
    driver.storage_status().commits - before
}

#[test]
fn ten_messages_a_second_cost_one_commit_a_second_and_with_a_budget_fewer() {
    let mut driver = Driver::start(pipeline(), memory_store(), at(0)).unwrap();
    assert!((50..=60).contains(&commits_in_a_minute(&mut driver)));

    let budget = BudgetSpec { per_day: 200_000_000, interval_max: Span::from_secs(30) };
    let mut spec = pipeline();
    spec.commit = CommitSpec { snapshot_interval: Span::from_secs(300), budget: Some(budget), ..spec.commit };
    let mut driver = Driver::start(spec, memory_store(), at(0)).unwrap();
    let commits = commits_in_a_minute(&mut driver);
    let written = driver.written();
    assert!((15..=35).contains(&commits), "some 6,400 bytes each, and 2,100 a second come in: {commits}");
    assert!(written.bytes < 70 * 200_000_000 / 86_400, "{written:?}");
    assert_eq!(written.readings, 600);
}

#[test]
fn a_budget_holds_a_full_window_back_and_a_stop_waits_for_nothing() {
    let budget = BudgetSpec { per_day: 1_000_000, interval_max: Span::from_secs(20) };
    let mut spec = pipeline();
    spec.commit = CommitSpec { budget: Some(budget), ..spec.commit };
    let mut driver = Driver::start(spec, memory_store(), at(0)).unwrap();
    let mut acks = 0;
    for packet in 1..=40 {
        take(&mut driver, packet, "s/a");
        driver.advance(at(packet), &mut |_| acks += 1);
    }
    driver.advance(at(50), &mut |_| acks += 1);
    let first = acks;
    for packet in 61..=100 {
        take(&mut driver, packet, "s/a");
    }
    driver.advance(at(5_000), &mut |_| acks += 1);
    assert_eq!(acks, first, "in debt");
    assert_eq!(driver.storage_status().unacknowledged, 80 - first);
    driver.advance(at(20_060), &mut |_| acks += 1);
    assert_eq!(acks, 80, "never longer than that");
    take(&mut driver, 20_100, "s/a");
    driver.stop(at(20_101), &mut |_| acks += 1);
    assert_eq!(acks, 81);
}

/// A store that takes nothing while it is told so.
#[derive(Debug)]
struct Stuck(Ring<MemorySlots>, std::rc::Rc<core::cell::Cell<bool>>);

impl Stuck {
    fn then<T>(&mut self, what: impl FnOnce(&mut Ring<MemorySlots>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        if self.1.get() { Err(StoreError::Full) } else { what(&mut self.0) }
    }
}

impl Chain for Stuck {}

impl Store for Stuck {
    fn load(&mut self) -> Result<Loaded, StoreError> {
        self.0.load()
    }
    fn commit(&mut self, page: &[u8]) -> Result<(), StoreError> {
        self.then(|ring| ring.commit(page))
    }
    fn snapshot(&mut self, state: &[u8]) -> Result<(), StoreError> {
        self.then(|ring| ring.snapshot(state))
    }
    fn wants_snapshot(&self) -> bool {
        self.0.wants_snapshot()
    }
    fn bytes_written(&self) -> u64 {
        self.0.bytes_written()
    }
}

#[test]
fn while_the_card_takes_nothing_the_configuration_stays_and_nothing_is_acknowledged() {
    let stuck = std::rc::Rc::new(core::cell::Cell::new(false));
    let mut driver =
        Driver::start(with_fields(&["v"]), Stuck(memory_store(), std::rc::Rc::clone(&stuck)), at(0)).unwrap();
    take(&mut driver, 1, "s/a");
    stuck.set(true);
    let mut effects = 0;
    let to = with_fields(&["v", "w"]);
    let refused = driver.reconfigure(at(2), &to, &mut |_| effects += 1).unwrap_err();
    assert!(matches!(&refused, ReconfigureError::Storage(reason) if !reason.is_empty()), "{refused}");
    assert_eq!(effects, 0);
    assert_eq!(driver.engine.spec.streams, with_fields(&["v"]).streams);
    assert!(driver.storage_status().failure.is_some());

    // With room again it is asked for once more.
    stuck.set(false);
    driver.reconfigure(at(60_000), &to, &mut |_| effects += 1).unwrap();
    assert_eq!(effects, 1, "what came before is acknowledged");
    assert_eq!(driver.engine.spec.streams, to.streams);
    let loaded = Driver::start(to, driver.into_store(), at(61_000)).unwrap();
    assert_eq!(loaded.status(at(61_000)).streams[0].ledger.accepted, 1);
}

#[test]
fn f86_a_snapshot_that_fails_is_told_until_one_succeeds() {
    let stuck = std::rc::Rc::new(core::cell::Cell::new(false));
    let mut driver =
        Driver::start(with_fields(&["v"]), Stuck(memory_store(), std::rc::Rc::clone(&stuck)), at(0)).unwrap();
    take(&mut driver, 1, "s/a");
    stuck.set(true);
    driver.stop(at(2), &mut |_| ());
    assert!(driver.storage_status().failure.is_some_and(|reason| !reason.is_empty()));
    stuck.set(false);
    driver.stop(at(60_000), &mut |_| ());
    assert_eq!(driver.storage_status().failure, None);
}
