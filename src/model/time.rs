//! Time as types, so that clocks and units cannot mix.
//!
//! Three clocks exist: what the device says ([`EventTime`]), what the gateway's
//! wall clock says ([`WallTime`]) and the monotonic clock ([`ProcTime`]), which
//! alone drives timers. All are integer milliseconds. All arithmetic saturates:
//! a device chooses these numbers.

use core::ops::{Add, Sub};

/// When the device says it happened: milliseconds since 1970-01-01 00:00 UTC,
/// negative before. Untrusted, may run backwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct EventTime(i64);

/// What the gateway's wall clock showed: milliseconds since 1970-01-01 00:00
/// UTC. May jump; never used for a timer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WallTime(i64);

/// When this process observed it, on the monotonic clock: milliseconds since
/// the process started. Never persisted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ProcTime(u64);

/// A length of time in milliseconds; the only thing that may be added to a time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Span(u64);

/// How far the gateway's wall clock can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ClockQuality {
    /// Set by a time source since boot.
    #[default]
    Synced,
    /// No time source since boot: the wall clock may be years off.
    Unsynced,
    /// It contradicts something known: an earlier persisted time, or the devices.
    Suspect,
}

/// One reading of the clocks. The first argument of everything that may depend
/// on time; read once per input, by the shell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Now {
    /// Monotonic: for deadlines.
    pub proc: ProcTime,
    /// Wall: for receive times and the future guard.
    pub wall: WallTime,
    /// How good `wall` is.
    pub quality: ClockQuality,
}

impl EventTime {
    /// The lowest representable time.
    pub const MIN: EventTime = EventTime(i64::MIN);
    /// The highest representable time; as a watermark: "nothing more will come".
    pub const MAX: EventTime = EventTime(i64::MAX);

    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> EventTime {
        EventTime(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Start of the `width`-wide bucket that holds `self`, with bucket borders
    /// at `offset + k * width`. Saturates at the ends of the range.
    #[inline]
    #[must_use]
    pub fn floor_to(self, width: Span, offset_ms: i64) -> EventTime {
        assert!(width.0 > 0, "a window's size is checked by config");
        let width = width.as_i64();
        let into = if let Some(shifted) = self.0.checked_sub(offset_ms) {
            shifted.rem_euclid(width)
        } else {
            // Rare: so close to the end of i64 that the shift overflows.
            let wide = (i128::from(self.0) - i128::from(offset_ms)).rem_euclid(i128::from(width));
            i64::try_from(wide).expect("a remainder is smaller than its i64 divisor")
        };
        EventTime(self.0.saturating_sub(into))
    }

    /// How much earlier than `later` this is; zero when it is not earlier.
    pub fn lag_behind(self, later: EventTime) -> Span {
        let millis = i128::from(later.0) - i128::from(self.0);
        Span(u64::try_from(millis.max(0)).unwrap_or(u64::MAX))
    }
}

impl Add<Span> for EventTime {
    type Output = EventTime;
    #[inline]
    fn add(self, span: Span) -> EventTime {
        EventTime(self.0.saturating_add_unsigned(span.0))
    }
}

impl Sub<Span> for EventTime {
    type Output = EventTime;
    #[inline]
    fn sub(self, span: Span) -> EventTime {
        EventTime(self.0.saturating_sub_unsigned(span.0))
    }
}

impl WallTime {
    /// From milliseconds since the Unix epoch.
    pub const fn from_millis(millis: i64) -> WallTime {
        WallTime(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// The receive time taken as event time, on purpose and by name.
    pub const fn as_event_time(self) -> EventTime {
        EventTime(self.0)
    }
}

impl ProcTime {
    /// Later than any reading of the clock: no deadline.
    pub const NEVER: ProcTime = ProcTime(u64::MAX);

    /// From milliseconds since the process started.
    pub const fn from_millis(millis: u64) -> ProcTime {
        ProcTime(millis)
    }

    /// Milliseconds since the process started.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: ProcTime) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for ProcTime {
    type Output = ProcTime;
    fn add(self, span: Span) -> ProcTime {
        ProcTime(self.0.saturating_add(span.0))
    }
}

impl Span {
    /// No time at all.
    pub const ZERO: Span = Span(0);
    /// One millisecond, the resolution of every clock here.
    pub const MILLI: Span = Span(1);

    /// From milliseconds.
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis)
    }

    /// From seconds.
    pub const fn from_secs(secs: u64) -> Span {
        Span(secs.saturating_mul(1_000))
    }

    /// In milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// In milliseconds, capped at `i64::MAX`.
    #[inline]
    pub fn as_i64(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }
}

impl Add<Span> for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl ClockQuality {
    /// The word used in outputs.
    pub fn as_str(self) -> &'static str {
        match self {
            ClockQuality::Synced => "synced",
            ClockQuality::Unsynced => "unsynced",
            ClockQuality::Suspect => "suspect",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floor(at: i64, width: u64, offset: i64) -> i64 {
        EventTime(at).floor_to(Span(width), offset).as_millis()
    }

    #[test]
    fn windows_align_by_the_mathematical_modulus_before_1970_too() {
        assert_eq!(floor(0, 10, 0), 0);
        assert_eq!(floor(9, 10, 0), 0);
        assert_eq!(floor(10, 10, 0), 10);
        assert_eq!(floor(-1, 10, 0), -10);
        assert_eq!(floor(-10, 10, 0), -10);
        assert_eq!(floor(7, 10, 3), 3);
        assert_eq!(floor(2, 10, 3), -7);
        assert_eq!(floor(2, 10, -3), -3);
    }

    #[test]
    fn the_ends_of_the_range_saturate_instead_of_overflowing() {
        assert_eq!(floor(i64::MIN, 10, 0), i64::MIN);
        assert!(floor(i64::MIN + 1, 1000, 7) <= i64::MIN + 1);
        assert!(floor(i64::MAX, 1000, -7) > i64::MAX - 1000);
        assert_eq!(EventTime::MAX + Span::from_secs(1), EventTime::MAX);
        assert_eq!(EventTime::MIN - Span::from_secs(1), EventTime::MIN);
        assert_eq!(EventTime::MIN.lag_behind(EventTime::MAX), Span(u64::MAX));
        assert_eq!(EventTime::MAX.lag_behind(EventTime::MIN), Span::ZERO);
    }
}
