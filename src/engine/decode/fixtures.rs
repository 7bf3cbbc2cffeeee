//! The formats against `tests/fixtures/payloads`: each payload there has beside it what is
//! expected of it.

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::Value;

    use crate::engine::decode::time::read_decimal;
    use crate::engine::decode::visit::{Outcome, OwnTime, Scalar, Visit};
    use crate::engine::decode::{influx::Influx, senml_cbor, senml_json};
    use crate::engine::spec::TimeUnit;
    use crate::model::record::RejectReason;

    /// One record: its time where it is one since 1970, its numbers and its texts by path.
    #[derive(Default, Debug)]
    struct Told {
        millis: Option<i64>,
        numbers: BTreeMap<String, f64>,
        texts: Vec<String>,
    }

    #[derive(Default)]
    struct Collector {
        records: Vec<Told>,
        path: Vec<String>,
    }

    impl Visit for Collector {
        fn start_record(&mut self) {
            self.records.push(Told::default());
        }

        fn enter(&mut self, key: &str) -> bool {
            self.path.push(key.to_owned());
            true
        }

        fn leave(&mut self) {
            self.path.pop();
        }

        fn scalar(&mut self, value: Scalar<'_>) {
            let record = self.records.last_mut().expect("a record");
            let number = match value {
                Scalar::Number(digits) => digits.parse().expect("a number"),
                Scalar::Float(number) => number,
                Scalar::Int(number) => number as f64,
                Scalar::Uint(number) => number as f64,
                Scalar::Text(text) => return record.texts.push(text.to_owned()),
                Scalar::Bool(_) | Scalar::Null | Scalar::Opaque => return,
            };
            record.numbers.insert(self.path.join("."), number);
        }

        fn own_time(&mut self, time: OwnTime<'_>) {
            self.records.last_mut().expect("a record").millis = match time {
                OwnTime::Epoch(digits, TimeUnit::Nanos) => read_decimal(digits, -6),
                OwnTime::Millis(millis) => Some(millis),
                OwnTime::Epoch(..) | OwnTime::Relative(_) => None,
            };
        }

        fn reject_record(&mut self, _reason: RejectReason) {
            self.records.pop();
        }
    }

    /// Holds `format` to `expect`: a payload that is valid yields exactly the records, with the
    /// device's name in a text (`device` where the name is made in another way) and all fields.
    fn check(name: &str, payload: &[u8], expect: &str, format: fn(&[u8], &mut dyn Visit) -> Outcome) {
        let expect: Value = serde_json::from_str(expect).expect("JSON");
        let mut collector = Collector::default();
        let outcome = format(payload, &mut collector);
        assert_eq!(outcome.is_ok(), expect["valid"], "{name}: {outcome:?}");
        if outcome.is_err() {
            return;
        }
        let single = [expect.clone()];
        let events = expect["events"].as_array().map_or(single.as_slice(), Vec::as_slice);
        assert_eq!(collector.records.len(), events.len(), "{name}: {:?}", collector.records);
        for (told, event) in collector.records.iter().zip(events) {
            // A time in another unit than the format's is for the stream to say.
            if let Some(millis) = event["event_ms"].as_i64() {
                assert_eq!(told.millis, Some(millis), "{name}");
            }
            let device = expect["device"].as_str().expect("a name");
            assert!(told.texts.iter().any(|text| text == device), "{name}: {device} in {told:?}");
            for (field, number) in event["fields"].as_object().expect("fields") {
                assert_eq!(told.numbers.get(field).copied(), number.as_f64(), "{name}: {field} in {told:?}");
            }
        }
    }

    /// `fixtures![folder: number format, …]`
    macro_rules! fixtures {
        ($folder:literal: $($number:literal $format:expr),+ $(,)?) => {
            $(check(
                concat!($folder, "/", $number),
                include_bytes!(concat!("../../../tests/fixtures/payloads/", $folder, "/", $number, ".payload")),
                include_str!(concat!("../../../tests/fixtures/payloads/", $folder, "/", $number, ".expect.json")),
                $format,
            );)+
        };
    }

    #[test]
    fn senml_is_what_its_samples_expect() {
        fixtures!["senml":
            "001" senml_json::tell,
            "002" senml_json::tell,
            "004" senml_json::tell,
            "005" senml_cbor::tell,
            "007" senml_cbor::tell,
            "008" senml_cbor::tell,
        ];
    }

    #[test]
    fn line_protocol_is_what_its_samples_expect() {
        let influx: fn(&[u8], &mut dyn Visit) -> Outcome = |payload, visit| Influx::default().lines(payload, visit);
        fixtures!["influx-lp":
            "001" influx,
            "002" influx,
            "004" influx,
            "005" influx,
            "007" influx,
            "008" influx,
        ];
    }
}
