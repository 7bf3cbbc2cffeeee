//! `format` of a stream: how payloads are written.

use crate::config::problem::{Report, Wrong};
use crate::config::raw::Value;
use crate::engine::decode::milesight::Model;
use crate::engine::spec::{CsvSpec, FormatSpec, RawSpec};
use crate::model::limits::{FIELDS_MAX, NAME_BYTES};

use super::keys;
use super::table::{Item, Table};

/// Words of one raw format.
pub(super) const WORDS_MAX: usize = 64;

/// Every word that `format` may be.
#[derive(Clone, Copy)]
enum Word {
    Plain(fn() -> FormatSpec),
    Raw,
    Csv,
    Milesight,
}

const WORDS: [(&str, Word); 11] = [
    ("json", Word::Plain(|| FormatSpec::Json)),
    ("raw", Word::Raw),
    ("cbor", Word::Plain(|| FormatSpec::Cbor)),
    ("senml-json", Word::Plain(|| FormatSpec::SenmlJson)),
    ("senml-cbor", Word::Plain(|| FormatSpec::SenmlCbor)),
    ("influx", Word::Plain(|| FormatSpec::Influx)),
    ("csv", Word::Csv),
    ("teltonika", Word::Plain(|| FormatSpec::Teltonika)),
    ("milesight", Word::Milesight),
    ("ruuvi", Word::Plain(|| FormatSpec::Ruuvi)),
    ("sparkplug-b", Word::Plain(|| FormatSpec::SparkplugB)),
];

/// The format, and how single values are called where it has them.
pub(super) fn check<'t>(table: &Table<'t>, report: &mut Report) -> Option<(FormatSpec, Option<Item<'t>>)> {
    let word = table.choice("format", &WORDS, report);
    let owns = |key: &str, word: Word| match word {
        Word::Plain(_) => false,
        Word::Raw => key == "raw",
        Word::Csv => key == "csv",
        Word::Milesight => key == "model",
    };
    for key in ["raw", "csv", "model"] {
        if let Some(item) = table.get(key)
            && word.is_some_and(|word| !owns(key, word))
        {
            let format = if key == "model" { "milesight" } else { key };
            let wrong = Wrong::new(format!("has no effect without format = \"{format}\""));
            report.problem(&item.spot, wrong.hint("remove one of them"));
        }
    }
    match word? {
        Word::Plain(format) => Some((format(), None)),
        Word::Raw => raw(table, report),
        Word::Milesight => {
            let models = Model::ALL.map(|model| (model.as_str(), model));
            let model = if table.has("model") { table.choice("model", &models, report)? } else { Model::Auto };
            Some((FormatSpec::Milesight(model), None))
        }
        Word::Csv => csv(table, report).map(|spec| (FormatSpec::Csv(spec), None)),
    }
}

fn raw<'t>(stream: &Table<'t>, report: &mut Report) -> Option<(FormatSpec, Option<Item<'t>>)> {
    let Some(item) = stream.get("raw") else { return Some((FormatSpec::Raw(RawSpec::default()), None)) };
    let table = Table::open_item(&item, &keys::RAW, report)?;
    let missing = match table.get("missing") {
        Some(item) => {
            let items = item.one_or_more(0..=WORDS_MAX, report)?;
            let word = |item: &Item<'_>, report: &mut Report| match item.value {
                Value::Text(word) => Some(word.clone()),
                Value::Integer(_)
                | Value::Float(_)
                | Value::Bool(_)
                | Value::Null
                | Value::List(_)
                | Value::Table(_) => item.parsed("a word", report, |_| Ok(String::new())),
            };
            items.iter().map(|item| word(item, report)).collect()
        }
        None => Some(RawSpec::default().missing),
    };
    let words = words(&table, report);
    let json = match table.get("json") {
        None => Some(false),
        Some(item) => {
            let json = if let Value::Bool(json) = item.value { Some(*json) } else { None };
            if json.is_none() {
                report.problem(&item.spot, Wrong::new("must be true or false"));
            }
            json
        }
    };
    Some((FormatSpec::Raw(RawSpec { missing: missing?, words: words?, json: json? }), table.get("field")))
}

fn words(table: &Table<'_>, report: &mut Report) -> Option<Vec<(String, f64)>> {
    let Some(item) = table.get("words") else { return Some(Vec::new()) };
    let Value::Table(entries) = item.value else {
        report.problem(&item.spot, Wrong::new("must be a table").hint("{ ON = 1, OFF = 0 }"));
        return None;
    };
    if entries.len() > WORDS_MAX {
        report.problem(&item.spot, Wrong::new(format!("has {} words, at most {WORDS_MAX}", entries.len())));
        return None;
    }
    let mut words = Vec::new();
    for entry in entries {
        let word = Item::new(&entry.node, format!("{}.{}", item.spot.path, entry.key));
        match super::fields::finite(word.value) {
            Some(number) => words.push((entry.key.clone(), number)),
            None => report.problem(&word.spot, Wrong::new("must be a finite number")),
        }
    }
    (words.len() == entries.len()).then_some(words)
}

fn csv(stream: &Table<'_>, report: &mut Report) -> Option<CsvSpec> {
    let Some(item) = stream.get("csv") else { return Some(CsvSpec { columns: Vec::new(), separator: b',' }) };
    let table = Table::open_item(&item, &keys::CSV, report)?;
    let columns: Option<Vec<String>> = match table.get("columns") {
        Some(item) => {
            if !matches!(item.value, Value::List(_)) {
                report.problem(&item.spot, Wrong::new("must be a list").hint("[\"time\", \"temperature\"]"));
                return None;
            }
            let items = item.one_or_more(1..=4 * FIELDS_MAX, report)?;
            let column = |text: &str| {
                let wrong = || Wrong::new(format!("has more than {NAME_BYTES} bytes"));
                if text.len() <= NAME_BYTES { Ok(text.to_owned()) } else { Err(wrong()) }
            };
            let name = |item: &Item<'_>, report: &mut Report| match item.value {
                // A column that nobody wants has no name.
                Value::Text(name) if name.is_empty() => Some(String::new()),
                Value::Text(_)
                | Value::Integer(_)
                | Value::Float(_)
                | Value::Bool(_)
                | Value::Null
                | Value::List(_)
                | Value::Table(_) => item.parsed("a column's name", report, column),
            };
            items.iter().map(|item| name(item, report)).collect()
        }
        None => Some(Vec::new()),
    };
    let separator = table.parsed("separator", "one character", report, |text| match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Ok(*byte),
        _ => Err(Wrong::new("must be one ASCII character, no quote and no line break").hint("\";\" or \"\\t\"")),
    });
    Some(CsvSpec { columns: columns?, separator: separator? })
}
