//! A watermark never decreases: not by a record, not by a restart, not by a changed
//! configuration.

use std::collections::BTreeMap;

use tidegate::model::rng::Rng;
use tidegate::model::time::EventTime;

use crate::draw::{Case, Wishes, case, config};
use crate::law;
use crate::run::Run;

#[test]
fn a_watermark_never_decreases() {
    law(|random| case(random, Wishes::Any), holds);
}

fn holds(case: &Case) -> Result<(), String> {
    let mut run = Run::new(&case.config);
    let mut highest: BTreeMap<u64, EventTime> = BTreeMap::new();
    let mut random = Rng::fork(case.seed, 97);
    let mut what = "at first".to_owned();
    for (number, message) in (1..).zip(&case.messages) {
        if random.chance(12) {
            let other = config(random.next_u64(), Wishes::Any, 3_000);
            run.restart(if random.chance(2) { &case.config } else { &other });
            what = format!("since the restart before message {number}, perhaps as {other}");
        }
        run.take(message);
        for device in 0..5 {
            let name = format!("device{device}");
            let Some(watermark) = run.driver.engine().device(0, &name).and_then(|device| device.watermark) else {
                if highest.contains_key(&device) {
                    return Err(format!("message {number}: {name} has none any more, {what}"));
                }
                continue;
            };
            let before = highest.insert(device, watermark);
            if before.is_some_and(|before| before > watermark) {
                return Err(format!("message {number}: {name} goes back from {before:?} to {watermark:?}, {what}"));
            }
        }
    }
    Ok(())
}
