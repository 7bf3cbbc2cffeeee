//! How a time field is written: `unit`, or `format` with what belongs to it.

use crate::config::check::scalar;
use crate::config::check::table::Table;
use crate::config::problem::{Report, Wrong, nearest};
use crate::config::raw::Value;
use crate::engine::decode::time::{PatternZone, check_pattern};
use crate::engine::spec::{GapPolicy, OverlapPolicy, TimeFormat, ZonedRules};

const FORMATS: &str = "\"rfc3339\", \"iso\" or a pattern such as \"%d.%m.%Y %H:%M:%S\"";
const ZONE: &str = "zone = \"Europe/Berlin\", or \"UTC\"";

/// What the text of `format` says.
enum Written {
    Rfc3339,
    Iso,
    Pattern(String, PatternZone),
}

/// The format of the fields of `table`.
pub(super) fn check(table: &Table<'_>, report: &mut Report) -> Option<TimeFormat> {
    match (table.get("unit"), table.get("format")) {
        (Some(_), None) => {
            refuse(table, &["zone", "gap", "overlap"], "has no effect with `unit`: it counts from 1970 in UTC", report);
            super::unit(table, report).map(TimeFormat::Epoch)
        }
        (Some(item), Some(format)) if !matches!(format.value, Value::Text(word) if word == "iso") => {
            report.problem(&item.spot, Wrong::new("`unit` and `format` exclude each other").hint(super::EXAMPLE));
            None
        }
        (unit, Some(_)) => {
            let unit = if unit.is_some() { Some(super::unit(table, report)?) } else { None };
            let offset = match table.parsed("format", FORMATS, report, written) {
                Some(Written::Rfc3339) => {
                    Some((TimeFormat::Rfc3339, "has no effect with \"rfc3339\": it has an offset"))
                }
                Some(Written::Pattern(pattern, PatternZone::Said)) => {
                    let format = TimeFormat::Pattern { pattern, zone: None };
                    Some((format, "has no effect: the pattern says the offset"))
                }
                Some(Written::Iso) => {
                    let zone = if has_zone(table, report) { Some(zone(table, report)?) } else { None };
                    return Some(TimeFormat::Iso { zone, unit });
                }
                Some(Written::Pattern(pattern, PatternZone::Needed)) => {
                    if has_zone(table, report) {
                        return Some(TimeFormat::Pattern { pattern, zone: Some(zone(table, report)?) });
                    }
                    let wrong = Wrong::new("is missing: the pattern has no offset (`%z`, `%:z`)");
                    report.problem(&table.spot_of("zone"), wrong.hint(ZONE));
                    None
                }
                None => {
                    if has_zone(table, report) {
                        let _ = zone(table, report);
                    }
                    None
                }
            };
            let (format, why) = offset?;
            refuse(table, &["zone", "gap", "overlap"], why, report);
            Some(format)
        }
        (None, None) => {
            let wrong = Wrong::new("has neither `unit` nor `format`: a unit is never guessed");
            report.problem(&table.spot(), wrong.hint("unit = \"s\", unit = \"ms\" or format = \"rfc3339\""));
            None
        }
    }
}

fn written(text: &str) -> Result<Written, Wrong> {
    match text {
        "rfc3339" => Ok(Written::Rfc3339),
        "iso" => Ok(Written::Iso),
        pattern if pattern.contains('%') => match check_pattern(pattern) {
            Ok(zone) => Ok(Written::Pattern(pattern.to_owned(), zone)),
            Err(why) => Err(Wrong::new(why).hint("such as \"%d.%m.%Y %H:%M:%S\"")),
        },
        "s" | "ms" | "us" | "ns" => Err(Wrong::new(format!("must be {FORMATS}")).hint(format!("unit = \"{text}\""))),
        word => {
            let wrong = Wrong::new(format!("must be {FORMATS}"));
            Err(match nearest(word, ["rfc3339", "iso"]) {
                Some(near) => wrong.hint(format!("did you mean \"{near}\"?")),
                None => wrong,
            })
        }
    }
}

/// Whether there is a zone; what only belongs to one is reported otherwise.
fn has_zone(table: &Table<'_>, report: &mut Report) -> bool {
    let is_there = table.get("zone").is_some();
    if !is_there {
        refuse(table, &["gap", "overlap"], "has no effect without `zone`", report);
    }
    is_there
}

fn zone(table: &Table<'_>, report: &mut Report) -> Option<ZonedRules> {
    let zone = table.parsed("zone", "a time zone", report, scalar::zone);
    let gap = table.choice("gap", &[("reject", GapPolicy::Reject), ("forward", GapPolicy::Forward)], report);
    let words = [("earlier", OverlapPolicy::Earlier), ("later", OverlapPolicy::Later)];
    let overlap = table.choice("overlap", &words, report);
    Some(ZonedRules { zone: zone?, gap: gap?, overlap: overlap? })
}

fn refuse(table: &Table<'_>, keys: &[&str], why: &str, report: &mut Report) {
    for item in keys.iter().filter_map(|key| table.get(key)) {
        report.problem(&item.spot, Wrong::new(why).hint("remove it"));
    }
}
