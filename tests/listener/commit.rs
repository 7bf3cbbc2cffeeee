//! An acknowledgement means: it is durable. Power is cut (SIGKILL) right behind it.

use crate::client::Connect;
use crate::server::Server;
use crate::wire::{BOTH, ack, kind, publish};

/// Messages in one burst; more than one commit takes.
const COUNT: u16 = 300;

#[test]
fn every_acknowledged_message_is_there_after_a_crash() {
    for version in BOTH {
        let mut server = Server::start();
        if !server.is_ours() {
            // It acknowledges before it writes: that is why there is a listener.
            return;
        }
        let kept = Connect::new(version, "reader").persistent();
        let mut reader = kept.open(&server);
        reader.subscribe(&[("a", 1)]);
        reader.disconnect();
        let mut device = Connect::new(version, "device").open(&server);
        let mut sent = 0;
        let mut acknowledged = 0;
        // A window of 20, and the crash in the middle of it.
        while acknowledged < COUNT {
            while sent < COUNT + 20 && sent < acknowledged + 20 {
                sent += 1;
                device.send(&publish(version, 0x02, "a", sent, &[], sent.to_string().as_bytes()));
            }
            acknowledged += 1;
            device.expect_ack(kind::PUBACK, acknowledged);
        }
        server.crash();
        let mut reader = kept.open(&server);
        assert!(reader.session_present, "{version:?}");
        let found: Vec<String> = reader.drain().into_iter().map(|message| message.payload).collect();
        let expected: Vec<String> = (1..=acknowledged).map(|number| number.to_string()).collect();
        assert!(found.starts_with(&expected), "{version:?}: {} of {}", found.len(), expected.len());
        assert!(found.len() <= usize::from(sent), "{version:?}: nothing twice");
    }
}

#[test]
fn an_acknowledged_subscription_is_there_after_a_crash() {
    for version in BOTH {
        let mut server = Server::start();
        if !server.is_ours() {
            return;
        }
        let kept = Connect::new(version, "reader").persistent();
        let mut reader = kept.open(&server);
        assert_eq!(reader.subscribe(&[("a", 1), ("b", 1)]), [1, 1]);
        reader.unsubscribe(&["b"]);
        server.crash();
        let mut device = Connect::new(version, "device").open(&server);
        device.publish(0x02, "a", "wanted");
        device.publish(0x02, "b", "unwanted");
        let found: Vec<String> = kept.open(&server).drain().into_iter().map(|message| message.payload).collect();
        assert_eq!(found, ["wanted"], "{version:?}");
    }
}

#[test]
fn an_acknowledgement_of_a_reader_is_not_forgotten_in_an_orderly_restart() {
    for version in BOTH {
        let mut server = Server::start();
        let kept = Connect::new(version, "reader").persistent();
        let mut reader = kept.open(&server);
        reader.subscribe(&[("a", 1)]);
        let mut device = Connect::new(version, "device").open(&server);
        for payload in ["1", "2", "3"] {
            device.publish(0x02, "a", payload);
        }
        let found: Vec<_> = (0..3).map(|_| reader.message()).collect();
        found[..2].iter().for_each(|message| reader.send(&ack(kind::PUBACK, message.id)));
        reader.ping();
        server.restart();
        let found: Vec<String> = kept.open(&server).drain().into_iter().map(|message| message.payload).collect();
        assert_eq!(found, ["3"], "{version:?}");
    }
}

#[test]
fn a_full_window_does_not_wait_longer_than_a_moment_for_its_commit() {
    let server = Server::start();
    for version in BOTH {
        let mut device = Connect::new(version, "device").open(&server);
        let began = std::time::Instant::now();
        for _ in 0..20 {
            device.publish(0x02, "a", "one at a time");
        }
        // 50 ms each are promised; a second each would be the stream's commit interval.
        assert!(began.elapsed().as_secs() < 10, "{version:?}: {:?}", began.elapsed());
    }
}
