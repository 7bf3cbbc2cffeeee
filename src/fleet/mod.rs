//! The simulated fleet. PURE and seeded: the same [`FleetSpec`] gives the same
//! deliveries on every machine. Used by the demo, the tests and load runs. One make of device is
//! here; [`mixed`] has one of every preset.
//!
//! ```text
//! event time   |--r0----r1----r2----r3----r4--   one reading per period and device
//! sent         |----r0------r2-r1------[ gap ]r3 r4   disorder; a gap ends in a burst
//! ```
//!
//! A reading is sent at its event time plus a delay of 0 ..= `disorder`, so a
//! bounded watermark of the same disorder finds none of them late; stragglers
//! are late on purpose. A device in its gap keeps its readings and sends them
//! in order, at once, when the gap ends: that is late for nobody who keeps time
//! per device.
//!
//! Values are multiples of 0.25 below 2^20, so sums are exact in any order.
//! Memory: the readings of one device's gap and of one disorder span. No clock:
//! times are offsets, whoever paces them owns the clock.

use core::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::model::time::{EventTime, Span};

use crate::model::rng::Rng;

pub mod load;
pub mod mixed;
pub mod oracle;
pub mod plot;
pub mod receiver;

/// What the fleet is and does.
#[derive(Clone, Debug)]
pub struct FleetSpec {
    /// Names the run.
    pub seed: u64,
    /// Devices, named `device-00` and up.
    pub devices: u32,
    /// Event time of the beginning.
    pub start: EventTime,
    /// How long each device reads.
    pub duration: Span,
    /// Time between two readings of one device. > 0.
    pub period: Span,
    /// Longest time from a reading to its sending.
    pub disorder: Span,
    /// One device loses its connection for a while.
    pub gap: Option<Gap>,
    /// One device falls silent for good.
    pub silent: Option<Silent>,
    /// Now and then a reading arrives much later; never after `duration`.
    pub stragglers: Option<Stragglers>,
    /// One more reading per device (not of the silent one), this long after
    /// `duration`: it moves the watermark past every window before it.
    pub closing: Option<Span>,
}

/// A device that is offline and keeps its readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Index of the device.
    pub device: u32,
    /// Beginning, as an offset from the start.
    pub from: Span,
    /// End: everything kept is sent now.
    pub to: Span,
}

/// A device that reads nothing from some moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent {
    /// Index of the device.
    pub device: u32,
    /// Offset from the start.
    pub from: Span,
}

/// Readings delayed beyond the disorder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stragglers {
    /// One reading in so many.
    pub one_in: u64,
    /// Their delay.
    pub delay: Span,
}

/// One message on its way to the broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Delivery {
    /// When it is sent: an offset from the start.
    pub at: Span,
    /// The device.
    pub device: String,
    /// The time of the reading.
    pub event: EventTime,
    /// The reading.
    pub value: f64,
    /// Kept during a gap and sent afterwards.
    pub backlog: bool,
    /// `devices/<device>/climate`.
    pub topic: String,
    /// `{"ts":…,"temperature":…}`.
    pub payload: Vec<u8>,
}

/// The deliveries of a fleet, in the order of sending.
#[derive(Debug)]
pub struct Fleet {
    spec: FleetSpec,
    devices: Vec<Device>,
    /// Readings taken and not yet sent, first to be sent on top.
    pending: BinaryHeap<Reverse<Pending>>,
    /// The next slot of `period` to be read by all devices.
    slot: u64,
}

/// One device's own chance and value.
#[derive(Debug)]
struct Device {
    rng: Rng,
    /// Its first reading: devices do not read all at once.
    phase: Span,
    quarters: i64,
}

/// Ordered by sending; ties in the order of event time, then device.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Pending {
    at: Span,
    event: Span,
    device: u32,
    quarters: i64,
    backlog: bool,
}

impl Fleet {
    /// A fleet before its first reading.
    pub fn new(spec: FleetSpec) -> Fleet {
        assert!(spec.period > Span::ZERO, "a period of zero would never end");
        let device = |index: u32| {
            let mut rng = Rng::fork(spec.seed, u64::from(index));
            let phase = Span::from_millis(rng.below(spec.period.as_millis()));
            let quarters = 60 + i64::try_from(rng.below(40)).expect("below 40");
            Device { rng, phase, quarters }
        };
        let devices = (0..spec.devices).map(device).collect();
        Fleet { spec, devices, pending: BinaryHeap::new(), slot: 0 }
    }

    /// The name of the device with this index.
    pub fn device_name(index: u32) -> String {
        format!("device-{index:02}")
    }

    /// Offset of the next reading of the whole fleet; `None` at the end.
    fn next_slot(&self) -> Option<Span> {
        let begins = Span::from_millis(self.slot.saturating_mul(self.spec.period.as_millis()));
        (begins < self.spec.duration).then_some(begins)
    }

    /// Every device reads once.
    fn read_slot(&mut self, begins: Span) {
        for index in 0..self.spec.devices {
            let event = begins + self.devices[index as usize].phase;
            if event < self.spec.duration {
                self.read(index, event);
            }
        }
        self.slot += 1;
        if let (None, Some(closing)) = (self.next_slot(), self.spec.closing) {
            for index in 0..self.spec.devices {
                self.read(index, self.spec.duration + closing);
            }
        }
    }

    /// One device reads once, unless it is silent.
    fn read(&mut self, index: u32, event: Span) {
        if self.spec.silent.is_some_and(|silent| silent.device == index && event >= silent.from) {
            return;
        }
        let closing = event >= self.spec.duration;
        let device = &mut self.devices[index as usize];
        // A random walk in quarters that turns back at the bounds of weather.
        let step = i64::try_from(device.rng.below(5)).expect("below 5") - 2;
        device.quarters = (device.quarters + step).clamp(-160, 200);
        let mut delay = Span::from_millis(device.rng.between(0, self.spec.disorder.as_millis()));
        if let Some(stragglers) = self.spec.stragglers
            && device.rng.chance(stragglers.one_in)
            && event + stragglers.delay < self.spec.duration
        {
            delay = stragglers.delay;
        }
        // The closing reading is ahead of time on purpose: it follows everything else.
        let mut at = if closing { self.spec.duration + self.longest_delay() } else { event + delay };
        let device = &self.devices[index as usize];
        let gap = self.spec.gap.filter(|gap| gap.device == index && gap.from <= at && at < gap.to);
        if let Some(gap) = gap {
            at = gap.to;
        }
        let pending = Pending { at, event, device: index, quarters: device.quarters, backlog: gap.is_some() };
        self.pending.push(Reverse(pending));
    }

    fn longest_delay(&self) -> Span {
        self.spec.disorder.max(self.spec.stragglers.map_or(Span::ZERO, |stragglers| stragglers.delay))
    }

    fn deliver(&self, pending: &Pending) -> Delivery {
        let device = Fleet::device_name(pending.device);
        let event = self.spec.start + pending.event;
        let value = pending.quarters as f64 / 4.0;
        Delivery {
            at: pending.at,
            topic: format!("devices/{device}/climate"),
            payload: format!("{{\"ts\":{},\"temperature\":{value}}}", event.as_millis()).into_bytes(),
            device,
            event,
            value,
            backlog: pending.backlog,
        }
    }
}

impl Iterator for Fleet {
    type Item = Delivery;

    fn next(&mut self) -> Option<Delivery> {
        // A reading of a later slot is sent no earlier than that slot begins.
        while let Some(begins) = self.next_slot() {
            if self.pending.peek().is_some_and(|Reverse(first)| first.at < begins) {
                break;
            }
            self.read_slot(begins);
        }
        self.pending.pop().map(|Reverse(pending)| self.deliver(&pending))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn spec(seed: u64) -> FleetSpec {
        FleetSpec {
            seed,
            devices: 4,
            start: EventTime::from_millis(1_700_000_000_000),
            duration: Span::from_secs(60),
            period: Span::from_millis(500),
            disorder: Span::from_secs(2),
            gap: Some(Gap { device: 1, from: Span::from_secs(10), to: Span::from_secs(30) }),
            silent: Some(Silent { device: 2, from: Span::from_secs(20) }),
            stragglers: None,
            closing: Some(Span::from_secs(60)),
        }
    }

    #[test]
    fn one_seed_is_one_run_and_another_seed_is_another() {
        let run = |seed| Fleet::new(spec(seed)).collect::<Vec<_>>();
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn deliveries_come_in_order_of_sending_and_none_is_missing() {
        let all: Vec<Delivery> = Fleet::new(spec(3)).collect();
        assert!(all.is_sorted_by_key(|delivery| delivery.at));
        let mut per_device = BTreeMap::<&str, usize>::new();
        for delivery in &all {
            *per_device.entry(&delivery.device).or_default() += 1;
        }
        // 120 readings and the closing one; the silent device stops after 40.
        let counts: Vec<usize> = per_device.into_values().collect();
        assert_eq!(counts, [121, 121, 40, 121]);
    }

    #[test]
    fn no_reading_is_behind_its_device_by_more_than_the_disorder() {
        for seed in 0..20 {
            let mut newest = BTreeMap::<String, EventTime>::new();
            for delivery in Fleet::new(spec(seed)) {
                let newest = newest.entry(delivery.device).or_insert(delivery.event);
                assert!(delivery.event.lag_behind(*newest) <= Span::from_secs(2), "seed {seed}");
                *newest = (*newest).max(delivery.event);
            }
        }
    }

    #[test]
    fn a_gap_holds_everything_back_and_ends_in_an_ordered_burst() {
        let of_gap: Vec<Delivery> = Fleet::new(spec(4)).filter(|delivery| delivery.device == "device-01").collect();
        let gap = Span::from_secs(10)..Span::from_secs(30);
        assert!(of_gap.iter().all(|delivery| !gap.contains(&delivery.at)));
        let burst: Vec<EventTime> =
            of_gap.iter().filter(|delivery| delivery.backlog).map(|delivery| delivery.event).collect();
        assert!(burst.len() >= 36 && burst.is_sorted(), "{} readings", burst.len());
    }

    #[test]
    fn a_straggler_is_later_than_the_disorder() {
        let stragglers = Some(Stragglers { one_in: 10, delay: Span::from_secs(20) });
        let spec = FleetSpec { stragglers, gap: None, closing: None, ..spec(5) };
        let start = spec.start;
        let lag = |delivery: &Delivery| delivery.event.lag_behind(start + delivery.at);
        let late = Fleet::new(spec).filter(|delivery| lag(delivery) == Span::from_secs(20)).count();
        assert!(late > 20, "{late} stragglers");
    }

    #[test]
    fn a_payload_is_plain_json_with_an_exact_quarter() {
        let first = Fleet::new(spec(6)).next().expect("a reading");
        let json: serde_json::Value = serde_json::from_slice(&first.payload).expect("JSON");
        assert_eq!(json["ts"].as_i64(), Some(first.event.as_millis()));
        assert_eq!(json["temperature"].as_f64(), Some(first.value));
        assert!((first.value * 4.0).fract().abs() < f64::EPSILON);
        assert_eq!(first.topic, format!("devices/{}/climate", first.device));
    }
}
