//! What the engine is told to do: the checked pipeline. Built by `config`,
//! which guarantees the stated ranges; the engine relies on them.

mod dedup;
mod join;
mod mapping;
mod meaning;
mod outbox;
mod records;
mod source;
mod topics;
mod watermark;
mod window;

use crate::model::ids::Name;
use crate::model::limits::DEVICES_DEFAULT;
use crate::model::template::Template;
use crate::model::time::{EventTime, Span};
use crate::model::topic::TopicPattern;

use super::broker::limits::BrokerLimits;
use super::encode::Encoding;

pub use dedup::{DedupBy, DedupSpec};
pub use join::{JoinKind, JoinSpec, WindowRef};
pub use mapping::{FieldKind, FieldSpec, FieldsSpec, MappingSpec, NumberRules, RecordsPattern};
pub use meaning::Meaning;
pub use outbox::{LaneSpec, OutboxSpec, UplinkPolicy};
pub use records::Records;
pub use source::{
    CsvSpec, FormatSpec, GapPolicy, OverlapPolicy, RawSpec, TimeCandidate, TimeFallback, TimeFormat, TimeSpec,
    TimeUnit, ZonedRules,
};
pub use topics::{AvailabilitySpec, DevicePatterns, LabelSpec, RulesSpec, TopicSpec, Whom};
pub use watermark::{AllIdle, OnIdle, Resume, Scope, Strategy, WatermarkSpec};
pub use window::{KeySpec, LatePolicy, LateUpdates, WindowKind, WindowSpec};

/// Everything the engine needs to know.
#[derive(Clone, Debug, PartialEq)]
pub struct PipelineSpec {
    /// The gateway's id: first part of every outgoing id and topic.
    pub gateway: Name,
    /// Prefix of the outgoing topics; `tidegate` by default.
    pub topic_prefix: String,
    /// How batches are written.
    pub encoding: Encoding,
    /// What the outbox may hold.
    pub outbox: OutboxSpec,
    /// How it is emptied.
    pub uplink: UplinkPolicy,
    /// The streams, in the order of the configuration.
    pub streams: Vec<StreamSpec>,
    /// What is joined across them; at most `limits::JOINS_MAX`.
    pub joins: Vec<JoinSpec>,
    /// When to commit and to snapshot.
    pub commit: CommitSpec,
    /// Results go to the devices' own broker as well.
    pub local: bool,
    /// Clients connect to the agent itself; `None`: none do.
    pub broker: Option<BrokerLimits>,
}

/// When the driver commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitSpec {
    /// Longest time from the first unacknowledged message to its commit. > 0.
    pub interval: Span,
    /// Time between two snapshots, when anything changed. > 0.
    pub snapshot_interval: Span,
    /// What the flash may be given; `None`: no bound.
    pub budget: Option<BudgetSpec>,
}

impl CommitSpec {
    /// How long a message may wait for its commit, whatever holds it back.
    pub fn longest(&self) -> Span {
        self.budget.map_or(self.interval, |budget| budget.interval_max)
    }
}

/// A daily budget of bytes for the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetSpec {
    /// Bytes in 24 hours. > 0.
    pub per_day: u64,
    /// How long commits may be held back to keep to it. Not below the interval.
    pub interval_max: Span,
}

/// One configured source with its windows.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamSpec {
    /// Unique among the streams.
    pub name: Name,
    /// What its devices and values are.
    pub meaning: Meaning,
    /// Topics that readings come on, at least one; the first that fits counts.
    pub topics: Vec<TopicSpec>,
    /// Topics that are passed over although they fit one of `topics`.
    pub ignore: Vec<TopicPattern>,
    /// Topics that say who is there.
    pub availability: Vec<AvailabilitySpec>,
    /// What the labels' texts stand for.
    pub labels: Vec<LabelSpec>,
    /// How payloads are written.
    pub format: FormatSpec,
    /// How they become records.
    pub mapping: MappingSpec,
    /// Which records are kept out, and what is calculated from the others.
    pub rules: RulesSpec,
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
    /// Silence after which the state of a device is freed; `None`: never. At least
    /// [`StreamSpec::shortest_ttl`].
    pub state_ttl: Option<Span>,
    /// How copies of a reading are recognised; `None`: each counts.
    pub dedup: Option<DedupSpec>,
    /// Records lack what has not changed: they are completed with values that are not older
    /// than this. `None`: they count as they are.
    pub carry_forward: Option<Span>,
    /// Whether single readings are passed on.
    pub records: Records,
    /// At most `limits::WINDOWS_MAX`.
    pub windows: Vec<WindowSpec>,
}

impl PipelineSpec {
    /// Defaults for everything but the gateway's name.
    pub fn new(gateway: Name, streams: Vec<StreamSpec>) -> PipelineSpec {
        PipelineSpec {
            gateway,
            topic_prefix: "tidegate".to_owned(),
            encoding: Encoding::Json,
            outbox: OutboxSpec::default(),
            uplink: UplinkPolicy::default(),
            streams,
            joins: Vec::new(),
            local: false,
            broker: None,
            commit: CommitSpec { interval: Span::from_secs(1), snapshot_interval: Span::from_secs(120), budget: None },
        }
    }
}

impl PipelineSpec {
    /// A watermark follows the gateway's clock.
    pub(super) fn follows_clock(&self) -> bool {
        self.streams.iter().any(|stream| matches!(stream.watermark.strategy, Strategy::Processing { .. }))
    }
}

impl StreamSpec {
    /// JSON, receive time, no disorder, nobody ever idle, nothing checked, no windows.
    pub fn new(name: Name, topic: TopicPattern, device: Template) -> StreamSpec {
        StreamSpec {
            name,
            meaning: Meaning::default(),
            topics: vec![TopicSpec::new(topic, device)],
            ignore: Vec::new(),
            availability: Vec::new(),
            labels: Vec::new(),
            format: FormatSpec::Json,
            mapping: MappingSpec::default(),
            rules: RulesSpec::default(),
            watermark: WatermarkSpec::bounded(Span::ZERO),
            on_idle: OnIdle::Hold,
            max_future: None,
            min_time: None,
            devices_max: DEVICES_DEFAULT,
            state_ttl: None,
            dedup: None,
            carry_forward: None,
            records: Records::Off,
            windows: Vec::new(),
        }
    }

    /// What to subscribe to: readings, and who is there.
    pub fn filters(&self) -> Vec<String> {
        let readings = self.topics.iter().map(|topic| &topic.pattern);
        let signals = self.availability.iter().map(|rule| &rule.pattern);
        readings.chain(signals).map(|pattern| pattern.filter().to_owned()).collect()
    }

    /// Its devices are in groups.
    pub fn has_groups(&self) -> bool {
        self.topics.iter().any(|topic| topic.group.is_some())
    }

    /// A stream that is configured no more: no topic reaches it, its windows are
    /// yet to be set. `None` never happens with a checked name.
    pub(super) fn retired(name: &Name) -> Option<StreamSpec> {
        let topic = TopicPattern::parse("retired").ok()?;
        let device = Template::parse("retired", &topic).ok()?;
        Some(StreamSpec { devices_max: 1, ..StreamSpec::new(name.clone(), topic, device) })
    }
}
