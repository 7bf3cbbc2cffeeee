//! Stopping and starting at any point changes nothing: the same rows, byte for byte.

use tidegate::model::rng::Rng;

use crate::draw::{Case, Wishes, case};
use crate::law;
use crate::run::Run;

#[test]
fn a_restart_at_any_point_changes_nothing() {
    law(|random| case(random, Wishes::Any), holds);
}

fn holds(case: &Case) -> Result<(), String> {
    let (mut plain, mut restarted) = (Run::new(&case.config), Run::new(&case.config));
    let mut random = Rng::fork(case.seed, 98);
    for (number, message) in (1..).zip(&case.messages) {
        if random.chance(6) {
            restarted.restart(&case.config);
        }
        plain.take(message);
        restarted.take(message);
        if let Some((one, other)) = plain.rows.iter().zip(&restarted.rows).find(|(one, other)| one != other) {
            return Err(format!("after message {number}:\n{one}\n{other}"));
        }
        if plain.rows.len() != restarted.rows.len() {
            return Err(format!("after message {number}: {} and {} rows", plain.rows.len(), restarted.rows.len()));
        }
    }
    Ok(())
}
