//! The engine on its store on the measured device, fed by the clock.

use std::time::{Duration, Instant};

use tidegate::agent::store::{self, SledStore};
use tidegate::engine::driver::{Driver, StorageStatus};
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::step::{Batch, DeliveryTag, Effect, Event, Message};
use tidegate::model::time::{ClockQuality, Now, ProcTime, WallTime};

use crate::loop_device::LoopDevice;

/// Wall clock at the start.
pub(crate) const EPOCH_MS: i64 = 1_760_000_000_000;

/// How time passes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// A second takes a second: the file system's own timers are part of the figure.
    Real,
    /// As fast as it goes.
    Fast,
}

/// What is measured.
pub(crate) struct Gateway {
    driver: Driver<SledStore>,
    pace: Pace,
    began: Instant,
    began_millis: u64,
    /// Milliseconds since the start.
    millis: u64,
    packet: u16,
    batches: Vec<Batch>,
    /// Messages that were acknowledged.
    pub(crate) acknowledged: u64,
    /// Records that the cloud got, and the bytes that they were published in.
    pub(crate) published: (u64, u64),
    online: bool,
}

impl Gateway {
    /// An empty store on `device`; time passes fast.
    pub(crate) fn start(device: &LoopDevice, pipeline: PipelineSpec) -> Gateway {
        let store = store::open(&device.path().join("state")).unwrap();
        let mut driver = Driver::start(pipeline, store, now(0)).unwrap();
        driver.handle(now(0), Event::InputLive(true));
        Gateway {
            driver,
            pace: Pace::Fast,
            began: Instant::now(),
            began_millis: 0,
            millis: 0,
            packet: 0,
            batches: Vec::new(),
            acknowledged: 0,
            published: (0, 0),
            online: false,
        }
    }

    /// How time passes from now on.
    pub(crate) fn set_pace(&mut self, pace: Pace) {
        self.pace = pace;
        self.began = Instant::now();
        self.began_millis = self.millis;
    }

    pub(crate) fn set_online(&mut self, online: bool) {
        self.online = online;
        let event = if online { Event::UplinkUp } else { Event::UplinkDown };
        self.driver.handle(now(self.millis), event);
    }

    pub(crate) fn millis(&self) -> u64 {
        self.millis
    }

    /// One message at this moment.
    pub(crate) fn take(&mut self, topic: &str, payload: &str) {
        self.packet = self.packet % u16::MAX + 1;
        let tag = Some(DeliveryTag { connection: 1, packet: self.packet });
        let message = Message { topic, payload: payload.as_bytes(), retain: false, dup: false, tag };
        self.driver.handle(now(self.millis), Event::Message(message));
    }

    /// The next millisecond, and what is due in it.
    pub(crate) fn tick(&mut self) {
        self.millis += 1;
        if self.pace == Pace::Real {
            let due = Duration::from_millis(self.millis - self.began_millis);
            std::thread::sleep(due.saturating_sub(self.began.elapsed()));
        }
        if self.driver.next_deadline().is_some_and(|at| at.as_millis() <= self.millis) {
            self.advance();
        }
    }

    /// Does what is due; the cloud acknowledges at once.
    pub(crate) fn advance(&mut self) {
        loop {
            let Gateway { driver, batches, acknowledged, .. } = self;
            driver.advance(now(self.millis), &mut |effect| match effect {
                Effect::Tell { .. } | Effect::PublishLocal(_) | Effect::Command(_) | Effect::Replayed(_) => {
                    unreachable!("nobody asked for it")
                }
                Effect::Ack(_) => *acknowledged += 1,
                Effect::Publish(batch) => batches.push(batch),
            });
            if self.batches.is_empty() {
                return;
            }
            for batch in self.batches.drain(..) {
                self.published.0 += u64::from(batch.records);
                self.published.1 += batch.payload.len() as u64;
                self.driver.handle(now(self.millis), Event::UplinkAcked(batch.id));
            }
        }
    }

    /// The last commit, and a snapshot.
    pub(crate) fn stop(&mut self) {
        self.driver.stop(now(self.millis), &mut |_| ());
        assert_eq!(self.storage().failure, None);
    }

    pub(crate) fn storage(&self) -> StorageStatus {
        self.driver.storage_status()
    }

    /// Records queued so far, and those that were given up.
    pub(crate) fn queued(&self) -> (u64, u64) {
        let lanes = self.driver.status(now(self.millis)).outbox.lanes;
        (lanes.iter().map(|lane| lane.queued).sum(), lanes.iter().map(|lane| lane.evicted).sum())
    }

    /// Bytes of the outbox as stored.
    pub(crate) fn outbox_bytes(&self) -> u64 {
        self.driver.status(now(self.millis)).outbox.bytes
    }

    pub(crate) fn check(&self) {
        assert!(self.driver.engine().balances(), "the books balance");
        assert_eq!(self.storage().failure, None);
    }

    /// Windows that are open now.
    pub(crate) fn open_windows(&self) -> usize {
        self.driver.status(now(self.millis)).streams.iter().map(|stream| stream.open_windows).sum()
    }
}

fn now(millis: u64) -> Now {
    let wall = EPOCH_MS + i64::try_from(millis).unwrap();
    Now { proc: ProcTime::from_millis(millis), wall: WallTime::from_millis(wall), quality: ClockQuality::Synced }
}
