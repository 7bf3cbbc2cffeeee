//! What the numbers have to be: a batch computation over all readings at once,
//! without watermarks, state or restarts. So naive that it can be believed.
//!
//! It knows tumbling windows. It does not know lateness: feed it the readings
//! that are expected to count.

use std::collections::BTreeMap;

use crate::model::time::{EventTime, Span};

/// Totals per device and window.
#[derive(Clone, Debug)]
pub struct Oracle {
    size: Span,
    offset_ms: i64,
    windows: BTreeMap<WindowKey, Totals>,
}

/// One window of one device.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct WindowKey {
    /// The device.
    pub device: String,
    /// Start of the window.
    pub start: EventTime,
}

/// The aggregates of one window.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Totals {
    /// Readings.
    pub count: u64,
    /// Their sum, in the order they were given.
    pub sum: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
}

impl Oracle {
    /// For windows `[offset + k * size, offset + (k + 1) * size)`.
    pub fn new(size: Span, offset_ms: i64) -> Oracle {
        Oracle { size, offset_ms, windows: BTreeMap::new() }
    }

    /// One reading that counts.
    pub fn add(&mut self, device: &str, at: EventTime, value: f64) {
        let start = at.floor_to(self.size, self.offset_ms);
        let key = WindowKey { device: device.to_owned(), start };
        self.windows.entry(key).and_modify(|totals| totals.add(value)).or_insert(Totals::of(value));
    }

    /// All windows with at least one reading, by device and start.
    pub fn windows(&self) -> &BTreeMap<WindowKey, Totals> {
        &self.windows
    }

    /// The window of `device` that starts at `start`.
    pub fn window(&self, device: &str, start: EventTime) -> Option<&Totals> {
        self.windows.get(&WindowKey { device: device.to_owned(), start })
    }

    /// Readings in all windows.
    pub fn readings(&self) -> u64 {
        self.windows.values().map(|totals| totals.count).sum()
    }

    /// Windows that end at or before `at`: those a watermark at `at - 1 ms` closes.
    pub fn closed_at(&self, at: EventTime) -> impl Iterator<Item = (&WindowKey, &Totals)> {
        self.windows.iter().filter(move |(key, _)| key.start + self.size <= at)
    }
}

impl Totals {
    pub(super) fn of(value: f64) -> Totals {
        Totals { count: 1, sum: value, min: value, max: value }
    }

    pub(super) fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Sum by count.
    pub fn mean(&self) -> f64 {
        self.sum / self.count as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> EventTime {
        EventTime::from_millis(millis)
    }

    #[test]
    fn readings_fall_into_half_open_windows_per_device() {
        let mut oracle = Oracle::new(Span::from_millis(10), 3);
        for (device, millis, value) in [("a", 3, 1.0), ("a", 12, -2.5), ("a", 13, 4.0), ("b", 2, 0.25)] {
            oracle.add(device, at(millis), value);
        }
        let first = oracle.window("a", at(3)).expect("two readings");
        assert_eq!(*first, Totals { count: 2, sum: -1.5, min: -2.5, max: 1.0 });
        assert!((first.mean() + 0.75).abs() < f64::EPSILON);
        assert_eq!(oracle.window("b", at(-7)).map(|totals| totals.count), Some(1));
        assert_eq!((oracle.windows().len(), oracle.readings()), (3, 4));
    }

    #[test]
    fn a_window_is_closed_when_time_reaches_its_end() {
        let mut oracle = Oracle::new(Span::from_millis(10), 0);
        oracle.add("a", at(5), 1.0);
        assert_eq!(oracle.closed_at(at(9)).count(), 0);
        assert_eq!(oracle.closed_at(at(10)).count(), 1);
    }
}
