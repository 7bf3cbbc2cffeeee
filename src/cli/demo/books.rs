//! Whether every reading that was sent is accounted for, and where it is.
//!
//! Two independent accounts are compared: what the cloud holds, pane by pane
//! with the batch oracle, and the ledger that the agent itself keeps.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

use crate::fleet::Delivery;
use crate::fleet::oracle::{Oracle, Totals};
use crate::fleet::receiver::Receiver;
use crate::model::time::{EventTime, Span};

/// The account of the cloud's side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Readings that the fleet has sent.
    pub(super) sent: u64,
    /// Readings in the panes that stand.
    pub(super) in_panes: u64,
    /// Late records.
    pub(super) late: u64,
    /// Panes that stand.
    pub(super) panes: u64,
    /// Panes that differ from the oracle, or that it does not know; and windows without a pane.
    pub(super) wrong: Vec<String>,
    /// Sequence numbers that never came.
    pub(super) missing: u64,
    /// Records that broke the contract.
    pub(super) conflicts: u64,
}

impl Account {
    /// Compares what was sent with what stands.
    pub(super) fn new(sent: &[Delivery], window: Span, receiver: &Receiver) -> Account {
        let late: BTreeSet<(&str, i64)> = receiver
            .late()
            .filter_map(|record| Some((record["key"].as_str()?, record["event_ms"].as_i64()?)))
            .collect();
        let mut oracle = Oracle::new(window, 0);
        for delivery in sent {
            if !late.contains(&(delivery.device.as_str(), delivery.event.as_millis())) {
                oracle.add(&delivery.device, delivery.event, delivery.value);
            }
        }
        let mut account = Account {
            sent: sent.len() as u64,
            late: late.len() as u64,
            missing: receiver.holes().iter().map(|hole| hole.last - hole.first + 1).sum(),
            conflicts: receiver.counts().conflicts + receiver.counts().refused,
            ..Account::default()
        };
        let mut stand = BTreeSet::new();
        for (id, pane) in receiver.panes() {
            account.panes += 1;
            account.in_panes += pane["count"].as_u64().unwrap_or(0);
            let device = pane["key"].as_str().unwrap_or_default();
            let start = EventTime::from_millis(pane["start_ms"].as_i64().unwrap_or(i64::MIN));
            match oracle.window(device, start) {
                Some(totals) if matches(totals, pane) => {}
                Some(totals) => account.wrong.push(format!("{id}: {pane}, expected {totals:?}")),
                None => account.wrong.push(format!("{id}: no reading belongs to it")),
            }
            stand.insert((device, start));
        }
        for (key, totals) in oracle.windows() {
            if !stand.contains(&(key.device.as_str(), key.start)) {
                account.wrong.push(format!(
                    "{} at {}: {} readings, no pane",
                    key.device,
                    key.start.as_millis(),
                    totals.count
                ));
            }
        }
        account
    }

    /// Nothing missing, nothing double, nothing wrong.
    pub(super) fn balances(&self) -> bool {
        self.sent == self.in_panes + self.late && self.wrong.is_empty() && self.missing == 0 && self.conflicts == 0
    }
}

/// The account of the agent itself: every line is a total and the places in
/// which it has to be found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Ledger {
    lines: Vec<Line>,
    received: u64,
    balanced: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    name: String,
    total: (&'static str, u64),
    places: Vec<(&'static str, u64)>,
}

impl Ledger {
    /// From the engine's part of the status document. What is not in it counts as 0, and then
    /// nothing balances.
    pub(super) fn read(status: &Value) -> Ledger {
        let mut ledger = Ledger { balanced: status["balanced"].as_bool().unwrap_or(false), ..Ledger::default() };
        for stream in items(&status["streams"]) {
            let books = &stream["ledger"];
            let name = stream["name"].as_str().unwrap_or("?");
            ledger.received += books["received"].as_u64().unwrap_or(0);
            let places = ["accepted", "rejected", "duplicate", "future", "ignored"];
            ledger.lines.push(Line::new(format!("stream {name}"), books, "received", &places));
            if !stream["records"].is_null() {
                let places = ["open", "on_time", "early", "side_output"];
                ledger.lines.push(Line::new(format!("records {name}"), &stream["records"], "accepted", &places));
            }
            for window in items(&stream["windows"]) {
                let name = format!("window {name}/{}", window["name"].as_str().unwrap_or("?"));
                let places = ["open", "on_time", "late_update", "side_output", "backfilled", "dropped", "no_window"];
                ledger.lines.push(Line::new(name, window, "accepted", &places));
            }
        }
        for lane in items(&status["outbox"]["lanes"]) {
            let name = format!("lane {}", lane["lane"].as_str().unwrap_or("?"));
            let line = Line::new(name, lane, "queued", &["acked", "evicted", "held"]);
            if line.total.1 > 0 {
                ledger.lines.push(line);
            }
        }
        ledger
    }

    /// Every line balances, and all that was sent has been received.
    pub(super) fn balances(&self, sent: u64) -> bool {
        self.balanced && self.received == sent && self.lines.iter().all(Line::balances)
    }
}

impl Line {
    fn new(name: String, books: &Value, total: &'static str, places: &[&'static str]) -> Line {
        let count = |name: &'static str| (name, books[name].as_u64().unwrap_or(0));
        Line { name, total: count(total), places: places.iter().map(|&place| count(place)).collect() }
    }

    fn balances(&self) -> bool {
        self.total.1 == self.places.iter().map(|(_, count)| count).sum::<u64>()
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, line) in self.lines.iter().enumerate() {
            let places: Vec<String> = line.places.iter().map(|(name, count)| format!("{count} {name}")).collect();
            let sign = if line.balances() { "=" } else { "IS NOT" };
            let (total, count) = line.total;
            let end = if place + 1 < self.lines.len() { "\n" } else { "" };
            write!(f, "{:<18} {count:>6} {total} {sign} {}{end}", line.name, places.join(" + "))?;
        }
        Ok(())
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Values are multiples of 0.25, so equal means equal.
fn matches(totals: &Totals, pane: &Value) -> bool {
    let value = |name: &str| pane["values"]["temperature"][name].as_f64();
    pane["count"].as_u64() == Some(totals.count)
        && value("mean") == Some(totals.mean())
        && value("min") == Some(totals.min)
        && value("max") == Some(totals.max)
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:>8}  readings sent by the fleet", self.sent)?;
        writeln!(f, "{:>8}  in {} panes at the cloud (highest revision of each)", self.in_panes, self.panes)?;
        writeln!(f, "{:>8}  late records at the cloud", self.late)?;
        let unaccounted = i128::from(self.sent) - i128::from(self.in_panes) - i128::from(self.late);
        writeln!(f, "{unaccounted:>8}  unaccounted")?;
        writeln!(f, "{:>8}  panes that differ from the batch oracle", self.wrong.len())?;
        for wrong in self.wrong.iter().take(5) {
            writeln!(f, "            {wrong}")?;
        }
        write!(f, "{:>8}  sequence numbers missing, {} conflicts", self.missing, self.conflicts)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sent() -> Vec<Delivery> {
        [(1_000, 1.0), (2_000, 2.5), (6_000, 4.0)]
            .map(|(event, value)| Delivery {
                at: Span::ZERO,
                device: "d".into(),
                event: EventTime::from_millis(event),
                value,
                backlog: false,
                topic: String::new(),
                payload: Vec::new(),
            })
            .to_vec()
    }

    fn receiver(records: &[Value]) -> Receiver {
        let envelope = json!({"v": 1, "gw": "g", "epoch": 1, "lane": "live", "records": records});
        let mut receiver = Receiver::new();
        receiver.handle_message(envelope.to_string().as_bytes()).expect("an envelope");
        receiver
    }

    fn pane(seq: u64, start: i64, count: u64, mean: f64, min: f64, max: f64) -> Value {
        json!({"kind": "pane", "id": format!("g/s/w/d/{start}"), "rev": 0, "seq": seq, "key": "d", "start_ms": start,
            "count": count, "values": {"temperature": {"mean": mean, "min": min, "max": max}}})
    }

    #[test]
    fn the_books_balance_only_when_every_reading_is_in_one_place() {
        let first = pane(0, 0, 2, 1.75, 1.0, 2.5);
        let late = json!({"kind": "late", "id": "x", "seq": 1, "key": "d", "event_ms": 6_000});
        let window = Span::from_secs(5);
        let account = |records: &[Value]| Account::new(&sent(), window, &receiver(records));

        assert!(account(&[first.clone(), pane(1, 5_000, 1, 4.0, 4.0, 4.0)]).balances());
        assert!(account(&[first.clone(), late.clone()]).balances());
        assert!(!account(std::slice::from_ref(&first)).balances(), "one is lost");
        assert!(!account(&[first.clone(), pane(1, 5_000, 1, 4.0, 4.0, 4.0), late]).balances(), "one is double");
        assert!(!account(&[first.clone(), pane(1, 5_000, 1, 4.25, 4.0, 4.0)]).balances(), "a wrong number");
        assert!(!account(&[first, pane(2, 5_000, 1, 4.0, 4.0, 4.0)]).balances(), "a missing sequence number");
    }

    #[test]
    fn the_agents_ledger_balances_line_by_line_and_with_what_was_sent() {
        let status = |open: u64| {
            json!({"balanced": true,
                "streams": [{"name": "climate",
                    "ledger": {"received": 9, "accepted": 8, "rejected": 1, "duplicate": 0, "future": 0, "ignored": 0},
                    "windows": [{"name": "5s", "accepted": 8, "open": open, "on_time": 5, "late_update": 1,
                        "side_output": 0, "backfilled": 0, "dropped": 0, "no_window": 0}]}],
                "outbox": {"lanes": [{"lane": "live", "queued": 4, "acked": 3, "evicted": 0, "held": 1},
                    {"lane": "late", "queued": 0, "acked": 0, "evicted": 0, "held": 0}]}})
        };
        assert!(Ledger::read(&status(2)).balances(9));
        assert!(!Ledger::read(&status(2)).balances(10), "one was never received");
        assert!(!Ledger::read(&status(1)).balances(9), "one is in no place");
        assert!(!Ledger::read(&json!({})).balances(0), "no books");
        let text = Ledger::read(&status(1)).to_string();
        assert!(text.contains("8 accepted IS NOT 1 open + 5 on_time"), "{text}");
    }
}
