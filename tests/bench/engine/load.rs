//! The load: every device in turn, 10 readings a second each, event times within 2 s
//! of order. What one device sends does not depend on how many there are.
//!
//! Everything the engine does is inside a measurement of [`Load::run`]: watermarks,
//! panes into the outbox, pages encoded once a second, batches encoded as JSON for the
//! uplink and acknowledged. Time is the CPU time of this process.

use std::fmt::Write as _;
use std::time::Duration;

use tidegate::engine::Engine;
use tidegate::engine::outbox::Next;
use tidegate::engine::spec::PipelineSpec;
use tidegate::engine::step::Event;
use tidegate::model::record::Record;
use tidegate::model::rng::Rng;
use tidegate::model::time::{ClockQuality, EventTime, Now, ProcTime, WallTime};

use crate::process::cpu_time;

/// Event time of the first record.
pub(crate) const EPOCH_MS: i64 = 1_760_000_000_000;
/// Between two readings of a device.
const PERIOD_MS: u64 = 100;

/// An engine and who sends to it.
pub(crate) struct Load {
    pub(crate) engine: Engine,
    names: Names,
    pub(crate) noise: Vec<(i64, f64)>,
    page: Vec<u8>,
    /// Time since the start.
    millis: u64,
    /// Records of this millisecond, and whose turn it is, and where in the noise:
    /// counted, for a division costs as much as a part of what is measured.
    this_milli: u64,
    device: usize,
    drawn: usize,
}

impl Load {
    /// `devices`: a multiple of 100, so that a millisecond is a number of records.
    pub(crate) fn new(spec: PipelineSpec, devices: usize) -> Load {
        assert_eq!(devices % 100, 0);
        let mut engine = Engine::new(spec);
        engine.handle(now(0), Event::InputLive(true));
        engine.handle(now(0), Event::UplinkUp);
        Load {
            engine,
            names: Names::new(devices),
            noise: noise(),
            page: Vec::new(),
            millis: 0,
            this_milli: 0,
            device: 0,
            drawn: 0,
        }
    }

    /// Sends `records` records. Returns the CPU time that it took.
    pub(crate) fn run(&mut self, records: u64) -> Duration {
        let before = cpu_time();
        let field = self.engine.field(0, "value").unwrap();
        let per_milli = self.names.count as u64 / PERIOD_MS;
        for _ in 0..records {
            let device = self.device;
            self.device = if device + 1 == self.names.count { 0 } else { device + 1 };
            self.drawn = if self.drawn + 1 == self.noise.len() { 0 } else { self.drawn + 1 };
            let (behind, value) = self.noise[self.drawn];
            let at = EventTime::from_millis(EPOCH_MS + i64::try_from(self.millis).unwrap() - behind);
            let values = [(field, value)];
            self.engine.handle_record(now(self.millis), 0, &Record::new(self.names.get(device), at, &values));
            self.this_milli += 1;
            if self.this_milli == per_milli {
                self.this_milli = 0;
                self.millis += 1;
                if self.millis.is_multiple_of(1_000) {
                    self.commit();
                }
            }
        }
        cpu_time().saturating_sub(before)
    }

    /// Nothing went another way than the one that is measured.
    pub(crate) fn check(&self) {
        assert!(self.engine.balances(), "the ledger balances");
        let status = self.engine.status(now(self.millis));
        for books in status.streams.iter().flat_map(|stream| &stream.windows) {
            assert_eq!((books.late_update, books.side_output, books.dropped), (0, 0, 0), "late, or without room");
        }
    }

    /// Nobody sends any more: time goes on from deadline to deadline until all are idle.
    pub(crate) fn fall_silent(&mut self) -> Duration {
        self.commit();
        let before = cpu_time();
        while let Some(deadline) = self.engine.next_deadline() {
            self.millis = deadline.as_millis();
            self.engine.handle(now(self.millis), Event::Tick);
        }
        cpu_time().saturating_sub(before)
    }

    fn commit(&mut self) {
        let now = now(self.millis);
        let step = self.engine.step(now, std::mem::take(&mut self.page));
        self.page = step.writes;
        self.engine.mark_committed(Some(now));
        while let Next::Batch(batch) = self.engine.next_for_uplink(now) {
            self.engine.handle(now, Event::UplinkAcked(batch.id));
        }
    }
}

/// The names of the devices, side by side: those of real messages come with them, and
/// are in no memory that has to be fetched.
pub(crate) struct Names {
    text: String,
    count: usize,
}

impl Names {
    const LEN: usize = "device-00000".len();

    pub(crate) fn new(count: usize) -> Names {
        let mut text = String::new();
        (0..count).for_each(|device| write!(text, "device-{device:05}").unwrap());
        Names { text, count }
    }

    #[inline]
    pub(crate) fn get(&self, device: usize) -> &str {
        &self.text[device * Names::LEN..][..Names::LEN]
    }
}

/// Nanoseconds of `spent` for each of `records`.
pub(crate) fn ns_per_record(spent: Duration, records: u64) -> f64 {
    spent.as_secs_f64() * 1e9 / records as f64
}

/// How late and how large readings are, made beforehand: drawing is not measured.
fn noise() -> Vec<(i64, f64)> {
    let mut random = Rng::new(1);
    let mut draw = |bound| i64::try_from(random.below(bound)).unwrap();
    (0..65_521).map(|_| (draw(2_000), draw(4_000) as f64 * 0.25)).collect()
}

/// The clocks after `millis` milliseconds.
pub(crate) fn now(millis: u64) -> Now {
    let wall = EPOCH_MS + i64::try_from(millis).unwrap();
    Now { proc: ProcTime::from_millis(millis), wall: WallTime::from_millis(wall), quality: ClockQuality::Synced }
}
