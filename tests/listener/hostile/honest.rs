//! Who has to be served: a device that publishes at `QoS` 1, and one that reads it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::client::{Client, Connect, WAIT_MAX};
use crate::server::Server;
use crate::wire::{kind, publish};

const TOPIC: &str = "honest/readings";
/// Messages of a round.
const IDS: std::ops::RangeInclusive<u16> = 1..=5;

/// Both, in a thread of their own. Each round is a few messages: sent, acknowledged, delivered.
pub(crate) struct Honest {
    stop: Arc<AtomicBool>,
    rounds: Receiver<()>,
    thread: JoinHandle<Served>,
}

/// How they were served.
pub(crate) struct Served {
    pub(crate) rounds: usize,
    pub(crate) slowest: Duration,
}

impl Honest {
    pub(crate) fn begin(server: &Server, device: &Connect, reader: &Connect) -> Honest {
        let (mut device, mut reader) = (device.open(server), reader.open(server));
        assert_eq!(reader.subscribe(&[(TOPIC, 1)]), [1]);
        let stop = Arc::new(AtomicBool::new(false));
        let (round, rounds) = channel();
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut outcome = Served { rounds: 0, slowest: Duration::ZERO };
            while !stopped.load(Ordering::Relaxed) {
                let began = Instant::now();
                one_round(&mut device, &mut reader, outcome.rounds);
                outcome.rounds += 1;
                outcome.slowest = outcome.slowest.max(began.elapsed());
                // Nobody listens any more at the end.
                let _ = round.send(());
            }
            outcome
        });
        Honest { stop, rounds, thread }
    }

    /// Until they were served so many times from now on.
    pub(crate) fn wait(&self, rounds: usize) {
        while self.rounds.try_recv().is_ok() {}
        // One may have begun before.
        for _ in 0..=rounds {
            self.rounds.recv_timeout(WAIT_MAX).expect("honest clients are served");
        }
    }

    /// All that was sent was acknowledged and delivered, or this fails as they did.
    pub(crate) fn end(self) -> Served {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("honest clients are served to the end")
    }
}

/// Each wait in it ends with the deadline of the client. What is sent at once is acknowledged
/// and delivered at once.
fn one_round(device: &mut Client, reader: &mut Client, round: usize) {
    let payload = |id: u16| format!("{round}-{id}");
    let burst = IDS.flat_map(|id| publish(device.version, 0x02, TOPIC, id, &[], payload(id).as_bytes()));
    device.send(&burst.collect::<Vec<u8>>());
    IDS.for_each(|id| assert_eq!(device.expect_ack(kind::PUBACK, id), 0, "it is acknowledged"));
    for id in IDS {
        let message = reader.message();
        let seen = (message.topic.as_str(), message.payload.as_str(), message.dup);
        assert_eq!(seen, (TOPIC, payload(id).as_str(), false), "each once, in order");
        reader.acknowledge(&message);
    }
}
