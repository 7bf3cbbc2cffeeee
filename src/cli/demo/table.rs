//! Panes as aligned lines, made for reading while they scroll by.

use serde_json::Value;

use crate::model::time::WallTime;

/// The line above the panes.
pub(super) fn head() -> String {
    format!(
        "{:>7}  {:<10} {:<17}  {:<8} {:>3} {:>6} {:>8} {:>8} {:>8} {:>8}",
        "time", "device", "window", "pane", "rev", "count", "mean", "min", "max", "delay"
    )
}

/// One record as a line. `elapsed_ms`: since the beginning of the demo. The
/// delay is from the end of the window to its arrival here.
pub(super) fn line(elapsed_ms: u64, arrived: WallTime, record: &Value) -> String {
    let text = |name: &str| record[name].as_str().unwrap_or("-");
    match text("kind") {
        "pane" => {
            let temperature = &record["values"]["temperature"];
            let start = record["start_ms"].as_i64().unwrap_or(0);
            let end = record["end_ms"].as_i64().unwrap_or(0);
            format!(
                "{:>7}  {:<10} {}-{}  {:<8} {:>3} {:>6} {:>8} {:>8} {:>8} {:>8}",
                seconds(elapsed_ms.cast_signed()),
                text("key"),
                clock(start),
                clock(end),
                text("pane"),
                record["rev"].as_u64().unwrap_or(0),
                record["count"].as_u64().unwrap_or(0),
                number(&temperature["mean"]),
                number(&temperature["min"]),
                number(&temperature["max"]),
                seconds(arrived.as_millis() - end),
            )
        }
        "late" => format!(
            "{:>7}  {:<10} {}           late record: {}, {} behind",
            seconds(elapsed_ms.cast_signed()),
            text("key"),
            clock(record["event_ms"].as_i64().unwrap_or(0)),
            text("reason"),
            seconds(record["lag_ms"].as_i64().unwrap_or(0)),
        ),
        other => format!("{:>7}  {other}: {record}", seconds(elapsed_ms.cast_signed())),
    }
}

/// A remark between the panes.
pub(super) fn note(elapsed_ms: u64, text: &str) -> String {
    format!("{:>7}  -- {text}", seconds(elapsed_ms.cast_signed()))
}

/// Tenths are enough for an eye.
fn seconds(millis: i64) -> String {
    let tenths = (millis + if millis < 0 { -50 } else { 50 }) / 100;
    let sign = if tenths < 0 { "-" } else { "" };
    format!("{sign}{}.{} s", tenths.abs() / 10, tenths.abs() % 10)
}

/// `HH:MM:SS` in UTC.
fn clock(millis: i64) -> String {
    let secs = millis.div_euclid(1_000).rem_euclid(86_400);
    format!("{:02}:{:02}:{:02}", secs / 3_600, secs / 60 % 60, secs % 60)
}

fn number(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pane_stands_under_its_heading() {
        let record = json!({"kind": "pane", "key": "device-03", "start_ms": 1_700_000_005_000_i64,
            "end_ms": 1_700_000_010_000_i64, "pane": "on_time", "rev": 1, "count": 10,
            "values": {"temperature": {"mean": 18.75, "min": -2, "max": 19.25}}});
        let line = line(12_345, WallTime::from_millis(1_700_000_012_049), &record);
        assert_eq!(
            head(),
            "   time  device     window             pane     rev  count     mean      min      max    delay"
        );
        assert_eq!(
            line,
            " 12.3 s  device-03  22:13:25-22:13:30  on_time    1     10    18.75    -2.00    19.25    2.0 s"
        );
    }

    #[test]
    fn a_negative_delay_is_not_hidden() {
        assert_eq!(seconds(-1_260), "-1.3 s");
        assert_eq!(seconds(-20), "0.0 s");
    }
}
