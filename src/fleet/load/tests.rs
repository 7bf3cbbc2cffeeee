//! What a fleet sends, and when.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn spec(wire: &str) -> LoadSpec {
    LoadSpec {
        seed: 1,
        devices: 20,
        start: EventTime::from_millis(1_700_000_000_000),
        duration: Some(SECOND * 60),
        period: SECOND,
        disorder: Duration::ZERO,
        gaps: (Share::NONE, SECOND * 10),
        burst: 1,
        stragglers: (Share::NONE, SECOND * 20),
        skew: (Share::NONE, Duration::ZERO),
        noise: Share::NONE,
        wire: wire.parse().unwrap(),
    }
}

fn half() -> Share {
    Share::per_million(500_000)
}

/// Milliseconds from the start to the time in a payload of `tidegate-json`.
fn event_ms(shipment: &Shipment) -> Option<i64> {
    let value: serde_json::Value = serde_json::from_slice(&shipment.payload).ok()?;
    value["ts"].as_i64().map(|ts| ts - 1_700_000_000_000)
}

/// From the measurement to the sending.
fn delays(spec: LoadSpec) -> Vec<i64> {
    let delay = |shipment: Shipment| {
        let sent = i64::try_from(shipment.at.as_millis()).unwrap();
        event_ms(&shipment).map(|event| sent - event)
    };
    Load::new(spec).filter_map(delay).collect()
}

#[test]
fn one_seed_is_one_run_and_another_seed_is_another() {
    let run = |seed| Load::new(LoadSpec { seed, disorder: SECOND, ..spec("mixed") }).collect::<Vec<_>>();
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    assert!(run(3).is_sorted_by_key(|shipment| shipment.at));
}

#[test]
fn without_disorder_every_device_sends_once_per_period_when_it_measures() {
    let mut times: BTreeMap<u32, Vec<Duration>> = BTreeMap::new();
    for shipment in Load::new(spec("tidegate-json")) {
        times.entry(shipment.device).or_default().push(shipment.at);
    }
    assert_eq!(times.len(), 20);
    for times in times.values() {
        assert_eq!(times.len(), 60);
        assert!(times.windows(2).all(|pair| pair[1] == pair[0] + SECOND));
    }
    assert!(delays(spec("tidegate-json")).iter().all(|delay| *delay == 0));
}

#[test]
fn disorder_delays_up_to_its_bound_and_loses_nothing() {
    let delays = delays(LoadSpec { disorder: SECOND * 3, ..spec("tidegate-json") });
    assert_eq!(delays.len(), 20 * 60);
    assert!(delays.iter().all(|delay| (0..=3_000).contains(delay)));
    assert!(delays.iter().any(|delay| *delay > 2_500));
}

#[test]
fn stragglers_come_exactly_so_much_later_and_never_after_the_end() {
    let late = |share| {
        let spec = LoadSpec { stragglers: (share, SECOND * 20), ..spec("tidegate-json") };
        let last = Load::new(spec.clone()).last().unwrap().at;
        assert!(last < SECOND * 60);
        delays(spec).iter().filter(|delay| **delay == 20_000).count()
    };
    assert_eq!(late(Share::NONE), 0);
    assert!((300..500).contains(&late(half())), "half of those of the first 40 s");
}

#[test]
fn a_gap_ends_in_a_burst_and_loses_nothing_of_a_device_that_keeps() {
    let with = LoadSpec { gaps: (half(), SECOND * 10), ..spec("tidegate-json") };
    let shipments: Vec<Shipment> = Load::new(with).collect();
    assert_eq!(shipments.iter().filter(|shipment| event_ms(shipment).is_some()).count(), 20 * 60);
    let words: Vec<&Shipment> = shipments.iter().filter(|shipment| shipment.topic.ends_with("/status")).collect();
    let offline: BTreeSet<u32> = words.iter().map(|word| word.device).collect();
    assert!((4..=16).contains(&offline.len()), "about half of them: {offline:?}");
    for word in words.iter().filter(|word| word.payload == b"online") {
        let burst = shipments.iter().filter(|shipment| shipment.device == word.device && shipment.at == word.at);
        assert!(burst.count() > 1, "something was kept");
    }
    let (gone, back) = (b"offline".as_slice(), b"online".as_slice());
    let count = |said: &[u8]| words.iter().filter(|word| word.payload == said).count();
    assert_eq!(count(gone), count(back), "whoever is gone comes back, at the end at last");
}

#[test]
fn a_gap_longer_than_the_run_ends_with_the_run() {
    let with = LoadSpec { gaps: (Share::per_million(1_000_000), SECOND * 600), ..spec("tidegate-json") };
    let shipments: Vec<Shipment> = Load::new(with).collect();
    assert_eq!(shipments.iter().filter(|shipment| event_ms(shipment).is_some()).count(), 20 * 60);
    assert_eq!(shipments.last().unwrap().at, SECOND * 60);
}

#[test]
fn a_burst_sends_so_many_at_once_and_the_rest_at_the_end() {
    let shipments: Vec<Shipment> = Load::new(LoadSpec { burst: 25, ..spec("tidegate-json") }).collect();
    let mut bursts: BTreeMap<(u32, Duration), usize> = BTreeMap::new();
    for shipment in &shipments {
        *bursts.entry((shipment.device, shipment.at)).or_default() += 1;
    }
    let of_first: Vec<usize> = bursts.iter().filter(|((device, _), _)| *device == 0).map(|(_, len)| *len).collect();
    assert_eq!(of_first, [25, 25, 10]);
    assert_eq!(shipments.len(), 20 * 60);
}

#[test]
fn a_share_of_devices_without_a_skew_is_the_run_without_it() {
    let with = LoadSpec { skew: (half(), Duration::ZERO), ..spec("mixed") };
    assert!(Load::new(with).eq(Load::new(spec("mixed"))));
}

#[test]
fn clocks_that_are_off_stay_off_by_the_same_and_within_the_bound() {
    let with = LoadSpec { skew: (half(), SECOND * 90), ..spec("tidegate-json") };
    let mut off: BTreeMap<u32, BTreeSet<i64>> = BTreeMap::new();
    for shipment in Load::new(with) {
        let sent = i64::try_from(shipment.at.as_millis()).unwrap();
        off.entry(shipment.device).or_default().insert(event_ms(&shipment).unwrap() - sent);
    }
    assert!(off.values().all(|offs| offs.len() == 1));
    let offs: Vec<i64> = off.values().flatten().copied().collect();
    assert!(offs.iter().all(|off| off.abs() <= 90_000));
    assert!((3..=17).contains(&offs.iter().filter(|off| **off != 0).count()));
    assert!(offs.iter().any(|off| *off > 0) && offs.iter().any(|off| *off < 0));
}

#[test]
fn a_run_without_an_end_goes_on_and_keeps_its_pace() {
    let endless = LoadSpec { duration: None, gaps: (half(), SECOND * 10), ..spec("mixed") };
    let last = Load::new(endless).nth(100_000).unwrap();
    assert!(last.at > SECOND * 600, "{:?}", last.at);
}

#[test]
fn a_rate_is_that_of_messages_whatever_a_measurement_makes_of_them() {
    for name in Wire::names() {
        let wire: Wire = name.parse().unwrap();
        let devices = 200;
        let period = wire.period(devices, 5_000);
        let with = LoadSpec { devices, period, duration: Some(SECOND * 4), ..spec(name) };
        let sent = Load::new(with).count();
        assert!((19_000..=21_000).contains(&sent), "{name}: {sent} messages in 4 s");
    }
    let tiny: Wire = "tidegate-json".parse().unwrap();
    assert_eq!(tiny.period(10, 40_000), Duration::from_micros(250));
}

#[test]
fn noise_comes_beside_the_measurements() {
    let count = |noise| Load::new(LoadSpec { noise, ..spec("tidegate-json") }).count();
    assert_eq!(count(Share::NONE), 1_200);
    assert!((1_700..1_900).contains(&count(half())));
}

#[test]
fn devices_of_every_make_keep_apart_in_large_fleets() {
    for name in Wire::names().filter(|name| *name != "mixed") {
        let wire: Wire = name.parse().unwrap();
        let (system, _) = wire.system(0);
        let measured = Measured { at: EventTime::from_millis(0), number: 1, warmth: 1.0, share: 1.0, chance: 0 };
        let mut of_topic: BTreeMap<String, u32> = BTreeMap::new();
        for device in 0..3_000 {
            for message in system.write(device, &[measured]) {
                let first = *of_topic.entry(message.topic.clone()).or_insert(device);
                // One bridge may speak for several.
                assert!(first == device || name == "ruuvi", "{name}: {} is of {first} and {device}", message.topic);
            }
        }
    }
}

#[test]
fn an_unknown_format_is_answered_with_those_there_are() {
    let error = "xml".parse::<Wire>().unwrap_err();
    for name in ["tidegate-json", "tasmota", "teltonika", "mixed"] {
        assert!(error.contains(name), "{error}");
    }
}
