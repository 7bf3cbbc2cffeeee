//! The cloud's end of a test: the reference receiver on a real subscription,
//! and a log of everything in the order of arrival.

#![allow(dead_code, reason = "shared by several test programs, each uses a part")]

use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate::agent::mqtt::client::{ClientSpec, Received, Subscriber};
use tidegate::agent::uplink::packing::{is_packed, unpack};
use tidegate::fleet::receiver::{Effect, Receiver};

/// Generous: two cores are shared with compilers, and the agent may wait for a minute before
/// it tries a broker again.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(150);
/// Between two looks at a condition.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What has arrived at the cloud.
pub(crate) struct Cloud {
    /// The end state by the contract.
    pub(crate) receiver: Receiver,
    /// New records in the order of arrival.
    pub(crate) log: Vec<Value>,
    /// Status documents in the order of arrival.
    pub(crate) statuses: Vec<Value>,
    /// Batches that came compressed.
    pub(crate) packed: usize,
    subscriber: Subscriber,
}

impl Cloud {
    /// Subscribed when it returns. The session outlives connections, so a
    /// restart of a broker with persistence loses nothing.
    pub(crate) fn connect(port: u16) -> Cloud {
        let spec = ClientSpec { host: "127.0.0.1".into(), port, client_id: "cloud".into(), clean: false };
        let subscriber = Subscriber::new(spec, &["tidegate/gw-1/data/+", "tidegate/gw-1/status"]);
        let mut cloud =
            Cloud { receiver: Receiver::new(), log: Vec::new(), statuses: Vec::new(), packed: 0, subscriber };
        let deadline = Instant::now() + WAIT_MAX;
        while !cloud.receive(LOOK_AGAIN) {
            assert!(Instant::now() < deadline, "the cloud's broker does not answer");
        }
        cloud
    }

    /// Takes what arrives until `condition` holds; panics with `what` when it
    /// does not in time.
    pub(crate) fn wait_until(&mut self, what: &str, mut condition: impl FnMut(&mut Cloud) -> bool) {
        let deadline = Instant::now() + WAIT_MAX;
        while !condition(self) {
            assert!(Instant::now() < deadline, "not within {WAIT_MAX:?}: {what}");
            self.receive(LOOK_AGAIN);
        }
    }

    /// Takes what arrives during `span`.
    pub(crate) fn receive_for(&mut self, span: Duration) {
        let deadline = Instant::now() + span;
        while let Some(left) = deadline.checked_duration_since(Instant::now()) {
            self.receive(left.min(LOOK_AGAIN));
        }
    }

    /// True when it has just subscribed.
    fn receive(&mut self, wait: Duration) -> bool {
        match self.subscriber.next(wait) {
            Received::Subscribed(_) => return true,
            Received::Lost(_) | Received::Nothing => {}
            Received::Message(message) => {
                if message.topic.ends_with("/status") {
                    self.statuses.push(serde_json::from_slice(&message.payload).expect("a status is JSON"));
                } else {
                    self.packed += usize::from(is_packed(&message.payload));
                    let payload = unpack(&message.payload).expect("a whole frame, or none");
                    let applied = self.receiver.handle_message(&payload).expect("the contract is kept");
                    for one in applied.iter().filter(|one| one.effect == Effect::Conflict) {
                        let held = self.receiver.panes().find(|(id, _)| one.record["id"] == *id);
                        println!(
                            "conflict: {}\n   holds: {:?}",
                            one.record,
                            held.map(|(_, record)| record.to_string())
                        );
                    }
                    self.log.extend(applied.into_iter().filter(|one| one.effect == Effect::New).map(|one| one.record));
                }
                self.subscriber.ack(&message);
            }
        }
        false
    }

    /// Id, revision, kind of pane and results of every pane that stands.
    pub(crate) fn results(&self) -> Vec<Value> {
        let facts = ["id", "rev", "pane", "key", "start_ms", "end_ms", "watermark_ms", "count", "values", "partial"];
        let result = |record: &Value| facts.iter().map(|&fact| (fact.to_owned(), record[fact].clone())).collect();
        self.receiver.panes().map(|(_, record)| Value::Object(result(record))).collect()
    }

    /// No number missing, none used twice, every lane from its beginning, and
    /// one epoch: nothing was lost.
    pub(crate) fn assert_contract(&self) {
        assert_contract(&self.receiver);
    }
}

/// See [`Cloud::assert_contract`].
pub(crate) fn assert_contract(receiver: &Receiver) {
    assert_eq!(receiver.holes(), []);
    assert_eq!((receiver.counts().conflicts, receiver.counts().refused), (0, 0));
    let lanes: Vec<_> = receiver.lanes().collect();
    for (lane, low, _) in &lanes {
        assert_eq!((*low, lane.epoch), (0, lanes[0].0.epoch), "{lane:?} has one epoch, from its first number");
    }
}
