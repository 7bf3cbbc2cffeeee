//! Laws: what holds for every configuration and every trace. One file per law.
//!
//! Cases are drawn in `draw.rs`, as the text of a configuration and as messages: a new
//! setting is one line there, and all laws are about it from then on. `LAWS_SEEDS=5000
//! cargo test --release --test laws` looks further than CI does. A case that breaks a law
//! is cut down to few messages before it is shown; its seed draws it again.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod books;
mod draw;
mod isolation;
mod order;
mod reconfigured;
mod restart;
mod run;
mod sessions;
mod watermarks;

use draw::Case;
use tidegate::model::rng::Rng;

const SEEDS: u64 = 150;

/// Checks a law on many cases. The same ones each time.
fn law(draw: impl Fn(&mut Rng) -> Case, holds: impl Fn(&Case) -> Result<(), String>) {
    let seeds = std::env::var("LAWS_SEEDS").map_or(SEEDS, |seeds| seeds.parse().unwrap());
    for seed in 0..seeds {
        let case = draw(&mut Rng::new(seed));
        if holds(&case).is_err() {
            let small = shrunk(case, &holds);
            let why = holds(&small).unwrap_err();
            panic!("seed {seed}: {why}\n{}\n{:#?}", small.config, small.messages);
        }
    }
}

/// The case without the messages that it does not need to break the law.
fn shrunk(mut case: Case, holds: &impl Fn(&Case) -> Result<(), String>) -> Case {
    let mut piece = case.messages.len().div_ceil(2);
    while piece > 0 {
        let mut from = 0;
        while from < case.messages.len() {
            let mut smaller = case.clone();
            let to = (from + piece).min(smaller.messages.len());
            smaller.messages.drain(from..to);
            if holds(&smaller).is_err() {
                case = smaller;
            } else {
                from += piece;
            }
        }
        piece /= 2;
    }
    case
}
