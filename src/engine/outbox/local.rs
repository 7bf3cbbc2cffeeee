//! Results for the devices' own broker: panes, rows of joins and single readings, each once
//! it is durable, under the topic `<prefix>/<gw>/local/` and the record's id without its time.
//!
//! Best effort: what cannot be published at once is dropped by the shell and counted. What
//! was made before the start of this process is not published again; the cloud gets it.

use crate::model::ids::push_escaped;

use super::Outbox;
use super::row::{PaneKind, Row};
use crate::engine::encode::record_json;
use crate::engine::spec::PipelineSpec;
use crate::engine::step::{Effect, LocalRecord};

/// Takes its turn after each commit.
#[derive(Clone, Debug)]
pub(in crate::engine) struct Local {
    gateway: String,
    base: String,
    /// Rows before this have had their turn.
    order: u64,
}

impl Local {
    /// `None` when the configuration does not want it.
    pub(in crate::engine) fn new(spec: &PipelineSpec) -> Option<Local> {
        let gateway = spec.gateway.as_str().to_owned();
        spec.local.then(|| Local { gateway, base: base_topic(spec), order: 0 })
    }

    /// With what is in the outbox already as published.
    pub(in crate::engine) fn after(self, outbox: &Outbox) -> Local {
        Local { order: outbox.next_order(), ..self }
    }

    /// Everything in the outbox is durable now: what is new goes out.
    pub(in crate::engine) fn publish(&mut self, outbox: &Outbox, perform: &mut dyn FnMut(Effect)) {
        for (_, _, seq, row) in outbox.rows_since(self.order) {
            if let Some(topic) = self.topic(&row) {
                perform(Effect::PublishLocal(LocalRecord { topic, payload: record_json(&self.gateway, seq, &row) }));
            }
        }
        self.order = outbox.next_order();
    }

    /// `None` for what is no result.
    fn topic(&self, row: &Row<'_>) -> Option<String> {
        let [stream, window, key] = match row {
            Row::Pane(pane, _) if pane.pane == PaneKind::Delta => return None,
            Row::Pane(pane, _) => [pane.stream, pane.window, pane.key],
            Row::Join(join, _) => ["join", join.join, join.key],
            Row::Pair(pair) => ["join", pair.join, pair.key],
            Row::Record(record, _) => [record.stream, "", record.key],
            Row::Late(..) | Row::Gap(..) | Row::Alarm(_) => return None,
        };
        let mut topic = self.base.clone();
        for (index, level) in [stream, window, key].into_iter().enumerate() {
            if index > 0 {
                topic.push('/');
            }
            push_escaped(&mut topic, level).expect("memory does not fail");
        }
        Some(topic)
    }
}

/// What all of these topics begin with.
pub fn base_topic(spec: &PipelineSpec) -> String {
    let mut base = format!("{}/", spec.topic_prefix);
    push_escaped(&mut base, spec.gateway.as_str()).expect("memory does not fail");
    base + "/local/"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::driver::Driver;
    use crate::engine::memory_store::{MemoryStore, memory_store};
    use crate::engine::ring::{Packing, Ring};
    use crate::engine::spec::{CommitSpec, Records, StreamSpec, WindowKind, WindowSpec};
    use crate::engine::step::{DeliveryTag, Event, Message};
    use crate::model::ids::Name;
    use crate::model::template::Template;
    use crate::model::time::{ClockQuality, Now, ProcTime, Span, WallTime};
    use crate::model::topic::TopicPattern;

    fn name(text: &str) -> Name {
        Name::new(text).unwrap()
    }

    /// Windows of one second and single readings, by receive time.
    fn spec() -> PipelineSpec {
        let topic = TopicPattern::parse("s/{device}").unwrap();
        let device = Template::parse("{device}", &topic).unwrap();
        let kind = WindowKind::Tumbling { size: Span::from_secs(1), offset_ms: 0 };
        let stream = StreamSpec {
            records: Records::Arrival,
            windows: vec![WindowSpec::new(name("1 s"), kind)],
            ..StreamSpec::new(name("climate"), topic, device)
        };
        PipelineSpec {
            local: true,
            commit: CommitSpec { interval: Span::from_secs(1), snapshot_interval: Span::from_secs(60), budget: None },
            ..PipelineSpec::new(name("gw 1"), vec![stream])
        }
    }

    fn at(millis: u64) -> Now {
        let wall = WallTime::from_millis(1_700_000_000_000 + i64::try_from(millis).unwrap());
        Now { proc: ProcTime::from_millis(millis), wall, quality: ClockQuality::Synced }
    }

    /// What the driver allows at this moment: `ack`, and the topics of local records.
    fn effects(driver: &mut Driver<MemoryStore>, millis: u64) -> Vec<String> {
        let mut seen = Vec::new();
        driver.advance(at(millis), &mut |effect| {
            seen.push(match effect {
                Effect::Ack(_) => "ack".to_owned(),
                Effect::PublishLocal(record) => {
                    let payload: serde_json::Value = serde_json::from_slice(&record.payload).unwrap();
                    format!("{} {}", payload["kind"].as_str().unwrap(), record.topic)
                }
                Effect::Tell { .. } | Effect::Publish(_) | Effect::Command(_) | Effect::Replayed(_) => {
                    panic!("nobody asked for it")
                }
            });
        });
        seen
    }

    fn take(driver: &mut Driver<MemoryStore>, millis: u64) {
        let tag = Some(DeliveryTag { connection: 1, packet: u16::try_from(millis + 1).unwrap() });
        let message = Message { topic: "s/a+b", payload: b"{\"v\":1}", retain: false, dup: false, tag };
        driver.handle(at(millis), Event::Message(message));
    }

    #[test]
    fn results_go_out_once_and_only_when_they_are_durable() {
        let mut driver = Driver::start(spec(), memory_store(), at(0)).unwrap();
        take(&mut driver, 100);
        assert_eq!(effects(&mut driver, 200), [""; 0], "not committed");
        assert_eq!(effects(&mut driver, 1_200), ["ack", "record tidegate/gw%201/local/climate//a%2Bb"]);
        take(&mut driver, 7_000);
        let expected =
            ["ack", "record tidegate/gw%201/local/climate//a%2Bb", "pane tidegate/gw%201/local/climate/1%20s/a%2Bb"];
        let mut seen = effects(&mut driver, 8_000);
        seen.sort_by_key(|effect| expected.iter().position(|known| known == effect));
        assert_eq!(seen, expected);
        assert_eq!(effects(&mut driver, 9_500), [""; 0], "once");

        let slots = driver.into_store().into_slots().reopen();
        let mut driver = Driver::start(spec(), Ring::new(slots, Packing::NONE), at(10_000)).unwrap();
        assert_eq!(effects(&mut driver, 11_500), [""; 0], "the outbox remembers, the display has seen it");
    }
}
