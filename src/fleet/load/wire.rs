//! What the devices of a fleet write, by the name that a person gives it.

use core::str::FromStr;
use core::time::Duration;

use crate::fleet::mixed::{ALL, CLIMATE, Measured, System};
use crate::model::time::EventTime;

/// The name of the fleet with devices of every preset.
const MIXED: &str = "mixed";
/// Measurements that are written to see how many messages one makes.
const SAMPLED: u64 = 20;
/// Devices of each system for that: what they are comes round after far fewer.
const DEVICES_SAMPLED: u32 = 60;

/// The makes of the devices, in turn.
#[derive(Clone)]
pub struct Wire {
    name: &'static str,
    systems: Vec<&'static dyn System>,
}

impl Wire {
    /// Every name, the default first.
    pub fn names() -> impl Iterator<Item = &'static str> {
        [CLIMATE.name()].into_iter().chain(ALL.iter().map(|system| system.name())).chain([MIXED])
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The make of a device, and which of that make it is.
    pub(super) fn system(&self, device: u32) -> (&'static dyn System, u32) {
        let makes = u32::try_from(self.systems.len()).expect("a dozen");
        let place = usize::try_from(device % makes).expect("a dozen");
        (self.systems[place], device / makes)
    }

    /// Time between two measurements of one device with which so many of them send so many
    /// messages per second: some makes write several for one measurement. 1 µs at least.
    pub fn period(&self, devices: u32, per_second: u64) -> Duration {
        let sampled = devices.min(DEVICES_SAMPLED * u32::try_from(self.systems.len()).expect("a dozen"));
        let measured = |number| Measured {
            at: EventTime::from_millis(0),
            number,
            warmth: 20.0,
            share: 50.0,
            chance: number.wrapping_mul(0x9E37_79B9_7F4A_7C15),
        };
        let messages: usize = (0..sampled)
            .flat_map(|device| (0..SAMPLED).map(move |number| (self.system(device), measured(number))))
            .map(|((system, device), measured)| system.write(device, &[measured]).len())
            .sum();
        let per_measurement = messages as f64 / (f64::from(sampled.max(1)) * SAMPLED as f64);
        let seconds = f64::from(devices) * per_measurement / per_second.max(1) as f64;
        Duration::from_secs_f64(seconds).max(Duration::from_micros(1))
    }
}

impl FromStr for Wire {
    type Err = String;

    fn from_str(text: &str) -> Result<Wire, String> {
        if text == MIXED {
            return Ok(Wire { name: MIXED, systems: ALL.to_vec() });
        }
        let found = [CLIMATE].into_iter().chain(ALL).find(|system| system.name() == text);
        let known = || Wire::names().collect::<Vec<_>>().join(", ");
        let system = found.ok_or_else(|| format!("expected one of {}", known()))?;
        Ok(Wire { name: system.name(), systems: vec![system] })
    }
}

impl core::fmt::Debug for Wire {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name)
    }
}
