//! What is computed of a stream: windows, lateness, aggregates.

use crate::engine::aggregate::Aggregates;
use crate::engine::window::calendar::{Calendar, CalendarUnit, Zone};
use crate::model::ids::Name;
use crate::model::time::Span;

/// One window definition of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowSpec {
    /// Unique within the stream.
    pub name: Name,
    /// The kind and its sizes.
    pub kind: WindowKind,
    /// Whose records share a window.
    pub key: KeySpec,
    /// Allowed lateness.
    pub lateness: Span,
    /// What happens to records beyond it.
    pub late: LatePolicy,
    /// When an update within allowed lateness is emitted.
    pub late_updates: LateUpdates,
    /// Show open windows that have changed every so often, as panes `early`.
    pub early: Option<Span>,
    /// Emit a window once more when its state goes, as a pane `final`.
    pub final_pane: bool,
    /// Computed for every field.
    pub aggregates: Aggregates,
}

/// Kinds of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowKind {
    /// Fixed size, no overlap: `[offset + k * size, offset + (k + 1) * size)`.
    Tumbling {
        /// > 0, at most `limits::WINDOW_SIZE_MAX`.
        size: Span,
        /// Absolute value < size, in milliseconds.
        offset_ms: i64,
    },
    /// Fixed size, one every `slide`: `[offset + k * slide, offset + k * slide + size)`.
    Sliding {
        /// > 0, at most `limits::WINDOW_SIZE_MAX`.
        size: Span,
        /// > 0; at most `limits::SLIDES_MAX` of them in one size.
        slide: Span,
        /// Absolute value < slide, in milliseconds.
        offset_ms: i64,
    },
    /// Activity without a gap: a record extends the session to its time + gap.
    Session {
        /// > 0, at most `limits::WINDOW_SIZE_MAX`.
        gap: Span,
        /// No session is longer; not below `gap`.
        max_length: Option<Span>,
    },
    /// Hours, days, weeks or months of a time zone.
    Calendar {
        /// Which of them.
        unit: CalendarUnit,
        /// Whose clock counts.
        zone: Zone,
        /// How much later than the unit a window starts, on that clock; less than
        /// [`CalendarUnit::offset_max`].
        offset: Span,
    },
}

impl WindowKind {
    /// From the start of a window to its end: of a session, when nothing extends it; of
    /// the calendar, nominally.
    pub fn length(self) -> Span {
        match self {
            WindowKind::Tumbling { size, .. } | WindowKind::Sliding { size, .. } => size,
            WindowKind::Session { gap, .. } => gap,
            WindowKind::Calendar { unit, .. } => unit.length(),
        }
    }

    /// What windows of the calendar go by; `None` for other kinds.
    pub(in crate::engine) fn calendar(self) -> Option<Calendar> {
        match self {
            WindowKind::Calendar { unit, zone, offset } => Some(Calendar::new(unit, zone, offset)),
            WindowKind::Tumbling { .. } | WindowKind::Sliding { .. } | WindowKind::Session { .. } => None,
        }
    }
}

/// What happens to a record beyond allowed lateness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatePolicy {
    /// The raw record goes to lane `late`, with reason and lag.
    SideOutput,
    /// It is counted and dropped.
    Drop,
    /// It is aggregated, with others that are as late, into deltas of the windows that it
    /// belongs to. Never for sessions and order-dependent aggregates. Results then carry
    /// their accumulators.
    Backfill {
        /// Deltas are emitted when nothing came for this long. > 0.
        quiet: Span,
        /// Or when the oldest is of this age. > 0.
        max_age: Span,
    },
}

impl LatePolicy {
    /// Whether deltas are made, and results carry their accumulators.
    pub fn is_backfill(self) -> bool {
        matches!(self, LatePolicy::Backfill { .. })
    }
}

/// Whose records share a window. All of them must share a watermark too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeySpec {
    /// Each device has its own.
    Device,
    /// The devices of one group label. Scopes `group`, `stream` and `shared`.
    Group,
    /// All devices; the key in ids is `*`. Scopes `stream` and `shared`.
    Stream,
}

/// When an update within allowed lateness is emitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LateUpdates {
    /// At once, for each record, as in Flink.
    Each,
    /// Together, at most this long after the first.
    Every(Span),
}

impl WindowSpec {
    /// A window per device that counts, without lateness.
    pub fn new(name: Name, kind: WindowKind) -> WindowSpec {
        WindowSpec {
            name,
            kind,
            key: KeySpec::Device,
            lateness: Span::ZERO,
            late: LatePolicy::SideOutput,
            late_updates: LateUpdates::Each,
            early: None,
            final_pane: false,
            aggregates: Aggregates::default(),
        }
    }
}
