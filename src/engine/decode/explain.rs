//! A guess, for a person, at why a payload was rejected. For logs, samples of rejected
//! payloads and `tidegate decode` only: it allocates and reads the payload again.

use crate::engine::spec::{StreamSpec, TimeFormat, TimeSpec};
use crate::model::record::RejectReason;

use super::visit::{OwnTime, Scalar, Visit};
use super::{Telling, format, time};

/// What the times of the payload's first record with any are, as they stand there.
#[derive(Default)]
struct Stamps {
    path: Vec<String>,
    /// Members by JSON Pointer from the top of the record; no more than `MEMBERS_MAX`.
    members: Vec<(String, String)>,
    own: Option<(String, TimeFormat)>,
    records: usize,
}

const MEMBERS_MAX: usize = 256;

/// A guess at why a payload was rejected for `reason`.
pub fn explain(spec: &StreamSpec, payload: &[u8], reason: RejectReason) -> Option<&'static str> {
    let mut stamps = Stamps::default();
    let telling = Telling { topic: "", payload, field: "value", prefix: "" };
    // What was told before a fault says enough.
    let _ = format(spec, &[], 0).tell(telling, &mut stamps);
    match &spec.mapping.time {
        TimeSpec::Receive => None,
        TimeSpec::Own { unit, .. } => {
            let (digits, told) = stamps.own?;
            let format = unit.map_or(told, TimeFormat::Epoch);
            time::hint(reason, &format, &digits)
        }
        TimeSpec::Fields { candidates, .. } => {
            let raw = |pointer: &str| stamps.members.iter().find(|(known, _)| known == pointer);
            let there: Vec<_> = candidates
                .iter()
                .map(|candidate| (candidate, raw(&candidate.pointer).map_or("", |(_, raw)| raw.as_str())))
                .collect();
            // As the reader: the first that is there, or one that says that none is.
            let said = there.iter().find(|(candidate, raw)| !raw.is_empty() && time::is_said(&candidate.format, raw));
            let (candidate, raw) =
                said.or_else(|| there.iter().find(|(_, raw)| !raw.is_empty())).or_else(|| there.first())?;
            if stamps.records == 0 && reason != RejectReason::MissingTime {
                return None;
            }
            time::hint(reason, &candidate.format, raw)
        }
    }
}

impl Visit for Stamps {
    fn start_record(&mut self) {
        self.records += 1;
        self.path.clear();
    }

    fn enter(&mut self, key: &str) -> bool {
        if self.members.len() == MEMBERS_MAX {
            return false;
        }
        self.path.push(key.replace('~', "~0").replace('/', "~1"));
        true
    }

    fn leave(&mut self) {
        self.path.pop();
    }

    fn scalar(&mut self, value: Scalar<'_>) {
        let raw = match value {
            Scalar::Number(text) | Scalar::Text(text) => text.to_owned(),
            Scalar::Float(number) => number.to_string(),
            Scalar::Int(number) => number.to_string(),
            Scalar::Uint(number) => number.to_string(),
            Scalar::Bool(truth) => truth.to_string(),
            Scalar::Null | Scalar::Opaque => return,
        };
        let pointer = format!("/{}", self.path.join("/"));
        self.members.push((pointer, raw));
    }

    fn own_time(&mut self, own: OwnTime<'_>) {
        let stamp = match own {
            OwnTime::Epoch(digits, unit) => (digits.to_owned(), TimeFormat::Epoch(unit)),
            OwnTime::Millis(millis) => (millis.to_string(), TimeFormat::Epoch(crate::engine::spec::TimeUnit::Millis)),
            OwnTime::Relative(_) => return,
        };
        self.own = self.own.take().or(Some(stamp));
    }

    fn reject_record(&mut self, _: RejectReason) {}
}
