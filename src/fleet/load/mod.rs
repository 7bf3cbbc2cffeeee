//! A fleet of any size and for any time: what it sends, and when. PURE and seeded: a
//! [`LoadSpec`], its seed and its start make the same messages on every machine.
//!
//! ```text
//! one device   --m0----m1----m2----m3--[ offline ]----m7--    one measurement per period
//! sent         ---m0------m2-m1---m3--------------m4 m5 m6-m7   disorder; a gap ends in a burst
//! burst of 3   ----------------m0 m1 m2--------------m3 …     a device that sends three at once
//! ```
//!
//! Unlike [`super::mixed::plan`] nothing is made before it is due: the order comes from a queue
//! with the next act of each device, so a run may be endless. Memory: some 300 bytes per device,
//! and what waits in it: at most [`BACKLOG_MAX`] measurements while it is offline, [`BURST_MAX`]
//! between two bursts.
//!
//! Times are offsets from the start, as fine as [`Duration`]: a fleet of ten that sends 30,000
//! messages per second has periods below a millisecond.

use core::cmp::Ordering;
use core::time::Duration;
use std::collections::{BinaryHeap, VecDeque};

use crate::model::time::EventTime;

use self::device::Device;
pub use self::wire::Wire;
use super::mixed::Measured;

mod device;
mod wire;

/// Measurements that a device keeps while it is offline; then the oldest go, as in a device.
pub const BACKLOG_MAX: usize = 10_000;
/// Measurements of one burst.
pub const BURST_MAX: u32 = 1_000;

/// So many of a million.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Share(u32);

impl Share {
    /// None.
    pub const NONE: Share = Share(0);
    const ALL: u32 = 1_000_000;

    /// So many of a million; all of them at most.
    pub const fn per_million(share: u32) -> Share {
        Share(if share > Share::ALL { Share::ALL } else { share })
    }
}

/// What a fleet is and does.
#[derive(Clone, Debug)]
pub struct LoadSpec {
    /// Names the run, together with the start.
    pub seed: u64,
    /// How many devices.
    pub devices: u32,
    /// Event time of the beginning.
    pub start: EventTime,
    /// How long the devices measure; `None`: for ever.
    pub duration: Option<Duration>,
    /// Between two measurements of one device. > 0.
    pub period: Duration,
    /// Longest time from a measurement to its sending, gaps, bursts and stragglers aside.
    pub disorder: Duration,
    /// Devices that are offline now and then, and for how long.
    pub gaps: (Share, Duration),
    /// A device sends after so many measurements, all at once. 1 ..= [`BURST_MAX`].
    pub burst: u32,
    /// Measurements that are sent so much later; none whose sending would be after the end.
    pub stragglers: (Share, Duration),
    /// Devices whose clock is off by up to so much, ahead or behind.
    pub skew: (Share, Duration),
    /// Beside so many measurements comes a message that is broken or of no interest.
    pub noise: Share,
    /// What is written.
    pub wire: Wire,
}

/// One message on its way to the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shipment {
    /// When it is sent: an offset from the start.
    pub at: Duration,
    /// Index of the device.
    pub device: u32,
    /// Full topic.
    pub topic: String,
    /// Any bytes.
    pub payload: Vec<u8>,
}

/// The messages of a fleet, in the order of sending.
#[derive(Debug)]
pub struct Load {
    spec: LoadSpec,
    devices: Vec<Device>,
    acts: BinaryHeap<Act>,
    /// Acts so far: those of one moment stay in the order in which they were planned.
    planned: u64,
    ready: VecDeque<Shipment>,
}

/// What a device does at some moment.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Measure,
    Send(Measured),
    GoOffline,
    ComeBack,
    End,
}

#[derive(Clone, Copy, Debug)]
struct Act {
    at: Duration,
    number: u64,
    device: u32,
    deed: Deed,
}

impl Load {
    /// A fleet before its first measurement.
    pub fn new(spec: LoadSpec) -> Load {
        assert!(!spec.period.is_zero(), "a period of zero would never end");
        assert!((1..=BURST_MAX).contains(&spec.burst), "a burst has from 1 to {BURST_MAX} measurements");
        let devices: Vec<Device> = (0..spec.devices).map(|index| Device::new(&spec, index)).collect();
        let mut load = Load { spec, devices, acts: BinaryHeap::new(), planned: 0, ready: VecDeque::new() };
        for device in 0..load.spec.devices {
            let (first, gap) = load.devices[index(device)].begin(&load.spec);
            load.plan_measurement(first, device);
            if let Some(from) = gap {
                load.plan_gap(from, device);
            }
            if let Some(end) = load.spec.duration {
                load.plan(end, device, Deed::End);
            }
        }
        load
    }

    fn plan(&mut self, at: Duration, device: u32, deed: Deed) {
        let number = self.planned;
        self.planned += 1;
        self.acts.push(Act { at, number, device, deed });
    }

    /// Unless the run is over by then.
    fn plan_measurement(&mut self, at: Duration, device: u32) {
        if self.spec.duration.is_none_or(|end| at < end) {
            self.plan(at, device, Deed::Measure);
        }
    }

    fn plan_gap(&mut self, from: Duration, device: u32) {
        if self.spec.duration.is_none_or(|end| from < end) {
            self.plan(from, device, Deed::GoOffline);
        }
    }

    fn perform(&mut self, act: Act) {
        let Act { at, device, deed, .. } = act;
        let spec = &self.spec;
        let one = &mut self.devices[index(device)];
        let mut out = Vec::new();
        match deed {
            Deed::Measure => {
                let measured = one.measure(spec, at);
                out.extend(one.noise(spec, at));
                if spec.burst > 1 {
                    out.extend(one.gather(spec, measured));
                } else if let delay = one.delay(spec, at)
                    && !delay.is_zero()
                {
                    self.plan(at + delay, device, Deed::Send(measured));
                } else {
                    out.extend(one.send(&[measured]));
                }
                self.plan_measurement(at + self.spec.period, device);
            }
            Deed::Send(measured) => out.extend(one.send(&[measured])),
            Deed::GoOffline => {
                out.extend(one.go_offline());
                let length = spec.gaps.1;
                self.plan(at + length, device, Deed::ComeBack);
            }
            Deed::ComeBack => {
                out.extend(one.come_back());
                let next = at + one.online_for(spec);
                self.plan_gap(next, device);
            }
            Deed::End => {
                out.extend(one.come_back());
                out.extend(one.send_gathered());
            }
        }
        let shipped = out.into_iter().map(|(topic, payload)| Shipment { at, device, topic, payload });
        self.ready.extend(shipped);
    }
}

impl Iterator for Load {
    type Item = Shipment;

    fn next(&mut self) -> Option<Shipment> {
        loop {
            if let Some(shipment) = self.ready.pop_front() {
                return Some(shipment);
            }
            let act = self.acts.pop()?;
            self.perform(act);
        }
    }
}

fn index(device: u32) -> usize {
    usize::try_from(device).expect("indices have 32 bits here at least")
}

/// The earliest is the greatest: the heap gives that first.
impl Ord for Act {
    fn cmp(&self, other: &Act) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl PartialOrd for Act {
    fn partial_cmp(&self, other: &Act) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Act {
    fn eq(&self, other: &Act) -> bool {
        self.number == other.number
    }
}

impl Eq for Act {}

#[cfg(test)]
mod tests;
