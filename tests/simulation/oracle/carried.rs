//! What devices said last: all that they ever said, looked through each time.

use std::collections::BTreeMap;

use super::cell::Taken;
use super::stream::StreamState;
use crate::devices::{Datum, Reading};

/// By device: time, field and value of what was accepted, as it came.
#[derive(Clone, Debug, Default)]
pub(super) struct Carried {
    said: BTreeMap<String, Vec<(i64, &'static str, Datum)>>,
}

impl Carried {
    /// What an accepted record said, and nothing that was completed.
    pub(super) fn remember(&mut self, sent: &Taken<'_>) {
        let said = self.said.entry(sent.device.to_owned()).or_default();
        said.extend(sent.reading.values.iter().map(|(field, value)| (sent.at, *field, value.clone())));
    }

    /// The state of the device has ended.
    pub(super) fn forget(&mut self, device: &str) {
        self.said.remove(device);
    }

    /// The newest value of each field; of those with one time the last that came.
    fn newest(&self, device: &str) -> BTreeMap<&'static str, (i64, &Datum)> {
        let mut newest = BTreeMap::new();
        for (at, field, value) in self.said.get(device).into_iter().flatten() {
            let known = newest.entry(*field).or_insert((*at, value));
            if known.0 <= *at {
                *known = (*at, value);
            }
        }
        newest
    }
}

impl StreamState {
    /// A record with what its device said before, of the fields that it lacks.
    pub(super) fn complete(&self, sent: &Taken<'_>) -> Reading {
        let mut reading = sent.reading.clone();
        let Some(age_max) = self.spec.carry_forward else { return reading };
        if reading.values.is_empty() {
            return reading;
        }
        for (field, (at, value)) in self.carried.newest(sent.device) {
            let age = i128::from(sent.at) - i128::from(at);
            if (0..=i128::from(age_max.as_millis())).contains(&age) {
                reading.values.entry(field).or_insert_with(|| value.clone());
            }
        }
        reading
    }
}
