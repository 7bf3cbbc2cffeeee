//! What gateways say, as lines for a person. All of it is the text of somebody else: nothing
//! reaches the terminal but through [`printable`].

use std::fmt::Write as _;
use std::io::{self, Write as _};

use serde_json::Value;

use crate::cli::outbox::shown;
use crate::cli::printable::{is_plain, printable};

/// Digits of a hash that tell documents apart at a glance.
const HASH_SHORT: usize = 8;

/// Writes to stdout.
pub(super) fn say(text: &str) {
    let mut out = io::stdout().lock();
    // A closed pipe is no reason to change the verdict.
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// A text of a document; `?` where it has none.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| "?".to_owned(), printable)
}

/// A version or another number, `-` where there is none.
pub(super) fn number(value: &Value) -> String {
    if value.is_number() { value.to_string() } else { "-".to_owned() }
}

/// The beginning of a hash, `-` where there is none.
pub(super) fn short_hash(value: &Value) -> String {
    let hash = value.as_str().map_or_else(|| "-".to_owned(), printable);
    hash.chars().take(HASH_SHORT).collect()
}

/// JSON on one line, nothing in it but what can be shown.
pub(super) fn json_line(value: &Value) -> String {
    escaped(&value.to_string()) + "\n"
}

/// JSON for reading.
pub(super) fn json_pretty(value: &Value) -> String {
    let text = serde_json::to_string_pretty(value).expect("a JSON value is JSON");
    escaped(&text) + "\n"
}

/// JSON in which strings have no character that paints. Those are in strings only, where JSON has
/// an escape for each.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_plain(c) || c == '\n' {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").expect("memory does not fail");
            }
        }
    }
    out
}

/// Everything in a report: what a gateway runs, and what is wrong with what it was sent.
pub(super) fn report(report: &Value) -> String {
    let mut out = format!(
        "  {}  version {}  hash {}  from {}  {}\n",
        text(&report["state"]),
        number(&report["version"]),
        report["hash"].as_str().map_or_else(|| "-".to_owned(), printable),
        text(&report["from"]),
        shown(&report["at_ms"])
    );
    let confirmed = &report["confirmed"];
    let (version, hash) = (number(&confirmed["version"]), short_hash(&confirmed["hash"]));
    // Writing to a string cannot fail.
    let _ = writeln!(out, "  confirmed: version {version}  hash {hash}");
    if let Some(trial) = report["trial_ms"].as_u64() {
        let _ = writeln!(out, "  trial: {} s", trial.div_ceil(1_000));
    }
    if report["safe_mode"] == true {
        out.push_str("  safe mode\n");
    }
    out.push_str(&complaints(report));
    for entry in report["history"].as_array().into_iter().flatten() {
        let (version, hash) = (number(&entry["version"]), short_hash(&entry["hash"]));
        let _ = writeln!(out, "  history: version {version}  hash {hash}  {}", shown(&entry["at_ms"]));
    }
    out
}

/// Reason, problems and warnings of a report.
pub(super) fn complaints(report: &Value) -> String {
    let mut out = String::new();
    if report["reason"].is_string() {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "  reason: {}", text(&report["reason"]));
    }
    for (kind, key) in [("problem", "problems"), ("warning", "warnings")] {
        for problem in report[key].as_array().into_iter().flatten() {
            let _ = write!(out, "  {kind}: ");
            let path = problem["path"].as_str().unwrap_or_default();
            if !path.is_empty() {
                out.push_str(&printable(path));
                if let Some(value) = problem["value"].as_str() {
                    let _ = write!(out, " = {}", printable(value));
                }
                out.push_str(": ");
            }
            let _ = writeln!(out, "{}", text(&problem["message"]));
            if problem["hint"].is_string() {
                let _ = writeln!(out, "      hint: {}", text(&problem["hint"]));
            }
        }
    }
    out
}

/// The error of a reply, with what helps.
pub(super) fn refusal(reply: &Value) -> String {
    let hint = if reply["hint"].is_string() { format!("\n    hint: {}", text(&reply["hint"])) } else { String::new() };
    text(&reply["error"]) + &hint
}

/// `ok`, or the first of the reasons why not.
pub(super) fn health(status: &Value) -> String {
    let health = &status["health"];
    match (health["state"].as_str(), health["reasons"][0].as_str()) {
        (None, _) => "-".to_owned(),
        (Some("ok"), _) => "ok".to_owned(),
        (Some(_), Some(reason)) => printable(reason),
        (Some(state), None) => printable(state),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_gateway_cannot_paint_the_operators_terminal() {
        let evil = "\u{1b}[2J\u{9b}31m\u{202e}\u{7f}\n";
        let document = json!({"state": evil, "from": evil, "reason": evil, "hash": evil, "confirmed": {"hash": evil},
            "problems": [{"path": evil, "value": evil, "message": evil, "hint": evil}], "error": evil, "hint": evil,
            "history": [{"hash": evil}], "health": {"state": "degraded", "reasons": [evil]}});
        let told = report(&document) + &refusal(&document) + &health(&document) + &json_pretty(&document);
        assert!(told.chars().all(|c| is_plain(c) || c == '\n'), "{told:?}");
        let again: Value = serde_json::from_str(&json_line(&document)).unwrap();
        assert_eq!(again, document, "and JSON stays what it was");
    }

    #[test]
    fn a_report_names_every_problem_with_its_path_and_hint() {
        let document = json!({"v": 1, "gw": "g", "at_ms": 1_700_000_000_000_u64, "state": "rejected", "version": 8,
            "hash": "0123456789abcdef0123456789abcdef", "from": "uplink", "confirmed": {"version": 7, "hash": "ffffffffff"},
            "trial_ms": 1_500, "safe_mode": true,
            "problems": [{"path": "streams[0].size", "value": "\"1x\"", "message": "no duration", "hint": "write `1m`"},
                {"path": "", "message": "too long"}],
            "warnings": [{"path": "outbox", "message": "small"}],
            "history": [{"version": 7, "hash": "ffffffffff", "at_ms": 0}]});
        let expected = "  rejected  version 8  hash 0123456789abcdef0123456789abcdef  from uplink  2023-11-14T22:13:20Z\n\
                        \x20 confirmed: version 7  hash ffffffff\n\
                        \x20 trial: 2 s\n\
                        \x20 safe mode\n\
                        \x20 problem: streams[0].size = \"1x\": no duration\n\
                        \x20     hint: write `1m`\n\
                        \x20 problem: too long\n\
                        \x20 warning: outbox: small\n\
                        \x20 history: version 7  hash ffffffff  1970-01-01T00:00:00Z\n";
        assert_eq!(report(&document), expected);
    }
}
