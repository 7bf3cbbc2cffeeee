//! How payloads of a stream become records: where they begin, what their numbers look like.

use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::engine::spec::{FieldsSpec, MappingSpec, NumberRules, RecordsPattern, TimeSpec};
use crate::model::limits::RECORD_PATTERNS_MAX;
use crate::model::template::PayloadText;

use super::table::Table;

/// What `text_numbers` may be.
const TEXT_NUMBERS: [(&str, Option<NumberRules>); 5] = [
    ("off", None),
    ("plain", Some(NumberRules { decimal_comma: false, units: false })),
    ("comma", Some(NumberRules { decimal_comma: true, units: false })),
    ("units", Some(NumberRules { decimal_comma: false, units: true })),
    ("comma_units", Some(NumberRules { decimal_comma: true, units: true })),
];

/// Puts together what was read.
pub(super) fn check(
    table: &Table<'_>,
    fields: Option<FieldsSpec>,
    time: Option<TimeSpec>,
    texts: Option<Vec<PayloadText>>,
    is_csv: bool,
    report: &mut Report,
) -> Option<MappingSpec> {
    let records = explode(table, report);
    // Cells are texts: without a word about it, those that are numbers are numbers.
    let text_numbers = match table.get("text_numbers") {
        None => Some(TEXT_NUMBERS[usize::from(is_csv)].1),
        Some(_) => table.choice("text_numbers", &TEXT_NUMBERS, report),
    };
    let (records, texts) = (records?, texts?);
    for text in &texts {
        if let PayloadText::Key(number) = text
            && records.iter().all(|pattern| pattern.stars() <= *number)
        {
            let wrong = Wrong::new(format!("`{{*{}}}` is used, and no place has so many `*`", number + 1));
            report.problem(&table.spot_of("explode"), wrong.hint("explode = \"/*/*\""));
        }
    }
    Some(MappingSpec { fields: fields?, time: time?, records, text_numbers: text_numbers?, texts })
}

fn explode(table: &Table<'_>, report: &mut Report) -> Option<Vec<RecordsPattern>> {
    let Some(item) = table.get("explode") else { return Some(Vec::new()) };
    let items = item.one_or_more(1..=RECORD_PATTERNS_MAX, report)?;
    let pattern = |item: &super::table::Item<'_>, report: &mut Report| {
        if matches!(item.value, Value::Text(text) if text.is_empty()) {
            return RecordsPattern::parse("");
        }
        item.parsed("a JSON Pointer in which `*` is any key", report, |text| {
            let wrong = || Wrong::new("must be a JSON Pointer in which `*` is any key, or \"\": the payload itself");
            RecordsPattern::parse(text).ok_or_else(|| wrong().hint("\"/readings/*\""))
        })
    };
    let patterns: Vec<_> = items.iter().filter_map(|item| pattern(item, report)).collect();
    (patterns.len() == items.len()).then_some(patterns)
}
