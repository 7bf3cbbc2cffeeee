//! One device of the fleet: its chance, its clock, and what waits in it.

use core::time::Duration;
use std::collections::VecDeque;

use crate::fleet::mixed::{Measured, Message, System};
use crate::model::rng::Rng;
use crate::model::time::EventTime;

use super::{BACKLOG_MAX, LoadSpec, Share};

/// A topic and a payload.
type Written = (String, Vec<u8>);

/// Where the two random walks turn back, in quarters: degrees, and per cent.
const WALKS: [(i64, i64); 2] = [(-160, 200), (0, 400)];

pub(super) struct Device {
    system: &'static dyn System,
    /// Which of its make it is.
    number: u32,
    rng: Rng,
    measured: u64,
    quarters: [i64; 2],
    /// So much its clock is ahead.
    skew_ms: i64,
    has_gaps: bool,
    offline: bool,
    /// Measured and due while offline.
    backlog: VecDeque<Measured>,
    /// Measured since the last burst.
    gathered: Vec<Measured>,
}

impl core::fmt::Debug for Device {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}", self.system.name(), self.number)
    }
}

impl Device {
    pub(super) fn new(spec: &LoadSpec, index: u32) -> Device {
        let (system, number) = spec.wire.system(index);
        let mut rng = Rng::fork(spec.seed, u64::from(index));
        let quarters = WALKS.map(|(low, high)| i64::midpoint(low, high) + upto(&mut rng, 80) - 40);
        // The share alone, without a skew, changes nothing of a run.
        let skew_ms = if !spec.skew.1.is_zero() && drawn(&mut rng, spec.skew.0) {
            let most = i64::try_from(spec.skew.1.as_millis()).unwrap_or(i64::MAX / 4).min(i64::MAX / 4);
            upto(&mut rng, most * 2) - most
        } else {
            0
        };
        let has_gaps = !spec.gaps.1.is_zero() && drawn(&mut rng, spec.gaps.0);
        Device {
            system,
            number,
            rng,
            measured: 0,
            quarters,
            skew_ms,
            has_gaps,
            offline: false,
            backlog: VecDeque::new(),
            gathered: Vec::new(),
        }
    }

    /// When it measures first, and when it is offline first.
    pub(super) fn begin(&mut self, spec: &LoadSpec) -> (Duration, Option<Duration>) {
        let phase = below(&mut self.rng, spec.period);
        // A gap of half a run and more still shows in it.
        let latest = spec.duration.map_or(spec.gaps.1, |duration| spec.gaps.1.min(duration / 2));
        let gap = self.has_gaps.then(|| below(&mut self.rng, latest));
        (phase, gap)
    }

    /// How long it stays online after a gap: once to three times its length.
    pub(super) fn online_for(&mut self, spec: &LoadSpec) -> Duration {
        spec.gaps.1 + below(&mut self.rng, spec.gaps.1 * 2)
    }

    pub(super) fn measure(&mut self, spec: &LoadSpec, at: Duration) -> Measured {
        for (quarters, (low, high)) in self.quarters.iter_mut().zip(WALKS) {
            *quarters = (*quarters + upto(&mut self.rng, 8) - 4).clamp(low, high);
        }
        let [warmth, share] = self.quarters.map(|quarters| quarters as f64 / 4.0);
        let number = self.measured;
        self.measured += 1;
        Measured { at: self.clock(spec, at), number, warmth, share, chance: self.rng.next_u64() }
    }

    /// What it shows at this moment.
    fn clock(&self, spec: &LoadSpec, at: Duration) -> EventTime {
        let millis = i64::try_from(at.as_millis()).unwrap_or(i64::MAX);
        EventTime::from_millis(spec.start.as_millis().saturating_add(millis).saturating_add(self.skew_ms))
    }

    /// From a measurement at this moment to its sending. A device without a clock sends when it
    /// measures: nobody could tell otherwise.
    pub(super) fn delay(&mut self, spec: &LoadSpec, at: Duration) -> Duration {
        if !self.system.has_clock(self.number) {
            return Duration::ZERO;
        }
        let (share, late) = spec.stragglers;
        if drawn(&mut self.rng, share) && spec.duration.is_none_or(|end| at + late < end) {
            return late;
        }
        below(&mut self.rng, spec.disorder.saturating_add(Duration::from_nanos(1)))
    }

    /// Keeps a measurement for the next burst; all of it when that is due.
    pub(super) fn gather(&mut self, spec: &LoadSpec, measured: Measured) -> Vec<Written> {
        self.gathered.push(measured);
        if self.gathered.len() < usize::try_from(spec.burst).unwrap_or(usize::MAX) {
            return Vec::new();
        }
        self.send_gathered()
    }

    pub(super) fn send_gathered(&mut self) -> Vec<Written> {
        let gathered = core::mem::take(&mut self.gathered);
        self.send(&gathered)
    }

    /// Written, or kept while offline, or lost then.
    pub(super) fn send(&mut self, measured: &[Measured]) -> Vec<Written> {
        if !self.offline {
            return self.write(measured);
        }
        if self.system.keeps(self.number) {
            self.backlog.extend(measured);
            let excess = self.backlog.len().saturating_sub(BACKLOG_MAX);
            self.backlog.drain(..excess);
        }
        Vec::new()
    }

    fn write(&self, measured: &[Measured]) -> Vec<Written> {
        let packets = measured.chunks(self.system.packet_max());
        packets.flat_map(|several| self.system.write(self.number, several)).map(written).collect()
    }

    pub(super) fn go_offline(&mut self) -> Vec<Written> {
        self.offline = true;
        self.presence(false)
    }

    /// With everything it has kept.
    pub(super) fn come_back(&mut self) -> Vec<Written> {
        if !self.offline {
            return Vec::new();
        }
        self.offline = false;
        let mut out = self.presence(true);
        let backlog: Vec<Measured> = core::mem::take(&mut self.backlog).into();
        out.extend(self.write(&backlog));
        out
    }

    fn presence(&self, online: bool) -> Vec<Written> {
        self.system.presence(self.number, online).map(written).into_iter().collect()
    }

    pub(super) fn noise(&mut self, spec: &LoadSpec, at: Duration) -> Option<Written> {
        if self.offline || !drawn(&mut self.rng, spec.noise) {
            return None;
        }
        let which = self.rng.next_u64();
        Some(written(self.system.noise(self.number, self.clock(spec, at), which)))
    }
}

fn written(message: Message) -> Written {
    (message.topic, message.payload)
}

/// Nothing is drawn for a share of none: an option that is off moves nothing else.
fn drawn(rng: &mut Rng, share: Share) -> bool {
    share != Share::NONE && rng.below(u64::from(Share::ALL)) < u64::from(share.0)
}

/// A number in `0 ..= most`.
fn upto(rng: &mut Rng, most: i64) -> i64 {
    let most = u64::try_from(most).unwrap_or(0);
    i64::try_from(rng.between(0, most)).unwrap_or(0)
}

/// A time in `0 .. bound`; zero when that is empty.
fn below(rng: &mut Rng, bound: Duration) -> Duration {
    Duration::from_nanos(rng.below(u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX)))
}
