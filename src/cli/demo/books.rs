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

/// The account of the agent itself.
pub(super) struct Ledger;

impl Ledger {
    pub(super) fn read(_status: &Value) -> Ledger {
        Ledger
    }

    pub(super) fn balances(&self, _sent: u64) -> bool {
        true
    }
}

impl fmt::Display for Ledger {
    fn fmt(&self, _f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
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
}
