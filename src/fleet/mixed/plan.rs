//! Who sends what, and when.
//!
//! ```text
//! a device with a clock      --m0--m1--m2--[ offline ]---------online m3 m4 m5--m6--…  closing  offline
//! one without                --m0--m1--m2--[ offline ]---------online          --m6--…           offline
//! ```
//!
//! After the end, every device with a clock measures once more, far ahead, so that its
//! watermark passes all that was before; then all that can are said to be offline.

use crate::model::rng::Rng;
use crate::model::time::Span;

use super::{ALL, Measured, Message, MixedSpec, START, Sent, System};

/// Between two measurements of one device.
const PERIOD_MS: (u64, u64) = (20_000, 40_000);
/// One device in so many measures by the clock on the wall, so that its times are often on
/// either side of the very ends of windows.
const PUNCTUAL_ONE_IN: u32 = 3;
const PUNCTUAL_MS: u64 = 10_000;
/// One device in so many is offline for a while.
const GAP_ONE_IN: u64 = 3;
/// One reading in so many comes much later: soon enough for an update of a minute, or, once in
/// four, too late for ten minutes too.
const STRAGGLER_ONE_IN: u64 = 25;
const STRAGGLER_MS: [(u64, u64); 2] = [(20_000, 120_000), (90_000, 900_000)];
/// Behind one measurement in so many comes something else on the topics of the system.
const NOISE_ONE_IN: u64 = 25;
/// The last measurement, after the end: beyond every window and its lateness.
const CLOSING: Span = Span::from_secs(40 * 60);

/// All messages of a fleet, in the order of sending.
pub fn plan(spec: &MixedSpec) -> Vec<Sent> {
    let mut sent = Vec::new();
    for (place, system) in (0_u64..).zip(ALL) {
        for device in 0..spec.devices {
            let rng = Rng::fork(spec.seed, place << 32 | u64::from(device));
            Life { spec, system, device, rng, number: 0, quarters: [80, 200], sent: &mut sent }.live();
        }
    }
    // Stable: of one device and one moment in the order in which they were made.
    sent.sort_by_key(|sent| sent.at);
    sent
}

/// The life of one device.
struct Life<'p> {
    spec: &'p MixedSpec,
    system: &'static dyn System,
    device: u32,
    rng: Rng,
    number: u64,
    quarters: [i64; 2],
    sent: &'p mut Vec<Sent>,
}

impl Life<'_> {
    fn live(&mut self) {
        let (clock, keeps) = (self.system.has_clock(self.device), self.system.keeps(self.device));
        let period = self.rng.between(PERIOD_MS.0, PERIOD_MS.1);
        let gap = self.gap();
        if self.spec.retained {
            for message in self.system.retained(self.device) {
                self.send(Span::ZERO, message, true);
            }
        }
        if let Some((from, _)) = gap {
            self.say(from, false);
        }
        let mut held = Vec::new();
        let mut next = self.rng.below(period);
        while next < self.spec.duration.as_millis() {
            let taken = self.moment(next);
            let measured = self.measure(taken);
            let at = if clock { taken + self.delay() } else { taken };
            match gap.filter(|(from, to)| (*from..*to).contains(&at)) {
                None => self.write(at, &[measured]),
                Some(_) if keeps => held.push(measured),
                // Nobody heard it.
                Some(_) => {}
            }
            if self.rng.chance(NOISE_ONE_IN) {
                let which = self.rng.next_u64();
                let noise = self.system.noise(self.device, START + taken, which);
                self.send(taken, noise, false);
            }
            next += period + self.rng.below(1_000);
        }
        if let Some((_, to)) = gap {
            self.say(to, true);
            for several in held.chunks(self.system.packet_max()) {
                self.write(to, several);
            }
        }
        let end = self.spec.duration + CLOSING;
        if clock {
            let closing = self.measure(end);
            self.write(end, &[closing]);
        }
        self.say(end + Span::from_secs(1), false);
    }

    /// When it measures what is due at `next`: then, or at the tick before, or 1 ms before that.
    fn moment(&self, next: u64) -> Span {
        if !self.device.is_multiple_of(PUNCTUAL_ONE_IN) {
            return Span::from_millis(next);
        }
        Span::from_millis((next / PUNCTUAL_MS * PUNCTUAL_MS).saturating_sub(self.number % 2))
    }

    /// From when to when it is offline.
    fn gap(&mut self) -> Option<(Span, Span)> {
        if !self.rng.chance(GAP_ONE_IN) {
            return None;
        }
        let minutes = |from: u64, to: u64, rng: &mut Rng| Span::from_millis(rng.between(from * 60_000, to * 60_000));
        let from = minutes(3, 40, &mut self.rng);
        Some((from, from + minutes(1, 12, &mut self.rng)))
    }

    fn delay(&mut self) -> Span {
        let usual = Span::from_millis(self.rng.between(0, self.spec.disorder.as_millis()));
        if !self.rng.chance(STRAGGLER_ONE_IN) {
            return usual;
        }
        let (least, most) = STRAGGLER_MS[usize::from(self.rng.chance(4))];
        usual + Span::from_millis(self.rng.between(least, most))
    }

    /// Two random walks that turn back at their bounds.
    fn measure(&mut self, taken: Span) -> Measured {
        for (quarters, (low, high)) in self.quarters.iter_mut().zip([(-160, 200), (0, 400)]) {
            let step = i64::try_from(self.rng.below(9)).expect("below 9") - 4;
            *quarters = (*quarters + step).clamp(low, high);
        }
        let [warmth, share] = self.quarters.map(|quarters| quarters as f64 / 4.0);
        let number = self.number;
        self.number += 1;
        Measured { at: START + taken, number, warmth, share, chance: self.rng.next_u64() }
    }

    fn write(&mut self, at: Span, measured: &[Measured]) {
        for message in self.system.write(self.device, measured) {
            self.send(at, message, false);
        }
    }

    fn say(&mut self, at: Span, online: bool) {
        if let Some(message) = self.system.presence(self.device, online) {
            self.send(at, message, false);
        }
    }

    fn send(&mut self, at: Span, message: Message, retained: bool) {
        self.sent.push(Sent { at, system: self.system.name(), retained, message });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seed: u64) -> Vec<Sent> {
        let spec = MixedSpec {
            seed,
            devices: 5,
            duration: Span::from_secs(900),
            disorder: Span::from_secs(10),
            retained: true,
        };
        plan(&spec)
    }

    #[test]
    fn one_seed_is_one_run_and_another_seed_is_another() {
        assert_eq!(run(1), run(1));
        assert_ne!(run(1), run(2));
    }

    #[test]
    fn every_system_sends_and_all_in_the_order_of_sending() {
        let all = run(3);
        assert!(all.is_sorted_by_key(|sent| sent.at));
        for system in ALL {
            assert!(all.iter().filter(|sent| sent.system == system.name()).count() > 100, "{}", system.name());
        }
    }
}
