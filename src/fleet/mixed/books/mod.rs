//! What has to come of the messages of a fleet. It reads their meanings, in the order of
//! sending, and never their bytes.
//!
//! The rules are those of docs/semantics.md for tumbling windows and a `bounded` watermark
//! per device, written down anew with nothing but the newest time of each device:
//!
//! ```text
//! newest ≥ end + disorder             the window is over: it is shown
//! newest ≥ end + disorder + lateness  what comes for it is late
//! offline, and was not                what is open and has changed is shown
//! ```

mod check;

use std::collections::BTreeMap;

use super::super::oracle::Totals;
use super::{Meaning, Reading, Sent, Whom};
use crate::model::time::{EventTime, Span};

pub use check::ReceiveTimes;

/// How the streams of all systems are configured.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Name and size of each window.
    pub windows: &'static [(&'static str, Span)],
    /// `disorder`.
    pub disorder: Span,
    /// `lateness` of every window.
    pub lateness: Span,
}

/// What has to come of all streams.
#[derive(Clone, Debug)]
pub struct Books {
    rules: Rules,
    streams: BTreeMap<&'static str, Stream>,
    unknown_devices: u64,
}

#[derive(Clone, Debug, Default)]
struct Stream {
    counts: BTreeMap<&'static str, u64>,
    rejected: BTreeMap<&'static str, u64>,
    devices: BTreeMap<String, Device>,
    /// Window, device and time of each reading that no window took.
    late: Vec<(&'static str, String, EventTime)>,
    /// Window, device, start and content of each window that was shown when its device fell
    /// idle.
    idle: Vec<(&'static str, String, EventTime, u64)>,
    /// By window, the books of its readings.
    windows: BTreeMap<&'static str, BTreeMap<&'static str, u64>>,
}

#[derive(Clone, Debug, Default)]
struct Device {
    newest: Option<EventTime>,
    is_idle: bool,
    has_clock: bool,
    windows: BTreeMap<(&'static str, EventTime), Window>,
}

#[derive(Clone, Debug, Default)]
struct Window {
    now: Content,
    is_over: bool,
    /// As it was shown last.
    shown: Option<Content>,
}

/// What is in a window.
#[derive(Clone, PartialEq, Debug, Default)]
struct Content {
    count: u64,
    fields: BTreeMap<String, Totals>,
}

impl Books {
    /// Nothing was sent yet.
    pub fn new(rules: Rules) -> Books {
        Books { rules, streams: BTreeMap::new(), unknown_devices: 0 }
    }

    /// A message was sent; `received`: the clock of the gateway.
    pub fn take(&mut self, sent: &Sent, received: EventTime) {
        let rules = self.rules;
        let stream = self.streams.entry(sent.system).or_default();
        for meaning in &sent.message.means {
            match meaning {
                Meaning::Reading(reading) => stream.read(rules, reading, received),
                Meaning::Copy(device) => {
                    stream.count("duplicate");
                    stream.devices.entry(device.clone()).or_default().is_idle = false;
                }
                Meaning::Refused(reason) => {
                    stream.count("rejected");
                    *stream.rejected.entry(reason).or_default() += 1;
                }
                Meaning::Filtered => stream.count("filtered"),
                Meaning::Ignored => stream.count("ignored"),
                Meaning::Presence(whom, online) => {
                    *stream.counts.entry("availability").or_default() += 1;
                    self.unknown_devices += u64::from(!stream.hear(whom, *online));
                }
            }
        }
    }

    /// The devices of a system fell silent for so long that they are idle.
    pub fn fall_idle(&mut self, system: &'static str) {
        self.streams.entry(system).or_default().hear(&Whom::All, false);
    }

    /// Records that have arrived.
    pub fn received(&self) -> u64 {
        self.streams.values().filter_map(|stream| stream.counts.get("received")).sum()
    }
}

impl Stream {
    fn count(&mut self, what: &'static str) {
        for what in ["received", what] {
            *self.counts.entry(what).or_default() += 1;
        }
    }

    fn read(&mut self, rules: Rules, reading: &Reading, received: EventTime) {
        self.count("accepted");
        let device = self.devices.entry(reading.device.clone()).or_default();
        let at = reading.at.unwrap_or(received);
        device.is_idle = false;
        device.has_clock = reading.at.is_some();
        for (name, size) in rules.windows {
            let books = self.windows.entry(name).or_default();
            let mut count = |what: &'static str, by: u64| *books.entry(what).or_default() += by;
            count("accepted", 1);
            let start = at.floor_to(*size, 0);
            let closes = start + *size + rules.disorder;
            if device.newest.is_some_and(|newest| newest >= closes + rules.lateness) {
                count("side_output", 1);
                self.late.push((name, reading.device.clone(), at));
                continue;
            }
            let window = device.windows.entry((name, start)).or_default();
            // One that begins behind the watermark is over at once, and its first pane an update.
            window.is_over |= device.newest.is_some_and(|newest| newest >= closes);
            window.now.add(reading);
            if window.is_over {
                count("late_update", 1);
                window.shown = Some(window.now.clone());
            }
        }
        device.newest = device.newest.max(Some(at));
        let newest = device.newest.expect("it was just set");
        for ((name, start), window) in &mut device.windows {
            let size = rules.windows.iter().find(|(known, _)| known == name).expect("of these").1;
            if !window.is_over && newest >= *start + size + rules.disorder {
                window.is_over = true;
                *self.windows.entry(name).or_default().entry("on_time").or_default() += window.now.count;
                window.shown = Some(window.now.clone());
            }
        }
    }

    /// False for a device that nobody knows.
    fn hear(&mut self, whom: &Whom, online: bool) -> bool {
        let mut known = !matches!(whom, Whom::Device(_));
        for (name, device) in &mut self.devices {
            let meant = match whom {
                Whom::Device(this) => this == name,
                Whom::Below(prefix) => name.starts_with(prefix),
                Whom::All => true,
            };
            if !meant {
                continue;
            }
            known = true;
            if !online && !device.is_idle {
                for ((window, start), content) in &mut device.windows {
                    if !content.is_over && content.shown.as_ref() != Some(&content.now) {
                        self.idle.push((window, name.clone(), *start, content.now.count));
                        content.shown = Some(content.now.clone());
                    }
                }
            }
            device.is_idle = !online;
        }
        known
    }
}

impl Content {
    fn add(&mut self, reading: &Reading) {
        self.count += 1;
        for (name, value) in &reading.values {
            let totals = self.fields.entry(name.clone());
            totals.and_modify(|totals| totals.add(*value)).or_insert_with(|| Totals::of(*value));
        }
    }
}
