//! An engine that publishes every message and acknowledges it with the commit.
//! Its outbox has no limit but the window of what is in flight.

use std::collections::VecDeque;

use serde_json::Value;
use tidegate::agent::engine_thread::Engine;
use tidegate::engine::step::{Batch, BatchId, Effect, Event};
use tidegate::model::limits::UPLINK_WINDOW;
use tidegate::model::time::{Now, ProcTime};
use tokio::sync::oneshot;

#[derive(Default)]
pub(crate) struct Echo {
    acks: Vec<Effect>,
    /// Not acknowledged by the cloud, oldest first; the first `in_flight` are published.
    unsent: VecDeque<Batch>,
    in_flight: usize,
    up: bool,
    batches: u64,
    stopped: Option<oneshot::Sender<()>>,
}

impl Echo {
    /// Sends when it has made its final commit.
    pub(crate) fn that_tells(stopped: oneshot::Sender<()>) -> Echo {
        Echo { stopped: Some(stopped), ..Echo::default() }
    }
}

impl Engine for Echo {
    fn handle(&mut self, _now: Now, event: Event<'_>) {
        match event {
            Event::Message(message) => {
                self.batches += 1;
                self.unsent.push_back(Batch::new(BatchId(self.batches), "t/out", message.payload));
                self.acks.extend(message.tag.map(Effect::Ack));
            }
            Event::UplinkUp => self.up = true,
            Event::UplinkDown | Event::UplinkClosedByPeer => {
                self.up = false;
                self.in_flight = 0;
            }
            Event::UplinkAcked(id) => {
                let place = self.unsent.iter().take(self.in_flight).position(|batch| batch.id == id);
                self.unsent.remove(place.expect("in flight")).expect("there");
                self.in_flight -= 1;
            }
            Event::SessionStarted { .. }
            | Event::InputLive(_)
            | Event::Availability(_)
            | Event::Replay(_)
            | Event::UplinkTerms(_)
            | Event::UplinkRefused(..)
            | Event::Client { .. }
            | Event::Own(_)
            | Event::ClientsDropped(_)
            | Event::Tick => {}
        }
    }

    fn advance(&mut self, _now: Now, perform: &mut dyn FnMut(Effect)) {
        self.acks.drain(..).for_each(&mut *perform);
        while self.up && self.in_flight < UPLINK_WINDOW && self.in_flight < self.unsent.len() {
            perform(Effect::Publish(self.unsent[self.in_flight].clone()));
            self.in_flight += 1;
        }
    }

    fn next_deadline(&self, _now: Now) -> Option<ProcTime> {
        None
    }

    fn stop(&mut self, now: Now, perform: &mut dyn FnMut(Effect)) {
        self.advance(now, perform);
        if let Some(stopped) = self.stopped.take() {
            stopped.send(()).expect("waited for");
        }
    }

    fn health(&self) -> Vec<String> {
        Vec::new()
    }

    fn unacknowledged(&self) -> usize {
        0
    }
    fn report(&self, _now: Now) -> Value {
        serde_json::json!({ "unsent": self.unsent.len() })
    }
}
