//! Teltonika trackers on MQTT: packets of Codec 8, or what their firmware makes of them as
//! JSON, `{"state":{"reported":{"ts":1713970366000,"sp":63,"66":13800}}}`. Both come on the
//! same topic; a packet never begins with a brace.

use super::json::Json;
use super::visit::{Outcome, OwnTime, Scalar, Visit};
use super::{Format, Telling, teltonika};
use crate::engine::spec::TimeUnit;
use crate::model::record::RejectReason;

/// Where the JSON form has the record's own time, in milliseconds.
const TIME: [&str; 3] = ["state", "reported", "ts"];

/// The format, with its buffer.
#[derive(Clone, Debug, Default)]
pub(super) struct Teltonika {
    json: Json,
}

impl Format for Teltonika {
    fn tell(&mut self, telling: Telling<'_>, visit: &mut dyn Visit) -> Outcome {
        if telling.payload.trim_ascii_start().starts_with(b"{") {
            return self.json.tell(telling, &mut Timed { visit, depth: 0, on_path: 0, unwanted: 0 });
        }
        teltonika::tell(telling.payload, visit)
    }
}

/// Passes everything on, and the time beside it.
struct Timed<'v> {
    visit: &'v mut dyn Visit,
    depth: usize,
    /// So many levels lead to the time.
    on_path: usize,
    /// So many levels are of no interest to anybody but this.
    unwanted: usize,
}

impl Visit for Timed<'_> {
    fn start_record(&mut self) {
        (self.depth, self.on_path, self.unwanted) = (0, 0, 0);
        self.visit.start_record();
    }

    fn enter(&mut self, key: &str) -> bool {
        let leads_on = self.on_path == self.depth && TIME.get(self.depth).is_some_and(|level| *level == key);
        let wanted = self.unwanted == 0 && self.visit.enter(key);
        if !wanted && !leads_on {
            return false;
        }
        self.unwanted += usize::from(!wanted);
        self.depth += 1;
        self.on_path += usize::from(leads_on);
        true
    }

    fn leave(&mut self) {
        self.depth -= 1;
        self.on_path = self.on_path.min(self.depth);
        if self.unwanted > 0 {
            self.unwanted -= 1;
        } else {
            self.visit.leave();
        }
    }

    fn scalar(&mut self, value: Scalar<'_>) {
        if self.on_path == TIME.len() && self.depth == TIME.len() {
            match value {
                Scalar::Number(digits) | Scalar::Text(digits) => {
                    self.visit.own_time(OwnTime::Epoch(digits, TimeUnit::Millis));
                }
                Scalar::Float(_)
                | Scalar::Int(_)
                | Scalar::Uint(_)
                | Scalar::Bool(_)
                | Scalar::Null
                | Scalar::Opaque => {}
            }
        }
        if self.unwanted == 0 {
            self.visit.scalar(value);
        }
    }

    fn tree(&mut self) {
        if self.unwanted == 0 {
            self.visit.tree();
        }
    }

    fn own_time(&mut self, time: OwnTime<'_>) {
        self.visit.own_time(time);
    }

    fn reject_record(&mut self, reason: RejectReason) {
        self.visit.reject_record(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::super::visit::spy::told;
    use super::*;

    fn read(payload: &[u8]) -> String {
        let mut format = Teltonika::default();
        told(|visit| format.tell(Telling { topic: "t", payload, field: "value", prefix: "" }, visit))
    }

    #[test]
    fn the_json_form_has_its_time_too() {
        let payload = br#"{"state":{"reported":{"ts":1713970366000,"latlng":"50.25,10.5","66":13800}},"ts":7}"#;
        assert_eq!(
            read(payload),
            "record @1713970366000ms state.reported.ts=1713970366000 state.reported.latlng=\"50.25,10.5\" \
             state.reported.66=13800 ts=7"
        );
    }

    #[test]
    fn packets_are_read_as_before() {
        let packet = include_bytes!("../../../tests/fixtures/payloads/teltonika/001.payload");
        assert!(read(packet).starts_with("record @1713970366000ms"));
    }
}
