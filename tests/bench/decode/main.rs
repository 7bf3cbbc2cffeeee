//! What a payload costs to decode, by format: CPU time from bytes to records with fields and
//! times, without windows. `cargo bench --bench decode -- json` measures what begins so.
//!
//! Payloads are built here, 64 of each that differ in their digits; each is one record but
//! where the name says otherwise, and figures are per record.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../process.rs"]
mod process;

use std::fmt::Write as _;

use tidegate::config::check::check_for_replay;
use tidegate::engine::decode::{Decoder, Telling};
use tidegate::engine::fields::FieldTable;
use tidegate::engine::spec::StreamSpec;

use process::{cpu_time, figure};

const VARIANTS: u64 = 64;
const RECORDS: u64 = 2_000_000;

/// One figure: its name, the keys of the stream, records in a payload, the payload by number.
struct Case {
    name: &'static str,
    keys: &'static str,
    topic: &'static str,
    records: u64,
    payload: fn(u64) -> Vec<u8>,
}

const CASES: &[Case] = &[
    Case {
        name: "json1",
        keys: "fields = { t = '/t' }\ntime = { field = '/ts', unit = 'ms' }",
        topic: "d/x",
        records: 1,
        payload: |n| format!("{{\"ts\":{},\"t\":{}.5}}", at(n), n).into_bytes(),
    },
    Case {
        name: "json100",
        keys: "fields = { temperature = '/temperature', humidity = '/humidity' }\ntime = { field = '/time', format = 'rfc3339' }",
        topic: "d/x",
        records: 1,
        payload: |n| {
            let second = n % 60;
            let text = format!(
                "{{\"time\":\"2026-03-14T08:26:{second:02}.119Z\",\"temperature\":2{}.25,\"humidity\":4{}.5,\"unit\":\"C\",\"seq\":{}}}",
                n % 10,
                n % 10,
                100_000 + n
            );
            format!("{text:<100}").into_bytes()
        },
    },
    Case {
        name: "json10",
        keys: "fields = 'all'\ntime = { field = '/ts', unit = 's' }",
        topic: "d/x",
        records: 1,
        payload: |n| {
            let mut text = format!("{{\"ts\":{}.25", at(n) / 1_000);
            for field in 0..10 {
                write!(text, ",\"field{field}\":{}.{}", n + field, field).unwrap();
            }
            (text + "}").into_bytes()
        },
    },
    Case {
        name: "json_array10",
        keys: "fields = { t = '/t' }\ntime = { field = '/ts', unit = 'ms' }",
        topic: "d/x",
        records: 10,
        payload: |n| {
            let items: Vec<_> = (0..10).map(|item| format!("{{\"ts\":{},\"t\":{n}.5}}", at(n) + item)).collect();
            format!("[{}]", items.join(",")).into_bytes()
        },
    },
    Case {
        name: "raw",
        keys: "format = 'raw'\ntime = { source = 'receive' }",
        topic: "d/x",
        records: 1,
        payload: |n| format!("{}.75", 20 + n).into_bytes(),
    },
    Case {
        name: "influx",
        keys: "format = 'influx'\ntime = { source = 'payload' }",
        topic: "d/x",
        records: 1,
        payload: |n| format!("env,device=roof7 temp={n}.4,rh=51i {}000000", at(n)).into_bytes(),
    },
    Case {
        name: "csv",
        keys: "format = 'csv'\ncsv = { columns = ['time', 'temp', 'rh'] }\ntext_numbers = 'plain'\ntime = { field = '/time', unit = 's' }",
        topic: "d/x",
        records: 1,
        payload: |n| format!("{},{n}.4,51\n", at(n) / 1_000).into_bytes(),
    },
    Case {
        name: "senml_json7",
        keys: "format = 'senml-json'\ntime = { source = 'payload' }",
        topic: "d/x",
        records: 7,
        payload: |_| include_bytes!("../../fixtures/payloads/senml/002.payload").to_vec(),
    },
    Case {
        name: "senml_cbor4",
        keys: "format = 'senml-cbor'\ntime = { source = 'payload' }",
        topic: "d/x",
        records: 4,
        payload: |_| include_bytes!("../../fixtures/payloads/senml/005.payload").to_vec(),
    },
    Case {
        name: "cbor",
        keys: "format = 'cbor'\nfields = { t = '/t' }\ntime = { field = '/ts', unit = 'ms' }",
        topic: "d/x",
        records: 1,
        payload: |n| {
            let mut payload = b"\xa2\x62ts\x1b".to_vec();
            payload.extend(at(n).to_be_bytes());
            payload.extend(b"\x61t\xfb");
            payload.extend((n as f64 + 0.1).to_be_bytes());
            payload
        },
    },
    Case {
        name: "teltonika3",
        keys: "format = 'teltonika'\ntime = { source = 'payload' }",
        topic: "d/x",
        records: 3,
        payload: |_| include_bytes!("../../fixtures/payloads/teltonika/002.payload").to_vec(),
    },
    Case {
        name: "ruuvi",
        keys: "format = 'ruuvi'\ntime = { field = '/ts', unit = 's' }",
        topic: "d/x",
        records: 1,
        payload: |_| include_bytes!("../../fixtures/payloads/ruuvi/001.payload").to_vec(),
    },
    Case {
        name: "milesight2",
        keys: "format = 'milesight'\ntime = { source = 'payload', missing = 'receive' }",
        topic: "d/x",
        records: 2,
        payload: |_| include_bytes!("../../fixtures/payloads/milesight/002.payload").to_vec(),
    },
    Case {
        name: "sparkplug",
        keys: "format = 'sparkplug-b'\ndevice = '{node}'\ntime = { source = 'payload' }",
        topic: "spBv1.0/G1/NDATA/edge1",
        records: 1,
        payload: |n| {
            // A timestamp, and one metric by name: a double.
            let mut payload = vec![0x08];
            let mut rest = at(n);
            while rest > 0x7f {
                payload.push(u8::try_from(rest & 0x7f).unwrap() | 0x80);
                rest >>= 7;
            }
            payload.push(u8::try_from(rest).unwrap());
            payload.extend(b"\x12\x11\x0a\x04flow\x20\x0a\x69");
            payload.extend((n as f64).to_le_bytes());
            payload.extend([0x18, u8::try_from(n % 128).unwrap()]);
            payload
        },
    },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test` builds and starts benches too: then there is nothing to measure.
    if !words.iter().any(|word| word == "--bench") {
        return;
    }
    let wanted: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    for case in CASES {
        if wanted.is_empty() || wanted.iter().any(|word| case.name.starts_with(word)) {
            measure(case);
        }
    }
}

fn measure(case: &Case) {
    let spec = stream(case);
    let mut decoder = Decoder::new(&spec);
    let mut fields = FieldTable::new(&spec.mapping.fields);
    let payloads: Vec<Vec<u8>> = (0..VARIANTS).map(case.payload).collect();
    let mut run = |messages: u64| {
        let mut records = 0;
        for number in 0..messages {
            let payload = &payloads[usize::try_from(number % VARIANTS).unwrap()];
            let batch = decoder.decode(Telling { topic: case.topic, payload, field: "value", prefix: "" }, &mut fields);
            records += batch.iter().filter(|record| record.time.is_ok()).count() as u64;
        }
        records
    };
    let messages = RECORDS / case.records;
    assert_eq!(run(VARIANTS), VARIANTS * case.records, "{}: every record counts", case.name);
    run(messages / 10);
    let before = cpu_time();
    let records = run(messages);
    let spent = cpu_time().saturating_sub(before);
    let ns = spent.as_nanos() as f64 / records as f64;
    figure(&format!("decode.{}.cpu_ns_per_record", case.name), ns, "ns");
    let counted = allocation_counter::measure(|| _ = run(10_000));
    let per_message = counted.count_total as f64 / 10_000.0;
    figure(&format!("decode.{}.allocs_per_message", case.name), per_message, "1");
}

fn stream(case: &Case) -> StreamSpec {
    let topic = if case.topic.starts_with("sp") { "spBv1.0/{group}/{type}/{node...}" } else { "d/{device}" };
    let text = format!("gateway.id = 'g'\n[[streams]]\nname = 's'\ntopic = '{topic}'\n{}\n", case.keys);
    check_for_replay(&text, "bench.toml")
        .unwrap_or_else(|refused| panic!("{}: {refused}", case.name))
        .config
        .streams
        .remove(0)
}

/// A moment in milliseconds.
fn at(number: u64) -> u64 {
    1_773_480_413_000 + number * 100
}
