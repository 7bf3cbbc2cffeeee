//! Arrival order within the bound does not change any result.

use tidegate::model::rng::Rng;

use crate::draw::{Case, Wishes, case, shuffle};
use crate::law;
use crate::run::{Run, spec};
use tidegate::engine::spec::Strategy;

#[test]
fn arrival_order_within_the_bound_changes_no_result() {
    law(|random| case(random, Wishes::InBound), holds);
}

fn holds(case: &Case) -> Result<(), String> {
    let Strategy::Bounded { disorder } = spec(&case.config).streams[0].watermark.strategy else {
        return Err("drawn otherwise".to_owned());
    };
    let mut other = case.clone();
    shuffle(&mut other.messages, &mut Rng::fork(case.seed, 99), disorder.as_millis());
    other.end = other.end.max(other.messages.last().map_or(0, |message| message.arrival));
    let (one, two) = (Run::of(case), Run::of(&other));
    if let Some(late) = one.rows.iter().chain(&two.rows).find(|row| row["kind"] == "late") {
        return Err(format!("late within the bound: {late}"));
    }
    let (one, two) = (one.results(), two.results());
    if one.keys().ne(two.keys()) {
        return Err(format!("other windows: {:?} and {:?}", one.keys(), two.keys()));
    }
    for (window, row) in &one {
        let other = two[window];
        if (&row["count"], &row["values"]) != (&other["count"], &other["values"]) {
            return Err(format!("{row}\n{other}"));
        }
    }
    Ok(())
}
