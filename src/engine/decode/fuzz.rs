//! Every format against damaged payloads: nothing panics, and what is told keeps to the
//! contract of [`Visit`](super::visit::Visit), whatever the bytes.
//!
//! 2,000 payloads per format in an ordinary run, 1,000,000 with `TIDEGATE_FUZZ=full`. The
//! seed of a payload that fails is printed; a new format is one line in `FORMATS`.

#[cfg(test)]
mod tests {
    use crate::engine::decode::csv::Csv;
    use crate::engine::decode::influx::Influx;
    use crate::engine::decode::number::is_json_number;
    use crate::engine::decode::raw::Raw;
    use crate::engine::decode::visit::{Outcome, OwnTime, Scalar, Visit};
    use crate::engine::decode::{Format, Telling, cbor, senml_cbor, senml_json};
    use crate::engine::spec::{CsvSpec, RawSpec};
    use crate::model::limits::PAYLOAD_BYTES_MAX;
    use crate::model::record::RejectReason;
    use crate::model::rng::Rng;

    type Tell = fn(&[u8], &mut dyn Visit) -> Outcome;

    /// Name, payloads to begin with, what reads them.
    const FORMATS: &[(&str, &[&[u8]], Tell)] = &[
        ("raw", RAW, tell_raw),
        ("cbor", CBOR, cbor::tell),
        ("influx", INFLUX, |payload, visit| tell_with(&mut Influx::default(), payload, visit)),
        ("csv", CSV, |payload, visit| tell_with(&mut Csv::new(&csv_spec(&["time", "", "temp"])), payload, visit)),
        ("csv_header", CSV, |payload, visit| tell_with(&mut Csv::new(&csv_spec(&[])), payload, visit)),
        ("senml_json", SENML_JSON, senml_json::tell),
        ("senml_cbor", SENML_CBOR, senml_cbor::tell),
    ];

    const RAW: &[&[u8]] = &[b"23.4", b"+0.49E+01", "29,87 °C".as_bytes(), b"ON", b"nan", b"{\"a\":1}", b"\"x\""];

    const CBOR: &[&[u8]] = &[
        b"\xa2\x61t\xf9\x4c\xa0\x62io\xa2\x18\x42\x19\x35\xe8\x20\x82\xf5\xf6",
        b"\x9f\xbf\x61t\x02\xff\x07\xa1\x7f\x61a\x61b\xff\xc4\x82\x21\x19\x6a\xb3\xff",
        b"\xa3\x61a\xc2\x43\x01\x00\x00\x61b\xc5\x82\x20\x03\xc4\x80\xd9\xd9\xf7\x5f\x41a\xff",
        b"\xa1\x61v\xfb\x3f\xf1\x99\x99\x99\x99\x99\x9a",
    ];

    const INFLUX: &[&[u8]] = &[
        include_bytes!("../../../tests/fixtures/payloads/influx-lp/002.payload"),
        include_bytes!("../../../tests/fixtures/payloads/influx-lp/005.payload"),
        include_bytes!("../../../tests/fixtures/payloads/influx-lp/008.payload"),
        b"m v=1 1\r\n# note\n\nm,t=a\\,b v=.5,s=\"a \\\\ \\\" b\"\n",
    ];

    const CSV: &[&[u8]] = &[
        b"time,unit,temp\r\n1713970366,C,21.5\r\n1713970367,,\"22\"\r\n",
        b"\xef\xbb\xbfa,b,c\n\"x \"\"y\"\"\n, z\", 2 ,3",
    ];

    const SENML_JSON: &[&[u8]] = &[
        include_bytes!("../../../tests/fixtures/payloads/senml/001.payload"),
        include_bytes!("../../../tests/fixtures/payloads/senml/002.payload"),
        include_bytes!("../../../tests/fixtures/payloads/senml/004.payload"),
    ];

    const SENML_CBOR: &[&[u8]] = &[
        include_bytes!("../../../tests/fixtures/payloads/senml/005.payload"),
        include_bytes!("../../../tests/fixtures/payloads/senml/007.payload"),
    ];

    fn csv_spec(columns: &[&str]) -> CsvSpec {
        CsvSpec { columns: columns.iter().map(|name| (*name).to_owned()).collect(), separator: b',' }
    }

    fn tell_raw(payload: &[u8], visit: &mut dyn Visit) -> Outcome {
        let words = vec![("on".to_owned(), 1.0)];
        tell_with(&mut Raw::new(&RawSpec { words, ..RawSpec::default() }), payload, visit)
    }

    fn tell_with(format: &mut dyn Format, payload: &[u8], visit: &mut dyn Visit) -> Outcome {
        format.tell(Telling { topic: "t", payload, field: "a/b", prefix: "" }, visit)
    }

    /// Holds a format to the contract.
    struct Judge {
        /// Refuses one tree in three: what is passed over must not be told.
        rng: Rng,
        depth: usize,
        /// A record has begun and was not rejected.
        open: bool,
        /// A place was entered, and its value is yet to come.
        expects_value: bool,
    }

    impl Visit for Judge {
        fn start_record(&mut self) {
            assert_eq!(self.depth, 0, "a record begins at the top");
            self.open = true;
        }

        fn enter(&mut self, _key: &str) -> bool {
            assert!(self.open, "a member belongs to a record");
            let taken = !self.rng.chance(3);
            self.depth += usize::from(taken);
            self.expects_value = taken;
            taken
        }

        fn leave(&mut self) {
            assert!(self.depth > 0, "as many leaves as enters");
            self.depth -= 1;
        }

        fn scalar(&mut self, value: Scalar<'_>) {
            assert!(self.expects_value, "one value for a place");
            self.expects_value = false;
            if let Scalar::Number(digits) = value {
                assert!(is_json_number(digits), "{digits:?} is no number of JSON");
            }
        }

        fn own_time(&mut self, _time: OwnTime<'_>) {
            assert!(self.open && self.depth == 0, "a time belongs to a record, not to its members");
        }

        fn reject_record(&mut self, _reason: RejectReason) {
            assert!(self.open && self.depth == 0, "a record ends at the top, once");
            self.open = false;
        }
    }

    fn judge(name: &str, format: Tell, payload: &[u8], seed: u64) {
        let caught = std::panic::catch_unwind(|| {
            let mut judge = Judge { rng: Rng::new(seed), depth: 0, open: false, expects_value: false };
            if format(payload, &mut judge).is_ok() {
                assert_eq!(judge.depth, 0, "as many leaves as enters");
            }
        });
        assert!(caught.is_ok(), "{name}, seed {seed}: {:?}", &payload[..payload.len().min(400)]);
    }

    #[test]
    fn damaged_payloads_break_nothing() {
        let runs = if std::env::var("TIDEGATE_FUZZ").is_ok_and(|word| word == "full") { 1_000_000 } else { 2_000 };
        for (name, seeds, format) in FORMATS {
            for seed in *seeds {
                judge(name, *format, seed, 0);
            }
            for seed in 0..runs {
                judge(name, *format, &damaged(seeds, seed), seed);
            }
        }
    }

    #[test]
    #[should_panic(expected = "canary, seed 7")]
    fn a_format_that_breaks_the_contract_is_caught() {
        let canary: Tell = |_, visit| {
            visit.start_record();
            visit.leave();
            Ok(())
        };
        judge("canary", canary, b"", 7);
    }

    #[test]
    fn a_megabyte_of_anything_breaks_nothing() {
        let units: [&[u8]; 14] = [
            b"[",
            b"{\"a\":",
            b"\x81",
            b"\x9f",
            b"\xa1\x00",
            b"\xbf\x61a",
            b"\xc4",
            b"\xd9\xd9\xf7",
            b"\"",
            b"\\",
            b",",
            b"a=",
            b"1",
            b"\xff",
        ];
        for (name, seeds, format) in FORMATS {
            for (number, unit) in (0..).zip(units) {
                judge(name, *format, &unit.repeat(4 * PAYLOAD_BYTES_MAX / unit.len()), number);
            }
            for (number, seed) in (0..).zip(*seeds) {
                judge(name, *format, &seed.repeat(PAYLOAD_BYTES_MAX / seed.len().max(1)), number);
            }
        }
    }

    /// One of `seeds` after one to six injuries.
    fn damaged(seeds: &[&[u8]], seed: u64) -> Vec<u8> {
        let mut rng = Rng::new(seed);
        let mut payload = pick(&mut rng, seeds).to_vec();
        for _ in 0..rng.between(1, 6) {
            let from = place(&mut rng, payload.len());
            let to = from + place(&mut rng, payload.len() - from);
            match rng.below(7) {
                0 if !payload.is_empty() => {
                    let at = from.min(payload.len() - 1);
                    payload[at] ^= 1 << rng.below(8);
                }
                1 => payload.truncate(from),
                2 => drop(payload.drain(from..to)),
                3 => {
                    let other = pick(&mut rng, seeds);
                    let cut = place(&mut rng, other.len());
                    payload.splice(from..to, other[cut..].iter().copied());
                }
                4 => {
                    let part = payload[from..to].repeat(usize::try_from(rng.between(1, 40)).expect("small"));
                    payload.splice(from..from, part);
                }
                5 => payload.insert(from, *pick(&mut rng, b"\0\x1b\"\\,;= \n\r#{}[]\x9f\xbf\xc2\xc4\xfb\xff-+.e0")),
                _ => payload.insert(from, rng.next_u64().to_le_bytes()[0]),
            }
            payload.truncate(16 * 1024);
        }
        payload
    }

    fn place(rng: &mut Rng, len: usize) -> usize {
        usize::try_from(rng.below(len as u64 + 1)).expect("within a payload")
    }

    fn pick<'l, T>(rng: &mut Rng, list: &'l [T]) -> &'l T {
        &list[usize::try_from(rng.below(list.len() as u64)).expect("within a list")]
    }
}
