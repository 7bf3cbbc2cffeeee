//! `tidegate remote fleet`: all gateways at a glance.

use serde_json::{Value, json};

use crate::cli::printable::printable;

use super::Desk;
use super::gateways::Gateway;
use super::verdict::EXIT_SILENT;
use super::words::{health, json_line, number, say, short_hash, text};

/// Between two columns.
const GAP: &str = "  ";
const HEAD: [&str; 8] = ["gateway", "state", "version", "config", "hash", "waiting", "lag", "health"];

/// Shows a line for each gateway.
///
/// Whether it is there, its program, its document, the records that wait in its outbox, how far the
/// device that is furthest behind is behind the clock, and the first thing that is wrong.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) async fn run(desk: &Desk, _: &Args) -> anyhow::Result<u8> {
    let pattern = desk.pattern_or_all();
    let (session, gateways) = desk.survey(&pattern).await?;
    session.close().await;
    if gateways.0.is_empty() {
        eprintln!("nothing under {} from such a gateway", desk.topics.0);
        return Ok(EXIT_SILENT);
    }
    if desk.json {
        for (id, gateway) in &gateways.0 {
            say(&json_line(&json!({"gw": id, "status": gateway.status(), "reported": gateway.report()})));
        }
        return Ok(0);
    }
    let rows: Vec<[String; 8]> = gateways.0.iter().map(|(id, gateway)| row(id, gateway)).collect();
    say(&table(&rows));
    Ok(0)
}

fn row(id: &str, gateway: &Gateway) -> [String; 8] {
    cells(id, &gateway.status(), &gateway.report())
}

fn cells(id: &str, status: &Value, report: &Value) -> [String; 8] {
    let or_dash = |value: &Value| if value.is_string() { text(value) } else { "-".to_owned() };
    let config = match report["state"].as_str() {
        Some(state) => format!("{} {}", number(&report["version"]), printable(state)),
        None => "-".to_owned(),
    };
    [
        printable(id),
        or_dash(&status["state"]),
        or_dash(&status["version"]),
        config,
        short_hash(&report["hash"]),
        waiting(status),
        lag(status),
        health(status),
    ]
}

/// Records that the cloud has not acknowledged.
fn waiting(status: &Value) -> String {
    let lanes = status["engine"]["outbox"]["lanes"].as_array();
    let sum = |lanes: &Vec<Value>| lanes.iter().filter_map(|lane| lane["held"].as_u64()).sum::<u64>().to_string();
    lanes.map_or_else(|| "-".to_owned(), sum)
}

/// How far the device that is furthest behind is behind the clock.
fn lag(status: &Value) -> String {
    let streams = status["engine"]["streams"].as_array().into_iter().flatten();
    let most = streams.filter_map(|stream| stream["lag_max_ms"].as_u64()).max();
    most.map_or_else(|| "-".to_owned(), |millis| format!("{}.{} s", millis / 1_000, millis % 1_000 / 100))
}

/// Columns as wide as what is in them; the last one as it is.
fn table(rows: &[[String; 8]]) -> String {
    let head = HEAD.map(str::to_owned);
    let all = || core::iter::once(&head).chain(rows);
    let width = |column: usize| all().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut out = String::new();
    for row in all() {
        let padded = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = padded.collect::<Vec<_>>().join(GAP);
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_gateway_and_a_dash_what_it_has_not_said() {
        let status = json!({"state": "online", "version": "0.1.0",
            "health": {"state": "degraded", "reasons": ["outbox above 80 %", "more"]},
            "engine": {"streams": [{"lag_max_ms": 950}, {"lag_max_ms": 61_250}, {"lag_max_ms": null}],
                "outbox": {"lanes": [{"held": 7}, {"held": 2}]}}});
        let report = json!({"state": "confirmed", "version": 12, "hash": "0123456789abcdef"});
        let rows = [cells("gw-1", &status, &report), cells("a longer one", &json!({"state": "offline"}), &Value::Null)];
        assert_eq!(
            table(&rows),
            "gateway       state    version  config        hash      waiting  lag     health\n\
             gw-1          online   0.1.0    12 confirmed  01234567  9        61.2 s  outbox above 80 %\n\
             a longer one  offline  -        -             -         -        -       -\n"
        );
    }
}
