//! `[local]`: results on the devices' broker.

use crate::config::boot::LocalSpec;
use crate::config::problem::{Report, Spot, Wrong};
use crate::config::raw::Value;
use crate::engine::outbox::local::base_topic;
use crate::engine::spec::{PipelineSpec, StreamSpec};

use super::table::{Item, Table};

/// Checks the section.
pub(super) fn check(table: &Table<'_>, report: &mut Report) -> Option<LocalSpec> {
    let qos = table.integer("qos", 0..=1, report);
    let retain = match table.get("retain") {
        None => Some(false),
        Some(Item { value: Value::Bool(wanted), .. }) => Some(*wanted),
        Some(item) => {
            report.problem(&item.spot, Wrong::new("must be true or false"));
            None
        }
    };
    Some(LocalSpec { retain: retain?, acknowledged: qos? == 1 })
}

/// No stream may read what `[local]` writes: each result would make another one, for ever.
pub(super) fn check_loops(pipeline: &PipelineSpec, spot: &Spot, report: &mut Report) {
    let base = base_topic(pipeline);
    let levels = base.trim_end_matches('/');
    let topics = |stream: &StreamSpec| stream.topics.iter().map(|topic| topic.pattern.clone()).collect::<Vec<_>>();
    let reaching = |stream| Some((stream, topics(stream).into_iter().find(|topic| topic.reaches_below(levels))?));
    for (stream, topic) in pipeline.streams.iter().filter_map(reaching) {
        let wrong = format!("stream \"{}\" would read what is written there, {base}..., for ever", stream.name);
        let hint = format!("a `topic` that is narrower than \"{}\"", topic.filter());
        report.problem(spot, Wrong::new(wrong).hint(hint));
    }
}
