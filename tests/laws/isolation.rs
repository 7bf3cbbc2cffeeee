//! Under scope `device`, what one device sends changes nothing of another one: its rows
//! are those that it would have alone.

use serde_json::Value;

use crate::draw::{Case, Wishes, case};
use crate::law;
use crate::run::Run;

#[test]
fn a_device_is_alone_under_scope_device() {
    law(|random| case(random, Wishes::EachDevice), holds);
}

fn holds(case: &Case) -> Result<(), String> {
    let together = Run::of(case);
    for device in 0..5 {
        let mut alone = case.clone();
        alone.messages.retain(|message| message.device == device);
        let alone = Run::of(&alone);
        let name = format!("device{device}");
        let of = |run: &Run| -> Vec<Value> {
            let rows = run.rows.iter().filter(|row| row["key"] == name.as_str());
            let numbered = |row: &Value| {
                let mut row = row.clone();
                row["seq"] = Value::Null;
                row
            };
            rows.map(numbered).collect()
        };
        let (together, alone) = (of(&together), of(&alone));
        if together != alone {
            let at = together.iter().zip(&alone).take_while(|(one, other)| one == other).count();
            return Err(format!("{name}, among others and alone:\n{:?}\n{:?}", together.get(at), alone.get(at)));
        }
    }
    Ok(())
}
