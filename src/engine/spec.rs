//! What the engine is told to do: the checked pipeline. Built by `config`,
//! which guarantees the stated ranges; the engine relies on them.

use crate::model::ids::Name;
use crate::model::time::{EventTime, Span};
use crate::model::topic::{DeviceTemplate, TopicPattern};

use super::aggregate::Kind as AggregateKind;
use super::encode::Encoding;

/// Everything the engine needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineSpec {
    /// The gateway's id: first part of every outgoing id and topic.
    pub gateway: Name,
    /// Prefix of the outgoing topics; `tidegate` by default.
    pub topic_prefix: String,
    /// How batches are written.
    pub encoding: Encoding,
    /// Bytes that the outbox may hold. Full: the oldest records of the lowest
    /// lane make room and are counted as evicted.
    pub outbox_bytes_max: usize,
    /// The streams, in the order of the configuration.
    pub streams: Vec<StreamSpec>,
    /// When to commit and to snapshot.
    pub commit: CommitSpec,
}

/// When the driver commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitSpec {
    /// Longest time from the first unacknowledged message to its commit. > 0.
    pub interval: Span,
    /// Time between two snapshots, when anything changed. > 0.
    pub snapshot_interval: Span,
}

/// One configured source with its windows.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSpec {
    /// Unique among the streams.
    pub name: Name,
    /// Topics that belong to it.
    pub topic: TopicPattern,
    /// How the device id is made.
    pub device: DeviceTemplate,
    /// How a payload becomes values.
    pub format: FormatSpec,
    /// Where the event time comes from.
    pub time: TimeSpec,
    /// Watermark and idleness.
    pub watermark: WatermarkSpec,
    /// What to do with open windows of a device that falls idle.
    pub on_idle: OnIdle,
    /// Event times later than the gateway's clock by more than this are
    /// quarantined as `future`; `None` switches the guard off.
    pub max_future: Option<Span>,
    /// Event times before this are rejected; `None` switches the check off.
    pub min_time: Option<EventTime>,
    /// Devices of this stream, 1 ..= `limits::DEVICES_MAX`.
    pub devices_max: usize,
    /// At most `limits::WINDOWS_MAX`.
    pub windows: Vec<WindowSpec>,
}

/// How a payload becomes values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FormatSpec {
    /// A JSON object, or an array of objects: one record each.
    Json(FieldsSpec),
}

/// Which numbers of a payload count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldsSpec {
    /// These, by name and JSON Pointer (RFC 6901).
    Named(Vec<(Name, String)>),
    /// Every number; named by its path with `.` between the levels.
    All,
}

/// Where the event time comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TimeSpec {
    /// The gateway's clock when the message arrived.
    Receive,
    /// A field of the payload.
    Field {
        /// JSON Pointer of the field.
        pointer: String,
        /// How to read it.
        format: TimeFormat,
        /// When it is absent or null: reject, or use the receive time.
        missing: TimeFallback,
        /// When it cannot be read or is before `min_time`.
        bad: TimeFallback,
    },
}

/// How a time field is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeFormat {
    /// Seconds since 1970, integer or with a fraction, number or string.
    EpochSeconds,
    /// Milliseconds since 1970, integer or with a fraction, number or string.
    EpochMillis,
    /// RFC 3339, such as `2026-01-31T08:00:00.25+01:00`.
    Rfc3339,
}

/// What to do without a usable time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeFallback {
    /// Count it as rejected.
    Reject,
    /// Use the receive time, marked as such.
    Receive,
}

/// Watermark of a stream: `bounded`, that is the highest event time seen
/// minus `disorder` minus 1 ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatermarkSpec {
    /// Out-of-orderness bound.
    pub disorder: Span,
    /// Silence after which a device is idle; `None`: never.
    pub idle_timeout: Option<Span>,
    /// Which records share one watermark.
    pub scope: Scope,
}

/// The set of devices that share a watermark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Each device has its own.
    Device,
    /// One maximum over all records of the stream.
    Shared,
    /// The minimum over the devices of the stream that are not idle.
    Stream(Resume),
}

/// What a device that is behind the common watermark does to it when it comes
/// back (scope `stream`). The watermark never moves back either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    /// It is ignored until it has caught up: it stalls nobody.
    CatchUp,
    /// The watermark waits for it, as in Flink.
    Hold,
}

/// What to do with open windows of a device that falls idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnIdle {
    /// Emit them as panes `idle`; they stay open and the watermark stays.
    Emit,
    /// Wait for the watermark.
    Hold,
}

/// One window definition of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowSpec {
    /// Unique within the stream.
    pub name: Name,
    /// The kind and its sizes.
    pub kind: WindowKind,
    /// Allowed lateness.
    pub lateness: Span,
    /// What happens to records beyond it.
    pub late: LatePolicy,
    /// Computed for every field, in this order; not empty, no duplicates.
    pub aggregates: Vec<AggregateKind>,
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
    },
}

impl WindowKind {
    /// From the start of a window to its end; of a session, when nothing extends it.
    pub fn length(self) -> Span {
        match self {
            WindowKind::Tumbling { size, .. } | WindowKind::Sliding { size, .. } => size,
            WindowKind::Session { gap } => gap,
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
}

impl StreamSpec {
    /// A stream that is configured no more: no topic reaches it, its windows are
    /// yet to be set. `None` never happens with a checked name.
    pub(super) fn retired(name: &Name) -> Option<StreamSpec> {
        let topic = TopicPattern::parse("retired").ok()?;
        Some(StreamSpec {
            name: name.clone(),
            device: DeviceTemplate::parse("retired", &topic).ok()?,
            topic,
            format: FormatSpec::Json(FieldsSpec::All),
            time: TimeSpec::Receive,
            watermark: WatermarkSpec { disorder: Span::ZERO, idle_timeout: None, scope: Scope::Device },
            on_idle: OnIdle::Hold,
            max_future: None,
            min_time: None,
            devices_max: 1,
            windows: Vec::new(),
        })
    }
}

impl TimeFormat {
    /// The word used in the configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            TimeFormat::EpochSeconds => "s",
            TimeFormat::EpochMillis => "ms",
            TimeFormat::Rfc3339 => "rfc3339",
        }
    }
}
