//! What the devices, times and values of a stream are: what state must not be taken over past.

use crate::config::raw::Value;
use crate::engine::spec::Meaning;
use crate::model::ids::Name;

use super::keys::{Need, STREAM};
use super::table::Table;

/// Keys that say it of all values. Not among them: topics, for devices may move, and whatever
/// decides only which readings count. Nor groups: another label is another group.
const OF_ALL: [&str; 10] =
    ["device", "format", "model", "raw", "csv", "explode", "prefix", "fields_at", "text_numbers", "time"];
/// Tables that say it of each field.
const OF_FIELDS: [&str; 2] = ["fields", "compute"];

/// As it is written, presets expanded.
pub(super) fn of(stream: &Table<'_>) -> Meaning {
    let mut whole = Vec::new();
    for key in OF_ALL {
        let written = stream.get(key).map(|item| item.value.fingerprint());
        whole.push(written.unwrap_or_else(|| default(key)));
    }
    let mut meaning = Meaning::default();
    for key in OF_FIELDS {
        match stream.get(key).map(|item| item.value) {
            Some(Value::Table(entries)) => {
                for entry in entries {
                    if let Some(name) = Name::new(&entry.key) {
                        meaning.fields.insert(name, entry.node.value.fingerprint());
                    }
                }
            }
            Some(other) => whole.push(other.fingerprint()),
            None => whole.push(default(key)),
        }
    }
    // 0 is "not known".
    meaning.whole = combined(&whole).max(1);
    meaning
}

/// Of a key that is not there.
fn default(key: &str) -> u64 {
    match STREAM.key(key).map(|key| key.need) {
        Some(Need::Default(text)) => Value::Text(text.to_owned()).fingerprint(),
        Some(Need::Required | Need::ToRun | Need::Optional | Need::Derived(_)) | None => 0,
    }
}

/// FNV-1a over the numbers.
fn combined(numbers: &[u64]) -> u64 {
    let bytes = numbers.iter().flat_map(|number| number.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
