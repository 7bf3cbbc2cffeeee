//! Which devices are there, as the engine says and as signals say.

use std::collections::BTreeMap;

use tidegate::engine::step::{Availability, Event};

use super::log::Entry;
use super::plan::{as_len, line_of};
use super::process::World;

impl World {
    /// What the engine says of every device now.
    pub(crate) fn look(&self) -> BTreeMap<(usize, String), bool> {
        let engine = self.driver.engine();
        let places: BTreeMap<usize, usize> = self
            .plan
            .spec
            .streams
            .iter()
            .enumerate()
            .map(|(place, stream)| (line_of(stream.name.as_str()), place))
            .collect();
        let look = |(line, device): (usize, &str)| {
            let status = engine.device(*places.get(&line)?, device)?;
            Some(((line, device.to_owned()), status.is_idle))
        };
        self.fleet.devices().filter_map(look).collect()
    }

    /// What time alone has brought, before anything else happens at this moment: a
    /// device that fell idle and speaks again would not be seen to have been idle.
    pub(crate) fn notice_silence(&mut self) {
        self.driver.handle(self.now(), Event::Tick);
        let seen = self.look();
        let (mut silent, mut gone) = (Vec::new(), Vec::new());
        for (device, was_idle) in &self.known {
            match seen.get(device) {
                Some(true) if !was_idle => silent.push(device.clone()),
                Some(_) => {}
                None => gone.push((device.0, device.1.clone(), !was_idle)),
            }
        }
        self.known = seen;
        if !silent.is_empty() {
            self.say(|| format!("idle: {silent:?}"));
            self.log.push(self.wall_ms, Entry::Idle(silent));
        }
        if !gone.is_empty() {
            self.say(|| format!("ended: {gone:?}"));
            self.trace.count("devices that ended", gone.len() as u64);
            self.log.push(self.wall_ms, Entry::Gone(gone));
        }
    }

    /// Something says that a device is there or not, or all of a stream or of all are.
    pub(crate) fn signal(&mut self) -> Result<(), String> {
        self.notice_silence();
        let streams = self.plan.spec.streams.len() as u64;
        let place = as_len(self.rng.below(streams));
        let stream = (!self.rng.chance(3)).then_some(place);
        let devices: Vec<String> = self.fleet.devices().map(|(_, device)| device.to_owned()).collect();
        let device = (!self.rng.chance(4)).then(|| devices[as_len(self.rng.below(devices.len() as u64))].clone());
        let device = if self.rng.chance(12) { Some("nobody".to_owned()) } else { device };
        let online = self.rng.chance(2);
        let line = stream.map(|place| line_of(self.plan.spec.streams[place].name.as_str()));
        let meant = |known: &(usize, String)| {
            line.is_none_or(|line| line == known.0) && device.as_ref().is_none_or(|device| *device == known.1)
        };
        let meant: Vec<_> = self.known.iter().filter(|(known, _)| meant(known)).collect();
        self.unknown += u64::from(device.is_some() && meant.is_empty());
        let fallen: Vec<_> = meant.iter().filter(|(_, idle)| !**idle).map(|(known, _)| (*known).clone()).collect();
        let meant: Vec<_> = meant.into_iter().map(|(known, _)| known.clone()).collect();
        self.say(|| format!("signal: {device:?} of {line:?}, online {online}: {meant:?}"));
        self.trace.count(if online { "signals online" } else { "signals offline" }, 1);
        let signal = Availability { stream, device: device.as_deref(), online };
        self.driver.handle(self.now(), Event::Availability(signal));
        self.known = self.look();
        if let Some(other) = meant.iter().find(|device| self.known.get(*device) != Some(&!online)) {
            return Err(format!("{other:?} is said to be online {online}, and is not"));
        }
        if online && !meant.is_empty() {
            self.log.push(self.wall_ms, Entry::Online(meant));
        } else if !online && !fallen.is_empty() {
            self.log.push(self.wall_ms, Entry::Idle(fallen));
        }
        if self.status().unknown_devices != self.unknown {
            return Err(format!("{} signals for unknown devices", self.unknown));
        }
        self.advance()
    }
}
