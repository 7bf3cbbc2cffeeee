//! The pipeline that the engine's figures are about.

use tidegate::engine::aggregate::Kind;
use tidegate::engine::encode::Encoding;
use tidegate::engine::spec::{
    CommitSpec, FieldsSpec, FormatSpec, LatePolicy, OnIdle, PipelineSpec, Scope, StreamSpec, TimeSpec, WatermarkSpec,
    WindowKind, WindowSpec,
};
use tidegate::model::ids::Name;
use tidegate::model::time::Span;
use tidegate::model::topic::{DeviceTemplate, TopicPattern};

/// Tumbling 10 s, bound 5 s; count, sum, min, max of one field; idle after 60 s.
pub(crate) fn tumbling() -> PipelineSpec {
    let name = |text: &str| Name::new(text).unwrap();
    let topic = TopicPattern::parse("bench/{device}").unwrap();
    let window = WindowSpec {
        name: name("10s"),
        kind: WindowKind::Tumbling { size: Span::from_secs(10), offset_ms: 0 },
        lateness: Span::ZERO,
        late: LatePolicy::SideOutput,
        aggregates: vec![Kind::Count, Kind::Sum, Kind::Min, Kind::Max],
    };
    let stream = StreamSpec {
        name: name("bench"),
        device: DeviceTemplate::parse("{device}", &topic).unwrap(),
        topic,
        format: FormatSpec::Json(FieldsSpec::Named(vec![(name("value"), "/value".to_owned())])),
        time: TimeSpec::Receive,
        watermark: WatermarkSpec {
            disorder: Span::from_secs(5),
            idle_timeout: Some(Span::from_secs(60)),
            scope: Scope::Device,
        },
        on_idle: OnIdle::Emit,
        max_future: Some(Span::from_secs(300)),
        min_time: None,
        devices_max: 10_000,
        windows: vec![window],
    };
    PipelineSpec {
        gateway: name("gw"),
        topic_prefix: "tidegate".to_owned(),
        encoding: Encoding::Json,
        outbox_bytes_max: 64 << 20,
        streams: vec![stream],
        commit: CommitSpec { interval: Span::from_secs(1), snapshot_interval: Span::from_secs(120) },
    }
}
