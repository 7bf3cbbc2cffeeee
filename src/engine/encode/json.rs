//! The envelope as JSON, written straight into the payload: no tree, no
//! intermediate strings but the id.
//!
//! Times are integer milliseconds. A number that is whole is written without a
//! fraction; others with the shortest form that reads back to the same float.

use std::io::Write;

use serde_json::ser::{CompactFormatter, Formatter};

use super::{ENVELOPE_VERSION, Envelope};
use crate::engine::outbox::LaneKind;
use crate::engine::outbox::row::{AlarmRow, GapRow, LateRow, PaneRow, PaneValues, RawValues, Row};
use crate::model::ids::push_escaped;
use crate::model::record::TimeSource;
use crate::model::time::EventTime;

/// Whole numbers up to 2^53 are exact as floats.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// The payload of one batch.
pub fn envelope<'a>(
    envelope: &Envelope<'_>,
    epoch: u64,
    lane: LaneKind,
    rows: impl Iterator<Item = (u64, Row<'a>)>,
) -> Vec<u8> {
    let mut out = Writer { bytes: Vec::with_capacity(4 * 1024), id: String::new() };
    out.raw("{\"v\":");
    out.number(u64::from(ENVELOPE_VERSION));
    out.raw(",\"gw\":");
    out.text(envelope.gateway);
    out.raw(",\"epoch\":");
    out.number(epoch);
    out.raw(",\"lane\":");
    out.text(lane.as_str());
    out.raw(",\"records\":[");
    for (place, (seq, row)) in rows.enumerate() {
        if place > 0 {
            out.raw(",");
        }
        out.row(envelope.gateway, seq, &row);
    }
    out.raw("]}");
    out.bytes
}

/// One record as it stands in the envelope.
pub fn record(gateway: &str, seq: u64, row: &Row<'_>) -> Vec<u8> {
    let mut out = Writer { bytes: Vec::with_capacity(256), id: String::new() };
    out.row(gateway, seq, row);
    out.bytes
}

struct Writer {
    bytes: Vec<u8>,
    id: String,
}

impl Writer {
    fn row(&mut self, gateway: &str, seq: u64, row: &Row<'_>) {
        match row {
            Row::Pane(row, values) => self.pane(gateway, seq, row, *values),
            Row::Late(row, values) => self.late(gateway, seq, row, *values),
            Row::Gap(row) => self.gap(gateway, seq, row),
            Row::Alarm(row) => self.alarm(gateway, seq, row),
        }
    }

    fn pane(&mut self, gateway: &str, seq: u64, row: &PaneRow<'_>, values: PaneValues<'_>) {
        self.raw("{\"kind\":\"pane\",\"id\":");
        self.id([gateway, row.stream, row.window, row.key], row.start);
        self.field("rev", u64::from(row.revision));
        self.field("seq", seq);
        self.source(row.stream, row.window, row.key);
        self.time("start_ms", Some(row.start));
        self.time("end_ms", Some(row.end));
        self.word("pane", row.pane.as_str());
        self.time("watermark_ms", row.watermark);
        self.field("count", row.count);
        self.raw(",\"values\":{");
        for (place, (name, results)) in values.fields().enumerate() {
            if place > 0 {
                self.raw(",");
            }
            self.text(name);
            self.raw(":{");
            for (place, (kind, result)) in results.enumerate() {
                if place > 0 {
                    self.raw(",");
                }
                self.text(kind.as_str());
                self.raw(":");
                self.float(result);
            }
            self.raw("}");
        }
        self.raw("}");
        self.word("time_source", source_word(row.source));
        self.word("time_quality", row.quality.as_str());
        self.raw(if row.partial { ",\"partial\":true" } else { ",\"partial\":false" });
        self.raw(",\"replaces\":[]}");
    }

    fn late(&mut self, gateway: &str, seq: u64, row: &LateRow<'_>, values: RawValues<'_>) {
        self.raw("{\"kind\":\"late\",\"id\":");
        self.id([gateway, row.stream, row.window, row.key], row.event);
        self.field("seq", seq);
        self.source(row.stream, row.window, row.key);
        self.time("event_ms", Some(row.event));
        self.time("received_ms", Some(row.received.as_event_time()));
        self.word("reason", row.reason.as_str());
        self.field("lag_ms", row.lag.as_millis());
        self.raw(",\"values\":{");
        for (place, (name, value)) in values.fields().enumerate() {
            if place > 0 {
                self.raw(",");
            }
            self.text(name);
            self.raw(":");
            self.float(Some(value));
        }
        self.raw("}");
        self.word("time_source", source_word(row.source));
        self.word("time_quality", row.quality.as_str());
        self.raw("}");
    }

    fn gap(&mut self, gateway: &str, seq: u64, row: &GapRow) {
        self.raw("{\"kind\":\"gap\",\"id\":");
        self.id([gateway, "gap", "", ""], row.oldest);
        self.field("seq", seq);
        self.field("first_seq", row.first_seq);
        self.field("count", row.records);
        self.time("start_ms", Some(row.oldest));
        self.time("end_ms", Some(row.newest));
        self.word("reason", "evicted");
        self.raw("}");
    }

    fn alarm(&mut self, gateway: &str, seq: u64, row: &AlarmRow<'_>) {
        self.raw("{\"kind\":\"alarm\",\"id\":");
        self.id([gateway, "alarm", row.code, ""], row.at.as_event_time());
        self.field("seq", seq);
        self.time("at_ms", Some(row.at.as_event_time()));
        self.word("code", row.code);
        self.word("text", row.text);
        self.raw("}");
    }

    fn source(&mut self, stream: &str, window: &str, key: &str) {
        self.word("stream", stream);
        self.word("window", window);
        self.word("key", key);
    }

    fn id(&mut self, parts: [&str; 4], time: EventTime) {
        let mut id = core::mem::take(&mut self.id);
        id.clear();
        for part in parts {
            push_escaped(&mut id, part);
            id.push('/');
        }
        // Escaped parts need no further escaping in JSON.
        self.raw("\"");
        self.raw(&id);
        write!(self.bytes, "{}", time.as_millis()).expect("memory does not fail");
        self.raw("\"");
        self.id = id;
    }

    fn raw(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn name(&mut self, name: &str) {
        self.raw(",\"");
        self.raw(name);
        self.raw("\":");
    }

    fn field(&mut self, name: &str, value: u64) {
        self.name(name);
        self.number(value);
    }

    fn number(&mut self, value: u64) {
        CompactFormatter.write_u64(&mut self.bytes, value).expect("memory does not fail");
    }

    fn time(&mut self, name: &str, time: Option<EventTime>) {
        self.name(name);
        match time {
            Some(time) => CompactFormatter.write_i64(&mut self.bytes, time.as_millis()).expect("memory does not fail"),
            None => self.raw("null"),
        }
    }

    fn word(&mut self, name: &str, word: &str) {
        self.name(name);
        self.text(word);
    }

    fn text(&mut self, text: &str) {
        serde_json::to_writer(&mut self.bytes, text).expect("text is always JSON, memory does not fail");
    }

    fn float(&mut self, value: Option<f64>) {
        match value {
            None => self.raw("null"),
            #[expect(clippy::cast_possible_truncation, reason = "whole and within the range of i64")]
            Some(value)
                if value.fract() == 0.0 && value.abs() < WHOLE_MAX && !(value == 0.0 && value.is_sign_negative()) =>
            {
                CompactFormatter.write_i64(&mut self.bytes, value as i64).expect("memory does not fail");
            }
            Some(value) => CompactFormatter.write_f64(&mut self.bytes, value).expect("memory does not fail"),
        }
    }
}

fn source_word(source: TimeSource) -> &'static str {
    match source {
        TimeSource::Device => "device",
        TimeSource::Receive => "receive",
    }
}
