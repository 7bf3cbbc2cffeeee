//! What holds for every kind.

use super::*;
use crate::engine::states::StateTable;

/// Accumulators as a window of that definition has them.
fn wanted() -> Aggregates {
    Aggregates::of(Kind::ALL).with_histogram(&[0.0, 2.5]).with_quantiles(&[0.5, 1.0])
}

fn start(kind: Kind) -> Accumulator {
    let place = Kind::ALL.iter().position(|known| *known == kind).expect("listed");
    wanted().start().nth(place).expect("one for each")
}

fn accumulate(kind: Kind, values: &[(f64, i64)]) -> Accumulator {
    let mut accumulator = start(kind);
    for (value, at) in values {
        accumulator.add(*value, EventTime::from_millis(*at));
    }
    accumulator
}

/// The result under a window that ends at 50 ms.
fn finish<T>(accumulator: &Accumulator, look: impl Fn(&Finished<'_>) -> T) -> T {
    let (wanted, states) = (wanted(), StateTable::default());
    let finish = Finish { until: Some(EventTime::from_millis(50)), quantiles: wanted.quantiles(), states: &states };
    look(&accumulator.finish(&finish))
}

const VALUES: [(f64, i64); 4] = [(2.5, 30), (-1.0, 10), (4.0, 40), (0.25, 20)];

/// By word and, where there are several numbers, label.
const EXPECTED: [(&str, &str, f64); 19] = [
    ("count", "", 4.0),
    ("sum", "", 5.75),
    ("mean", "", 1.4375),
    ("min", "", -1.0),
    ("max", "", 4.0),
    ("first", "", -1.0),
    ("last", "", 4.0),
    ("range", "", 5.0),
    ("variance", "", 5.015_625),
    ("stddev", "", 2.239_559_108_396_114_6),
    ("quantiles", "0.5", 0.251_937_984_496_124),
    ("quantiles", "1", 4.0),
    ("distinct", "", 4.0),
    ("histogram", "le_0", 1.0),
    ("histogram", "le_2.5", 2.0),
    ("histogram", "gt_2.5", 1.0),
    // Each for 10 ms: (-1 + 0.25 + 2.5 + 4) / 4.
    ("time_weighted_mean", "", 1.4375),
    // 1.25 up from -1, 2.25, 1.5.
    ("increase", "", 5.0),
    ("rate", "", 5.0 / 0.03),
];

#[test]
fn every_aggregate_gives_the_plain_result_merges_and_survives_persistence() {
    for kind in Kind::ALL {
        let is_expected = EXPECTED.iter().any(|(word, _, _)| *word == kind.as_str());
        assert!(is_expected || *kind == Kind::Durations, "a new kind needs a line: {kind:?}");
    }
    for (word, label, result) in EXPECTED {
        let kind = Kind::parse(word).expect("listed");
        assert_eq!(Kind::from_tag(kind.tag()), Some(kind));
        let whole = accumulate(kind, &VALUES);
        assert_eq!(whole.kind(), kind);
        let number = |accumulator: &Accumulator| {
            finish(
                accumulator,
                |finished| if label.is_empty() { finished.as_number() } else { finished.labelled(label) },
            )
        };
        let is_close = |found: Option<f64>| found.is_some_and(|found| (found - result).abs() <= result.abs() * 1e-15);
        assert!(is_close(number(&whole)), "{word} {label}: {:?}", number(&whole));

        for split in 0..=VALUES.len() {
            let mut left = accumulate(kind, &VALUES[..split]);
            left.merge(&accumulate(kind, &VALUES[split..]));
            assert!(is_close(number(&left)), "{word} {label} merged at {split}: {:?}", number(&left));
        }

        let mut bytes = Vec::new();
        whole.write(&mut bytes);
        assert_eq!(kind.read(&mut Reader::new(&bytes)), Ok(whole), "{word}");
        for cut in 0..bytes.len() {
            assert_eq!(kind.read(&mut Reader::new(&bytes[..cut])), Err(Damaged), "{word} cut at {cut}");
        }
    }
}

#[test]
fn published_forms_merge_to_what_one_accumulator_over_all_has() {
    for kind in Kind::ALL.iter().copied().filter(|kind| !kind.is_order_dependent()) {
        for split in 0..=VALUES.len() {
            let parts = [&VALUES[..split], &VALUES[split..]];
            // Over JSON text, as a receiver gets it.
            let [pane, delta] = parts.map(|part| {
                let text = serde_json::to_string(&accumulate(kind, part).publish()).expect("plain");
                serde_json::from_str::<serde_json::Value>(&text).expect("JSON")
            });
            let merged = published::merge(kind, &pane, &delta).expect("of that kind");
            let whole = accumulate(kind, &VALUES);
            let show = |accumulator: &Accumulator| finish(accumulator, |finished| format!("{finished:?}"));
            if kind == Kind::Variance || kind == Kind::Stddev {
                let number = |accumulator: &Accumulator| {
                    finish(accumulator, |finished: &Finished<'_>| finished.as_number()).expect("of four values")
                };
                assert!((number(&merged) - number(&whole)).abs() <= 1e-14, "{kind:?} split at {split}");
            } else {
                assert_eq!(show(&merged), show(&whole), "{kind:?} split at {split}");
            }
        }
        for wrong in ["\"x\"", "[1]", "{}", "-1e999", "[[1,2]]"] {
            let Ok(wrong) = serde_json::from_str(wrong) else { continue };
            assert_eq!(kind.from_published(&wrong), Err(Malformed), "{kind:?}: {wrong}");
        }
    }
}

#[test]
fn the_order_dependent_kinds_publish_nothing() {
    for kind in Kind::ALL.iter().copied().filter(|kind| kind.is_order_dependent()) {
        assert_eq!(accumulate(kind, &VALUES).publish(), Published::Null, "{kind:?}");
    }
}

#[test]
fn nothing_in_means_no_result_but_for_the_count() {
    for kind in Kind::ALL {
        let expected = if *kind == Kind::Count { "Number(0.0)" } else { "Absent" };
        assert_eq!(finish(&start(*kind), |finished| format!("{finished:?}")), expected, "{}", kind.as_str());
        assert_eq!(start(*kind).held(), 0);
    }
}

#[test]
fn a_state_counts_for_the_kinds_that_are_of_states_and_no_others() {
    let mut states = StateTable::default();
    let [on, off] = ["on", "off"].map(|text| states.intern(text).expect("few"));
    let wanted = wanted();
    for mut accumulator in wanted.start() {
        for (place, at) in [(on, 10), (off, 20), (on, 30)] {
            accumulator.add_state(State { place, states: &states }, EventTime::from_millis(at), usize::MAX);
        }
        let finish = Finish { until: None, quantiles: wanted.quantiles(), states: &states };
        let of_states = [
            (Kind::Count, Finished::Number(3.0)),
            (Kind::Distinct, Finished::Number(2.0)),
            (Kind::Durations, Finished::Labelled(vec![("off", 10.0), ("on", 10.0)])),
        ];
        let expected = of_states.into_iter().find(|(kind, _)| *kind == accumulator.kind());
        let expected = expected.map_or(Finished::Absent, |(_, result)| result);
        assert_eq!(accumulator.finish(&finish), expected, "{:?}", accumulator.kind());
    }
}
