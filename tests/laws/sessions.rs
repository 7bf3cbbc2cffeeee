//! Sessions are what a naive merge of all readings gives. Bounds and content are
//! compared, not ids.

use std::collections::BTreeMap;

use tidegate::engine::spec::{KeySpec, WindowKind};

use crate::draw::{Case, Wishes, case};
use crate::law;
use crate::run::{Run, spec};

#[test]
fn sessions_are_what_a_naive_merge_gives() {
    law(|random| case(random, Wishes::Sessions), holds);
}

fn holds(case: &Case) -> Result<(), String> {
    let run = Run::of(case);
    let found: BTreeMap<_, (u64, f64)> = run
        .results()
        .into_iter()
        .map(|(window, row)| (window, (row["count"].as_u64().unwrap(), row["values"]["v"]["sum"].as_f64().unwrap())))
        .collect();
    let mut expected = BTreeMap::new();
    for window in &spec(&case.config).streams[0].windows {
        let WindowKind::Session { gap, .. } = window.kind else { return Err("drawn otherwise".to_owned()) };
        let gap = i64::try_from(gap.as_millis()).unwrap();
        let mut by_key: BTreeMap<String, Vec<(i64, f64)>> = BTreeMap::new();
        for message in &case.messages {
            let key = match window.key {
                KeySpec::Device => format!("device{}", message.device),
                KeySpec::Group => format!("site{}", message.site),
                KeySpec::Stream => "*".to_owned(),
            };
            by_key.entry(key).or_default().push((message.ts, message.value));
        }
        for (key, mut readings) in by_key {
            readings.sort_by_key(|(ts, _)| *ts);
            for session in readings.chunk_by(|(left, _), (right, _)| right - left <= gap) {
                let bounds = (session[0].0, session[session.len() - 1].0 + gap);
                let sum = session.iter().map(|(_, value)| value).sum::<f64>();
                expected.insert(
                    (key.clone(), window.name.as_str().to_owned(), bounds.0, bounds.1),
                    (session.len() as u64, sum),
                );
            }
        }
    }
    if found == expected { Ok(()) } else { Err(format!("found    {found:?}\nexpected {expected:?}")) }
}
