//! `tidegate remote watch`: what changes, as it changes.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::agent::clock::wall;
use crate::cli::outbox::shown;
use crate::cli::printable::printable;
use crate::model::time::Span;

use super::Desk;
use super::gateways::{Gateways, filters};
use super::pattern::Kind;
use super::session::Event;
use super::words::{health, json_line, number, say, short_hash, text};

/// Nothing is waited for; then it goes on.
const FOREVER: Span = Span::from_secs(3_600);

/// Prints a line for each change of what gateways report, until Ctrl-C.
#[derive(Debug, clap::Args)]
pub(super) struct Args {}

pub(super) async fn run(desk: &Desk, _: &Args) -> anyhow::Result<u8> {
    let pattern = desk.pattern_or_all();
    let mut session = desk.open(filters(&desk.topics, &pattern)).await?;
    let mut gateways = Gateways::default();
    // A status comes every few seconds and says mostly the same.
    let mut told: BTreeMap<(String, &str), String> = BTreeMap::new();
    loop {
        let until = session.now() + FOREVER;
        let message = match session.next(until).await? {
            Event::Message(message) => message,
            Event::Granted { .. } | Event::Settled | Event::Deadline => continue,
            Event::Interrupted => break,
        };
        let Some((id, kind, _)) = gateways.handle(&desk.topics, &pattern, &message) else { continue };
        let gateway = gateways.of(&id);
        let (name, document, line) = match kind {
            Kind::Status => ("status", gateway.status(), status_line(&gateway.status())),
            Kind::Reported => ("config", gateway.report(), report_line(&gateway.report())),
            Kind::Reply(_) => continue,
        };
        if told.get(&(id.clone(), name)) == Some(&line) {
            continue;
        }
        if desk.json {
            say(&json_line(&json!({"gw": id, "kind": name, "document": document})));
        } else {
            say(&format!("{}  {}  {name}: {line}\n", shown(&wall().as_millis().into()), printable(&id)));
        }
        told.insert((id, name), line);
    }
    session.close().await;
    Ok(0)
}

fn status_line(status: &Value) -> String {
    if status.is_null() {
        return "gone".to_owned();
    }
    match status["health"]["state"].as_str() {
        Some(_) => format!("{}, {}, tidegate {}", text(&status["state"]), health(status), text(&status["version"])),
        None => text(&status["state"]),
    }
}

fn report_line(report: &Value) -> String {
    if report.is_null() {
        return "gone".to_owned();
    }
    let problems = report["problems"].as_array().map_or(0, Vec::len);
    let problems = match problems {
        0 => String::new(),
        1 => ", 1 problem".to_owned(),
        more => format!(", {more} problems"),
    };
    let reason = if report["reason"].is_string() { format!(": {}", text(&report["reason"])) } else { String::new() };
    let (state, version, hash) = (text(&report["state"]), number(&report["version"]), short_hash(&report["hash"]));
    format!("{state}, version {version}, hash {hash}{problems}{reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_matters_and_not_the_time() {
        let status = |at: u64| json!({"state": "online", "at_ms": at, "version": "0.1.0", "health": {"state": "ok"}});
        assert_eq!(status_line(&status(1)), "online, ok, tidegate 0.1.0");
        assert_eq!(status_line(&status(1)), status_line(&status(2)));
        assert_eq!(status_line(&json!({"v": 1, "state": "offline"})), "offline");
        assert_eq!(status_line(&Value::Null), "gone");
        let report =
            json!({"state": "rejected", "version": 8, "hash": "0123456789", "problems": [{}, {}], "reason": "no"});
        assert_eq!(report_line(&report), "rejected, version 8, hash 01234567, 2 problems: no");
    }
}
