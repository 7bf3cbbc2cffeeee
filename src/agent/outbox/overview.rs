//! What the outbox holds, in numbers, as one JSON document.

use serde_json::{Value, json};

use crate::engine::encode::record_json;
use crate::engine::outbox::{DeadLetter, Overview, row};

/// Version of the document.
const VERSION: u32 = 1;

/// The document. `damage` and `adopted`: what was found when the files were read.
pub fn document(overview: &Overview, gateway: &str, damage: &[String], adopted: u64) -> Value {
    let published = (overview.day_bytes > 0).then(|| json!({"day": date(overview.day), "bytes": overview.day_bytes}));
    let letters: Vec<Value> = overview.dead_letters.iter().map(|letter| dead_letter(letter, gateway)).collect();
    json!({
        "v": VERSION,
        "gw": gateway,
        "epoch": overview.epoch,
        "published": published,
        "lanes": overview.lanes,
        "dead_letters": letters,
        "faults": overview.faults,
        "damage": damage,
        "adopted_blocks": adopted,
    })
}

fn dead_letter(letter: &DeadLetter, gateway: &str) -> Value {
    let record = row::read(&letter.row).ok().map(|row| record_json(gateway, letter.seq, &row));
    let record: Option<Value> = record.and_then(|text| serde_json::from_slice(&text).ok());
    json!({
        "lane": letter.lane.as_str(),
        "epoch": letter.epoch,
        "seq": letter.seq,
        "reason": letter.reason.as_str(),
        "record": record,
    })
}

/// The date of a day since 1970.
fn date(day: i64) -> Option<String> {
    let midnight = jiff::Timestamp::from_second(day.checked_mul(86_400)?).ok()?;
    Some(midnight.strftime("%Y-%m-%d").to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_dates_and_impossible_ones_have_none() {
        assert_eq!(date(0).as_deref(), Some("1970-01-01"));
        assert_eq!(date(20_787).as_deref(), Some("2026-11-30"));
        assert_eq!(date(i64::MAX), None);
    }
}
