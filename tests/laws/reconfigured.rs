//! Another configuration while the engine runs: what it does not change goes on as if nothing
//! had happened, and what it does change loses no record and counts none twice.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use tidegate::model::rng::Rng;

use crate::draw::{Case, Wishes, case, config};
use crate::law;
use crate::run::Run;

#[test]
fn a_stream_that_does_not_change_is_as_without_the_changes() {
    law(|random| case(random, Wishes::Any), unchanged);
}

#[test]
fn a_stream_that_is_fitted_to_what_it_was_goes_on_as_it_was() {
    law(|random| case(random, Wishes::Any), fitted);
}

#[test]
fn each_record_counts_once_whatever_its_windows_become() {
    law(|random| case(random, Wishes::EachDevice), counted);
}

/// The case's stream with another one, that of a seed.
fn beside(case: &Case, other: Option<u64>) -> String {
    let Some(seed) = other else { return case.config.clone() };
    let other = config(seed, Wishes::Any, 500);
    let (_, stream) = other.split_once("[[streams]]").unwrap();
    let stream = stream.replace("name = \"s\"", "name = \"t\"").replace("\"d/{site}", "\"e/{site}");
    let stream = stream.replacen("time = ", "devices_max = 1000\ntime = ", 1);
    let first = format!("[[streams]]{stream}");
    // It may come before or after.
    if seed.is_multiple_of(2) {
        format!("{}{first}", case.config)
    } else {
        let (gateway, own) = case.config.split_once("[[streams]]").unwrap();
        format!("{gateway}{first}[[streams]]{own}")
    }
}

fn rows_of<'r>(run: &'r Run, stream: &str) -> Vec<Value> {
    let rows: Vec<&'r Value> = run.rows.iter().filter(|row| row["stream"] == stream).collect();
    let numbered = |row: &Value| {
        let mut row = row.clone();
        row["seq"] = Value::Null;
        row
    };
    rows.into_iter().map(numbered).collect()
}

fn compare(plain: &Run, changed: &Run) -> Result<(), String> {
    let (plain, changed) = (rows_of(plain, "s"), rows_of(changed, "s"));
    if plain == changed {
        return Ok(());
    }
    let at = plain.iter().zip(&changed).take_while(|(one, other)| one == other).count();
    Err(format!("row {at}, without and with changes:\n{:?}\n{:?}", plain.get(at), changed.get(at)))
}

fn unchanged(case: &Case) -> Result<(), String> {
    let (mut plain, mut changed) = (Run::new(&case.config), Run::new(&case.config));
    let mut random = Rng::fork(case.seed, 97);
    for message in &case.messages {
        if random.chance(6) {
            let other = if random.chance(4) { None } else { Some(random.next_u64()) };
            changed.sleep_until(message.arrival);
            changed.reconfigure(&beside(case, other))?;
        }
        plain.take(message);
        changed.take(message);
        changed.take_on("e", message);
        if !changed.status().balanced {
            return Err("the books do not balance".to_owned());
        }
    }
    plain.finish();
    changed.finish();
    compare(&plain, &changed)
}

fn fitted(case: &Case) -> Result<(), String> {
    let (mut plain, mut changed) = (Run::new(&case.config), Run::new(&case.config));
    let mut random = Rng::fork(case.seed, 96);
    for (number, message) in case.messages.iter().enumerate() {
        if random.chance(6) {
            // Says nothing about so few devices, and yet it is another definition.
            let max = format!("time = {{ field = \"/ts\", unit = \"ms\" }}\ndevices_max = {}", 1_000 + number);
            let config = case.config.replace("time = { field = \"/ts\", unit = \"ms\" }", &max);
            changed.sleep_until(message.arrival);
            changed.reconfigure(&config)?;
        }
        plain.take(message);
        changed.take(message);
    }
    plain.finish();
    changed.finish();
    compare(&plain, &changed)
}

/// Another definition of the windows.
fn window(seed: u64) -> &'static str {
    let kinds = [
        "size = \"1s\"",
        "size = \"3s\"",
        "size = \"3s\"\noffset = \"1s\"",
        "size = \"10s\"",
        "gap = \"700ms\"",
        "gap = \"2s\"\nmax_length = \"5s\"",
        "calendar = \"hour\"",
    ];
    kinds[usize::try_from(seed % 7).unwrap()]
}

fn counted(case: &Case) -> Result<(), String> {
    let mut random = Rng::fork(case.seed, 95);
    let (stream, _) = case.config.split_once("[[streams.windows]]").unwrap();
    let stream: Vec<&str> =
        stream.lines().filter(|line| !line.starts_with("dedup") && !line.starts_with("state_ttl")).collect();
    let with = |window: &str, lateness: u64| {
        let stream = stream.join("\n");
        format!(
            "{stream}\n[[streams.windows]]\nname = \"w\"\n{window}\nlateness = \"{lateness}s\"\naggregates = [\"count\"]\n"
        )
    };
    let mut run = Run::new(&with(window(random.next_u64()), random.below(3)));
    for message in &case.messages {
        if random.chance(9) {
            run.sleep_until(message.arrival);
            let config = with(window(random.next_u64()), random.below(3));
            if random.chance(3) {
                run.restart(&config);
            } else {
                run.reconfigure(&config)?;
            }
            if !run.status().balanced {
                return Err("the books do not balance".to_owned());
            }
        }
        run.take(message);
    }
    run.finish();
    let mut seen: BTreeMap<(String, u64), &Value> = BTreeMap::new();
    for row in run.panes() {
        let id = (row["id"].as_str().unwrap().to_owned(), row["rev"].as_u64().unwrap());
        if let Some(before) = seen.insert(id, row) {
            return Err(format!("one id and revision, two panes:\n{before}\n{row}"));
        }
    }
    let replaced: BTreeSet<&str> = run
        .panes()
        .flat_map(|row| row["replaces"].as_array().into_iter().flatten())
        .filter_map(Value::as_str)
        .collect();
    let last: BTreeMap<&str, &Value> = run.panes().map(|row| (row["id"].as_str().unwrap(), row)).collect();
    let last = last.iter().filter(|(id, _)| !replaced.contains(*id));
    let in_panes: u64 = last.map(|(_, pane)| pane["count"].as_u64().unwrap()).sum();
    let late = run.rows.iter().filter(|row| row["kind"] == "late" && row["window"] == "w").count() as u64;
    let sent = case.messages.len() as u64;
    if in_panes + late == sent { Ok(()) } else { Err(format!("{sent} records, {in_panes} in panes, {late} late")) }
}
