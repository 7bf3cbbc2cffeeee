//! Payloads from somebody who means harm, through every format with all its rules: nothing
//! panics, and nothing takes more memory than its bound. 300 damaged payloads of each format
//! in an ordinary run, a million with `TIDEGATE_FUZZ=full`.

use tidegate::config::check::check_for_replay;
use tidegate::engine::decode::{Decoder, Telling};
use tidegate::engine::fields::FieldTable;
use tidegate::engine::spec::StreamSpec;
use tidegate::model::limits::PAYLOAD_BYTES_MAX;
use tidegate::model::rng::Rng;

/// Beside 16 times the payload.
const ALLOWANCE: u64 = 64 * 1024;

/// The keys of a stream, and a payload to begin with.
const FORMATS: &[(&str, &[u8])] = &[
    (
        "format = 'json'\nexplode = ['', '/a/*']\nfields_at = '/v'",
        br#"{"v":{"t":1.5,"u":"2 V"},"a":[{"v":3,"ts":1}],"ts":1}"#,
    ),
    (
        "format = 'json'\nfields = { t = ['/t', '/u'], m = { pointer = '/m', type = 'state' } }",
        br#"{"ts":1,"t":1,"m":"on"}"#,
    ),
    ("format = 'raw'\nraw = { field = 'a/b', json = true, words = { on = 1 } }", b"29,87 \xc2\xb0C"),
    (
        "format = 'cbor'\nexplode = ['', '/a/*']",
        b"\xa3\x62ts\x01\x61t\xf9\x4c\xa0\x61a\x81\xa1\x61v\xc4\x82\x21\x19\x6a\xb3",
    ),
    ("format = 'senml-json'", include_bytes!("../fixtures/payloads/senml/004.payload")),
    ("format = 'senml-cbor'", include_bytes!("../fixtures/payloads/senml/005.payload")),
    ("format = 'influx'", include_bytes!("../fixtures/payloads/influx-lp/002.payload")),
    ("format = 'csv'", b"ts,t,u\n1,21.5,\"22\"\n2,,x\n"),
    ("format = 'teltonika'", include_bytes!("../fixtures/payloads/teltonika/002.payload")),
    ("format = 'milesight'", include_bytes!("../fixtures/payloads/milesight/002.payload")),
    ("format = 'ruuvi'", include_bytes!("../fixtures/payloads/ruuvi/001.payload")),
    ("format = 'sparkplug-b'", include_bytes!("../fixtures/payloads/sparkplug-b/001.payload")),
];

fn stream(keys: &str) -> StreamSpec {
    let fields = if keys.contains("fields = ") { "" } else { "fields = 'all'" };
    let text = format!(
        "gateway.id = 'g'\n[[streams]]\nname = 's'\ntopic = 'spBv1.0/{{group}}/{{type}}/{{node...}}'\n\
         device = '{{/t|/bn|node}}'\n{fields}\ntext_numbers = 'comma_units'\n{keys}\n\
         time = {{ field = '/ts', format = 'iso', unit = 's', missing = 'receive', bad = 'receive' }}\n"
    );
    check_for_replay(&text, "t.toml").unwrap_or_else(|refused| panic!("{keys}: {refused}")).config.streams.remove(0)
}

fn telling(payload: &[u8]) -> Telling<'_> {
    Telling { topic: "spBv1.0/g/NBIRTH/e", payload, field: "a/b", prefix: "" }
}

/// Decodes it by a decoder that has seen nothing, and holds the memory to its bound.
fn judge(spec: &StreamSpec, payload: &[u8], name: &str) {
    let mut decoder = Decoder::new(spec);
    let mut fields = FieldTable::new(&spec.mapping.fields);
    let used = allocation_counter::measure(|| {
        let batch = decoder.decode(telling(payload), &mut fields);
        assert!(batch.len() <= payload.len().max(1), "{name}");
    });
    let bound = 16 * payload.len() as u64 + ALLOWANCE;
    assert!(used.bytes_max <= bound, "{name}: {} bytes for a payload of {}", used.bytes_max, payload.len());
}

#[test]
fn damaged_payloads_of_every_format_neither_panic_nor_take_memory() {
    let rounds = if std::env::var("TIDEGATE_FUZZ").is_ok_and(|word| word == "full") { 1_000_000 } else { 300 };
    for (keys, seed) in FORMATS {
        let spec = stream(keys);
        for round in 0..rounds {
            let mut rng = Rng::new(round);
            let mut payload = seed.to_vec();
            for _ in 0..=rng.below(4) {
                let at = usize::try_from(rng.below(payload.len() as u64 + 1)).unwrap();
                match rng.below(5) {
                    0 => payload.truncate(at),
                    1 if at < payload.len() => payload[at] ^= 1 << rng.below(8),
                    2 if at < payload.len() => payload[at] = u8::try_from(rng.below(256)).unwrap(),
                    3 => payload.extend_from_slice(&payload.clone()[at..]),
                    _ => payload.insert(at, u8::try_from(rng.below(256)).unwrap()),
                }
            }
            judge(&spec, &payload, &format!("{keys}, round {round}"));
        }
    }
}

#[test]
fn payloads_at_the_limits_take_no_more_than_their_share() {
    let mut large: Vec<Vec<u8>> = Vec::new();
    for unit in [
        "[",
        "{\"a\":",
        "\u{81}",
        "{\"v\":1}\n",
        "[1,",
        "a,",
        "\"",
        "m v=1\n",
        "1,2,3\n",
        "\0",
        "9",
        "{\"a\":[{\"v\":1},",
    ] {
        large.push(unit.as_bytes().repeat(PAYLOAD_BYTES_MAX / unit.len()));
    }
    // CBOR: arrays, maps and texts that announce more than there is.
    for byte in [0x81, 0x9f, 0xbf, 0x9b, 0xbb, 0x7b, 0xc4, 0xd9, 0xff] {
        large.push(vec![byte; PAYLOAD_BYTES_MAX]);
    }
    let object: Vec<String> = (0..10_000).map(|number| format!("\"field-{number}\":{number}")).collect();
    large.push(format!("{{{}}}", object.join(",")).into_bytes());
    let records = "{\"t\":1},".repeat(30_000);
    large.push(format!("[{records}{{}}]").into_bytes());
    for (keys, _) in FORMATS {
        let spec = stream(keys);
        for payload in &large {
            judge(&spec, payload, keys);
        }
    }
}

#[test]
fn a_megabyte_of_nesting_is_refused_without_being_walked() {
    for (keys, _) in FORMATS {
        let spec = stream(keys);
        for unit in [b'[', b'{', 0x81, 0xa1, 0x9f, 0x0a] {
            judge(&spec, &vec![unit; 1024 * 1024], keys);
        }
        judge(&spec, &b"{\"a\":".repeat(200_000), keys);
    }
}
