//! The pipeline that the engine's figures are about.

use tidegate::engine::aggregate::{Aggregates, Kind};
use tidegate::engine::spec::{
    FieldSpec, FieldsSpec, MappingSpec, OnIdle, OutboxSpec, PipelineSpec, Strategy, StreamSpec, WatermarkSpec,
    WindowKind, WindowSpec,
};
use tidegate::model::ids::Name;
use tidegate::model::limits::DEVICES_MAX;
use tidegate::model::template::Template;
use tidegate::model::time::Span;
use tidegate::model::topic::TopicPattern;

/// As [`tumbling`], with a bound that keeps three windows of a device open.
pub(crate) fn three_open() -> PipelineSpec {
    let mut pipeline = tumbling();
    pipeline.outbox = OutboxSpec::default();
    pipeline.streams[0].watermark.strategy = Strategy::Bounded { disorder: Span::from_secs(20) };
    pipeline
}

/// Tumbling 10 s, bound 5 s; count, sum, min, max of one field; idle after 60 s.
pub(crate) fn tumbling() -> PipelineSpec {
    let aggregates = Aggregates::of(&[Kind::Count, Kind::Sum, Kind::Min, Kind::Max]);
    with(WindowKind::Tumbling { size: Span::from_secs(10), offset_ms: 0 }, aggregates)
}

/// The same with another kind of window.
pub(crate) fn of(kind: WindowKind) -> PipelineSpec {
    with(kind, Aggregates::of(&[Kind::Count, Kind::Sum, Kind::Min, Kind::Max]))
}

/// The same with every aggregate there is.
pub(crate) fn all_aggregates() -> PipelineSpec {
    let aggregates = Aggregates::of(Kind::ALL).with_histogram(&[100.0, 200.0, 400.0, 800.0]);
    with(WindowKind::Tumbling { size: Span::from_secs(10), offset_ms: 0 }, aggregates)
}

fn with(kind: WindowKind, aggregates: Aggregates) -> PipelineSpec {
    let name = |text: &str| Name::new(text).unwrap();
    let topic = TopicPattern::parse("bench/{device}").unwrap();
    let device = Template::parse("{device}", &topic).unwrap();
    let window = WindowSpec { aggregates, ..WindowSpec::new(name("10s"), kind) };
    let stream = StreamSpec {
        mapping: MappingSpec {
            fields: FieldsSpec::Named(vec![FieldSpec::number(name("value"), "/value")]),
            ..MappingSpec::default()
        },
        watermark: WatermarkSpec {
            idle_timeout: Some(Span::from_secs(60)),
            ..WatermarkSpec::bounded(Span::from_secs(5))
        },
        on_idle: OnIdle::Emit,
        max_future: Some(Span::from_secs(300)),
        windows: vec![window],
        devices_max: DEVICES_MAX,
        ..StreamSpec::new(name("bench"), topic, device)
    };
    PipelineSpec { outbox: OutboxSpec::of(64 << 20), ..PipelineSpec::new(name("gw"), vec![stream]) }
}
